"""The daemon's question to the planner: promises are kept, and the rest is planned as it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reproductions.salamander.check import violations
from tenure.harvest import admission
from tenure.harvest.admission import answer, chosen, problem_of
from tenure.harvest.progress import Watch
from tenure.model.forecast import STEP_US
from tenure.model.planning import (
    BatchNeed,
    Offer,
    PlanAnswer,
    PlanQuestion,
    Schedule,
    StageNeed,
)
from tenure.model.units import MIB, US

NOW = 1_000 * US
WATCH = 60.0


def offer(name: str, cores: int = 2, **more: Any) -> Offer:
    return Offer(name, ((1, cores * 1000, 1024 * MIB),), **more)


def need(name: str, count: int, work_s: float = 60, **more: Any) -> StageNeed:
    words: dict[str, Any] = {"cpu_m": 1000, "memory_bytes": MIB, "chunk_bytes": 0, "after": ()}
    words |= {"nodes": (0, 1)} | more
    return StageNeed(name, count, round(work_s * US), **words)


def batch(name: str, *stages: StageNeed, **more: Any) -> BatchNeed:
    return BatchNeed(name, more.pop("submitter", ""), stages, **more)


def asked(*batches: BatchNeed, **more: Any) -> PlanQuestion:
    words: dict[str, Any] = {"offers": (offer("a"), offer("b")), "window_us": 3600 * US} | more
    return PlanQuestion(NOW, words.pop("window_us"), words.pop("offers"), batches, **words)


def planned(question: PlanQuestion) -> PlanAnswer:
    found = answer(question, Watch(lambda: 0.0, WATCH))
    problem = problem_of(question, admission.ample_steps(question))
    assert not violations(problem, chosen(question, problem, Watch(lambda: 0.0, WATCH)))
    return found


def of(found: PlanAnswer, name: str) -> Schedule:
    return next(schedule for schedule in found.schedules if schedule.batch == name)


def ends_s(found: PlanAnswer) -> dict[str, float]:
    return {schedule.batch: (schedule.end_us - NOW) / US for schedule in found.schedules}


@pytest.mark.parametrize("solver", ["auto", "first_fit"])
def test_a_batch_is_spread_and_ends_when_its_work_does(solver: str) -> None:
    question = asked(batch("x", need("map", 8), need("reduce", 2, after=(0,))), solver=solver)
    found = planned(question)
    assert ends_s(found) == {"x": 180}
    starts = of(found, "x").starts
    assert sum(s.count for s in starts if s.stage == "map") == 8
    assert {s.at_us for s in starts if s.stage == "reduce"} == {NOW + 120 * US}


def test_what_runs_stays_and_what_was_sent_is_not_sent_again() -> None:
    link = 1_000_000
    offers = (offer("a", link_bytes_per_s=link), offer("b", link_bytes_per_s=link))
    stage = need("map", 4, chunk_bytes=60 * link, running=((0, NOW + 30 * US, 2),), ended=1)
    fresh = planned(asked(batch("x", stage), offers=offers))
    assert [(s.node, s.at_us) for s in of(fresh, "x").starts] == [("a", NOW + 60 * US)]
    there = replace(stage, delivered=((1, 1),))
    again = planned(asked(batch("x", there), offers=offers))
    assert [(s.node, s.at_us) for s in of(again, "x").starts] == [("b", NOW)]


def begins(found: PlanAnswer, name: str) -> list[tuple[str, int, int, int]]:
    """Return (node, seconds from now, tasks, brought) of a batch's starts."""
    rows = [(s.node, (s.at_us - NOW) // US, s.count, s.brought) for s in of(found, name).starts]
    return sorted(rows)


def lying(*classes: tuple[tuple[int, ...], int]) -> tuple[Any, ...]:
    """Return the copies of tasks whose input is read as fast on each of these nodes."""
    return tuple((where, where, count) for where, count in classes)


@pytest.mark.parametrize("solver", ["auto", "first_fit"])
def test_tasks_begin_beside_their_input_where_that_is_soonest(solver: str) -> None:
    """Of four blocks two lie on either node, one of them on b alone, the others anywhere."""
    blocks = ((), 0), ((0,), 1), ((0, 1), 2), ((1,), 1)
    stage = need("read", 4, chunk_bytes=MIB, copies=lying(*blocks), bring_us=20 * US)
    found = planned(asked(batch("x", stage), solver=solver))
    assert begins(found, "x") == [("a", 0, 2, 0), ("b", 0, 2, 0)]


@pytest.mark.parametrize("solver", ["auto", "first_fit", "fair"])
def test_a_copy_counts_once_however_many_nodes_have_one(solver: str) -> None:
    """Two of four tasks have copies, on both nodes; the others wait for what is brought."""
    words = {"sharing": "fair"} if solver == "fair" else {"solver": solver}
    lies = lying(((0, 1), 2), ((2,), 2))
    stage = need("read", 4, chunk_bytes=MIB, copies=lies, bring_us=20 * US)
    offers = (offer("a"), offer("b"), offer("full", 0))
    found = planned(asked(batch("x", stage), offers=offers, **words))
    assert sum(count for _, at_s, count, _ in begins(found, "x") if at_s == 0) == 2
    assert sum(brought for *_, brought in begins(found, "x")) == 2
    assert ends_s(found) == {"x": 80}


@pytest.mark.parametrize("words", [{}, {"solver": "first_fit"}, {"sharing": "fair"}])
def test_of_plans_that_end_alike_the_one_with_more_tasks_at_their_fastest_copy_counts(
    words: dict[str, str],
) -> None:
    """All blocks lie on both nodes, five of six in the memory of one: a has more of them."""
    near = (((0, 1), (0,), 5), ((0, 1), (1,), 1))
    stage = need("read", 6, chunk_bytes=MIB, copies=lying(((0, 1), 6)), bring_us=20 * US)
    even = planned(asked(batch("x", stage), **words))
    assert ends_s(even) == {"x": 120}
    found = planned(asked(batch("x", replace(stage, copies=near)), **words))
    assert begins(found, "x") == [("a", 0, 2, 0), ("a", 60, 2, 0), ("b", 0, 2, 0)]
    assert ends_s(found) == ends_s(even)


def test_bringing_takes_its_time_on_the_link_and_beside_it() -> None:
    offers = (offer("a", 0), offer("b", link_bytes_per_s=MIB))
    lies = lying(((0,), 3))
    stage = need("read", 3, chunk_bytes=30 * MIB, copies=lies, bring_us=6 * US)
    found = planned(asked(batch("x", stage), offers=offers))
    ticks_of_5_s = [("b", 40, 1, 1), ("b", 70, 1, 1), ("b", 100, 1, 1)]
    assert begins(found, "x") == ticks_of_5_s


def test_what_lies_nowhere_yet_is_sent_and_not_brought() -> None:
    stage = need("read", 2, chunk_bytes=MIB, copies=lying(((0,), 1)), nodes=(1,), bring_us=US)
    assert sum(brought for *_, brought in begins(planned(asked(batch("x", stage))), "x")) == 1
    fresh = replace(stage, copies=())
    assert sum(brought for *_, brought in begins(planned(asked(batch("x", fresh))), "x")) == 0


def test_a_newcomer_does_not_push_what_was_promised() -> None:
    """The least makespan would have the long one begin first."""
    short = batch("short", need("s", 4, 30), promised_us=NOW + 30 * US)
    long = batch("long", need("l", 4, 600))
    found = planned(asked(short, long, solver="cp"))
    assert ends_s(found) == {"short": 30, "long": 630}


def test_one_that_does_not_fit_beside_the_others_is_refused_alone() -> None:
    old = batch("old", need("s", 4, 3000), promised_us=NOW + 3000 * US)
    found = planned(asked(old, batch("new", need("n", 4, 1000)), batch("small", need("t", 4, 60))))
    assert set(ends_s(found)) == {"old", "small"}
    assert [(name, code) for name, code, _ in found.refusals] == [("new", "no_room")]


def test_a_promise_that_cannot_be_kept_any_more_is_not_a_refusal() -> None:
    late = batch("late", need("s", 8, 60), promised_us=NOW + US)
    assert ends_s(planned(asked(late, batch("new", need("n", 4, 60)))))["late"] == 120


def test_capacity_follows_the_forecast() -> None:
    busy = Offer("a", ((2, 0, 1024 * MIB), (5, 2000, 1024 * MIB)))
    found = planned(asked(batch("x", need("map", 2, nodes=(0,))), offers=(busy,)))
    assert [s.at_us for s in of(found, "x").starts] == [NOW + 2 * STEP_US]


def test_with_fair_sharing_the_one_with_less_goes_first() -> None:
    first = batch("one", need("s", 8, 60), submitter="ann")
    second = batch("two", need("s", 8, 60), submitter="ann")
    other = batch("other", need("s", 4, 60), submitter="bob")
    assert ends_s(planned(asked(first, second, other)))["other"] == 300
    fair = ends_s(planned(asked(first, second, other, sharing="fair")))
    assert fair["other"] == 180
    assert fair["two"] == 300


def test_with_fair_sharing_who_has_all_that_runs_waits_for_who_has_nothing() -> None:
    """The rest of a batch that had every slot went before another's, for what ran did not count."""
    runs = tuple((node, NOW + 60 * US, 2) for node in (0, 1))
    many = batch(
        "many", need("s", 12, 60, running=runs), submitter="ann", promised_us=NOW + 180 * US
    )
    few = batch("few", need("s", 4, 60), submitter="bob")
    assert ends_s(planned(asked(many, few))) == {"many": 180, "few": 240}
    assert ends_s(planned(asked(many, few, sharing="fair"))) == {"many": 240, "few": 120}


def test_with_fair_sharing_who_weighs_more_goes_first_for_longer() -> None:
    def last(weight: float) -> str:
        anns = [
            batch(f"ann{i}", need("s", 4, 60), submitter="ann", weight=weight) for i in range(2)
        ]
        bobs = [batch(f"bob{i}", need("s", 4, 60), submitter="bob") for i in range(2)]
        ends = ends_s(planned(asked(*bobs, *anns, sharing="fair")))
        return max(ends, key=ends.__getitem__)

    assert last(1) == "ann1"  # in turns
    assert last(100) == "bob1"  # with one of his and one of hers she still holds less


def test_a_window_that_is_longer_than_the_first_look_is_used_where_it_is_needed() -> None:
    blocked = Offer("a", ((40, 0, 0), (1, 2000, 1024 * MIB)))
    question = asked(batch("x", need("s", 2, 20, nodes=(0,))), offers=(blocked,))
    question = replace(question, window_us=24 * 3600 * US)
    found = answer(question, Watch(lambda: 0.0, WATCH))
    assert [s.at_us for s in of(found, "x").starts] == [NOW + 40 * STEP_US]


def test_many_nodes_have_coarser_ticks() -> None:
    offers = tuple(offer(f"n{k}") for k in range(400))
    stage = need("s", 1, 5, nodes=tuple(range(400)))
    question = asked(batch("x", stage), offers=offers, window_us=24 * 3600 * US)
    steps = 480
    assert admission.step_ticks(question, steps) * steps * 400 <= admission.MAX_CELLS


def test_a_window_of_months_has_coarser_ticks_and_is_still_answered() -> None:
    stage = need("s", 9000, 3000, nodes=(0,))
    short = need("t", 1, 9, nodes=(0,))
    question = asked(batch("x", stage, short), offers=(offer("a"),), window_us=60 * 24 * 3600 * US)
    assert [code for _, code, _ in planned(question).refusals] == ["no_room"]
