"""Large batches are worked on in slices: what holds between them, whatever comes in between."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import pytest

from tenure.api.requests.options import Options
from tenure.core.batches import drafts, planning
from tenure.core.dispatch import dispatch_list
from tenure.core.dispatch.dispatch_list import DispatchList
from tenure.core.lifecycle import retention
from tenure.core.state.indexes import Index
from tenure.core.state.params import Params
from tenure.core.state.work_limits import WorkLimits
from tenure.model.batch import Batch, TaskState
from tenure.model.effects import PlanBatches, Reply
from tenure.model.errors import Problem
from tenure.model.events import CancelBatch, NodeLost, Tick
from tenure.model.outcome import Refused, Unknown
from tenure.model.units import US
from tests.unit.core.asking import Asking, asking
from tests.unit.core.lender import lends, stage

S = TaskState
LARGE = 300


def sliced(*nodes: Any, **params: Any) -> Asking:
    return asking(*nodes, **({"slice_work": 40, "plan_solver": "first_fit"} | params))


def waits(bench: Asking) -> bool:
    """Whether the core goes on by itself at this very moment."""
    due_us = bench.state.wakeup_us()
    return due_us is not None and due_us <= bench.now_us


def rest(bench: Asking, *, most: int = 10_000) -> list[list[Any]]:
    """Let the core go on as the loop does until nothing is left; return the effects of each."""
    found = []
    while waits(bench):
        found.append(bench.say(Tick(at_us=0), after_us=0))
        assert len(found) < most
    return found


def replies(effects: list[Any]) -> list[Any]:
    return [effect.value for effect in effects if isinstance(effect, Reply)]


def test_a_large_batch_is_there_at_once_and_never_in_part() -> None:
    bench = sliced()
    bench.submit_batch("b", stage(count=LARGE))
    assert bench.answer() == []
    assert not bench.tables.batches
    stored = [len(bench.records["tasks"])]
    while "b" not in bench.tables.batches:
        assert waits(bench)
        effects = bench.say(Tick(at_us=0), after_us=0)
        stored.append(len(bench.records["tasks"]))
        assert all(isinstance(effect, Reply) for effect in effects) or bench.tables.batches
    (batch,) = [value for value in replies(effects)]
    assert isinstance(batch, Batch)
    assert len(stored) > 10
    assert max(after - before for before, after in pairwise(stored)) <= 40
    assert stored[-1] == LARGE
    rest(bench)
    assert sum(task.state is S.CREATING for task in bench.tables.tasks.values()) > 0


def test_the_least_work_at_a_time_comes_to_an_end_too() -> None:
    bench = sliced(slice_work=1)
    bench.submit_batch("b", stage(count=LARGE))
    rest(bench)
    bench.answer()
    rest(bench)
    assert sum(task.state is S.CREATING for task in bench.tables.tasks.values()) > 0


@pytest.mark.parametrize("slices", [1, 5, 13])
def test_a_daemon_that_ends_amid_an_answer_has_accepted_nothing(slices: int) -> None:
    bench = sliced()
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    for _ in range(slices):
        assert waits(bench)
        bench.say(Tick(at_us=0), after_us=0)
    assert not bench.tables.batches
    assert bench.records["tasks"]
    bench.restart()
    assert not bench.records["tasks"]
    assert not bench.tables.batches
    for name in ("n", "m"):
        bench.connect_again(name)
        bench.listed(name)
        bench.guard(name)
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    rest(bench)
    assert len(bench.tables.tasks) == LARGE


def test_others_have_their_turn_amid_an_answer_and_see_nothing_of_it() -> None:
    bench = sliced()
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    (problem,) = replies(bench.say(CancelBatch(at_us=0, request="c", batch="b"), after_us=0))
    assert isinstance(problem, Problem)
    assert problem.code == "not_found"
    bench.submit_batch("other", stage(count=2))
    bench.say(NodeLost(at_us=0, node="n"), after_us=0)
    rest(bench)
    assert bench.batch("b").spec.tasks == LARGE
    assert not any(task.node == "n" for task in bench.tables.tasks.values())
    assert [need.batch for need in bench.question.question.batches] == ["b", "other"]
    bench.answer()
    rest(bench)
    assert "other" in bench.tables.batches
    bench.say(Tick(at_us=0), after_us=planning.SETTLE_US)
    rest(bench)
    assert bench.question.question.offers[0].node == "m"


def test_who_was_told_that_there_is_no_plan_gets_nothing_stored() -> None:
    bench = sliced()
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    late = bench.say(Tick(at_us=0), after_us=Params().reply_us)
    assert [problem.code for problem in replies(late)] == ["no_plan"]
    rest(bench)
    assert not bench.tables.batches
    assert not bench.records["tasks"]
    assert not bench.state_of(Index).tasks_by_stage


def _told_late(most: int) -> Asking:
    """Return a bench with drafts of a large batch whose submitter has just been told of no plan."""
    bench = sliced(slice_work=most)
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    bench.say(Tick(at_us=0), after_us=Params().reply_us)
    while not bench.state_of(Index).remains:
        assert waits(bench)
        bench.say(Tick(at_us=0), after_us=0)
    return bench


def test_tasks_of_a_batch_that_is_not_accepted_are_dropped_in_parts() -> None:
    bench = _told_late(500)
    left = [len(bench.records["tasks"])]
    while waits(bench):
        bench.say(Tick(at_us=0), after_us=0)
        left.append(len(bench.records["tasks"]))
    assert left[0] > drafts.PART
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= drafts.PART
    assert not bench.state_of(Index).tasks_by_stage


def test_a_daemon_that_ends_while_they_are_dropped_drops_the_rest() -> None:
    bench = _told_late(500)
    bench.say(Tick(at_us=0), after_us=0)
    assert bench.records["tasks"]
    bench.restart()
    assert not bench.records["tasks"]
    assert not bench.state_of(Index).tasks_by_stage


def test_a_batch_that_comes_again_while_its_tasks_are_dropped_has_all_of_its_own() -> None:
    bench = _told_late(500)
    bench.submit_batch("b", stage(count=LARGE), request="again")
    bench.answer()
    rest(bench)
    assert len(bench.records["tasks"]) == LARGE
    assert bench.batch().spec.tasks == LARGE
    assert not bench.state_of(Index).remains


def test_a_batch_that_history_forgets_goes_at_once_and_its_tasks_in_parts() -> None:
    bench = sliced(max_history=1)
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    rest(bench)
    bench.say(CancelBatch(at_us=0, request="c", batch="b"))
    rest(bench)
    for effect in list(bench.tables.effects.values()):
        bench.end(effect)
    for name in ("n", "m"):
        bench.listed(name)
    assert bench.batch().is_over
    bench.say(Tick(at_us=0), after_us=retention.PERIOD_US)
    assert "b" not in bench.tables.batches
    left = [len(bench.records["tasks"])]
    while waits(bench):
        bench.say(Tick(at_us=0), after_us=0)
        left.append(len(bench.records["tasks"]))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise([LARGE, *left])) <= drafts.PART


def test_a_large_batch_is_placed_and_stopped_in_slices() -> None:
    names = [f"n{number:02}" for number in range(20)]
    bench = sliced(*(lends(name) for name in names))
    bench.submit_batch("b", stage(count=LARGE))
    bench.answer()
    made = [sum(e.kind == "create" for e in effects) for effects in rest(bench)]
    assert sum(made) == 60
    assert 0 < max(made) <= 3
    nodes = {task.node for task in bench.tables.tasks.values()}
    assert nodes == {*names, ""}
    bench.say(CancelBatch(at_us=0, request="c", batch="b"))
    assert bench.batch().is_cancelling
    over = [sum(t.state is S.ABANDONED for t in bench.tables.tasks.values())]
    while waits(bench):
        bench.say(Tick(at_us=0), after_us=0)
        over.append(sum(t.state is S.ABANDONED for t in bench.tables.tasks.values()))
    assert over[-1] == LARGE
    assert max(after - before for before, after in pairwise(over)) <= 40
    assert not bench.batch().is_over  # sixty containers may still be made
    for name in names:
        bench.listed(name)
    for effect in list(bench.tables.effects.values()):
        bench.end(effect)
    for name in names:
        bench.listed(name)
    assert bench.batch().state == "cancelled"


def test_a_question_about_many_nodes_is_put_together_in_slices() -> None:
    names = [f"n{number:02}" for number in range(40)]
    bench = sliced(*(lends(name) for name in names))
    effects = bench.submit_batch("b", stage(count=LARGE))
    assert not any(isinstance(effect, PlanBatches) for effect in effects)
    assert waits(bench)
    bench.say(NodeLost(at_us=0, node="n39"), after_us=0)
    rest(bench)
    offers = {offer.node: offer.spells for offer in bench.question.question.offers}
    assert sorted(offers) == names
    assert offers["n39"] == ((1, 0, 0),)
    bench.answer()
    rest(bench)
    assert not any(task.node == "n39" for task in bench.tables.tasks.values())


def test_what_begins_while_a_question_is_put_together_is_planned_once() -> None:
    names = [f"n{number:02}" for number in range(12)]
    bench = sliced(*(lends(name) for name in names))
    bench.submit_batch("b", stage(count=100, run_us=100 * US))
    bench.answer()
    rest(bench)
    creates = [e for e in bench.tables.effects.values() if e.kind == "create"]
    bench.act(planning.want, "a test")
    bench.say(Tick(at_us=0), after_us=1)
    for effect in creates[::3]:
        bench.end(effect, Refused("no_image", "gone"))  # it waits for a node again
        bench.say(Tick(at_us=0), after_us=1)
    rest(bench)
    bench.answer()
    rest(bench)
    stage_tasks = bench.state_of(Index).tasks_by_stage["b", "map"]
    planned = bench.state_of(DispatchList).left["b", "map"]
    assert planned >= len(stage_tasks.pending) - len(creates[::3])
    # what was told as running and came back is found, and planned anew
    for _ in range(3):
        bench.say(Tick(at_us=0), after_us=2 * US)
        rest(bench)
        bench.answer()
        rest(bench)
    assert bench.state_of(DispatchList).left["b", "map"] == len(stage_tasks.pending)


def test_a_slice_ends_when_its_work_is_done() -> None:
    part = WorkLimits(3)
    part.renew()
    part.spend(2)
    assert not part.is_spent
    part.spend(2)
    assert part.is_spent
    part.renew()
    assert not part.is_spent
    with pytest.raises(ValueError, match="slice_work"):
        Params(slice_work=0)


def test_starts_of_a_stage_that_waits_hold_up_nobody_behind_them() -> None:
    bench = asking(lends("n"), plan_solver="first_fit")
    long = stage("map", count=1, run_us=100 * US)
    behind = stage("reduce", count=dispatch_list.MOST_LOOKED + 8, run_us=US, after=("map",))
    bench.submit_batch("a", long, behind)
    bench.answer()
    bench.submit_batch("b", stage(count=1, run_us=US))
    bench.answer()
    # the map is late: all of its reduces are due, and so is the other batch by then
    for entries in (
        *bench.state_of(DispatchList).entries.values(),
        *bench.state_of(DispatchList).apart.get("n", {}).values(),
    ):
        for entry in entries:
            entry.at_us = bench.now_us - (2 if entry.stage == "reduce" else 1) * US
    for entries in bench.state_of(DispatchList).entries.values():
        entries.sort(key=lambda entry: entry.at_us)
    bench.act(dispatch_list.stir)
    bench.say(Tick(at_us=0), after_us=1)
    assert bench.task(0, "b").state is S.CREATING


@pytest.mark.parametrize("work", [1, 500])
def test_starts_of_a_batch_that_was_cancelled_hold_up_nobody_behind_them(work: int) -> None:
    bench = asking(lends("n"), plan_solver="first_fit", slice_work=work)
    bench.submit_batch("a", stage(count=300, run_us=100 * US))
    rest(bench)
    bench.answer()
    rest(bench)
    bench.submit_batch("b", stage(count=1, run_us=100 * US))
    rest(bench)
    bench.answer()
    rest(bench)
    entries = bench.state_of(DispatchList).entries["n"]
    assert len(entries) > 2 * dispatch_list.MOST_LOOKED
    assert entries[-1].batch == "b"
    for entry in entries:  # all of them are late
        entry.at_us = bench.now_us - 60 * US
    bench.say(CancelBatch(at_us=0, request="c", batch="a"), after_us=1)
    rest(bench)
    for effect in list(bench.tables.effects.values()):
        if effect.owner.startswith("task:a/"):
            bench.end(effect, Refused("no_image", "gone"))
    bench.listed("n")
    rest(bench)
    assert bench.task(0, "b").state is S.CREATING
    assert not entries


def test_a_stage_whose_turn_comes_takes_its_place() -> None:
    bench = asking(lends("n"), plan_solver="first_fit")
    bench.submit_batch("b", stage("map"), stage("reduce", count=5, after=("map",)))
    bench.answer()
    assert bench.state_of(DispatchList).left["b", "reduce"] == 5
    assert [key for key in bench.state_of(DispatchList).apart["n"]] == [("b", "reduce")]
    assert "planned for" in bench.read(dispatch_list.next_start, "b", "reduce")
    bench.finish(0)
    assert not bench.state_of(DispatchList).apart["n"]
    assert bench.task(1).state is S.CREATING


def test_an_answer_that_comes_after_somebody_was_told_is_not_for_him() -> None:
    bench = asking()
    bench.submit_batch("b")
    bench.say(Tick(at_us=0), after_us=15 * US)
    bench.answer(Unknown("the planner ended"))
    late = bench.say(Tick(at_us=0), after_us=10 * US)
    assert [problem.code for problem in replies(late)] == ["no_plan"]
    bench.submit_batch("c")
    assert bench.questions == 2
    assert bench.answer() == []
    assert not bench.tables.batches
    assert [answered.id for answered in bench.answer()] == ["c"]


def test_submissions_are_told_before_the_api_gives_up() -> None:
    asked_s: Any = next(f.default for f in fields(Options) if f.name == "ask_timeout_s")
    assert Params().reply_us <= (asked_s - 3) * US
    bench = asking()
    told: list[Any] = []
    bench.submit_batch("b")
    begun_us = bench.now_us
    while not told:
        effects = bench.say(Tick(at_us=0), after_us=US)
        told = replies(effects)
    assert told[0].code == "no_plan"
    assert bench.now_us - begun_us <= Params().reply_us + US
