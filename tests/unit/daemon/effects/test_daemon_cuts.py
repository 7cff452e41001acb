"""Inputs split by lines: read once for all who ask, behind those who do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.client import calls as asking
from tenure.daemon.effects import cuts, inputs
from tenure.daemon.effects.cuts import Cuts
from tenure.model.batch import Chunk
from tenure.model.errors import InvalidInput, Unavailable
from tests.slowed import LIMIT_S, Slowed, until

CHUNKS = (Chunk(0, 4), Chunk(4, 2))


class Counted(Slowed):
    """A reading that waits, and says how often it was begun."""

    def __init__(self) -> None:
        super().__init__(inputs.cut)
        self.begun: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.begun.append(args[0])
        return super().__call__(*args, **kwargs)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(b"a\nb\nc\n")
    return path


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    made = Counted()
    monkeypatch.setattr(inputs, "cut", made)
    yield made
    made.may_go_on.set()


async def refused(made: Cuts, path: Path) -> str:
    with pytest.raises(Unavailable) as caught:
        await made.cut(str(path), None, 2)
    assert caught.value.code == "input_being_read"
    return caught.value.detail


async def test_who_asks_again_finds_what_was_read_meanwhile(source: Path, slowed: Counted) -> None:
    made = Cuts((source.parent,), wait_s=0.01)
    assert "of the 6B of" in await refused(made, source)
    await refused(made, source)
    patient = Cuts((source.parent,), wait_s=LIMIT_S)
    patient._known = made._known
    waiting = asyncio.ensure_future(patient.cut(str(source), None, 2))
    slowed.may_go_on.set()
    assert (await waiting)[1] == CHUNKS
    assert (await made.cut(str(source), None, 2))[1] == CHUNKS
    assert len(slowed.begun) == 1


async def test_a_file_that_was_changed_is_read_anew(source: Path, slowed: Counted) -> None:
    slowed.may_go_on.set()
    made = Cuts((source.parent,))
    await made.cut(str(source), None, 2)
    await asyncio.to_thread(source.write_bytes, b"a\nb\nc\nd\n")
    assert (await made.cut(str(source), None, 2))[1] == (Chunk(0, 4), Chunk(4, 4))
    assert (await made.cut(str(source), None, 1))[1][-1] == Chunk(6, 2)
    assert len(slowed.begun) == 3


async def test_few_are_read_at_a_time_and_a_cut_by_size_waits_for_none(
    source: Path, slowed: Counted
) -> None:
    made = Cuts((source.parent,), wait_s=0.01)
    for number in range(cuts.MAX_READING):
        other = source.with_name(f"in-{number}")
        other.write_bytes(b"x\n")
        await refused(made, other)
    assert f"{cuts.MAX_READING} inputs" in await refused(made, source)
    slowed.may_go_on.set()
    assert (await made.cut(str(source), 3, None))[1] == CHUNKS


async def test_few_of_those_that_were_read_are_kept(source: Path, slowed: Counted) -> None:
    """Each was for ten minutes: a thousand large inputs, or ways to split one, took gigabytes."""
    slowed.may_go_on.set()
    made = Cuts((source.parent,))
    for lines in range(1, cuts.MAX_KEPT + 10):
        await made.cut(str(source), None, lines)
    await until(lambda: len(made._known) == cuts.MAX_KEPT)
    asked = len(slowed.begun)
    await made.cut(str(source), None, cuts.MAX_KEPT + 9)
    assert len(slowed.begun) == asked
    await made.cut(str(source), None, 1)
    assert len(slowed.begun) == asked + 1


async def test_a_failure_is_told_and_forgotten(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Cuts((source.parent,))
    monkeypatch.setattr(inputs, "MAX_CHUNKS", 1)
    for _ in range(2):
        with pytest.raises(InvalidInput) as caught:
            await made.cut(str(source), None, 1)
        assert caught.value.code == "too_many_tasks"
    monkeypatch.undo()
    assert len((await made.cut(str(source), None, 1))[1]) == 3


async def test_a_daemon_that_ends_waits_for_no_input(source: Path, slowed: Counted) -> None:
    made = Cuts((source.parent,), wait_s=LIMIT_S)
    waiting = asyncio.ensure_future(made.cut(str(source), None, 2))
    await until(lambda: bool(slowed.begun))
    made.close()
    slowed.may_go_on.set()
    with pytest.raises(Unavailable, match="the daemon ends"):
        await waiting
    await until(lambda: not made._known)  # its thread has ended, with nothing read


def test_a_client_asks_again_until_its_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "AGAIN_S", 0.0)
    answers: list[Any] = [
        Unavailable("1 of 2", code="input_being_read"),
        Unavailable("2 of 2", code="input_being_read"),
        "accepted",
    ]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert asking.once_read(ask) == "accepted"
    answers.append(Unavailable("full", code="no_plan"))
    with pytest.raises(Unavailable, match="full"):
        asking.once_read(ask)
