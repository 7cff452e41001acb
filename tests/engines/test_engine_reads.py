"""What is read from a real engine: facts, listings, inspects, logs, stats."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

import pytest

from tenure.engines.engine import Engine
from tenure.engines.http.errors import EngineAnswer
from tenure.engines.http.transport import SHORT_CALLS
from tenure.engines.watch import Watchable
from tenure.model.document import count, text
from tenure.model.outcome import Done
from testbed import IMAGE, Node
from tests.engines.lab import Kept, Lab, body, create, eventually, retire, start, stop

pytestmark = pytest.mark.engines


async def test_an_engine_can_be_watched(engine: Engine) -> None:
    watched: Watchable = engine
    await watched.ping()


async def test_facts_over_tcp_and_unix(
    engine: Engine, neighbour: Engine, node: Node, kept: Kept
) -> None:
    facts, others = await asyncio.gather(engine.facts(), neighbour.facts())
    assert facts.engine_id != others.engine_id
    assert facts.capacity == others.capacity
    assert facts.capacity.cpu_m % 1000 == 0
    assert facts.capacity.cpu_m >= 1000
    assert facts.capacity.memory_bytes > 1 << 28
    assert facts.api_version == "1.41"
    assert IMAGE in facts.images
    local = Engine(f"unix://{node.socket}", kept.save)
    assert (await local.facts()).engine_id == facts.engine_id
    await local.close()


@pytest.mark.parametrize("code", [0, 7, 137])
async def test_exit_codes_and_times(engine: Engine, lab: Lab, code: int) -> None:
    before = time.time_ns() // 1000
    seen = await lab.exited("exiting", "sh", "-c", f"exit {code}")
    assert seen.exit_code == code
    (listed,) = await engine.listing()
    assert listed == seen
    assert seen.started_us is not None
    assert seen.finished_us is not None
    assert before <= seen.started_us <= seen.finished_us <= time.time_ns() // 1000


async def test_a_listing_has_all_and_completes_ours(engine: Engine, lab: Lab) -> None:
    running = await lab.running("runs")
    await lab.created("waits", "true")
    foreign = await engine.perform(create("alien", body("sleep", "1000") | {"Labels": {}}))
    assert isinstance(foreign, Done)
    assert await engine.perform(start(foreign.value)) == Done()
    listing = {facts.name: facts for facts in await engine.listing()}
    assert set(listing) == {"runs", "waits", "alien"}
    assert listing["runs"] == await engine.inspect(running)
    assert listing["runs"].started_us is not None
    assert listing["runs"].exit_code is None
    assert listing["waits"].state == "created"
    assert listing["waits"].started_us is None
    assert listing["alien"].state == "running"
    assert listing["alien"].labels == {}


async def test_a_listing_follows_every_change(engine: Engine, lab: Lab) -> None:
    engine_id = await lab.running("changing")
    (first,) = await engine.listing()
    assert (await engine.listing()) == (first,)
    assert await engine.perform(stop(engine_id)) == Done()
    (second,) = await engine.listing()
    assert second.state == "exited"
    assert second.finished_us is not None
    assert await engine.perform(start(engine_id)) == Done()
    (third,) = await engine.listing()
    assert third.state == "running"
    assert third.finished_us is None
    (fresh,) = await engine.listing(is_fresh=True)
    assert fresh.started_us is not None
    assert first.started_us is not None
    assert fresh.started_us > first.started_us


async def test_health(engine: Engine, lab: Lab) -> None:
    check = {"Test": ["CMD", "test", "-e", "/ok"], "Interval": 200_000_000, "Retries": 2}
    engine_id = await lab.running("healthy", "sleep", "1000", Healthcheck=check)

    async def listed(health: str) -> bool:
        (facts,) = await engine.listing()
        return facts.health == health

    await eventually(lambda: listed("unhealthy"))
    tell = await lab.running(
        "starting", "sh", "-c", "touch /ok; sleep 1000", Healthcheck=check | {"StartPeriod": 10**11}
    )
    facts = await engine.inspect(tell)
    assert facts is not None
    assert facts.health in ("starting", "healthy")

    async def is_healthy() -> bool:
        return {f.name: f.health for f in await engine.listing()}["starting"] == "healthy"

    await eventually(is_healthy)
    facts = await engine.inspect(engine_id)
    assert facts is not None
    assert facts.health == "unhealthy"


async def test_an_out_of_memory_kill_is_told(engine: Engine, lab: Lab) -> None:
    small = {"HostConfig": {"Memory": 8 << 20, "MemorySwap": 8 << 20, "Init": False}}
    seen = await lab.exited("hungry", "tail", "/dev/zero", **small)
    assert seen.exit_code == 137
    assert seen.is_oom_killed


@pytest.mark.parametrize("ref", ["absent", "../info", "", "a/b", "x?all=1", "%2e%2e"])
async def test_inspect_of_what_is_not_there(engine: Engine, ref: str) -> None:
    assert await engine.inspect(ref) is None
    assert await engine.inspect_raw(ref) is None


async def test_logs_join_both_streams(engine: Engine, lab: Lab) -> None:
    await lab.exited("talker", "sh", "-c", "echo one; echo two >&2; printf three")
    log = await engine.logs("talker")
    assert sorted(log) == sorted(b"one\ntwo\nthree")  # the order of two streams is not kept
    assert await engine.logs("talker", tail_bytes=5) == log[-5:]
    stamped = await engine.logs("talker", is_stamped=True)
    assert stamped.count(b"Z ") == 3


async def test_logs_of_a_terminal(engine: Engine, lab: Lab) -> None:
    await lab.exited("terminal", "sh", "-c", "echo a; echo b", Tty=True)
    assert await engine.logs("terminal") == b"a\r\nb\r\n"


async def test_the_end_of_a_long_log(engine: Engine, lab: Lab) -> None:
    count = 400_000
    await lab.exited("chatter", "seq", "1", str(count))
    whole = b"".join(b"%d\n" % number for number in range(1, count + 1))
    assert len(whole) > 2 << 20
    assert await engine.logs("chatter") == whole[-(1 << 20) :]
    assert await engine.logs("chatter", tail_bytes=100_000) == whole[-100_000:]
    assert await engine.logs("chatter", tail_bytes=10 << 20) == whole


async def test_the_end_of_a_log_of_long_lines(engine: Engine, lab: Lab) -> None:
    script = "for i in 1 2 3; do head -c 1000000 /dev/zero | tr '\\0' $i; echo; done"
    await lab.exited("wide", "sh", "-c", script)
    log = await engine.logs("wide")
    assert len(log) == 1 << 20
    assert log.endswith(b"\n" + b"3" * 1_000_000 + b"\n")
    assert set(log) == set(b"23\n")


async def test_logs_that_cannot_be_had(engine: Engine, lab: Lab) -> None:
    with pytest.raises(EngineAnswer) as absent:
        await engine.logs("absent")
    assert absent.value.http_status == 404
    await lab.exited("mute", "true", HostConfig={"LogConfig": {"Type": "none"}})
    with pytest.raises(EngineAnswer) as unreadable:
        await engine.logs("mute")
    assert unreadable.value.status == 501


async def test_logs_can_be_followed_to_the_end(engine: Engine, lab: Lab) -> None:
    script = "trap 'echo 2; exit' TERM; echo 1; while :; do sleep 0.1; done"
    engine_id = await lab.running("steady", "sh", "-c", script)
    found = b""
    async for piece in engine.follow_logs("steady"):
        found += piece
        if found == b"1\n":  # it comes while the container runs
            assert await engine.perform(stop(engine_id, grace_s=60)) == Done()
    assert found == b"1\n2\n"
    assert [p async for p in engine.follow_logs("steady", tail_lines=1)] == [b"2\n"]


async def test_one_sweep_of_stats_for_all(engine: Engine, lab: Lab) -> None:
    ids = [await lab.running(f"sweep{number}") for number in range(12)]
    await lab.exited("over", "true")
    stats = await engine.stats_once([*ids, "over", "absent"])
    assert set(stats) == set(ids)
    assert all(count(sample, "cpu_stats", "cpu_usage", "total_usage") for sample in stats.values())
    # one after the other they would be read a second apart, each
    read = sorted(text(sample, "read") for sample in stats.values())
    first, last = (datetime.fromisoformat(f"{at[:23].rstrip('Z')}+00:00") for at in read[::11])
    assert (last - first).total_seconds() < 9


async def test_a_sweep_leaves_the_slots_free(engine: Engine, lab: Lab) -> None:
    ids = [await lab.running(f"busy{number}") for number in range(SHORT_CALLS)]
    await engine.stats_once(ids)
    for _ in range(20):  # the machine may be busy just then
        sweep = asyncio.create_task(engine.stats_once(ids))
        await asyncio.sleep(0)
        await asyncio.gather(*(engine.inspect(engine_id) for engine_id in ids))
        is_first = not sweep.done()  # an answer of the sweep takes a second
        assert len(await sweep) == len(ids)
        if is_first:
            return
    raise AssertionError("who asked had to wait for the sweep each time")


async def test_stops_that_take_their_time_leave_the_slots_free(engine: Engine, lab: Lab) -> None:
    deaf = ("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    ids = [await lab.running(f"deaf{n}", *deaf, HostConfig={"Init": False}) for n in range(9)]
    stops = [asyncio.create_task(engine.perform(stop(i, grace_s=4))) for i in ids]
    assert len(await engine.listing()) == 9
    assert not any(task.done() for task in stops), "it waited for them"
    assert set(await asyncio.gather(*stops)) == {Done()}


async def test_events_come_as_they_happen(engine: Engine, lab: Lab) -> None:
    opened = asyncio.Event()
    actions: list[str] = []

    async def follow() -> None:
        async for event in engine.events(on_open=opened.set):
            actions.append(text(event, "Action"))

    following = asyncio.create_task(follow())
    await opened.wait()
    await lab.exited("eventful", "true")

    async def is_dead() -> bool:
        return "die" in actions

    await eventually(is_dead)
    main = ("create", "start", "die")
    assert tuple(action for action in actions if action in main) == main
    following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


async def test_past_events_can_be_had_again(engine: Engine, lab: Lab) -> None:
    since_us = time.time_ns() // 1000
    await lab.exited("history", "true")
    async for event in engine.events(since_us):
        assert (count(event, "timeNano") or 0) // 1000 >= since_us
        if event["Action"] == "die":
            break


async def test_a_container_that_is_removed_while_it_is_asked_for_has_no_sample(
    engine: Engine, lab: Lab
) -> None:
    """The engine answers 200 and then, for the container is gone, sends nothing."""
    for number in range(4):
        engine_id = await lab.running(f"brief{number}", "sleep", "1000")
        asked = asyncio.create_task(engine.stats_once([engine_id]))
        await asyncio.sleep(0.2 * number)  # early and late in the second that an answer takes
        assert await engine.perform(retire(engine_id)) == Done()
        found = await asked
        assert not found or found[engine_id]["read"]
