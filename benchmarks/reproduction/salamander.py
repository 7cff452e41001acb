"""`python -m benchmarks reproduction-salamander`: the Salamander paper's Fig. 5, other traces."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from benchmarks.errors import BenchError
from benchmarks.forecast.traces import TRACES
from benchmarks.reproduction.matrix import ROOT
from tenure.harvest.forecast.grid import STEP_S, Floats
from tenure.model.errors import TenureError
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.simulation.harvest.controllers import Batch, Course, Host, Replayed, compare

NAME = "reproduction-salamander"
DOCUMENT = ROOT / "docs/reproduction-salamander.md"
FAILED, USAGE = 1, 2
SETS = ("google2011", "bitbrains", "alibaba2018")
#: Table II, PC-1, which Fig. 5 is of: its hosts are taken as equal, for their shapes are not told.
HOSTS, GFLOP_S, RAM_BYTES = 9, 2208.0, 1.2e12
#: Of one core (ours: a map of 128 MB then lasts 35 s on it).
CORE_GFLOP_S = 11.9
#: FLOP a byte of map and reduce, and MB of a chunk with GB of memory of its tasks (section IV).
MAP_FLOP, REDUCE_FLOP = 3100.0, 6300.0
CHUNKS = ((128, 3), (256, 4))
MARGINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
STARTS = 3
LIMIT_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One batch under both controllers: MB of its chunks, the margin, and what became of it."""

    chunk_mb: int
    margin: float
    old: Replayed
    new: Replayed


@dataclass(frozen=True, slots=True)
class Plan:
    """Margins, and how many draws of hosts and of a moment."""

    margins: tuple[float, ...] = MARGINS
    starts: int = STARTS
    sets: tuple[str, ...] = SETS


QUICK = Plan((0.1,), 1, ("alibaba2018",))


def main(argv: Sequence[str] | None = None) -> int:
    """Replay everything and show or write the page; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.write and options.quick:
        print("--write needs all of it: leave out --quick", file=sys.stderr)
        return USAGE
    plan = QUICK if options.quick else Plan()
    try:
        with ProcessPoolExecutor(max(1, options.processes)) as pool:
            sets = [options.data] * len(plan.sets), plan.sets, [plan] * len(plan.sets)
            found = dict(zip(plan.sets, pool.map(study, *sets), strict=True))
        text = page(found)
        if options.write:
            DOCUMENT.write_text(text)
    except (BenchError, TenureError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED
    if not options.write:
        print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {NAME}", description=__doc__)
    data = os.environ.get("TENURE_DATA")
    words = f"folder with the traces {', '.join(SETS)} (TENURE_DATA)"
    parser.add_argument("--data", type=Path, default=data, required=not data, help=words)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="one batch: shows that it works")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    return parser


def study(data: Path, name: str, plan: Plan) -> list[Run]:
    """Return the runs on one data set's traces; raises TenureError or BenchError without them."""
    cpu, memory = (TRACES[f"{name}-{metric}"].read(data) for metric in ("cpu", "mem"))
    rows = {machine: row for row, machine in enumerate(memory.names)}
    known = [(row, rows[m]) for row, m in enumerate(cpu.names) if m in rows]
    uses = filled(cpu.values), filled(memory.values)
    return list(_runs(uses, known, plan))


def _runs(
    uses: tuple[Floats, Floats], known: Sequence[tuple[int, int]], plan: Plan
) -> Iterator[Run]:
    for seed in range(plan.starts):
        draw = Random(seed)
        drawn = draw.sample(known, HOSTS)
        point = draw.randrange(uses[0].shape[1])
        hosts = [host(uses[0][row], uses[1][other]) for row, other in drawn]
        for chunk_mb, memory_gb in CHUNKS:
            for margin in plan.margins:
                params = QosParams(cpu_margin=margin, memory_margin=margin)
                course = Course(point_s=STEP_S, start_point=point, limit_s=LIMIT_S)
                ends = compare(hosts, batch(chunk_mb, memory_gb), params, course)
                yield Run(chunk_mb, margin, ends["cuckoo"], ends["salamander"])


def host(cpu: Floats, memory: Floats) -> Host:
    """Return a host of PC-1 whose owners use these shares of it, by point."""
    cores_m = round(1000 * GFLOP_S / HOSTS / CORE_GFLOP_S)
    ram = round(RAM_BYTES / HOSTS)
    return Host(
        Resources(cores_m, ram),
        [round(share * cores_m) for share in cpu.tolist()],
        [round(share * ram) for share in memory.tolist()],
    )


def batch(chunk_mb: int, memory_gb: int) -> Batch:
    """Return the paper's 640 maps and 40 reduces; a reduce reads as much as a map (ours)."""
    core_s = [flop * chunk_mb * 1e6 / (CORE_GFLOP_S * 1e9) for flop in (MAP_FLOP, REDUCE_FLOP)]
    return Batch(640, 40, core_s[0], core_s[1], round(memory_gb * 1e9))


def filled(values: Floats) -> Floats:
    """Return shares from 0 to 1; what was not observed holds the value before it (first: next)."""
    seen = np.isfinite(values)
    index = np.where(seen, np.arange(values.shape[1]), -1)
    index = np.maximum.accumulate(index, axis=1)
    first = np.argmax(seen, axis=1)[:, None]
    held = np.take_along_axis(values, np.where(index < 0, first, index), axis=1)
    return np.clip(np.nan_to_num(held), 0.0, 1.0)


def page(found: dict[str, list[Run]]) -> str:
    """Return the page: what each controller did on each data set, beside the paper."""
    rows = [
        _row(name, chunk, [run for run in runs if run.chunk_mb == chunk])
        for name, runs in found.items()
        for chunk, _ in CHUNKS
    ]
    return f"{HEAD}\n\n{TABLE}\n" + "\n".join(rows) + f"\n\n{TAIL}\n"


def _row(name: str, chunk: int, runs: Sequence[Run]) -> str:
    ended = [run for run in runs if run.old.duration_s and run.new.duration_s]
    fewer = [1 - run.new.kills / run.old.kills for run in runs if run.old.kills]
    faster = [1 - (r.new.duration_s or 0) / (r.old.duration_s or 1) for r in ended]
    cells = (
        name,
        f"{chunk} MB",
        _spread([float(run.old.kills) for run in runs], ",.0f"),
        _spread([float(run.new.kills) for run in runs], ",.0f"),
        f"{_spread(fewer, '.1%')} ({len(fewer)} of {len(runs)})",
        _spread([run.old.duration_s or 0.0 for run in ended], ",.0f"),
        _spread([run.new.duration_s or 0.0 for run in ended], ",.0f"),
        _spread(faster, ".1%"),
        f"{sum(not r.old.duration_s for r in runs)} / {sum(not r.new.duration_s for r in runs)}",
    )
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float], form: str) -> str:
    """Return a median with the least and the most."""
    if not values:
        return "-"
    return f"{median(values):{form}} [{min(values):{form}} to {max(values):{form}}]"


HEAD = f"""# The Salamander paper's controllers, replayed

Written by

```
python -m benchmarks {NAME} --data FOLDER --write
```

Fig. 5 (section IV, RQ3): one MapReduce job of 640 maps and 40 reduces on the nine hosts of PC-1,
under the controller before (`cuckoo`: tasks end for CPU and for memory) and the new one
(`salamander`: CPU is throttled). The laws are those that the agent runs; the rest is
`tenure.simulation.harvest.controllers`. The paper: relaunched tasks fall by 17.3 to 38.9 %
(medians), execution times by 9.8 to 21.3 %.

The paper's traces are not published. Hosts replay machines of other data centers, nine drawn at
random and a random moment, three draws each, as shares of equal hosts of {
    1000 * GFLOP_S / HOSTS:,.0f} MFLOP/s and {
    RAM_BYTES / HOSTS / 1e9:.0f} GB (Table II by nine). Margins
{MARGINS[0]:.0%} to {MARGINS[-1]:.0%}. Ours, for the paper does not tell: a core does
{CORE_GFLOP_S} GFLOP/s, so that a map of 128 MB lasts 35 s; a reduce reads as much as a map; a
look at the hosts each second; {LIMIT_S / 3600:.0f} hours at most.

Medians over draws and margins, the least and the most in brackets. Improvements are by pairs;
those of relaunches where the old controller ended any; those of times where both were done in
time."""
TABLE = """\
| traces | chunks | ended, old | ended, new | fewer | time, old (s) | time, new (s) | less time \
| not done, old / new |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""
TAIL = """## What is missing

- Figures 3 and 4 and Tables III and IV: the whole of Salamander (forecasts, planner, data
  placement) against Cuckoo, in virtual time. The planner's solvers stand by themselves
  ([harvest-planner.md](harvest-planner.md)), forecasts too ([forecasts.md](forecasts.md)).
- No chunk is moved here, and no link bounds anything; remote tasks are not counted.
- Hosts of PC-1 have six configurations, which the paper does not tell; equal hosts stand for
  them. The two other data centers are left out, as in Fig. 5.
- Cuckoo's controller is described by its difference to Algorithm 3 alone; ours is
  `tenure/qos/cuckoo.py`. How fast a host that ended a task takes another is not told: 10 s."""
