"""`python -m benchmarks reproduction-trident`: section 7 of the Trident paper, simulated again."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.reproduction.claims import FAILS, HOLDS, PARTLY
from benchmarks.reproduction.matrix import ROOT
from benchmarks.reproduction.trident_words import (
    CHOSEN,
    DEPENDS,
    GAINS,
    HEAD,
    NAME,
    TAIL,
    TIERS,
)
from tenure.model.errors import TenureError
from tenure.simulation.tiers.cluster import MB, ClusterSpec
from tenure.simulation.tiers.replay import WHERE, Run, simulate
from tenure.simulation.tiers.schedulers import (
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
from tenure.simulation.tiers.workload import (
    BINS,
    DRAWS,
    HIBENCH,
    JOBS,
    SCALES,
    JobSpec,
    facebook,
    hibench,
)

DOCUMENT = ROOT / "docs/reproduction-trident.md"
FAILED, USAGE = 1, 2
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
HDFS, TRIDENT_HDFS = "default over HDFS", "trident over HDFS"
Runs = dict[str, list[Run]]
#: What the text leaves open: each setting, what it changes of the cluster, draws of the files.
SETTINGS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("as above", {}, DRAWS),
    ("1 container a heartbeat", {"per_beat": 1}, DRAWS),
    ("8 containers a heartbeat", {"per_beat": 8}, DRAWS),
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


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate everything and show or write the page; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.write and options.quick:
        print("--write needs all of it: leave out --quick", file=sys.stderr)
        return USAGE
    seeds, jobs = (SEEDS[:1], 60) if options.quick else (SEEDS, JOBS)
    try:
        text = page(study(options.data, seeds, jobs))
        if options.write:
            DOCUMENT.write_text(text)
    except (TenureError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED
    if not options.write:
        print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    data = os.environ.get("TENURE_DATA")
    words = "folder with fb2009_0.csv.gz and fb2010_paths_0.csv.gz (TENURE_DATA)"
    parser.add_argument("--data", type=Path, default=data, required=not data, help=words)
    parser.add_argument("--quick", action="store_true", help="few jobs: shows that it works")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    return parser


def study(data: Path, seeds: Sequence[int], jobs: int = JOBS) -> Studies:
    """Return all runs."""
    of_day = {seed: facebook(data, seed, jobs) for seed in seeds}
    apps = {scale: dict.fromkeys(seeds, hibench(scale)) for scale in SCALES}
    prefetched = {
        f"{scheduler} + {prefetcher}": _runs(DISKS, of_day, scheduler, prefetcher)
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
    """Return the runs of Trident and what the paper compares it with, by setting."""
    found: dict[str, Runs] = {}
    for name, changes, draws in SETTINGS:
        of_day = {seed: facebook(data, seed, jobs, draws=draws) for seed in seeds}
        spec = replace(TIERED, **changes)
        found[name] = {HDFS: _runs(replace(DISKS, **changes), of_day, DEFAULT)}
        found[name] |= {who: _runs(spec, of_day, who) for who in (*HEURISTICS, TRIDENT)}
    return found


def _compared(jobs: Mapping[int, list[JobSpec]], spec: ClusterSpec) -> Runs:
    found = {HDFS: _runs(DISKS, jobs, DEFAULT), TRIDENT_HDFS: _runs(DISKS, jobs, TRIDENT)}
    return found | {name: _runs(spec, jobs, name) for name in SCHEDULERS}


def _runs(
    spec: ClusterSpec, jobs: Mapping[int, list[JobSpec]], scheduler: str, prefetcher: str = NOTHING
) -> list[Run]:
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


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _by_group(
    runs: Runs, groups: Sequence[str], cell: Callable[[list[Run], list[Run]], str], base: str
) -> str:
    rows = [
        [name, *(cell(binned(found, g), binned(runs[base], g)) for g in groups)]
        for name, found in runs.items()
    ]
    return _table(["", *groups], rows)


def _tiers(runs: list[Run], _base: list[Run]) -> str:
    return " / ".join(f"{share(runs, where):.0f}" for where in WHERE)


def _gains(runs: list[Run], base: list[Run]) -> str:
    return f"{reduction(runs, base):.1f} / {efficiency(runs, base):.1f}"


def _prefetched(runs: list[Run], _base: list[Run]) -> str:
    return f"{share(runs, 'memory'):.0f} / {waste(runs):.0f}"


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

    def faster(name: str, group: str) -> float:
        return reduction(binned(day[name], group), binned(day[HDFS], group))

    def leaner(name: str, group: str) -> float:
        return efficiency(binned(day[name], group), binned(day[HDFS], group))

    pairs = [(g, name) for g in LARGE for name in HEURISTICS]
    more = [faster(TRIDENT, g) - faster(name, g) for g, name in pairs]
    fewer = [leaner(TRIDENT, g) - leaner(name, g) for g, name in pairs]
    aware_more, aware_fewer = (
        [sum(by(TRIDENT, g) - by(name, g) for g in LARGE) / len(LARGE) for name in AWARE]
        for by in (faster, leaner)
    )
    gains = [faster(TRIDENT, g) for g in LARGE]
    small = [faster(TRIDENT, g) for g in ("A", "B")]
    untiered, tiered = [faster(TRIDENT_HDFS, "F")], [faster(DEFAULT, g) for g in LARGE]
    aware = [faster(H, g) - faster(DEFAULT, g) for g in LARGE]
    lead = [
        min(by(TRIDENT, g) - by(name, g) for name in HEURISTICS for by in (faster, leaner))
        for g in BINS
    ]
    both = [faster(TRIDENT, "F"), leaner(TRIDENT, "F")]
    reduced = [shorter_reduces(binned(day[TRIDENT], g), binned(day[HDFS], g)) for g in LARGE]
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
        _claim(
            "Trident leads in time and efficiency in every bin, by points",
            "7.1",
            lead,
            min(lead) > 0,
            max(lead) > 0,
        ),
        _claim(
            "large jobs: about 10 points faster than H-Scheduler and Quartet",
            "7.1",
            aware_more,
            min(aware_more) >= 10,
            max(aware_more) >= 10,
        ),
        _claim(
            "large jobs: about 16 points more efficient than those two",
            "7.1",
            aware_fewer,
            min(aware_fewer) >= 16,
            max(aware_fewer) >= 16,
        ),
        _claim(
            "the first in E and in F each, and against default too",
            "7.1",
            more,
            min(more) >= 10,
            max(more) >= 10,
        ),
        _claim("the second likewise", "7.1", fewer, min(fewer) >= 16, max(fewer) >= 16),
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


def _table_4(found: Studies) -> str:
    rows = []
    for g in BINS:
        late, prompt = (
            binned(found.prefetching[f"{TRIDENT} + {p}"], g) for p in (SEARCH_WAIT, SEARCH)
        )
        held = [run.delay_s for run in late if run.delay_s > 0]
        more = share(late, "memory") - share(prompt, "memory")
        rows.append(
            [
                g,
                f"{100 * len(held) / max(len(late), 1):.1f}",
                f"{sum(held) / max(len(held), 1):.2f}",
                f"{max(held, default=0):.2f}",
                f"{more:.1f}",
                f"{reduction(late, prompt):.2f}",
                f"{efficiency(late, prompt):.2f}",
            ]
        )
    heads = [
        "bin",
        "% delayed",
        "mean s",
        "max s",
        "memory, points",
        "% faster",
        "% more efficient",
    ]
    return _table(heads, rows)


def settings_table(found: Mapping[str, Runs]) -> str:
    """Return what of Fig. 9 and 10 hangs on each setting, as a table."""
    heads = [
        "setting",
        "default over HDFS: data-local, A to F, %",
        "Trident: memory-local, E and F, %",
        "faster, E and F, %",
        f"points faster than {', '.join(HEURISTICS)}: E and F each",
        "points more efficient, likewise",
    ]
    rows = []
    for setting, runs in found.items():
        cells = [[100 - share(binned(runs[HDFS], g), "rack") for g in BINS]]
        cells += [[share(binned(runs[TRIDENT], g), "memory") for g in LARGE]]
        cells += [[reduction(binned(runs[TRIDENT], g), binned(runs[HDFS], g)) for g in LARGE]]
        for gain in (reduction, efficiency):
            ahead = [
                gain(binned(runs[TRIDENT], g), base) - gain(binned(runs[name], g), base)
                for name in HEURISTICS
                for g in LARGE
                for base in [binned(runs[HDFS], g)]
            ]
            cells += [ahead]
        rows.append([setting, *(", ".join(f"{value:.0f}" for value in cell) for cell in cells)])
    return _table(heads, rows)


def page(found: Studies) -> str:
    """Return the document."""
    bins = list(BINS)
    parts = [HEAD]
    parts += ["## What the paper says, and what comes out"]
    parts += [_table(["claim", "section", "here (%, by bin or case)", ""], claims(found))]
    parts += ["## Facebook: where blocks were read (Fig. 9)", TIERS]
    parts += [_by_group(found.facebook, bins, _tiers, HDFS)]
    parts += ["## Facebook: time and efficiency (Fig. 10)", GAINS]
    parts += [_by_group(found.facebook, bins, _gains, HDFS)]
    for scale, runs in found.hibench.items():
        parts += [f"## HiBench-like, {scale}: where blocks were read (Fig. 11)", TIERS]
        rows = [[name, _tiers(given, [])] for name, given in runs.items()]
        parts += [_table(["", "all"], rows), GAINS]
        parts += [_by_group(runs, list(HIBENCH), _gains, HDFS)]
    parts += ["## HiBench-like, huge, 512 MB of memory a node (Fig. 13)", TIERS]
    rows = [[n, _tiers(r, []), _gains(r, found.scarce[HDFS])] for n, r in found.scarce.items()]
    parts += [_table(["", "reads", "faster / more efficient"], rows)]
    parts += ["## Prefetching: reads from memory, and copies wasted (Fig. 16)"]
    parts += ["Percent of block reads: from memory / prefetched in vain. Blocks begin on disks."]
    parts += [_by_group(found.prefetching, bins, _prefetched, "default + none")]
    parts += ["## Prefetching: time and efficiency (Fig. 17)", GAINS]
    parts += [_by_group(found.prefetching, bins, _gains, "default + none")]
    parts += ["## With delay against without (Table 4)", _table_4(found)]
    parts += [CHOSEN, settings_table(found.settings), DEPENDS, TAIL]
    return "\n\n".join(parts) + "\n"
