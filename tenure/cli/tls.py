"""``tenure tls``: an authority of one's own, and certificates for daemons, engines and people."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli.verb import Session, verb
from tenure.model.errors import FieldError, InvalidInput

if TYPE_CHECKING:  # the other commands must not pay for it
    from tenure.config.authority import Issued

app = typer.Typer(help="TLS: make an authority, issue certificates.", no_args_is_help=True)

Folder = Annotated[Path, typer.Option("--dir", help="The folder of the authority.")]
Days = Annotated[int, typer.Option(help="How long it is good for.", min=1, max=36_500)]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@verb(app, "init")
def init(
    session: Session,
    *,
    folder: Folder = Path("tls"),
    name: Annotated[str, typer.Option(help="What the authority calls itself.")] = "tenure",
    days: Days = 3650,
) -> None:
    """Make an authority: ca.pem is what everybody trusts, ca.key signs and stays here."""
    from tenure.config import authority

    made = authority.init(folder, name, days=days)
    _tell(session, made)
    session.out.note(f"keep {made.key} to yourself: whoever has it can pass for anybody")
    session.out.note("next: tenure tls issue api --server NAME-OF-THIS-MACHINE")


@verb(app, "issue")
def issue(
    session: Session,
    name: Annotated[str, typer.Argument(help="Whose it is; tls.roles gives it a role.")],
    *,
    server: Annotated[
        list[str] | None,
        typer.Option(help="A host name or address under which it serves; may be given again."),
    ] = None,
    folder: Folder = Path("tls"),
    days: Days = 365,
) -> None:
    """Issue a certificate: with --server for a daemon, an agent or an engine; else for a client."""
    from tenure.config import authority

    if not _NAME.fullmatch(name) or name == authority.CA:
        words = "must be letters, digits, _ . or -, and another than ca"
        raise InvalidInput(f"NAME {words}", fields=(FieldError("name", words),))
    made = authority.issue(folder, name, server or (), days=days)
    _tell(session, made)
    ca = folder / f"{authority.CA}.pem"
    if made.hosts:
        names = ", ".join(made.hosts)
        session.out.note("for the API, in tenured.yml (docs/security.md has engines and agents):")
        session.out.note('  listen: [unix:///run/tenure/tenured.sock, "https://0.0.0.0:7443"]')
        session.out.note(f"  tls: {{cert: {made.cert}, key: {made.key}, names: [{names}]}}")
    else:
        session.out.note(f"  tls: {{..., client_ca: {ca}, roles: {{{name}: read}}}}")
        session.out.note(f"  TENURE_CERT={made.cert} TENURE_KEY={made.key} TENURE_CA={ca}")


def _tell(session: Session, made: Issued) -> None:
    shown = {key: str(value) for key, value in asdict(made).items()} | {"hosts": list(made.hosts)}
    shown["until"] = made.until.isoformat(timespec="seconds")
    session.out.line(shown, f"{made.cert} and {made.key}, good until {made.until.date()}")
