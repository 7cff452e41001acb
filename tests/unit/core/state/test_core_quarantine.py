"""A record that cannot be as it is stays so and is told; the rest of the fleet goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.core.jobs import jobs
from tenure.core.lifecycle import cycle_runs
from tenure.core.routing import PutAside
from tenure.core.services.migration import migrations
from tenure.core.services.services import SERVICES
from tenure.core.state.indexes import Index
from tenure.core.state.owned import Notices
from tenure.core.state.params import Params
from tenure.model.batch import BatchState, TaskState
from tenure.model.container import ContainerState, Step
from tenure.model.drain import DrainState
from tenure.model.events import CancelJob, Configured, CycleDue, Tick
from tenure.model.job import ExecutorState, JobState
from tenure.model.outcome import Done
from tenure.model.plan import CycleSpec, RunState
from tenure.model.units import US
from tests.unit.core.bench import SIZE, SMALL, Bench, node, shown
from tests.unit.core.drains import HOST, Drained
from tests.unit.core.lender import lender, lends, stage


def broken() -> Bench:
    bench = Bench(node("a"), node("b"))
    bench.is_broken = True
    bench.connect("a")
    bench.connect("b")
    return bench


def clear(bench: Bench) -> None:
    """Have engines show that nothing is left of what ended."""
    for tombstone in list(bench.tables.tombstones.values()):
        if tombstone.effect:
            bench.end(bench.tables.effects[tombstone.effect])
        bench.listed(tombstone.node)


def test_an_illegal_step_is_not_taken_and_is_told_once() -> None:
    bench = broken()
    bench.submit("one")
    job = bench.tables.jobs["one"]
    done = bench.act(jobs.to, bench.store(replace(job, state=JobState.SUCCEEDED)), JobState.RUNNING)
    assert done.state is JobState.SUCCEEDED
    bench.act(jobs.to, done, JobState.WAITING)
    bench.say(Tick(at_us=0))
    told = [event for event in bench.public if event.type == "record.quarantined"]
    assert [(event.subject, event.data["record"]) for event in told] == [("one", "job")]
    assert "succeeded to running" in told[0].data["reason"]


def test_the_others_go_on() -> None:
    bench = broken()
    bench.submit("one")
    executor = bench.tables.executors["one/0"]
    kept = bench.act(EXECUTORS.to, executor, ExecutorState.PLACED)
    assert kept is executor
    bench.submit("two")
    assert bench.tables.jobs["two"].state is not JobState.ACCEPTED
    bench.create("web")
    assert any(s.name == "web" for s in bench.tables.services.values())


def test_a_quarantined_record_is_not_reviewed_and_a_restart_reads_it_anew() -> None:
    bench = broken()
    bench.create("web")
    (key,) = (service.id for service in bench.tables.services.values())
    gone = bench.store(replace(bench.tables.services[key], state=ContainerState.REMOVED))
    bench.act(SERVICES.to, gone, ContainerState.RUNNING)
    assert ("container", key) in bench.state.quarantined
    bench.state_of(Notices).services.add(key)
    bench.say(Tick(at_us=0))
    assert bench.tables.services[key].state is ContainerState.REMOVED
    bench.restart()
    assert not bench.state.quarantined


def test_reviews_that_cause_each_other_for_ever_do_not_end_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = broken()
    bench.submit("one")

    def restless(ctx: object, key: str) -> None:
        bench.state_of(Notices).jobs.add(key)

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "review", restless)
        bench.state_of(Notices).jobs.add("one")
        bench.say(Tick(at_us=0))
        assert "one" in bench.state.quarantined["fleet", "reviews"]
        assert not bench.state_of(Notices).jobs, "put aside: others go on"
    wakeup_us = bench.state.wakeup_us()
    assert wakeup_us is not None
    assert wakeup_us <= bench.now_us + 1_000_000
    bench.say(Tick(at_us=0))
    assert not bench.state_of(PutAside).jobs, "reviewed when it can come to rest"


def at_rest(bench: Bench) -> bool:
    """Whether reviews came to an end by themselves."""
    return ("fleet", "reviews") not in bench.state.quarantined


def test_an_executor_is_left_as_it_is_by_listings_ends_and_its_job() -> None:
    bench = broken()
    bench.submit("one")
    made = bench.open("create")
    bench.end(made, Done("engine-one"))
    start, was = bench.open("start"), bench.tables.executors["one/0"]
    bench.act(EXECUTORS.end, replace(was, state=ExecutorState.EXITED), 0)
    assert ("executor", was.key) in bench.state.quarantined
    assert ("job", "one") in bench.state.quarantined, "it cannot end without its executor"
    bench.end(start)
    bench.listed(was.node, shown(made, "engine-one", "exited", exit_code=1))
    bench.say(CancelJob(at_us=0, request="c", job="one"))
    for _ in range(5):
        assert not bench.say(Tick(at_us=0), after_us=60 * US)
    assert bench.tables.executors["one/0"] == was
    assert not list(bench.tables.tombstones.values())
    assert at_rest(bench)
    assert start.id in dict(bench.tables.effects.items()), "its end is told to nobody yet"
    bench.restart()
    state = bench.tables.executors["one/0"].state
    assert state is ExecutorState.ABANDONED, "a restart goes on with it, and ends its job"


def test_a_waiting_job_stands_in_nobodys_way() -> None:
    bench = broken()
    for name in ("one", "two"):
        bench.submit(name, request=SIZE)
    bench.submit("large", request=SIZE)
    bench.submit("small")
    assert bench.tables.jobs["small"].state == "waiting"
    bench.act(jobs.to, bench.tables.jobs["large"], JobState.RUNNING)
    for executor in ("one/0", "two/0"):
        bench.act(EXECUTORS.end, bench.tables.executors[executor], 0)
        clear(bench)
    bench.say(Tick(at_us=0))
    assert bench.tables.jobs["small"].state is JobState.STARTING
    assert bench.tables.jobs["large"].state is JobState.WAITING
    assert at_rest(bench)


def test_a_waiting_container_does_not_keep_those_alike_waiting() -> None:
    bench = Bench(node("a", "nursery"), params=Params(min_on={}))
    bench.is_broken = True
    made = [bench.create(f"c{number}") for number in range(3)]
    first, second, _ = (service.id for service in made)
    assert bench.tables.services[first].state is ContainerState.WAITING
    bench.act(SERVICES.to, bench.tables.services[first], ContainerState.RUNNING)
    bench.connect("a")
    assert bench.tables.services[first].state is ContainerState.WAITING
    assert bench.tables.services[second].state is ContainerState.CREATING
    assert at_rest(bench)


def test_a_drain_that_cannot_end_comes_to_rest() -> None:
    drained = Drained(node("b", "nursery"))
    bench = drained.bench
    drained.drain()
    assert drained.record.state is DrainState.DRAINED
    bench.is_broken = True
    bench.state_of(Index).open_drains.add(HOST)
    bench.state_of(Notices).is_pass_due = True
    bench.say(Tick(at_us=0))
    assert ("drain", HOST) in bench.state.quarantined
    assert at_rest(bench)
    assert not bench.state_of(Notices).is_pass_due


def test_a_run_does_not_hold_up_its_cycle() -> None:
    bench = broken()
    spec = CycleSpec("cycle", "nursery", "young")
    bench.say(Configured(at_us=0, nodes=(node("a"), node("b")), cycles=(spec,)))
    bench.say(CycleDue(at_us=0, cycle="cycle", due_us=1))
    first = bench.tables.runs["cycle@1"]
    bench.store(replace(first, state=RunState.ENACTING))
    bench.act(cycle_runs.to, bench.tables.runs[first.id], RunState.DUE)
    assert ("run", first.id) in bench.state.quarantined
    bench.say(CycleDue(at_us=0, cycle="cycle", due_us=2))
    assert bench.tables.runs["cycle@2"].state is RunState.DUE
    assert bench.tables.runs["cycle@1"].state is RunState.ENACTING
    assert at_rest(bench)


def test_a_task_waits_and_the_others_of_its_batch_go_on() -> None:
    bench = lender(lends("a"))
    large = replace(SMALL, cpu_m=SIZE.cpu_m * 3 // 5)
    bench.lend("b", stage(count=3, request=large))
    begun, left, other = sorted(range(3), key=lambda index: bench.task(index).node == "")
    assert bench.task(left).state is TaskState.PENDING
    bench.is_broken = True
    bench.act(TASKS.to, bench.task(left), TaskState.DONE)
    assert ("batch", "b") in bench.state.quarantined, "it cannot end without its task"
    bench.finish(begun)
    clear(bench)
    bench.say(Tick(at_us=0), after_us=60 * US)
    bench.finish(other)
    bench.say(Tick(at_us=0), after_us=60 * US)
    assert bench.task(left).state is TaskState.PENDING
    assert bench.batch().state is BatchState.RUNNING
    assert at_rest(bench)


def test_a_move_is_left_as_it_is_by_timers_ends_and_fences() -> None:
    drained = Drained(node("b", "nursery"))
    bench = drained.bench
    drained.run("web")
    drained.open_others()
    drained.drain()
    bench.say(Tick(at_us=0), after_us=5 * US)
    (move,) = bench.open_moves()
    bench.is_broken = True
    bench.act(migrations._back, replace(move, step=Step.SWEEP), "a step that leads nowhere")
    assert ("migration", move.id) in bench.state.quarantined
    for effect in list(bench.tables.effects.values()):
        bench.end(effect)
    for _ in range(5):
        bench.say(Tick(at_us=0), after_us=600 * US)
    assert bench.tables.migrations[move.id] == move
    assert at_rest(bench)
