"""``tenure dataset``: every verb, against the API over the real core."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.cli.datasets import _inside
from tenure.client.client import Client
from tenure.core.blocks.block_records import mark_of
from tenure.daemon.answers.uploads import UploadParams, Uploads
from tenure.daemon.effects.sources import Sources
from tenure.model.dataset import Orphan
from tenure.model.errors import InvalidInput
from tenure.model.events import NodeLost
from tenure.model.external import HdfsSpec
from tests.api.server import JOB, Server
from tests.cli.conftest import Tenure
from tests.fleet.states import store
from tests.webhdfs.server import NameNode


@pytest.fixture
def inputs(server: Server) -> Path:
    folder = server.folder / "inputs"
    (folder / "sub").mkdir(parents=True)
    (folder / "data").write_bytes(b"012345678\n" * 1000)
    (folder / "sub" / "more").write_bytes(b"x" * 77)
    server.backend.outputs = folder
    return folder


def test_put_waits_and_the_others_show(tenure: Tenure, inputs: Path) -> None:
    ran = tenure("dataset", "put", "logs", str(inputs / "data"), "--block", "4KiB")
    assert ran.code == 0, ran.err
    assert "in 3 blocks of 4KiB, 2 copies of each" in ran.err
    assert "3/3" in ran.lines[1]
    (key,) = tenure("dataset", "ls", "-q").lines
    shown = tenure("dataset", "inspect", "logs")
    assert ["split", "lines"] in [line.split() for line in shown.lines]
    assert "ready" in shown.out
    assert "ssd" in shown.out
    assert tenure("dataset", "inspect", key[:8], "--json").json["blocks"] == 3
    located = tenure("dataset", "locate", "logs")
    assert located.out.count("/ssd") == 6
    assert tenure("dataset", "locate", "logs", "-q").lines == ["0", "1", "2"]
    assert "yes" in tenure("dataset", "pin", "logs").out
    assert "yes" not in tenure("dataset", "unpin", "logs").lines[1]
    assert tenure("dataset", "verify", "logs").code == 0
    assert "removing" in tenure("dataset", "rm", "logs").out
    assert tenure("dataset", "inspect", "logs").code != 0


@pytest.mark.parametrize("where", [(), ("--upload",)])
def test_a_put_is_split_by_lines_or_as_is_said_and_stays_so(
    tenure: Tenure, server: Server, inputs: Path, where: tuple[str, ...]
) -> None:
    params = UploadParams(server.folder / "uploads")
    server.backend._uploads = Uploads(params, server.backend.now_us)

    def put(name: str, *more: str) -> list[int]:
        words = ("dataset", "put", name, str(inputs / "data"), "--block", "4KiB", *where, *more)
        ran = tenure(*words)
        assert ran.code == 0, ran.err
        return [row["bytes"] for row in tenure("dataset", "locate", name, "--json").json]

    assert put("logs") == put("logs", "--split", "lines") == [4090, 4090, 1820]
    assert put("even", "--split", "size") == put("even") == [4096, 4096, 1808]
    other = ("dataset", "put", "even", str(inputs / "data"), *where, "--block", "4KiB")
    assert "of other files, block size, split" in tenure(*other, "--split", "lines").err
    wrong = tenure("dataset", "put", "odd", str(inputs / "data"), *where, "--split", "words")
    assert "'lines' or 'size'" in wrong.err
    for name in ("logs", "even"):
        read = tenure("dataset", "get", name, "-o", str(inputs.parent / name))
        assert read.code == 0, read.err
        assert (inputs.parent / name).read_bytes() == (inputs / "data").read_bytes()


def test_prefetch_is_refused_where_no_node_has_a_memory_tier(tenure: Tenure, inputs: Path) -> None:
    tenure("dataset", "put", "logs", str(inputs / "data"), "--block", "4KiB")
    ran = tenure("dataset", "prefetch", "logs")
    assert (ran.code, ran.out) == (1, "")
    assert "no node has a memory tier" in ran.err
    assert tenure("dataset", "prefetch", "nothing").code != 0
    assert "an empty one was given" in tenure("dataset", "prefetch", "").err


def test_a_batch_over_a_dataset_says_why_its_tasks_read_what_they_read(
    tenure: Tenure, inputs: Path, tmp_path: Path
) -> None:
    tenure("dataset", "put", "logs", str(inputs / "data"), "--block", "4KiB")
    stage = {"name": "s", "memory": "64MiB", "estimate": {"bytes_per_s": 1e6}}
    batch = {"name": "scan", "image": "app:1", "stages": [stage | {"input": {"dataset": "logs"}}]}
    file = tmp_path / "batch.json"
    file.write_text(json.dumps(batch))
    assert tenure("batch", "run", str(file)).code == 0
    told = tenure("batch", "explain", "scan", "--task", "1", "--json").json
    assert told["reading"]["kind"] == "ssd"
    assert told["reading"]["cost"] == 8
    assert told["block"]["number"] == 1
    assert told["node"] in {copy["node"] for copy in told["block"]["copies"]}
    assert told["choices"][0]["cost"] == 8
    shown = tenure("batch", "explain", "scan", "--task", "0")
    assert "it reads a copy in ssd" in shown.out
    assert "COST" in shown.out
    tasks = tenure("batch", "inspect", "scan", "--tasks")
    assert "logs, blocks of 3.994KiB" in tasks.out, "the longest"
    assert tenure("batch", "explain", "scan", "--task", "9").code == 1


def test_files_of_this_machine_are_sent_and_gone_on_with(
    tenure: Tenure, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.api.views.uploads.CHUNK_BYTES", 4000)
    params = UploadParams(server.folder / "uploads")
    keeper = server.backend._uploads = Uploads(params, server.backend.now_us)
    mine = tmp_path / "mine"
    (mine / "sub").mkdir(parents=True)
    (mine / "data").write_bytes(b"012345678\n" * 1000)
    (mine / "sub" / "more").write_bytes(b"x" * 77)
    (mine / "link").symlink_to("data")
    assert "no plain file" in tenure("dataset", "put", "logs", str(mine), "--upload").err
    (mine / "link").unlink()
    odd = mine / "sub" / os.fsdecode(b"caf\xe9")
    odd.write_text("named on a machine that does not speak UTF-8")
    told = tenure("dataset", "put", "logs", str(mine), "--upload").err
    assert "mine/sub is not printable: 'sub/caf\\udce9'" in told
    odd.unlink()
    cut, sent = Client.send_chunk, list[tuple[int, int]]()

    def breaks(self: Client, key: str, number: int, offset: int, chunk: bytes) -> Any:
        if len(sent) == 2:
            raise KeyboardInterrupt
        sent.append((number, offset))
        return cut(self, key, number, offset, chunk)

    monkeypatch.setattr(Client, "send_chunk", breaks)
    words = ("dataset", "put", "logs", str(mine), "--upload", "--block", "4KiB")
    ended = tenure(*words)
    assert ended.code == 130
    assert "what was sent of logs is kept; the same put goes on from there" in ended.err
    monkeypatch.setattr(Client, "send_chunk", cut)
    ran = tenure(*words)
    assert ran.code == 0, ran.err
    first = next(line for line in ran.err.splitlines() if "sent" in line)
    assert first == "logs: 7.812KiB of 9.841KiB sent", "what was there is not sent again"
    assert "logs: 9.841KiB of 9.841KiB sent" in ran.err
    assert tenure("dataset", "get", "logs", "--file", "sub/more").out == "x" * 77
    server.run(keeper.sweep(server.backend.tables))
    assert not list(params.folder.iterdir())
    assert (
        "No such file" in tenure("dataset", "put", "none", str(tmp_path / "mine2"), "--upload").err
    )


def test_link_names_files_in_hdfs_and_locate_shows_where_they_are(
    tenure: Tenure, server: Server
) -> None:
    with NameNode() as name_node:
        spec = HdfsSpec("lake", (name_node.url,), nodes={"dn1.example": "n1"})
        server.backend.sources = Sources((spec,))
        ran = tenure("dataset", "link", "logs", "hdfs://lake/logs")
        assert ran.code == 0, ran.err
        assert "in 3 blocks in 3 files of hdfs://lake/logs" in ran.err
        assert "hdfs://lake/logs" in ran.lines[1]
        located = tenure("dataset", "locate", "logs")
        assert "n1/hdfs-ssd, dn2.example/hdfs-hdd (away)" in located.out.replace(
            "dn2.example/hdfs-hdd (away), n1/hdfs-ssd", "n1/hdfs-ssd, dn2.example/hdfs-hdd (away)"
        )
        assert tenure("dataset", "pin", "logs").code == 1
        assert "hdfs dfs -get" in tenure("dataset", "get", "logs", "--file", "a.log").err
        gone = tenure("dataset", "link", "none", "hdfs://lake/none")
        assert gone.code == 2
        assert "File does not exist: /none" in gone.err
        server.run(server.backend.sources.close())


def test_get_brings_files_back(tenure: Tenure, inputs: Path, tmp_path: Path) -> None:
    single = tenure("dataset", "put", "one", str(inputs / "data"), "--no-wait")
    assert single.code == 0
    assert tenure("dataset", "get", "one").out == (inputs / "data").read_text()
    file = tmp_path / "copy"
    assert tenure("dataset", "get", "one", "-o", str(file)).code == 0
    assert file.read_bytes() == (inputs / "data").read_bytes()
    tenure("dataset", "put", "all", str(inputs), "--replicas", "1", "--tiers", "ssd")
    assert "name a folder" in tenure("dataset", "get", "all").err
    folder = tmp_path / "all"
    assert tenure("dataset", "get", "all", "-o", str(folder)).code == 0
    assert (folder / "sub" / "more").read_bytes() == b"x" * 77
    assert tenure("dataset", "get", "all", "--file", "sub/more").out == "x" * 77
    assert tenure("dataset", "get", "all", "--file", "nope").code == 2


def test_get_reads_again_what_is_there_with_other_bytes(
    tenure: Tenure, inputs: Path, tmp_path: Path
) -> None:
    """A file of an earlier dataset, as long as the new one, was taken for it."""
    tenure("dataset", "put", "one", str(inputs / "data"), "--block", "4KiB", "--no-wait")
    right = (inputs / "data").read_bytes()
    file = tmp_path / "copy"
    file.write_bytes(right[:-1] + b"?")
    ran = tenure("dataset", "get", "one", "-o", str(file))
    assert (ran.code, file.read_bytes()) == (0, right)
    assert "was there" not in ran.err
    before = file.stat()
    assert "was there" in tenure("dataset", "get", "one", "-o", str(file)).err
    assert file.stat().st_ino == before.st_ino, "not written again"


def test_what_is_refused_names_field_and_remedy(tenure: Tenure, inputs: Path) -> None:
    refused = tenure("dataset", "put", "a/../b", str(inputs))
    assert refused.code == 2
    assert "name" in refused.err
    outside = tenure("dataset", "put", "etc", "/etc/passwd")
    assert outside.code == 2
    assert "batches.input_dirs" in outside.err
    few = tenure("dataset", "put", "logs", str(inputs), "--replicas", "9")
    assert "there are" in few.err


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", ""])
def test_names_that_lead_out_of_a_folder_are_not_written(name: str) -> None:
    with pytest.raises(InvalidInput):
        _inside(name)


def test_a_job_over_a_dataset_says_why_its_executors_read_what_they_read(
    tenure: Tenure, inputs: Path
) -> None:
    tenure("dataset", "put", "logs", str(inputs / "data"), "--block", "4KiB")
    body = {**JOB, "name": "scan", "executors": 3, "input": {"dataset": "logs"}}
    would = tenure("job", "plan", "-", stdin=json.dumps(body))
    assert would.code == 1
    assert "1 of 3 blocks each" in would.out
    assert tenure("job", "run", "-", stdin=json.dumps(body)).code == 0
    shown = tenure("job", "inspect", "scan")
    assert "logs" in shown.out
    assert "READS" in shown.out
    assert "ssd" in shown.out or "brought" in shown.out
    assert tenure("job", "explain", "scan").out.count("\ncost ") == 3
    told = tenure("job", "explain", "scan", "--executor", "1")
    assert "/tenure/in/chunk" in told.out
    assert "by the cheapest matching" in told.out
    (block,) = tenure("job", "explain", "scan", "--executor", "1", "--json").json["blocks"]
    assert block["reading"]["cost"] > 0
    assert [c["cost"] for c in block["choices"]] == sorted(c["cost"] for c in block["choices"])
    assert tenure("job", "explain", "scan", "--executor", "9").code == 1


def test_uploads_are_listed_and_abandoned(tenure: Tenure, server: Server) -> None:
    params = UploadParams(server.folder / "uploads")
    server.backend._uploads = Uploads(params, server.backend.now_us)
    body = {"name": "far", "files": [{"name": "a", "size": 10}, {"name": "b", "size": 20}]}
    key = server.post("/v1/uploads", body).json["id"]
    assert tenure("dataset", "uploads", "-q").lines == [key]
    shown = tenure("dataset", "uploads")
    assert "far" in shown.out
    assert "0B/30B" in shown.out
    gone = tenure("dataset", "abandon", key, "--json")
    assert (gone.code, gone.json[0]["id"]) == (0, key)
    assert tenure("dataset", "uploads", "--json").json == []
    assert tenure("dataset", "abandon", key).code == 1


def test_strays_are_listed_and_discarded(tenure: Tenure, server: Server) -> None:
    def change() -> None:
        mark = server.backend.state.read(mark_of, "n1", "ssd")
        store(server.backend.state, replace(mark, strays=(Orphan("d-0123456789ab", 2, 8192),)))

    server.on_loop(change)
    shown = tenure("dataset", "orphans")
    assert "/d-0123456789ab" in shown.out
    assert "8KiB" in shown.out
    assert tenure("dataset", "orphans", "--json").json[0]["blocks"] == 2
    assert tenure("dataset", "strays", "--json").json[0]["blocks"] == 2, "its name until 0.2"
    assert tenure("dataset", "discard", "d-0123456789ab", "-q").lines == ["d-0123456789ab"]
    assert tenure("dataset", "orphans", "--json").json == []
    refused = tenure("dataset", "discard", "d-0123456789ab")
    assert refused.code == 1
    assert "no tier has orphans" in refused.err


def test_a_put_waits_for_the_first_look_at_tiers(
    tenure: Tenure, server: Server, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon has just started: its nodes answer while the command waits."""

    backend, names = server.backend, ("n1", "n2", "n4")

    def lose() -> None:
        for name in names:
            backend.handle(NodeLost(at_us=backend.now_us(), node=name))

    def find() -> None:
        for name in names:
            backend.connect(name)

    server.on_loop(lose)

    def look(_seconds: float) -> None:
        server.on_loop(find)

    monkeypatch.setattr("tenure.cli.verb.PATIENCE_S", 0.0)  # what any request waits for
    monkeypatch.setattr("tenure.cli.datasets.time.sleep", look)
    ran = tenure("dataset", "put", "logs", str(inputs / "data"), "--block", "4KiB")
    assert ran.code == 0, ran.err
    assert "looked at" in ran.err
    assert "3/3" in ran.lines[1]


def test_of_several_names_those_that_are_there_are_done(tenure: Tenure, inputs: Path) -> None:
    for name in ("one", "two"):
        assert tenure("dataset", "put", name, str(inputs / "data"), "--block", "4KiB").code == 0
    pinned = tenure("dataset", "pin", "one", "none", "two", "--json")
    assert [row["name"] for row in pinned.json] == ["one", "two"]
    assert pinned.code == 1
    assert "none" in pinned.err
    gone = tenure("dataset", "rm", "none", "one", "nor-this", "two")
    assert gone.code == 1
    assert gone.err.count("error:") == 2
    assert "removing" in gone.out
    assert tenure("dataset", "abandon", "u-1", "u-2").err.count("error:") == 2
    assert tenure("dataset", "discard", "d-1", "d-2").err.count("error:") == 2
    assert tenure("job", "cancel", "j-1", "j-2").err.count("error:") == 2
