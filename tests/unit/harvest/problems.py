"""Problems for the planner's tests: drawn tiny ones, an oracle for them, and the paper's sizes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, product

from hypothesis import strategies as st

from benchmarks.planner_problems import GIB, data_centre
from reproductions.salamander.check import violations
from tenure.harvest.problem import Job, Node, Problem, Running, Stage
from tenure.harvest.solution import Beside, Refusal, Solution, Start, solution

__all__ = ["GIB", "data_centre"]


def flat(name: str, cores: int, gib: int, *, steps: int = 4, speed: float = 1.0) -> Node:
    """A node whose free capacity does not change."""
    return Node(name, (cores * 1000,) * steps, (gib * GIB,) * steps, speed)


def stage(name: str, tasks: int, work_s: float, **more: object) -> Stage:
    """A stage of one-core, one-GiB tasks."""
    fields = {"cpu_m": 1000, "memory_bytes": GIB} | more
    return Stage(name, tasks, work_s, **fields)  # type: ignore[arg-type]


def map_reduce(name: str, maps: int, reduces: int, *, map_s: float = 10, red_s: float = 20) -> Job:
    """A job of two stages."""
    return Job(name, (stage("map", maps, map_s), stage("reduce", reduces, red_s, after=(0,))))


@st.composite
def tiny(draw: st.DrawFn) -> Problem:
    """At most 2 nodes, 8 ticks, 2 jobs, 5 tasks: small enough to try every plan."""
    steps, step_ticks = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    nodes = tuple(
        Node(
            f"n{k}",
            tuple(1000 * draw(st.integers(0, 3)) for _ in range(steps)),
            tuple(draw(st.integers(0, 4)) for _ in range(steps)),
            draw(st.sampled_from([1.0, 2.0])),
            draw(st.sampled_from([None, 2, 5])),
        )
        for k in range(draw(st.integers(1, 2)))
    )
    left = 5
    jobs = []
    for j in range(draw(st.integers(1, 2))):
        stages: list[Stage] = []
        for s in range(draw(st.integers(1, 2))):
            tasks = draw(st.integers(1 if s == 0 else 0, max(1, min(3, left))))
            left -= tasks
            only = draw(st.sampled_from([None, None, None, (0,)]))
            present = draw(st.sampled_from([(), (), ((0, 1),)]))
            stages.append(
                Stage(
                    f"s{s}",
                    tasks,
                    draw(st.sampled_from([1.0, 2.0, 3.0])),
                    draw(st.sampled_from([500, 1000, 2000])),
                    draw(st.integers(0, 2)),
                    draw(st.sampled_from([0, 0, 2, 3])),
                    (s - 1,) if s and draw(st.booleans()) else (),
                    only,
                    present,
                )
            )
        jobs.append(Job(f"j{j}", tuple(stages)))
    running: tuple[Running, ...] = ()
    if draw(st.integers(0, 3)) == 0:
        running = (Running(0, 0, 0, draw(st.integers(0, 3)), draw(st.integers(1, 2))),)
    return Problem(nodes, tuple(jobs), 1.0, step_ticks, running)


@st.composite
def with_copies(draw: st.DrawFn) -> Problem:
    """The same, of whose tasks some have their input on nodes, and bringing it takes time."""
    problem = draw(tiny())
    nodes = range(len(problem.nodes))
    wheres = st.sampled_from([(), (0,), (nodes[-1],), tuple(nodes)])

    def changed(stage: Stage) -> Stage:
        classes = draw(st.lists(st.tuples(wheres, st.integers(0, 2)), max_size=2))
        bring_s = draw(st.sampled_from([0.0, 0.5, 1.0, 3.0]))
        present = () if classes else stage.present
        size = draw(st.sampled_from([stage.chunk_bytes, 2]))
        lies = replace(stage, copies=tuple(classes), present=present)
        return replace(lies, chunk_bytes=size, bring_s=bring_s)

    jobs = (replace(job, stages=tuple(map(changed, job.stages))) for job in problem.jobs)
    return replace(problem, jobs=tuple(jobs))


def best(problem: Problem) -> tuple[int, int]:
    """Return the score of the best of all plans (``Solution.score``), trying every one."""
    jobs = range(len(problem.jobs))
    size = [sum(stage.tasks for stage in job.stages) for job in problem.jobs]
    subsets = [[j for j in jobs if bits >> j & 1] for bits in range(1 << len(size))]
    found: list[tuple[int, int]] = []
    for chosen in subsets:
        tasks = sum(size[j] for j in chosen)
        floor = max((run.end for run in problem.running if run.job in chosen), default=0)
        for limit in range(floor, max(problem.ticks, floor) + 1):
            if fits(problem, chosen, limit):
                found.append((-tasks, limit))
                break
    return min(found)


def fits(problem: Problem, chosen: Sequence[int], limit: int) -> bool:
    """Whether all tasks of these jobs can end by ``limit``."""
    stages = [(j, s) for j in chosen for s in range(len(problem.jobs[j].stages))]
    out = [Refusal(j, "no_room") for j in range(len(problem.jobs)) if j not in chosen]
    return any(
        not violations(problem, replace(solution(problem, starts, out, "oracle"), beside=beside))
        for starts in every(problem, stages, limit, [])
        for beside in every_beside(problem, starts)
    )


def every_beside(problem: Problem, starts: Sequence[Start]) -> Iterator[tuple[Beside, ...]]:
    """Yield every way in which tasks may begin beside copies of their input."""
    begun = {(start.job, start.stage, start.node) for start in starts}
    rows = [
        [Beside(j, s, place, node, n) for n in range(count + 1)]
        for j, s, node in sorted(begun)
        for place, (where, count) in enumerate(problem.jobs[j].stages[s].copies)
        if node in where
    ]
    for picked in product(*rows):
        taken: dict[tuple[int, int, int], int] = {}
        for one in picked:
            key = (one.job, one.stage, one.place)
            taken[key] = taken.get(key, 0) + one.count
        if all(n <= problem.jobs[j].stages[s].copies[c][1] for (j, s, c), n in taken.items()):
            yield tuple(one for one in picked if one.count)


def every(
    problem: Problem, stages: Sequence[tuple[int, int]], limit: int, before: list[Start]
) -> Iterator[list[Start]]:
    """Yield every choice of starts that ends by ``limit`` and overloads no node's CPU alone."""
    if not stages:
        yield before
        return
    j, s = stages[0]
    wanted = problem.jobs[j].stages[s]
    nodes = wanted.nodes if wanted.nodes is not None else range(len(problem.nodes))
    last = min(limit, problem.ticks)
    options = [(k, t) for k in nodes for t in range(last - problem.duration(wanted, k) + 1)]
    for picked in combinations_with_replacement(options, wanted.tasks):
        starts = before + [Start(j, s, k, t, 1) for k, t in picked]
        if is_within(problem, starts):
            yield from every(problem, stages[1:], limit, starts)


def is_within(problem: Problem, starts: Sequence[Start]) -> bool:
    """Whether starts overload no node, tasks that run left out."""
    used: dict[tuple[int, int], list[int]] = {}
    for start in starts:
        wanted = problem.jobs[start.job].stages[start.stage]
        for t in range(start.tick, start.tick + problem.duration(wanted, start.node)):
            have = used.setdefault((start.node, t), [0, 0])
            have[0] += wanted.cpu_m
            have[1] += wanted.memory_bytes
    return all(
        cpu <= problem.nodes[k].cpu_m[t // problem.step_ticks]
        and memory <= problem.nodes[k].memory_bytes[t // problem.step_ticks]
        for (k, t), (cpu, memory) in used.items()
    )


def assert_feasible(problem: Problem, plan: Solution) -> None:
    """Fail with what the checker finds."""
    assert violations(problem, plan) == []
