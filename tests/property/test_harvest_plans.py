"""Plans of drawn problems: feasible always, and the optimum where it is proven."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from tenure.harvest.first_fit import first_fit, random_first_fit
from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Problem
from tests.unit.harvest.problems import assert_feasible, best, tiny

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(tiny())
@settings(SLOW, max_examples=300)
def test_list_plans_are_feasible(problem: Problem) -> None:
    assert_feasible(problem, first_fit(problem))
    assert_feasible(problem, random_first_fit(problem, np.random.default_rng(1)))


@given(tiny())
@settings(SLOW, max_examples=120)
def test_cp_equals_brute_force(problem: Problem) -> None:
    found = plan(problem, "cp", time_limit_s=30.0, cores=1)
    assert_feasible(problem, found)
    assert found.is_optimal
    assert found.score == best(problem)
