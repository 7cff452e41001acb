"""The daemon's agents: told of once, counted at each try, let go of with the configuration."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tenure.agent.io.client import AgentAway, AgentClient
from tenure.config import certificates
from tenure.daemon.effects.agents import Agents
from tenure.model.access import TlsFiles
from tenure.model.errors import InvalidInput
from tenure.model.node import AgentSpec, NodeSpec
from tenure.profiling.readings.sample import EnergyReading, NodeReading, Reading
from tenure.profiling.readings.wire import encode


def spec(path: Path) -> NodeSpec:
    return NodeSpec("n", "unix:///e.sock", "nursery", agent=AgentSpec(f"unix://{path}"))


class Far:
    """The other end: answers what the test says, or waits until it says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[dict[str, str]] = []
        self.body: object = {}
        self.elsewhere = ""
        self.go = asyncio.Event()
        self.go.set()
        self.came = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.query))
        self.came.set()
        await self.go.wait()
        if self.elsewhere and request.path == "/samples":
            raise web.HTTPFound(self.elsewhere)
        return web.json_response(self.body)

    def read(self, *seqs: int, age_us: int = 0) -> None:
        """Have these readings answered."""
        row = Reading(1, 1, 1, source="agent")
        energy = EnergyReading(9, 1, 7)
        rows = [NodeReading(seq, seq, {"c": row}, row, energy) for seq in seqs]
        self.body = json.loads(encode(rows, age_us=age_us, interval_us=5_000_000))


@pytest.fixture
async def far(tmp_path: Path) -> AsyncIterator[Far]:
    made = Far(tmp_path / "a.sock")
    app = web.Application()
    app.router.add_get("/{path}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(made.path)).start()
    yield made
    made.go.set()
    await runner.cleanup()


@pytest.fixture
async def agents(far: Far) -> AsyncIterator[Agents]:
    made = Agents(30_000_000)
    made.configure([spec(far.path)])
    yield made
    await made.close()


async def test_what_is_new_is_asked_for_at_the_daemons_interval(far: Far, agents: Agents) -> None:
    assert await agents.read("other", 0) is None
    far.read(5)
    told = await agents.read("n", 0)
    assert told is not None
    assert [reading.seq for reading in told.readings] == [5]
    far.read(3, 4, 5)  # a day apart: what was taken before a restart must not be taken twice
    told = await agents.read("n", 0)
    assert told is not None
    assert [reading.seq for reading in told.readings] == [5]
    far.read()
    told = await agents.read("n", 5)
    assert told is not None
    assert (told.readings, told.present) == (
        (),
        frozenset({"c"}),
    )  # nothing new, and it still sees it
    first, later = {"after": "0", "every_s": "86400"}, {"after": "5", "every_s": "30"}
    assert far.asked == [first, first, later]
    assert agents.energy["n"].energy_uj == 7


async def test_one_that_is_away_is_told_of_once(
    far: Far, agents: Agents, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    bodies: list[object] = [[], {"version": 9, "readings": []}, "no"]
    for body in bodies:
        far.body = body
        assert await agents.read("n", 0) is None
    far.read(5, age_us=60_000_000)  # it answers, and reads nothing any more
    assert await agents.read("n", 0) is None
    assert agents.failures["n"] == 4
    assert "60 s old" in agents.away["n"]
    assert caplog.text.count("is away") == 1
    far.read(6)
    assert await agents.read("n", 0) is not None
    assert agents.away == {}
    assert "answers again" in caplog.text


async def test_one_that_is_let_go_of_while_it_is_asked(far: Far, agents: Agents) -> None:
    far.go.clear()
    asking = asyncio.create_task(agents.read("n", 0))
    async with asyncio.timeout(30):
        await far.came.wait()
    agents.configure([])
    assert await asking is None
    assert (agents.names, agents.away) == ([], {})


async def test_it_does_not_send_the_daemon_elsewhere(far: Far, agents: Agents) -> None:
    far.read(5)
    far.elsewhere = "http://localhost/other"
    assert await agents.read("n", 0) is None
    assert "status 302" in agents.away["n"]
    assert len(far.asked) == 1


async def test_what_it_says_in_a_fault_is_bounded(far: Far, agents: Agents) -> None:
    far.body = {"version": "x" * 100_000, "readings": []}
    assert await agents.read("n", 0) is None
    assert len(agents.away["n"]) < 300


async def test_the_systems_authorities_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty milliseconds of the loop for each of a thousand nodes is longer than the watchdog."""
    asked: list[TlsFiles] = []

    def make(files: TlsFiles) -> ssl.SSLContext:
        asked.append(files)
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr("tenure.daemon.effects.agents.client_context", make)
    (tmp_path / "token").write_text("x" * 43)
    own = TlsFiles("ca.pem")
    ways = [AgentSpec("https://127.0.0.1:1", str(tmp_path / "token"), tls) for tls in (None, own)]
    names = [f"n{number}" for number in range(6)]
    agents = Agents(30_000_000)
    agents.configure(
        [NodeSpec(n, f"unix:///{n}", "nursery", agent=ways[k % 2]) for k, n in enumerate(names)]
    )
    for name in names:
        assert await agents.read(name, 0) is None
    await agents.close()
    assert asked == [TlsFiles(), own]


async def test_renewed_files_count_from_the_next_question_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[TlsFiles] = []

    def make(files: TlsFiles) -> ssl.SSLContext:
        asked.append(files)
        if "PEM" not in Path(files.ca).read_text():
            raise InvalidInput("no certificate")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    monkeypatch.setattr("tenure.daemon.effects.agents.client_context", make)
    monkeypatch.setattr("tenure.engines.http.access.LOOK_EVERY_S", 0.0)
    ca, token = tmp_path / "ca.pem", tmp_path / "token"
    ca.write_text("nothing yet")
    token.write_text("x" * 43)
    agents = Agents(30_000_000)
    way = AgentSpec("https://127.0.0.1:1", str(token), TlsFiles(str(ca)))
    agents.configure([NodeSpec("n", "unix:///n", "nursery", agent=way)])
    told = []
    for content in ("nothing yet", "PEM", "PEM", "half of it", "PEM of later"):
        ca.write_text(content)
        assert await agents.read("n", 0) is None
        told.append((len(asked), "no TLS" in agents.away["n"]))
    await agents.close()
    assert told[0] == (1, True)
    assert not any(is_faulty for _, is_faulty in told[1:]), "the old one stays in use"
    assert told[-1][0] > told[1][0] > 1


async def test_one_that_was_not_asked_yet_is_neither_up_nor_down(far: Far, agents: Agents) -> None:
    seen = [agents.state_of("n").is_up]
    far.read(5)
    await agents.read("n", 0)
    seen.append(agents.state_of("n").is_up)
    far.body = "no"
    await agents.read("n", 0)
    seen.append(agents.state_of("n").is_up)
    agents.configure([])
    agents.configure([spec(far.path)])
    assert [*seen, agents.state_of("n").is_up] == [None, True, False, None]


def test_a_file_that_goes_while_it_is_read_is_a_fault_of_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who renews certificates may remove them first: an agent that raised would end."""
    monkeypatch.setattr(certificates, "_require_readable", lambda part, path: None)
    gone = str(tmp_path / "gone.pem")
    for files, part in ((TlsFiles(gone), "ca"), (TlsFiles("", gone, gone), "cert")):
        with pytest.raises(InvalidInput, match=r"gone\.pem") as caught:
            certificates.client_context(files)
        assert [fault.path for fault in caught.value.fields] == [part]


async def test_an_agent_that_is_not_there_is_told_of_in_plain_words(tmp_path: Path) -> None:
    client = AgentClient(AgentSpec(f"unix://{tmp_path}/none"), certificates.client_context)
    with pytest.raises(AgentAway, match=r"none \[No such file or directory\]$"):
        await client.actions(0)
    await client.close()
