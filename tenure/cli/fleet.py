"""``tenure cost``, ``events``, ``version`` and ``config``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tenure import __version__
from tenure.cli.output import span, usd
from tenure.cli.verb import Session, verb
from tenure.model.errors import FieldError, InvalidInput, TenureError
from tenure.model.jsons import Json

config_app = typer.Typer(help="The daemon's configuration.", no_args_is_help=True)
#: A follower of events bears the daemon's absence; a person ends it with Ctrl-C.
FOLLOW_PATIENCE_S = 3600.0


def cost(
    session: Session,
    *,
    since: Annotated[str, typer.Option(help="ISO 8601 time; the beginning by default.")] = "",
    until: Annotated[str, typer.Option(help="ISO 8601 time; now by default.")] = "",
) -> None:
    """Show what the nodes cost, by site, generation, node and job."""

    def render(found: Json) -> None:
        rows = [_row("total", "", found["total"])]
        rows += [_row("services", "", found["services"]), _row("idle", "", found["idle"])]
        for key in ("site", "generation", "node", "job"):
            rows += [_row(key, name, amount) for name, amount in found[f"by_{key}"].items()]
        on_s = found["on_s"]
        for row in rows:
            is_node = row["by"] == "node"
            row["on"] = span(on_s.get(row["name"], 0)) if is_node else ""
        session.out.table(
            rows,
            [
                ("BY", lambda r: r["by"]),
                ("NAME", lambda r: r["name"]),
                ("COST", lambda r: usd(r["cost_usd"])),
                ("ON", lambda r: r["on"]),
            ],
        )

    session.out.data(session.client.cost(since=since, until=until), render)


def _row(by: str, name: str, amount: Json) -> Json:
    return {"by": by, "name": name, "cost_usd": amount["cost_usd"]}


def events(
    session: Session,
    *,
    is_following: Annotated[bool, typer.Option("--follow", "-f", help="Go on for ever.")] = False,
    after: Annotated[
        int | None, typer.Option(min=0, help="After this number; followers begin now by default.")
    ] = None,
    types: Annotated[str, typer.Option(help="Only these types, separated by commas.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """Print what happened; without --follow the newest events."""
    if is_following:
        client = session.client_with(FOLLOW_PATIENCE_S)
        for event in client.follow_events(after, types=types):
            session.out.line(event, _text(event))
        return
    begin = after
    if begin is None:
        last = session.client.events(limit=1)["last_seq"]
        begin = max(0, last - limit)
    found = session.client.events(after=begin, limit=limit, types=types)
    if found["has_gap"]:
        session.out.note(f"events before {found['first_seq']} are no longer kept")
    for event in found["items"]:
        session.out.line(event, _text(event))


def _text(event: Json) -> str:
    if event["type"] == "gap":
        return f"-- events {event['from']} to {event['to']} are no longer kept"
    at = datetime.fromisoformat(event["at"]).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    data = " ".join(f"{key}={value}" for key, value in event["data"].items())
    return f"{at} {event['seq']:>6} {event['type']:<22} {event['subject']} {data}".rstrip()


def version(session: Session) -> None:
    """Show the versions of this command and of the daemon."""
    found: Json = {"client": __version__}
    try:
        found["daemon"] = session.client.version()["version"]
    except TenureError as error:
        found["daemon"] = None
        session.out.note(error.detail)
    session.out.data(found, lambda pair: session.out.fields(pair.items()))


@verb(config_app, "validate")
def validate(
    session: Session,
    file: Annotated[
        Path | None, typer.Argument(help="tenured.yml; the defaults without one.", metavar="FILE")
    ] = None,
) -> int:
    """Check a configuration and list every fault with its path."""
    from tenure.config.load import validate as faults_of

    faults = faults_of(file, os.environ)
    if not faults:
        session.out.data({"faults": []}, lambda _: session.out.note("the configuration is valid"))
        return 0
    rows = [{"field": fault.path, "message": fault.message} for fault in faults]
    if session.out.is_json:
        session.out.data({"faults": rows}, lambda _: None)
        return InvalidInput.exit_code
    raise InvalidInput(_count(faults, file), fields=tuple(faults))


def _count(faults: Sequence[FieldError], file: Path | None) -> str:
    where = file.name if file is not None else "the configuration"
    if len(faults) == 1:
        return f"{where}: {faults[0].path}: {faults[0].message}"
    return f"{where} has {len(faults)} faults"


@verb(config_app, "import-genpack")
def import_genpack(
    session: Session,
    files: Annotated[
        list[Path],
        typer.Argument(help="GENPACK's config.yml, of one or both tools.", metavar="FILE"),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write it here, and what ssh needs beside it.")
    ] = None,
) -> None:
    """Turn GENPACK's configuration (Listings 8.1 and 8.2) into a tenured.yml."""
    from tenure.config.genpack import SSH_CONFIG
    from tenure.config.genpack import import_genpack as imported

    made = imported(files)
    if made.ssh_config and out is None:
        what = "is needed: the hosts are behind a proxy, which takes an ssh_config beside the file"
        raise InvalidInput(f"--out {what}", fields=(FieldError("--out", what),))
    answer = {"tenured_yml": made.text, "ssh_config": made.ssh_config, "notes": list(made.notes)}
    if out is not None:
        _write_new(out, made.text)
        if made.ssh_config:
            _write_new(out.with_name(SSH_CONFIG), made.ssh_config)
    session.out.data(answer, lambda _: None if out else session.out.write(made.text.rstrip("\n")))
    for note in made.notes:
        session.out.note(note)


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet: nobody's configuration is overwritten."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        what = f"{path} exists; name another file"
        raise InvalidInput(what, fields=(FieldError("--out", what),)) from None
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise InvalidInput(what, fields=(FieldError("--out", what),)) from error
