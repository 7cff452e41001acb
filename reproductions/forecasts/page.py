"""The generated blocks of `docs/forecasts.md`: every number of the document is in one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reproductions.errors import StudyError
from reproductions.forecasts.study import Row, Study
from reproductions.forecasts.traces import TRACES

BEGIN = re.compile(r"<!-- begin (\S+) -->\n(.*?)<!-- end \1 -->", re.DOTALL)
COMMAND = "python -m reproductions forecasts --write"
COVERED = (0.98, 0.995)
#: Loss below the best baseline's by this share is the goal.
GAIN = 0.10


@dataclass(frozen=True, slots=True)
class Taken:
    """What the document is made of, and when and where it was measured."""

    studies: Sequence[Study]
    side: str
    at: datetime
    machine: Mapping[str, Any]


def replaced(text: str, taken: Taken) -> str:
    """Return the document with its blocks made anew; StudyError if it has not just these."""
    made = {"scores": _scores, "methods": _methods, "curve": _curve, "margins": _margins}
    found = [name for name, _ in BEGIN.findall(text)]
    if sorted(found) != sorted(made):
        raise StudyError(f"the document needs just the blocks {', '.join(sorted(made))}")

    def fill(match: re.Match[str]) -> str:
        body = "\n".join([_head(taken), "", *made[match[1]](taken)])
        return f"<!-- begin {match[1]} -->\n{body}\n<!-- end {match[1]} -->"

    return BEGIN.sub(fill, text)


def _head(taken: Taken) -> str:
    place = taken.machine
    return (
        f"`{COMMAND}`, {taken.at:%Y-%m-%d %H:%M} UTC, machines of side {taken.side}, on "
        f"{place['cores']} cores of {place['cpu']}, {place['memory_gib']} GiB, Linux "
        f"{place['kernel']}, Python {place['python']}."
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *("---:" for _ in heads[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]


def best_baseline(study: Study) -> Row:
    """Return the baseline with the least loss."""
    return min(study.rows[:-2], key=lambda row: row.loss)


def gain(study: Study, row: Row) -> float:
    """Return by which share a method loses less than the best baseline."""
    return 1 - row.loss / best_baseline(study).loss


def _scores(taken: Taken) -> list[str]:
    heads = ("trace", "machines", "forecasts", "coverage", "98 to 99.5 %", "loss, of mean use",
             "best baseline's", "less by", "10 % less", "harvested of free", "s")  # fmt: skip
    rows = []
    for study in taken.studies:
        ours, best = study.rows[-1], best_baseline(study)
        is_stress = TRACES[study.trace].is_stress
        covered = COVERED[0] <= ours.coverage <= COVERED[1]
        rows.append(
            (
                study.trace,
                f"{study.count}",
                f"{study.count * len(study.days) - study.cold}",
                f"{ours.coverage:.2%}",
                "no goal" if is_stress else "met" if covered else "**not met**",
                f"{ours.loss:.5f}",
                f"{best.loss:.5f} ({best.method})",
                f"{gain(study, ours):.1%}",
                "no goal" if is_stress else "met" if gain(study, ours) >= GAIN else "**not met**",
                f"{ours.harvest:.1%}",
                f"{study.took_s:.0f}",
            )
        )
    return _table(heads, rows)


def _methods(taken: Taken) -> list[str]:
    heads = ("trace", "method", "coverage", "loss, of mean use", "median machine's",
             "harvested, of what was free")  # fmt: skip
    rows = [
        (
            study.trace,
            row.method,
            f"{row.coverage:.2%}",
            f"{row.loss:.5f}",
            f"{row.loss_median:.5f}",
            f"{row.harvest:.1%}",
        )
        for study in taken.studies
        for row in study.rows
    ]
    return _table(heads, rows)


def _curve(taken: Taken) -> list[str]:
    levels = [row.method for row in taken.studies[0].curve]
    rows = [
        (study.trace, *(f"{row.coverage:.2%}, {row.loss:.5f}" for row in study.curve))
        for study in taken.studies
    ]
    return _table(("trace", *(f"calibrated to {level}" for level in levels)), rows)


def _margins(taken: Taken) -> list[str]:
    heads = ("trace", "fixed margin", "dynamic one's base", "harvest, of capacity: fixed",
             "dynamic", "steps beyond it: fixed", "dynamic", "less by", "mean excess: fixed",
             "dynamic")  # fmt: skip
    rows = [
        (
            study.trace,
            f"{row.fixed:.0%}",
            f"{row.base:.2%}",
            f"{row.harvest:.2%}",
            f"{row.harvest_dynamic:.2%}",
            f"{row.violations_fixed:.3%}",
            f"{row.violations_dynamic:.3%}",
            _less(row.violations_dynamic, row.violations_fixed),
            f"{row.excess_fixed:.6f}",
            f"{row.excess_dynamic:.6f}",
        )
        for study in taken.studies
        for row in study.margins
    ]
    return _table(heads, rows)


def _less(ours: float, theirs: float) -> str:
    return f"{1 - ours / theirs:.0%}" if theirs > 0 else "-" if ours > 0 else "both none"
