"""What each solver is for, on cases small enough to see why."""

import sys
from dataclasses import replace
from itertools import combinations, count

import numpy as np
import pytest
from pymoo.core.population import Population

from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Job, Node, Problem, Running, Stage
from tenure.harvest.progress import Progress, Watch
from tenure.harvest.replan import State, foreseen, rest
from tenure.harvest.solvers import copies
from tenure.harvest.solvers import cp as cp_module
from tenure.harvest.solvers.bounds import Relaxation, least_by_area, least_by_links
from tenure.harvest.solvers.counts import Model
from tenure.harvest.solvers.cp import MAX_COUNTS
from tenure.harvest.solvers.ga import ga
from tenure.harvest.solvers.ga_operators import winners
from tenure.harvest.solvers.ls import ls
from tenure.harvest.solvers.orders import plans
from tenure.harvest.solvers.two_ended import shortened, two_ended
from tenure.model.errors import Unavailable
from testbed import bounded
from tests.unit.harvest.problems import GIB, assert_feasible, data_centre, flat, map_reduce, stage

HEAVY = {"ortools", "pymoo", "scipy", "sklearn", "numba"}


@pytest.mark.parametrize("module", ["tenure.harvest.io.solve", "tenure.harvest.planner"])
def test_heavy_libraries_are_loaded_when_used(module: str) -> None:
    code = f"import sys, {module}; print(*({HEAVY} & set(sys.modules)))"
    done = bounded.run([sys.executable, "-c", code], text=True, check=True)
    assert done.stdout.split() == []


#: Two jobs in a window that either fills; the search has to see that the small two go together.
CROWDED = Problem(
    (flat("n0", 2, 8, steps=3),),
    tuple(Job(name, (stage("s", n, 10.0),)) for name, n in (("big", 5), ("a", 3), ("b", 3))),
    10.0,
    1,
)


def test_cp_takes_the_jobs_that_make_most_tasks() -> None:
    found = plan(CROWDED, "cp", time_limit_s=120.0)
    assert_feasible(CROWDED, found)
    assert [refusal.job for refusal in found.refusals] == [0]
    assert (found.scheduled, found.makespan, found.is_optimal) == (6, 3, True)


def hard() -> Problem:
    """Two jobs of four cores over one node whose gaps only a search puts together."""
    jobs = (map_reduce("a", 3, 1, map_s=30, red_s=20), map_reduce("b", 5, 2, map_s=20, red_s=30))
    return Problem(
        (flat("n0", 2, 8, steps=30), flat("n1", 1, 8, steps=30, speed=2.0)), jobs, 10.0, 1
    )


def test_without_ortools_auto_still_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """cp says so if a search is needed; a plan proven without one is given."""
    monkeypatch.setattr(cp_module, "find_spec", lambda name: None)
    monkeypatch.setattr(Relaxation, "least_makespan", lambda self, tasks, low, high: 0)
    with pytest.raises(Unavailable, match="ortools"):
        plan(hard(), "cp")
    assert_feasible(hard(), plan(hard(), "auto"))


def test_auto_is_cp_and_never_a_metaheuristic() -> None:
    assert plan(hard(), "auto").solver == "cp"
    assert plan(hard(), "auto", time_limit_s=0.1).solver == "first_fit"


def test_the_model_does_not_grow_with_tasks() -> None:
    few, many = data_centre(3, 170), data_centre(3, 17_000)
    sizes = []
    for problem in (few, many):
        model = Model.of(Relaxation(problem), 0, 200, MAX_COUNTS)
        assert model is not None
        sizes.append(len(model.model.proto.variables))
    assert sizes[1] <= sizes[0] * 1.01


def test_one_chain_of_stages_is_proven_without_a_linear_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all tasks are planned there is no number of tasks to bound: scipy is not loaded."""

    def never(*given: object, **named: object) -> None:
        raise AssertionError("a linear program was solved")

    monkeypatch.setattr(Relaxation, "solve", never)
    found = plan(data_centre(9, 500), "cp")
    assert found.is_optimal


def test_the_area_bounds_what_the_programs_have_no_time_for() -> None:
    """One core of speed 2 and 13 tasks of 3 s of work: 20 s."""
    problem = Problem(
        (flat("n0", 1, 8, steps=30, speed=2.0),), (Job("j", (stage("s", 13, 3.0),)),), 1.0, 1
    )
    assert least_by_area(problem) == 20
    empty = replace(problem, jobs=(Job("j", (stage("s", 0, 3.0),)),))
    assert least_by_area(empty) == 0


def test_bounds_end_with_the_time_and_leave_the_area() -> None:
    """20 jobs all apart took the bounds 15 s more than the limit."""
    problem = data_centre(9, 2000, jobs=4)
    for limit_s in (40.0, 80.0, 160.0):
        watch = Watch(map(float, count()).__next__, limit_s)
        found = cp_module.cp(problem, watch, 1)
        assert_feasible(problem, found)
        assert found.least_makespan is not None
        assert least_by_area(problem) <= found.least_makespan <= found.makespan
        assert watch.elapsed_s <= limit_s + 10  # each look at the clock is a second


def test_stages_of_one_name_with_chunks_on_other_nodes_are_bounded_apart() -> None:
    """Classes of a stage have its name: what lies for one was taken for all, and 11 was proven."""
    nodes = tuple(replace(flat(f"n{k}", 1, 8, steps=30), link_bytes_per_s=10) for k in (0, 1))
    map_ = stage("map", 1, 1.0, chunk_bytes=100)
    stages = tuple(replace(map_, present=((k, 1),)) for k in (0, 1))
    problem = Problem(nodes, (Job("j", stages),), 1.0, 1)
    assert Relaxation(problem).least_makespan(2, 0, 20) == 1
    assert plan(problem, "cp").makespan == 1


def test_links_bound_what_several_jobs_share() -> None:
    """Each job alone has its chunks in 10 ticks; all four need 40, and the bound said 11."""
    nodes = tuple(replace(flat(f"n{k}", 64, 64, steps=99), link_bytes_per_s=10) for k in (0, 1))
    jobs = tuple(Job(f"j{n}", (stage("s", 2, 1.0, chunk_bytes=100),)) for n in range(4))
    problem = Problem(nodes, jobs, 1.0, 1)
    assert least_by_links(problem) == 41
    assert Relaxation(problem).least_makespan(8, 0, 99) == 41
    assert plan(problem, "cp").is_optimal
    lying = Job("j", (replace(jobs[0].stages[0], present=((0, 1), (1, 1))),))
    assert least_by_links(replace(problem, jobs=(lying, *jobs[1:]))) == 31
    unlinked = replace(nodes[0], link_bytes_per_s=None)
    assert least_by_links(replace(problem, nodes=(unlinked, nodes[1]))) == 0


def test_bounds_that_are_cut_say_so() -> None:
    watch = Watch(map(float, count()).__next__, 3.0)
    assert Relaxation(data_centre(3, 60, jobs=6), watch).is_cut
    assert not Relaxation(data_centre(3, 60, jobs=6)).is_cut


@pytest.mark.parametrize("asked", [1, 7, 12])
def test_list_scheduling_gives_up_a_plan_when_time_is_over_but_the_first(asked: int) -> None:
    """The clock is asked before each stage, not only between plans."""
    problem = data_centre(3, 60, jobs=6)
    calls = iter(range(1, 1000))
    made = list(plans(problem, lambda: next(calls) >= asked))
    assert made[0].scheduled == 60
    assert next(calls) == asked + 1
    assert len(made) < len(list(plans(problem)))


def test_a_problem_that_is_too_large_for_a_search_has_no_model() -> None:
    assert Model.of(Relaxation(data_centre(3, 170)), 0, 200, 100) is None


@pytest.mark.parametrize("solver", ["cp", "ga", "ls", "first_fit", "fair"])
def test_every_solver_keeps_heterogeneous_speeds_links_and_several_jobs(solver: str) -> None:
    problem = data_centre(6, 170, jobs=3, link=6_250_000)
    wide = replace(problem.jobs[0].stages[1], chunk_bytes=20_000_000)
    first = replace(problem.jobs[0], stages=(problem.jobs[0].stages[0], wide))
    problem = replace(problem, jobs=(first, *problem.jobs[1:]))
    told: list[Progress] = []

    def tell(progress: Progress) -> bool:
        told.append(progress)
        return True

    found = plan(problem, solver, time_limit_s=3.0, told=tell)
    assert_feasible(problem, found)
    assert found.scheduled == 170
    assert told[-1].best == found
    scores = [progress.best.score for progress in told]
    assert scores == sorted(scores, reverse=True)


def test_metaheuristics_repeat_themselves_by_seed() -> None:
    problem = data_centre(3, 60)
    for solver in (ga, ls):
        plans = []
        for _ in range(2):
            watch = Watch(map((0.025).__mul__, count()).__next__, 1.0)
            plans.append(solver(problem, watch, 5).starts)
        assert plans[0] == plans[1]


def test_the_genetic_algorithms_parents_are_chosen_by_their_objectives() -> None:
    """As the paper has it; pymoo's tournament for NSGA-III draws where nothing is broken."""
    plans = [(-5.0, 9.0), (-5.0, 7.0), (-4.0, 3.0)]  # tasks (negative), makespan
    population = Population.new(F=np.array(plans))
    pairs = np.array([[0, 1], [1, 0], [1, 1]] + [[1, 2]] * 50)
    won = winners(population, pairs, random_state=np.random.default_rng(1))[:, 0].tolist()
    assert won[:3] == [1, 1, 1]
    assert set(won[3:]) == {1, 2}  # more tasks, or sooner done: neither dominates


@pytest.mark.parametrize("solver", ["ga", "ls"])
def test_what_runs_beyond_the_window_is_searched_beside(solver: str) -> None:
    """The search looked for its end among those of what it plans (IndexError)."""
    jobs = tuple(Job(name, (stage("s", 2, 10.0),)) for name in ("a", "b"))
    running = (Running(0, 0, 0, 9, 1),)
    problem = Problem((flat("n0", 3, 8, steps=3),), jobs, 10.0, 1, running)
    found = plan(problem, solver, time_limit_s=0.2)
    assert_feasible(problem, found)
    assert found.scheduled == 4


def test_fair_shares_go_to_who_has_least() -> None:
    """Room for four jobs: one submitter's many do not keep out another's one, listed last."""
    jobs = tuple(Job(f"j{i}", (stage("s", 3, 10.0),), "many") for i in range(4))
    jobs += (Job("only", (stage("s", 3, 10.0),), "few"),)
    problem = Problem((flat("n0", 3, 8, steps=4),), jobs, 10.0, 1)
    found = plan(problem, "fair")
    assert_feasible(problem, found)
    assert [refusal.job for refusal in found.refusals] == [3]


def test_who_weighs_twice_as_much_holds_twice_as_much() -> None:
    """Room for six jobs of nine each: four for weight 2, two for weight 1, whoever comes first."""
    for first, second in (("ann", "bob"), ("bob", "ann")):
        weights = {"ann": 2.0, "bob": 1.0}
        jobs = tuple(
            Job(f"{whose}{i}", (stage("s", 3, 10.0),), whose, weights[whose])
            for whose in (first, second)
            for i in range(9)
        )
        found = plan(Problem((flat("n0", 3, 8, steps=6),), jobs, 10.0, 1), "fair")
        refused = {refusal.job for refusal in found.refusals}
        taken = [job.submitter for j, job in enumerate(jobs) if j not in refused]
        assert (taken.count("ann"), taken.count("bob")) == (4, 2)


def test_replanning_after_a_loss_keeps_what_runs() -> None:
    problem = Problem(
        (flat("a", 2, 8, steps=20), flat("b", 2, 8, steps=20)), (map_reduce("j", 8, 2),), 10.0, 1
    )
    old = plan(problem, "cp")
    state = replace(foreseen(problem, old, 1), lost=frozenset({1}))
    again = rest(problem, state)
    assert again.jobs[0].stages[0].tasks == 8 - sum(n for _, _, n in state.ended)
    found = plan(again, "cp")
    assert_feasible(again, found)
    assert {start.node for start in found.starts} == {0}
    assert min(start.tick for start in found.starts) >= 1


def test_running_tasks_stay_where_forecasts_fall() -> None:
    problem = Problem((flat("a", 2, 8, steps=20),), (map_reduce("j", 4, 1, map_s=30),), 10.0, 1)
    poor = replace(problem.nodes[0], cpu_m=(1000,) * 20)
    state = State(1, running=(Running(0, 0, 0, 3, 2),), nodes=(poor,))
    again = rest(problem, state)
    found = plan(again, "cp")
    assert_feasible(again, found)
    assert found.scheduled == 3
    assert min(start.tick for start in found.starts) == 3


def past_the_window(*more: Job) -> Problem:
    """A window of two ticks; a task of the first job runs until tick 9, another is left."""
    job = Job("a", (stage("s", 1, 1.0),))
    return Problem((flat("n0", 2, 8, steps=2),), (job, *more), 1.0, 1, (Running(0, 0, 0, 9, 1),))


def test_a_job_that_runs_past_the_window_may_still_start_tasks_in_it() -> None:
    problem = past_the_window()
    relaxed = Relaxation(problem)
    assert relaxed.most_tasks() == 1
    model = Model.of(relaxed, 0, problem.ticks, MAX_COUNTS)
    assert model is not None
    assert model.maximise_tasks(Watch(count().__next__, 100.0), 10.0, 1).bound == 1


def test_what_runs_past_a_window_that_is_too_small_is_no_error() -> None:
    problem = past_the_window(Job("b", (stage("s", 50, 1.0),)))
    found = plan(problem, "cp")
    assert_feasible(problem, found)
    assert (found.scheduled, found.makespan) == (1, 9)


def test_tasks_whose_input_lies_nowhere_are_not_bounded_by_the_copies_of_others() -> None:
    """Three copies of 20 chunks are as many as tasks; more classes than are told apart."""
    nodes = tuple(replace(flat(f"n{k}", 9, 64, steps=60), link_bytes_per_s=10) for k in range(6))
    lying = tuple((where, 1) for where in combinations(range(6), 3))
    classes = (*lying, *((where, 1) for where in combinations(range(6), 4)))
    assert len(classes) > copies.MOST_CLASSES
    map_ = replace(stage("map", 35 + 24, 10.0, chunk_bytes=200), copies=classes)
    problem = Problem(nodes, (Job("j", (map_, stage("red", 3, 10.0, after=(0,)))),), 10.0, 1)
    found = plan(problem, "cp")
    assert_feasible(problem, found)
    assert sum(one.count for one in found.beside) == 35
    # four chunks to each node, two ticks each, then the last maps and the reduces
    assert (found.makespan, found.is_optimal) == (10, True)


def test_a_plan_that_ends_with_what_runs_past_the_window_is_proven() -> None:
    """The second job fits nowhere; the first is not done before what runs of it, at 2."""
    node = Node("n0", (1000,), (0,))
    jobs = tuple(Job(f"j{n}", (Stage("s", 1, 1.0, 500, n),)) for n in range(2))
    problem = Problem((node,), jobs, 1.0, 1, (Running(0, 0, 0, 2, 1),))
    found = plan(problem, "cp")
    assert_feasible(problem, found)
    assert (found.scheduled, found.makespan, found.is_optimal) == (1, 2, True)


def test_chunks_that_were_sent_are_not_sent_again() -> None:
    node = replace(flat("a", 8, 8, steps=20), link_bytes_per_s=10)
    job = Job("j", (stage("map", 3, 10.0, chunk_bytes=200),))
    problem = Problem((node,), (job,), 10.0, 1)
    again = rest(problem, State(4, delivered=((0, 0, 0, 2),)))
    found = plan(again, "cp")
    assert_feasible(again, found)
    assert [(start.tick, start.count) for start in found.starts] == [(4, 2), (6, 1)]


def test_memory_alone_can_bind() -> None:
    problem = Problem(
        (flat("a", 64, 2),), (Job("j", (stage("m", 4, 10.0, memory_bytes=GIB),)),), 10.0, 2
    )
    assert plan(problem).makespan == 2


def test_last_stages_are_packed_against_the_end() -> None:
    """Maps of 1 tick and reduces of 3 on two cores: in order of time the end would be ragged."""
    jobs = tuple(map_reduce(f"j{n}", 4, 1, map_s=10, red_s=30) for n in range(3))
    problem = Problem((flat("n0", 2, 64),), jobs, 10.0, 6)
    listed = min(plans(problem), key=lambda found: found.score)
    # 12 ticks of maps and 9 of reduces on two cores, the last job's reduce after its maps
    found = shortened(problem, listed, 11, lambda: False)
    assert_feasible(problem, found)
    assert found.makespan == 11


def test_jobs_of_one_shape_are_planned_to_the_bound() -> None:
    """Jobs in their order end at 44 of 42 ticks, and no search got further in 20 s."""
    found = plan(data_centre(27, 2500, jobs=10), "cp", time_limit_s=120.0)
    assert found.is_optimal


def test_like_stages_are_dealt_their_tasks_in_the_order_of_jobs() -> None:
    jobs = tuple(map_reduce(f"j{n}", 3, 2) for n in range(4))
    problem = Problem((flat("n0", 4, 64),), jobs, 10.0, 6)
    placed = two_ended(problem, 14, range(4), lambda: False)
    assert placed is not None
    firsts = [min(s.tick for s in placed if (s.job, s.stage) == (j, 1)) for j in range(4)]
    assert firsts == sorted(firsts)
    assert all(
        sum(s.count for s in placed if (s.job, s.stage) == (j, k)) == tasks
        for j in range(4)
        for k, tasks in ((0, 3), (1, 2))
    )


def test_chunks_that_last_stages_wait_for_leave_a_plan_as_it_is() -> None:
    reduce = replace(stage("r", 2, 20.0, after=(0,)), chunk_bytes=10)
    linked = replace(flat("n0", 2, 8), link_bytes_per_s=10)
    problem = Problem((linked,), (Job("j", (stage("m", 3, 10.0), reduce)),), 10.0, 6)
    listed = min(plans(problem), key=lambda found: found.score)
    assert shortened(problem, listed, 0, lambda: False) is listed
