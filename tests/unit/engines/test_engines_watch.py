"""The watcher against an engine in words: failures that a real one shows too seldom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tenure.engines.http.errors import EngineAnswer
from tenure.engines.watch import HINTS, EventFactory, Watcher, WatchParams
from tenure.model.document import OwnDocument
from tenure.model.errors import EngineError, EngineUnclear
from tenure.model.events import ContainerSeen, Event, NodeConnected, NodeListed, NodeLost
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.resources import Resources

#: The first listing without a reason comes after any part of ``list_every_s``: next to for ever.
CALM = WatchParams(
    list_every_s=1e9,
    list_gap_s=0.05,
    open_s=0.3,
    ping_every_s=0.2,
    doubt_s=0.05,
    retry_first_s=0.02,
    retry_last_s=0.1,
)
LABELS = {"tenure.fleet": "f"}


def _unclear() -> EngineUnclear:
    return EngineUnclear("cut")


class Scripted:
    """An engine whose every kind of call can be made to fail, and which counts its calls."""

    def __init__(self) -> None:
        self.failures: dict[str, EngineError] = {}
        self.calls: list[str] = []
        self.events_now: asyncio.Queue[OwnDocument | EngineError] = asyncio.Queue()

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failures:
            raise self.failures[name]

    async def ping(self, heard_s: float = 0.0) -> None:
        self._call("ping")

    async def facts(self) -> EngineFacts:
        self._call("facts")
        return EngineFacts("id", Resources(cpu_m=1000))

    async def listing(self, *, is_fresh: bool = False) -> tuple[ContainerFacts, ...]:
        self._call("fresh" if is_fresh else "listing")
        return ()

    async def images(self) -> tuple[str, ...]:
        self._call("images")
        return ()

    async def inspect(self, ref: str) -> ContainerFacts | None:
        self._call("inspect")
        return ContainerFacts(ref, ref, "image", "running", LABELS) if ref != "gone" else None

    async def events(
        self, since_us: int | None = None, *, on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[OwnDocument, None]:
        self._call("events")
        if on_open is not None:
            on_open()
        while True:
            event = await self.events_now.get()
            if isinstance(event, EngineError):
                raise event
            yield event

    def happens(self, action: str, ref: str, labels: dict[str, str]) -> None:
        self.events_now.put_nowait({"Action": action, "Actor": {"ID": ref, "Attributes": labels}})


class Told:
    def __init__(self) -> None:
        self.events: list[Event] = []

    async def emit(self, make: EventFactory) -> None:
        self.events.append(make(len(self.events)))

    def kinds(self) -> list[type[Event]]:
        return [type(event) for event in self.events]

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, self.events
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watching(
    engine: Scripted, params: WatchParams = CALM
) -> AsyncIterator[tuple[Told, Watcher]]:
    told = Told()
    watcher = Watcher("n", engine, emit=told.emit, now_us=lambda: 7, params=params)
    task = asyncio.create_task(watcher.run())
    try:
        yield told, watcher
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture
async def engine() -> Scripted:
    return Scripted()


async def test_a_stream_that_breaks_is_opened_again_and_nothing_old_is_trusted(
    engine: Scripted,
) -> None:
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        engine.events_now.put_nowait(_unclear())
        await told.until(lambda: told.kinds().count(NodeListed) == 2)
    assert engine.calls.count("events") == 2
    assert engine.calls.count("fresh") == 2
    assert "listing" not in engine.calls
    assert NodeLost not in told.kinds()


async def test_without_events_listings_go_on(engine: Scripted) -> None:
    engine.failures["events"] = EngineAnswer(403, "no events for you")
    async with watching(engine) as (told, watcher):
        await told.until(lambda: NodeListed in told.kinds())
        watcher.relist()
        await told.until(lambda: told.kinds().count(NodeListed) == 2)
    assert NodeLost not in told.kinds()


async def test_a_failed_listing_is_tried_again_as_fresh_as_it_was(engine: Scripted) -> None:
    engine.failures["images"] = EngineAnswer(500, "no images")
    async with watching(engine) as (told, watcher):
        await told.until(lambda: "images" in engine.calls)
        await asyncio.sleep(0.2)
        assert told.kinds() == [NodeConnected]
        del engine.failures["images"]
        watcher.relist()
        await told.until(lambda: NodeListed in told.kinds())
    assert engine.calls.count("fresh") >= 2
    assert "listing" not in engine.calls


async def test_doubts_with_pings_between_are_no_loss(engine: Scripted) -> None:
    engine.failures["fresh"] = _unclear()
    slow = WatchParams(list_gap_s=0.3, open_s=0.05, ping_every_s=0.1, list_every_s=60.0)
    async with watching(engine, slow) as (told, _):
        await told.until(lambda: engine.calls.count("fresh") >= 4)
        assert told.kinds() == [NodeConnected]
        del engine.failures["fresh"]
        await told.until(lambda: NodeListed in told.kinds())


async def test_lost_after_the_given_number_of_pings(engine: Scripted) -> None:
    stern = WatchParams(lost_after=4, ping_every_s=0.1, doubt_s=0.02, retry_last_s=60.0)
    async with watching(engine, stern) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        engine.failures["ping"] = _unclear()
        before = engine.calls.count("ping")
        await told.until(lambda: NodeLost in told.kinds())
    assert engine.calls.count("ping") - before in (4, 5)  # the next try may have begun


async def test_an_engine_that_was_lost_is_looked_for_until_it_is_back(engine: Scripted) -> None:
    """Each time with pauses between tries: the watcher's task must be as good as new."""
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        engine.failures["ping"] = _unclear()
        await told.until(lambda: NodeLost in told.kinds())
        before = engine.calls.count("ping")
        await told.until(lambda: engine.calls.count("ping") >= before + 3)
        (watching_now,) = (t for t in asyncio.all_tasks() if "Watcher.run" in str(t.get_coro()))
        assert watching_now.cancelling() == 0
        del engine.failures["ping"]
        await told.until(lambda: told.kinds().count(NodeConnected) == 2)


async def test_a_burst_about_one_container_is_one_inspect(engine: Scripted) -> None:
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        for action in ("start", "oom", "die", "health_status: healthy", "start"):
            engine.happens(action, "c1", LABELS)
        await told.until(lambda: ContainerSeen in told.kinds())
        await asyncio.sleep(0.2)
    assert engine.calls.count("inspect") == 1
    seen = told.events[-1]
    assert isinstance(seen, ContainerSeen)
    assert (seen.facts.engine_id, seen.started_us) == ("c1", 7)


@pytest.mark.parametrize(
    ("action", "labels", "call"),
    [
        ("destroy", LABELS, "listing"),
        ("destroy", {}, "listing"),
        ("start", {}, "listing"),
        ("die", {}, "listing"),
        ("start", LABELS, "inspect"),
        ("exec_start: ls", LABELS, ""),
        ("top", {}, ""),
        ("health_status: healthy", {}, ""),
    ],
)
async def test_where_an_event_has_it_look(
    engine: Scripted, action: str, labels: dict[str, str], call: str
) -> None:
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        before = len(engine.calls)
        engine.happens(action, "c1", labels)
        await told.until(lambda: not call or call in engine.calls[before:])
        await asyncio.sleep(0.25)
        after = {name for name in engine.calls[before:] if name in ("listing", "inspect", "fresh")}
    assert after == ({call} if call else set())


async def test_a_container_that_is_gone_leads_to_a_listing(engine: Scripted) -> None:
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        engine.happens("die", "gone", LABELS)
        await told.until(lambda: told.kinds().count(NodeListed) == 2)
    assert ContainerSeen not in told.kinds()


async def test_a_flood_of_hints_is_one_listing(engine: Scripted) -> None:
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        for number in range(HINTS + 1):
            engine.happens("die", f"c{number}", LABELS)
        await told.until(lambda: told.kinds().count(NodeListed) == 2)
    assert engine.calls.count("fresh") == 2
    assert engine.calls.count("inspect") == 0


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"Actor": None},
        {"Actor": "web"},
        {"Action": 5, "Actor": {"ID": None}},
        {"Action": "die", "Actor": {"ID": "c", "Attributes": ["x"]}},
    ],
)
async def test_odd_events_are_ignored(engine: Scripted, event: dict[str, Any]) -> None:
    async with watching(engine) as (told, _):
        await told.until(lambda: NodeListed in told.kinds())
        engine.events_now.put_nowait(event)
        engine.happens("start", "c1", LABELS)
        await told.until(lambda: ContainerSeen in told.kinds())
    assert NodeLost not in told.kinds()


async def test_a_facts_call_that_fails_is_no_connection(engine: Scripted) -> None:
    engine.failures["facts"] = EngineAnswer(500, "no facts")
    async with watching(engine) as (told, _):
        await told.until(lambda: engine.calls.count("facts") >= 5)
        assert told.kinds() == [NodeLost]
        del engine.failures["facts"]
        await told.until(lambda: NodeListed in told.kinds())
    assert told.kinds()[1] is NodeConnected
