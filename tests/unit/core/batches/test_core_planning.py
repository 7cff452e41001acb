"""Batches by plan: who is asked when, how answers are taken over, and what is planned anew."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tenure.core.attempts.tasks import TASKS
from tenure.core.batches import planning
from tenure.core.batches.planner_question import Planning
from tenure.core.lifecycle import retention
from tenure.harvest.admission import answer
from tenure.harvest.progress import Watch
from tenure.model.batch import Batch, BatchSpec, InputFile, StageSpec, TaskState
from tenure.model.effects import PlanBatches, Reply
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelBatch,
    EffectEnded,
    NodeLost,
    SubmitBatch,
    Tick,
    UsageObserved,
)
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.asking import Asking, asking
from tests.unit.core.bench import IMAGE, shown
from tests.unit.core.lender import lends, stage

S = TaskState
FILE = InputFile("/in", 100, 1)


def test_a_submission_is_answered_when_there_is_a_plan_and_stored_not_before() -> None:
    bench = asking()
    effects = bench.submit_batch("b", stage(count=7))
    assert not [e for e in effects if isinstance(e, Reply)]
    assert not bench.tables.batches
    (batch,) = bench.answer()
    assert isinstance(batch, Batch)
    kept = bench.records["schedules"]["b"]
    assert sum(start.count for start in kept.starts) == 7
    assert batch.promised_us == kept.end_us
    assert sum(bench.task(i).state is S.CREATING for i in range(7)) == 6


def test_those_that_come_meanwhile_are_asked_together_and_a_dry_run_alone() -> None:
    bench = asking()
    for name in ("a", "b", "c"):
        bench.submit_batch(name)
    bench.submit_batch("dry", is_dry=True)
    bench.submit_batch("d")
    assert bench.questions == 1
    assert [answered.id for answered in bench.answer()] == ["a"]
    assert [need.batch for need in bench.question.question.batches] == ["a", "b", "c"]
    assert [answered.id for answered in bench.answer()] == ["b", "c"]
    (told,) = bench.answer()
    assert told.schedule.batch == "dry"
    assert [answered.id for answered in bench.answer()] == ["d"]
    assert sorted(batch.id for batch in bench.tables.batches.values()) == ["a", "b", "c", "d"]


def test_one_key_twice_while_it_is_planned_is_one_batch() -> None:
    bench = asking()
    bench.submit_batch("x", idempotency_key="k", fingerprint="f")
    bench.submit_batch("y", idempotency_key="k", fingerprint="f")
    first, second = bench.answer()
    assert first.id == second.id == "x"
    assert len(bench.tables.batches) == bench.questions == 1
    bench.submit_batch("a")
    for name in ("b", "c"):
        bench.submit_batch(name, idempotency_key="l", fingerprint="f")
    bench.answer()
    assert [need.batch for need in bench.question.question.batches] == ["x", "a", "b"]
    assert [answered.id for answered in bench.answer()] == ["b", "b"]


def test_without_a_plan_those_who_wait_are_told_after_some_tries() -> None:
    bench = asking()
    bench.submit_batch("b")
    assert bench.answer(Unknown("the planner ended")) == []
    assert bench.answer(Unknown("the planner ended")) == []
    (problem,) = bench.answer(Unknown("the planner ended"))
    assert isinstance(problem, Problem)
    assert (problem.code, problem.status) == ("no_plan", 503)
    bench.submit_batch("c")
    (problem,) = bench.answer(Refused("no_solver", "OR-Tools is not installed"))
    assert "OR-Tools" in problem.detail
    assert not bench.tables.batches


def test_a_wish_to_plan_anew_that_outlives_its_batch_holds_up_nobody() -> None:
    bench = asking()
    bench.submit_batch("a", stage(count=12, run_us=100 * US))
    bench.answer()
    bench.say(NodeLost(at_us=0, node="n"))
    assert bench.state_of(Planning).why
    bench.say(CancelBatch(at_us=0, request="cancel", batch="a"), after_us=US // 10)
    bench.say(Tick(at_us=0), after_us=planning.SETTLE_US)
    effects = bench.submit_batch("dry", is_dry=True)
    assert [e.question.batches[0].batch for e in effects if isinstance(e, PlanBatches)] == ["dry"]
    bench.submit_batch("b")
    (told,) = bench.answer()
    assert told.schedule.batch == "dry"
    assert [answered.id for answered in bench.answer()] == ["b"]


def test_a_batch_that_is_called_off_is_not_planned_anew() -> None:
    bench = asking()
    bench.submit_batch("a", stage(count=2, run_us=1000 * US))
    bench.answer()
    bench.submit_batch("b", stage(count=2, run_us=1000 * US))
    bench.say(CancelBatch(at_us=0, request="cancel", batch="a"))
    bench.answer()
    bench.submit_batch("c", stage(count=2, run_us=1000 * US))
    bench.answer()
    assert bench.tables.batches["a"].is_ending
    before = bench.questions
    for _ in range(5):
        bench.say(Tick(at_us=0), after_us=20 * US)
    assert bench.questions == before


def test_an_answer_that_does_not_come_is_given_up() -> None:
    bench = asking()
    bench.submit_batch("b")
    assert bench.say(Tick(at_us=0), after_us=18 * US)
    assert bench.questions == 2
    late = bench.say(Tick(at_us=0), after_us=7 * US)
    assert [e.value.code for e in late if isinstance(e, Reply)] == ["no_plan"]
    bench.say(Tick(at_us=0), after_us=18 * US)
    assert bench.questions == 2


def test_the_rest_is_planned_anew_when_a_node_is_lost() -> None:
    bench = asking()
    bench.submit_batch("b", stage(count=12, run_us=100 * US))
    bench.answer()
    before = bench.records["schedules"]["b"]
    assert {start.node for start in before.starts} == {"m", "n"}
    bench.say(NodeLost(at_us=0, node="n"))
    bench.say(Tick(at_us=0), after_us=2 * US)
    assert bench.questions == 2
    bench.answer()
    after = bench.records["schedules"]["b"]
    assert {start.node for start in after.starts} == {"m"}
    assert sum(start.count for start in after.starts) == 6
    assert after.end_us > before.end_us
    assert any(event.type == "batch.replanned" for event in bench.public)


def test_an_input_is_sent_ahead_and_takes_no_room_until_its_start() -> None:
    bench = asking(lends("n"))
    big = Resources(1000, 512 * MIB)
    bench.submit_batch("b", stage(count=2, request=big, run_us=4 * US, input=FILE))
    bench.answer()
    bench.run(0)
    task = bench.task(1)
    assert (task.state, task.is_ahead) == (S.CREATING, True)
    bench.end(bench.open_of("create", 1), Done("e1"))
    bench.end(bench.open_of("send", 1))
    assert bench.task(1).state is S.READY
    assert not bench.has_open("start")
    first, second = bench.effects_of("create", 0), bench.effects_of("create", 1)
    ended = shown(first, "e0", "exited", exit_code=0)
    bench.listed("n", ended, shown(second, "e1"))
    bench.end(bench.open_of("collect", 0))
    assert bench.task(1).state is S.STARTING
    assert not bench.task(1).is_ahead


def test_a_shuffle_is_planned_by_what_its_stages_are_said_to_put_out() -> None:
    bench = asking()
    first = stage("map", 4, input=FILE, chunk_bytes=1000, output_ratio=0.1)
    second = stage("sum", 2, after=("map",), shuffle="map", output_ratio=3.0)
    bench.submit_batch("b", first, second, stage("top", 1, after=("sum",), shuffle="sum"))
    (need,) = bench.question.question.batches
    assert [part.chunk_bytes for part in need.stages] == [1000, 200, 1200]


def linked(link: int) -> NodeSpec:
    return dataclasses.replace(lends("n"), capacity=Resources(4000, 8192 * MIB, 0, link))


def shuffling(ratio: float) -> tuple[StageSpec, StageSpec]:
    first = stage("map", 4, input=FILE, chunk_bytes=100 * MIB, partitions=2, output_ratio=ratio)
    return first, stage("sum", 2, after=("map",), shuffle="map")


def mapped(bench: Asking, index: int, put_out: int) -> None:
    """Bring a map task to its end, with what it put out."""
    bench.exit(index, bench.run(index), 0)
    bench.end(bench.open_of("collect", index), Done(moved_bytes=put_out))


@pytest.mark.parametrize(("put_out", "word"), [(1000, "less"), (900 * MIB, "more")])
def test_what_maps_put_out_is_learned_and_the_rest_planned_with_it(put_out: int, word: str) -> None:
    bench = asking(linked(10 * MIB))
    bench.submit_batch("b", *shuffling(1.0))
    bench.answer()
    assert bench.question.question.batches[0].stages[1].chunk_bytes == 200 * MIB
    for index in range(2):
        mapped(bench, index, put_out)
        bench.say(Tick(at_us=0), after_us=US)
    assert bench.questions == 1, "two of four tasks are too few"
    mapped(bench, 2, put_out)
    bench.say(Tick(at_us=0), after_us=US)
    assert bench.questions == 2
    assert bench.question.question.batches[0].stages[1].chunk_bytes == put_out * 2
    bench.answer()
    assert bench.tables.schedules["b"].why == f"stage map puts out {word} than thought"
    mapped(bench, 3, put_out)
    for _ in range(3):
        bench.say(Tick(at_us=0), after_us=US)
    assert bench.questions == 2, "the plan counts with it by now"


def test_what_changes_little_of_a_shuffle_plans_nothing_anew() -> None:
    for link in (0, 10 * MIB):
        bench = asking(linked(link))
        bench.submit_batch("b", *shuffling(1.0))
        bench.answer()
        for index in range(4):
            mapped(bench, index, 85 * MIB if link else 1000)
            bench.say(Tick(at_us=0), after_us=US)
        assert bench.questions == 1


def test_what_maps_put_out_is_known_after_a_restart() -> None:
    bench = asking(linked(10 * MIB))
    bench.submit_batch("b", *shuffling(1.0))
    bench.answer()
    for index in range(3):
        mapped(bench, index, 1000)
    bench.restart()
    bench.connect_again("n")
    bench.guard("n")
    bench.listed("n")
    bench.say(Tick(at_us=0), after_us=5 * US)
    assert bench.question.question.batches[0].stages[1].chunk_bytes == 2000


def test_a_plan_that_has_it_elsewhere_takes_back_what_was_sent_ahead() -> None:
    bench = asking(lends("n"))
    big = Resources(1000, 512 * MIB)
    bench.submit_batch("b", stage(count=2, request=big, run_us=4 * US, input=FILE))
    bench.answer()
    bench.run(0)
    bench.end(bench.open_of("create", 1), Done("e1"))
    bench.end(bench.open_of("send", 1))
    bench.configure(lends("n"), lends("m"))
    bench.connect("m")
    bench.guard("m")
    bench.say(Tick(at_us=0), after_us=2 * US)
    bench.answer()
    task = bench.task(1)
    assert (task.node, task.attempt, task.mishaps) == ("m", 2, 0)
    assert "b/1/1" in bench.tables.tombstones
    assert bench.batch().remote == 1


def test_an_input_that_lies_where_owners_took_the_room_is_planned_elsewhere() -> None:
    bench = asking()
    big = Resources(1000, 512 * MIB)
    bench.submit_batch("b", stage(count=4, request=big, run_us=4 * US, input=FILE))
    bench.answer()
    first, _ = bench.run(0), bench.run(2)
    for index in (1, 3):
        bench.end(bench.open_of("create", index), Done(f"e{index}"))
        bench.end(bench.open_of("send", index))
    here, other = bench.task(0).node, bench.task(2).node
    # too little is left for another task, and none has to give way
    use = UsageObserved(at_us=0, foreign={here: Resources(100, 430 * MIB)})
    bench.say(use)
    waits = shown(bench.effects_of("create", 1), "e1")
    bench.listed(here, shown(first, "e0", "exited", exit_code=0), waits)
    bench.end(bench.open_of("collect", 0))
    task = bench.task(1)
    assert (task.node, task.state, task.is_ahead, bench.questions) == (here, S.READY, True, 1)
    bench.say(use, after_us=40 * US)
    assert bench.questions == 2
    bench.answer()
    assert {start.node for start in bench.records["schedules"]["b"].starts} == {other}
    assert (bench.task(1).attempt, bench.task(1).node in ("", other)) == (2, True)


def test_tasks_that_hold_nothing_yet_do_not_give_way() -> None:
    bench = asking(lends("n"))
    big = Resources(1000, 512 * MIB)
    bench.submit_batch("b", stage(count=2, request=big, run_us=4 * US, input=FILE))
    bench.answer()
    bench.run(0)
    bench.end(bench.open_of("create", 1), Done("e1"))
    bench.end(bench.open_of("send", 1))
    bench.say(UsageObserved(at_us=0, foreign={"n": Resources(100, 900 * MIB)}))
    assert (bench.task(0).reclaims, bench.task(1).reclaims) == (1, 0)


def test_a_task_that_was_planned_elsewhere_had_not_to_leave_its_node() -> None:
    bench = asking(lends("n"))
    big = Resources(1000, 512 * MIB)
    bench.submit_batch("b", stage(count=2, request=big, run_us=4 * US, input=FILE))
    bench.answer()
    bench.act(TASKS.withdraw, bench.task(1))
    assert (bench.task(1).attempt, bench.task(1).shunned) == (2, "")


def test_a_restart_plans_anew_and_begins_nothing_before() -> None:
    bench = asking()
    bench.submit_batch("b", stage(count=8, run_us=100 * US))
    bench.answer()
    bench.restart()
    for name in ("n", "m"):
        bench.connect_again(name)
        bench.guard(name)
        bench.listed(name)
    bench.say(Tick(at_us=0), after_us=5 * US)
    bench.answer()
    assert bench.question.question.batches[0].batch == "b"
    assert bench.records["schedules"]["b"].why


def test_a_batch_that_no_plan_holds_is_served_greedily() -> None:
    bench = asking(lends("n"))
    bench.submit_batch("b", stage(count=5, run_us=50 * 60 * US))
    bench.answer()
    bench.params = dataclasses.replace(bench.params, harvest_window_us=60 * US)
    bench.restart()  # with a configuration that was changed
    bench.connect_again("n")
    bench.guard("n")
    bench.listed("n")
    bench.say(Tick(at_us=0), after_us=5 * US)
    bench.answer()
    assert "b" not in bench.records["schedules"]
    done = bench.effects_of("create", 0)
    for index in range(3):
        bench.end(bench.open_of("create", index), Done(f"e{index}"))
    bench.end(bench.open_of("send", 0))
    bench.end(bench.open_of("start", 0))
    bench.exit(0, done, 0)
    bench.end(bench.open_of("collect", 0))
    assert bench.task(3).state is S.CREATING


@pytest.mark.parametrize(("cpu_m", "is_left"), [(600, False), (100, True)])
def test_one_that_no_plan_holds_leaves_planned_starts_their_room(cpu_m: int, is_left: bool) -> None:
    """There is room for a while, and then a big task is planned."""
    bench = asking(lends("n"))
    small = stage("small", request=Resources(400, MIB), run_us=20 * US)
    big = stage("big", request=Resources(1500, MIB), run_us=20 * US, after=("small",))
    bench.submit_batch("b", small, big)
    bench.answer()
    bench.run(0)
    bench.submit_batch("other", stage(request=Resources(cpu_m, MIB), run_us=60 * US))
    found = answer(bench.question.question, Watch(lambda: 0.0, 1.0))
    mine = [one for one in found.schedules if one.batch == "b"]
    blank = dataclasses.replace(mine[0], batch="other", starts=())
    bench.answer(Done(plan=dataclasses.replace(found, schedules=(*mine, blank))))
    bench.state_of(Planning).unplanned = frozenset(("other",))
    bench.say(Tick(at_us=0), after_us=US)
    assert (bench.task(0, "other").state is S.CREATING) == is_left


def test_a_task_that_runs_too_long_fails() -> None:
    bench = asking(lends("n"))
    bench.submit_batch("b", stage(max_runtime_us=60 * US))
    bench.answer()
    bench.run()
    bench.say(Tick(at_us=0), after_us=59 * US)
    assert bench.task().state is S.RUNNING
    bench.say(Tick(at_us=0), after_us=2 * US)
    assert (bench.task().failures, bench.task().attempt) == (1, 2)
    assert "max_runtime_s" in bench.task().note
    assert bench.tables.tombstones["b/0/1"].may_run


def test_an_output_that_cannot_be_fetched_has_its_task_work_again() -> None:
    bench = asking(lends("n"), task_fetches=2)
    bench.submit_batch("b")
    bench.answer()
    bench.exit(0, bench.run(), 0)
    for _ in range(3):
        bench.end(bench.open_of("collect"), Unknown("cut"))
        bench.say(Tick(at_us=0), after_us=30 * US)
    assert (bench.task().attempt, bench.task().mishaps, bench.task().fetches) == (2, 1, 0)
    assert not bench.batch().is_failing


def test_an_output_that_cannot_be_fetched_yet_says_why_until_it_is() -> None:
    """With the daemon's disk full a task stood in ``collecting`` for minutes without a word."""
    bench = asking(lends("n"))
    bench.submit_batch("b")
    bench.answer()
    bench.exit(0, bench.run(), 0)
    bench.end(bench.open_of("collect"), Unknown("the disk is full"))
    assert bench.task().note == "its output cannot be fetched yet: the disk is full"
    bench.say(Tick(at_us=0), after_us=30 * US)
    bench.end(bench.open_of("collect"), Done())
    assert (bench.task().state, bench.task().note) == (S.DONE, "")


def test_a_batch_with_one_stage_that_has_no_tasks_is_refused() -> None:
    """A stage over an empty dataset beside others ended the daemon: it has no tasks."""
    bench = asking(lends("n"))
    idle = stage("scan", count=0)
    said = bench.submit_batch("b", idle, stage("more", after=("scan",)))
    (reply,) = [effect for effect in said if isinstance(effect, Reply)]
    assert isinstance(reply.value, Problem)
    assert (reply.value.code, reply.value.status) == ("zero_tasks", 422)
    assert "stage scan has no tasks" in reply.value.detail
    assert "b" not in bench.tables.batches
    bench.say(Tick(at_us=0), after_us=30 * US)


def test_open_tasks_are_bounded_over_all_batches() -> None:
    bench = asking(max_open_tasks=10)
    bench.submit_batch("b", stage(count=7))
    bench.answer()
    (reply,) = [e for e in bench.submit_batch("c", stage(count=4)) if isinstance(e, Reply)]
    assert reply.value.code == "queue_full"
    assert "7 tasks" in reply.value.detail


def refusals_of(bench: Asking, name: str, **spec: Any) -> list[str]:
    effects = bench.submit_batch(name, stage(**spec))
    return [effect.value.code for effect in effects if isinstance(effect, Reply)]


def test_those_that_wait_for_a_plan_count_against_the_bounds() -> None:
    bench = asking(max_open_tasks=10)
    assert refusals_of(bench, "a", count=4) == refusals_of(bench, "b", count=4) == []
    assert refusals_of(bench, "c", count=4) == ["queue_full"]
    bench.answer()
    bench.answer()
    assert sum(batch.spec.tasks for batch in bench.tables.batches.values()) == 8
    bench = asking(max_batches=2)
    assert [refusals_of(bench, name) for name in "abc"] == [[], [], ["queue_full"]]


@pytest.mark.parametrize("solver", ["auto", "first_fit"])
def test_a_better_plan_is_asked_for_where_none_is_proven(solver: str) -> None:
    bench = asking(plan_solver=solver)
    bench.submit_batch("b", stage(count=3), stage("other", count=2, image=IMAGE))
    (batch,) = bench.answer()
    is_proven = bench.records["schedules"][batch.id].is_proven
    assert bench.questions == (1 if is_proven else 2)


def test_the_planner_is_told_what_submitters_weigh() -> None:
    """Of batches that are open too: else a newcomer would be weighed against others' ones."""
    bench = asking(plan_sharing="fair", plan_weights={"ann": 2.5})
    for name, submitter in (("a", "ann"), ("b", "bob"), ("c", "")):
        spec = BatchSpec(name, (stage(),), submitter=submitter)
        bench.say(SubmitBatch(at_us=0, spec=spec, request=name, batch=name))
        bench.answer()
    told = {need.batch: need.weight for need in bench.question.question.batches}
    assert told == {"a": 2.5, "b": 1.0, "c": 1.0}
    with pytest.raises(ValueError, match="plan_weights"):
        asking(plan_weights={"ann": 0})


def test_ended_batches_are_kept_by_their_tasks() -> None:
    bench = asking(max_history=1)
    for name, count in (("b", 8), ("c", 6)):
        bench.submit_batch(name, stage(count=count))
        bench.answer()
        bench.say(CancelBatch(at_us=0, request=f"x{name}", batch=name))
        for tombstone in [g for g in bench.tables.tombstones.values() if g.effect]:
            bench.say(EffectEnded(at_us=0, effect=tombstone.effect, outcome=Done()))
        bench.listed("n")
        bench.listed("m")
        assert bench.tables.batches[name].is_over
    bench.say(Tick(at_us=0), after_us=retention.PERIOD_US)
    assert sorted(batch.id for batch in bench.tables.batches.values()) == ["c"]
    bench.say(Tick(at_us=0), after_us=0)
    assert {key.partition("/")[0] for key, _ in bench.tables.tasks.items()} == {"c"}
