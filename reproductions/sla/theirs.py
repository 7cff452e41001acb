"""What the authors' own simulator gave, from a file of its runs.

Columns: build, policy, workload, pricing, deadline_constraint (0, 1), queue, cost, dl_met_pct,
avg_dur_true, rc. Builds: `p155` is theirs as published; `p155c` mends the comparator of FIFO-C,
`p155g` has the paper's Algorithm 2 for GIO, `p155i` an ILP nearer to Eq. 16, `p155lf` the local
nodes first.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reproductions.errors import StudyError

#: Our name of a row: their build and policy.
BUILDS: Mapping[str, tuple[str, str]] = {
    "FIFO": ("p155", "RR"),
    "FIFO, local first": ("p155lf", "RR"),
    "FIFO-C": ("p155c", "RRC"),
    "AsQ": ("p155", "AQS"),
    "FF": ("p155", "FF"),
    "GIO": ("p155", "GIO"),
    "GIO, Algorithm 2": ("p155g", "GIO"),
    "LS": ("p155", "LS"),
    "ILP": ("p155", "ILP"),
    "ILP, nearer to Eq. 16": ("p155i", "ILP"),
}


@dataclass(frozen=True, slots=True)
class Theirs:
    """One run of theirs: dollars, share of deadlines met (0 to 1), mean duration in seconds."""

    cost_usd: float
    deadline_met_ratio: float
    mean_duration_s: float


#: By (name of BUILDS, workload, pricing, deadlines off or on).
Runs = Mapping[tuple[str, str, str, str], Theirs]


def read(path: Path) -> Runs:
    """Return their runs that did not fail, first come first served; StudyError for no such file."""
    names = {build: name for name, build in BUILDS.items()}
    found: dict[tuple[str, str, str, str], Theirs] = {}
    try:
        with gzip.open(path, "rt", newline="") as file:
            for row in csv.DictReader(file):
                name = names.get((row["build"], row["policy"]))
                if name is None or row["queue"] != "FCFS" or row["rc"] != "0":
                    continue
                mode = "on" if row["deadline_constraint"] == "1" else "off"
                found[name, row["workload"], row["pricing"], mode] = Theirs(
                    float(row["cost"]), float(row["dl_met_pct"]) / 100, float(row["avg_dur_true"])
                )
    except (OSError, EOFError, KeyError, ValueError) as error:
        raise StudyError(f"{path}: not the authors' runs: {error!r}") from None
    return found
