"""``tenure service``: so many containers of a template, kept there and updated."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from tenure.cli import files
from tenure.cli.draining import PLAN_ERROR
from tenure.cli.options import WAIT_PATIENCE_S, Timeout
from tenure.cli.output import ago, columns, printable
from tenure.cli.verb import Noun, Session, verb
from tenure.cli.watching import looks
from tenure.client.client import Client
from tenure.model.errors import InvalidInput, TenureError
from tenure.model.jsons import Json

app = typer.Typer(help="Services: apply, scale, update, wait, remove.", no_args_is_help=True)
update_app = typer.Typer(help="Updates of services: pause, resume.", no_args_is_help=True)
app.add_typer(update_app, name="update")

Ref = Annotated[str, typer.Argument(help="Its name.", metavar="SERVICE")]
COLUMNS = columns(
    "name image state",
    ("READY", lambda s: f"{s['ready']}/{s['replicas']}"),
    "revision",
    ("AGE", "created_at", ago),
    ("REASON", lambda s: s["reason"] or s["failure"]),
)
CONTAINERS = columns("name state health node revision reason")
STEPS = columns(("DO", "act"), "container", "why")
FIELDS = "name image state replicas ready reason failure revision update created_at"


def _changed(verb: str) -> Callable[[Client, str], Json]:
    return partial(Client.change_service, verb=verb)


SERVICES = Noun(app, COLUMNS, "SERVICE", help="Names.", key="name")
SERVICES.listing("ls", Client.services, "List the services.")
SERVICES.each("rm", Client.remove_service, "Remove services with their containers.")
SERVICES.each("rollback", _changed("rollback"), "Go back to the revision before.")
UPDATES = Noun(update_app, COLUMNS, "SERVICE", help="Names.", key="name")
UPDATES.each("pause", _changed("pause"), "Hold updates where they are.")
UPDATES.each("resume", _changed("resume"), "Let updates go on.")


@verb(app, "apply")
def apply(
    session: Session,
    *,
    file: Annotated[str, typer.Option("--file", "-f", help="YAML or JSON, - for stdin.")],
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Show the plan alone.")] = False,
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> int:
    """Make services as the file says, or change them to that; shows the plan and asks first.

    With --dry-run the exit code is 0: no change, 1: changes, 255: error.
    """
    if is_dry:
        try:
            plans = _plans(session, files.documents(file))
        except TenureError as error:
            session.out.error(error)
            return PLAN_ERROR
        return int(any(plan["steps"] for plan in plans))
    documents = files.documents(file)
    if not is_sure:
        if session.flags.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InvalidInput("look at --dry-run, then add --yes (only a terminal is asked)")
        if not any(plan["steps"] for plan in _plans(session, documents)):
            return 0
        if not typer.confirm("Apply?", default=False, err=True):
            session.out.note("nothing was done")
            return 1
    found: list[Json] = []
    try:
        for document in documents:
            found.append(session.client.apply_service(document))
    except TenureError:
        left = f"; {len(documents) - len(found) - 1} more in the file not applied"
        session.out.note(f"{documents[len(found)].get('name', 'service')} was refused{left}")
        raise
    finally:
        if found:
            session.out.rows(found, COLUMNS, key="name")
    return 0


def _plans(session: Session, documents: list[Json]) -> list[Json]:
    """Print what an apply would do, and return it."""
    plans = [session.client.plan_service(document) for document in documents]
    steps = [step for plan in plans for step in plan["steps"]]
    if steps or session.out.is_json:
        session.out.data(plans, lambda _: session.out.table(steps, STEPS))
    else:
        session.out.note("no change")
    return plans


@verb(app, "inspect")
def inspect(session: Session, service: Ref) -> None:
    """Show one service with its containers."""

    def render(found: Json) -> None:
        session.out.fields([(name, found[name]) for name in FIELDS.split()])
        session.out.table(found["containers"], CONTAINERS)

    session.out.data(session.client.service(service), render)


@verb(app, "scale")
def scale(session: Session, service: Ref, replicas: Annotated[int, typer.Argument(min=0)]) -> None:
    """Have another number of containers."""
    session.out.rows([session.client.scale_service(service, replicas)], COLUMNS, key="name")


@verb(app, "wait")
def wait(session: Session, service: Ref, *, timeout: Timeout = None) -> int:
    """Wait until all of its containers are ready and no update is under way.

    The exit code is 1, and the reason is told, where that does not come or an update was undone.
    """
    client = session.client_with(WAIT_PATIENCE_S)
    told = ""
    for _ in looks(timeout):
        found = client.service(service)
        why = found["reason"] or found["failure"]
        line = f"{found['name']} {found['state']}: {found['ready']} of {found['replicas']} ready"
        line += f"; {why}" if why else ""
        if line != told:
            told = line
            session.out.note(printable(line))
        if found["state"] == "steady":
            break
    session.out.rows([found], COLUMNS, key="name")
    return int(found["state"] != "steady" or bool(found["failure"]))
