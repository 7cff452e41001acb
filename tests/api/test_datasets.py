"""Datasets over HTTP, on the real core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.core.blocks.block_records import mark_of
from tenure.core.blocks.surveys import UNMOUNTED
from tenure.daemon.effects.sources import Sources
from tenure.model.dataset import Orphan
from tenure.model.events import NodeLost
from tenure.model.external import HdfsSpec
from tests.api.server import Server, dataset_of
from tests.fleet.states import store
from tests.webhdfs.server import NameNode


def test_a_dataset_is_put_located_and_read(server: Server) -> None:
    body = dataset_of(server)
    answer = server.post("/v1/datasets", body)
    assert answer.status == 201, answer.body
    made = answer.json
    assert answer.headers["Location"] == f"/v1/datasets/{made['id']}"
    assert (made["state"], made["blocks"], made["whole_blocks"]) == ("ready", 3, 3)
    assert made["stored_bytes"] == 2 * made["bytes"] == 20_000
    assert sum(row["blocks"] for row in made["holdings"]) == 6
    assert made["unreadable_blocks"] == 0
    rows = server.get("/v1/datasets/data/blocks").json["items"]
    assert [row["bytes"] for row in rows] == [4096, 4096, 1808]
    places = [replica["path"] for row in rows for replica in row["replicas"]]
    assert all(path.startswith("/mnt/ssd/tenure-") for path in places)
    assert server.get("/v1/datasets/data/content").body == Path(body["path"]).read_bytes()
    assert server.get("/v1/datasets").json["items"][0]["name"] == "data"
    assert [row["name"] for row in server.get("/v1/datasets/data/files").json["items"]] == [""]
    metrics = server.get("/metrics").body.decode().splitlines()
    assert 'tenure_datasets{state="ready"} 1.0' in metrics
    used = [row for row in metrics if row.startswith("tenure_tier_used_bytes{")]
    assert sum(float(row.rpartition(" ")[2]) for row in used) == 20_000
    assert sum(row.startswith("tenure_tier_up{") and row.endswith(" 1.0") for row in metrics) == 3
    shown = server.get("/v1/nodes/n1").json["tiers"]
    assert [(tier["name"], tier["fault"], tier["is_measured"]) for tier in shown] == [
        ("ssd", "", True)
    ]


def test_pin_verify_and_remove(server: Server) -> None:
    server.post("/v1/datasets", dataset_of(server))
    assert server.post("/v1/datasets/data/pin", {}).json["is_pinned"]
    assert not server.post("/v1/datasets/data/unpin", {}).json["is_pinned"]
    assert server.post("/v1/datasets/data/verify", {}).status == 200
    gone = server.send("DELETE", "/v1/datasets/data")
    assert gone.json["state"] == "removing"
    assert server.get("/v1/datasets/data").status == 404
    again = server.post("/v1/datasets", dataset_of(server))
    assert again.status == 201
    assert again.json["id"] != gone.json["id"]


def test_a_key_means_one_dataset_and_the_same_files_the_same(server: Server) -> None:
    body = dataset_of(server)
    first = server.post("/v1/datasets", body, Idempotency_Key="k")
    Path(body["path"]).unlink()
    assert server.post("/v1/datasets", body, Idempotency_Key="k").json["id"] == first.json["id"]
    assert server.post("/v1/datasets", dataset_of(server)).json["id"] == first.json["id"]
    other = server.post("/v1/datasets", dataset_of(server, 9000))
    assert (other.status, other.json["code"], other.fields) == (409, "name_taken", ["name"])


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"name": "../up"}, "invalid_input", "name"),
        ({"name": ".."}, "invalid_input", "name"),
        ({"path": "data"}, "not_absolute", "path"),
        ({"path": "/etc/passwd"}, "input_not_allowed", "path"),
        ({"path": "{folder}/../server.py"}, "no_input", "path"),
        ({"path": "{folder}/none"}, "no_input", "path"),
        ({"path": "{folder}/link"}, "input_not_allowed", "path"),
        ({"path": "{folder}/odd"}, "not_a_file", "path"),
        ({"block": "1KiB"}, "invalid_input", "block"),
        ({"block": "8GiB"}, "invalid_input", "block"),
        ({"replicas": 0}, "invalid_input", "replicas"),
        ({"tiers": ["tape"]}, "invalid_input", "tiers.0"),
        ({"replicas": 5}, "too_few_nodes", "replicas"),
        ({"tiers": ["hdd"]}, "no_tiers", "tiers"),
        ({"size": "1"}, "invalid_input", "size"),
    ],
)
def test_what_cannot_be_put_is_named(
    server: Server, change: dict[str, Any], code: str, field: str
) -> None:
    body = dataset_of(server)
    folder = Path(body["path"]).parent
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "odd").mkdir()
    os.mkfifo(folder / "odd" / "pipe")
    if "path" in change:
        change = {"path": change["path"].format(folder=folder)}
    answer = server.post("/v1/datasets", body | change)
    assert answer.status == 422, answer.body
    assert answer.json["code"] == code
    assert answer.fields == ([field] if field else [])
    assert server.get("/v1/datasets").json["items"] == []


def test_a_dataset_larger_than_the_fleet_is_refused_with_what_would_fit(server: Server) -> None:
    body = dataset_of(server)
    with Path(body["path"]).open("r+b") as file:
        file.truncate(200 << 20)
    answer = server.post("/v1/datasets", body | {"block": "1MiB"})
    assert (answer.status, answer.json["code"]) == (422, "no_room")
    assert "remove datasets" in answer.json["detail"]


def test_a_folder_has_its_files_and_one_is_asked_for(server: Server) -> None:
    folder = Path(dataset_of(server)["path"]).parent
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "one").write_bytes(bytes(5000))
    (folder / "deep" / "none").write_bytes(b"")
    body = {"name": "all", "path": str(folder), "block": 4096}
    assert server.post("/v1/datasets", body).status == 201
    rows = server.get("/v1/datasets/all/files").json["items"]
    assert [(r["name"], r["blocks"]) for r in rows] == [
        ("data", 3),
        ("deep/er/one", 2),
        ("deep/none", 0),
    ]
    assert server.get("/v1/datasets/all/content").fields == ["file"]
    assert server.get("/v1/datasets/all/content?file=deep/er/one").body == bytes(5000)
    assert server.get("/v1/datasets/all/content?file=../x").status == 404


@pytest.fixture
def lake(server: Server) -> Iterator[NameNode]:
    with NameNode() as name_node:
        spec = HdfsSpec("lake", (name_node.url,), nodes={"dn1.example": "n1", "10.0.0.3": "n2"})
        server.backend.sources = Sources((spec,))
        yield name_node
        server.run(server.backend.sources.close())


def test_what_lies_in_hdfs_is_shown_as_what_lies_in_tiers(server: Server, lake: NameNode) -> None:
    answer = server.post("/v1/datasets", {"name": "logs", "hdfs": "hdfs://lake/logs"})
    assert answer.status == 201, answer.body
    made = answer.json
    assert (made["state"], made["source"], made["blocks"], made["files"]) == ("ready", "lake", 3, 3)
    assert made["path"] == "hdfs://lake/logs"
    assert made["located_at"]
    assert made["fault"] == ""
    held = {(row["node"], row["kind"]): row["blocks"] for row in made["holdings"]}
    assert held["n1", "ssd"] == 1
    assert held["n2", "memory"] == 1
    assert held["dn9.example", "memory"] == 1
    assert made["unreadable_blocks"] == 1, "by none of our nodes"
    rows = server.get("/v1/datasets/logs/blocks").json["items"]
    assert [row["file"] for row in rows] == ["a.log", "a.log", "bar/b c.log"]
    offered = {r["node"]: r["is_offered"] for r in rows[0]["replicas"]}
    assert offered == {"n1": True, "dn2.example": False}
    paths = {r["path"] for r in rows[0]["replicas"] if r["is_offered"]}
    assert paths == {"hdfs://lake/logs/a.log"}
    names = [row["name"] for row in server.get("/v1/datasets/logs/files").json["items"]]
    assert names == ["a.log", "bar/b c.log", "bar/empty"]
    content = server.get("/v1/datasets/logs/content?file=a.log")
    assert (content.status, content.json["code"]) == (409, "external")
    assert server.post("/v1/datasets/logs/pin", {}).json["code"] == "external"
    again = server.post("/v1/datasets", {"name": "logs", "hdfs": "hdfs:///logs"})
    assert again.json["id"] == made["id"], "the only one may be left out"
    assert server.send("DELETE", "/v1/datasets/logs").status == 200
    assert server.get("/v1/datasets/logs").status == 404


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"hdfs": "hdfs://lake/none"}, "no_input", "hdfs"),
        ({"hdfs": "hdfs://sea/logs"}, "no_hdfs", "hdfs"),
        ({"hdfs": "/logs"}, "bad_uri", "hdfs"),
        ({"hdfs": None}, "invalid_input", "path"),
        ({"path": "/srv/logs"}, "invalid_input", "hdfs"),
        ({"replicas": 2}, "invalid_input", "replicas"),
        ({"block": "1MiB"}, "invalid_input", "block"),
    ],
)
def test_what_cannot_be_linked_is_named(
    server: Server, lake: NameNode, change: dict[str, Any], code: str, field: str
) -> None:
    answer = server.post("/v1/datasets", {"name": "logs", "hdfs": "hdfs://lake/logs"} | change)
    assert answer.status == 422, answer.body
    assert (answer.json["code"], answer.fields) == (code, [field])
    lake.fault = "standby"
    away = server.post("/v1/datasets", {"name": "logs", "hdfs": "hdfs://lake/logs"})
    assert (away.status, away.json["code"]) == (503, "hdfs_unavailable")
    assert server.get("/v1/datasets").json["items"] == []


def _mark(server: Server, **changes: Any) -> None:
    """Have the records say something of the tier of n1."""

    def change() -> None:
        store(
            server.backend.state,
            replace(server.backend.state.read(mark_of, "n1", "ssd"), **changes),
        )

    server.on_loop(change)


def test_strays_are_listed_and_discarded(server: Server) -> None:
    made = server.post("/v1/datasets", dataset_of(server)).json
    assert server.get("/v1/orphans").json["items"] == []
    found = (Orphan("d-0123456789ab", 2, 8000), Orphan(made["id"], 1, 4096))
    _mark(server, strays=found)
    rows = {row["dataset"]: row for row in server.get("/v1/orphans").json["items"]}
    orphan = rows["d-0123456789ab"]
    assert (orphan["node"], orphan["tier"], orphan["blocks"], orphan["bytes"]) == (
        "n1",
        "ssd",
        2,
        8000,
    )
    assert orphan["path"].startswith("/mnt/ssd/tenure-")
    assert orphan["path"].endswith("/d-0123456789ab")
    assert [rows[key]["is_known"] for key in ("d-0123456789ab", made["id"])] == [False, True]
    assert len(server.get("/v1/orphans?limit=1").json["items"]) == 1
    assert len(server.get("/v1/strays").json["items"]) == 2, "its path until 0.2"
    gone = server.send("DELETE", "/v1/orphans/d-0123456789ab")
    assert gone.json == {"dataset": "d-0123456789ab", "blocks": 2, "bytes": 8000}
    again = server.send("DELETE", "/v1/orphans/d-0123456789ab")
    assert (again.status, again.json["code"]) == (404, "not_found")
    known = server.send("DELETE", f"/v1/orphans/{made['id']}")
    assert (known.status, known.json["code"]) == (409, "in_use")


def test_a_disk_that_was_replaced_is_accepted(server: Server) -> None:
    path = "/v1/nodes/n1/tiers/ssd/accept"
    sound = server.post(path, {})
    assert (sound.status, sound.json["code"]) == (409, "no_fault")
    for wrong in ("/v1/nodes/n1/tiers/tape/accept", "/v1/nodes/n99/tiers/ssd/accept"):
        assert server.post(wrong, {}).status == 404
    assert server.post(path, {"gives_up": "certainly not"}).fields == ["gives_up"]
    _mark(server, fault=f"/mnt/ssd {UNMOUNTED}")
    assert server.get("/v1/nodes/n1").json["tiers"][0]["fault"]
    found = server.post(path, {})
    assert (found.status, found.json["name"]) == (200, "ssd")
    assert server.get("/v1/nodes/n1").json["tiers"][0]["fault"] == ""


def test_a_put_before_the_tiers_were_looked_at_says_when_to_come_again(server: Server) -> None:
    server.on_loop(_begin_anew, server)
    body = dataset_of(server)
    early = server.post("/v1/datasets", body)
    assert (early.status, early.json["code"]) == (503, "not_looked_at")
    assert early.headers["Retry-After"] == "2"
    upload = {"name": "data", "files": [{"size": 5}], "put": {"block": 4096}}
    assert server.post("/v1/uploads", upload).json["code"] == "not_looked_at"
    paths = server.get("/openapi.json").json["paths"]
    for path in ("/v1/datasets", "/v1/uploads"):
        assert "503" in paths[path]["post"]["responses"]


def _begin_anew(server: Server) -> None:
    """Have no engine have answered yet, as after a start of the daemon."""
    for node in list(server.backend.state.tables.nodes.values()):
        server.backend.handle(NodeLost(at_us=server.backend.now_us(), node=node.name))
