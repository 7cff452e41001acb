"""The watcher on real engines: what it tells the core, when, and how often."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.transport import Timeouts
from tenure.engines.watch import EventFactory, Watcher, WatchParams
from tenure.model.events import ContainerSeen, Event, NodeConnected, NodeListed, NodeLost
from tenure.model.outcome import Done
from testbed import Node, Testbed, docker_api
from tests.engines.conftest import QUICK
from tests.engines.lab import Kept, Lab, body, create, eventually, retire, start, stop

pytestmark = [pytest.mark.engines, pytest.mark.faults]

E = TypeVar("E", bound=Event)

CALM = WatchParams(list_every_s=1e9, open_s=60.0, ping_every_s=0.5, off_every_s=0.5)
"""Listings only for a reason, so that a test sees which reason.

The first without a reason comes after any part of ``list_every_s``, so that is next to for ever.
"""


@pytest.fixture
def timeouts() -> Timeouts:
    return QUICK


class Inbox:
    """Takes events as the daemon's inbox does, with a clock that counts."""

    def __init__(self) -> None:
        self._clock = itertools.count(1)
        self.events: list[Event] = []

    def now_us(self) -> int:
        return next(self._clock)

    async def emit(self, make: EventFactory) -> None:
        self.events.append(make(self.now_us()))

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def wait(self, condition: Callable[[], object], timeout_s: float = 30.0) -> None:
        async def look() -> object:
            return condition()

        await eventually(look, timeout_s)


@asynccontextmanager
async def watching(
    engine: Engine, params: WatchParams = CALM
) -> AsyncIterator[tuple[Inbox, Watcher]]:
    """Run a watcher; its end must be the cancellation and nothing else."""
    inbox = Inbox()
    watcher = Watcher("node1", engine, emit=inbox.emit, now_us=inbox.now_us, params=params)
    task = asyncio.create_task(watcher.run())
    try:
        yield inbox, watcher
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_it_connects_and_lists(engine: Engine, lab: Lab) -> None:
    await lab.running("first")
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeListed))
    assert isinstance(inbox.events[0], NodeConnected)
    assert inbox.events[0].facts.capacity.cpu_m > 0
    listed = inbox.of(NodeListed)[0]
    assert [facts.name for facts in listed.containers] == ["first"]
    assert listed.images == inbox.events[0].facts.images
    assert inbox.events[0].at_us < listed.started_us < listed.at_us


async def test_events_of_ours_are_seen_without_a_listing(engine: Engine, lab: Lab) -> None:
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeListed))
        script = "trap 'exit 7' TERM; while :; do sleep 0.1; done"
        engine_id = await lab.running("brief", "sh", "-c", script)

        def last(state: str) -> ContainerSeen | None:
            seen = [event for event in inbox.of(ContainerSeen) if event.facts.state == state]
            return seen[-1] if seen else None

        await inbox.wait(lambda: last("running"))
        assert await engine.perform(stop(engine_id, grace_s=20)) == Done()
        await inbox.wait(lambda: last("exited"))
    seen = last("exited")
    assert seen is not None
    assert seen.facts.engine_id == engine_id
    assert seen.facts.exit_code == 7
    assert seen.started_us < seen.at_us
    assert {event.facts.state for event in inbox.of(ContainerSeen)} == {"running", "exited"}
    assert len(inbox.of(NodeListed)) == 1


async def test_health_is_seen(engine: Engine, node: Node, lab: Lab) -> None:
    check = {"Test": ["CMD", "test", "-e", "/ok"], "Interval": 300_000_000, "Retries": 1}
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeListed))
        script = "trap 'touch /ok' USR1; while :; do sleep 0.1; done"
        await lab.running("patient", "sh", "-c", script, Healthcheck=check)

        def told() -> list[str]:
            return [event.facts.health for event in inbox.of(ContainerSeen)]

        await inbox.wait(lambda: "unhealthy" in told())
        kill = "/containers/patient/kill?signal=USR1"
        assert docker_api.call(node.socket, "POST", kill)[0] == 204
        await inbox.wait(lambda: told()[-1] == "healthy")


async def test_removals_and_foreign_containers_lead_to_a_listing(engine: Engine, lab: Lab) -> None:
    await lab.created("removable", "true")
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeListed))
        assert await engine.perform(retire("removable")) == Done()
        await inbox.wait(lambda: inbox.of(NodeListed)[-1].containers == ())
        foreign = await engine.perform(create("alien", body("sleep", "1000") | {"Labels": {}}))
        assert isinstance(foreign, Done)
        await engine.perform(start(foreign.value))
        await inbox.wait(
            lambda: [facts.state for facts in inbox.of(NodeListed)[-1].containers] == ["running"]
        )
    assert inbox.of(ContainerSeen) == []


async def test_it_lists_at_an_interval_and_on_request(engine: Engine) -> None:
    often = WatchParams(list_every_s=0.6, list_gap_s=0.1)
    async with watching(engine, often) as (inbox, _):
        await inbox.wait(lambda: len(inbox.of(NodeListed)) >= 3)
    async with watching(engine) as (inbox, watcher):
        await inbox.wait(lambda: inbox.of(NodeListed))
        watcher.relist()
        await inbox.wait(lambda: len(inbox.of(NodeListed)) == 2)


async def test_a_burst_of_requests_is_one_listing_per_gap(engine: Engine) -> None:
    async with watching(engine) as (inbox, watcher):
        await inbox.wait(lambda: inbox.of(NodeListed))
        began = time.monotonic()
        for _ in range(100):
            watcher.relist()
            await asyncio.sleep(0.01)
        await inbox.wait(lambda: len(inbox.of(NodeListed)) >= 2)
        gaps = (time.monotonic() - began) / CALM.list_gap_s
    assert 2 <= len(inbox.of(NodeListed)) <= 2 + gaps


@pytest.mark.parametrize("fault", ["kill", "freeze", "cut"])
async def test_a_loss_is_told_once_and_so_is_the_return(
    bed: Testbed, engine: Engine, lab: Lab, fault: str
) -> None:
    engine_id = await lab.running("lasting")
    faults = {"kill": bed.kill_engine, "freeze": bed.freeze, "cut": bed.cut}
    cures = {"kill": bed.restart_engine, "freeze": bed.thaw, "cut": bed.heal}
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeListed))
        await asyncio.to_thread(faults[fault], "node1")
        await inbox.wait(lambda: inbox.of(NodeLost))
        await asyncio.sleep(1.5)
        await asyncio.to_thread(cures[fault], "node1")
        await inbox.wait(lambda: len(inbox.of(NodeConnected)) == 2)
        await inbox.wait(lambda: isinstance(inbox.events[-1], NodeListed))
    # a ping that a kill cut off says so, the next that nobody listens, and the one after that an
    # engine which starts listens but does not answer: another reason is told
    told = [loss.why for loss in inbox.of(NodeLost)]
    assert all(told)
    assert len(told) == len(set(told)) <= 3, told
    back = inbox.events.index(inbox.of(NodeConnected)[-1])
    assert not any(isinstance(event, NodeLost) for event in inbox.events[back:])
    (facts,) = inbox.of(NodeListed)[-1].containers
    assert facts.engine_id == engine_id


async def test_what_happened_while_away_is_listed_though_it_looks_the_same(
    bed: Testbed, engine: Engine, node: Node, lab: Lab, kept: Kept
) -> None:
    """Restarted unseen: same id, same state, another start; nothing remembered may be told."""
    engine_id = await lab.running("restarted")
    before = await engine.inspect(engine_id)
    assert before is not None
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeListed))
        bed.cut("node1")
        await inbox.wait(lambda: inbox.of(NodeLost))
        local = Engine(f"unix://{node.socket}", kept.save)
        assert await local.perform(stop(engine_id)) == Done()
        assert await local.perform(start(engine_id)) == Done()
        await local.close()
        bed.heal("node1")
        await inbox.wait(lambda: len(inbox.of(NodeConnected)) == 2)
        await inbox.wait(lambda: isinstance(inbox.events[-1], NodeListed))
    (facts,) = inbox.of(NodeListed)[-1].containers
    assert facts.started_us is not None
    assert before.started_us is not None
    assert facts.started_us > before.started_us


async def test_a_node_that_never_answered_is_told_lost_once(bed: Testbed, engine: Engine) -> None:
    bed.kill_engine("node1")
    async with watching(engine) as (inbox, _):
        await inbox.wait(lambda: inbox.of(NodeLost))
        await asyncio.sleep(1.0)
        assert len(inbox.events) == 1
        await asyncio.to_thread(bed.restart_engine, "node1")
        await inbox.wait(lambda: inbox.of(NodeListed))
    told = [loss.why for loss in inbox.of(NodeLost)]
    assert len(told) == len(set(told)) <= 2, "once, and again if it listens before it answers"
    assert isinstance(inbox.events[len(told)], NodeConnected)


async def test_a_node_that_is_expected_off_is_looked_for_rarely_and_silently(
    bed: Testbed, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    rarely = WatchParams(list_every_s=60.0, ping_every_s=0.5, off_every_s=1e9)
    with caplog.at_level(logging.WARNING, "tenure"):
        async with watching(engine, rarely) as (inbox, watcher):
            await inbox.wait(lambda: inbox.of(NodeListed))
            watcher.set_expected(False)
            await asyncio.to_thread(bed.power_off, "node1")
            await inbox.wait(lambda: inbox.of(NodeLost))
            await asyncio.to_thread(bed.power_on, "node1")
            await asyncio.sleep(2.0)
            assert len(inbox.of(NodeConnected)) == 1
            watcher.set_expected(True)
            await inbox.wait(lambda: len(inbox.of(NodeConnected)) == 2)
    assert caplog.records == []


async def test_a_loss_that_is_not_expected_is_logged(
    bed: Testbed, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tenure"):
        async with watching(engine) as (inbox, _):
            await inbox.wait(lambda: inbox.of(NodeListed))
            await asyncio.to_thread(bed.kill_engine, "node1")
            await inbox.wait(lambda: inbox.of(NodeLost))
            await asyncio.sleep(1.0)
    told = [record.getMessage() for record in caplog.records]
    assert {text.split(":")[0] for text in told} == {"node node1 does not answer"}
    # a connection that is reset and one that is refused are two reasons, each told once
    assert 1 <= len(told) == len(set(told)) <= 2


async def test_a_defect_in_the_inbox_ends_the_watcher_loudly(engine: Engine) -> None:
    async def broken(make: EventFactory) -> None:
        if isinstance(make(1), NodeListed):
            raise RuntimeError("broken inbox")

    watcher = Watcher("node1", engine, emit=broken, now_us=lambda: 1)
    with pytest.raises(ExceptionGroup) as group:
        await asyncio.wait_for(watcher.run(), 30)
    assert group.group_contains(RuntimeError, match="broken inbox")
