"""Uploads over HTTP: sent by chunks, gone on with, bounded, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.daemon.answers import uploads
from tenure.model.dataset import DatasetState
from tenure.model.units import US
from tenure.model.upload import CHUNK_BYTES
from tests.api.server import TOKEN, Answer, Server

TCP = {"Authorization": f"Bearer {TOKEN}"}
CONTENT = bytes(range(256)) * 40
CAPACITY = 1 << 20


class Desk:
    """A server that takes uploads, and a client that sends them."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.folder = server.folder / "uploads"
        self.now_us = 1000 * US
        self.begin_anew()

    def begin_anew(self, **more: Any) -> None:
        """Have what keeps uploads begin with what lies on the disk, as after a restart."""
        words = {"capacity_bytes": CAPACITY, "expire_us": 60 * US} | more
        params = uploads.UploadParams(self.folder, **words)
        self.server.backend._uploads = uploads.Uploads(params, lambda: self.now_us)

    def begin(self, *files: dict[str, Any], name: str = "data", is_tcp: bool = False) -> Answer:
        rows = list(files) or [{"size": len(CONTENT), "mtime_ns": 7}]
        body = json.dumps({"name": name, "files": rows}).encode()
        headers = {"Content-Type": "application/json", **(TCP if is_tcp else {})}
        return self.server.raw("POST", "/v1/uploads", body, headers=headers, is_tcp=is_tcp)

    def send(
        self,
        key: str,
        offset: int,
        chunk: bytes,
        *,
        number: int | str = 0,
        digest: bytes | None = None,
        is_tcp: bool = False,
        **headers: str,
    ) -> Answer:
        found = digest or hashlib.sha256(chunk).digest()
        words = {
            "Content-Type": "application/octet-stream",
            "Content-Digest": f"sha-256=:{b64encode(found).decode()}:",
            **(TCP if is_tcp else {}),
        }
        words |= {name.replace("_", "-"): value for name, value in headers.items()}
        path = f"/v1/uploads/{key}/files/{number}?offset={offset}"
        return self.server.raw("PUT", path, chunk, headers=words, is_tcp=is_tcp)

    def sweep(self) -> None:
        self.server.run(self.server.backend._uploads.sweep(self.server.backend.tables))

    def left(self) -> list[str]:
        """Return all files that lie on the disk."""
        if not self.folder.exists():
            return []
        return sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*"))


@pytest.fixture
def desk(server: Server) -> Desk:
    return Desk(server)


def test_chunks_become_a_dataset_and_the_folder_is_cleared(desk: Desk) -> None:
    made = desk.begin()
    assert made.status == 201, made.body
    key = made.json["id"]
    assert (made.json["received"], made.json["chunk_bytes"]) == (0, CHUNK_BYTES)
    assert desk.send(key, 0, CONTENT[:5000]).json == {
        "number": 0,
        "bytes": len(CONTENT),
        "received": 5000,
    }
    early = desk.server.post("/v1/datasets", {"name": "data", "upload": key, "block": 4096})
    assert (early.status, early.json["code"]) == (409, "upload_incomplete")
    assert desk.send(key, 5000, CONTENT[5000:]).json["received"] == len(CONTENT)
    other = desk.server.post("/v1/datasets", {"name": "other", "upload": key})
    assert (other.status, other.fields) == (422, ["name"])
    put = desk.server.post("/v1/datasets", {"name": "data", "upload": key, "block": 4096})
    assert put.status == 201, put.body
    assert (put.json["state"], put.json["blocks"]) == ("ready", 3)
    assert desk.server.get("/v1/datasets/data/content").body == CONTENT
    assert desk.left()
    desk.sweep()
    assert desk.left() == []
    assert desk.server.get(f"/v1/uploads/{key}").status == 404


def test_a_folder_has_its_names_again(desk: Desk) -> None:
    rows = [{"name": "a/b c.log", "size": 3}, {"name": "none", "size": 0}]
    key = desk.begin(*rows).json["id"]
    assert desk.send(key, 0, b"abc").status == 200
    put = desk.server.post("/v1/datasets", {"name": "data", "upload": key})
    assert put.status == 201, put.body
    names = desk.server.get("/v1/datasets/data/files").json["items"]
    assert [(row["name"], row["bytes"]) for row in names] == [("a/b c.log", 3), ("none", 0)]


def test_what_could_not_be_put_is_refused_before_it_is_sent(desk: Desk) -> None:
    def begin(put: Any, size: int = 100) -> Answer:
        body = {"name": "data", "files": [{"size": size, "mtime_ns": 7}], "put": put}
        return desk.server.post("/v1/uploads", body)

    few = begin({"replicas": 9})
    assert (few.status, few.json["code"]) == (422, "too_few_nodes")
    assert begin({"tiers": ["hdd"]}).json["code"] == "no_tiers"
    assert begin({"tiers": ["tape"]}).fields == ["put.tiers.0"]
    assert begin({"block": 4096}, 200 << 20).json["code"] == "no_room"
    assert desk.left() == []
    assert desk.server.get("/v1/datasets").json["items"] == []
    events = [event.type for event in desk.server.backend.events]
    assert not any(kind.startswith("dataset.") for kind in events), "nothing was asked for yet"
    key = begin({"block": 4096}).json["id"]
    assert desk.send(key, 0, b"x" * 100).status == 200
    put = desk.server.post("/v1/datasets", {"name": "data", "upload": key, "block": 4096})
    assert put.status == 201
    taken = begin({"block": 4096}, 101)
    assert (taken.status, taken.json["code"]) == (409, "name_taken")


def test_a_file_has_the_time_of_its_owner_so_that_it_is_the_same_when_it_is_sent_again(
    desk: Desk,
) -> None:
    rows = [{"name": "a", "size": 3, "mtime_ns": 5_000}, {"name": "b", "size": 0, "mtime_ns": -9}]
    times = []
    for _ in range(2):
        key = desk.begin(*rows).json["id"]
        desk.send(key, 0, b"ab")
        desk.send(key, 2, b"c")
        folder = desk.folder / key / "content"
        owner = f"uid {os.getuid()}"
        desk.server.run(desk.server.backend.uploads.files_of(owner, key, "data"))
        times.append([(folder / name).stat().st_mtime_ns for name in ("a", "b")])
        assert desk.server.send("DELETE", f"/v1/uploads/{key}").status == 200
    assert times == [[5_000, -9]] * 2, "also one of before 1970"


def test_the_same_files_go_on_where_they_were_also_after_a_restart(desk: Desk) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT[:4000])
    again = desk.begin().json
    assert (again["id"], again["files"][0]["received"]) == (key, 4000)
    content = desk.folder / key / "content"
    with content.open("ab") as file:
        file.write(b"of a chunk that was cut off by kill -9")
    with (desk.folder / key / "received").open("a") as file:
        file.write("0 99")  # and its note, before it was whole
    desk.begin_anew()
    found = desk.server.get(f"/v1/uploads/{key}").json
    assert found["received"] == 4000
    wrong = desk.send(key, 0, CONTENT[:4000])
    assert (wrong.status, wrong.json["code"]) == (409, "wrong_offset")
    assert wrong.json["received"] == 4000
    assert desk.send(key, 4000, CONTENT[4000:]).status == 200
    assert content.read_bytes() == CONTENT


def test_a_chunk_that_is_not_right_leaves_nothing(desk: Desk) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT[:100])
    content = desk.folder / key / "content"
    wrong = desk.send(key, 100, CONTENT[100:], digest=b"0" * 32)
    assert (wrong.status, wrong.json["code"]) == (422, "wrong_checksum")
    assert wrong.fields == ["Content-Digest"], "the header's name"
    assert content.read_bytes() == CONTENT[:100]
    long = desk.send(key, 100, CONTENT)
    assert (long.status, long.json["code"]) == (422, "too_large")
    assert content.read_bytes() == CONTENT[:100]
    for header in ("", "md5=:eA==:", "sha-256=:eA==:", "sha-256=x", "sha-256=:*:"):
        bad = desk.send(key, 100, b"x", Content_Digest=header)
        assert (bad.status, bad.fields) == (422, ["Content-Digest"]), header
    assert desk.send(key, 100, b"x", Content_Type="text/plain").status == 415
    packed = desk.send(key, 100, b"x", Content_Encoding="gzip")
    assert (packed.status, packed.fields) == (415, ["Content-Encoding"])
    assert desk.send(key, 100, b"x", number=1).status == 404
    assert desk.send(key, 100, b"x", number="x").status == 404
    assert desk.send(key, -1, b"x").status == 422
    assert desk.send(key, 100, CONTENT[100:]).status == 200


def test_a_client_that_breaks_off_leaves_nothing_of_its_chunk(desk: Desk) -> None:
    key = desk.begin().json["id"]
    head = f"PUT /v1/uploads/{key}/files/0?offset=0 HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/octet-stream\r\nContent-Length: 10240\r\n"
    head += f"Content-Digest: sha-256=:{b64encode(b'0' * 32).decode()}:\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(str(desk.server.socket))
        raw.sendall(head.encode() + CONTENT[:5000])
        _until(lambda: _size(desk.folder / key / "content") > 0)
    _until(lambda: (desk.folder / key / "content").stat().st_size == 0)
    _until(lambda: desk.send(key, 0, CONTENT).status == 200)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _until(condition: Any) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_upload_is_its_clients_alone(desk: Desk) -> None:
    key = desk.begin().json["id"]
    assert desk.server.raw("GET", f"/v1/uploads/{key}", headers=TCP, is_tcp=True).status == 404
    assert desk.send(key, 0, b"x", is_tcp=True).status == 404
    gone = desk.server.raw("DELETE", f"/v1/uploads/{key}", headers=TCP, is_tcp=True)
    assert gone.status == 404
    body = b'{"name": "data", "upload": "%s"}' % key.encode()
    words = {**TCP, "Content-Type": "application/json"}
    put = desk.server.raw("POST", "/v1/datasets", body, headers=words, is_tcp=True)
    assert put.status == 404
    taken = desk.begin(is_tcp=True)
    assert (taken.status, taken.json["code"], taken.fields) == (409, "upload_open", ["name"])
    assert key not in taken.body.decode()
    assert desk.server.get(f"/v1/uploads/{key}").json["received"] == 0
    mine = desk.server.raw("GET", "/v1/uploads", headers=TCP, is_tcp=True).json
    assert mine["items"] == []


def test_over_the_socket_all_uploads_are_listed_and_may_be_given_up(desk: Desk) -> None:
    far = desk.begin(name="far", is_tcp=True).json["id"]
    near = desk.begin(name="near").json["id"]
    desk.send(near, 0, CONTENT[:5000])
    rows = desk.server.get("/v1/uploads").json["items"]
    assert [(row["name"], row["id"], row["received"], row["files"]) for row in rows] == [
        ("far", far, 0, 1),
        ("near", near, 5000, 1),
    ]
    assert rows[0]["client"] == "127.0.0.1"
    assert rows[0]["client"] != rows[1]["client"]
    own = desk.server.raw("GET", "/v1/uploads", headers=TCP, is_tcp=True).json["items"]
    assert [row["id"] for row in own] == [far]
    assert desk.server.send("DELETE", f"/v1/uploads/{far}").status == 200
    assert [row["id"] for row in desk.server.get("/v1/uploads").json["items"]] == [near]
    assert not [path for path in desk.left() if path.startswith(far)]
    assert desk.begin(name="far").status == 201, "the name is free"


def test_an_upload_that_is_being_put_is_not_given_up(desk: Desk) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT)
    made = desk.server.post("/v1/datasets", {"name": "data", "upload": key, "block": 4096}).json
    dataset = desk.server.backend.tables.datasets[made["id"]]
    putting = replace(dataset, state=DatasetState.PUTTING)
    desk.server.on_loop(desk.server.backend.tables.datasets.put, dataset.id, putting)
    kept = desk.server.send("DELETE", f"/v1/uploads/{key}")
    assert (kept.status, kept.json["code"]) == (409, "in_use")
    assert "dataset rm data" in kept.json["detail"]
    other = desk.begin({"size": 5, "mtime_ns": 8})
    assert (other.status, other.json["code"]) == (409, "in_use"), "nor for other files of the name"
    assert (desk.folder / key / "content").read_bytes() == CONTENT
    assert desk.begin().json["id"] == key, "the same files are the same upload"
    desk.server.on_loop(desk.server.backend.tables.datasets.put, dataset.id, dataset)
    assert desk.server.send("DELETE", f"/v1/uploads/{key}").status == 200
    assert desk.left() == []


def test_other_files_of_the_name_begin_anew(desk: Desk) -> None:
    key = desk.begin().json["id"]
    desk.send(key, 0, CONTENT[:10])
    fresh = desk.begin({"size": 5, "mtime_ns": 8}).json
    assert fresh["id"] != key
    assert desk.server.get(f"/v1/uploads/{key}").status == 404
    assert not any(row.startswith(key) for row in desk.left())
    dropped = desk.server.send("DELETE", f"/v1/uploads/{fresh['id']}")
    assert dropped.status == 200
    assert desk.left() == []
