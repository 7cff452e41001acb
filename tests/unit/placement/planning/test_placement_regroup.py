"""Putting jobs anew together, and how far patience goes while others wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenure.model.units import FOREVER_US, US
from tenure.placement.binding import bind
from tenure.placement.planning import rolling
from tenure.placement.planning.precedence import settle, spot_of, take_out
from tenure.placement.planning.regroup import GROUP, growth_nano, neighbours, regroup
from tenure.placement.planning.value import CALM, PRESSED, RELAXED, Spot, spendable, taste_of
from tenure.placement.planning.window import Horizon, on_anyway_us
from tenure.placement.queue.course import NOW, line_up
from tenure.placement.queue.plan import LEFT
from tests.unit.placement.build import N
from tests.unit.placement.planning.test_placement_rolling import LOCALS, Planned, job

EIGHTS = [N(name, cores=8, gib=64, **LOCALS) for name in "abc"]


def waiting(stage: Planned, *places: tuple[int, int]) -> Horizon:
    """Return the plan with each job at (node, start in seconds), nothing running."""
    plan, jobs, n = stage.course.plan, stage.jobs, len(stage.fleet.price)
    stage.course.marks[NOW] = 0
    for k in range(len(places)):
        line_up(stage.course, k)
        plan.since_us[k] = 0
    none = np.zeros(0, dtype=np.int64)
    horizon = rolling.horizon_of(stage.course, stage.history, jobs, none)
    for k, (node, start_s) in enumerate(places):
        counts = np.zeros(n, dtype=np.int64)
        counts[node] = jobs.executors[k]
        start_us, run_us = start_s * US, int(jobs.local_us[k])
        end_us = start_us + run_us
        settle(horizon, k, Spot(0.0, 1, start_us, end_us, start_us, counts), False)
    return horizon


def nodes_of(stage: Planned) -> list[dict[int, int]]:
    plan, n = stage.course.plan, len(stage.fleet.price)
    return [
        {j: int(c) for j, c in enumerate(spot_of(plan, k, n).counts) if c}
        for k in range(len(stage.jobs.executors))
    ]


def on_s(horizon: Horizon) -> int:
    """Return for how long nodes are on by the plan, in sum."""
    return sum(on_anyway_us(horizon, j, 0, 10**5 * US) for j in range(3)) // US


def fives_and_threes() -> Planned:
    return Planned(EIGHTS, *[(0, job(100, cores)) for cores in (5, 5, 3, 3)], patience=1.0)


def test_fives_and_threes_are_paired() -> None:
    stage = fives_and_threes()
    horizon = waiting(stage, (0, 50), (1, 50), (2, 50), (2, 50))
    assert on_s(horizon) == 300
    regroup(horizon, np.arange(4), 0, taste_of(1.0))
    assert on_s(horizon) == 200


def test_what_is_no_cheaper_stays_as_it_is() -> None:
    stage = fives_and_threes()
    horizon = waiting(stage, (0, 50), (1, 50), (0, 50), (1, 50))
    before = nodes_of(stage), stage.planned_s()
    regroup(horizon, np.arange(4), 0, taste_of(1.0))
    assert (nodes_of(stage), stage.planned_s()) == before
    assert on_s(horizon) == 200


def test_the_growth_by_hand() -> None:
    stage = fives_and_threes()
    horizon = waiting(stage, (0, 50), (1, 50), (0, 50), (1, 50))
    take_out(horizon, 0)
    taste = taste_of(1.0)._replace(charge=0.0, option=0.0)
    # a is on for the three cores beside it in any case
    assert growth_nano(horizon, 0, taste) == 0.0
    take_out(horizon, 2)
    assert growth_nano(horizon, 0, taste) == pytest.approx(3.6e9 * 100 / 3600)


def test_neighbours_start_next_and_are_of_one_rank() -> None:
    jobs = [(0, job(100, 1)) for _ in range(7)]
    stage = Planned(EIGHTS, *jobs, patience=1.0)
    waiting(stage, *[(0, start) for start in (0, 10, 20, 30, 40, 41, 42)])
    plan, line = stage.course.plan, np.arange(7)
    assert neighbours(plan, stage.jobs, line, 5).tolist() == [5, 4, 6, 3]
    plan.rank[4], plan.is_late[6] = -1, True
    assert neighbours(plan, stage.jobs, line, 5).tolist() == [5, 3, 2, 1]
    assert len(line) > GROUP


def test_patience_beyond_the_usual_is_for_short_queues() -> None:
    # 24 cores; each job asks for 8 of them for 300 s: 100 s of the fleet's time
    for count, slack_s, patience in ((1, 400, 1.0), (3, 800, 0.625), (4, 800, CALM), (9, 1, CALM)):
        jobs = [(0, job(300, 8, deadline_s=300 + slack_s)) for _ in range(count)]
        stage = Planned(EIGHTS, *jobs, patience=1.0)
        horizon = waiting(stage, *[(0, 1000 * k) for k in range(count)])
        assert spendable(horizon, np.arange(count)) == pytest.approx(patience)
    assert (RELAXED, PRESSED) == (0.25, 0.5)
    usual = Planned(EIGHTS, *jobs, patience=0.2)
    horizon = waiting(usual, *[(0, 1000 * k) for k in range(count)])
    assert spendable(horizon, np.arange(count)) == 0.2


def test_without_deadlines_patience_is_not_bounded_by_the_queue() -> None:
    stage = Planned(EIGHTS, (0, job(300, 8)), patience=1.0)
    forever = np.full(1, FOREVER_US)
    stage.jobs = stage.jobs._replace(deadline_us=forever)
    assert spendable(waiting(stage, (0, 0)), np.arange(1)) == 1.0


@pytest.mark.parametrize("rounds", [8, 1])
def test_where_there_is_little_time_each_is_put_anew_alone(rounds: int) -> None:
    stage = fives_and_threes()
    horizon = waiting(stage, (0, 50), (1, 50), (2, 50), (2, 50))
    plan = horizon.plan._replace(rounds=rounds)
    plan.rotation[LEFT] = 1
    called: list[int] = []
    instead: dict[Any, Any] = {
        regroup: lambda _horizon, _line, one, _taste: called.append(int(one)),
        rolling.put_anew: lambda *_: None,
    }
    bind(rolling.improve, instead)(horizon._replace(plan=plan), np.arange(4))
    assert called == ([0] if rounds > 1 else [])
