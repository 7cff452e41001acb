"""The event loop: what happens at which instant, and who is asked where jobs go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US, US
from tenure.placement.arrays import Ends, Fleet, Jobs, fleet_of
from tenure.placement.binding import bind
from tenure.placement.decisions.cost import slots
from tenure.placement.decisions.decide import LOCAL, NO_NODE, NO_ROOM
from tenure.placement.names import POLICIES
from tenure.placement.queue import replay, waiting
from tenure.placement.queue.course import (
    DROPPED,
    NOW,
    PENDING,
    SPANS,
    Course,
    History,
    Rules,
    close_spans,
    need_now,
    open_course,
    open_history,
)
from tenure.placement.queue.replay import TO_THE_END, Arrivals
from tests.unit.placement.build import N, ask_of, jobs_of, queued, view_of

PAPER = Rules(drops=False, is_strict=False, holds=False, grace_us=-1)
NO_ENDS = Ends(*(np.zeros(0, dtype=np.int64) for _ in range(4)))


class Stage:
    """Nodes, and jobs that come at their times, in queue order."""

    def __init__(self, nodes: Sequence[N], *jobs: tuple[float, dict[str, Any]]) -> None:
        view = view_of(nodes)
        asks = [ask_of(view, **{"id": str(k), **words}) for k, (_, words) in enumerate(jobs)]
        codes = [POLICIES.index("ff")] * len(asks)
        self.fleet: Fleet = fleet_of(view)
        self.jobs: Jobs = jobs_of([queued(ask) for ask in asks], codes, len(view.names))
        at_us = np.array([round(at_s * US) for at_s, _ in jobs], dtype=np.int64)
        order = np.argsort(at_us, kind="stable")
        self.arrivals = Arrivals(at_us[order], order)
        self.course: Course = open_course(self.fleet, NO_ENDS, len(asks), 0)
        self.history: History = open_history(self.course, self.jobs)

    def play(
        self, rules: Rules = PAPER, until_s: float | None = None, loop: Any = replay.replay
    ) -> History:
        until_us = TO_THE_END if until_s is None else round(until_s * US)
        loop(self.course, self.history, self.jobs, self.arrivals, rules, until_us)
        if until_s is None:
            close_spans(self.course, self.history, rules.grace_us)
        return self.history

    def times_s(self) -> list[tuple[float, float]]:
        made = self.history
        pairs = zip(made.start_us.tolist(), made.end_us.tolist(), strict=True)
        return [(start / US, end / US) for start, end in pairs]

    def spans_s(self) -> list[tuple[int, float, float]]:
        count = int(self.course.marks[SPANS])
        columns = (self.history.span_node, self.history.span_on_us, self.history.span_off_us)
        rows = zip(*(column[:count].tolist() for column in columns), strict=True)
        return [(node, on / US, off / US) for node, on, off in rows]


OFF = {"is_on": False}


def test_an_end_wins_over_an_arrival_of_the_same_instant() -> None:
    stage = Stage(
        [N("a", cores=1, **OFF)], (0, {"local_s": 10}), (10, {"local_s": 5}), (10, {"local_s": 5})
    )
    stage.play()
    assert stage.times_s() == [(0, 10), (10, 15), (15, 20)]


def test_the_head_blocks_those_behind_it() -> None:
    two = [N("a", cores=1, **OFF), N("b", cores=1, **OFF)]
    stage = Stage(
        two, (0, {"local_s": 10}), (1, {"executors": 2, "local_s": 10}), (2, {"local_s": 1})
    )
    stage.play()
    assert stage.times_s() == [(0, 10), (10, 20), (20, 21)]


def test_jobs_stand_in_queue_order_only_once_they_are_there() -> None:
    # ranks 0 and 1: the later arrival comes first in the queue, but not before it is there
    stage = Stage(
        [N("a", cores=1, **OFF)], (5, {"local_s": 3}), (0, {"local_s": 4}), (1, {"local_s": 2})
    )
    stage.play()
    assert stage.times_s() == [(6, 9), (0, 4), (4, 6)]


def test_a_job_too_large_for_the_empty_fleet_is_turned_away() -> None:
    stage = Stage([N("a", cores=4, **OFF)], (0, {"executors": 5}), (0, {"local_s": 7}))
    stage.play()
    assert stage.history.verdict.tolist() == [NO_NODE, LOCAL]
    assert stage.times_s()[1] == (0, 7)


def test_a_late_head_is_dropped_and_one_just_in_time_is_not() -> None:
    # met means strictly before, but only "now + run > deadline" is dropped, as by the authors
    stage = Stage(
        [N("a", cores=1, **OFF)],
        (0, {"local_s": 10}),
        (0, {"local_s": 5, "deadline_s": 15}),
        (0, {"local_s": 5, "deadline_s": 19.5}),
    )
    stage.play(PAPER._replace(drops=True))
    assert stage.history.verdict.tolist() == [LOCAL, LOCAL, DROPPED]


def test_strict_placements_are_in_time_or_wait() -> None:
    nodes = [N("c", cores=1, is_cloud=True, **OFF), N("l", cores=1, **OFF)]
    words = {"local_s": 10, "hybrid_s": 13}
    jobs = ((0, words), (1, {**words, "deadline_s": 13.5}), (2, {**words, "deadline_s": 24}))
    stage = Stage(nodes, *jobs)
    stage.play(PAPER._replace(is_strict=True))
    # the second finds c too slow and l free, the third c taken until 13, and waits for l
    assert stage.times_s() == [(0, 13), (1, 11), (11, 21)]
    lax = Stage(nodes, *jobs)
    lax.play()
    assert lax.times_s() == [(0, 13), (1, 11), (11, 21)]


def test_a_node_is_off_the_instant_it_is_empty_or_after_its_grace() -> None:
    jobs = ((0, {"local_s": 10}), (10, {"local_s": 5}), (16, {"local_s": 5}))
    at_once = Stage([N("a", cores=1, **OFF)], *jobs)
    at_once.play()
    assert at_once.spans_s() == [(0, 0, 10), (0, 10, 15), (0, 16, 21)]
    after = Stage([N("a", cores=1, **OFF)], *jobs)
    after.play(PAPER._replace(grace_us=0))
    assert after.spans_s() == [(0, 0, 15), (0, 16, 21)]
    graced = Stage([N("a", cores=1, **OFF)], *jobs)
    graced.play(PAPER._replace(grace_us=2 * US))
    assert graced.spans_s() == [(0, 0, 23)]


def test_no_node_goes_off_while_someone_waits_where_promises_count_on_it() -> None:
    nodes = [N("a", cores=1, **OFF), N("b", cores=1, **OFF)]
    jobs = ((0, {"local_s": 10}), (0, {"local_s": 20}), (1, {"executors": 2, "local_s": 5}))
    free = Stage(nodes, *jobs)
    free.play(PAPER._replace(grace_us=0))
    assert sorted(free.spans_s()) == [(0, 0, 10), (0, 20, 25), (1, 0, 25)]
    held = Stage(nodes, *jobs)
    held.play(PAPER._replace(grace_us=0, holds=True))
    assert sorted(held.spans_s()) == [(0, 0, 25), (1, 0, 25)]


def test_boots_come_before_the_work_and_are_paid_for() -> None:
    nodes = [N("a", cores=1, boot_s=7, usd_per_h=3600, **OFF)]
    stage = Stage(nodes, (0, {"local_s": 10}), (30, {"local_s": 1}))
    stage.play()
    assert stage.times_s() == [(7, 17), (37, 38)]
    assert stage.spans_s() == [(0, 0, 17), (0, 30, 38)]
    assert stage.history.cost_nano.tolist() == [17 * 10**9, 8 * 10**9]


def test_a_minimum_billing_period_keeps_a_node_on() -> None:
    stage = Stage([N("a", cores=1, **OFF)], (0, {"local_s": 10}), (20, {"local_s": 5}))
    stage.course.fleet.min_billing_us[:] = 60 * US
    stage.play()
    assert stage.spans_s() == [(0, 0, 60)]


def test_earlier_executors_give_back_their_room() -> None:
    stage = Stage([N("a", cores=2, free_cores=1, remaining_s=30)], (0, {"executors": 2}))
    ends = Ends(*(np.array([value], dtype=np.int64) for value in (0, 1000, 0, 30 * US)))
    stage.course = open_course(stage.fleet, ends, 1, 0)
    stage.history = open_history(stage.course, stage.jobs)
    stage.play()
    assert stage.times_s() == [(30, 130)]


def test_it_can_be_left_and_taken_up_again() -> None:
    rng = np.random.default_rng(5)
    nodes = [N(name, cores=3, **OFF) for name in "abc"]
    jobs = [
        (
            float(rng.integers(0, 400)),
            {"executors": int(rng.integers(1, 5)), "local_s": float(rng.integers(1, 90))},
        )
        for _ in range(40)
    ]
    whole, parts = Stage(nodes, *jobs), Stage(nodes, *jobs)
    whole.play()
    for until_s in (*range(0, 600, 7), None):
        parts.play(until_s=until_s)
    for one, other in zip(whole.history, parts.history, strict=True):
        np.testing.assert_array_equal(one, other)


def test_who_can_never_start_does_not_block_for_ever() -> None:
    nodes = [N("a", cores=2, free_cores=1, remaining_s=None)]
    stage = Stage(nodes, (0, {"executors": 2}), (3, {"local_s": 5}))
    stage.play(until_s=50)
    assert stage.history.verdict.tolist() == [PENDING, PENDING]
    stage.play()
    assert stage.history.verdict.tolist() == [NO_ROOM, LOCAL]


def test_what_runs_is_told_in_the_order_of_its_end() -> None:
    stage = Stage(
        [N("a", cores=1, **OFF), N("b", cores=4, **OFF)],
        (0, {"executors": 3, "local_s": 50}),
        (1, {"local_s": 10, "gib": 2}),
        (2, {"executors": 4, "local_s": 10}),
    )
    stage.play(until_s=5)
    ends = waiting.ends_to_come(stage.course, stage.history, stage.jobs)
    assert (ends.end_us // US).tolist() == [11, 50, 50]
    assert ends.cpu_m.sum() == 4000
    assert waiting.line_of(stage.course).tolist() == [2]


def test_a_queue_policy_may_take_any_waiting_job() -> None:
    """The seam: backfill in ten lines, bound in place of ``pick``."""

    def backfill(course: Course, history: History, jobs: Jobs, rules: Rules) -> waiting.Picks:
        n = course.fleet.price.shape[0]
        for job in waiting.line_of(course).tolist():
            need = need_now(jobs, job, int(course.marks[NOW]), False)
            room: Ints = slots(course.fleet.free_cpu_m, course.fleet.free_memory, need)
            if room.max() >= need.executors:
                counts = np.where(np.arange(n) == room.argmax(), need.executors, 0)
                one = np.array([job])
                return waiting.Picks(one, np.array([LOCAL]), counts.reshape(1, n), FOREVER_US)
        none = np.zeros(0, dtype=np.int64)
        return waiting.Picks(none, none, np.zeros((0, n), dtype=np.int64), FOREVER_US)

    loop = bind(replay.replay, {waiting.pick: backfill})
    stage = Stage(
        [N("a", cores=2, **OFF)],
        (0, {"local_s": 10}),
        (1, {"executors": 2, "local_s": 10}),
        (2, {"local_s": 3}),
    )
    stage.play(loop=loop)
    assert stage.times_s() == [(0, 10), (10, 20), (2, 5)]


def test_a_queue_policy_may_wait_start_several_and_drop_some() -> None:
    def together(course: Course, history: History, jobs: Jobs, rules: Rules) -> waiting.Picks:
        """Wait until 100 s, then drop the first and start all others on the first node."""
        n, line = course.fleet.price.shape[0], waiting.line_of(course).copy()
        if course.marks[NOW] < 100 * US:
            line = line[:0]
        counts = np.zeros((line.shape[0], n), dtype=np.int64)
        counts[1:, 0] = jobs.executors[line[1:]]
        verdict = np.where(np.arange(line.shape[0]) == 0, DROPPED, LOCAL)
        return waiting.Picks(line, verdict, counts, 100 * US)

    loop = bind(replay.replay, {waiting.pick: together})
    stage = Stage([N("a", cores=4, **OFF)], *((k, {"local_s": 5}) for k in range(4)))
    stage.play(loop=loop)
    assert stage.history.verdict.tolist() == [DROPPED, LOCAL, LOCAL, LOCAL]
    assert stage.times_s()[1:] == [(100, 105)] * 3
    assert stage.history.placed_us[0] == 100 * US


def test_decisions_are_timed_by_the_clock_that_is_bound() -> None:
    ticks = iter(range(0, 1000, 5))
    loop = bind(replay.replay, {replay.clock_ns: lambda: next(ticks)})
    stage = Stage([N("a", cores=1, **OFF)], (0, {"local_s": 1}), (5, {"local_s": 1}))
    stage.play(loop=loop)
    from tenure.placement.queue.course import ASKED, SPENT_NS

    assert stage.course.marks[ASKED] == 2
    assert stage.course.marks[SPENT_NS] == 10
