"""Uploads are bounded: in time, names, room, number and by what others do meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tenure.api.requests.body import parse_json
from tenure.api.schemas.uploads import UploadedFile, UploadRequest, upload_files
from tenure.api.views.uploads import upload_view
from tenure.daemon.answers import uploads
from tenure.model.errors import InvalidInput
from tenure.model.units import US
from tests.api.test_uploads import CAPACITY, CONTENT, Desk, desk

__all__ = ["desk"]  # the fixture


def test_what_rests_too_long_expires(desk: Desk) -> None:
    key = desk.begin().json["id"]
    desk.now_us += 59 * US
    desk.send(key, 0, CONTENT[:10])
    desk.now_us += 59 * US
    desk.sweep()
    assert desk.server.get(f"/v1/uploads/{key}").status == 200
    desk.now_us += 2 * US
    desk.sweep()
    assert desk.server.get(f"/v1/uploads/{key}").status == 404
    assert desk.left() == []


@pytest.mark.parametrize(
    ("names", "path", "words"),
    [
        (["../up", "b"], "files.0.name", "no .."),
        (["/etc/passwd", "b"], "files.0.name", "no empty part"),
        (["a/../../b", "c"], "files.0.name", "no .."),
        (["a//b", "c"], "files.0.name", "no empty part"),
        (["a/.", "c"], "files.0.name", "no ."),
        (["a\nb", "c"], "files.0.name", "printable"),
        (["a" * 256, "c"], "files.0.name", "255 bytes"),
        (["ä" * 128, "c"], "files.0.name", "255 bytes"),
        (["/".join(["a" * 200] * 6), "c"], "files.0.name", "1024 bytes"),
        (["/".join("a" * 34), "c"], "files.0.name", "32 folders"),
        (["a", "a"], "files.1.name", "twice"),
        (["a", "a/b"], "files.0.name", "folder of another"),
        (["", "b"], "files.0.name", "several files"),
        (["a\0b"], "files.0.name", "NUL"),
    ],
)
def test_names_that_would_not_stay_are_refused(
    desk: Desk, names: list[str], path: str, words: str
) -> None:
    answer = desk.begin(*({"name": name, "size": 1} for name in names))
    assert answer.status == 422, answer.body
    assert answer.fields[0] == path
    assert words in answer.json["errors"][0]["message"]
    assert desk.left() == []


def test_room_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = desk.begin({"size": CAPACITY + 1})
    assert (whole.status, whole.json["code"]) == (409, "no_room")
    assert "datasets.upload_capacity" in whole.json["detail"]
    assert "tenure dataset abandon" in whole.json["detail"], "what gives room"
    assert desk.begin({"size": CAPACITY - 4097}, name="a").status == 201
    assert desk.begin({"size": 2}, name="b").json["code"] == "no_room"
    desk.begin_anew(capacity_bytes=0)
    assert desk.begin(name="c").json["code"] == "uploads_off"
    desk.begin_anew(capacity_bytes=1 << 60)
    full = desk.begin({"size": 1 << 50}, name="c")
    assert (full.status, full.json["code"]) == (503, "disk_full")
    monkeypatch.setattr(uploads, "MAX_UPLOADS", 1)
    many = desk.begin({"size": 1}, name="c").json
    assert many["code"] == "no_room"
    assert "tenure dataset abandon" in many["detail"]


def test_a_client_may_have_so_many_uploads(desk: Desk) -> None:
    for number in range(uploads.MAX_UPLOADS_OF_ONE):
        assert desk.begin({"size": 1}, name=f"d{number}").status == 201
    more = desk.begin({"size": 1}, name="more").json
    assert more["code"] == "no_room"
    assert "uploads of yours" in more["detail"]
    assert desk.begin({"size": 1}, name="another-s", is_tcp=True).status == 201


def test_files_and_folders_are_charged_and_made_when_something_comes(desk: Desk) -> None:
    """A few hundred kilobytes that announced many deep files made 330,000 inodes."""
    deep = [{"name": "/".join([f"f{i}", *"abcdefgh", "x"]), "size": 0} for i in range(1000)]
    desk.begin_anew(capacity_bytes=1 << 30)
    refused = desk.begin(*deep, *({"name": f"{n}/y", "size": 1} for n in range(2000))).json
    assert (refused["code"], refused["errors"][0]["field"]) == ("invalid_input", "files")
    assert "may have 10000" in refused["detail"]
    begun = desk.begin(*deep[:100], {"name": "p/q/r", "size": 1})
    assert begun.status == 201
    key = begun.json["id"]
    here = desk.folder / key
    assert sorted(path.name for path in here.rglob("*")) == ["manifest.json", "received"]
    assert desk.send(key, 0, b"1", number=100).status == 200
    made = {str(path.relative_to(here)) for path in here.rglob("*")} - {"manifest.json", "received"}
    assert made == {"content", "content/p", "content/p/q", "content/p/q/r"}
    desk.begin_anew(capacity_bytes=1 << 30)  # as after a restart
    assert desk.server.get(f"/v1/uploads/{key}").json["received"] == 1
    # a thousand folders and files of nothing take room as bytes do
    desk.begin_anew(capacity_bytes=4096 * 1000)
    assert desk.begin(*deep[:500], name="other").json["code"] == "no_room"


def test_a_disk_that_fills_up_leaves_nothing_of_the_chunk(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT[:100])

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    answer = desk.send(key, 100, CONTENT[100:])
    assert (answer.status, answer.json["code"]) == (503, "disk_full")
    monkeypatch.undo()
    assert (desk.folder / key / "content").read_bytes() == CONTENT[:100]
    assert desk.send(key, 100, CONTENT[100:]).status == 200


def test_two_chunks_of_a_file_do_not_mix(desk: Desk) -> None:
    key = desk.begin().json["id"]
    keeper = desk.server.backend._uploads

    async def both() -> list[Any]:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def slow() -> Any:
            begun.set()
            yield CONTENT[:10]
            await gate.wait()

        async def quick() -> Any:
            yield b"x"

        owner = keeper._open[key].owner
        digest = hashlib.sha256(CONTENT[:10]).digest()
        first = asyncio.ensure_future(keeper.take(owner, key, (0, 0), digest, slow()))
        await begun.wait()
        rows = await asyncio.gather(
            keeper.take(owner, key, (0, 0), digest, quick()),
            keeper.drop(owner, key),
            return_exceptions=True,
        )
        await keeper.sweep(desk.server.backend.tables)
        gate.set()
        return [*rows, await first]

    second, drop, first = desk.server.run(both())
    assert second.code == drop.code == "upload_busy"
    assert first.received == (10,)


def test_a_client_that_is_slow_does_not_hold_the_places_of_others(desk: Desk) -> None:
    rows = [{"name": str(n), "size": 5} for n in range(uploads.MAX_BUSY_OF_ONE + 1)]
    slow, other = desk.begin(*rows).json["id"], desk.begin(name="other", is_tcp=True).json["id"]
    keeper = desk.server.backend._uploads
    me, digest = desk.server.run(keeper.find(None, slow)).owner, hashlib.sha256(b"12345").digest()

    async def crawl() -> list[int | str]:
        gate = asyncio.Event()

        async def pieces() -> Any:
            await gate.wait()
            yield b"12345"

        places = [(number, 0) for number in range(len(rows))]
        sent = [
            asyncio.ensure_future(keeper.take(me, slow, place, digest, pieces()))
            for place in places
        ]
        done, _ = await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
        codes: list[int | str] = [getattr(one.exception(), "code", "") for one in done]
        answer = await asyncio.to_thread(desk.send, other, 0, CONTENT, is_tcp=True)
        gate.set()
        ended = await asyncio.gather(*sent, return_exceptions=True)
        kept = [one for one in ended if not isinstance(one, BaseException)]
        again = await keeper.take(me, slow, places[-1], digest, pieces())
        return [*codes, answer.status, len(kept), again.received_bytes]

    assert desk.server.run(crawl()) == ["busy", 200, len(rows) - 1, 5 * len(rows)]


def test_a_long_list_of_files_is_read_beside_the_loop(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()

    def noting(call: Any) -> Any:
        def note(*args: Any) -> Any:
            threads.add(threading.get_ident())
            return call(*args)

        return note

    monkeypatch.setattr("tenure.api.app.parse_json", noting(parse_json))
    monkeypatch.setattr("tenure.api.handlers.uploads.upload_files", noting(upload_files))
    monkeypatch.setattr("tenure.api.handlers.uploads.upload_view", noting(upload_view))
    desk.begin_anew(capacity_bytes=1 << 30)
    made = desk.begin(*({"name": f"folder/{n:05}.log", "size": 1} for n in range(3000)))
    assert made.status == 201
    assert len(made.json["files"]) == 3000
    assert threads

    async def loops() -> int:
        return threading.get_ident()

    assert desk.server.run(loops()) not in threads


def test_names_of_many_folders_cost_no_memory() -> None:
    rows = [UploadedFile(name=f"{n}/" + "a/" * 3000 + "b", size=1) for n in range(20)]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput) as caught:
            upload_files(UploadRequest(name="data", files=rows))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(caught.value.fields) == 20
    assert peak_bytes < 16 << 20


def test_what_is_no_upload_is_removed_and_what_is_not_ours_is_left(desk: Desk) -> None:
    good = desk.begin().json["id"]
    broken = desk.folder / f"u-{'0' * 32}"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")
    foreign = desk.folder / "notes"
    foreign.write_text("x")
    desk.begin_anew()
    assert desk.server.get(f"/v1/uploads/{good}").status == 200
    assert not broken.exists()
    assert foreign.exists()


def test_links_that_somebody_laid_are_not_followed(desk: Desk, tmp_path: Path) -> None:
    key = desk.begin().json["id"]
    target = tmp_path / "target"
    target.write_bytes(b"safe")
    content = desk.folder / key / "content"
    content.symlink_to(target)
    answer = desk.send(key, 0, CONTENT)
    assert (answer.status, answer.json["code"]) == (503, "disk_failed")
    assert target.read_bytes() == b"safe"
