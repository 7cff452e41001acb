"""The child that answers questions: no question waits for longer than it may, whatever hangs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.daemon.children import child as room
from tenure.daemon.children.child import Child, ChildEnded
from tests.faults.tenured import kill
from tests.frozen import freeze, frozen_group

ROOT = Path(__file__).resolve().parents[4]
#: Far more than anything here takes, far less than what it would wait for.
AT_ONCE_S = 60.0
LONG_S = 3600.0


@pytest.fixture
async def child(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Child]:
    monkeypatch.chdir(ROOT)
    made = Child("tests.unit.daemon.children.odd_child", most_bytes=1000)
    yield made
    async with asyncio.timeout(AT_ONCE_S):
        await made.close()


def in_s(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


def ask(child: Child, words: str, limit_s: float) -> asyncio.Task[bytes]:
    return asyncio.create_task(child.ask(f"{words}\n".encode, in_s(limit_s)))


async def test_a_turn_is_waited_for_no_longer_than_the_question_may_take(child: Child) -> None:
    first = ask(child, "hang", LONG_S)
    await asyncio.sleep(0)
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(TimeoutError):
            await ask(child, "echo", 0.1)
    assert not first.done()
    child.interrupt()
    async with asyncio.timeout(AT_ONCE_S):
        while not first.done():
            child.interrupt()  # it may not have been started before
            await asyncio.sleep(0.01)
        with pytest.raises(ChildEnded):
            await first
        assert await ask(child, "echo", LONG_S) == b"echo\n"


async def test_what_a_child_started_and_left_keeps_nobody_waiting(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It holds the pipe that would end with the child."""
    monkeypatch.setattr(room, "KILLED_S", 0.2)
    file = tmp_path / "pid"
    asking = ask(child, f"hang {file}", LONG_S)
    async with asyncio.timeout(AT_ONCE_S):
        while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert "was killed and is left behind" in caplog.text
        assert await ask(child, "echo", LONG_S) == b"echo\n"
    kill(int(file.read_text()))


def ending() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("end ")]


async def test_a_child_whose_end_is_cancelled_leaves_no_task(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "KILLED_S", LONG_S)
    file = tmp_path / "pid"
    asking = ask(child, f"hang {file}", LONG_S)
    async with asyncio.timeout(AT_ONCE_S):
        while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.01)
        asking.cancel()
        while not ending():  # noqa: ASYNC110 - nobody tells of another's tasks
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while ending():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        assert len(child.left) == 1
        assert await ask(child, "echo", LONG_S) == b"echo\n"
    kill(int(file.read_text()))


async def test_a_child_that_the_kernel_keeps_keeps_nobody_waiting(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "KILLED_S", 0.2)
    with frozen_group() as group:
        async with asyncio.timeout(AT_ONCE_S):
            assert await ask(child, "echo", LONG_S) == b"echo\n"
            assert child.pid is not None
            freeze(group, child.pid)
            with pytest.raises(TimeoutError):
                await ask(child, "hang", 0.1)
            assert await ask(child, "echo", LONG_S) == b"echo\n"
    async with asyncio.timeout(AT_ONCE_S):
        (left,) = child.left
        assert await left.wait() == -signal.SIGKILL, "once the kernel let it go"


async def test_a_close_amid_the_start_asks_nothing_more(child: Child) -> None:
    asking = ask(child, "hang", LONG_S)
    await asyncio.sleep(0)
    assert child.is_busy
    assert child.pid is None, "it is being started"
    async with asyncio.timeout(AT_ONCE_S):
        await child.close()
        with pytest.raises(ChildEnded):
            await asking


async def test_a_child_that_is_stopped_ends_with_its_question(child: Child) -> None:
    async with asyncio.timeout(AT_ONCE_S):
        await ask(child, "echo", LONG_S)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            await ask(child, "echo", 0.1)
        assert await ask(child, "echo", LONG_S) == b"echo\n"
