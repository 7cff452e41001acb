"""The one independent judge of plans: Eq. 4 to 6, chunk delivery, and the objective.

It shares nothing with the solvers but the types, and goes tick by tick through what a plan says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Solution, Start


@dataclass(frozen=True, slots=True)
class Read:
    """A plan read once: its starts by (job, stage) and by (node, job, stage), in order of tick."""

    problem: Problem
    plan: Solution
    of_stage: dict[tuple[int, int], list[Start]]
    on_node: dict[tuple[int, int, int], list[Start]]

    @classmethod
    def of(cls, problem: Problem, plan: Solution) -> Read:
        """Sort the starts of a plan."""
        read = cls(problem, plan, defaultdict(list), defaultdict(list))
        for start in sorted(plan.starts, key=lambda start: start.tick):
            read.of_stage[start.job, start.stage].append(start)
            read.on_node[start.node, start.job, start.stage].append(start)
        return read


def violations(problem: Problem, plan: Solution) -> list[str]:
    """Return every constraint that a plan breaks, in words; empty for a feasible plan."""
    found = list(unknown(problem, plan))
    if found:
        return found
    read = Read.of(problem, plan)
    laws = (all_or_nothing, within_window, dependencies, capacity, copies, delivery, objective)
    for law in laws:
        found += law(read)
    return found


def unknown(problem: Problem, plan: Solution) -> Iterator[str]:
    """Yield starts that name what is not there."""
    for start in plan.starts:
        if not (0 <= start.job < len(problem.jobs) and 0 <= start.node < len(problem.nodes)):
            yield f"{start} names a job or node that is not there"
        elif not 0 <= start.stage < len(problem.jobs[start.job].stages):
            yield f"{start} names a stage that is not there"
        elif start.count < 1:
            yield f"{start} starts no task"
        elif not may_use(problem, start):
            yield f"{start} is on a node that its stage may not use"


def stage_of(problem: Problem, start: Start) -> Stage:
    """Return the stage that a start belongs to."""
    return problem.jobs[start.job].stages[start.stage]


def may_use(problem: Problem, start: Start) -> bool:
    """Whether a start's node is one that its stage may use."""
    nodes = stage_of(problem, start).nodes
    return nodes is None or start.node in nodes


def end_of(problem: Problem, start: Start) -> int:
    """Return ts(i) + Te(i, n(i))."""
    return start.tick + problem.duration(stage_of(problem, start), start.node)


def all_or_nothing(read: Read) -> Iterator[str]:
    """Yield jobs that are neither whole nor refused (Eq. 5, first part)."""
    refused = {refusal.job for refusal in read.plan.refusals}
    if len(refused) != len(read.plan.refusals):
        yield "a job is refused twice"
    for j, job in enumerate(read.problem.jobs):
        for s, stage in enumerate(job.stages):
            count = sum(start.count for start in read.of_stage[j, s])
            want = 0 if j in refused else stage.tasks
            if count != want:
                yield f"jobs[{j}].stages[{s}]: {count} tasks planned, {want} expected"


def within_window(read: Read) -> Iterator[str]:
    """Yield starts outside the window (Eq. 4)."""
    for start in read.plan.starts:
        end = end_of(read.problem, start)
        begin, limit = read.problem.begin, read.problem.ticks
        if start.tick < begin or end > limit:
            yield f"Eq. 4: {start} ends at {end}, outside {begin}..{limit}"


def dependencies(read: Read) -> Iterator[str]:
    """Yield starts before the end of a stage they depend on (Eq. 5, second part)."""
    for (job, stage), starts in read.of_stage.items():
        ready = release(read, job, stage)
        if starts and starts[0].tick < ready:
            yield f"Eq. 5: {starts[0]} starts before {ready}, the end of what it depends on"


def release(read: Read, job: int, stage: int) -> int:
    """Return when everything that a stage waits for has ended, tasks that run already included."""
    after = waited_for(read.problem, job, stage)
    ends = [run.end for run in read.problem.running if run.job == job and run.stage in after]
    for other in after:
        ends += [end_of(read.problem, start) for start in read.of_stage.get((job, other), ())]
    return max(ends, default=0)


def waited_for(problem: Problem, job: int, stage: int) -> set[int]:
    """Return all stages that come before a stage, directly or not."""
    found: set[int] = set()
    todo = list(problem.jobs[job].stages[stage].after)
    while todo:
        other = todo.pop()
        if other not in found:
            found.add(other)
            todo += problem.jobs[job].stages[other].after
    return found


def capacity(read: Read) -> Iterator[str]:
    """Yield where the tasks of a node need more than it has free (Eq. 6, ts <= t < ts + Te).

    Tasks that run already stay, also where the forecast has fallen below them.
    """
    problem = read.problem
    for k, node in enumerate(problem.nodes):
        for name, free in (("cpu_m", node.cpu_m), ("memory_bytes", node.memory_bytes)):
            used, old = [0] * problem.ticks, [0] * problem.ticks
            for start in (start for start in read.plan.starts if start.node == k):
                need = getattr(stage_of(problem, start), name) * start.count
                for tick in range(start.tick, min(end_of(problem, start), problem.ticks)):
                    used[tick] += need
            for run in (run for run in problem.running if run.node == k):
                need = getattr(problem.jobs[run.job].stages[run.stage], name) * run.count
                for tick in range(min(run.end, problem.ticks)):
                    old[tick] += need
            for tick in range(problem.ticks):
                left = max(0, free[tick // problem.step_ticks] - old[tick])
                if used[tick] > left:
                    yield f"Eq. 6: {node.name} at {tick}: {name} {used[tick]} used, {left} free"
                    break


def copies(read: Read) -> Iterator[str]:
    """Yield tasks said to begin beside their input that it does not lie beside (ours).

    Of a class no more than it has, on nodes where its input lies, and nowhere more than begin.
    """
    taken: dict[tuple[int, int, int], int] = defaultdict(int)
    there: dict[tuple[int, int, int], int] = defaultdict(int)
    for one in read.plan.beside:
        key = (one.job, one.stage)
        known = read.problem.jobs[one.job].stages[one.stage].copies if read.of_stage[key] else ()
        if one.count < 1 or not 0 <= one.place < len(known) or one.node not in known[one.place][0]:
            yield f"copies: {one} begins where its input does not lie"
            return
        taken[*key, one.place] += one.count
        there[one.node, *key] += one.count
    for (j, s, place), count in taken.items():
        has = read.problem.jobs[j].stages[s].copies[place][1]
        if count > has:
            yield f"copies: {count} tasks of jobs[{j}].stages[{s}].copies[{place}], which has {has}"
    for where, count in there.items():
        begin = sum(start.count for start in read.on_node.get(where, ()))
        if count > begin:
            yield f"copies: {count} tasks beside their input at {where}, where {begin} begin"


def delivery(read: Read) -> Iterator[str]:
    """Yield nodes where tasks start before the link can have brought their chunks (ours).

    All chunks that are released at ``r`` or later and needed by ``t`` must fit between the two,
    for every ``r`` and ``t``: necessary, and enough for a link that may interrupt one chunk for
    another that is needed earlier.
    """
    for k, node in enumerate(read.problem.nodes):
        rate = read.problem.link_bytes(k)
        needs = sorted(sent(read, k))  # (tick, release, bytes)
        if rate is None:
            late = (need for need in needs if need[0] < need[1])
            for tick, ready, _ in late:
                yield f"delivery: {node.name} needs by {tick} what can be sent from {ready} on"
            continue
        for ready in sorted({release for _, release, _ in needs}):
            total = 0
            for tick, group in groupby(needs, key=lambda need: need[0]):
                total += sum(amount for _, release, amount in group if release >= ready)
                room = rate * max(0, tick - ready)
                if total > room:
                    yield (
                        f"delivery: {node.name} needs {total} bytes by {tick}, "
                        f"its link brings {room} from {ready} on"
                    )
                    break


def sent(read: Read, node: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tick, release, bytes) of what must be sent to a node by each tick.

    What is sent by a tick can be read some ticks later (``Stage.bring_s``).
    """
    for j, job in enumerate(read.problem.jobs):
        for s, stage in enumerate(job.stages):
            starts = read.on_node.get((node, j, s))
            if not starts or not stage.chunk_bytes:
                continue
            here = sum(count for k, count in stage.present if k == node)
            here += sum(
                one.count
                for one in read.plan.beside
                if (one.job, one.stage, one.node) == (j, s, node)
            )
            lag = math.ceil(stage.bring_s / read.problem.tick_s - 1e-9)
            ready = max(read.problem.begin, release(read, j, s))
            for start in starts:
                missing = max(0, start.count - here)
                here = max(0, here - start.count)
                if missing:
                    yield start.tick - lag, ready, missing * stage.chunk_bytes


def objective(read: Read) -> Iterator[str]:
    """Yield wrong figures of the objective (Eq. 2 and 3), and bounds that the plan disproves."""
    plan = read.plan
    refused = {refusal.job for refusal in plan.refusals}
    scheduled = sum(start.count for start in plan.starts)
    ends = [end_of(read.problem, start) for start in plan.starts]
    ends += [run.end for run in read.problem.running if run.job not in refused]
    if plan.scheduled != scheduled:
        yield f"Eq. 2: {plan.scheduled} tasks stated, {scheduled} scheduled"
    if plan.makespan != max(ends, default=0):
        yield f"Eq. 3: makespan {plan.makespan} stated, {max(ends, default=0)} planned"
    if plan.most_scheduled is not None and plan.most_scheduled < plan.scheduled:
        yield f"bound: {plan.scheduled} tasks scheduled, {plan.most_scheduled} said to be the most"
    if plan.least_makespan is not None and plan.least_makespan > plan.makespan:
        yield f"bound: makespan {plan.makespan}, {plan.least_makespan} said to be the least"
