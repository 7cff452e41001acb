"""``tenure container``: containers that live in generations and are moved by cycles."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from tenure.cli import files
from tenure.cli.options import WAIT_PATIENCE_S, File, Following, States, Tail, Timeout
from tenure.cli.output import ago, columns, size
from tenure.cli.verb import Noun, Session, verb
from tenure.cli.watching import CONTAINER_OVER, goes_on, looks, require_over, wait_until_over
from tenure.client.client import Client
from tenure.model.errors import TenureError
from tenure.model.jsons import Json

app = typer.Typer(help="Containers: run, list, inspect, stop, remove.", no_args_is_help=True)

Ref = Annotated[str, typer.Argument(help="Id, its beginning, or name.", metavar="CONTAINER")]
Refs = Annotated[list[str], typer.Argument(help="Ids or names.", metavar="CONTAINER...")]
Grace = Annotated[
    int | None, typer.Option("--time", "-t", min=0, help="Seconds from SIGTERM to SIGKILL.")
]
#: What `docker ps` calls running, what is on its way there, and what could not get there.
PRESENT = "accepted,waiting,creating,created,starting,running,stopping,moving,failed"

COLUMNS = columns(
    ("ID", lambda c: c["id"][:12]),
    "name image state health generation node incarnation",
    ("IN GENERATION SINCE", "since", ago),
    "reason",
)
MOVES = columns(
    ("MOVED", lambda m: ago(m["finished_at"] or m["created_at"])),
    ("FROM", "source"),
    ("TO", "target"),
    ("HOW", "method"),
    "step",
    ("DOWN", lambda m: None if m["downtime_s"] is None else f"{m['downtime_s']:.2f}s"),
    ("RUN", "run_id"),
    ("REASON", lambda m: m["reason"] or m["why"]),
)
VERDICT = columns(("CONTAINER", lambda v: v["container"][:12]), "to", ("HOW", "detail"))
ENDED = columns("name state", ("EXIT", "exit_code"), "reason")
FIELDS = (
    "id name app image state health restarts reason generation node engine_id incarnation since "
    "created_at started_at finished_at moved_at exit_code migrate overlap min_age_s constraints "
    "spread service"
)


@verb(app, "run")
def run(session: Session, file: File) -> None:
    """Submit containers: Docker's create body plus a name and tenure's options."""
    accepted = []
    try:
        for document in files.documents(file):
            accepted.append(session.client.create_container(document))
    finally:
        if accepted:
            session.out.rows(accepted, COLUMNS)


@verb(app, "ls", was="ps")
def ls(  # noqa: PLR0913 - each is an option
    session: Session,
    *,
    is_all: Annotated[bool, typer.Option("--all", "-a", help="Also those at rest.")] = False,
    state: States = "",
    app_name: Annotated[str, typer.Option("--app", help="Only this app.")] = "",
    generation: Annotated[str, typer.Option(help="Only this generation.")] = "",
    node: Annotated[str, typer.Option(help="Only this node.")] = "",
) -> None:
    """List the containers that run, are about to, or failed to begin."""
    chosen = state or ("" if is_all else PRESENT)
    found = session.client.containers(state=chosen, app=app_name, generation=generation, node=node)
    session.out.rows(found, COLUMNS)


def _measured(profile: Json | None) -> str:
    if profile is None:
        return "not yet"
    p90 = profile["p90"]
    text = f"{p90['cpus']:g} cpus, {size(p90['memory_bytes'])}"
    return f"{text} (90th percentile of {profile['samples']} samples)"


@verb(app, "inspect")
def inspect(session: Session, container: Ref) -> None:
    """Show one container with its profile and moves."""

    def render(found: Json) -> None:
        pairs = [(name, found[name]) for name in FIELDS.split()]
        reserved = found["request"]
        request = f"{reserved['cpus']:g} cpus, {size(reserved['memory_bytes'])}"
        session.out.fields([*pairs, ("reserved", request), ("used", _measured(found["profile"]))])
        if found["moves"]:
            session.out.table(found["moves"], MOVES)

    session.out.data(session.client.container(container), render)


@verb(app, "logs")
def logs(
    session: Session,
    container: Ref,
    *,
    is_following: Following = False,
    tail: Tail = None,
) -> None:
    """Print a container's log."""
    for part in session.client.container_logs(container, tail=tail, follow=is_following):
        session.out.binary(part)


CONTAINERS = Noun(app, COLUMNS, "CONTAINER")
CONTAINERS.each("start", Client.start_container, "Start stopped containers.")


@verb(app, "stop")
def stop(session: Session, containers: Refs, *, grace_s: Grace = None) -> int:
    """Stop containers; they keep their place."""
    client = session.client
    return session.each(containers, partial(client.stop_container, grace_s=grace_s), COLUMNS)


@verb(app, "move")
def move(
    session: Session,
    container: Ref,
    node: Annotated[str, typer.Argument(help="Where it is to go.", metavar="NODE")],
    *,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Say how it would move.")] = False,
    timeout: Timeout = None,
) -> int:
    """Move a container to a node, live where it can, and wait until it is there."""
    client = session.client_with(WAIT_PATIENCE_S)
    plan = client.move_container(container, node, is_dry=is_dry)
    if is_dry:
        session.out.rows([plan], VERDICT, key="container")
        return 0
    session.out.note(f"{container} moves to {node}: {plan['detail']}")
    with goes_on(session.out, f"it goes on; tenure container inspect {container} shows it"):
        for _ in looks(timeout):
            found = client.container(container)
            ours = [one for one in found["moves"] if one["id"] == plan["migration"]]
            if not ours or ours[0]["is_over"]:
                break
    session.out.rows(ours, MOVES)
    if not all(one["is_over"] for one in ours):
        raise TenureError(f"{container} is not on {node} yet", code="timeout")
    return int(found["node"] != node)


@verb(app, "rm")
def rm(session: Session, containers: Refs, *, grace_s: Grace = None) -> int:
    """Stop and remove containers for good."""
    client = session.client
    return session.each(containers, partial(client.remove_container, grace_s=grace_s), COLUMNS)


@verb(app, "wait")
def wait(session: Session, containers: Refs, *, timeout: Timeout = None) -> int:
    """Wait until containers have ended; the exit code is the first that is not 0."""
    client = session.client_with(WAIT_PATIENCE_S)
    told = f"they go on; tenure container wait {' '.join(containers)} waits again"
    with goes_on(session.out, told):
        over = wait_until_over(client.container, CONTAINER_OVER, containers, timeout, session.out)
    ended = [over[ref] for ref in containers if ref in over]
    session.out.rows(ended, ENDED)
    require_over(containers, over)
    return next((code for one in ended if (code := _code(one))), 0)


def _code(ended: Json) -> int:
    """Return the exit code of a container; 1 for one that has none, for it never ran."""
    code = ended["exit_code"]
    return int(code) if code is not None else int(ended["state"] == "failed")
