"""The sampler over a real store, with scripted engine answers (their shapes: test of decode)."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.model.energy import Metered, Use
from tenure.model.errors import EngineUnclear
from tenure.model.events import UsageObserved
from tenure.model.resources import Resources
from tenure.model.units import US, iso
from tenure.profiling.intake.intake import Target
from tenure.profiling.intake.telling import NODES_AT_ONCE
from tenure.profiling.io.sampler import MOST_HEARD, Sampler, SamplerParams, SamplerPorts, Told
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.store import StatsUnavailable
from tenure.profiling.readings.sample import NodeReading, Reading

START_US = 1_700_000_000 * US


class Fleet:
    """Two nodes whose containers use exact amounts each second of a clock that the test moves."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.nodes: dict[str, list[Target]] = {
            "a": [
                Target("e1", "service", "c1", "app", START_US),
                Target("e2", "foreign"),
                Target("e3", "executor", "job/0", "jobapp", reserved_m=2000),
            ],
            "b": [Target("e4", "service", "c4", "app", START_US)],
        }
        self.restarted_us: dict[str, int] = {}
        self.broken: dict[str, BaseException] = {}
        self.hangs: set[str] = set()
        self.seen: list[UsageObserved] = []
        self.uses: list[Use] = []
        self.metered: list[Metered] = []
        self.record_error: Exception | None = None

    async def stats(self, node: str, engine_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        if node in self.broken:
            raise self.broken[node]
        if node in self.hangs:
            await asyncio.Event().wait()
        return {key: self.raw(key) for key in engine_ids}

    def targets(self) -> Iterable[tuple[str, Sequence[Target]]]:
        return self.nodes.items()

    def raw(self, key: str) -> dict[str, Any]:
        ran_us = self.now_us - self.restarted_us.get(key, START_US - 100 * US)
        return {
            "read": iso(self.now_us),
            "cpu_stats": {"cpu_usage": {"total_usage": ran_us * 250}},
            "memory_stats": {"usage": 1000, "stats": {"total_inactive_file": 0}},
            "blkio_stats": {"io_service_bytes_recursive": []},
            "networks": {"eth0": {"rx_bytes": ran_us // US * 7, "tx_bytes": 0}},
        }

    async def account(self, uses: Sequence[Use], metered: Sequence[Metered]) -> None:
        if self.record_error is not None:
            raise self.record_error
        self.uses += uses
        self.metered += metered

    def sampler(self, store: EmbeddedStats, **params: Any) -> Sampler:
        ports = SamplerPorts(
            self.stats,
            self.targets,
            self.seen.append,
            lambda: self.now_us,
            account=self.account,
        )
        return Sampler(store, ports, SamplerParams(**params))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStats]:
    opened = await EmbeddedStats.open(tmp_path / "stats.db")
    yield opened
    await opened.close()


async def sweep(fleet: Fleet, sampler: Sampler, times: int) -> None:
    for _ in range(times):
        fleet.now_us += 10 * US
        await sampler.sweep()


async def test_profiles_foreign_use_and_samples(store: EmbeddedStats) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store)
    await sweep(fleet, sampler, 3)
    assert fleet.seen[-1].profiles == ()  # three readings are two samples
    await sweep(fleet, sampler, 1)
    told = fleet.seen[-1]
    assert [profile.container for profile in told.profiles] == ["c1", "c4"]
    assert told.profiles[0].p90 == Resources(250, 1000, 0, 7)
    assert told.foreign == {"a": Resources(250, 1000, 0, 7), "b": Resources()}
    assert told.at_us == fleet.now_us
    executors = await store.series("job/0", 0, 2 * START_US)
    assert len(executors) == 3
    assert sampler.last is not None
    assert (sampler.last.containers, sampler.last.samples) == (4, 3)


async def test_what_is_used_now_is_what_was_told_last(store: EmbeddedStats) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store)
    assert sampler.loads().nodes == {}
    await sweep(fleet, sampler, 1)
    assert {load.used for load in sampler.loads().nodes.values()} == {None}
    await sweep(fleet, sampler, 1)
    loads = sampler.loads()
    assert loads.nodes["a"].used == Resources(750, 3000, 0, 21)
    assert loads.nodes["a"].containers.keys() == {"c1", "job/0"}
    fleet.broken["a"] = EngineUnclear("a does not answer")
    await sweep(fleet, sampler, 10)
    kept = sampler.loads().nodes
    assert sampler.loads().is_stale(kept["a"].taken_us, fleet.now_us)
    assert not sampler.loads().is_stale(kept["b"].taken_us, fleet.now_us)
    del fleet.nodes["a"]
    await sweep(fleet, sampler, 1)
    assert sampler.loads().nodes.keys() == {"b"}


async def test_a_large_fleet_is_told_of_some_nodes_at_a_time(store: EmbeddedStats) -> None:
    """The core reads each node anew whose use has changed: of a thousand that would be long."""
    fleet = Fleet()
    names = [f"n{number:03}" for number in range(2 * NODES_AT_ONCE + 1)]
    fleet.nodes = {
        name: [Target(f"{name}-s", "service", f"c-{name}", "app", START_US)] for name in names
    }
    await sweep(fleet, fleet.sampler(store, min_samples=1), 2)
    told = fleet.seen[-3:]
    assert [len(event.foreign) for event in told] == [NODES_AT_ONCE, NODES_AT_ONCE, 1]
    assert [name for event in told for name in event.foreign] == names
    for event in told:
        assert [profile.container for profile in event.profiles] == [
            f"c-{name}" for name in event.foreign
        ]


async def test_who_used_how_much_cpu_is_handed_on(store: EmbeddedStats) -> None:
    """Also of containers that are not ours, which bear no idle draw."""
    fleet = Fleet()
    sampler = fleet.sampler(store)
    await sweep(fleet, sampler, 3)
    begin, end = fleet.now_us - 10 * US, fleet.now_us
    used = 10 * US // 4
    found = {use.container: use for use in fleet.uses if use.node == "a" and use.end_us == end}
    assert found == {
        "c1": Use("a", "c1", begin, end, used, 100 * 10 * US),
        "": Use("a", "", begin, end, used, 0),
        "job/0": Use("a", "job/0", begin, end, used, 2000 * 10 * US),
    }
    assert len(fleet.uses) == 2 * 4
    fleet.record_error = StatsUnavailable("disk full")
    await sweep(fleet, sampler, 1)
    assert sampler.last is not None
    assert sampler.last.store_error == "disk full"
    assert len(await store.series("c1", 0, 2 * START_US)) == 3, "the samples are kept all the same"


async def test_a_broken_and_a_hanging_node_cost_their_own_samples(
    store: EmbeddedStats, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet()
    fleet.nodes["c"] = [Target("e9", "foreign")]
    fleet.broken["a"] = EngineUnclear("no route")
    fleet.hangs.add("b")
    sampler = fleet.sampler(store, timeout_us=US // 20)
    with caplog.at_level(logging.WARNING):
        await sweep(fleet, sampler, 2)
    assert sampler.last is not None
    assert sampler.last.failed == {"a": "no route", "b": "no answer in time"}
    assert set(fleet.seen[-1].foreign) == {"c"}  # what is not known is not told
    assert caplog.text.count("no statistics from node a") == 1


async def test_a_restart_loses_one_sample(store: EmbeddedStats) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store)
    await sweep(fleet, sampler, 2)
    fleet.restarted_us["e1"] = fleet.now_us
    await sweep(fleet, sampler, 2)
    assert len(await store.series("c1", 0, 2 * START_US)) == 2
    assert len(await store.series("c4", 0, 2 * START_US)) == 3


async def test_a_profile_begins_with_the_generation(store: EmbeddedStats) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store, min_samples=2)
    await sweep(fleet, sampler, 5)
    fleet.nodes["a"][0] = Target("e7", "service", "c1", "app", fleet.now_us + 1)
    await sweep(fleet, sampler, 2)
    assert "c1" not in {profile.container for profile in fleet.seen[-1].profiles}
    await sweep(fleet, sampler, 1)
    made = {profile.container: profile for profile in fleet.seen[-1].profiles}
    assert (made["c1"].samples, made["c4"].samples) == (2, 7)


async def test_profiles_per_sweep_are_bounded_and_take_turns(store: EmbeddedStats) -> None:
    fleet = Fleet()
    fleet.nodes = {"a": [Target(f"e{n}", "service", f"c{n}", "app", START_US) for n in range(5)]}
    sampler = fleet.sampler(store, profiles_per_sweep=2, min_samples=1)
    await sweep(fleet, sampler, 1)
    told: list[str] = []
    for _ in range(5):
        await sweep(fleet, sampler, 1)
        assert len(fleet.seen[-1].profiles) == 2
        told += [profile.container for profile in fleet.seen[-1].profiles]
    assert {told.count(f"c{n}") for n in range(5)} == {2}


async def test_an_app_is_learned_from_its_containers(store: EmbeddedStats) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store, apps_us=0)
    await sweep(fleet, sampler, 4)
    made = await store.app_profile("app")
    assert made is not None
    assert made.samples == 6
    assert await store.app_profile("jobapp") is None


async def test_a_failing_store_is_told_and_foreign_use_goes_on(
    store: EmbeddedStats, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store)
    await store.close()
    await sweep(fleet, sampler, 3)
    assert sampler.last is not None
    assert "closed" in sampler.last.store_error
    assert len(fleet.uses) == 2 * 4, "energy's record is another file"
    assert fleet.seen[-1].foreign["a"].memory_bytes == 1000
    assert caplog.text.count("statistics are not kept") == 1


async def test_run_sweeps_at_its_interval_until_cancelled(store: EmbeddedStats) -> None:
    fleet = Fleet()
    sampler = fleet.sampler(store, interval_us=US // 100)
    running = asyncio.create_task(sampler.run())
    async with asyncio.timeout(30):
        while len(fleet.seen) < 3:
            await asyncio.sleep(0.01)
            fleet.now_us += US
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_large_fleet_is_asked_a_part_at_a_time(store: EmbeddedStats) -> None:
    asked, most = 0, 0

    async def stats(node: str, engine_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        nonlocal asked, most
        asked += len(engine_ids)
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= len(engine_ids)
        return {key: fleet.raw(key) for key in engine_ids}

    fleet = Fleet()
    fleet.nodes = {
        f"n{n}": [Target(f"e{n}-{i}", "executor", f"j{n}/{i}", "a") for i in range(4)]
        for n in range(50)
    }
    ports = SamplerPorts(stats, fleet.targets, fleet.seen.append, lambda: fleet.now_us)
    sampler = Sampler(store, ports, SamplerParams(asked_at_once=20))
    await sampler.sweep()
    fleet.now_us += 30 * US
    assert (await sampler.sweep()).samples == 200
    assert most == 20


PARAMS = SamplerParams(min_samples=1)


class Agent:
    """An agent of node a: it sees the containers in ``sees``, and is away where that is None."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.sees: tuple[str, ...] | None = ("e1", "e2", "e3")
        self.asked: list[tuple[str, int]] = []
        self.engine_asked: list[str] = []
        self.kept: list[NodeReading] = []

    def look(self) -> None:
        """Make a reading of now."""
        at_us = self.fleet.now_us
        ran_us = at_us - START_US + 100 * US
        row = Reading(at_us, ran_us * 250, 1000, source="agent")
        total = Reading(at_us, ran_us * 900, 5000, source="agent")
        rows = dict.fromkeys(self.sees or (), row)
        self.kept.append(NodeReading(len(self.kept) + 1, at_us, rows, total))

    async def read(self, node: str, after: int) -> Told | None:
        self.asked.append((node, after))
        if node != "a" or self.sees is None:
            return None
        new = [r for r in self.kept if r.seq > after] if after else self.kept[-1:]
        return Told(tuple(new), frozenset(self.sees))

    async def stats(self, node: str, engine_ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        self.engine_asked += engine_ids
        return await self.fleet.stats(node, engine_ids)

    def sampler(self, store: EmbeddedStats, params: SamplerParams = PARAMS) -> Sampler:
        fleet = self.fleet
        ports = SamplerPorts(
            self.stats,
            fleet.targets,
            fleet.seen.append,
            lambda: fleet.now_us,
            self.read,
            lambda _: Resources(100),
        )
        return Sampler(store, ports, params)

    async def sweep(self, sampler: Sampler) -> None:
        self.fleet.now_us += 10 * US
        self.engine_asked.clear()
        self.look()
        await sampler.sweep()


async def test_what_the_agent_tells_the_engine_is_not_asked_for(store: EmbeddedStats) -> None:
    fleet = Fleet()
    agent = Agent(fleet)
    sampler = agent.sampler(store)
    await agent.sweep(sampler)
    await agent.sweep(sampler)
    assert agent.engine_asked == ["e4"]  # of the node without an agent
    assert agent.asked[-2:] == [("a", 1), ("b", 0)]
    assert len(await store.series("c1", 0, 2 * START_US)) == 1
    # the whole node less our two containers, less its reserve; the foreign container is within it
    assert fleet.seen[-1].foreign["a"] == Resources(900 - 500 - 100, 3000)
    fleet.nodes["a"].append(Target("e5", "service", "c5", "app", START_US))
    await agent.sweep(sampler)
    assert sorted(agent.engine_asked) == ["e4", "e5"]  # it is too young for the agent


async def test_an_agent_that_is_away_costs_a_sample_at_most(store: EmbeddedStats) -> None:
    fleet = Fleet()
    agent = Agent(fleet)
    sampler = agent.sampler(store)
    for _ in range(2):
        await agent.sweep(sampler)
    agent.sees = None
    for _ in range(3):
        await agent.sweep(sampler)
        assert sorted(agent.engine_asked) == ["e1", "e2", "e3", "e4"]
    assert len(await store.series("c1", 0, 2 * START_US)) == 1 + 2
    assert fleet.seen[-1].foreign["a"] == Resources(250, 1000, 0, 7)  # nobody tells the whole
    agent.sees = ("e1", "e2", "e3")
    for _ in range(2):
        await agent.sweep(sampler)
    assert len(await store.series("c1", 0, 2 * START_US)) == 1 + 2 + 1
    assert ("a", 0) in agent.asked[2:]  # what the engine told of is not told again


async def test_what_was_missed_is_taken_from_the_agent(store: EmbeddedStats) -> None:
    """The node was lost for a while: what its agent read meanwhile is fetched."""
    fleet = Fleet()
    agent = Agent(fleet)
    sampler = agent.sampler(store)
    for _ in range(2):
        await agent.sweep(sampler)
    lost = fleet.nodes.pop("a")
    for _ in range(3):
        await agent.sweep(sampler)
    fleet.nodes["a"] = lost
    await agent.sweep(sampler)
    assert len(await store.series("c1", 0, 2 * START_US)) == 1 + 3  # one of four is the new base


async def test_what_agents_kept_while_the_daemon_was_away_is_fetched(tmp_path: Path) -> None:
    fleet = Fleet()
    agent = Agent(fleet)
    store = await EmbeddedStats.open(tmp_path / "stats.db")
    sampler = agent.sampler(store)
    for _ in range(3):
        await agent.sweep(sampler)
    taken = [sample.at_us for sample in await store.series("c1", 0, 2 * START_US)]
    assert len(taken) == 2
    await store.close()  # and nothing of the sampler is left
    for _ in range(4):
        fleet.now_us += 10 * US
        agent.look()
    store = await EmbeddedStats.open(tmp_path / "stats.db")
    sampler = agent.sampler(store)
    agent.asked.clear()
    await agent.sweep(sampler)
    assert agent.asked[0] == ("a", 2)  # the third was taken: the fourth is compared with it
    series = await store.series("c1", 0, 2 * START_US)
    assert [sample.at_us for sample in series[2:]] == [
        fleet.now_us - n * 10 * US for n in (4, 3, 2, 1, 0)
    ]
    assert {sample.use.cpu_m for sample in series} == {250}
    profiles = await store.profiles({"c1": START_US}, 2 * START_US)
    assert profiles["c1"].samples == 7, "none twice"
    await agent.sweep(sampler)
    assert agent.asked[-2:] == [("a", 8), ("b", 0)]
    await store.close()


async def test_a_long_backlog_is_thinned_and_what_the_engine_told_is_not_asked_for(
    store: EmbeddedStats,
) -> None:
    fleet = Fleet()
    agent = Agent(fleet)
    sampler = agent.sampler(store)
    for _ in range(2):
        await agent.sweep(sampler)
    for _ in range(50):
        fleet.now_us += 10 * US
        agent.look()
    params = SamplerParams(min_samples=1, backlog_rows=4 * 6)  # of four containers
    await agent.sweep(agent.sampler(store, params))
    series = await store.series("c1", 0, 2 * START_US)
    assert len(series) == 1 + 5
    assert sum(sample.span_us for sample in series) == 52 * 10 * US
    assert await store.heard() == {"a": 53}
    agent.sees = None
    sampler = agent.sampler(store, params)
    for _ in range(2):
        await agent.sweep(sampler)
    assert await store.heard() == {}


async def test_agents_of_nodes_that_never_come_back_are_forgotten(store: EmbeddedStats) -> None:
    gone = {f"cloud-{n}": n + 1 for n in range(MOST_HEARD)}
    await store.write([], gone)
    agent = Agent(Fleet())
    agent.kept = [NodeReading(MOST_HEARD + 1, START_US, {})]
    agent.look()
    agent.kept[-1] = NodeReading(MOST_HEARD + 2, agent.fleet.now_us, {})
    await agent.sampler(store).sweep()
    heard = await store.heard()
    assert len(heard) == MOST_HEARD
    assert heard["a"] == MOST_HEARD + 2
    assert "cloud-0" not in heard
    assert "cloud-1" in heard
