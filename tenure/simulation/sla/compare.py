"""Compare policies: every policy x pricing x deadline mode, over seeds, on several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tenure.simulation.sla.cluster import Cluster, read_cluster
from tenure.simulation.sla.loops import SIMULATED, compiled_loop
from tenure.simulation.sla.options import DEADLINES, Options, one_of
from tenure.simulation.sla.result import Json
from tenure.simulation.sla.run import simulate
from tenure.simulation.sla.series import series_of
from tenure.simulation.sla.sources import Source
from tenure.simulation.sla.workload import Workload

#: Student's t for 95 % on both sides, by degrees of freedom 1, 2, ...; then the normal's.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL95 = 1.960
#: What is averaged over seeds.
MEASURES = (
    "cost_usd",
    "cost_local_usd",
    "cost_cloud_usd",
    "deadline_met_ratio",
    "mean_duration_s",
    "mean_wait_s",
    "rejected",
    "decision_us_mean",
)


@dataclass(frozen=True, slots=True)
class Study:
    """What to compare: one cluster file and one source of jobs, else all combinations.

    ``pricings`` empty: the cluster file's own. ``options`` holds what does not vary.
    """

    cluster: Path
    source: Source
    policies: tuple[str, ...]
    pricings: tuple[str, ...] = ("",)
    deadlines: tuple[str, ...] = ("off",)
    seeds: tuple[int, ...] = (0,)
    options: Options = field(default_factory=Options)

    def check(self) -> None:
        """Raise InvalidInput for anything that a simulation of the study would stumble over."""
        for mode in self.deadlines:
            one_of("deadlines", mode, DEADLINES)
        for policy in self.policies:
            one_of("policy", policy, SIMULATED)
        for pricing in self.pricings:
            read_cluster(self.cluster, pricing)
        self.source.load(self.seeds[0])

    def cells(self) -> list[Cell]:
        """Return the combinations in the order of their words; seeds vary fastest."""
        return [
            Cell(policy, pricing, mode, seed)
            for mode in self.deadlines
            for pricing in self.pricings
            for policy in self.policies
            for seed in self.seeds
        ]


@dataclass(frozen=True, slots=True)
class Cell:
    """One simulation of a study."""

    policy: str
    pricing: str
    deadlines: str
    seed: int


def run_cell(study: Study, cell: Cell, *, compiled: bool = True) -> Json:
    """Return the summary of one simulation, with its seed and how the cluster was used."""
    cluster: Cluster = read_cluster(study.cluster, cell.pricing)
    workload: Workload = study.source.load(cell.seed)
    options = replace(study.options, deadlines=cell.deadlines)
    result = simulate(cluster, workload, cell.policy, options, compiled=compiled)
    return {**result.summary(), "seed": cell.seed, "series": series_of(result).plain()}


def run_study(
    study: Study,
    *,
    processes: int = 1,
    compiled: bool = True,
    on_done: Callable[[Json], None] = lambda run: None,
) -> list[Json]:
    """Return the summaries of all simulations in the order of ``cells``.

    With several processes the kernels are compiled before these part, once for all.
    """
    runs: list[Json] = []
    for run in _runs(study, processes, compiled=compiled):
        runs.append(run)
        on_done(run)
    return runs


def _runs(study: Study, processes: int, *, compiled: bool) -> Iterator[Json]:
    cells = study.cells()
    work = partial(run_cell, study, compiled=compiled)
    if processes == 1 or len(cells) == 1:
        yield from map(work, cells)
        return
    for policy in study.policies if compiled else ():
        compiled_loop(policy)
    # forked, not spawned: compiled code cannot be sent; there are no threads yet
    with get_context("fork").Pool(min(processes, len(cells))) as pool:
        yield from pool.imap(work, cells)


def summarise(runs: Sequence[Json]) -> list[Json]:
    """Return a row for each (deadlines, pricing, policy): means over seeds and their 95 % bounds.

    ``<measure>_ci95`` is half the width of the confidence interval by Student's t, None for one
    seed; a measure that some run does not have (nothing finished) is None.
    """
    groups: dict[tuple[str, str, str], list[Json]] = {}
    for run in runs:
        key = (run["deadlines"], run["pricing"] or "", run["policy"])
        groups.setdefault(key, []).append(run)
    rows = []
    for (deadlines, pricing, policy), group in groups.items():
        row: Json = {"deadlines": deadlines, "pricing": pricing or None, "policy": policy}
        row["seeds"] = len(group)
        for measure in MEASURES:
            mean, half = mean_and_half(run[measure] for run in group)
            row[measure], row[f"{measure}_ci95"] = mean, half
        rows.append(row)
    return rows


def mean_and_half(values: Iterator[float | None]) -> tuple[float | None, float | None]:
    """Return the mean and half the width of its 95 % confidence interval."""
    found = [value for value in values if value is not None]
    count = len(found)
    if not count:
        return None, None
    mean = math.fsum(found) / count
    if count == 1:
        return mean, None
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (count - 1))
    t95 = _T95[count - 2] if count - 2 < len(_T95) else _NORMAL95
    return mean, t95 * spread / math.sqrt(count)
