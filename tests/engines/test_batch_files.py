"""Inputs into containers and outputs out of them, on a real engine, over a link that may lie."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import pytest

from tenure.engines.engine import Engine
from tenure.model.batch import InputFile, Part
from tenure.model.effects import CollectOutput, FileEffect, SendInput
from tenure.model.outcome import Done, Outcome, Refused
from testbed import Node
from tests.engines.conftest import QUICK
from tests.engines.lab import Kept, Lab

pytestmark = pytest.mark.engines
WORDS = b"INTACT words\n"


def source(path: Path) -> InputFile:
    found = path.stat()
    return InputFile(str(path), found.st_size, found.st_mtime_ns)


def sending(engine_id: str, path: Path, *, offset: int = 0, length: int = -1) -> SendInput:
    length = path.stat().st_size if length < 0 else length
    part = Part("chunk", str(path), offset, length)
    return SendInput("e1", "task:b/0", "node1", engine_id, (part,), source(path))


def collecting(engine_id: str, limit_bytes: int = 1 << 20) -> CollectOutput:
    return CollectOutput("e2", "task:b/0", "node1", engine_id, "b/00000", limit_bytes)


class Link:
    """A link to an engine that spoils the first ``count`` inputs that pass over it."""

    def __init__(self, target: str, count: int) -> None:
        self._target, self._left = target, count

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_unix_connection(self._target)
        with closing(writer), closing(here):
            ways = [_passed(reader, here, self._spoil), _passed(there, writer, bytes)]
            await asyncio.gather(*ways)

    def _spoil(self, data: bytes) -> bytes:
        if self._left and WORDS in data:
            self._left -= 1
            return data.replace(b"INTACT", b"BROKEN")
        return data


async def _passed(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    change: Callable[[bytes], bytes],
) -> None:
    with closing(writer), suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(change(data))
            await writer.drain()


@asynccontextmanager
async def spoiled(node: Node, kept: Kept, folder: Path, count: int) -> AsyncIterator[Engine]:
    path = folder / "l.sock"
    link = Link(str(node.socket), count)
    server = await asyncio.start_unix_server(link.serve, str(path))
    engine = Engine(f"unix://{path}", kept.save, timeouts=QUICK)
    try:
        yield engine
    finally:
        await engine.close()
        server.close()
        await server.wait_closed()


async def output(lab: Lab, engine: Engine, folder: Path, script: str) -> Outcome:
    """Run a script as a task and fetch what it put out."""
    made = await lab.created("tenure-b-0-1", "sh", "-ec", script)
    (folder / "in").write_bytes(b"a\n")
    assert isinstance(await engine.carry(sending(made, folder / "in"), folder), Done)
    await lab.run_out(made)
    return await engine.carry(collecting(made, 1000), folder)


async def test_an_input_arrives_before_the_start_and_the_output_comes_back(
    engine: Engine, lab: Lab, tmp_path: Path
) -> None:
    (tmp_path / "in").write_bytes(b"skipped" + WORDS + b"left out")
    made = await lab.created(
        "tenure-b-0-1", "sh", "-ec", "cp /tenure/in/chunk /tenure/out/a; echo b > /tenure/out/b"
    )
    effect = sending(made, tmp_path / "in", offset=7, length=len(WORDS))
    assert await engine.carry(effect, tmp_path) == Done(moved_bytes=len(WORDS))
    await lab.run_out(made)
    fetched: FileEffect = collecting(made)
    assert await engine.carry(fetched, tmp_path) == Done(moved_bytes=len(WORDS) + 2)
    assert await engine.carry(fetched, tmp_path) == Done(moved_bytes=len(WORDS) + 2)  # once more
    folder = tmp_path / "b" / "00000"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {"a": WORDS, "b": b"b\n"}
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["00000"]


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_a_spoiled_input_is_found_and_sent_again(
    node: Node, kept: Kept, lab: Lab, tmp_path: Path, count: int
) -> None:
    (tmp_path / "in").write_bytes(WORDS * 3)
    made = await lab.created("tenure-b-0-1", "cat", "/tenure/in/chunk")
    async with spoiled(node, kept, tmp_path, count) as engine:
        outcome = await engine.carry(sending(made, tmp_path / "in"), tmp_path)
    if count == 3:
        assert isinstance(outcome, Refused)
        assert outcome.code == "corrupted"
        return
    size = len(WORDS) * 3
    assert outcome == Done(moved_bytes=size * (count + 1), resent=count)
    await lab.run_out(made)
    log = await lab.log_of(made)
    assert log == WORDS * 3


async def test_an_input_that_changed_or_went_is_refused(
    engine: Engine, lab: Lab, tmp_path: Path
) -> None:
    path = tmp_path / "in"
    path.write_bytes(WORDS)
    made = await lab.created("tenure-b-0-1", "true")
    effect = sending(made, path)
    path.write_bytes(WORDS + b"more\n")
    changed = await engine.carry(effect, tmp_path)
    path.unlink()
    gone = await engine.carry(effect, tmp_path)
    lost = SendInput("e1", "task:b/1", "node1", made, (Part("from-00000", "b/00000/part-00000"),))
    unkept = await engine.carry(lost, tmp_path)
    (tmp_path / "b" / "00000").mkdir(parents=True)
    nothing = await engine.carry(lost, tmp_path)  # that task left nothing for this one
    codes = [o.code if isinstance(o, Refused) else "" for o in (changed, gone, unkept, nothing)]
    assert codes == ["input_changed", "no_input", "no_input", ""]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("ln -s /etc/passwd /tenure/out/link", "bad_output"),
        ("mkdir /tenure/out/sub; echo x > /tenure/out/sub/x", "bad_output"),
        ("rm -r /tenure/out", "bad_output"),
        ("rm -r /tenure/out; ln -s /etc /tenure/out", "bad_output"),
        ("mkfifo /tenure/out/pipe", "bad_output"),
        ("echo x > /tenure/out/$(head -c 150 /dev/zero | tr '\\0' a)", "bad_output"),
        ("head -c 2000 /dev/zero > /tenure/out/big", "too_large"),
    ],
)
async def test_what_is_no_plain_output_is_refused(
    engine: Engine, lab: Lab, tmp_path: Path, script: str, code: str
) -> None:
    outcome = await output(lab, engine, tmp_path, script)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert not (tmp_path / "b" / "00000").exists()


async def test_a_container_that_is_gone_is_said_to_be(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x")
    for effect in (sending("0" * 64, tmp_path / "in"), collecting("0" * 64)):
        outcome = await engine.carry(effect, tmp_path)
        assert isinstance(outcome, Refused)
        assert outcome.code == "no_such_container"
