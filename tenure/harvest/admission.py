"""The daemon's question to the planner, and its answer: new batches beside those accepted (ours).

The paper plans the jobs of one moment. A daemon is asked again and again, so a plan must not break
what was promised: a batch that was accepted stays accepted, and a newcomer may not push its end
behind what it was promised, or behind what it would have anyway if all were taken in the order of
their arrival. Several plans compete: by arrival (list scheduling, job by job), by the solver over
all jobs together, and by shares of submitters where the operator wants that. The best counts that
keeps the promises. All or nothing inside the window (Eq. 4 to 6) holds for each.

A window of a day in ticks of a second would be large for batches of a minute, so the horizon is
at first a few times what the work needs, and the whole window only if that refuses somebody.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tenure.harvest import planner
from tenure.harvest.grid import Grid, allowed, waves
from tenure.harvest.nearness import nearer
from tenure.harvest.problem import MAX_TICKS, Job, Node, Problem, Running, Stage
from tenure.harvest.progress import Watch
from tenure.harvest.replan import Delivered, Ended, State, rest
from tenure.harvest.solution import Solution, Start
from tenure.harvest.solvers import copies
from tenure.harvest.solvers.fair import fair
from tenure.harvest.solvers.first_fit import list_plan
from tenure.model.forecast import STEP_US
from tenure.model.planning import (
    BatchNeed,
    Offer,
    PlanAnswer,
    PlannedStart,
    PlanQuestion,
    Schedule,
    StageNeed,
)

US = 1_000_000
#: Ticks of a step from which the length of a tick is chosen: 1 second to 3 minutes.
STEP_TICKS = (180, 90, 60, 36, 18, 9, 6, 3, 1)
#: A task should last so many ticks, so that rounding up costs little.
TICKS_PER_TASK = 10
#: Nodes times ticks: more would take hundreds of megabytes while a plan is made.
MAX_CELLS = 2_000_000
#: The first horizon is so many times what the work needs if all nodes share it.
AMPLE = 4
LEAST_STEPS = 7


def answer(question: PlanQuestion, watch: Watch) -> PlanAnswer:
    """Return a schedule for each batch that fits beside the others, and why the rest does not.

    Batches with a promise keep it where they can; new ones are refused whole. ``Unavailable``: the
    solver's library is not installed.
    """
    whole = max(1, math.ceil(question.window_us / STEP_US))
    best: tuple[Problem, Solution] | None = None
    for steps in sorted({min(whole, ample_steps(question)), whole}):
        problem = problem_of(question, steps)
        best = problem, chosen(question, problem, watch)
        if not best[1].refusals:
            break
    assert best is not None
    return answer_of(question, best[0], nearer(*best))


def chosen(question: PlanQuestion, problem: Problem, watch: Watch) -> Solution:
    """Return the best plan that keeps what was promised; by arrival where none does."""
    base = by_arrival(problem)
    kept = {j for j, batch in enumerate(question.batches) if batch.promised_us} - refused_of(base)
    late = {j: max(promised_tick(question, problem, j), ends_of(problem, base)[j]) for j in kept}
    if question.sharing == "fair":
        shared = copies.planned(problem, fair)
        return base if refused_of(shared) & kept else shared
    if question.solver == "first_fit":
        return base
    found = planner.plan(problem, watch, solver=question.solver, cores=question.cores)
    ends = ends_of(problem, found)
    if refused_of(found) & kept or any(ends[j] > late[j] for j in kept):
        return base
    if found.score < base.score:
        return found
    if found.score > base.score:
        return base
    # a proof is of the score; by arrival each batch ends as early as those before it allow
    bounds = found.most_scheduled, found.least_makespan
    return replace(base, most_scheduled=bounds[0], least_makespan=bounds[1])


def by_arrival(problem: Problem) -> Solution:
    """Return a plan by list scheduling in the order in which batches arrived."""

    def solve(asked: Problem) -> Solution:
        return list_plan(asked, range(len(asked.jobs)), spread, "first_fit")

    return copies.planned(problem, solve)


def spread(grid: Grid, stage: Stage, ready: int) -> list[tuple[int, int, int]] | None:
    """Return the same ends as ``grid.earliest``, tasks that end alike shared between the nodes.

    Of nodes on which a task would end at the same tick, the one that has given the least part of
    its room takes it, so that no owner has all of them beside it. O(tasks x log nodes).
    """
    heap: list[tuple[int, float, int, int, int, int]] = []
    sources = {k: waves(grid, stage, k, ready) for k in allowed(grid.problem, stage)}
    for node, source in sources.items():
        push(heap, grid, stage, node, next(source, None))
    taken: dict[tuple[int, int], int] = {}
    left = stage.tasks
    while left and heap:
        end, _, node, tick, room, used = heapq.heappop(heap)
        taken[node, tick] = used + 1
        left -= 1
        if used + 1 < room:
            heapq.heappush(heap, (end, (used + 1) / room, node, tick, room, used + 1))
        else:
            push(heap, grid, stage, node, next(sources[node], None))
    return None if left else [(node, tick, count) for (node, tick), count in taken.items()]


def push(
    heap: list[tuple[int, float, int, int, int, int]],
    grid: Grid,
    stage: Stage,
    node: int,
    wave: tuple[int, int] | None,
) -> None:
    """Add a node's next tasks that could start together, if there are any."""
    if wave is not None:
        tick, room = wave
        end = tick + grid.problem.duration(stage, node)
        heapq.heappush(heap, (end, 0.0, node, tick, room, 0))


def refused_of(plan: Solution) -> set[int]:
    """Return the jobs that a plan refuses."""
    return {refusal.job for refusal in plan.refusals}


def ends_of(problem: Problem, plan: Solution) -> list[int]:
    """Return the tick at which each job ends, 0 for one that is refused or has nothing left."""
    ends = [0] * len(problem.jobs)
    for run in problem.running:
        ends[run.job] = max(ends[run.job], run.end)
    for start in plan.starts:
        stage = problem.jobs[start.job].stages[start.stage]
        end = start.tick + problem.duration(stage, start.node)
        ends[start.job] = max(ends[start.job], end)
    return ends


def promised_tick(question: PlanQuestion, problem: Problem, j: int) -> int:
    """Return the tick by which a batch was promised to end."""
    left_us = question.batches[j].promised_us - question.now_us
    return max(0, math.ceil(left_us / US / problem.tick_s))


# the problem


def ample_steps(question: PlanQuestion) -> int:
    """Return how many steps should be enough: a few times what the work takes if spread out."""
    cores = memory = chain = 0.0
    for batch in question.batches:
        for stage in batch.stages:
            left = stage.count - stage.ended
            cores += left * stage.work_us * stage.cpu_m
            memory += left * stage.work_us * stage.memory_bytes
            chain += stage.work_us if left else 0
    if not question.offers:
        return 1
    first = [offer.spells[0] for offer in question.offers]
    speed = min(offer.speed for offer in question.offers)
    wide = (cores, sum(s[1] for s in first)), (memory, sum(s[2] for s in first))
    need_us = max((area / max(1, spare) for area, spare in wide), default=0.0) + chain
    return max(LEAST_STEPS, math.ceil(AMPLE * need_us / max(speed, 1e-6) / STEP_US))


def step_ticks(question: PlanQuestion, steps: int) -> int:
    """Return how many ticks a step has: fine enough for the shortest task, if size allows it."""
    left = [s for batch in question.batches for s in batch.stages if s.count > s.ended]
    fastest = max((offer.speed for offer in question.offers), default=1.0)
    shortest_us = min((s.work_us for s in left), default=STEP_US) / fastest
    most = min(MAX_CELLS // max(1, steps * len(question.offers)), MAX_TICKS // max(1, steps))
    fitting = [ticks for ticks in STEP_TICKS if ticks <= most] or [1]
    coarse = [t for t in reversed(fitting) if STEP_US / t * TICKS_PER_TASK <= shortest_us]
    return coarse[0] if coarse else fitting[0]


def problem_of(question: PlanQuestion, steps: int) -> Problem:
    """Return what is left to be planned over so many steps from now on."""
    ticks = step_ticks(question, steps)
    nodes = tuple(node_of(offer, steps) for offer in question.offers)
    jobs = tuple(job_of(batch) for batch in question.batches)
    whole = Problem(nodes, jobs, tick_s=STEP_US / US / ticks, step_ticks=ticks)
    return rest(whole, state_of(question, whole))


def node_of(offer: Offer, steps: int) -> Node:
    """Return a node with its capacity step by step."""
    cpu_m: list[int] = []
    memory: list[int] = []
    for count, cores, amount in offer.spells:
        cpu_m += [max(0, cores)] * min(count, steps - len(cpu_m))
        memory += [max(0, amount)] * min(count, steps - len(memory))
    cpu_m += [max(0, offer.spells[-1][1])] * (steps - len(cpu_m))
    memory += [max(0, offer.spells[-1][2])] * (steps - len(memory))
    return Node(offer.node, tuple(cpu_m), tuple(memory), offer.speed, offer.link_bytes_per_s)


def job_of(batch: BatchNeed) -> Job:
    """Return a batch as a job."""
    stages = tuple(
        Stage(
            name=stage.name,
            tasks=stage.count,
            work_s=stage.work_us / US,
            cpu_m=stage.cpu_m,
            memory_bytes=stage.memory_bytes,
            chunk_bytes=stage.chunk_bytes,
            after=stage.after,
            nodes=stage.nodes,
            copies=_classes(stage),
            nearest=stage.copies,
            bring_s=stage.bring_us / US,
        )
        for stage in batch.stages
    )
    return Job(batch.batch, stages, batch.submitter, batch.weight)


def _classes(need: StageNeed) -> tuple[tuple[tuple[int, ...], int], ...]:
    """Return a stage's tasks by where their input lies, in whichever tier."""
    found = Counter[tuple[int, ...]]()
    for where, _, count in need.copies:
        found[where] += count
    return tuple(sorted(found.items()))


def state_of(question: PlanQuestion, problem: Problem) -> State:
    """Return how far the batches have come."""
    ended: list[Ended] = []
    running: list[Running] = []
    delivered: list[Delivered] = []
    for j, s, stage in each_stage(question):
        ended.append((j, s, stage.ended))
        for node, end_us, count in stage.running:
            left_s = (end_us - question.now_us) / US
            tick = max(1, math.ceil(left_s / problem.tick_s))
            running.append(Running(j, s, node, min(tick, problem.ticks), count))
        delivered += [(j, s, node, count) for node, count in stage.delivered]
    return State(0, tuple(ended), tuple(running), tuple(delivered))


def each_stage(question: PlanQuestion) -> Iterator[tuple[int, int, StageNeed]]:
    """Yield (batch, stage, what is left of it)."""
    for j, batch in enumerate(question.batches):
        for s, stage in enumerate(batch.stages):
            yield j, s, stage


# the answer


def answer_of(question: PlanQuestion, problem: Problem, plan: Solution) -> PlanAnswer:
    """Return a plan in times and names."""
    out = {refusal.job: refusal for refusal in plan.refusals}
    ends, tick_us = ends_of(problem, plan), round(problem.tick_s * US)
    starts: list[list[PlannedStart]] = [[] for _ in question.batches]
    fetched = brought(problem, plan)
    for start in sorted(plan.starts, key=lambda s: (s.tick, s.stage, s.node)):
        stage = question.batches[start.job].stages[start.stage].name
        at_us = question.now_us + start.tick * tick_us
        node = question.offers[start.node].node
        row = PlannedStart(stage, node, at_us, start.count, fetched.get(start, 0))
        starts[start.job].append(row)
    blank = Schedule("", (), 0, plan.solver, plan.is_optimal, question.now_us)
    schedules = tuple(
        replace(
            blank,
            batch=batch.batch,
            starts=tuple(starts[j]),
            end_us=question.now_us + ends[j] * tick_us,
        )
        for j, batch in enumerate(question.batches)
        if j not in out
    )
    refusals = tuple(
        (question.batches[j].batch, refusal.code, refusal.detail) for j, refusal in out.items()
    )
    return PlanAnswer(schedules, refusals)


def brought(problem: Problem, plan: Solution) -> dict[Start, int]:
    """Return to how many tasks of starts their input is brought from another node.

    Those that begin first on a node do so beside a copy (``Solution.beside``). Of a stage no more
    are brought than there is input of; that of the others will be sent.
    """
    there: Counter[tuple[int, int, int]] = Counter()
    left: Counter[tuple[int, int]] = Counter()
    for (j, s), stage in copies.stages_of(problem):
        left[j, s] = sum(count for *_, count in stage.copies)
    for one in plan.beside:
        there[one.job, one.stage, one.node] += one.count
        left[one.job, one.stage] -= one.count
    found: dict[Start, int] = {}
    for start in sorted(plan.starts, key=lambda start: start.tick):
        of, on = (start.job, start.stage), (start.job, start.stage, start.node)
        beside = min(start.count, there[on])
        there[on] -= beside
        found[start] = max(0, min(start.count - beside, left[of]))
        left[of] -= found[start]
    return found
