"""What is sent to an engine as it comes, what is left out of it, and how it ends."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tenure.engines.containers.checkpoint import connections
from tenure.engines.http.errors import EngineAnswer
from tenure.engines.http.transport import Timeouts, Transport
from tenure.engines.moves.images import Counted, _thinned
from tenure.engines.moves.passage import Passage
from tenure.model.effects import TransferState
from tenure.model.errors import EngineUnclear
from tenure.model.outcome import Unknown
from tests.unit.engines.test_engines_transport import Odd, serving

TIMES = Timeouts(connect_s=30.0, ping_s=2.0, read_s=30.0, quiet_s=0.1)
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:1388 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 2 1
   2: 0100007F:D431 0100007F:1388 06 00000000:00000000 00:00000000 00000000     0        0 3 1
   3: 0100007F:D432 0100007F:1388 08 00000000:00000000 00:00000000 00000000     0        0 4 1
"""


class Sink:
    """A server that takes uploads, until it freezes: then it answers nothing at all."""

    def __init__(self) -> None:
        self.is_frozen = False
        self.status = 200
        self.taken = b""
        self.encodings: list[str | None] = []
        self.over = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/_ping" and not self.is_frozen:
            return web.Response(text="OK", headers={"Api-Version": "1.41"})
        self.encodings.append(request.headers.get("Accept-Encoding"))
        if self.is_frozen:
            await self.over.wait()
        self.taken = await request.read()
        return web.json_response({"message": "told"}, status=self.status)


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    made = Sink()
    yield made
    made.over.set()


@pytest.fixture
async def transport(sink: Sink) -> AsyncIterator[Transport]:
    runner = web.ServerRunner(web.Server(sink.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made = Transport(f"tcp://127.0.0.1:{runner.addresses[0][1]}", TIMES)
    yield made
    await made.close()
    sink.over.set()
    await runner.cleanup()


async def chunks(*parts: bytes | Exception) -> AsyncIterator[bytes]:
    for part in parts:
        if isinstance(part, Exception):
            raise part
        yield part


async def test_an_upload_arrives_whole(sink: Sink, transport: Transport) -> None:
    counted = Counted(chunks(b"one", b"two"))
    await transport.upload("PUT", "/x", {"path": "/a b"}, counted)
    assert (sink.taken, counted.total) == (b"onetwo", 6)


async def test_what_the_source_raises_ends_the_upload(transport: Transport) -> None:
    failure = EngineAnswer(404, "no such checkpoint")
    with pytest.raises(EngineAnswer, match="no such checkpoint"):
        await transport.upload("PUT", "/x", {}, chunks(b"one", failure))


async def test_a_refusal_is_the_engine_s_own(sink: Sink, transport: Transport) -> None:
    sink.status = 500
    with pytest.raises(EngineAnswer, match="told"):
        await transport.upload("PUT", "/x", {}, chunks(b"one"))


async def test_an_archive_is_asked_for_as_it_is(sink: Sink, transport: Transport) -> None:
    """An engine packs it otherwise, at a fifth of the speed."""
    async with transport.stream("/containers/x/archive", {"path": "/a"}) as found:
        async for _ in found:
            pass
    assert sink.encodings == ["identity"]


async def test_an_engine_that_freezes_ends_the_upload(sink: Sink, transport: Transport) -> None:
    await transport.ping()
    sink.is_frozen = True
    async with asyncio.timeout(30):
        with pytest.raises(EngineUnclear):
            await transport.upload("PUT", "/x", {}, chunks(b"one"))


async def test_more_than_the_limit_is_not_passed_on() -> None:
    counted = Counted(chunks(b"12", b"345"), limit_bytes=4)
    passed = []

    async def take() -> None:
        async for chunk in counted:
            passed.append(chunk)

    with pytest.raises(EngineUnclear):
        await take()
    assert (passed, counted.is_beyond) == ([b"12"], True)


def saved(*layers: str) -> io.BytesIO:
    """An image's archive, of which each layer's file holds its own name."""
    made = io.BytesIO()
    files = {f"{name}/layer.tar": name for name in layers}
    manifest = json.dumps([{"Layers": [f"{name}/layer.tar" for name in layers]}])
    with tarfile.open(fileobj=made, mode="w") as out:
        for name, content in (files | {"manifest.json": manifest, "config.json": "{}"}).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            out.addfile(entry, io.BytesIO(content.encode()))
    return made


@pytest.mark.parametrize(
    ("known", "left"),
    [
        (1, ["b/layer.tar", "c/layer.tar"]),
        (2, ["c/layer.tar"]),
        (3, []),
    ],
)
def test_layers_that_the_target_has_are_left_out(known: int, left: list[str]) -> None:
    with _thinned(saved("a", "b", "c"), known) as thin, tarfile.open(fileobj=thin) as found:
        assert found.getnames() == [*left, "manifest.json", "config.json"]


def test_a_layer_that_comes_again_higher_up_is_sent() -> None:
    with _thinned(saved("a", "b", "a"), 2) as thin, tarfile.open(fileobj=thin) as found:
        assert "a/layer.tar" in found.getnames()
        assert "b/layer.tar" not in found.getnames()


def test_connections_that_cannot_be_kept_are_counted() -> None:
    assert connections(TABLE) == 2
    assert connections("sh: cat: not found\r\n") == 0
    assert connections("") == 0


async def test_an_engine_that_does_not_say_where_its_containers_lie_is_sent_no_checkpoint() -> None:
    odd = Odd()
    odd.answer = lambda _: web.json_response({"Id": "c1", "Image": "sha256:1"})
    effect = TransferState(
        "e1", "a", "n", "c1", source="m", source_id="c0", container="s1", checkpoint="k"
    )
    async with serving(odd) as url:
        there, here = Transport(url, TIMES), Transport(url, TIMES)
        outcome = await Passage(there, here).perform(effect)
        await asyncio.gather(there.close(), here.close())
    assert outcome == Unknown("/info: the answer has no DockerRootDir")
    assert not [asked for asked in odd.asked if asked.startswith("POST")]
