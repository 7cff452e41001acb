"""Tasks whose input lies on some nodes already: which class of them begins where (ours).

Theory of operation. Solvers know how many chunks of a stage are ``present`` on a node. Of classes
of tasks (``Stage.copies``) each task has its input on several nodes and begins on one of them,
which a count by nodes cannot say. Tasks whose input lies nowhere are a stage of their own: beside
the copies of others they would seem to have some, which makes a bound that no plan comes near.
Then a problem is first planned *loosely*, every copy counted on its node; what bounds that bounds
any plan. Then the tasks that it has on each node are matched to classes that have copies there, by
maximum flow. If all find one, the plan is kept. Else every task is given to one of its nodes, by
that flow as far as it goes, and the problem is planned again with what is present then (*tightly*):
a plan of that is one of the problem, if not always the best. Where classes are few and a solver can
prove optima, the problem is planned once more with a stage for each class, which says all. So the
size of what is solved does not grow with the classes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tenure.harvest.problem import Problem, Stage
from tenure.harvest.solution import Beside, Solution, solution

#: With more classes in all a stage for each would make problems that nobody solves better.
MOST_CLASSES = 24
Solve = Callable[[Problem], Solution]
#: Tasks of a stage by class (its place) and node.
Shares = Counter[tuple[int, int]]
Key = tuple[int, int]
#: Some of a stage's tasks as a stage of their own, and which of its classes are theirs.
Part = tuple[tuple[int, ...], Stage]


def planned(problem: Problem, solve: Solve, *, is_exact: bool = False) -> Solution:
    """Return a plan by a solver that knows of chunks by node alone.

    ``is_exact``: the solver can prove optima, so that it is worth being asked by classes too.
    """
    if not problem.nodes or not any(stage.copies for job in problem.jobs for stage in job.stages):
        return solve(problem)
    split = Apart.of(problem, lambda stage: by_lying(problem, stage))
    return split.joined(_planned(split.problem, solve, is_exact=is_exact))


def _planned(problem: Problem, solve: Solve, *, is_exact: bool) -> Solution:
    """Plan loosely, match, and where that does not come out, tightly."""
    loose = with_present(problem, {key: on_nodes(stage) for key, stage in stages_of(problem)})
    first = solve(loose)
    needs = {key: wanted(problem, stage, begun(first, key)) for key, stage in stages_of(problem)}
    shares = {key: matched(stage, needs[key]) for key, stage in stages_of(problem)}
    if all(shares[key].total() == need.total() for key, need in needs.items()):
        return with_shares(problem, first, shares)
    homes = {
        key: homes_of(stage, begun(first, key), shares[key]) for key, stage in stages_of(problem)
    }
    tight = solve(with_present(problem, {key: by_node(row) for key, row in homes.items()}))
    best = bounded(with_shares(problem, tight, homes), [first])
    if best.is_optimal or not is_exact or classes_of(problem) > MOST_CLASSES:
        return best
    apart = by_classes(problem, solve)
    return bounded(min(apart, best, key=lambda plan: plan.score), [first, apart])


def stages_of(problem: Problem) -> Iterator[tuple[Key, Stage]]:
    """Yield ((job, stage), stage) of stages with copies."""
    for j, job in enumerate(problem.jobs):
        yield from (((j, s), stage) for s, stage in enumerate(job.stages) if stage.copies)


def classes_of(problem: Problem) -> int:
    """Return how many classes there are in all."""
    return sum(len(stage.copies) for _, stage in stages_of(problem))


def on_nodes(stage: Stage) -> Counter[int]:
    """Return how many tasks have a copy on each node."""
    found: Counter[int] = Counter()
    for where, count in stage.copies:
        for node in set(where):
            found[node] += count
    return found


def with_present(problem: Problem, present: dict[Key, Counter[int]]) -> Problem:
    """Return a problem without classes, but with what is present of their stages."""
    jobs = list(problem.jobs)
    for (j, s), here in present.items():
        stages = list(jobs[j].stages)
        stages[s] = replace(stages[s], present=tuple(sorted(here.items())), copies=())
        jobs[j] = replace(jobs[j], stages=tuple(stages))
    return replace(problem, jobs=tuple(jobs))


def begun(plan: Solution, key: Key) -> Counter[int]:
    """Return how many tasks of a stage a plan has on each node."""
    found: Counter[int] = Counter()
    for start in plan.starts:
        if (start.job, start.stage) == key:
            found[start.node] += start.count
    return found


def wanted(problem: Problem, stage: Stage, on: Counter[int]) -> Counter[int]:
    """Return how many of a stage's tasks on each node a loose plan has beside a copy.

    Where nothing has to be waited for none needs one.
    """
    there = on_nodes(stage)
    found = {k: min(n, there[k]) for k, n in on.items() if problem.must_bring(stage, k)}
    return Counter({k: n for k, n in found.items() if n})


def matched(stage: Stage, room: Counter[int]) -> Shares:
    """Return as many tasks as can be beside copies, at most ``room`` on each node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    nodes, classes = sorted(room), len(stage.copies)
    if not nodes:
        return Counter()
    place = {node: 1 + classes + i for i, node in enumerate(nodes)}
    sink = 1 + classes + len(nodes)
    edges = [(0, 1 + c, count) for c, (_, count) in enumerate(stage.copies)]
    for c, (where, count) in enumerate(stage.copies):
        edges += [(1 + c, place[node], count) for node in set(where) if node in place]
    edges += [(place[node], sink, room[node]) for node in nodes]
    rows, columns, counts = zip(*((a, b, n) for a, b, n in edges if n), strict=True)
    shape = (sink + 1, sink + 1)
    graph = coo_array((np.array(counts, dtype=np.int32), (rows, columns)), shape=shape).tocsr()
    flow = maximum_flow(graph, 0, sink).flow.tocoo()
    found: Shares = Counter()
    for a, b, n in zip(flow.row, flow.col, flow.data, strict=True):
        if n > 0 and 0 < a <= classes < b < sink:
            found[int(a) - 1, nodes[int(b) - 1 - classes]] = int(n)
    return found


def homes_of(stage: Stage, on: Counter[int], share: Shares) -> Shares:
    """Return one node for each task of each class: what was matched, the rest where most begin.

    Of a class what is left goes to the nodes that have the least for what begins there.
    O(tasks x copies).
    """
    homes = Counter(share)
    held = by_node(share)
    for c, (where, count) in enumerate(stage.copies):
        nodes = sorted(set(where))
        for _ in range(count - sum(share[c, node] for node in nodes) if nodes else 0):
            node = min(nodes, key=lambda node: (held[node] / max(1, on[node]), node))
            homes[c, node] += 1
            held[node] += 1
    return homes


def by_node(share: Shares) -> Counter[int]:
    """Return tasks summed by node."""
    found: Counter[int] = Counter()
    for (_, node), count in share.items():
        found[node] += count
    return found


def with_shares(problem: Problem, plan: Solution, shares: dict[Key, Shares]) -> Solution:
    """Return a plan that says which classes begin beside their input: no more than begin there."""
    found: list[Beside] = []
    for (j, s), share in shares.items():
        left = begun(plan, (j, s))
        for (place, node), count in sorted(share.items()):
            taken = min(count, left[node])
            left[node] -= taken
            found += [Beside(j, s, place, node, taken)] if taken else []
    return replace(plan, beside=tuple(found))


def bounded(plan: Solution, by: Sequence[Solution]) -> Solution:
    """Return a plan with the bounds of others that hold for it, and none of its own."""
    most = [one.most_scheduled for one in by if one.most_scheduled is not None]
    of_as_many = [one for one in by if one.scheduled <= plan.scheduled]
    least = [one.least_makespan for one in of_as_many if one.least_makespan is not None]
    return replace(
        plan,
        most_scheduled=min(most, default=None),
        least_makespan=max(least, default=None),
    )


# stages told apart


@dataclass(frozen=True, slots=True)
class Apart:
    """A problem some of whose stages are several, and how to join the plans of these again.

    ``origin[j][s]`` is which stage of ``whole`` a stage was, and which of its classes it has.
    """

    whole: Problem
    problem: Problem
    origin: list[list[tuple[int, tuple[int, ...]]]]

    @classmethod
    def of(cls, problem: Problem, parts_of: Callable[[Stage], list[Part]]) -> Apart:
        """Return a problem with the parts of its stages; what waits for one waits for all of it."""
        jobs, origin, firsts = [], [], list[list[int]]()
        for job in problem.jobs:
            rows = [parts_of(stage) for stage in job.stages]
            first = [sum(map(len, rows[:s])) for s in range(len(rows) + 1)]
            stages = [
                replace(part, after=tuple(p for a in stage.after for p in range(*first[a : a + 2])))
                for stage, row in zip(job.stages, rows, strict=True)
                for _, part in row
            ]
            jobs.append(replace(job, stages=tuple(stages)))
            origin.append([(s, places) for s, row in enumerate(rows) for places, _ in row])
            firsts.append(first)
        running = tuple(replace(run, stage=firsts[run.job][run.stage]) for run in problem.running)
        return cls(problem, replace(problem, jobs=tuple(jobs), running=running), origin)

    def joined(self, plan: Solution) -> Solution:
        """Return a plan of the parts as one of the whole, bounds and all: they ask the same."""
        starts = (replace(x, stage=self.origin[x.job][x.stage][0]) for x in plan.starts)
        beside: Counter[tuple[int, int, int, int]] = Counter()
        for one in plan.beside:
            s, places = self.origin[one.job][one.stage]
            beside[one.job, s, places[one.place], one.node] += one.count
        return replace(
            solution(self.whole, starts, plan.refusals, plan.solver),
            most_scheduled=plan.most_scheduled,
            least_makespan=plan.least_makespan,
            beside=tuple(Beside(*key, count) for key, count in sorted(beside.items())),
        )


def by_lying(problem: Problem, stage: Stage) -> list[Part]:
    """Return a stage in two: tasks whose input lies on some node, and those whose lies nowhere.

    Where nothing has to be waited for, or all are of one kind, it is left as it is.
    """
    there = [place for place, (where, count) in enumerate(stage.copies) if where and count]
    lying = min(stage.tasks, sum(stage.copies[place][1] for place in there))
    is_waited_for = any(problem.must_bring(stage, k) for k in range(len(problem.nodes)))
    if lying in (0, stage.tasks) or not is_waited_for:
        return [(tuple(range(len(stage.copies))), stage)]
    known = tuple(stage.copies[place] for place in there)
    return [
        (tuple(there), replace(stage, tasks=lying, copies=known)),
        ((), replace(stage, tasks=stage.tasks - lying, copies=())),
    ]


def by_classes(problem: Problem, solve: Solve) -> Solution:
    """Return a plan made with a stage for each class: no choice of nodes is taken beforehand."""
    split = Apart.of(problem, parts_of)
    plan = solve(split.problem)
    beside = [
        Beside(start.job, start.stage, 0, start.node, start.count)
        for start in plan.starts
        if split.problem.jobs[start.job].stages[start.stage].here(start.node)
        and split.origin[start.job][start.stage][1]
    ]
    return split.joined(replace(plan, beside=tuple(beside)))


def parts_of(stage: Stage) -> list[Part]:
    """Return a stage's tasks by class, those without copies last; at least one part."""
    left, found = stage.tasks, list[Part]()
    for place, (where, count) in enumerate(stage.copies):
        tasks = min(left, count)
        left -= tasks
        if tasks:
            here = tuple((node, tasks) for node in sorted(set(where)))
            found.append(((place,), replace(stage, tasks=tasks, present=here, copies=())))
    if left or not found:
        found.append(((), replace(stage, tasks=left, copies=())))
    return found
