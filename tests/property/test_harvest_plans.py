"""Plans of drawn problems: feasible always, and the optimum where it is proven."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.harvest import planner
from tenure.harvest.io.solve import plan, watch_for
from tenure.harvest.problem import Problem, faults
from tenure.harvest.progress import Watch
from tenure.harvest.replan import foreseen, rest
from tenure.harvest.solution import Refusal, solution
from tenure.harvest.solvers.bounds import Relaxation, least_by_area
from tenure.harvest.solvers.counts import Model
from tenure.harvest.solvers.fair import fair
from tenure.harvest.solvers.first_fit import first_fit, random_first_fit
from tenure.harvest.solvers.two_ended import shortened
from tests.unit.harvest.problems import assert_feasible, best, data_centre, tiny, with_copies

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(tiny())
@settings(SLOW, max_examples=300)
def test_list_plans_are_feasible(problem: Problem) -> None:
    assert_feasible(problem, first_fit(problem))
    assert_feasible(problem, random_first_fit(problem, np.random.default_rng(1)))
    assert_feasible(problem, fair(problem))


@given(tiny())
@settings(SLOW, max_examples=200)
def test_cp_equals_brute_force(problem: Problem) -> None:
    found = plan(problem, "cp", time_limit_s=30.0, cores=1)
    assert_feasible(problem, found)
    assert found.is_optimal
    assert found.score == best(problem)


@given(with_copies())
@settings(SLOW, max_examples=200)
def test_plans_beside_copies_equal_brute_force(problem: Problem) -> None:
    """Which node each task reads its input on is chosen too, and what is brought takes its time."""
    found = plan(problem, "cp", time_limit_s=30.0, cores=1)
    assert_feasible(problem, found)
    assert found.is_optimal
    assert found.score == best(problem)


@given(with_copies(), st.sampled_from(["first_fit", "fair", "ga", "ls"]))
@settings(SLOW, max_examples=100)
def test_all_solvers_keep_to_where_copies_lie(problem: Problem, solver: str) -> None:
    ticks = iter(range(1_000_000))
    watch = Watch(lambda: next(ticks) / 10, 2.0)
    found = planner.plan(problem, watch, solver=solver, seed=3)
    assert_feasible(problem, found)
    assert found.score >= plan(problem, "cp", time_limit_s=30.0, cores=1).score


@given(tiny())
@settings(SLOW, max_examples=100)
def test_the_search_alone_equals_brute_force(problem: Problem) -> None:
    """Without the plans and bounds that leave it little to do."""
    relaxed = Relaxation(problem)
    model = Model.of(relaxed, 0, problem.ticks, 10_000)
    assert model is not None
    most = model.maximise_tasks(watch_for(30.0), 30.0, 1)
    wanted = best(problem)
    assert most.bound == -wanted[0]
    limit = max(problem.ticks, wanted[1])
    again = Model.of(relaxed, most.bound, limit, 10_000)
    assert again is not None
    found = again.minimise_makespan(watch_for(30.0), 0, 1)
    assert found.bound == wanted[1]
    assert found.starts is not None
    out = [Refusal(j, "no_room") for j in found.refused]
    assert_feasible(problem, solution(problem, found.starts, out, "counts"))


@given(tiny())
@settings(SLOW, max_examples=200)
def test_what_is_packed_from_both_ends_is_feasible_and_no_worse(problem: Problem) -> None:
    first = first_fit(problem)
    found = shortened(problem, first, 0, lambda: False)
    assert_feasible(problem, found)
    assert found.refusals == first.refusals
    assert best(problem) <= found.score <= first.score
    assert shortened(problem, first, 0, lambda: True) == first


@given(tiny())
@settings(SLOW, max_examples=100)
def test_no_plan_beats_the_bounds(problem: Problem) -> None:
    tasks, makespan = best(problem)
    relaxed = Relaxation(problem)
    assert relaxed.most_tasks() >= -tasks
    assert relaxed.least_makespan(-tasks, 0, makespan) <= makespan
    if -tasks == problem.tasks:
        assert least_by_area(problem) <= makespan


@given(tiny(), st.sampled_from(["ga", "ls"]))
@settings(SLOW, max_examples=40)
def test_metaheuristics_are_feasible_and_no_worse_than_their_beginning(
    problem: Problem, solver: str
) -> None:
    ticks = iter(range(1_000_000))
    watch = Watch(lambda: next(ticks) / 10, 2.0)
    found = planner.plan(problem, watch, solver=solver, seed=3)
    assert_feasible(problem, found)
    start = random_first_fit(problem, np.random.default_rng(3))
    assert found.score <= start.score


@given(tiny(), st.data())
@settings(SLOW, max_examples=150)
def test_the_rest_is_planned_again(problem: Problem, data: st.DataObject) -> None:
    """Whatever is lost or killed: what runs stays, no task is lost or done twice."""
    old = first_fit(problem)
    state = foreseen(problem, old, data.draw(st.integers(0, problem.ticks)))
    lost = data.draw(st.frozensets(st.integers(0, len(problem.nodes) - 1), max_size=1))
    killed = data.draw(st.integers(0, len(state.running)))
    state = replace(state, lost=lost, running=state.running[killed:])
    left = rest(problem, state)
    assert faults(left) == ()
    new = plan(left, "cp", time_limit_s=30.0, cores=1)
    assert_feasible(left, new)
    assert all(start.tick >= state.at and start.node not in lost for start in new.starts)
    refused = {refusal.job for refusal in new.refusals}
    for j, job in enumerate(problem.jobs):
        for s, stage in enumerate(job.stages):
            before = sum(r.count for r in problem.running if (r.job, r.stage) == (j, s))
            over = sum(n for jj, ss, n in state.ended if (jj, ss) == (j, s))
            on = sum(r.count for r in left.running if (r.job, r.stage) == (j, s))
            again = sum(x.count for x in new.starts if (x.job, x.stage) == (j, s))
            if j not in refused and not before:
                assert over + on + again == stage.tasks


def test_a_plan_that_goes_as_planned_is_not_worse_when_made_again() -> None:
    """The rest of an optimal plan is a plan of the rest."""
    problem = data_centre(6, 120, jobs=2)
    old = plan(problem, "cp", time_limit_s=30.0)
    again = rest(problem, foreseen(problem, old, old.makespan // 2))
    assert plan(again, "cp", time_limit_s=30.0).makespan <= old.makespan


@pytest.mark.parametrize("solver", ["cp", "ga", "ls"])
def test_a_search_ends_when_told(solver: str) -> None:
    problem = data_centre(27, 2500, jobs=10)
    began = time.monotonic()
    found = plan(problem, solver, time_limit_s=100.0, told=lambda progress: False)
    assert time.monotonic() - began < 90.0
    assert_feasible(problem, found)
