"""``tenure token``: who may do what."""

from __future__ import annotations

import os
import re
import stat
import sys
from typing import Annotated

import typer

from tenure.cli.output import ago, columns
from tenure.cli.verb import Noun, Session, verb
from tenure.client.client import Client
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.roles import Role

app = typer.Typer(help="Tokens: make, list, revoke.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Whose it is, or what for.", metavar="NAME")]
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"([0-9]{1,9})([smhd])")
COLUMNS = columns(
    "name role namespace state",
    ("MADE", "made_at", ago),
    ("BY", lambda t: "the daemon" if t["is_builtin"] else t["made_by"]),
    ("EXPIRES", lambda t: ago(t["expires_at"]) if t["expires_at"] else "never"),
)


def span_s(text: str, option: str) -> float:
    """Return the seconds of a text such as 30d, 12h, 90m or 45s. Raises InvalidInput."""
    match = _SPAN.fullmatch(text.strip())
    if match is None or not int(match[1]):
        words = "must be a span such as 30d, 12h or 90m"
        raise InvalidInput(f"{option} {words}", fields=(FieldError(option, words),))
    return float(int(match[1]) * _UNITS_S[match[2]])


@verb(app, "make")
def make(
    session: Session,
    name: Name,
    *,
    role: Annotated[Role, typer.Option(help="What it may do; the fewer the better.")],
    expires: Annotated[str, typer.Option(help="For how long: 30d, 12h, 90m; else for ever.")] = "",
) -> None:
    """Make a token and print it, once: it is not kept.

    Who has it asks with --token-file FILE, or TENURE_TOKEN. Roles: metrics < read < submit <
    operate < admin, and worker for the workers of cycles. With --namespace what it submits is of
    that namespace, and below operate it changes nothing else.
    """
    expires_s = span_s(expires, "--expires") if expires else None
    made = session.client.make_token(name, role.value, expires_s=expires_s)
    until = f" until {made['expires_at']}" if made["expires_at"] else ""
    session.out.note(f"token {name} may {role.value}{until}; it is shown this once:")
    session.out.data(made, lambda found: session.out.write(found["token"]))
    if _is_read_by_others():
        session.out.note("the file that it went to may be read by others: chmod 600 it")


def _is_read_by_others() -> bool:
    """Whether standard output is a file that other users may read."""
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))


TOKENS = Noun(app, COLUMNS, "NAME", "The tokens' names.", key="name")
TOKENS.listing(
    "ls", Client.tokens, "List the tokens, without their text; those that ended stay for a while."
)
TOKENS.each("revoke", Client.revoke_token, "Revoke tokens: the next request with them is refused.")
