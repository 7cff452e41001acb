"""The document of the forecasts: its blocks were measured, its figures agree with the files."""

from __future__ import annotations

import csv
from datetime import UTC, datetime

from reproductions.forecasts import page
from reproductions.forecasts.cli import DOCUMENT, HEADS, MACHINES, PICTURES
from reproductions.forecasts.traces import TRACES

BODIES = dict(page.BEGIN.findall(DOCUMENT.read_text()))


def rows(block: str) -> list[list[str]]:
    lines = [line for line in BODIES[block].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_block_was_measured_by_the_command_on_machines_no_constant_was_chosen_on() -> None:
    for body in BODIES.values():
        assert body.startswith(f"`{page.COMMAND}`, ")
        assert "machines of side validation" in body.splitlines()[0]


def test_every_trace_is_in_every_table() -> None:
    for name in BODIES:
        assert {row[0] for row in rows(name)} == set(TRACES)


def test_the_margins_have_the_heads_that_the_command_writes() -> None:
    (head,) = [line for line in BODIES["margins"].splitlines() if line.startswith("| trace")]
    taken = page.Taken((), "validation", datetime(2026, 1, 1, tzinfo=UTC), {})
    assert head == page._margins(taken)[0]


def test_the_machines_file_has_every_machine_of_the_table() -> None:
    with (PICTURES / MACHINES).open() as file:
        head, *told = list(csv.reader(file))
    assert tuple(head) == HEADS
    for trace, machines, *_ in rows("scores"):
        assert sum(row[0] == trace for row in told) == int(machines)
    assert (PICTURES / "curve.svg").read_text().rstrip().endswith("</svg>")
