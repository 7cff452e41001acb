"""The plan of the daemon: compiled against plain, and what holds of every plan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from tenure.model.placing import (
    Admitted,
    ClusterView,
    Occupied,
    Planned,
    Queued,
    QueuePlan,
    Rotation,
    Situation,
)
from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US, US
from tenure.placement.planner import COMPILED_BOUNDS, Tools
from tenure.placement.policies import Policies, _planning_code
from tenure.placement.queue_arrays import QueueArrays
from tenure.simulation.sla.loops import kept_kernels
from tests.unit.placement.build import N, ask_of, view_of

PLAIN = Policies(bounds=COMPILED_BOUNDS)
HOUR_S = 3600


def fleet(dice: random.Random, boot_s: int = 20) -> ClusterView:
    nodes = []
    for k in range(dice.randint(1, 5)):
        is_on = dice.random() < 0.5
        nodes.append(
            N(
                f"n{k}",
                cores=dice.choice((2, 4, 8)),
                usd_per_h=dice.choice((0.0, 3.6, 14.4)),
                is_cloud=dice.random() < 0.4,
                is_on=is_on,
                remaining_s=dice.choice((0, 30)) if is_on else 0,
                boot_s=0 if is_on else boot_s,
                reboot_s=boot_s,
            )
        )
    return view_of(nodes)


def waiting(dice: random.Random, view: ClusterView, now_us: int, count: int) -> list[Planned]:
    rows = []
    for k in range(count):
        run_s, slack_s = dice.choice((5, 40, 100)), dice.choice((30, 300, 3000))
        due_s = None if dice.random() < 0.3 else now_us / US + run_s + slack_s
        ask = ask_of(
            view,
            executors=dice.randint(1, 3),
            cores=dice.randint(1, 3),
            local_s=run_s,
            hybrid_s=run_s * dice.choice((1, 1.3)),
            deadline_s=due_s,
            id=f"j{k}",
        )
        policy = dice.choice(("tenure", "tenure", "exact", "ff", "asq"))
        guard_us = ask.deadline_us
        if guard_us is None:
            guard_us = now_us + ask.hybrid_us + HOUR_S * US
        rank = dice.choice((0, 0, -1))
        rows.append(Planned(Queued(ask, policy), rank, now_us, guard_us, None))
    return rows


def booked(queue: Sequence[Planned], queue_plan: QueuePlan) -> list[Planned]:
    return [
        replace(one, reservation=queue_plan.reservations.get(one.queued.ask.id)) for one in queue
    ]


def story(placer: Policies, seed: int) -> list[QueuePlan]:
    """Have jobs come, some of what runs end late, and the plan be kept; return every plan."""
    dice = random.Random(seed)
    now_us = 1000 * US
    view = fleet(dice)
    running = [
        Occupied(dice.randrange(len(view.names)), 0, 0, now_us + dice.randrange(100) * US)
        for _ in range(dice.randint(0, 3))
    ]
    queue_plans: list[QueuePlan] = []
    queue: list[Planned] = []
    rotation = Rotation()
    for new in waiting(dice, view, now_us, 10):
        site = Situation(view, running, now_us)
        answer = placer.admit_planned(site, queue, new, rotation=rotation)
        if isinstance(answer, Admitted):
            assert answer.queue_plan is not None
            queue_plans.append(answer.queue_plan)
            queue = booked([*queue, new], answer.queue_plan)
            rotation = answer.queue_plan.rotation
        now_us += dice.choice((0, 1, US))
        kept = placer.plan(Situation(view, running, now_us), queue, rotation=rotation)
        queue_plans.append(kept)
        queue, rotation = booked(queue, kept), kept.rotation
    return queue_plans


def most_used(view: ClusterView, queue: Sequence[Planned], queue_plan: QueuePlan) -> None:
    """At every start, what is planned on a node fits what is free there."""
    asks = {one.queued.ask.id: one.queued.ask for one in queue}
    places: list[Reservation] = list(queue_plan.reservations.values())
    for at_us in {reservation.start_us for reservation in places}:
        used = np.zeros(len(view.names), dtype=np.int64)
        for reservation in places:
            if reservation.start_us <= at_us < reservation.end_us:
                for name, count in reservation.counts:
                    used[view.names.index(name)] += count * asks[reservation.job].cpu_m
        assert (used <= view.free_cpu_m).all()


@pytest.mark.parametrize("seed", range(60))
def test_promises_are_kept_by_every_later_plan(seed: int) -> None:
    dice = random.Random(seed)
    now_us, view = 1000 * US, fleet(dice)
    queue: list[Planned] = []
    promised: dict[str, int] = {}
    rotation = Rotation()
    for new in waiting(dice, view, now_us, 12):
        site = Situation(view, [], now_us)
        before = {one.queued.ask.id: one.reservation for one in queue}
        answer = PLAIN.admit_planned(site, queue, new, rotation=rotation)
        if not isinstance(answer, Admitted):
            continue
        assert answer.queue_plan is not None
        queue = booked([*queue, new], answer.queue_plan)
        rotation = answer.queue_plan.rotation
        promised[new.queued.ask.id] = new.queued.ask.deadline_us or FOREVER_US
        most_used(view, queue, answer.queue_plan)
        for one in queue:
            key, reservation = one.queued.ask.id, one.reservation
            assert reservation is not None
            assert reservation.end_us < promised[key], key
            assert sum(count for _, count in reservation.counts) == one.queued.ask.executors
            old = before.get(key)
            if old is not None and one.rank < new.rank:
                assert reservation.end_us <= max(old.end_us, one.guard_us), (
                    "put off by lower priority"
                )
            if old is not None and reservation.end_us > old.end_us:
                assert reservation.end_us < one.guard_us


@pytest.mark.parametrize("seed", range(20))
def test_the_same_questions_have_the_same_answers(seed: int) -> None:
    assert story(PLAIN, seed) == story(Policies(bounds=COMPILED_BOUNDS), seed)


class Forgetful(Policies):
    """Policies that keep nothing from one question to the next."""

    def _tools(self, site: Situation) -> Tools:
        self._queue_arrays = QueueArrays((), _planning_code)
        return super()._tools(site)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_between_questions_changes_no_answer(seed: int) -> None:
    assert story(Forgetful(bounds=COMPILED_BOUNDS), seed) == story(PLAIN, seed)


def on_one_look(placer: Policies, seed: int) -> int:
    """Have jobs come at one moment, on one look and each on its own; count the former.

    Nothing boots: where a boot is not needed any more, a look of its own has the plan end earlier.
    """
    dice, other = random.Random(seed), copy(placer)
    other._queue_arrays = QueueArrays((), _planning_code)
    now_us, view = 1000 * US, fleet(dice, boot_s=0)
    ends = [(dice.randrange(len(view.names)), now_us + dice.randrange(1, 100) * US) for _ in "ab"]
    site = Situation(view, [Occupied(j, 1000, 0, end_us) for j, end_us in ends], now_us)
    queue: list[Planned] = []
    rotation, look, looked = Rotation(), None, 0
    for new in waiting(dice, view, now_us, 12):
        position = dice.randint(0, len(queue))
        alone = other.admit_planned(site, queue, new, rotation=rotation, position=position)
        found = None if look is None else look.admit(new, position)
        if found is None:
            again = placer.admit_planned(site, queue, new, rotation=rotation, position=position)
            assert again == alone
            look = again.look if isinstance(again, Admitted) else None
        else:
            assert isinstance(alone, Admitted)
            assert alone.queue_plan is not None
            assert found.queue_plan is not None
            assert not found.queue_plan.is_whole
            assert found.forecast == alone.forecast
            assert found.queue_plan.rotation == alone.queue_plan.rotation
            kept = {
                one.queued.ask.id: one.reservation for one in queue
            } | found.queue_plan.reservations
            assert kept == alone.queue_plan.reservations
            looked += 1
        if isinstance(alone, Admitted):
            assert alone.queue_plan is not None
            queue.insert(position, new)
            queue, rotation = booked(queue, alone.queue_plan), alone.queue_plan.rotation
    return looked


def test_who_comes_on_one_look_gets_the_place_that_he_would_get_alone() -> None:
    placers = (PLAIN, Policies(bounds=COMPILED_BOUNDS))
    assert sum(on_one_look(placers[seed % 2], seed) for seed in range(60)) > 200


@pytest.mark.computes
@pytest.mark.timeout(1800)
def test_compiled_plans_equal_plain_ones() -> None:
    """In 38, 75 and 159 an executor that takes no room ends: once that was a time to start."""
    compiled = Policies(bounds=COMPILED_BOUNDS)
    compiled.compile_planning(kept_kernels())
    for seed in (*range(30), 38, 75, 159):
        assert story(compiled, seed) == story(PLAIN, seed), seed
        assert on_one_look(compiled, seed) == on_one_look(PLAIN, seed), seed
