"""The generated blocks of `docs/benchmarks.md`: written by a command, parsed by a test.

A block stands between `<!-- begin NAME -->` and `<!-- end NAME -->`: what was run where and when,
a table of figures, and notes on how.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Report, shown

HEADS = ("figure", "median", "min to max (n)", "goal", "")
MARKS = {None: "", True: "met", False: "**not met**"}


@dataclass(frozen=True, slots=True)
class Taken:
    """A report with what a reader needs to judge and repeat it."""

    report: Report
    command: str
    at: datetime
    machine: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "benchmark": self.report.name,
            "command": self.command,
            "at": self.at.isoformat(timespec="seconds"),
            "machine": dict(self.machine),
            "figures": [figure.as_json() for figure in self.report.figures],
            "notes": list(self.report.notes),
            "is_met": self.report.is_met,
        }


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the document, parsed: its command ("" if nothing was measured yet) and rows."""

    name: str
    command: str
    rows: tuple[tuple[str, ...], ...]


def replaced(text: str, taken: Taken) -> str:
    """Return the document with the block of a report replaced; BenchError if it has none."""
    name = taken.report.name
    pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise BenchError(f"the document has no block <!-- begin {name} -->")
    return pattern.sub(lambda found: f"{found[1]}{rendered(taken)}{found[2]}", text)


def rendered(taken: Taken) -> str:
    """Return a block without its markers."""
    place = taken.machine
    lines = [
        f"`{taken.command}`, {taken.at:%Y-%m-%d %H:%M} UTC, on {place['cores']} cores of "
        f"{place['cpu']}, {place['memory_gib']} GiB, Linux {place['kernel']}, Python "
        f"{place['python']}.",
        "",
        _row(HEADS),
        _row(("---", "---:", "---:", "---:", "---")),
        *(_row(_cells(figure)) for figure in taken.report.figures),
        "",
        *(f"- {note}" for note in taken.report.notes),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(figure: Figure) -> tuple[str, ...]:
    spread = ""
    if len(figure.values) > 1:
        least, most = shown(min(figure.values)), shown(max(figure.values))
        spread = f"{least} to {most} ({len(figure.values)})"
    goal = "" if figure.goal is None else f"{figure.goal} {figure.unit}".strip()
    median = f"{shown(figure.median)} {figure.unit}".strip()
    return figure.what, median, spread, goal, MARKS[figure.is_met]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a document; BenchError for one that does not end or is no block."""
    begun = re.findall(r"<!-- begin (\S+) -->", text)
    found = re.findall(r"<!-- begin (\S+) -->\n(.*?)<!-- end \1 -->", text, re.DOTALL)
    if [name for name, _ in found] != begun:
        raise BenchError("a block of the document does not end")
    return [_parsed(name, body) for name, body in found]


def _parsed(name: str, body: str) -> Block:
    command = re.match(r"`([^`]+)`, \d{4}-\d\d-\d\d \d\d:\d\d UTC, on \d+ cores of .+\n", body)
    lines = [line for line in body.splitlines() if line.startswith("|")]
    rows = tuple(tuple(c.strip() for c in line.strip("|").split("|")) for line in lines[2:])
    if command is None:
        if body.strip() != "Not measured yet.":
            raise BenchError(f"block {name}: neither measured nor said not to be")
        return Block(name, "", ())
    if not rows or any(len(row) != len(HEADS) for row in rows):
        raise BenchError(f"block {name}: no table of figures")
    return Block(name, command[1], rows)
