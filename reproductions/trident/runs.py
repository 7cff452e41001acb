"""Runs of the Trident reproduction: what is simulated with what, and what is read off them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reproductions.trident.cluster import MB, ClusterSpec
from reproductions.trident.replay import Run, simulate
from reproductions.trident.schedulers import (
    DEFAULT,
    EVERYTHING,
    NOTHING,
    ORACLE,
    QUARTET_NAME,
    SCHEDULERS,
    SEARCH,
    SEARCH_WAIT,
    TRIDENT,
    H,
)
from reproductions.trident.workload import DRAWS, JOBS, SCALES, JobSpec, facebook, hibench

SEEDS = (0, 1, 2)
TIERED, DISKS = ClusterSpec(), ClusterSpec(is_tiered=False)
SCARCE = replace(TIERED, memory_bytes=512 * MB)
#: Scheduler and prefetcher, as in Figures 16 and 17.
PAIRS = (
    (DEFAULT, NOTHING),
    (DEFAULT, EVERYTHING),
    (TRIDENT, EVERYTHING),
    (TRIDENT, SEARCH),
    (TRIDENT, SEARCH_WAIT),
    (TRIDENT, ORACLE),
)
#: How the names of HiBench's runs at its largest scale begin among those of a setting.
HUGE = "huge "
HDFS, TRIDENT_HDFS = "default over HDFS", "trident over HDFS"
Runs = dict[str, list[Run]]
#: What the text leaves open: each setting, what it changes of the cluster, draws of the files.
SETTINGS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("as above", {}, DRAWS),
    ("1 container a heartbeat", {"per_beat": 1}, DRAWS),
    ("8 containers a heartbeat", {"per_beat": 8}, DRAWS),
    ("several at a disk get half of what one gets", {"shared_disk": 0.5}, DRAWS),
    ("several at a disk get a third", {"shared_disk": 0.33}, DRAWS),
    ("reduce tasks begin after the maps", {"early_reduces": 1.0}, DRAWS),
    ("outputs are written once", {"output_replicas": 1}, DRAWS),
    ("outputs push blocks out of memory", {"outputs_evict": True}, DRAWS),
    ("Quartet holds for 3 s", {"hold_s": 3.0}, DRAWS),
    ("the first draw of files", {}, 1),
)
#: The paper's comparisons in Fig. 9 and 10.
HEURISTICS = (DEFAULT, H, QUARTET_NAME)
#: Of these the two that know of tiers.
AWARE = (H, QUARTET_NAME)
LARGE = ("E", "F")


@dataclass(frozen=True, slots=True)
class Studies:
    """Runs of all seeds by scheduler (or pair): Facebook, prefetching, HiBench by scale, scarce.

    ``settings``: Facebook's by each of ``SETTINGS``.
    """

    facebook: Runs
    prefetching: Runs
    hibench: Mapping[str, Runs]
    scarce: Runs
    settings: Mapping[str, Runs]


def study(data: Path, seeds: Sequence[int], jobs: int = JOBS) -> Studies:
    """Return all runs."""
    of_day = {seed: facebook(data, seed, jobs) for seed in seeds}
    apps = {scale: dict.fromkeys(seeds, hibench(scale)) for scale in SCALES}
    prefetched = {
        f"{scheduler} + {prefetcher}": runs_of(DISKS, of_day, scheduler, prefetcher)
        for scheduler, prefetcher in PAIRS
    }
    return Studies(
        _compared(of_day, TIERED),
        prefetched,
        {scale: _compared(given, TIERED) for scale, given in apps.items()},
        _compared(apps["huge"], SCARCE),
        of_settings(data, seeds, jobs),
    )


def of_settings(data: Path, seeds: Sequence[int], jobs: int = JOBS) -> dict[str, Runs]:
    """Return the runs of Trident and what the paper compares it with, by setting; HiBench's too."""
    found: dict[str, Runs] = {}
    for name, changes, draws in SETTINGS:
        of_day = {seed: facebook(data, seed, jobs, draws=draws) for seed in seeds}
        spec = replace(TIERED, **changes)
        found[name] = {HDFS: runs_of(replace(DISKS, **changes), of_day, DEFAULT)}
        found[name] |= {who: runs_of(spec, of_day, who) for who in (*HEURISTICS, TRIDENT)}
        apps = dict.fromkeys(seeds, hibench("huge"))
        found[name][HUGE + HDFS] = runs_of(replace(DISKS, **changes), apps, DEFAULT)
        found[name] |= {HUGE + who: runs_of(spec, apps, who) for who in (DEFAULT, TRIDENT)}
    return found


def _compared(jobs: Mapping[int, list[JobSpec]], spec: ClusterSpec) -> Runs:
    found = {HDFS: runs_of(DISKS, jobs, DEFAULT), TRIDENT_HDFS: runs_of(DISKS, jobs, TRIDENT)}
    return found | {name: runs_of(spec, jobs, name) for name in SCHEDULERS}


def runs_of(
    spec: ClusterSpec, jobs: Mapping[int, list[JobSpec]], scheduler: str, prefetcher: str = NOTHING
) -> list[Run]:
    """Return the runs of all seeds' jobs, one seed after another."""
    return [
        run
        for seed, given in jobs.items()
        for run in simulate(spec, given, scheduler, prefetcher, seed)
    ]


def share(runs: Sequence[Run], *where: str) -> float:
    """Return the percentage of block reads that were ``where``."""
    every = sum(sum(run.reads.values()) for run in runs)
    return 100 * sum(run.reads[w] for run in runs for w in where) / max(every, 1)


def reduction(runs: Sequence[Run], base: Sequence[Run]) -> float:
    """Return by how many percent jobs are faster on average, from submission to end."""
    return 100 * (1 - _time_s(runs) / _time_s(base)) if base else 0.0


def _time_s(runs: Sequence[Run]) -> float:
    return sum(run.end_s - run.submit_s for run in runs)


def efficiency(runs: Sequence[Run], base: Sequence[Run]) -> float:
    """Return by how many percent the sum of all tasks' durations is lower."""
    return 100 * (1 - sum(r.task_s for r in runs) / sum(r.task_s for r in base)) if base else 0.0


def shorter_reduces(runs: Sequence[Run], base: Sequence[Run]) -> float:
    """Return by how many percent the sum of the durations of reduce tasks is lower."""
    return 100 * (1 - sum(r.reduce_s for r in runs) / sum(r.reduce_s for r in base)) if base else 0


def waste(runs: Sequence[Run]) -> float:
    """Return blocks prefetched and not read from memory, as a percentage of all block reads."""
    lost = sum(len(run.copied) - len(run.hits) for run in runs)
    return 100 * lost / max(sum(sum(run.reads.values()) for run in runs), 1)


def binned(runs: Sequence[Run], group: str) -> list[Run]:
    """Return the runs of a bin or application."""
    return [run for run in runs if run.spec.group == group]
