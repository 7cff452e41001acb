"""The generated blocks of `docs/reproduction-sla.md`: every number of the document is in one.

A block begins with its command, date and machine, as those of the benchmarks do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reproductions.errors import StudyError
from reproductions.sla import claims, table
from reproductions.sla.matrix import AUTHORS, LOADS, MILP_JOBS, MODES
from reproductions.sla.table import Means
from reproductions.sla.theirs import Runs

#: Tables 4 and 5 of the paper, in microseconds.
PAPER_SMALL = {"fifo": "0.18", "fifo_c": "0.20", "asq": "0.31", "ff": "0.28", "gio": "0.40"}
PAPER_SMALL |= {"milp": "1,850,000"}
PAPER_LARGE = {"fifo": "0.20", "fifo_c": "0.24", "asq": "0.047", "ff": "0.33", "gio": "0.83"}
#: The authors' simulator with a clock in nanoseconds, medians of 5 runs (its ILP: means, in ms).
THEIR_SMALL = {"fifo": "17-18", "fifo_c": "19-21", "asq": "32-37", "ff": "21-24", "gio": "19-25"}
THEIR_SMALL |= {"milp": "136,000-165,000"}
THEIR_LARGE = {"fifo": "4.0-4.3", "fifo_c": "7.0-8.1", "asq": "27", "ff": "7.1-10.9"}
THEIR_LARGE |= {"gio": "10.4-12.2"}
FIGURES = {"figure-2": "light", "figure-3": "high"}
BEGIN = re.compile(r"<!-- begin (\S+) -->\n(.*?)<!-- end \1 -->", re.DOTALL)
HEAD = re.compile(r"`[^`]+`, \d{4}-\d\d-\d\d \d\d:\d\d UTC, on \d+ cores of .+, Python .+\.\n")
COMMAND = "python -m reproductions sla --write"


#: Kinds of studies whose workloads are drawn.
KINDS = ("small", "milp", "local-first", "large")
#: What stands in a block that was never made.
NOTHING = "Not measured yet.\n"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a document is made of: means by study, the authors' runs, when and where."""

    studies: Mapping[str, Means]
    theirs: Runs
    at: datetime
    machine: Mapping[str, Any]


Maker = Callable[[Taken], list[str]]


def names() -> tuple[str, ...]:
    """Return the names of all blocks."""
    return tuple(_makers())


def _makers() -> dict[str, tuple[tuple[str, ...], Maker]]:
    """Return the studies that each block needs, and what makes its lines of them."""
    drawn = {kind: tuple(f"{kind}-{load}" for load in LOADS) for kind in KINDS}
    every = tuple(name for part in drawn.values() for name in part)
    return {
        "claims": (every, _claims),
        **{name: ((f"small-{load}",), _figure(load)) for name, load in FIGURES.items()},
        "figure-4": (drawn["small"], _met),
        "figure-5": (drawn["small"], _durations),
        **{
            f"figure-6-{load}": ((f"large-{load}", f"local-first-{load}"), _large(load))
            for load in LOADS
        },
        "table-4": (drawn["small"] + drawn["milp"], _small_delays),
        "table-5": (drawn["large"], _large_delays),
        "optimum": (drawn["milp"], _optimum),
        **{
            f"authors-{name}-{mode}": ((f"authors-{name}",), _authors(name, mode))
            for name in AUTHORS
            for mode in MODES
        },
    }


def replaced(text: str, taken: Taken) -> str:
    """Return the document with its blocks made anew; StudyError if it has not just these.

    A block that needs a study which was not run stays as it is.
    """
    found = [name for name, _ in BEGIN.findall(text)]
    if sorted(found) != sorted(names()):
        odd = sorted(set(found) ^ set(names()))
        raise StudyError(f"the document's blocks are not those that are made: {', '.join(odd)}")
    makers = _makers()

    def made(match: re.Match[str]) -> str:
        needs, lines = makers[match[1]]
        if not taken.studies.keys() >= set(needs):
            return match[0]
        body = "\n".join([head(taken), "", *lines(taken)])
        return f"<!-- begin {match[1]} -->\n{body}\n<!-- end {match[1]} -->"

    return BEGIN.sub(made, text)


def head(taken: Taken) -> str:
    """Return the first line of a block."""
    place = taken.machine
    return (
        f"`{COMMAND}`, {taken.at:%Y-%m-%d %H:%M} UTC, on {place['cores']} cores of "
        f"{place['cpu']}, {place['memory_gib']} GiB, Linux {place['kernel']}, Python "
        f"{place['python']}."
    )


def rows_of(body: str) -> list[tuple[str, ...]]:
    """Return the rows of the tables of a block, heads left out; StudyError for one that is torn.

    Torn means: without a command, without a row, or with rows of different lengths.
    """
    if not HEAD.match(body):
        raise StudyError("a block does not begin with its command, date and machine")
    rows: list[tuple[str, ...]] = []
    widths: set[int] = set()
    heads = 0
    for line in filter(lambda line: line.startswith("|"), body.splitlines()):
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        widths.add(len(cells))
        if cells[0] == "---":  # what stands above it is a head
            heads += len(rows[-1:])
            rows = rows[:-1]
        else:
            rows.append(cells)
    if not heads or not rows or len(widths) != 1:
        raise StudyError("a block has no whole table")
    return rows


def _claims(taken: Taken) -> list[str]:
    heads = ("the paper says", "section", "here", "")
    return table.table(heads, [found.cells() for found in claims.verdicts(taken.studies)])


def _figure(load: str) -> Maker:
    return lambda taken: [
        *table.by_policy(taken.studies[f"small-{load}"], "off"),
        "",
        _note(taken.studies[f"small-{load}"], "1,000 jobs"),
    ]


def _note(means: Means, jobs: str) -> str:
    seeds = next(iter(means.values()))["seeds"]
    return (
        f"Dollars ± 95 % (deadlines met; mean duration, waiting included): means over {seeds} "
        f"seeds of {jobs} each."
    )


def _met(taken: Taken) -> list[str]:
    panels = {
        f"{load} load, {'constraint on' if mode == 'on' else 'every job runs'}": (
            taken.studies[f"small-{load}"],
            mode,
        )
        for mode in MODES
        for load in LOADS
    }
    below = [
        line
        for load in LOADS
        for line in (
            "",
            f"Cost and duration beside it, constraint on, {load} load:",
            "",
            *table.by_policy(taken.studies[f"small-{load}"], "on"),
        )
    ]
    return [*table.shares(panels, "1"), "", "Pricing 1, means over seeds ± 95 %.", *below]


def _durations(taken: Taken) -> list[str]:
    panels = {f"{load} load": (taken.studies[f"small-{load}"], "off") for load in LOADS}
    return [
        *table.durations(panels, "1"),
        "",
        "Pricing 1, every job runs, means over seeds ± 95 %.",
    ]


def _large(load: str) -> Maker:
    def made(taken: Taken) -> list[str]:
        first = {"local nodes first": taken.studies[f"local-first-{load}"]}
        means = taken.studies[f"large-{load}"]
        return [*table.by_policy(means, "off", first), "", _note(means, "10,000 jobs")]

    return made


def _small_delays(taken: Taken) -> list[str]:
    panels = {f"{load} load": taken.studies[f"small-{load}"] for load in LOADS}
    panels |= {f"{MILP_JOBS} jobs, {load}": taken.studies[f"milp-{load}"] for load in LOADS}
    return _delays(panels, PAPER_SMALL, THEIR_SMALL)


def _large_delays(taken: Taken) -> list[str]:
    panels = {f"{load} load": taken.studies[f"large-{load}"] for load in LOADS}
    return _delays(panels, PAPER_LARGE, THEIR_LARGE)


def _delays(
    panels: Mapping[str, Means], paper: Mapping[str, str], theirs: Mapping[str, str]
) -> list[str]:
    note = (
        "Of all questions put to the policy, those without room included, by finished job; pricing "
        "1, every job runs, beside other work on the same cores. `milp` runs uncompiled."
    )
    return [*table.delays(panels, paper, theirs), "", note]


def _optimum(taken: Taken) -> list[str]:
    light, high = (table.by_policy(taken.studies[f"milp-{load}"], "off") for load in LOADS)
    note = _note(taken.studies["milp-light"], f"{MILP_JOBS} jobs")
    return ["Light load:", "", *light, "", "High load:", "", *high, "", note]


def _authors(name: str, mode: str) -> Maker:
    return lambda taken: table.with_theirs(
        taken.studies[f"authors-{name}"], mode, taken.theirs, AUTHORS[name].theirs
    )
