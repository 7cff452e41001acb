"""``tenure node drain``: the plan first, then a question, then progress with blockers by name."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tenure.cli.options import WAIT_PATIENCE_S
from tenure.cli.output import Output, ago, columns, printable
from tenure.cli.verb import INTERRUPTED, Session
from tenure.client.client import Client
from tenure.model.errors import InvalidInput, NotFound, TenureError
from tenure.model.jsons import Json

POLL_S = 0.5
#: Blockers shown at a time in the live view; more are counted.
MAX_LINES = 20
PLAN_ERROR = 255

MOVES = columns(
    ("MOVES", "name"),
    "to",
    ("HOW", "method"),
    ("REASON", lambda m: f"{m['reason']}; {m['why']}" if m["why"] else m["reason"]),
)
UNDER_WAY = columns(
    ("MOVING", "name"),
    "to",
    ("HOW", "method"),
    "step",
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants of a drain."""

    node: str
    reason: str = ""
    timeout_s: float | None = None
    is_sure: bool = False
    is_waiting: bool = False


def show(out: Output, drain: Json) -> None:
    """Print a drain, or its plan, for people or as JSON."""
    out.data(drain, lambda found: _render(out, found))


def _render(out: Output, drain: Json) -> None:
    names = ("node", "state", "reason", "moved", "left", "switch_on", "foreign")
    out.fields([(name, drain[name]) for name in names])
    for rows, table in ((drain["moves"], MOVES), (drain["under_way"], UNDER_WAY)):
        if rows:
            out.table(rows, table)
    for blocker in drain["blockers"]:
        # sentences: a table of them would be folded at the edge of the terminal
        out.write(printable(_blocked(blocker)))


def plan(session: Session, node: str) -> int:
    """Show what a drain would do now; 0 nothing, 1 something, 255 error."""
    try:
        scheduling = session.client.node(node)["scheduling"]
        found = session.client.drain_node(node, is_dry=True)
    except TenureError as error:
        session.out.error(error)
        return PLAN_ERROR
    show(session.out, found)
    return int(bool(found["moves"]) or scheduling == "yes")


def cancel(session: Session, node: str) -> int:
    """End a drain."""
    show(session.out, session.client.cancel_drain(node))
    return 0


def drain(session: Session, wish: Wish) -> int:
    """Show the plan, ask, begin, and wait if wanted; 0 begun (or drained), 1 not."""
    if not wish.is_sure and not _agrees(session, wish.node):
        session.out.note("nothing was done")
        return 1
    client = session.client
    begun = client.drain_node(wish.node, reason=wish.reason, timeout_s=wish.timeout_s)
    if not wish.is_waiting:
        show(session.out, begun)
        return 0
    try:
        ended = _watch(session, begun)
    except KeyboardInterrupt:
        cancelling = f"tenure node drain {wish.node} --cancel"
        session.out.note(f"the drain of {wish.node} goes on; {cancelling} ends it")
        return INTERRUPTED
    show(session.out, ended)
    return 0 if ended["state"] == "drained" else 1


def _agrees(session: Session, node: str) -> bool:
    """Ask a person at a terminal after showing the plan; a script has to say --yes."""
    if session.flags.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInput(
            f"draining moves the containers of {node}: look at --dry-run, then add --yes "
            "(only a terminal is asked)"
        )
    _render(session.out, session.client.drain_node(node, is_dry=True))
    return typer.confirm(f"Drain {node}?", default=False, err=True)


def _watch(session: Session, drain: Json) -> Json:
    """Return the drain once it is over, telling its progress on stderr meanwhile."""
    client = session.client_with(WAIT_PATIENCE_S)
    if session.flags.is_quiet or not sys.stderr.isatty():
        return _follow(client, drain, _Teller(session.out).tell)
    console = Console(file=sys.stderr, markup=False, highlight=False, emoji=False)
    with Live(_picture(drain), console=console, transient=True, refresh_per_second=4) as live:
        return _follow(client, drain, lambda found: live.update(_picture(found)))


def _follow(client: Client, drain: Json, tell: Callable[[Json], None]) -> Json:
    """Poll until the drain is over; another drain of the node that came after it ended it."""
    latest = drain
    while latest["state"] == "draining":
        tell(latest)
        time.sleep(POLL_S)
        try:
            found: Json | None = client.node(drain["node"])["drain"]
        except NotFound:
            return {**latest, **_FORGOTTEN}  # no longer configured, and forgotten once empty
        if found is None or found["began_at"] != drain["began_at"]:
            return {**latest, "state": "cancelled"}
        latest = found
    tell(latest)
    return latest


_FORGOTTEN: Json = {"state": "drained", "left": 0, "moves": [], "under_way": [], "blockers": []}


def _picture(drain: Json) -> Group:
    lines = [f"{drain['node']} {drain['state']}: {drain['moved']} moved, {drain['left']} left"]
    for move in drain["under_way"][:MAX_LINES]:
        lines.append(f"  {move['name']} -> {move['to']} {move['method']}: {move['step']}")
    lines += [f"  {_blocked(blocker)}" for blocker in drain["blockers"][:MAX_LINES]]
    hidden = len(drain["blockers"]) - MAX_LINES
    if hidden > 0:
        lines.append(f"  and {hidden} more blockers")
    return Group(*(Text(printable(line)) for line in lines))


def _blocked(blocker: Json) -> str:
    word = "waits for" if blocker["is_passing"] else "blocked by"
    when = f", {ago(blocker['until'])}" if blocker["until"] else ""
    told = f"{blocker['reason']}; {blocker['remedy']}"
    return f"{word} {blocker['name']} ({blocker['code']}{when}): {told}"


class _Teller:
    """Tells every change of a drain once, line by line, where nobody looks at a terminal."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._count = ""
        self._blockers: set[tuple[str, str]] = set()

    def tell(self, drain: Json) -> None:
        """Tell what is new since the last time."""
        count = f"{drain['node']} {drain['state']}: {drain['moved']} moved, {drain['left']} left"
        if count != self._count:
            self._count = count
            self._out.note(count)
        now = {(b["id"], b["code"]) for b in drain["blockers"]}
        for blocker in drain["blockers"]:
            if (blocker["id"], blocker["code"]) not in self._blockers:
                self._out.note(_blocked(blocker))
        self._blockers = now
