"""The agent's controller as a process: set from afar, kept over restarts, looked after."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import aiohttp
import pytest

from tenure.agent.io.client import AgentAway, AgentClient
from tenure.config.certificates import client_context
from tenure.daemon.effects.lending import Lending
from tenure.model.events import Event, GuardSeen, HarvestReported
from tenure.model.node import AgentSpec, NodeSpec
from tenure.model.outcome import Done
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.qos.wire import revision_of
from testbed import tied
from tests.agent.trees import HOST, A, v1, write

ROOT = Path(__file__).parents[2]
PARAMS = QosParams(period_us=50_000)
WAIT_S = 60.0


class Running:
    """An agent on a made node, over all its lives."""

    def __init__(self, folder: Path) -> None:
        self.root = write(folder / "root", HOST, v1("n", 9), v1("n/tenure-harvest", 8))
        self.state, self.socket = folder / "state", folder / "a.sock"
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def spec(self) -> AgentSpec:
        return AgentSpec(f"unix://{self.socket}")

    def start(self) -> None:
        words = ["--listen", f"unix://{self.socket}", "--root", str(self.root)]
        words += ["--node-cgroup", "/n", "--state-dir", str(self.state)]
        argv = [sys.executable, "-m", "tenure.cli.daemon", "agent", *words]
        self.socket.unlink(missing_ok=True)
        with self._log.open("ab") as log:
            self._process = tied.start(argv, cwd=ROOT, stderr=log)

    def end(self, sign: int) -> int:
        assert self._process is not None
        os.kill(self._process.pid, sign)
        return self._process.wait(WAIT_S)

    @property
    def quota_us(self) -> int:
        path = self.root / "sys/fs/cgroup/cpu/n/tenure-harvest/cpu.cfs_quota_us"
        return int(path.read_text() or 0)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    if made._process is not None and made._process.poll() is None:
        assert made.end(signal.SIGTERM) == 0


@pytest.fixture
async def client(agent: Running) -> AsyncIterator[AgentClient]:
    made = AgentClient(agent.spec, client_context)
    yield made
    await made.close()


async def until(condition: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.02)
    assert condition(), what


async def answered(client: AgentClient) -> str:
    """Wait until it serves; returns the revision of its parameters."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return str((await client.actions(0)).status["revision"])
            except AgentAway:
                await asyncio.sleep(0.05)


async def test_it_is_set_from_afar_and_remembers(agent: Running, client: AgentClient) -> None:
    assert await answered(client) == ""
    assert agent.quota_us == 150_000  # off: nothing is touched
    await client.set_params(PARAMS)
    await until(lambda: agent.quota_us not in (1_000, 150_000), "the law's quota")
    before = await client.actions(0)
    assert before.status["revision"] == revision_of(PARAMS)
    assert before.status["cgroup_parent"] == "/n/tenure-harvest"
    assert before.actions[0].kind == "quota"
    assert agent.end(signal.SIGKILL) == -signal.SIGKILL
    agent.start()
    assert await answered(client) == revision_of(PARAMS)
    after = await client.actions(0)
    assert after.actions[: len(before.actions)] == before.actions
    assert [a.seq for a in after.actions] == sorted({a.seq for a in after.actions})
    (agent.root / "sys/fs/cgroup/cpu/n/tenure-harvest/cpu.cfs_quota_us").write_text("77777\n")
    await until(lambda: agent.quota_us != 77_777, "it protects without having been told again")
    assert agent.end(signal.SIGTERM) == 0
    assert agent.quota_us == 1_000  # nobody looks after the owners: its floor


async def test_faulty_parameters_change_nothing(agent: Running, client: AgentClient) -> None:
    await answered(client)
    with pytest.raises(AgentAway, match="floor_m"):
        await client.set_params(replace(PARAMS, floor_m=1))
    connector = aiohttp.UnixConnector(str(agent.socket))
    async with aiohttp.ClientSession(connector=connector) as session:
        for body in (b"", b"[]", b"{}", b'{"revision": ""}', b'{"revision": "r", "params": 5}'):
            async with session.put("http://a/params", data=body) as answer:
                assert answer.status == 422, body
                assert (await answer.json(content_type=None))["code"] == "invalid_input"
        async with session.put("http://a/params", data=b" " * 20_000) as answer:
            assert answer.status == 413
        async with session.get("http://a/actions?after=x") as answer:
            assert answer.status == 422
    assert await answered(client) == ""


async def test_lateness_is_a_histogram(agent: Running, client: AgentClient) -> None:
    await answered(client)
    await client.set_params(PARAMS)
    await until(lambda: agent.quota_us != 150_000, "a first look")
    connector = aiohttp.UnixConnector(str(agent.socket))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.get("http://a/metrics") as answer,
    ):
        rows = (await answer.text()).splitlines()
    found = {row.rpartition(" ")[0]: float(row.rpartition(" ")[2]) for row in rows if row[0] != "#"}
    name = "tenure_agent_lateness_seconds"
    assert found[f'{name}_bucket{{le="+Inf"}}'] == found[f"{name}_count"] >= 1
    assert found[f'{name}_bucket{{le="0.01"}}'] <= found[f"{name}_count"]
    assert found["tenure_agent_rss_bytes"] > 0
    assert found["tenure_agent_loop_cpu_seconds_total"] > 0


def reports(events: list[Event]) -> list[HarvestReported]:
    return [event for event in events if isinstance(event, HarvestReported)]


async def test_the_daemon_sets_it_and_takes_what_it_did_once(
    agent: Running, client: AgentClient
) -> None:
    await answered(client)
    events: list[Event] = []
    published = 0

    def lend(capacity: Resources | None = None) -> Lending:
        made = Lending(lambda _: client, lambda _: published, lambda make: events.append(make(7)))
        spec = NodeSpec(A, "unix:///e", "nursery", agent=agent.spec, harvest=PARAMS)
        made.configure([replace(spec, capacity=capacity, reserve=Resources(500, 1))])
        return made

    lending = lend()
    running = asyncio.create_task(lending.run())
    try:
        await until(lambda: reports(events), "actions that are told")
        assert lending.lent[A].status["revision"] == revision_of(PARAMS)
        assert lending.lent[A].fault == ""
        assert lending.lent[A].numbers["quota_m"] is not None
        agent.end(signal.SIGKILL)
        await until(lambda: lending.lent[A].fault, "that the agent is away")
        agent.start()
        await until(lambda: not lending.lent[A].fault, "that it is back")
    finally:
        running.cancel()
    told = reports(events)
    guards = [event.guard for event in events if isinstance(event, GuardSeen)]
    assert [is_away for is_away, _ in groupby(guards, lambda guard: bool(guard.fault))] == [0, 1, 0]
    assert all(
        (guard.mode, guard.cgroup_parent) == ("act", "/n/tenure-harvest") for guard in guards
    )
    seqs = [action.seq for report in told for action in report.actions]
    assert seqs == sorted(set(seqs))
    # a daemon that restarts goes on from what it has published, with the capacity that is stated
    published, fresh = seqs[-1], len(told)
    again = lend(Resources(1500, 1000))
    await again._look(A)
    assert all(a.seq > published for report in reports(events)[fresh:] for a in report.actions)
    looks = again.lent[A].status["looks"]
    assert isinstance(await again.cover(A), Done)
    later = (await client.actions(published)).status["looks"]
    assert isinstance(looks, int)
    assert isinstance(later, int)
    assert later > looks  # past what it was amid of
    wanted = replace(PARAMS, cpu_m=1000, memory_bytes=999)
    assert await answered(client) == revision_of(wanted)
    again.configure([NodeSpec(A, "unix:///e", "nursery", agent=agent.spec)])
    await again._look(A)  # no longer lent: it is told to let go
    assert json.loads((agent.state / "harvest.json").read_text())["params"]["mode"] == "off"
