"""The door of the room: records in, records out, and what is learned on the way."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from tenure.locality import asking, localizer
from tenure.locality.kernels import PLAIN, plain_kernels
from tenure.locality.localizer import PLAIN_MOST, Tiers
from tenure.locality.scores import Scores
from tenure.model.locality import (
    Choice,
    Copy,
    Fit,
    Later,
    PrefetchAsk,
    PrefetchBlock,
    Read,
    Seats,
    Taken,
)
from tenure.model.units import MIB, US
from testbed import bounded

MEMORY, SSD, HDD = range(3)
SCORES = Scores()


def seats(**free: int) -> Seats:
    return Seats(tuple(free), ("r",) * len(free), tuple(free.values()))


def copy(node: str, tier: int, *, is_pending: bool = False) -> Copy:
    return Copy(node, f"tier-{tier}", tier, is_pending)


def test_tasks_go_where_their_block_is_fastest() -> None:
    reads = [Read(7, (copy("a", HDD), copy("b", MEMORY))), Read(9, (copy("a", SSD),))]
    assert Tiers().match(seats(a=1, b=1), reads) == [Fit(7, "b", 1000), Fit(9, "a", 8000)]


def test_with_fewer_slots_than_tasks_the_cheapest_are_matched() -> None:
    reads = [Read(0, (copy("a", HDD),)), Read(1, (copy("a", MEMORY),))]
    assert Tiers().match(seats(a=1), reads) == [Fit(1, "a", 1000)]


def test_a_block_on_its_way_into_memory_waits_for_others() -> None:
    reads = [Read(0, (copy("a", HDD, is_pending=True), copy("b", HDD)))]
    assert Tiers().match(seats(a=1, b=1), reads) == [Fit(0, "b", 20_000)]


def test_copies_on_nodes_without_a_seat_do_not_count() -> None:
    assert Tiers().match(seats(a=1), [Read(0, (copy("z", MEMORY),))]) == [Fit(0, "a", 100_000)]


def test_what_begins_now_leaves_a_task_to_a_slot_that_comes_later() -> None:
    """Both cost the same on a, where one may begin; b, whose slot comes later, can read one."""
    reads = [Read(0, (copy("a", SSD), copy("b", SSD))), Read(1, (copy("a", SSD),))]
    begun = Tiers().match_now(seats(a=1, b=0), Later((0, 0), (0, 1)), reads)
    assert begun == [Fit(1, "a", 8000)]
    assert len(Tiers().match_now(seats(a=1, b=0), Later((0, 0), (0, 0)), reads)) == 1


def test_the_fastest_copy_is_read_now_and_nothing_without_one() -> None:
    reads = [Read(0, (copy("a", HDD),)), Read(1, (copy("a", MEMORY),)), Read(2, (copy("b", SSD),))]
    begun = Tiers().match_now(seats(a=1, c=2), Later((0, 0), (3, 0)), reads)
    assert begun == [Fit(1, "a", 1000)]


def test_a_slot_that_comes_soon_is_waited_for_where_the_copy_is_faster_there() -> None:
    rows = [Read(0, (copy("a", SSD), copy("b", MEMORY)))]
    assert Tiers().match_now(seats(a=1, b=0), Later((0, 1), (0, 0)), rows) == []
    assert Tiers().match_now(seats(a=1, b=1), Later((0, 1), (0, 0)), rows) == [Fit(0, "b", 1000)]
    far = Tiers().match_now(seats(a=1, b=0), Later((0, 0), (0, 1)), rows)
    assert far == [Fit(0, "a", 8000)], "it comes too late"
    for tier in (MEMORY, SSD, HDD):
        same = [Read(0, (copy("a", tier), copy("b", tier)))]
        assert len(Tiers().match_now(seats(a=1, b=0), Later((0, 1), (0, 0)), same)) == 1


def test_the_choices_of_a_task_are_told_by_their_cost() -> None:
    asked = Seats(("a", "b", "c"), ("r", "r", "s"), (0, 1, 1))
    found = Tiers().choices(asked, Read(0, (copy("a", SSD),)), 3)
    assert found == [Choice("a", 8000), Choice("b", 48_000), Choice("c", 100_000)]


def asked(count: int, slots: int, *, cpu_us: int = US, **more: Any) -> PrefetchAsk:
    """Return blocks of 100 MiB on one disk a node, two nodes, 100 MiB/s."""
    blocks = tuple(
        PrefetchBlock(i, 100 * MIB, (Copy("ab"[i % 2], "disk", HDD, False, 100 * MIB),), cpu_us)
        for i in range(count)
    )
    room = {"a": 300 * MIB, "b": 300 * MIB}
    return PrefetchAsk(blocks, room, (1000,) * slots, **more)


def test_blocks_of_later_waves_are_copied_ahead() -> None:
    found = Tiers().plan(asked(8, 2, cpu_us=3 * US))
    assert found.copies
    assert found.predicted_us < found.without_us
    assert {row.device for row in found.copies} == {"disk"}
    assert [row.cached_us for row in found.copies] == sorted(r.cached_us for r in found.copies)
    assert {row.alone_us for row in found.copies} == {US}


def test_all_that_fits_is_copied_where_all_is_asked_for() -> None:
    found = Tiers().plan(asked(8, 8, is_all=True))
    assert len(found.copies) == 6  # three fit on each node
    assert found.limit == 3


def test_nothing_is_planned_of_nothing() -> None:
    assert Tiers().plan(asked(0, 2)).copies == ()
    held = PrefetchBlock(0, MIB, (Copy("a", "ram", MEMORY),), US)
    assert Tiers().plan(PrefetchAsk((held,), {"a": 10 * MIB}, (1000,))).copies == ()


def test_copies_that_took_longer_make_later_predictions_longer() -> None:
    tiers = Tiers()
    before = tiers.plan(asked(8, 2, cpu_us=30 * US))
    for _ in range(3):
        tiers.learn_copy(US, 2 * US)
    after = tiers.plan(asked(8, 2, cpu_us=30 * US))
    assert tiers.told()["factor"] == pytest.approx(2.0)
    assert after.copies[0].cached_us > before.copies[0].cached_us
    assert after.copies[0].alone_us == US  # what is compared with what was measured


def test_what_tasks_computed_counts_in_place_of_what_was_estimated() -> None:
    """Estimated to compute nothing; they compute for 30 s a block, on a node of twice the speed."""
    tiers = Tiers()
    wrong = replace(asked(8, 2, cpu_us=0), course="b/scan")
    before = tiers.plan(wrong)
    disk = Copy("a", "disk", HDD, bytes_per_s=100 * MIB)
    for mib in (50, 100, 100):
        read_us, compute_us = US * mib // 100, 30 * US * mib // 100
        assert tiers.plan(wrong) == before, "two tasks tell nothing yet"
        tiers.learn_task("b/scan", Taken(disk, mib * MIB, read_us + compute_us // 2, speed=2.0))
    assert tiers.plan(wrong) == tiers.plan(asked(8, 2, cpu_us=30 * US)) != before
    assert tiers.plan(replace(wrong, course="other/scan")) == before
    tiers.forget_course("b/scan")
    assert tiers.plan(wrong) == before


def test_of_too_many_jobs_the_one_that_learned_nothing_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(localizer, "MOST_COURSES", 2)
    tiers, taken = Tiers(), Taken(copy("a", HDD), 100 * MIB, 60 * US)
    for course in ("a", "b", "a", "c", "a", "c", "a", "c"):
        tiers.learn_task(course, taken)
    ask = asked(8, 2, cpu_us=0)
    plans = {c: tiers.plan(replace(ask, course=c)).without_us for c in ("", "a", "b", "c")}
    assert plans["b"] == plans[""] < plans["a"] == plans["c"]


def test_a_disk_that_is_as_fast_as_memory_is_read_only_where_memory_has_no_room() -> None:
    """Two blocks in memory of one node and on a disk of the other, which was measured as fast."""
    tiers, speed = Tiers(), 900 * MIB
    tiers.learn_rates({MEMORY: float(speed), HDD: float(speed)})
    reads = [
        Read(i, (Copy(a, "ram", MEMORY, False, speed), Copy(b, "disk", HDD, False, speed)))
        for i, (a, b) in enumerate((("a", "b"), ("b", "a")))
    ]
    fits = tiers.match(Seats(("a", "b"), ("", ""), (1, 1)), reads)
    assert [(fit.node, fit.cost) for fit in fits] == [("a", 1000), ("b", 1000)]
    (fit,) = tiers.match(Seats(("a", "b"), ("", ""), (0, 1)), reads[:1])
    assert (fit.node, fit.cost) == ("b", 1002)


def test_memory_that_was_measured_beside_other_load_is_read_before_disks() -> None:
    tiers, speed = Tiers(), 3000 * MIB
    tiers.learn_rates({MEMORY: float(speed), HDD: float(160 * MIB)})
    slow = Copy("a", "ram", MEMORY, False, speed // 15)
    disk = Copy("b", "disk", HDD, False, speed // 8)
    (fit,) = tiers.match(Seats(("a", "b"), ("", ""), (1, 1)), [Read(0, (slow, disk))])
    assert (fit.node, fit.cost) == ("a", 1000)


def test_scores_follow_bandwidths() -> None:
    tiers = Tiers()
    tiers.learn_rates({MEMORY: 1000.0, SSD: 500.0, HDD: 100.0})
    assert tiers.match(seats(a=1), [Read(0, (copy("a", SSD),))]) == [Fit(0, "a", 2000)]
    assert tiers.told()["hdd"] == 10.0


@pytest.mark.computes
def test_what_the_daemons_child_compiled_is_loaded_and_answers_the_same(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tenure.daemon.children.kernels", str(tmp_path), "locality"]
    assert bounded.run(argv, timeout_s=290).returncode == 0
    made = sorted(tmp_path.rglob("*.nbc"))
    assert made
    tiers = Tiers()
    tiers.compile(str(tmp_path))
    assert tiers.most(10) > PLAIN_MOST
    reads = [Read(i, (copy("ab"[i % 2], i % 3), copy("c", HDD))) for i in range(9)]
    free = seats(a=2, b=1, c=3)
    assert tiers.match(free, reads) == Tiers().match(free, reads)
    for more in ({"is_all": True}, {"may_wait": True}, {}):
        assert tiers.plan(asked(8, 2, **more)) == Tiers().plan(asked(8, 2, **more))
    assert sorted(tmp_path.rglob("*.nbc")) == made, "nothing was compiled anew"


def test_the_room_is_loaded_with_the_first_question() -> None:
    code = (
        "import sys; from tenure.locality.localizer import Tiers; Tiers().most(9); "
        "sys.exit('tenure.locality.kernels' in sys.modules)"
    )
    assert bounded.run([sys.executable, "-c", code]).returncode == 0
    assert Tiers().most(9) == PLAIN_MOST


def drawn(seed: int, slots: int) -> tuple[Seats, list[Read]]:
    """Return 80 tasks of two replicas each in any tiers, and ten nodes with so many slots."""
    dice = random.Random(seed)
    names = [f"n{i}" for i in range(10)]
    reads = [
        Read(i, tuple(copy(name, dice.randrange(3)) for name in dice.sample(names, 2)))
        for i in range(80)
    ]
    return seats(**dict.fromkeys(names, slots)), reads


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slots", [4, 8])
def test_small_fleets_match_all_tasks_at_once_as_well_as_the_optimum(seed: int, slots: int) -> None:
    free, asked_ = drawn(seed, slots)
    tiers = Tiers()
    assert tiers.most(10) >= 80
    found = tiers.match(free, asked_[: tiers.most(10)])
    assert not tiers.was_short
    rows = [
        {choice.node: choice.cost for choice in tiers.choices(free, read, 10)} for read in asked_
    ]
    costs = np.array([[row[name] for name in free.nodes for _ in range(slots)] for row in rows])
    best = linear_sum_assignment(costs)
    assert len(found) == len(best[0]) == 10 * slots
    assert sum(fit.cost for fit in found) == costs[best].sum()


@pytest.mark.parametrize("seed", range(5))
def test_matching_over_lists_answers_what_that_over_arrays_does(seed: int) -> None:
    free, reads = drawn(seed, 3)
    places, wants = asking.arrays_of(free, reads, SCORES, 0.0)
    for listed, plain in zip(
        plain_kernels().schedule(places, wants, SCORES.rates),
        PLAIN.schedule(places, wants, SCORES.rates),
        strict=True,
    ):
        assert np.array_equal(np.asarray(listed), np.asarray(plain))
    soon, far = np.full(10, 1), np.full(10, 2)
    for listed, plain in zip(
        plain_kernels().match_now(places, wants, far, soon),
        PLAIN.match_now(places, wants, far, soon),
        strict=True,
    ):
        assert np.array_equal(np.asarray(listed), np.asarray(plain))


def test_what_one_question_may_have_falls_with_the_nodes_and_is_noted() -> None:
    tiers = Tiers()
    assert [tiers.most(n) for n in (0, 1, 75, 100, 300, 5000)] == [128, 128, 128, 96, 32, 32]
    reads = [Read(i, (copy("a", SSD),)) for i in range(128)]
    tiers.match(seats(a=1), reads[:127])
    assert not tiers.was_short
    tiers.match_now(seats(a=1), Later((0,), (0,)), reads)
    assert tiers.was_short
