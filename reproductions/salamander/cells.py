"""What the Salamander paper's experiments are made of: data centres, traces, batches, their runs.

A cell is everything of one data centre on one set of traces from one draw of hosts and moment on,
or the daemon's way alone of the same: it takes a minute or two, and is kept by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from reproductions.errors import StudyError
from reproductions.forecasts.traces import TRACES
from reproductions.salamander.controllers import cuckoo
from reproductions.salamander.planned import Again, Foreseen, moved, problem_of, salamander
from reproductions.salamander.replay import Batch, Course, Host
from reproductions.salamander.solve import measured, solved, why_not
from tenure.harvest.forecast.grid import DAY_STEPS, STEP_S, Floats, Panel
from tenure.harvest.forecast.model import ForecastParams, forecast
from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Problem
from tenure.harvest.solution import Solution
from tenure.model.qos import QosParams
from tenure.model.resources import Resources

Json = dict[str, Any]
SETS = ("google2011", "bitbrains", "alibaba2018")
#: Its owners leave a tenth of their memory.
SCARCE = "alibaba2018"
#: Of one core on average (ours: a map of 128 MB then lasts 33 s on it).
CORE_GFLOP_S = 11.9
#: FLOP a byte of map and reduce, and MB of a chunk with GB of memory of its tasks (section IV).
MAP_FLOP, REDUCE_FLOP = 3100.0, 6300.0
CHUNKS: Mapping[int, int] = {128: 3, 256: 4}
MAPS, REDUCES = 640, 40
MARGINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
#: Dedicated links of 50 Mbit/s; their 10 us are nothing beside 20 s of a chunk.
LINK_BYTES_PER_S = 6_250_000
DRAWS = 2
#: A job takes some ten minutes: one that is not done by then is given up.
GIVEN_UP_S = 6 * 3600.0
GROWTH_TASKS = (500, 1000, 1500, 2000, 2500)
#: Days that a forecast learns from at least, and machines that it is fitted on.
LEARNT_DAYS, FITTED = 5, 80
SLOW = ("ga", "ls")
SOLVERS = ("cp", *SLOW)
#: Chunks are sent while earlier ones are worked on, which the plan knows of (ours).
STREAMED = "cp, streamed"
#: Where hosts have no CPU for their tasks the rest is planned anew, as the daemon does (ours).
MOVED = "cp, moved"
#: What the daemon's planner has for that, seconds.
ANEW_S = 2.0
#: How many kinds stand apart in cores and speed: hosts of the largest kind have thrice the least.
LEAST_SIZE, MOST_SIZE = 0.5, 1.5
LEAST_SPEED, MOST_SPEED = 0.8, 1.25


@dataclass(frozen=True, slots=True)
class Centre:
    """A row of Table II: hosts, GFLOP/s and bytes of all together, and kinds of hosts."""

    hosts: int
    gflop_s: float
    ram_bytes: float
    kinds: int


CENTRES: Mapping[str, Centre] = {
    "PC-1": Centre(9, 2208.0, 1.2e12, 6),
    "PC-2": Centre(27, 3552.0, 3.8e12, 13),
    "University": Centre(6, 1363.0, 1.5e12, 6),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One data centre on one set of traces, by one draw; ``is_slow``: all three solvers.

    ``is_moved``: ``MOVED`` alone.
    """

    centre: str
    traces: str
    draw: int
    is_slow: bool
    margins: tuple[float, ...] = MARGINS
    is_moved: bool = False

    @property
    def key(self) -> str:
        """Return what it is kept under."""
        margins = "".join(f" {margin:g}" for margin in self.margins)
        what = "moved" if self.is_moved else "all" if self.is_slow else "cp"
        return f"{self.centre} {self.traces} {self.draw} {what}{margins}"


@dataclass(frozen=True, slots=True)
class Scene:
    """Hosts, their forecasts, and where in the traces it begins."""

    hosts: tuple[Host, ...]
    ahead: tuple[Foreseen, ...]
    point: int


def cells(*, draws: int = DRAWS) -> Iterator[Cell]:
    """Yield all cells, those of the first draw with all solvers.

    But for the plans of hours on hosts with hardly any memory left: a single one takes `ga` most of
    its time there, so one data centre stands for the others.
    """
    for draw in range(draws):
        for traces in SETS:
            for centre in CENTRES:
                is_long = traces == SCARCE and centre != "PC-1"
                yield Cell(centre, traces, draw, is_slow=draw == 0 and not is_long)
                yield Cell(centre, traces, draw, is_slow=False, is_moved=True)


def shapes(centre: Centre) -> list[tuple[Resources, float]]:
    """Return capacity and speed of each host: kinds by turns, sums as in Table II (ours)."""
    spread = [k / max(1, centre.kinds - 1) for k in range(centre.kinds)]
    sizes = [LEAST_SIZE + (MOST_SIZE - LEAST_SIZE) * part for part in spread]
    # fast cores are not those of the largest hosts: by another turn of the kinds
    speeds = [LEAST_SPEED * (MOST_SPEED / LEAST_SPEED) ** part for part in spread]
    rows = [
        (sizes[k % centre.kinds], speeds[(5 * k + 2) % centre.kinds]) for k in range(centre.hosts)
    ]
    total = sum(size for size, _ in rows)
    found = []
    for size, speed in rows:
        cores = centre.gflop_s * size / total / (CORE_GFLOP_S * speed)
        memory = round(centre.ram_bytes * size / total)
        found.append((Resources(round(1000 * cores), memory), speed))
    return found


def batch(chunk_mb: int, tasks: int = MAPS + REDUCES) -> Batch:
    """Return the paper's batch, 16 maps to a reduce; a reduce reads as much as a map (ours)."""
    core_s = [flop * chunk_mb * 1e6 / (CORE_GFLOP_S * 1e9) for flop in (MAP_FLOP, REDUCE_FLOP)]
    reduces = round(tasks * REDUCES / (MAPS + REDUCES))
    memory = CHUNKS[chunk_mb] * 10**9
    return Batch(tasks - reduces, reduces, core_s[0], core_s[1], memory, chunk_mb * 10**6)


@lru_cache(maxsize=3)
def panels(data: Path, traces: str) -> tuple[Panel, Panel]:
    """Return CPU and memory of the machines of a set that have both, rows alike."""
    cpu, memory = (TRACES[f"{traces}-{metric}"].read(data) for metric in ("cpu", "mem"))
    rows = {machine: row for row, machine in enumerate(memory.names)}
    known = [row for row, machine in enumerate(cpu.names) if machine in rows]
    if not known:
        raise StudyError(f"{traces}: no machine has both CPU and memory")
    return cpu.of(known), memory.of([rows[cpu.names[row]] for row in known])


def scene(data: Path, cell: Cell) -> Scene:
    """Return the hosts of a cell and what the forecasts of that moment said of the day after."""
    cpu, memory = panels(data, cell.traces)
    centre = CENTRES[cell.centre]
    draw = Random(f"{cell.centre} {cell.traces} {cell.draw}")
    steps = min(cpu.steps, memory.steps)
    origin = draw.randrange(LEARNT_DAYS * DAY_STEPS, steps - DAY_STEPS)
    rows = draw.sample(range(len(cpu.names)), min(len(cpu.names), FITTED))
    told = [_forecast(panel.of(rows), origin) for panel in (cpu, memory)]
    warm = [n for n in range(len(rows)) if np.isfinite(told[0][n, 0] + told[1][n, 0])]
    if len(warm) < 1:
        raise StudyError(f"{cell.traces}: no machine has a forecast at step {origin}")
    # a set with fewer machines than the centre has hosts is used again, begun elsewhere
    chosen = [warm[n % len(warm)] for n in range(centre.hosts)]
    seen = [filled(panel.of(rows).values) for panel in (cpu, memory)]
    hosts = [
        host(shape, seen[0][row], seen[1][row])
        for shape, row in zip(shapes(centre), chosen, strict=True)
    ]
    ahead = [Foreseen(told[0][row].tolist(), told[1][row].tolist()) for row in chosen]
    return Scene(tuple(hosts), tuple(ahead), origin)


def _forecast(panel: Panel, origin: int) -> Floats:
    """Return the 0.99 quantile of the day after ``origin``, by linear quantile regression."""
    with threadpool_limits(1):  # cells run side by side
        return forecast(panel.until(origin), ForecastParams(model="linear")).values


def host(shape: tuple[Resources, float], cpu: Floats, memory: Floats) -> Host:
    """Return a host whose owners use these shares of it, by point."""
    capacity, speed = shape
    return Host(
        capacity,
        [round(share * capacity.cpu_m) for share in cpu.tolist()],
        [round(share * capacity.memory_bytes) for share in memory.tolist()],
        speed,
        LINK_BYTES_PER_S,
    )


def filled(values: Floats) -> Floats:
    """Return shares from 0 to 1; what was not observed holds the value before it (first: next)."""
    seen = np.isfinite(values)
    index = np.where(seen, np.arange(values.shape[1]), -1)
    index = np.maximum.accumulate(index, axis=1)
    first = np.argmax(seen, axis=1)[:, None]
    held = np.take_along_axis(values, np.where(index < 0, first, index), axis=1)
    return np.clip(np.nan_to_num(held), 0.0, 1.0)


def run(data: Path, cell: Cell) -> list[Json]:
    """Return the rows of a cell: what became of each batch by chunk, margin and strategy."""
    made = scene(data, cell)
    course = Course(point_s=STEP_S, start_point=made.point, limit_s=GIVEN_UP_S)
    rows: list[Json] = []
    for chunk_mb in CHUNKS:
        for margin in cell.margins:
            here = {"centre": cell.centre, "traces": cell.traces, "draw": cell.draw}
            here |= {"chunk_mb": chunk_mb, "margin": margin}
            asked = Asked(made, course, batch(chunk_mb), margin)
            found = [anew(asked)] if cell.is_moved else [*baseline(asked), *planned(asked, cell)]
            rows += [here | row for row in found]
    return rows


@dataclass(frozen=True, slots=True)
class Asked:
    """One batch on the hosts of a cell, by one margin."""

    made: Scene
    course: Course
    work: Batch
    margin: float

    @property
    def params(self) -> QosParams:
        """What the control laws go by."""
        return QosParams(cpu_margin=self.margin, memory_margin=self.margin)

    def problem(self, *, is_streamed: bool = False) -> Problem:
        """What the planner is asked."""
        hosts, ahead = self.made.hosts, self.made.ahead
        return problem_of(hosts, ahead, self.work, self.margin, is_streamed=is_streamed)


def baseline(asked: Asked) -> Iterator[Json]:
    """Yield what becomes of a batch under Cuckoo, by either controller."""
    made = asked.made
    weights = [
        told.free_cpu * h.capacity.cpu_m for h, told in zip(made.hosts, made.ahead, strict=True)
    ]
    for law in ("cuckoo", "salamander"):
        ruled = replace(asked.params, controller=law)
        found = cuckoo(made.hosts, asked.work, ruled, asked.course, weights)
        yield {"strategy": f"cuckoo, {law}"} | asdict(found)


def planned(asked: Asked, cell: Cell) -> Iterator[Json]:
    """Yield what becomes of a batch by the plans of the solvers, and by one that knows links."""
    none_fits: Solution | None = None
    for solver in (*(SOLVERS if cell.is_slow else SOLVERS[:1]), STREAMED):
        problem = asked.problem(is_streamed=solver == STREAMED)
        # what is proven not to fit, nobody plans, and with links in the plan less
        plan_, took_s = (none_fits, 0.0) if none_fits else solved(problem, solver)
        if plan_.refusals and plan_.is_optimal:
            none_fits = plan_
        found = salamander(
            asked.made.hosts, asked.work, asked.params, (problem, plan_), asked.course
        )
        yield told_of(solver, problem, plan_, took_s) | asdict(found)


def anew(asked: Asked) -> Json:
    """Return what becomes of a batch where the rest of its plan is planned anew."""
    problem = asked.problem()
    plan_, took_s = solved(problem, SOLVERS[0])
    whole = asked.problem(is_streamed=True)
    again = Again(problem, plan_, whole, lambda rest: plan(rest, time_limit_s=ANEW_S))
    found = moved(asked.made.hosts, asked.work, asked.params, again, asked.course)
    return told_of(MOVED, problem, plan_, took_s) | asdict(found)


def told_of(strategy: str, problem: Problem, found: Solution, took_s: float) -> Json:
    """Return what is told of a plan."""
    return {
        "strategy": strategy,
        "solved_s": took_s,
        "refused": why_not(found),
        "planned_s": found.makespan * problem.tick_s,
    }


def growth(data: Path, sizes: Sequence[int] = GROWTH_TASKS) -> list[Json]:
    """Return seconds, makespan and peak memory of each solver by the number of tasks (Fig. 4).

    On PC-1, each plan in a process of its own that has nothing but the planner.
    """
    made = scene(data, Cell("PC-1", SETS[0], 0, is_slow=True))
    context = get_context("spawn")
    rows = []
    for tasks in sizes:
        problem = problem_of(made.hosts, made.ahead, batch(128, tasks), 0.05)
        for solver in SOLVERS:
            with ProcessPoolExecutor(1, context) as pool:
                rows.append(pool.submit(measured, problem, solver).result())
    return rows
