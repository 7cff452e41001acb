"""The daemon's end waits for every task, also for one that loses a cancellation."""

from __future__ import annotations

import asyncio

import pytest

from tenure.daemon import ending


async def _deaf(times: int) -> None:
    """Go on for ever, after so many cancellations that came in an unlucky moment."""
    for _ in range(times):
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue
    await asyncio.sleep(3600)


async def _fails() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        raise ValueError("in its end")


async def test_a_task_that_lost_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ending, "AGAIN_S", 0.01)
    works = (_deaf(0), _deaf(1), _deaf(3), _fails())
    tasks = [asyncio.create_task(work, name=f"t{n}") for n, work in enumerate(works)]
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await ending.end(tasks)
    assert all(task.done() for task in tasks)
    assert [row.getMessage() for row in caplog.records] == [
        "cancelled, and not ended yet: t1, t2",
        "cancelled, and not ended yet: t2",
        "cancelled, and not ended yet: t2",
    ]


async def test_nothing_is_ended_at_once() -> None:
    await ending.end([])
