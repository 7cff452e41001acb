"""Calls to a server that answers as no engine should: over real sockets, in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from aiohttp import web

from tenure.engines.engine import Engine
from tenure.engines.http.errors import EngineAnswer, EngineUnreachable
from tenure.engines.http.transport import SHORT_CALLS, Timeouts, Transport
from tenure.model.effects import CreateContainer, StartContainer
from tenure.model.errors import EngineError, EngineUnclear, InvalidInput
from tenure.model.outcome import Done, Refused, Unknown

T = TypeVar("T")
TIMES = Timeouts(connect_s=30.0, ping_s=30.0, read_s=30.0)  # nothing here is to take so long
LABELS = {"tenure.fleet": "f", "tenure.job": "j"}


class Odd:
    """A server whose answers a test chooses: ``answer`` gets each request but the pings."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.version = "1.41"
        self.answer: Callable[[web.BaseRequest], web.StreamResponse] = lambda _: web.Response(
            text="[]"
        )
        self.hold = asyncio.Event()
        self.hold.set()
        self.at_once = 0
        self.most_at_once = 0
        self.is_full = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/_ping":
            return web.Response(text="OK", headers={"Api-Version": self.version})
        self.asked.append(f"{request.method} {request.path}")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.at_once >= SHORT_CALLS:
            self.is_full.set()
        try:
            await self.hold.wait()
            return self.answer(request)
        finally:
            self.at_once -= 1


@asynccontextmanager
async def serving(odd: Odd) -> AsyncIterator[str]:
    server = web.Server(odd.handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"tcp://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def odd() -> Odd:
    return Odd()


@pytest.fixture
async def url(odd: Odd) -> AsyncIterator[str]:
    async with serving(odd) as served:
        yield served


@pytest.fixture
async def transport(url: str) -> AsyncIterator[Transport]:
    made = Transport(url, TIMES)
    yield made
    await made.close()


async def _unkept(key: str, content: bytes) -> None:
    raise AssertionError(f"{key}: nothing is retired here")


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Engine]:
    made = Engine(url, _unkept, timeouts=TIMES)
    yield made
    await made.close()


def _json(status: int, value: object) -> Callable[[web.BaseRequest], web.Response]:
    return lambda _: web.json_response(value, status=status)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, '{"message": "no"}', EngineAnswer),
        (404, "not JSON", EngineAnswer),
        (409, '{"message": "no"}', EngineAnswer),
        (500, '{"message": "no"}', EngineAnswer),
        (501, '{"message": "no"}', EngineAnswer),
        (500, "<html>proxy</html>", EngineUnclear),
        (500, '{"error": "not Docker"}', EngineUnclear),
        (408, '{"message": "slow"}', EngineUnclear),
        (502, '{"message": "bad gateway"}', EngineUnclear),
        (503, '{"message": "containerd is away"}', EngineUnclear),
        (504, "", EngineUnclear),
        (200, "not JSON", EngineUnclear),
    ],
)
async def test_what_an_answer_means(
    odd: Odd, transport: Transport, status: int, body: str, kind: type[EngineError]
) -> None:
    odd.answer = lambda _: web.Response(status=status, text=body)
    with pytest.raises(kind):
        await transport.read("/info")


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_an_effect_with_an_unclear_answer_is_sent_once(
    odd: Odd, engine: Engine, status: int
) -> None:
    odd.answer = lambda _: web.Response(status=status, text="proxy")
    assert isinstance(await engine.perform(StartContainer("e", "o", "n", "abc")), Unknown)
    assert odd.asked == ["POST /v1.41/containers/abc/start"]


async def test_a_start_that_failed_though_it_runs_is_done(odd: Odd, engine: Engine) -> None:
    def answer(request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            return web.json_response({"message": "timeout"}, status=500)
        return web.json_response({"Id": "abc", "State": {"Status": "running"}})

    odd.answer = answer
    assert await engine.perform(StartContainer("e", "o", "n", "abc")) == Done()


async def test_reads_are_tried_again_and_bounded(odd: Odd, transport: Transport) -> None:
    odd.answer = _json(503, {"message": "soon"})
    with pytest.raises(EngineUnclear):
        await transport.read("/info")
    assert len(odd.asked) == 3
    odd.asked.clear()
    odd.answer = _json(500, {"message": "no"})
    with pytest.raises(EngineAnswer):
        await transport.read("/info")
    assert len(odd.asked) == 1


async def test_a_read_recovers_from_a_broken_connection(odd: Odd, transport: Transport) -> None:
    def answer(request: web.BaseRequest) -> web.Response:
        if len(odd.asked) <= 2:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ID": "x"})

    odd.answer = answer
    assert await transport.read("/info") == {"ID": "x"}


async def test_redirects_are_not_followed(odd: Odd, transport: Transport) -> None:
    odd.answer = lambda _: web.Response(status=301, headers={"Location": "/elsewhere"})
    with pytest.raises(EngineUnclear):
        await transport.read("/info")
    assert len(odd.asked) == 1


async def test_at_most_eight_short_calls(odd: Odd, transport: Transport) -> None:
    odd.hold.clear()
    reads = [asyncio.create_task(transport.read("/info")) for _ in range(30)]
    await odd.is_full.wait()
    await asyncio.sleep(0.1)  # time in which a ninth call would come
    odd.hold.set()
    assert await asyncio.gather(*reads) == [[]] * 30
    assert odd.most_at_once == SHORT_CALLS


async def test_pings_pass_a_busy_engine(odd: Odd, transport: Transport) -> None:
    odd.hold.clear()
    reads = [asyncio.create_task(transport.read("/info")) for _ in range(30)]
    await odd.is_full.wait()
    await transport.ping()
    odd.hold.set()
    await asyncio.gather(*reads)


@pytest.mark.parametrize(
    ("offered", "spoken"), [("1.41", "1.41"), ("1.52", "1.44"), ("1.43", "1.43"), ("odd", "1.44")]
)
async def test_the_version_spoken(
    odd: Odd, transport: Transport, offered: str, spoken: str
) -> None:
    odd.version = offered
    await transport.read("/info")
    assert odd.asked == [f"GET /v{spoken}/info"]


async def test_an_engine_that_is_too_old(odd: Odd, transport: Transport) -> None:
    odd.version = "1.40"
    with pytest.raises(EngineUnreachable, match=r"it speaks API 1\.40; 1\.41 \(Docker 20\.10\)"):
        await transport.ping()
    assert odd.asked == []


def test_tls_without_an_authority_trusts_nobody() -> None:
    with pytest.raises(InvalidInput, match=r"tls\.ca"):
        Transport("https://host:2376", TIMES)


async def test_nobody_there() -> None:
    engine = Engine("tcp://127.0.0.1:1", _unkept, timeouts=TIMES)
    with pytest.raises(EngineUnreachable):
        await engine.ping()
    outcome = await engine.perform(StartContainer("e", "o", "n", "abc"))
    assert isinstance(outcome, Refused)
    assert outcome.code == "unreachable"
    assert await engine.has_registry_image("x") is None
    missing = Engine("unix:///no/such/socket", _unkept, timeouts=TIMES)
    with pytest.raises(
        EngineUnreachable, match=r"unix socket /no/such/socket \[No such file"
    ) as told:
        await missing.listing()
    assert "ssl" not in str(told.value)
    await engine.close()
    await missing.close()


@pytest.mark.parametrize(
    "document",
    [[], {}, {"Id": 5, "State": 5}, {"Id": "a", "State": {"ExitCode": "x", "Status": "exited"}}],
)
async def test_odd_documents_are_unclear(odd: Odd, engine: Engine, document: object) -> None:
    odd.answer = _json(200, document)
    with pytest.raises(EngineUnclear):
        await engine.inspect("abc")


@pytest.mark.parametrize("rows", [{}, [5], [{}], [{"Id": "a", "Labels": 5}], "rows"])
async def test_odd_listings_are_unclear(odd: Odd, engine: Engine, rows: object) -> None:
    odd.answer = _json(200, rows)
    with pytest.raises(EngineUnclear):
        await engine.listing()


@pytest.mark.parametrize("answer", [{}, {"Id": ""}, {"Id": 5}, [], "id"])
async def test_a_create_without_an_id_is_unknown(odd: Odd, engine: Engine, answer: object) -> None:
    odd.answer = _json(201, answer)
    effect = CreateContainer("e", "o", "n", "name", {"Image": "i", "Labels": LABELS})
    assert isinstance(await engine.perform(effect), Unknown)


async def test_a_vanished_container_is_left_out_of_the_listing(odd: Odd, engine: Engine) -> None:
    def answer(request: web.BaseRequest) -> web.Response:
        if request.path.endswith("/containers/json"):
            row = {"Id": "gone", "State": "exited", "Labels": LABELS}
            return web.json_response([row, {"Id": "alien", "State": "running"}])
        return web.json_response({"message": "gone"}, status=404)

    odd.answer = answer
    assert [facts.engine_id for facts in await engine.listing()] == ["alien"]


async def test_a_name_that_is_being_freed_is_waited_for(odd: Odd, engine: Engine) -> None:
    """The old copy is going: adopting it would be wrong, its name is free soon."""
    creates = 0

    def answer(request: web.BaseRequest) -> web.Response:
        nonlocal creates
        if request.method == "POST":
            creates += 1
            if creates < 3:
                return web.json_response({"message": "in use"}, status=409)
            return web.json_response({"Id": "new"}, status=201)
        old = {"Id": "old", "State": {"Status": "removing"}, "Config": {"Labels": LABELS}}
        return web.json_response(old)

    odd.answer = answer
    effect = CreateContainer("e", "o", "n", "name", {"Image": "i", "Labels": LABELS})
    assert await engine.perform(effect) == Done("new")


async def test_a_body_goes_as_it_is(odd: Odd, engine: Engine) -> None:
    bodies: list[object] = []

    class Reading(Odd):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            if request.method == "POST":
                bodies.append(json.loads(await request.text()))
            return await super().handle(request)

    reading = Reading()
    reading.answer = _json(201, {"Id": "new"})
    content = {"Image": "i", "Labels": LABELS, "Future": {"Field": [1, None, {"ä": 0.5}]}}
    async with serving(reading) as url:
        made = Engine(url, _unkept, timeouts=TIMES)
        assert await made.perform(CreateContainer("e", "o", "n", "x", content)) == Done("new")
        await made.close()
    assert bodies == [content]


async def _take(stream: AsyncIterator[T], into: list[T]) -> None:
    async for item in stream:
        into.append(item)


async def test_an_event_stream_that_ends_properly_is_an_error(odd: Odd, engine: Engine) -> None:
    odd.answer = lambda _: web.Response(text='{"Action": "start"}\n{"Action": "die"}\n')
    events: list[dict[str, object]] = []
    with pytest.raises(EngineUnclear, match="ended"):
        await _take(engine.events(), events)
    assert [event["Action"] for event in events] == ["start", "die"]


async def test_a_container_that_is_being_removed_has_no_log(odd: Odd, engine: Engine) -> None:
    """A command that cannot start failed with this in place of its own reason."""
    dead = "can not get logs from container which is dead or marked for removal"

    def answer(request: web.BaseRequest) -> web.Response:
        if request.path.endswith("/logs"):
            return web.json_response({"message": dead}, status=409)
        return web.json_response({"Id": "abc", "Config": {"Tty": False}})

    odd.answer = answer
    with pytest.raises(EngineAnswer, match="marked for removal") as told:
        await engine.logs("abc")
    assert (told.value.http_status, told.value.code) == (404, "not_found")
    with pytest.raises(EngineAnswer, match="marked for removal") as told:
        await _take(engine.follow_logs("abc"), [])
    assert (told.value.http_status, told.value.code) == (404, "not_found")


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_log_that_ends_properly_is_at_its_end_if_the_container_is(
    odd: Odd, engine: Engine, is_running: bool
) -> None:
    def answer(request: web.BaseRequest) -> web.Response:
        if request.path.endswith("/logs"):
            return web.Response(body=b"\x01\0\0\0\0\0\0\x03abc")
        return web.json_response({"Id": "abc", "State": {"Running": is_running}})

    odd.answer = answer
    pieces: list[bytes] = []
    try:
        await _take(engine.follow_logs("abc"), pieces)
        has_ended = True
    except EngineUnclear:
        has_ended = False
    assert pieces == [b"abc"]
    assert has_ended is not is_running


async def test_junk_in_a_stream_is_an_error(odd: Odd, engine: Engine) -> None:
    odd.answer = lambda _: web.Response(text="<html>\n")
    events: list[dict[str, object]] = []
    with pytest.raises(EngineUnclear):
        await _take(engine.events(), events)
    assert events == []
