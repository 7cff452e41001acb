"""Uploads whose chunks, notes or beginnings are cut off, or meet others."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tenure.daemon.answers import uploads
from tenure.daemon.effects import arriving
from tenure.model.upload import UploadFile
from tests.api.test_uploads import CONTENT, Desk, desk
from tests.slowed import LIMIT_S, Slowed

__all__ = ["desk"]  # the fixture


def _cut_off(desk: Desk, work: Coroutine[Any, Any, object], slowed: Slowed) -> None:
    """Cut off who waits for a call of its thread while that lasts, as a shutdown does."""

    async def run() -> None:
        waiting = asyncio.ensure_future(work)
        assert await asyncio.to_thread(slowed.is_begun.wait, LIMIT_S)
        waiting.cancel()
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done, "what its thread does on the disk is not over"
        slowed.may_go_on.set()
        await asyncio.wait([waiting], timeout=LIMIT_S)
        assert waiting.cancelled()

    desk.server.run(run())


def _cut_chunk(desk: Desk, key: str, slowed: Slowed) -> None:
    """Cut off whoever sends a chunk."""
    keeper = desk.server.backend._uploads

    async def pieces() -> AsyncIterator[bytes]:
        yield CONTENT

    digest, owner = hashlib.sha256(CONTENT).digest(), keeper._open[key].owner
    _cut_off(desk, keeper.take(owner, key, (0, 0), digest, pieces()), slowed)


def test_a_chunk_that_is_cut_off_while_it_is_noted_is_there(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = desk.begin().json["id"]
    slowed = Slowed(arriving._append)
    monkeypatch.setattr(arriving, "_append", slowed)
    _cut_chunk(desk, key, slowed)
    for _ in range(2):
        assert desk.server.get(f"/v1/uploads/{key}").json["received"] == len(CONTENT)
        assert (desk.folder / key / "content").read_bytes() == CONTENT
        desk.begin_anew()


def test_a_chunk_that_is_cut_off_while_it_is_written_leaves_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = desk.begin().json["id"]
    slowed = Slowed(os.pwrite)
    monkeypatch.setattr(os, "pwrite", slowed)
    _cut_chunk(desk, key, slowed)
    monkeypatch.undo()
    assert (desk.folder / key / "content").read_bytes() == b""
    assert desk.send(key, 0, CONTENT).status == 200


def test_a_note_that_was_cut_off_does_not_spoil_the_next(desk: Desk) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT[:4000])
    with (desk.folder / key / "received").open("a") as file:
        file.write("0 99")
    for end in (5000, len(CONTENT)):
        desk.begin_anew()
        at = desk.server.get(f"/v1/uploads/{key}").json["received"]
        assert desk.send(key, at, CONTENT[at:end]).json["received"] == end


@pytest.mark.parametrize("note", ["1 5", "0 99999999", "-1 5", "0 x", "0 1 2"])
def test_what_cannot_have_been_noted_is_begun_anew(desk: Desk, note: str) -> None:
    key = desk.begin().json["id"]
    with (desk.folder / key / "received").open("a") as file:
        file.write(f"{note}\n")
    desk.begin_anew()
    assert desk.begin().json["id"] != key
    assert not (desk.folder / key).exists()


@pytest.mark.parametrize("length", [None, 0, 3999])
def test_bytes_that_were_noted_and_are_not_there_are_sent_again(
    desk: Desk, length: int | None
) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT[:4000])
    content = desk.folder / key / "content"
    if length is None:
        content.unlink()
    else:
        os.truncate(content, length)
    desk.begin_anew()
    again = desk.begin().json
    assert (again["id"] != key, again["received"]) == (True, 0)
    assert desk.send(again["id"], 0, CONTENT).status == 200


def test_who_begins_the_same_at_the_same_time_gets_one_that_is_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = desk.server.backend._uploads
    slowed = Slowed(uploads._make)
    monkeypatch.setattr(uploads, "_make", slowed)
    files = (UploadFile("", 5, 1),)

    async def both() -> list[Any]:
        rows = [asyncio.ensure_future(keeper.begin("me", "data", files)) for _ in range(2)]
        assert await asyncio.to_thread(slowed.is_begun.wait, LIMIT_S)
        done, _ = await asyncio.wait(rows, timeout=0.1)
        assert not done, "its files are not made yet"
        slowed.may_go_on.set()
        return await asyncio.gather(*rows)

    first, second = desk.server.run(both())
    assert first.id == second.id


def test_an_upload_that_was_cut_off_while_it_was_made_leaves_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = desk.server.backend._uploads
    slowed = Slowed(uploads._make)
    monkeypatch.setattr(uploads, "_make", slowed)
    _cut_off(desk, keeper.begin("me", "data", (UploadFile("", 5, 1),)), slowed)
    assert desk.left() == []


def test_an_upload_that_is_being_made_is_nobodys_to_give_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowed = Slowed(uploads._make)
    monkeypatch.setattr(uploads, "_make", slowed)
    with ThreadPoolExecutor(1) as other:
        beginning = other.submit(desk.begin)
        assert slowed.is_begun.wait(LIMIT_S)
        assert desk.server.get("/v1/uploads").json["items"] == []
        slowed.may_go_on.set()
        begun = beginning.result(LIMIT_S)
    assert begun.status == 201, begun.body
    assert [row["id"] for row in desk.server.get("/v1/uploads").json["items"]] == [begun.json["id"]]
    assert desk.server.send("DELETE", f"/v1/uploads/{begun.json['id']}").status == 200
    assert desk.left() == []
