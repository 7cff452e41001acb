"""``tenure cycle``: generation cycles and their runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.options import States, Timeout
from tenure.cli.output import ago, columns, usd
from tenure.cli.verb import Noun, Session, verb
from tenure.cli.watching import goes_on, wait_for_run
from tenure.client.client import Client
from tenure.model.errors import NotFound, TenureError
from tenure.model.jsons import Json

app = typer.Typer(help="Generation cycles: list, run, plan.", no_args_is_help=True)

Cycle = Annotated[str, typer.Argument(help="The cycle's name.", metavar="CYCLE")]
#: A manual run that no worker takes fails after a minute; planning takes seconds.
PLAN_TIMEOUT_S = 120.0
PATIENCE_S = 60.0

COLUMNS = columns(
    "name kind",
    ("FROM", "source"),
    ("TO", "target"),
    ("WHEN", lambda c: c["cron"] or f"every {c['interval_s']:g}s"),
    "mode",
    ("NEXT DUE", "next_due_at", ago),
    ("LAST RUN", lambda c: _last(c["kind"], c["last_run"])),
)
RUNS = columns(
    ("RUN", "id"),
    "state",
    ("DUE", "due_at", ago),
    "moves accepted",
    ("DRY", "is_dry"),
    "reason",
)
MOVES = columns(
    ("CONTAINER", lambda m: m["container"][:12]),
    "from to answer reason",
)
KEPT = columns(
    ("STAYS", lambda k: k["container"][:12]),
    "code reason",
)


NODES = columns(
    "node",
    ("OUTLOOK", "code"),
    ("IDLE W", lambda n: f"{n['idle_w']:g}" if n["idle_w"] else "-"),
    ("PRICE/H", "price_usd_per_h", usd),
    "reason",
)


def _saving(run: Json) -> str:
    """Say what a plan saves: nodes, watts (modelled), money."""
    saving = run["saving"]
    nodes = "1 node" if saving["nodes"] == 1 else f"{saving['nodes']} nodes"
    text = f"{nodes}, {saving['idle_w']:g} W idle (modelled)"
    if saving["unknown_nodes"]:
        text += f" without {saving['unknown_nodes']} that state no watts"
    return f"{text}, {usd(saving['usd_per_h'])} an hour"


def _last(kind: str, run: Json | None) -> str:
    if run is None:
        return "-"
    moves = f", {run['accepted']} of {run['moves']} moves" if kind == "generation" else ""
    return f"{run['state']}{moves}, due {ago(run['due_at'])}"


Noun(app, COLUMNS, key="name").listing(
    "ls", Client.cycles, "List the cycles with their next due time and last run."
)


@verb(app, "runs")
def runs(
    session: Session,
    *,
    cycle: Annotated[str, typer.Option(help="Only runs of this cycle.")] = "",
    state: States = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 20,
) -> None:
    """List the newest runs."""
    session.out.rows(session.client.runs(cycle=cycle, state=state, limit=limit), RUNS)


@verb(app, "inspect")
def inspect(
    session: Session, run: Annotated[str, typer.Argument(help="The run's id.", metavar="RUN")]
) -> None:
    """Show one run: its moves with the answer to each, and what stayed and why."""
    _show(session, session.client.run(run))


def _show(session: Session, run: Json) -> None:
    def render(found: Json) -> None:
        names = ("id", "state", "reason", "due_at", "claimed_at", "finished_at")
        rows = [(name, found[name]) for name in names]
        if found["moves"]:
            rows += [("moves", len(found["moves"])), ("saves", _saving(found))]
        session.out.fields(rows)
        answers = {v["container"]: v["code"] for v in found["verdicts"]}
        moves = [{**m, "answer": answers.get(m["container"])} for m in found["moves"]]
        if moves:
            session.out.table(moves, MOVES)
        if found["nodes"]:
            session.out.table(found["nodes"], NODES)
        if found["kept"]:
            session.out.table(found["kept"], KEPT)

    session.out.data(run, render)


@verb(app, "run")
def run(
    session: Session,
    name: Cycle,
    *,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Show the plan, move nothing.")] = False,
    is_waiting: Annotated[bool, typer.Option("--wait", help="Wait until it is over.")] = False,
    timeout: Timeout = None,
) -> int:
    """Have a worker run a cycle now."""
    started = session.client.run_cycle(name, is_dry=is_dry)
    if not is_waiting:
        _show(session, started)
        return 0
    ended = _wait(session, started, timeout)
    _show(session, ended)
    return 0 if ended["state"] in ("done", "advised") else 1


def _wait(session: Session, started: Json, timeout_s: float | None) -> Json:
    client, key = session.client_with(PATIENCE_S), started["id"]
    with goes_on(session.out, f"run {key} goes on; tenure cycle inspect {key} shows it"):
        session.out.note(f"run {key}")
        return wait_for_run(client, key, timeout_s)


@verb(app, "plan", error_code=255)
def plan(session: Session, name: Cycle) -> int:
    """Show what a cycle would do now: moves, nodes freed, watts and cost saved, and what stays.

    CYCLE is its name, or the generation it takes containers from. Exit codes: 0 nothing, 1 moves,
    255 error.
    """
    started = session.client.run_cycle(_named(session, name), is_dry=True)
    ended = _wait(session, started, PLAN_TIMEOUT_S)
    if ended["state"] != "advised":
        raise TenureError(f"run {ended['id']} is {ended['state']}: {ended['reason'] or 'no plan'}")
    _show(session, ended)
    return 1 if ended["moves"] else 0


def _named(session: Session, name: str) -> str:
    """Return the cycle of that name, else the one that leaves the generation of that name."""
    cycles = session.client.cycles()
    if any(cycle["name"] == name for cycle in cycles):
        return name
    found = [str(cycle["name"]) for cycle in cycles if cycle["source"] == name]
    if len(found) > 1:
        raise NotFound(f"several cycles leave generation {name!r}: {', '.join(found)}; name one")
    if not found:
        raise NotFound(f"no cycle or generation {name!r}; `tenure cycle ls` lists them")
    return found[0]
