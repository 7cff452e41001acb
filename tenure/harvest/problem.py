"""What the holistic planner is asked (Salamander, section III-B): one type for all solvers.

Time is counted in **ticks** from the start of the window; a task starts at a tick and lasts whole
ticks. Capacity changes once a **step**, which is ``step_ticks`` ticks, so that starts may be finer
than forecasts (the paper: 480 steps of 3 minutes). Nodes, jobs and stages are told by their index.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tenure.model.errors import FieldError

#: (path of the field, what is wrong with it)
Fault = tuple[str, str]
#: The paper's window: 24 hours in steps of 3 minutes.
STEPS = 480
STEP_S = 180.0
#: No problem is larger: beyond it a plan would take longer than the window that it is for.
MAX_TICKS = 1_000_000


@dataclass(frozen=True, slots=True)
class Node:
    """A node and what it can spare.

    ``cpu_m`` and ``memory_bytes`` are A(k, m, t) of Eq. 1 per step: thousandths of a core, bytes.
    ``speed`` divides the work of a task. ``link_bytes_per_s`` is how fast chunks reach the node;
    None: not modelled, every chunk is there at once.
    """

    name: str
    cpu_m: tuple[int, ...]
    memory_bytes: tuple[int, ...]
    speed: float = 1.0
    link_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Identical tasks of a job; a stage with a shorter last chunk is two of these.

    ``tasks`` are still to be started. Each takes ``work_s`` seconds on a node of speed 1, uses
    ``cpu_m`` and ``memory_bytes`` throughout, and reads ``chunk_bytes`` of input that must reach
    its node before it starts. The stage begins when all stages in ``after`` (smaller indices in
    the same job) have ended (Eq. 5); only then the chunks of such a stage, which are those stages'
    output, can be sent. ``nodes``: indices of the nodes that may run it, None for all.
    ``present``: (node, chunks) that are there already and need not be sent. ``copies``: classes of
    tasks by where their input lies, as (nodes, tasks): each may begin on any of these without
    sending, but on one alone. ``nearest``: the same tasks as (nodes, those of them where their
    input is read fastest, tasks), for plans that end alike (``nearness``). ``bring_s``: how long
    after its last byte a chunk that was sent can be read, however fast the link.
    """

    name: str
    tasks: int
    work_s: float
    cpu_m: int
    memory_bytes: int
    chunk_bytes: int = 0
    after: tuple[int, ...] = ()
    nodes: tuple[int, ...] | None = None
    present: tuple[tuple[int, int], ...] = ()
    copies: tuple[tuple[tuple[int, ...], int], ...] = ()
    bring_s: float = 0.0
    nearest: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...] = ()

    def here(self, node: int) -> int:
        """Return how many of its chunks are ``present`` on a node."""
        return sum(count for k, count in self.present if k == node)


@dataclass(frozen=True, slots=True)
class Job:
    """Stages that are all scheduled or none (Eq. 5).

    ``submitter``: whose it is, for fairness; ``weight``: that one's, above 0.
    """

    name: str
    stages: tuple[Stage, ...]
    submitter: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Running:
    """``count`` tasks of a stage that run on ``node`` until ``end`` (a tick) and stay there."""

    job: int
    stage: int
    node: int
    end: int
    count: int


@dataclass(frozen=True, slots=True)
class Problem:
    """All that a plan depends on. Ticks last ``tick_s`` seconds, ``step_ticks`` make a step.

    Nothing can be started or sent before ``begin``, the tick that is now when a plan is made anew.
    """

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    tick_s: float = 10.0
    step_ticks: int = 18
    running: tuple[Running, ...] = ()
    begin: int = 0

    @property
    def ticks(self) -> int:
        """T of Eq. 4, in ticks: every task has ended by then."""
        return self.step_ticks * (len(self.nodes[0].cpu_m) if self.nodes else 0)

    @property
    def tasks(self) -> int:
        """Tasks of all jobs that are to be planned."""
        return sum(stage.tasks for job in self.jobs for stage in job.stages)

    def duration(self, stage: Stage, node: int) -> int:
        """Return Te(i, k) in ticks, at least 1."""
        exact = stage.work_s / self.nodes[node].speed / self.tick_s
        return max(1, math.ceil(exact - 1e-9))

    def lag(self, stage: Stage) -> int:
        """Return how many ticks after its last byte a chunk of a stage can be read."""
        return math.ceil(stage.bring_s / self.tick_s - 1e-9) if stage.chunk_bytes else 0

    def must_bring(self, stage: Stage, node: int) -> bool:
        """Whether chunks of a stage that are not on a node have to be waited for there."""
        is_linked = self.nodes[node].link_bytes_per_s is not None
        return stage.chunk_bytes > 0 and (is_linked or self.lag(stage) > 0)

    def link_bytes(self, node: int) -> int | None:
        """Return what reaches a node in one tick, None where links are not modelled."""
        rate = self.nodes[node].link_bytes_per_s
        return None if rate is None else int(rate * self.tick_s)


def unused(capacity: int, predicted: Sequence[float], margin: float) -> tuple[int, ...]:
    """Return A(k, m, t) = C (1 - (U(t) + S)) per step, not below 0 (Eq. 1).

    ``predicted`` (steps,) and ``margin`` are ratios of ``capacity``.
    """
    return tuple(max(0, math.floor(capacity * (1.0 - (u + margin)))) for u in predicted)


def faults(problem: Problem) -> tuple[FieldError, ...]:
    """Return what is wrong with a problem, each with its place and what would be right."""
    return tuple(FieldError(path, text) for path, text in faults_of(problem))


def faults_of(problem: Problem) -> Iterator[Fault]:
    """Yield what is wrong with any part of a problem."""
    if not (problem.tick_s > 0 and math.isfinite(problem.tick_s)):
        yield "tick_s", "must be a positive number of seconds"
    if problem.step_ticks < 1:
        yield "step_ticks", "must be at least 1"
    if not 0 <= problem.begin <= problem.ticks:
        yield "begin", f"must be a tick of the window (0 to {problem.ticks})"
    if problem.ticks > MAX_TICKS:
        yield "tick_s", f"{problem.ticks} ticks in the window; at most {MAX_TICKS}"
    yield from node_faults(problem.nodes)
    for j, job in enumerate(problem.jobs):
        runs = any(run.job == j for run in problem.running)
        if not (runs or problem.begin) and not any(stage.tasks for stage in job.stages):
            yield f"jobs.{j}", "has no tasks; leave it out"
        for s, stage in enumerate(job.stages):
            for field, text in stage_faults(stage, s, len(problem.nodes)):
                yield f"jobs.{j}.stages.{s}.{field}", text
    yield from running_faults(problem)


def node_faults(nodes: Sequence[Node]) -> Iterator[Fault]:
    """Yield what is wrong with the nodes."""
    for k, node in enumerate(nodes):
        steps = len(nodes[0].cpu_m)
        for field, free in (("cpu_m", node.cpu_m), ("memory_bytes", node.memory_bytes)):
            if len(free) != steps:
                yield f"nodes.{k}.{field}", f"must have {steps} steps, as the first node"
            if min(free, default=0) < 0:
                yield f"nodes.{k}.{field}", "free capacity must not be negative; write 0"
        if not (node.speed > 0 and math.isfinite(node.speed)):
            yield f"nodes.{k}.speed", "must be a positive number"
        if node.link_bytes_per_s is not None and node.link_bytes_per_s <= 0:
            yield f"nodes.{k}.link_bytes_per_s", "must be positive, or None if not modelled"


def stage_faults(stage: Stage, index: int, nodes: int) -> Iterator[Fault]:
    """Yield what is wrong with a stage."""
    if not (stage.work_s >= 0 and math.isfinite(stage.work_s)):
        yield "work_s", "must be a number of seconds, not negative"
    for name in ("tasks", "cpu_m", "memory_bytes", "chunk_bytes"):
        if getattr(stage, name) < 0:
            yield name, "must not be negative"
    if stage.cpu_m == 0 and stage.memory_bytes == 0:
        yield "cpu_m", "a task must need CPU or memory, else any number of them could run at once"
    if any(not 0 <= other < index for other in stage.after):
        yield "after", "must name stages before this one, so that none waits for itself"
    if any(not 0 <= node < nodes for node in stage.nodes or ()):
        yield "nodes", f"must be indices of the {nodes} nodes"
    yield from input_faults(stage, nodes)


def input_faults(stage: Stage, nodes: int) -> Iterator[Fault]:
    """Yield what is wrong with what is said of a stage's input."""
    if any(not 0 <= node < nodes or count < 0 for node, count in stage.present):
        yield "present", f"must be pairs of a node's index (below {nodes}) and a count"
    if any(count < 0 or any(not 0 <= k < nodes for k in where) for where, count in stage.copies):
        yield "copies", f"must be pairs of nodes' indices (below {nodes}) and a count"
    if stage.copies and stage.present:
        yield "copies", "not beside present: of what is there once, a class of one node each"
    told = Counter[tuple[int, ...]]()
    for where, near, count in stage.nearest:
        told[where] += count
        if not set(near) <= set(where):
            yield "nearest", "must name the fastest among the nodes where the input lies"
    if stage.nearest and sorted(told.items()) != sorted(stage.copies):
        yield (
            "nearest",
            "must count the tasks of copies, each of whose classes has nodes of its own",
        )
    if not (stage.bring_s >= 0 and math.isfinite(stage.bring_s)):
        yield "bring_s", "must be a number of seconds, not negative"


def running_faults(problem: Problem) -> Iterator[Fault]:
    """Yield what is wrong with the tasks that run."""
    for r, run in enumerate(problem.running):
        is_known = 0 <= run.job < len(problem.jobs) and 0 <= run.node < len(problem.nodes)
        if not is_known or not 0 <= run.stage < len(problem.jobs[run.job].stages):
            yield f"running.{r}", "names a job, stage or node that is not there"
        elif run.count < 0 or run.end < 0:
            yield f"running.{r}", "count and end must not be negative"
