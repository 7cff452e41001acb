"""What is simulated: the paper's settings over seeds, and the authors' own workloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reproductions import ROOT
from tenure.simulation.sla.compare import Study, run_study
from tenure.simulation.sla.options import Options
from tenure.simulation.sla.sources import Source

Json = dict[str, Any]

SMALL = ROOT / "examples/sla/small.yml"
LARGE = ROOT / "examples/sla/large.yml"
#: The same nodes under names by which round robin begins with the local ones.
LOCAL_FIRST = Path(__file__).with_name("large-local-first.yml")

#: The paper's baselines and proposals, then ours.
PAPER = ("fifo", "fifo_c", "asq", "ff", "gio")
POLICIES = (*PAPER, "exact", "tenure")
#: FIFO-C as the authors' simulator has it, which is not what the paper says.
THEIR_FIFO_C = "fifo_c_free"
PRICINGS = ("1", "2", "3", "4")
LOADS = ("light", "high")
MODES = ("off", "on")
#: A study of this ending adds to the tables of the one that it is named after.
MORE = "-tenure"
SEEDS = 5
#: Policy ``milp`` takes some hundred times as long as ``exact``: fewer jobs, one pricing model.
MILP_JOBS = 200


@dataclass(frozen=True, slots=True)
class AuthorsSet:
    """A workload of the authors: its name in their results, cluster, file, tolerance."""

    theirs: str
    cluster: Path
    file: str
    tolerance_s: int


AUTHORS = {
    "small-light": AuthorsSet("small-low", SMALL, "rm_small_light.csv.gz", 1000),
    "small-high": AuthorsSet("small-high", SMALL, "rm_small_high.csv.gz", 5000),
    "large-light": AuthorsSet("large-light", LARGE, "rm_large_light.csv.gz", 1000),
    "large-high": AuthorsSet("large-high", LARGE, "rm_large_high.csv.gz", 5000),
}


def studies(folder: Path, *, is_quick: bool = False) -> dict[str, Study]:
    """Return the studies by name; ``folder`` holds the authors' workloads.

    Quick ones have few jobs and seeds: they show that all works, their figures say nothing.
    """
    authors = {f"authors-{name}": _authors(name, folder, is_quick=is_quick) for name in AUTHORS}
    kinds = (("small", _small), ("milp", _milp), ("local-first", _local_first), ("large", _large))
    drawn = {
        f"{kind}-{load}": study(load, is_quick=is_quick) for kind, study in kinds for load in LOADS
    }
    return authors | drawn | _planned(is_quick=is_quick)


def _seeds(*, is_quick: bool) -> tuple[int, ...]:
    return tuple(range(1, 3 if is_quick else SEEDS + 1))


def _small(load: str, *, is_quick: bool) -> Study:
    source = Source(f"paper:{load}", jobs=30 if is_quick else 1000)
    seeds = _seeds(is_quick=is_quick)
    return Study(SMALL, source, _policies(load), PRICINGS, MODES, seeds)


def _large(load: str, *, is_quick: bool) -> Study:
    source = Source(f"paper:{load}", jobs=30 if is_quick else 10_000)
    seeds = _seeds(is_quick=is_quick)
    return Study(LARGE, source, _policies(load), PRICINGS, ("off",), seeds)


def _policies(load: str) -> tuple[str, ...]:
    return POLICIES if load == "light" else tuple(name for name in POLICIES if name != "tenure")


def _planned(*, is_quick: bool) -> dict[str, Study]:
    """Return what ``tenure`` does at high load, which takes longer than all the others do.

    On the small cluster hundreds wait, all of whom it plans at every arrival: one pricing model.
    """
    small, large = _small("high", is_quick=is_quick), _large("high", is_quick=is_quick)
    return {
        f"small-high{MORE}": replace(small, policies=("tenure",), pricings=("1",)),
        f"large-high{MORE}": replace(large, policies=("tenure",)),
    }


def _local_first(load: str, *, is_quick: bool) -> Study:
    source = Source(f"paper:{load}", jobs=30 if is_quick else 10_000)
    policies = ("fifo", "fifo_c")
    return Study(LOCAL_FIRST, source, policies, PRICINGS, ("off",), _seeds(is_quick=is_quick))


def _milp(load: str, *, is_quick: bool) -> Study:
    source = Source(f"paper:{load}", jobs=10 if is_quick else MILP_JOBS)
    policies = ("milp", "exact", "gio", "ff")
    return Study(SMALL, source, policies, ("1",), ("off",), _seeds(is_quick=is_quick))


def _authors(name: str, folder: Path, *, is_quick: bool) -> Study:
    kind = AUTHORS[name]
    source = Source(str(folder / kind.file), jobs=30 if is_quick else None)
    policies = ("fifo", "fifo_c", THEIR_FIFO_C, "asq", "ff", "gio", "exact", "tenure")
    options = Options(tolerance_s=kind.tolerance_s)
    return Study(kind.cluster, source, policies, PRICINGS, MODES, (0,), options)


def run(name: str, study: Study, *, processes: int, on_done: Callable[[str], None]) -> list[Json]:
    """Return the runs of a study in the order of its cells, without their time lines."""
    found = run_study(study, processes=processes, on_done=lambda _: on_done(name))
    return [{key: value for key, value in one.items() if key != "series"} for one in found]
