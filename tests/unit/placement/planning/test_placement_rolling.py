"""Policy ``tenure``: worked examples of the rolling plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenure.model.units import US
from tenure.placement.binding import bind
from tenure.placement.decisions.decide import HYBRID, LOCAL, NO_NODE, PLANNED
from tenure.placement.planning.rolling import PAUSE_US, pick_planned, repair
from tenure.placement.planning.timeline import USED
from tenure.placement.planning.value import Wish, natural_log, taste_of, value_of
from tenure.placement.planning.window import Window
from tenure.placement.queue.course import DROPPED, Rules, open_course, open_history
from tenure.placement.queue.plan import DUE, LEFT, TURN, UNSEEN, kinds, open_plan, weights
from tenure.placement.queue.replay import replay
from tenure.placement.queue.waiting import pick
from tests.unit.placement.build import N
from tests.unit.placement.queue.test_placement_replay import NO_ENDS, PAPER, Stage

LOOP = bind(replay, {pick: pick_planned})
LOCALS: dict[str, Any] = {"is_on": False, "usd_per_h": 3.6}
CLOUD: dict[str, Any] = {"is_on": False, "usd_per_h": 14.4, "is_cloud": True}


class Planned(Stage):
    """A stage on which ``tenure`` plans."""

    def __init__(
        self, nodes: list[N], *jobs: tuple[float, dict[str, Any]], patience: float = 0.25
    ) -> None:
        super().__init__(nodes, *jobs)
        self.jobs = self.jobs._replace(policy=np.full(len(jobs), PLANNED, dtype=np.int64))
        plan = open_plan(self.fleet, self.jobs, patience)
        self.course = open_course(self.fleet, NO_ENDS, len(jobs), 0, plan)
        self.history = open_history(self.course, self.jobs)

    def run(self, until_s: float | None = None, rules: Rules = PAPER) -> list[tuple[float, float]]:
        self.play(rules, until_s, LOOP)
        return self.times_s()

    def places(self) -> list[dict[int, int]]:
        made = self.history
        rows = [range(f, f + u) for f, u in zip(made.first, made.used, strict=True)]
        return [{int(made.on[r]): int(made.executors[r]) for r in row} for row in rows]

    def planned_s(self) -> list[tuple[float, float]]:
        plan = self.course.plan
        pairs = zip(plan.start_us.tolist(), plan.end_us.tolist(), strict=True)
        return [(start / US, end / US) for start, end in pairs]


def job(local_s: float, cores: int = 1, **words: Any) -> dict[str, Any]:
    return {"local_s": local_s, "cores": cores, "deadline_s": 10_000, **words}


def test_a_hole_of_a_node_that_is_on_is_filled_for_nothing() -> None:
    nodes = [N("a", cores=4, **LOCALS), N("b", cores=4, **LOCALS)]
    stage = Planned(nodes, (0, job(100, 3)), (10, job(50, 1)))
    assert stage.run() == [(0, 100), (10, 60)]
    assert stage.places() == [{0: 1}, {0: 1}]
    assert stage.spans_s() == [(0, 0, 100)]


def test_it_waits_for_a_hole_rather_than_open_a_node_and_not_without_patience() -> None:
    nodes = [N("a", cores=4, **LOCALS), N("b", cores=4, **LOCALS)]
    jobs = ((0, job(100, 4)), (80, job(100, 4)))
    # equal work on equal full nodes: nothing is saved by waiting, so both start at once
    assert Planned(nodes, *jobs).run() == [(0, 100), (80, 180)]
    # the second job's one core would keep a node on for itself; a hole comes at 40
    filling = ((0, job(40, 4)), (5, job(100, 3, only=["a"])), (10, job(60, 1)))
    assert Planned(nodes, *filling).run()[2] == (40, 100)
    assert Planned(nodes, *filling, patience=0.0).run()[2] == (10, 70)


def test_ends_are_aligned_where_the_node_is_on_anyway_in_the_future() -> None:
    # a is full until 40, then three of its cores are used to 140: the filler's window of 100 s
    # costs nothing exactly there
    nodes = [N("a", cores=4, **LOCALS), N("b", cores=4, **LOCALS)]
    stage = Planned(
        nodes,
        (0, job(40, 4)),
        (1, job(100, 3, only=["a"])),
        (2, job(80, 1, only=["a"])),
        patience=0.9,
    )
    times = stage.run()
    assert times[:2] == [(0, 40), (40, 140)]
    assert times[2][0] >= 40
    assert times[2][1] <= 140
    assert stage.spans_s() == [(0, 0, 40), (0, 40, 140)]


def test_it_waits_for_cheap_room_only_within_the_slack() -> None:
    nodes = [N("c", cores=4, **CLOUD), N("l", cores=4, **LOCALS)]
    first = (0, job(100, 4))
    slack = Planned(nodes, first, (10, job(100, 4, deadline_s=10_000)), patience=0.6)
    assert slack.run() == [(0, 100), (100, 200)]
    assert slack.history.verdict.tolist() == [LOCAL, LOCAL]
    # a deadline is met strictly: at 200 it is too late to wait for the local node
    tight = Planned(nodes, first, (10, job(100, 4, deadline_s=200)), patience=0.6)
    assert tight.run() == [(0, 100), (10, 140)]
    assert tight.history.verdict.tolist() == [LOCAL, HYBRID]
    hurried = Planned(nodes, first, (10, job(100, 4)), patience=0.0)
    assert hurried.run()[1] == (10, 140)


def test_a_job_that_comes_delays_no_planned_start() -> None:
    nodes = [N("a", cores=4, **LOCALS)]
    stage = Planned(
        nodes, (0, job(100, 3)), (1, job(50, 4)), (2, job(90, 1)), (3, job(200, 1, deadline_s=900))
    )
    stage.run(until_s=1)
    assert stage.planned_s()[1] == (100, 150)
    times = stage.run()
    assert times[1] == (100, 150)
    assert times[2] == (2, 92)  # fills the hole beside the first
    assert times[3][0] >= 150  # would not end before the second begins


def test_late_jobs_go_behind_those_that_can_be_in_time() -> None:
    nodes = [N("a", cores=4, **LOCALS)]
    stage = Planned(
        nodes,
        (0, job(100, 4)),
        (1, job(100, 4, deadline_s=150)),  # lost: the node is taken until 100
        (2, job(100, 4, deadline_s=250)),
    )
    assert stage.run() == [(0, 100), (200, 300), (100, 200)]


def test_the_whole_queue_is_planned_again_where_that_saves_a_deadline() -> None:
    # the patient job stands where the urgent one must: it is moved behind
    nodes = [N("a", cores=4, **LOCALS)]
    stage = Planned(
        nodes,
        (0, job(100, 4)),
        (1, job(100, 4, deadline_s=1000)),
        (2, job(100, 4, deadline_s=201)),
    )
    assert stage.run() == [(0, 100), (200, 300), (100, 200)]


def test_without_a_node_or_in_time_a_job_is_told_so() -> None:
    nodes = [N("a", cores=4, **LOCALS), N("b", cores=8, **LOCALS)]
    stage = Planned(nodes, (0, job(10, 5, only=["a"])), (0, job(10, 5)))
    assert stage.run()[1] == (0, 10)
    assert stage.history.verdict.tolist() == [NO_NODE, LOCAL]
    late = Planned([nodes[0]], (0, job(100, 4)), (1, job(50, 4, deadline_s=120)))
    late.run(51, PAPER._replace(drops=True))
    assert late.history.verdict.tolist() == [LOCAL, 0]
    late.run(rules=PAPER._replace(drops=True))
    assert late.history.verdict.tolist() == [LOCAL, DROPPED]


def test_nodes_that_stay_on_are_warm_and_cost_nothing_more() -> None:
    # by name a comes first; b is on for ever, needs no boot, and is paid anyway
    nodes = [N("a", boot_s=30, **LOCALS), N("b", usd_per_h=3.6, remaining_s=None)]
    stage = Planned(nodes, (0, job(100, 4)), (0, job(100, 4, deadline_s=131)))
    times = stage.run()
    assert sorted(times) == [(0, 100), (30, 130)]
    assert stage.history.verdict.tolist() == [LOCAL, LOCAL]
    # a boot that would end too late is not counted on
    tight = job(100, 4, deadline_s=130)
    late = Planned(nodes, (0, tight), (0, tight))
    late.run(until_s=0)
    assert late.course.plan.is_late.tolist() == [False, True]


def test_a_job_without_a_deadline_may_wait_but_runs() -> None:
    nodes = [N("c", cores=4, **CLOUD), N("l", cores=4, **LOCALS)]
    stage = Planned(nodes, (0, job(100, 4)), (10, {"local_s": 100, "cores": 4}), patience=1.0)
    assert stage.run() == [(0, 100), (100, 200)]


def test_the_value_by_hand() -> None:
    # half the cost of full nodes, put off by one run time
    wish = Wish(0, 0, 100 * US, 10_000 * US, 1000.0)
    taste = taste_of(0.2)
    assert taste.charge == pytest.approx(1.0)
    here = Window(LOCAL, 100 * US, 0, 100 * US)
    assert value_of(wish, here, 500, taste) == pytest.approx(0.5 + 1.0)
    # e times full nodes at once: 1 + ln e
    assert value_of(wish, here._replace(start_us=0), 2718, taste) == pytest.approx(2, abs=0.001)
    # the same at the last start keeps all of the option, o * ln e = 0.02
    last = here._replace(start_us=9_900 * US - 1)
    waited = 9_900 / 100 * taste.charge
    assert value_of(wish, last, 2718, taste) == pytest.approx(2 + waited - 0.02, abs=0.001)


def test_natural_log_is_near_and_never_falls() -> None:
    xs = np.linspace(1, 70, 20_000)
    found = np.array([natural_log(float(x)) for x in xs])
    assert np.max(np.abs(found - np.log(xs))) < 0.001
    assert np.all(np.diff(found) >= 0)


def test_free_nodes_count_as_a_quarter_of_the_dearest_per_core() -> None:
    stage = Stage([N("a", cores=4), N("b", cores=8, usd_per_h=16, is_cloud=True)])
    assert weights(stage.fleet).tolist() == [2_000_000_000, 16_000_000_000]
    free = Stage([N("a", cores=4), N("b", cores=8)])
    assert (weights(free.fleet) > 0).all()
    assert kinds(stage.fleet).tolist() == [0, 1]


def test_others_are_put_where_they_are_best_a_moment_after_an_arrival() -> None:
    nodes = [N("a", cores=4, **LOCALS)]
    stage = Planned(nodes, (0, job(100, 4)), (1, job(50, 4)), (2, job(50, 4)))
    stage.run(until_s=2)
    plan = stage.course.plan
    assert plan.rotation[LEFT] > 0
    assert plan.rotation[DUE] - 2 * US <= PAUSE_US
    before = int(plan.rotation[TURN])
    stage.run(until_s=3)
    assert plan.rotation[TURN] > before
    assert plan.rotation[LEFT] == 0


def test_nobody_is_moved_for_a_job_that_is_late_in_any_case(monkeypatch: Any) -> None:
    def unasked(*_: Any) -> None:
        raise AssertionError("others are planned again in vain")

    loop = bind(replay, {pick: pick_planned, repair: unasked})
    nodes = [N("a", cores=4, **LOCALS)]
    # the node is taken until 100: whoever waits, the third cannot end by 150
    stage = Planned(nodes, (0, job(100, 4)), (1, job(50, 4)), (2, job(60, 4, deadline_s=150)))
    stage.play(PAPER, None, loop)
    assert stage.times_s() == [(0, 100), (100, 150), (150, 210)]
    useful = Planned(nodes, (0, job(100, 4)), (1, job(50, 4)), (2, job(40, 4, deadline_s=150)))
    with pytest.raises(AssertionError, match="in vain"):
        useful.play(PAPER, None, loop)


def test_where_few_starts_are_tried_the_last_of_all_is_one_of_them() -> None:
    nodes = [N("a", cores=4, **LOCALS)]
    rows = [(k, job(10, 4)) for k in range(8)]
    stage = Planned(nodes, *rows)
    stage.course = stage.course._replace(plan=stage.course.plan._replace(starts=1))
    times = stage.run()
    assert [start for start, _ in times] == [10 * k for k in range(8)]
    assert not stage.course.plan.is_late.any()


def test_planning_leaves_what_is_planned_where_it_is() -> None:
    nodes = [N("a", cores=4, **LOCALS), N("b", cores=4, **LOCALS)]
    jobs = [(k, job(60, 1 + k % 4, executors=1 + k % 2)) for k in range(6)]
    stage = Planned(nodes, *jobs)
    stage.run(until_s=4)
    before = stage.planned_s()
    assert before[5] == (UNSEEN / US, UNSEEN / US)
    from tenure.placement.planning import precedence, rolling
    from tenure.placement.queue.course import NOW, line_up

    line_up(stage.course, 5)
    stage.course.marks[NOW] = 5 * US
    line = stage.course.waiting[: stage.course.marks[1]]
    others = line[line != 5]
    horizon = rolling.horizon_of(stage.course, stage.history, stage.jobs, others)
    stage.course.plan.since_us[5] = 5 * US
    assert precedence.add(horizon, 5, taste_of(0.25))
    assert stage.planned_s()[:5] == before[:5]
    assert (horizon.line.cpu_m[: horizon.line.spare[USED]] >= 0).all()
