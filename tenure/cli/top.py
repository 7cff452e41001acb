"""``tenure top``: what nodes and containers use now, over and over."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tenure.cli.output import Column, ago, cell, columns, printable, size
from tenure.cli.verb import Session
from tenure.model.errors import Unavailable
from tenure.model.jsons import Json

#: Rows where nobody's screen bounds them.
ROWS = 20
#: Wider than any table.
WHOLE = 1000
#: Lines of a screen beside sums, rows and keys: headings and blank lines.
FRAME = 5
#: Rows that are asked for at least, however small the screen.
FEWEST = 2
INTERVAL_S = 2.0
KEYS = "q ends, c m d n a: most CPU, memory, disk, network, by name"


class Sort(StrEnum):
    """What the busiest are busy with; ``name``: by their names."""

    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    NET = "net"
    NAME = "name"


SORTS = dict(zip("cmdna", Sort, strict=True))


def _cores(amount: Json | None) -> str | None:
    return None if amount is None else f"{amount['cpus']:.2f}"


def _memory(amount: Json | None) -> str | None:
    return None if amount is None else size(amount["memory_bytes"])


def _lent(lent: Json | None) -> str | None:
    """Say how many cores tasks use of how many they may."""
    if lent is None:
        return None
    used = "?" if lent["cpus"] is None else f"{lent['cpus']:.2f}"
    return used if lent["limit_cpus"] is None else f"{used} of {lent['limit_cpus']:.2f}"


def _watts(node: Json) -> str | None:
    """Say what a node draws; a tilde stands for modelled."""
    if node["watts"] is None:
        return None
    return f"{'~' if node['watts_source'] == 'modelled' else ''}{node['watts']:.1f}"


def _runs(node: Json) -> str | None:
    """Say what is on a node, by kind."""
    tasks = node["lent"]["tasks"] if node["lent"] else 0
    kinds = (
        (node["containers"], "container"),
        (node["executors"], "executor"),
        (tasks, "task"),
    )
    told = [f"{count} {kind}{'s' if count > 1 else ''}" for count, kind in kinds if count]
    return ", ".join(told) or None


def _age(row: Json) -> str | None:
    """Say how old a sample is, and that it is older than it should be."""
    text = ago(row["sampled_at"]) if row["sampled_at"] else None
    return f"{text}, stale" if row["is_stale"] else text


def _observed(name: str, of: Callable[[Json], str]) -> Callable[[Json], str | None]:
    return lambda row: of(row["used"]) if name in row["observed"] else None


NODES = columns(
    ("NODE", "name"),
    "generation state",
    ("CPU", "used", _cores),
    ("REQUESTED", "requested", _cores),
    ("OF", "capacity", _cores),
    ("MEMORY", "used", _memory),
    ("REQUESTED", "requested", _memory),
    ("OF", "capacity", _memory),
    ("LENT", "lent", _lent),
    ("WATTS", _watts),
    ("RUNS", _runs),
    ("SAMPLED", _age),
)
CONTAINERS = columns(
    ("BUSIEST", "name"),
    "kind node",
    ("CPU", _observed("cpu_m", lambda u: f"{u['cpus']:.2f}")),
    ("REQUESTED", "requested", _cores),
    ("MEMORY", _observed("memory_bytes", lambda u: size(u["memory_bytes"]))),
    ("REQUESTED", "requested", _memory),
    ("DISK/S", _observed("disk_bytes_per_s", lambda u: size(u["disk_bytes_per_s"]))),
    ("NET/S", _observed("net_bytes_per_s", lambda u: size(u["net_bytes_per_s"]))),
    ("SAMPLED", _age),
)
#: What goes where the screen is too narrow for all, the first first. Who uses how much stays.
SPARED = (
    *("RUNS", "KIND", "WATTS", "GENERATION", "REQUESTED", "SAMPLED", "OF", "LENT", "STATE"),
    *("NET/S", "DISK/S", "NODE"),
)
#: But not what they are sorted by.
SORTED = {Sort.DISK: "DISK/S", Sort.NET: "NET/S"}


def top(  # noqa: PLR0913 - a command's options are what typer reads
    session: Session,
    *,
    sort: Annotated[Sort, typer.Option(help="What the busiest are busy with.")] = Sort.CPU,
    nodes: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Rows of nodes; as many as fit.")
    ] = None,
    containers: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Rows of containers; as many as fit.")
    ] = None,
    node: Annotated[str, typer.Option(help="Only this node.")] = "",
    generation: Annotated[str, typer.Option(help="Only nodes of this generation.")] = "",
    interval_s: Annotated[
        float, typer.Option("--interval", "-n", min=0.2, help="Seconds between two looks.")
    ] = INTERVAL_S,
    is_once: Annotated[
        bool, typer.Option("--once", help="Print it once; so does output to no terminal.")
    ] = False,
) -> None:
    """Show what nodes use, have requested and can give, and the busiest of what runs on them.

    Use is that of the last sample (`stats.interval_s`), so `SAMPLED` says how old it is; `-` is not
    known. LENT is what tasks of batches use of the cores that they may. WATTS with `~` are
    modelled. At a terminal q or Ctrl-C ends it, and c, m, d, n and a sort by CPU, memory, disk,
    network and name.
    """
    view = View(session, sort, {"node": node, "generation": generation}, (nodes, containers))
    is_live = sys.stdout.isatty() and not (is_once or session.out.is_json or session.out.is_quiet)
    if is_live:
        view.follow(interval_s)
    else:
        view.show()


class View:
    """What is asked for and shown; ``rows`` of nodes and of containers, None: as many as fit."""

    def __init__(
        self,
        session: Session,
        sort: Sort,
        chosen: dict[str, str],
        rows: tuple[int | None, int | None],
    ) -> None:
        self._session, self._sort = session, sort
        self._chosen, self._rows = chosen, rows

    def _ask(self, most: int) -> Json:
        nodes, containers = (most if rows is None else rows for rows in self._rows)
        query = {"sort": self._sort.value, "nodes": nodes, "containers": containers}
        return self._session.client.top({**query, **self._chosen})

    def show(self) -> None:
        """Print it once."""
        found, out = self._ask(ROWS), self._session.out
        if out.is_quiet and not out.is_json:
            for row in found["containers"]:
                out.write(row["id"])
        else:
            out.data(found, self._print)

    def _print(self, found: Json) -> None:
        """Print sums and tables, with a blank line before each table."""
        out = self._session.out
        for line in summary(found):
            out.write(line)
        for rows, cols in _tables(found):
            out.write("")
            out.table(rows, cols)

    def follow(self, interval_s: float) -> None:
        """Show it anew every ``interval_s`` until q or Ctrl-C; an absent daemon is waited for."""
        from rich.live import Live  # for those who look, not for each command

        screen = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        found, fault = self._ask(_most(screen)), ""
        try:
            with _keys() as pressed, Live(console=screen, screen=True, auto_refresh=False) as live:
                while True:
                    live.update(self._page(found, fault, screen), refresh=True)
                    key = pressed(interval_s)
                    if key in ("q", "Q"):
                        return
                    self._sort = SORTS.get(key, self._sort)
                    try:
                        found, fault = self._ask(_most(screen)), ""
                    except Unavailable as error:
                        fault = error.detail
        except KeyboardInterrupt:
            return

    def _page(self, found: Json, fault: str, screen: Console) -> Group:
        """Return a screen full: rows are shared by nodes and containers as these need them."""
        told = f"not up to date: {printable(fault)}" if fault else KEYS
        sums = summary({**found, "nodes": [], "containers": []})  # as long as they can become
        above = sum(len(Text(line).wrap(screen, screen.width)) for line in (*sums, told))
        room = max(FEWEST, screen.height - above - FRAME)
        containers = found["containers"]
        most = max(room // 2, room - len(containers))
        nodes = found["nodes"][: most if self._rows[0] is None else self._rows[0]]
        left = max(0, room - len(nodes)) if self._rows[1] is None else self._rows[1]
        shown = {**found, "nodes": nodes, "containers": containers[:left]}
        fitted = [
            _table_of(rows, self._fitting(screen, rows, columns))
            for rows, columns in _tables(shown)
        ]
        end = Text(told, style="red" if fault else "dim")
        return Group(_group(summary(shown), fitted), Text(""), end)

    def _fitting(self, screen: Console, rows: list[Json], columns: list[Column]) -> list[Column]:
        """Return the columns for which the screen is wide enough; cells are not cut short."""
        kept, whole = columns, screen.options.update(max_width=WHOLE)
        for name in (name for name in SPARED if name != SORTED.get(self._sort)):
            if screen.measure(_table_of(rows, kept), options=whole).maximum <= screen.width:
                break
            kept = [column for column in kept if column[0] != name]
        return kept


def _tables(found: Json) -> list[tuple[list[Json], list[Column]]]:
    """Return what has rows, with its columns."""
    both = ((found["nodes"], NODES), (found["containers"], CONTAINERS))
    return [(rows, columns) for rows, columns in both if rows]


def _table_of(rows: list[Json], columns: list[Column]) -> Table:
    """Return a table for the screen; rows that are not up to date stand back."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, _ in columns:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*(cell(of(row)) for _, of in columns), style="dim" if row["is_stale"] else "")
    return table


def _group(sums: Iterator[str], tables: list[Table]) -> Group:
    """Return the sums, and the tables below them with a blank line before each."""
    spaced = [part for table in tables for part in (Text(""), table)]
    return Group(*(Text(line) for line in sums), *spaced)


def summary(found: Json) -> Iterator[str]:
    """Yield the sums in a line or two, and what is missing from them."""
    fleet = found["fleet"]
    states = ", ".join(f"{count} {state}" for state, count in fleet["by_state"].items())
    yield f"{_count(fleet['nodes'], 'node')}{': ' if states else ''}{printable(states)}"
    used = fleet["used"] if fleet["measured_nodes"] else None
    asked, whole = fleet["requested"], fleet["capacity"]
    lent = f", {fleet['lent_cpus']:.2f} lent" if fleet["lent_cpus"] else ""
    cores = (
        f"CPU {_cores(used) or '-'} used{lent}, {asked['cpus']:g} requested of {whole['cpus']:g}"
    )
    memory = f"memory {_memory(used) or '-'} used, {_memory(asked)} requested of {_memory(whole)}"
    yield f"{cores}; {memory}{_power(fleet)}"
    ready, missing = fleet["by_state"].get("ready", 0), []
    if fleet["measured_nodes"] < ready:
        missing.append(
            f"use is known of {fleet['measured_nodes']} of {_count(ready, 'ready node')}"
        )
    if fleet["unsampled"]:
        missing.append(f"{_count(fleet['unsampled'], 'container')} without a sample yet")
    if fleet["stale_nodes"]:
        missing.append(f"{_count(fleet['stale_nodes'], 'node')} not heard of for long")
    if missing:
        yield f"{'; '.join(missing)} (a sample comes every {found['interval_s']:g} s)"
    hidden = fleet["nodes"] - len(found["nodes"]), fleet["sampled"] - len(found["containers"])
    if max(hidden) > 0:
        told = zip(hidden, ("node", "container"), strict=True)
        yield f"not shown: {', '.join(_count(n, kind) for n, kind in told if n > 0)}"


def _power(fleet: Json) -> str:
    if fleet["watts"] is None:
        return ""
    part = "" if fleet["watts_nodes"] == fleet["nodes"] else f" of {fleet['watts_nodes']} nodes"
    return f"; {fleet['watts']:.1f} W{part}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _most(screen: Console) -> int:
    """Return how many rows a screen has room for at most."""
    return max(FEWEST, screen.size.height - FRAME)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits so many seconds for a key and returns it, "" for none.

    Keys are read one by one and not shown; the terminal is what it was before at the end.
    """
    if not sys.stdin.isatty():
        yield _no_keys
        return
    import termios
    import tty

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def pressed(wait_s: float) -> str:
        if not select.select([fd], [], [], wait_s)[0]:
            return ""
        typed = os.read(fd, 1)
        return typed.decode(errors="replace") if typed else "q"  # the terminal has gone

    try:
        tty.setcbreak(fd)
        yield pressed
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _no_keys(wait_s: float) -> str:
    time.sleep(wait_s)
    return ""
