"""What the Trident paper says of its experiments in numbers, each with what came out here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reproductions.sla.claims import FAILS, HOLDS, PARTLY
from reproductions.trident.replay import Run
from reproductions.trident.runs import (
    AWARE,
    HDFS,
    HEURISTICS,
    LARGE,
    TRIDENT_HDFS,
    Runs,
    Studies,
    binned,
    efficiency,
    reduction,
    share,
    shorter_reduces,
    waste,
)
from reproductions.trident.schedulers import (
    DEFAULT,
    ORACLE,
    SEARCH,
    SEARCH_WAIT,
    TRIDENT,
    H,
)
from reproductions.trident.workload import BINS

Row = tuple[str, str, str, str]
#: Table 2: the percentage of resources that jobs of each bin take.
RESOURCES = (25.0, 12.2, 7.3, 13.4, 20.8, 21.4)


def claims(found: Studies) -> list[Row]:
    """Return the paper's sentences in numbers: claim, section, what came out, and the word."""
    return [
        *_workload_claims(found.facebook[HDFS]),
        *_locality_claims(found),
        *_gain_claims(found.facebook),
        *_hibench_claims(found),
        *_prefetch_claims(found.prefetching),
    ]


def _workload_claims(base: Sequence[Run]) -> list[Row]:
    """What the text says of the workload as it ran under the default over HDFS."""
    whole = sum(run.task_s for run in base)
    shares = [100 * sum(run.task_s for run in binned(base, g)) / whole for g in BINS]
    jobs, tasks = [run.jobs_beside for run in base], [run.tasks_beside for run in base]
    load = [sum(jobs) / len(jobs), sum(tasks) / len(tasks), max(jobs), max(tasks)]
    off = max(abs(share - told) for share, told in zip(shares, RESOURCES, strict=True))
    return [
        _claim(
            "bins A to F take 25, 12, 7, 13, 21 and 21 % of all resources",
            "Table 2",
            shares,
            off <= 5,
            off <= 10,
        ),
        _claim(
            "a job finds 3.4 jobs and 8.2 tasks under way on average, 17 and 50 at most",
            "7.1",
            load,
            abs(load[0] - 3.4) <= 1 and abs(load[1] - 8.2) <= 2,
        ),
    ]


def _locality_claims(found: Studies) -> list[Row]:
    day = found.facebook
    ours, theirs = day[TRIDENT], day[TRIDENT_HDFS]
    before = [100 - share(binned(day[HDFS], g), "rack") for g in BINS]
    over_hdfs = [100 - share(binned(theirs, g), "rack") for g in BINS]
    local = [100 - share(binned(ours, g), "rack") for g in BINS]
    memory = [share(binned(ours, g), "memory") for g in BINS]
    aware = [share(binned(day[name], g), "memory") for g in LARGE for name in AWARE]
    ends = (min(before), max(before))
    return [
        _claim(
            "default over HDFS: 31 to 81 % data-local, more with size",
            "7.1",
            before,
            abs(ends[0] - 31) <= 5 and abs(ends[1] - 81) <= 5,
            abs(ends[0] - 31) <= 15 and abs(ends[1] - 81) <= 15,
        ),
        _claim(
            "Trident over HDFS: almost 100 % data-local",
            "7.1",
            over_hdfs,
            min(over_hdfs) >= 98,
            max(over_hdfs) >= 98,
        ),
        _claim(
            "Trident: almost 100 % data-local", "7.1", local, min(local) >= 98, max(local) >= 98
        ),
        _claim(
            "Trident: over 83 % memory-local", "7.1", memory, min(memory) > 83, max(memory) > 83
        ),
        _claim(
            "H-Scheduler and Quartet, bins E and F: about 35 % memory-local",
            "7.1",
            aware,
            max(abs(value - 35) for value in aware) <= 10,
            max(aware) < min(memory),
        ),
    ]


def _gain_claims(day: Runs) -> list[Row]:
    """Fig. 10, against the default over HDFS; points are differences of such percentages."""
    return [*_time_claims(day), *_lead_claims(day), *_resource_claims(day)]


def _faster(day: Runs, name: str, group: str) -> float:
    return reduction(binned(day[name], group), binned(day[HDFS], group))


def _leaner(day: Runs, name: str, group: str) -> float:
    return efficiency(binned(day[name], group), binned(day[HDFS], group))


def _time_claims(day: Runs) -> list[Row]:
    """By how much each scheduler is faster."""
    untiered = [_faster(day, TRIDENT_HDFS, "F")]
    tiered = [_faster(day, DEFAULT, g) for g in LARGE]
    aware = [_faster(day, H, g) - _faster(day, DEFAULT, g) for g in LARGE]
    gains = [_faster(day, TRIDENT, g) for g in LARGE]
    small = [_faster(day, TRIDENT, g) for g in ("A", "B")]
    return [
        _claim(
            "Trident over HDFS, bin F: up to 13 % faster",
            "7.1",
            untiered,
            abs(untiered[0] - 13) <= 5,
            untiered[0] > 0,
        ),
        _claim(
            "default over tiers: up to 20 % faster on large jobs",
            "7.1",
            tiered,
            max(tiered) >= 15,
            max(tiered) >= 5,
        ),
        _claim(
            "H-Scheduler, bins E and F: 2 to 8 points faster than default",
            "7.1",
            aware,
            min(aware) >= 2 and max(aware) <= 8,
            max(aware) >= 2,
        ),
        _claim("Trident, bins E and F: 14 to 37 % faster", "7.1", gains, min(gains) >= 14, True),
        _claim(
            "Trident, bins A and B: up to 8 % faster", "7.1", small, max(small) < 8, min(small) < 8
        ),
    ]


def _lead_claims(day: Runs) -> list[Row]:
    """By how many points Trident is ahead of the others, in time and in efficiency."""

    def ahead(by: Callable[[Runs, str, str], float], name: str, group: str) -> float:
        return by(day, TRIDENT, group) - by(day, name, group)

    lead = [min(ahead(by, n, g) for n in HEURISTICS for by in (_faster, _leaner)) for g in BINS]
    rows = [
        _claim(
            "Trident leads in time and efficiency in every bin, by points",
            "7.1",
            lead,
            min(lead) > 0,
            max(lead) > 0,
        )
    ]
    means = (
        "large jobs: about 10 points faster than H-Scheduler and Quartet",
        "large jobs: about 16 points more efficient than those two",
    )
    eaches = ("the first in E and in F each, and against default too", "the second likewise")
    kinds = ((_faster, 10), (_leaner, 16))
    for told, (by, points) in zip(means, kinds, strict=True):
        mean = [sum(ahead(by, name, g) for g in LARGE) / len(LARGE) for name in AWARE]
        rows += [_claim(told, "7.1", mean, min(mean) >= points, max(mean) >= points)]
    for told, (by, points) in zip(eaches, kinds, strict=True):
        each = [ahead(by, name, g) for g in LARGE for name in HEURISTICS]
        rows += [_claim(told, "7.1", each, min(each) >= points, max(each) >= points)]
    return rows


def _resource_claims(day: Runs) -> list[Row]:
    """By how much less time tasks take under Trident."""
    both = [_faster(day, TRIDENT, "F"), _leaner(day, TRIDENT, "F")]
    reduced = [shorter_reduces(binned(day[TRIDENT], g), binned(day[HDFS], g)) for g in LARGE]
    return [
        _claim(
            "bin F: 37 % faster with 50 % less resources",
            "7.1",
            both,
            both[0] >= 32 and both[1] >= 45,
            both[1] > both[0] > 0,
        ),
        _claim(
            "reduce tasks of large jobs: up to 37 % shorter",
            "7.1",
            reduced,
            max(reduced) >= 32,
            min(reduced) > 0,
        ),
    ]


def _hibench_claims(found: Studies) -> list[Row]:
    apps = [share(runs[TRIDENT], "memory") for runs in found.hibench.values()]
    huge = found.hibench["huge"]
    cut = [reduction(runs[TRIDENT], runs[HDFS]) for runs in (huge, found.scarce)]
    scarce = share(found.scarce[TRIDENT], "memory")
    drop = abs(cut[0] - 47) <= 10 and abs(cut[1] - 33) <= 10
    return [
        _claim("HiBench: over 95 % memory-local", "7.2", apps, min(apps) > 95, max(apps) > 95),
        _claim("5 GB: about 50 % memory-local", "7.2", [scarce], abs(scarce - 50) <= 10),
        _claim("40 and 5 GB: 47 and 33 % faster", "7.2", cut, drop, cut[0] > cut[1] > 0),
    ]


def _prefetch_claims(disks: Runs) -> list[Row]:
    everything = [waste(binned(disks["trident + all"], g)) for g in LARGE]
    chosen = [waste(binned(disks[f"{TRIDENT} + {SEARCH}"], g)) for g in BINS]
    base = disks["default + none"]
    late, oracle = disks[f"{TRIDENT} + {SEARCH_WAIT}"], disks[f"{TRIDENT} + {ORACLE}"]
    behind = [
        reduction(binned(oracle, g), binned(base, g)) - reduction(binned(late, g), binned(base, g))
        for g in BINS
    ]
    return [
        _claim(
            "PrefetchAll, bins E and F: over 84 % wasted",
            "7.4",
            everything,
            min(everything) > 84,
            max(everything) > 84,
        ),
        _claim("Trident-D: under 4 % wasted", "7.4", chosen, max(chosen) < 4, min(chosen) < 4),
        _claim(
            "Trident+D: within 8 points of the oracle",
            "7.4",
            behind,
            max(behind) <= 8,
            min(behind) <= 3,
        ),
    ]


def _claim(
    claim: str, where: str, values: Sequence[float], holds: bool, in_part: bool = False
) -> tuple[str, str, str, str]:
    word = HOLDS if holds else PARTLY if in_part else FAILS
    return claim, where, ", ".join(f"{value:.1f}" for value in values), word
