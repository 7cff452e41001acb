"""The model of ``cp``: how many tasks of each stage have started on each node by each tick.

X(s, k, t) is a whole number that never falls with t. Then Eq. 6 is, for each node, resource and
tick, the sum over stages of need x (X(s, k, t) - X(s, k, t - Te(s, k))) <= A(k, m, t): few terms,
however long tasks last. Eq. 5 needs one switch e(p, t) for each stage p that others wait for: it
may be on once all tasks of p have ended by t, and X(s, k, t) is 0 while it is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tenure.harvest.grid import Ints, allowed
from tenure.harvest.problem import Stage
from tenure.harvest.progress import Watch
from tenure.harvest.solution import Start
from tenure.harvest.solvers.bounds import Relaxation

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpSolver
    from ortools.sat.python.cp_model_helper import CpSolverStatus

#: A whole number, or a linear expression of the model's variables.
Term = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search found: starts and refused jobs (None: nothing better), and a proven bound."""

    starts: tuple[Start, ...] | None
    refused: tuple[int, ...]
    bound: int


@dataclass(slots=True)
class Row:
    """X(s, k, .) of one stage on one node: ``at[t]`` is the variable at tick t (or 0)."""

    stage: Stage
    lasts: int
    at: list[Term]

    def by(self, tick: int) -> Term:
        """Return the tasks started by a tick; before the window none."""
        return 0 if tick < 0 else self.at[min(tick, len(self.at) - 1)]

    def running(self, tick: int) -> Term:
        """Return the tasks that run during a tick."""
        return self.by(tick) - self.by(tick - self.lasts)

    def ended(self, tick: int) -> Term:
        """Return the tasks that have ended by a tick."""
        return self.by(tick - self.lasts)


class Model:
    """A CP-SAT model of all jobs' tasks that end by a limit."""

    def __init__(self, relaxed: Relaxation, at_least: int, limit: int) -> None:
        from ortools.sat.python import cp_model

        self.cp = cp_model
        self.model = cp_model.CpModel()
        self.relaxed, self.problem, self.grid = relaxed, relaxed.problem, relaxed.grid
        self.at_least, self.limit = at_least, limit
        self.accepted: list[Term] = []
        self.rows: dict[tuple[int, int, int], Row] = {}
        self.switches: dict[tuple[int, int], list[Term]] = {}

    @classmethod
    def of(cls, relaxed: Relaxation, at_least: int, limit: int, most: int) -> Model | None:
        """Return a model of plans of ``at_least`` tasks within ``limit`` ticks.

        None if it would take more than ``most`` counts.
        """
        size = sum(
            max(0, limit - (head or 0) - tail)
            for j, own in enumerate(relaxed.alone)
            if own.end is not None
            for head, tail, stage in zip(
                own.heads, own.tails, relaxed.problem.jobs[j].stages, strict=True
            )
            if stage.tasks
            for _ in allowed(relaxed.problem, stage)
        )
        if size > most:
            return None
        model = cls(relaxed, at_least, limit)
        model.add_jobs()
        model.add_capacity()
        model.add_dependencies()
        model.add_delivery()
        return model

    def add_jobs(self) -> None:
        """Add X, and that all tasks of a job start or none (Eq. 5, first part; Eq. 4)."""
        for j, job in enumerate(self.problem.jobs):
            own = self.relaxed.alone[j]
            # what runs already may end after the window
            is_out = own.end is None or min(own.end, self.problem.ticks) > self.limit
            self.accepted.append(self.model.new_bool_var(f"a{j}"))
            tasks = self.relaxed.tasks_of(j)
            if is_out or not tasks:
                self.model.add(self.accepted[j] == int(not is_out))
            for s, stage in enumerate(job.stages):
                if is_out or not stage.tasks:
                    continue
                nodes = allowed(self.problem, stage)
                for k in nodes:
                    self.rows[j, s, k] = self.row(j, s, k)
                started = sum(self.rows[j, s, k].by(self.limit) for k in nodes)
                self.model.add(started == stage.tasks * self.accepted[j])
        self.planned = sum(self.relaxed.tasks_of(j) * a for j, a in enumerate(self.accepted))
        self.model.add(self.planned >= self.at_least)

    def row(self, j: int, s: int, k: int) -> Row:
        """Return the counts of a stage on a node, one variable where a start is possible."""
        own, stage = self.relaxed.alone[j], self.problem.jobs[j].stages[s]
        lasts = self.problem.duration(stage, k)
        end = min(self.limit, self.problem.ticks)
        head, last = own.heads[s] or 0, end - own.tails[s] - lasts
        at: list[Term] = [0] * (self.limit + 1)
        if last < head:
            return Row(stage, lasts, at)
        room = self.grid.room(stage, k, head)[: last - head + lasts]
        width = np.lib.stride_tricks.sliding_window_view(room, lasts).min(axis=1)
        top, before = 0, None
        for t in range(head, last + 1):
            if width[t - head] > 0:
                top = min(stage.tasks, top + int(width[t - head]))
                name = f"x{j}.{s}.{k}.{t}"
                at[t] = self.model.new_int_var(0, top, name)
                if before is not None:
                    self.model.add(at[t] >= before)
                    self.model.add(at[t] <= before + int(width[t - head]))
                before = at[t]
            elif before is not None:
                at[t] = before
        for t in range(last + 1, self.limit + 1):
            at[t] = at[last]
        return Row(stage, lasts, at)

    def on_node(self, k: int) -> list[tuple[int, int, Row]]:
        """Return (job, stage, row) of a node."""
        return [(j, s, row) for (j, s, node), row in self.rows.items() if node == k]

    def add_capacity(self) -> None:
        """Add Eq. 6 for each node, resource and tick at which it can bind."""
        for k in range(len(self.problem.nodes)):
            rows = [row for _, _, row in self.on_node(k)]
            for free, needs in (
                (self.grid.cpu_m[k], [row.stage.cpu_m for row in rows]),
                (self.grid.memory_bytes[k], [row.stage.memory_bytes for row in rows]),
            ):
                self.add_capacity_of(free, rows, needs)

    def add_capacity_of(self, free: Ints, rows: list[Row], needs: list[int]) -> None:
        """Add Eq. 6 for one resource of a node; in places where all tasks need the same."""
        wanted = sorted({need for need in needs if need})
        if not wanted:
            return
        unit = wanted[0] if len(wanted) == 1 else 1
        for t in range(min(self.limit, self.problem.ticks)):
            used = [
                (need // unit, row.running(t))
                for need, row in zip(needs, rows, strict=True)
                if need and not is_zero(row.running(t))
            ]
            if used:
                total = sum(need * running for need, running in used)
                self.model.add(total <= int(free[t]) // unit)

    def add_dependencies(self) -> None:
        """Add Eq. 5, second part, by a switch for each stage that others wait for and tick."""
        for j, job in enumerate(self.problem.jobs):
            for s, stage in enumerate(job.stages):
                for p in self.waited_for(j, s):
                    for k in allowed(self.problem, stage):
                        row = self.rows.get((j, s, k))
                        if row is None:
                            continue
                        for t in range(self.limit):
                            if not is_zero(row.by(t)):
                                self.model.add(row.by(t) <= stage.tasks * self.switch(j, p)[t])

    def waited_for(self, j: int, s: int) -> set[int]:
        """Return the stages with tasks that a stage waits for, through those without."""
        found: set[int] = set()
        for other in self.problem.jobs[j].stages[s].after:
            has_tasks = self.problem.jobs[j].stages[other].tasks > 0
            found |= {other} if has_tasks else self.waited_for(j, other)
        return found

    def switch(self, j: int, p: int) -> list[Term]:
        """Return e(p, .): on only where all tasks of a stage have ended by the tick."""
        if (j, p) not in self.switches:
            stage, first = self.problem.jobs[j].stages[p], self.relaxed.alone[j].ends[p] or 0
            nodes = allowed(self.problem, stage)
            found: list[Term] = []
            for t in range(self.limit + 1):
                if t < first:
                    found.append(0)
                    continue
                found.append(self.model.new_bool_var(f"e{j}.{p}.{t}"))
                ended = sum(self.rows[j, p, k].ended(t) for k in nodes if (j, p, k) in self.rows)
                self.model.add(stage.tasks * found[t] <= ended)
                if t > first:
                    self.model.add_implication(found[t - 1], found[t])
            self.switches[j, p] = found
        return self.switches[j, p]

    def add_delivery(self) -> None:
        """Add that chunks reach their nodes in time (ours), by the bytes sent until each tick.

        L(s, k, t) is what of a stage was sent to a node before t. Chunks that exist from the
        beginning need no L of their own: the link brings them in the order they are needed.
        """
        for k in range(len(self.problem.nodes)):
            rate = self.problem.link_bytes(k)
            rows = [(j, s, row) for j, s, row in self.on_node(k) if row.stage.chunk_bytes]
            if rate is None:
                self.add_lags(k, rows)
                continue
            if not rows:
                continue
            simple = [row for _, _, row in rows if not row.stage.after and not row.stage.here(k)]
            sent = [
                self.sent(j, s, k, rate)
                for j, s, row in rows
                if row.stage.after or row.stage.here(k)
            ]
            for t in range(self.limit):
                needed = [
                    row.stage.chunk_bytes * row.by(t + self.problem.lag(row.stage))
                    for row in simple
                ]
                needed += [line[t] for line in sent]
                needed = [term for term in needed if not is_zero(term)]
                if needed:
                    self.model.add(sum(needed) <= rate * max(0, t - self.problem.begin))
            for t in range(1, self.limit):
                grown = [line[t] - line[t - 1] for line in sent if not is_zero(line[t])]
                if len(grown) > 1:
                    self.model.add(sum(grown) <= rate)

    def add_lags(self, k: int, rows: list[tuple[int, int, Row]]) -> None:
        """Add that chunks can be read so long after they were sent, of a node without a link."""
        for j, s, row in rows:
            stage, lag = row.stage, self.problem.lag(row.stage)
            switches = [self.switch(j, p) for p in self.waited_for(j, s)] if lag else []
            for t in range(self.limit if lag else 0):
                if is_zero(row.by(t)):
                    continue
                if t < self.problem.begin + lag:
                    self.model.add(row.by(t) <= stage.here(k))
                for switch in switches:
                    sent = switch[t - lag] if t >= lag else 0
                    self.model.add(row.by(t) <= stage.here(k) + stage.tasks * sent)

    def sent(self, j: int, s: int, k: int, rate: int) -> list[Term]:
        """Return L(s, k, .) of one stage: never falls, waits for the stage's input."""
        row = self.rows[j, s, k]
        stage, switches = row.stage, [self.switch(j, p) for p in self.waited_for(j, s)]
        head = max(self.problem.begin, self.relaxed.alone[j].heads[s] or 0)
        line: list[Term] = [0] * self.limit
        for t in range(head + 1, self.limit):
            line[t] = self.model.new_int_var(
                0, stage.tasks * stage.chunk_bytes, f"l{j}.{s}.{k}.{t}"
            )
            self.model.add(line[t] >= line[t - 1])
            self.model.add(line[t] - line[t - 1] <= rate)
            for switch in switches:
                self.model.add(line[t] - line[t - 1] <= rate * switch[t - 1])
        lag = self.problem.lag(stage)
        for t in range(self.limit):
            if not is_zero(row.by(t)):
                needed = stage.chunk_bytes * (row.by(t) - stage.here(k))
                self.model.add(line[max(0, t - lag)] >= needed)
        return line

    def maximise_tasks(self, watch: Watch, limit_s: float, cores: int) -> Answer:
        """Search for a plan with the most tasks; the bound is how many there can be."""
        self.model.maximize(self.planned)
        solver, status = self.solve(watch, limit_s, cores)
        if status == self.cp.INFEASIBLE:
            return Answer(None, (), self.at_least - 1)
        bound = solver.best_objective_bound
        most = int(bound + 0.5) if status != self.cp.UNKNOWN else self.problem.tasks
        return self.answer(solver, status, most)

    def minimise_makespan(self, watch: Watch, least: int, cores: int) -> Answer:
        """Search for the plan that ends first, at ``least`` or later; the bound is its tick."""
        late = {t: self.model.new_bool_var(f"late{t}") for t in range(least, self.limit)}
        for t in range(least + 1, self.limit):
            self.model.add_implication(late[t], late[t - 1])
        for row in self.rows.values():
            last = row.by(self.limit)
            for t, is_late in late.items():
                if not is_zero(last) and last is not row.ended(t):
                    self.model.add(last - row.ended(t) <= row.stage.tasks * is_late)
        for run in self.problem.running:
            for t in range(least, min(run.end, self.limit)):
                self.model.add_implication(self.accepted[run.job], late[t])
            if run.end > self.limit:
                self.model.add(self.accepted[run.job] == 0)
        self.model.minimize(least + sum(late.values()))
        solver, status = self.solve(watch, watch.left_s, cores)
        if status == self.cp.INFEASIBLE:
            return Answer(None, (), self.limit + 1)
        bound = solver.best_objective_bound
        first = int(np.ceil(bound - 1e-6)) if status != self.cp.UNKNOWN else least
        return self.answer(solver, status, first)

    def solve(self, watch: Watch, limit_s: float, cores: int) -> tuple[CpSolver, CpSolverStatus]:
        """Run CP-SAT; it ends at the limit or when ``watch`` is told to."""
        solver = self.cp.CpSolver()
        solver.parameters.max_time_in_seconds = max(0.01, limit_s)
        solver.parameters.num_workers = max(1, cores)
        solver.parameters.random_seed = 0
        watch.stop = solver.stop_search
        status = self.cp.UNKNOWN if watch.is_cancelled else solver.solve(self.model)
        watch.stop = None
        return solver, status

    def answer(self, solver: CpSolver, status: CpSolverStatus, bound: int) -> Answer:
        """Return the plan that a solver ended with."""
        if status not in (self.cp.OPTIMAL, self.cp.FEASIBLE):
            return Answer(None, (), bound)
        refused = tuple(j for j, a in enumerate(self.accepted) if not solver.value(a))
        return Answer(tuple(self.starts(solver)), refused, bound)

    def starts(self, solver: CpSolver) -> Iterator[Start]:
        """Yield the starts of the plan that a solver ended with."""
        for (j, s, k), row in self.rows.items():
            before = 0
            for t in range(self.limit + 1):
                count = 0 if is_zero(row.by(t)) else int(solver.value(row.by(t)))
                if count > before:
                    yield Start(j, s, k, t, count - before)
                before = max(before, count)


def is_zero(term: Term) -> bool:
    """Whether a term of the model is the number 0."""
    return isinstance(term, int) and term == 0
