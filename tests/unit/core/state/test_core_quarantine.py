"""A record that cannot be as it is stays so and is told; the rest of the fleet goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.attempts import executors
from tenure.core.jobs import jobs
from tenure.core.services import services
from tenure.model.container import ContainerState
from tenure.model.events import Tick
from tenure.model.job import ExecutorState, JobState
from tests.unit.core.bench import Bench, node


def broken() -> Bench:
    bench = Bench(node("a"), node("b"))
    bench.is_broken = True
    bench.connect("a")
    bench.connect("b")
    return bench


def test_an_illegal_step_is_not_taken_and_is_told_once() -> None:
    bench = broken()
    bench.submit("one")
    ctx, job = bench.state.ctx, bench.tables.jobs["one"]
    done = jobs.to(ctx, ctx.put_job(replace(job, state=JobState.SUCCEEDED)), JobState.RUNNING)
    assert done.state is JobState.SUCCEEDED
    jobs.to(ctx, done, JobState.WAITING)
    bench.say(Tick(at_us=0))
    told = [event for event in bench.public if event.type == "record.quarantined"]
    assert [(event.subject, event.data["record"]) for event in told] == [("one", "job")]
    assert "succeeded to running" in told[0].data["reason"]


def test_the_others_go_on() -> None:
    bench = broken()
    bench.submit("one")
    executor = bench.tables.executors["one/0"]
    kept = executors.to(bench.state.ctx, executor, ExecutorState.PLACED)
    assert kept is executor
    bench.submit("two")
    assert bench.tables.jobs["two"].state is not JobState.ACCEPTED
    bench.create("web")
    assert any(s.name == "web" for s in bench.tables.services.values())


def test_a_quarantined_record_is_not_reviewed_and_a_restart_reads_it_anew() -> None:
    bench = broken()
    bench.create("web")
    (key,) = (service.id for service in bench.tables.services.values())
    ctx = bench.state.ctx
    gone = ctx.put_service(replace(bench.tables.services[key], state=ContainerState.REMOVED))
    services.to(ctx, gone, ContainerState.RUNNING)
    assert ctx.is_quarantined("container", key)
    ctx.notices.services.add(key)
    bench.say(Tick(at_us=0))
    assert bench.tables.services[key].state is ContainerState.REMOVED
    bench.restart()
    assert not bench.state.ctx.quarantined


def test_reviews_that_cause_each_other_for_ever_do_not_end_the_daemon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = broken()
    bench.submit("one")

    def restless(ctx: object, key: str) -> None:
        bench.state.ctx.notices.jobs.add(key)

    with monkeypatch.context() as patched:
        patched.setattr(jobs, "review", restless)
        bench.state.ctx.notices.jobs.add("one")
        bench.say(Tick(at_us=0))
        assert "one" in bench.state.ctx.quarantined["fleet", "reviews"]
    wakeup_us = bench.state.wakeup_us()
    assert wakeup_us is not None
    assert wakeup_us <= bench.now_us + 1_000_000
    bench.say(Tick(at_us=0))
    assert not bench.state.ctx.notices.jobs, "reviewed when it can come to rest"
