"""What waiting may come to over all jobs, by hand and on a stream of jobs that all like to wait."""

from __future__ import annotations

import numpy as np
import pytest

from tenure.model.units import US
from tenure.placement.planning.budget import CREDIT, MEMORY, count_in, within_budget
from tenure.placement.planning.value import taste_of
from tenure.placement.queue.plan import HEAD, PROMPT, SPENT
from tests.unit.placement.build import N
from tests.unit.placement.planning.test_placement_rolling import CLOUD, LOCALS, Planned, job


def stage_with(spent_s: int, prompt_s: int, patience: float = 0.25) -> Planned:
    stage = Planned([N("a", cores=4, **LOCALS)], (0, job(100)), (0, job(50)), patience=patience)
    rotation = stage.course.plan.rotation
    rotation[SPENT], rotation[PROMPT] = spent_s * US, prompt_s * US
    return stage


def test_what_a_job_is_to_wait_is_counted_by_hand() -> None:
    stage = stage_with(0, 0)
    plan = stage.course.plan
    # it came at 10 and could have started at 30, it is to end at 200 instead of at 130
    plan.since_us[0], plan.soon_us[0], plan.end_us[0] = 10 * US, 30 * US, 200 * US
    count_in(plan, stage.jobs, 0)
    assert plan.rotation[SPENT] == 70 * US
    assert plan.rotation[PROMPT] == 120 * US
    # there was room at once for the next, but nobody passes the first where its head is served:
    # it ends 20 s before it would have there
    plan.since_us[1], plan.soon_us[1], plan.end_us[1] = 10 * US, 10 * US, 60 * US
    count_in(plan, stage.jobs, 1)
    assert plan.rotation[HEAD] == 30 * US
    assert plan.rotation[SPENT] == 70 * US - 70 * US // MEMORY - 20 * US
    assert plan.rotation[PROMPT] == 120 * US - 120 * US // MEMORY + 70 * US


@pytest.mark.parametrize(
    ("spent_s", "times"), [(-50, 1.0), (0, 1.0), (450, 1.0), (675, 3.0), (900, 1024.0)]
)
def test_the_charge_grows_with_what_was_spent(spent_s: int, times: float) -> None:
    # a tenth of 5,000 s and four times 100 s may be spent
    stage = stage_with(spent_s, 5000)
    assert CREDIT == 4
    taste = taste_of(0.25)
    found = within_budget(stage.course.plan, stage.jobs, 0, taste)
    assert found.charge == pytest.approx(times * taste.charge)
    assert found.option == taste.option


def test_full_patience_knows_no_budget() -> None:
    stage = stage_with(10**6, 10, patience=1.0)
    taste = taste_of(1.0)
    assert within_budget(stage.course.plan, stage.jobs, 0, taste) == taste


def delay_of(patience: float) -> float:
    """Return by which part of its run a job ends later in the mean; local room is too little."""
    nodes = [N("c", cores=64, **CLOUD), N("l", cores=4, **LOCALS)]
    stage = Planned(nodes, *[(70 * k, job(100, 4)) for k in range(60)], patience=patience)
    ends_s = [end for _, end in stage.run()]
    return float(np.mean([end - 70 * k - 100 for k, end in enumerate(ends_s)])) / 100


def test_all_together_wait_no_longer_than_the_budget() -> None:
    # three in ten must run in the cloud, which takes 30 % longer
    must = 0.3 * 0.3
    assert must < delay_of(0.25) <= must + 0.1 + CREDIT / 60
    assert delay_of(0.9) > 1.0
