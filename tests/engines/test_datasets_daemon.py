"""Datasets on real engines: copies are what was put, losses made good, kills lose nothing."""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenure.client import uploading
from tenure.client.client import Client
from tenure.model.errors import Conflict, InvalidInput, NotFound
from testbed import IMAGE, NodeSpec, Testbed, bounded, docker_api
from tests.engines.served import served
from tests.faults.tenured import ROOT, Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
NODES = ("a", "b", "c")
MIB = 1 << 20
BLOCK = MIB
#: A helper container takes about a second here, several on a busy machine.
SOON_S = 90.0
KINDS = ("memory", "ssd", "hdd")


class Rig:
    """Three nodes with all kinds of tiers, a daemon, and a folder for what is put."""

    def __init__(self, bed: Testbed, tenured: Tenured, inputs: Path, tiers: Tiers) -> None:
        self.bed, self.tenured, self.inputs, self.tiers = bed, tenured, inputs, tiers

    @property
    def client(self) -> Client:
        return self.tenured.client

    def file(self, name: str, size: int) -> Path:
        path = self.inputs / name
        path.write_bytes(random.Random(name).randbytes(size))
        return path

    def put(self, name: str, path: Path, **more: Any) -> dict[str, Any]:
        return self.client.put_dataset({"name": name, "path": str(path), "block": BLOCK} | more)

    def ready(self, name: str) -> dict[str, Any]:
        return self.until(name, lambda found: found["state"] == "ready", "be ready")

    def until(self, name: str, holds: Any, what: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.client.dataset(name)
            return found if holds(found) else None

        found: dict[str, Any] = until(look, SOON_S, f"dataset {name} to {what}", poll_s=0.1)
        return found

    def copies(self, name: str) -> list[list[tuple[str, str, Path]]]:
        """Return node, tier and file of each copy that is offered, block by block."""
        return [
            [
                (replica["node"], replica["tier"], Path(replica["path"]))
                for replica in block["replicas"]
                if replica["is_offered"]
            ]
            for block in self.client.dataset_blocks(name)
        ]

    def files(self, node: str) -> list[Path]:
        """Return the blocks that lie in the tiers of a node."""
        return sorted(path for path in self.found(node) if "." not in path.name)

    def found(self, node: str) -> list[Path]:
        """Return all files that lie in the tiers of a node."""
        walks = (os.walk(tier["path"]) for tier in self.tiers.of(node))  # folders go meanwhile
        return [Path(folder, name) for walk in walks for folder, _, names in walk for name in names]

    def helpers(self, node: str) -> list[dict[str, Any]]:
        status, answer = docker_api.call(
            self.bed.nodes[node].socket, "GET", "/containers/json?all=1"
        )
        assert status == 200
        return list(json.loads(answer))

    def content(self, name: str, file: str = "") -> bytes:
        return b"".join(self.client.dataset_content(name, file))

    def _is_bare(self, node: str) -> bool:
        return not self.files(node)

    def removed(self, *names: str) -> None:
        for name in names:
            self.client.remove_dataset(name)
        for node in NODES:
            until(partial(self._is_bare, node), SOON_S, f"the files on {node} to go")


class Tiers:
    """Directories for the tiers of nodes; memory ones on the machine's tmpfs."""

    def __init__(self, folder: Path, memory: Path) -> None:
        self._folders = {"memory": memory, "ssd": folder, "hdd": folder}

    def of(self, node: str) -> Sequence[Mapping[str, Any]]:
        found = []
        for kind in KINDS:
            path = self._folders[kind] / node / kind
            path.mkdir(parents=True, exist_ok=True)
            size = 12 * MIB if kind == "memory" else 60 * MIB
            found.append({"name": kind, "kind": kind, "path": str(path), "capacity": size})
        return found


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    inputs = tmp_path_factory.mktemp("inputs")
    memory = Path(tempfile.mkdtemp(prefix="tenure-", dir="/dev/shm"))
    tiers = Tiers(tmp_path_factory.mktemp("tiers"), memory)
    specs = [NodeSpec(name, "nursery", cpus=2, memory_bytes=512 << 20) for name in NODES]
    told: dict[str, Any] = {
        "generations": ["nursery"],
        "batches": {"input_dirs": [str(inputs)]},
        "datasets": {"image": IMAGE, "lost_after_s": 2, "copies_per_node": 4},
        "relist_s": 2,
    }
    try:
        with served(specs, tiers=tiers.of, **told) as (bed, tenured):
            rig = Rig(bed, tenured, inputs, tiers)
            for node in NODES:
                until(partial(_is_surveyed, rig, node), SOON_S, f"{node} to be looked at")
            yield rig
    finally:
        shutil.rmtree(memory, ignore_errors=True)


def _is_surveyed(rig: Rig, node: str) -> bool:
    tiers = rig.client.node(node)["tiers"]
    assert not any(tier["fault"] for tier in tiers), tiers
    return all(tier["surveyed_at"] and tier["bytes_per_s"] for tier in tiers)


def test_every_copy_is_what_was_put(rig: Rig) -> None:
    path = rig.file("data", 3 * MIB + 12345)
    made = rig.put("data", path, replicas=3, tiers=list(KINDS))
    assert made["state"] == "putting"
    found = rig.ready("data")
    assert (found["blocks"], found["whole_blocks"]) == (4, 4)
    content = path.read_bytes()
    for number, copies in enumerate(rig.copies("data")):
        part = content[number * BLOCK : (number + 1) * BLOCK]
        assert sorted(tier for _, tier, _ in copies) == sorted(KINDS)
        assert {node for node, _, _ in copies} == set(NODES)
        for _, _, file in copies:
            assert file.read_bytes() == part
            assert file.stat().st_mode & 0o777 == 0o444
    assert rig.content("data") == content
    until(lambda: not any(map(rig.helpers, NODES)), SOON_S, "all helpers to be removed")
    speeds = {t["name"]: t["bytes_per_s"] for t in rig.client.node("a")["tiers"]}
    print("measured:", {name: f"{speed / 1e6:.0f} MB/s" for name, speed in speeds.items()})
    assert min(speeds.values()) > MIB
    rig.removed("data")


def test_a_folder_comes_back_as_it_was(rig: Rig, tmp_path: Path) -> None:
    folder = rig.inputs / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "one").write_bytes(b"1" * 5000)
    (folder / "none").write_bytes(b"")
    (folder / "two words").write_bytes(os.urandom(BLOCK + 1))
    program = "from tenure.cli.main import main; main()"

    def tenure(*words: str) -> subprocess.CompletedProcess[str]:
        return bounded.run(
            [sys.executable, "-c", program, "dataset", *words],
            cwd=ROOT,
            env={**os.environ, "TENURE_HOST": rig.tenured.config["listen"][0]},
            text=True,
            timeout_s=SOON_S,
        )

    ran = tenure("put", "folder", str(folder), "--block", "1MiB", "--replicas", "1")
    assert ran.returncode == 0, ran.stderr
    back = tenure("get", "folder", "-o", str(tmp_path / "back"))
    assert back.returncode == 0, back.stderr
    for path in (p for p in folder.rglob("*") if p.is_file()):
        assert (tmp_path / "back" / path.relative_to(folder)).read_bytes() == path.read_bytes()
    rig.tenured.kill()
    rig.tenured.start()
    again = tenure("get", "folder", "-o", str(tmp_path / "again"))
    assert again.returncode == 0, "it waits for the first look of the daemon: " + again.stderr
    rig.removed("folder")


def test_a_wrong_copy_is_never_given_and_is_replaced(rig: Rig) -> None:
    path = rig.file("rots", 2 * MIB)
    rig.put("rots", path)
    rig.ready("rots")
    for copies in rig.copies("rots"):
        _, _, file = copies[0]
        file.chmod(0o644)
        file.write_bytes(b"rotten" + file.read_bytes()[6:])
    assert rig.content("rots") == path.read_bytes()
    rig.client.change_dataset("rots", "verify")

    def is_good(replica: dict[str, Any], digest: str) -> bool:
        if not replica["is_offered"]:
            return False
        try:
            content = Path(replica["path"]).read_bytes()
        except FileNotFoundError:  # a wrong one that was removed since
            return False
        return hashlib.sha256(content).hexdigest() == digest

    def is_mended() -> bool:
        return all(
            len(row["replicas"]) == 2
            and all(is_good(replica, row["sha256"]) for replica in row["replicas"])
            for row in rig.client.dataset_blocks("rots")
        )

    until(is_mended, SOON_S, "wrong copies to be replaced")
    rig.removed("rots")


def test_kill_in_the_middle_of_a_put_is_gone_on_with(rig: Rig) -> None:
    path = rig.file("large", 8 * MIB)
    rig.put("large", path, replicas=2)
    rig.until("large", lambda found: found["whole_blocks"] >= 1, "have a whole block")
    rig.tenured.kill()
    rig.tenured.start()
    rig.ready("large")
    assert rig.content("large") == path.read_bytes()

    def is_clean() -> bool:
        found = [path for node in NODES for path in rig.found(node)]
        is_part = any(".part" in path.name for path in found)
        return not is_part and sum("." not in path.name for path in found) == 16

    until(is_clean, SOON_S, "what the kill left to be removed")
    until(lambda: not any(map(rig.helpers, NODES)), SOON_S, "all helpers to be removed")
    rig.removed("large")


def test_a_helper_that_an_engine_makes_late_is_removed(rig: Rig) -> None:
    """Its create was on its way when the daemon was killed, and done after the next had looked."""
    until(partial(_is_surveyed, rig, "a"), SOON_S, "a to be looked at")
    path = rig.file("at work", 8 * MIB)
    rig.put("working", path, replicas=3)
    body = {"Image": IMAGE, "Entrypoint": ["sh"], "Labels": {"tenure.helper": "tier"}}
    other = body | {"Labels": {"tenure.helper": "tier", "tenure.helper.fleet": "another"}}
    made = {}
    for name, content in {"tenure-tier-late": body, "tenure-tier-theirs": other}.items():
        where = f"/containers/create?name={name}"
        status, answer = docker_api.call(rig.bed.nodes["a"].socket, "POST", where, content)
        assert status == 201
        made[name] = json.loads(answer)["Id"]
    ready = rig.ready("working")
    assert ready["whole_blocks"] == 8, "those at work are left alone"
    theirs = {made["tenure-tier-theirs"]}
    until(lambda: {row["Id"] for row in rig.helpers("a")} == theirs, SOON_S, "ours to be removed")
    where = f"/containers/{made['tenure-tier-theirs']}?force=1"
    assert docker_api.call(rig.bed.nodes["a"].socket, "DELETE", where)[0] == 204
    rig.removed("working")


def test_a_lost_node_loses_nothing_of_two_replicas(rig: Rig) -> None:
    path = rig.file("kept", 3 * MIB)
    rig.put("kept", path, replicas=2)
    rig.ready("kept")
    held = {node: len(rig.files(node)) for node in NODES}
    lost = max(held, key=lambda node: held[node])
    rig.bed.kill_engine(lost)
    try:

        def is_whole() -> bool:
            return all(
                len({node for node, _, _ in copies} - {lost}) == 2 for copies in rig.copies("kept")
            )

        until(is_whole, SOON_S, f"the blocks of {lost} to be copied anew")
        assert rig.content("kept") == path.read_bytes()
    finally:
        rig.bed.restart_engine(lost)
    until(partial(_is_ready, rig, lost), SOON_S, f"{lost} to be back")
    rig.removed("kept")


def _is_ready(rig: Rig, node: str) -> bool:
    return bool(rig.client.node(node)["state"] == "ready")


def test_files_that_go_are_made_good_and_strangers_removed(rig: Rig) -> None:
    path = rig.file("gone", 2 * MIB)
    rig.put("gone", path, replicas=2)
    rig.ready("gone")
    node, _, file = rig.copies("gone")[0][0]
    stranger = file.parent.parent / "d-stranger" / "000001"
    stranger.parent.mkdir()
    stranger.write_bytes(b"x")
    foreign = stranger.parent / "no name of ours"
    foreign.write_bytes(b"x")
    file.unlink()
    rig.bed.kill_engine(node)
    rig.bed.restart_engine(node)

    def is_good() -> bool:
        here = [row for row in rig.copies("gone")]
        return all(len(copies) == 2 and all(f.exists() for *_, f in copies) for copies in here)

    until(is_good, SOON_S, "the file that went to be made good")
    until(lambda: not stranger.exists(), SOON_S, "what nobody knows to be removed")
    assert foreign.exists()
    foreign.unlink()
    assert rig.content("gone") == path.read_bytes()
    rig.removed("gone")


def test_put_and_removal_at_a_time_leave_nothing(rig: Rig) -> None:
    path = rig.file("brief", 4 * MIB)
    first = rig.put("brief", path)
    rig.client.remove_dataset(first["id"])
    again = rig.put("brief", path, replicas=1)
    assert again["id"] != first["id"]
    rig.ready("brief")
    assert rig.content("brief") == path.read_bytes()

    def is_alone() -> bool:
        names = {file.parent.name for node in NODES for file in rig.files(node)}
        return names == {again["id"]}

    until(is_alone, SOON_S, "the first to be gone")
    rig.removed("brief")


def test_what_cannot_be_put_says_why(rig: Rig) -> None:
    path = rig.file("big", MIB)
    with path.open("r+b") as file:
        file.truncate(400 * MIB)
    with pytest.raises(InvalidInput, match="have room for") as refused:
        rig.put("big", path)
    assert refused.value.code == "no_room"
    with pytest.raises(InvalidInput) as refused:
        rig.put("../escape", rig.file("small", 10))
    assert refused.value.fields[0].path == "name"
    rig.put("small", rig.file("small", 10))
    with pytest.raises(Conflict) as taken:
        rig.put("small", rig.file("other", 11))
    assert taken.value.code == "name_taken"
    rig.ready("small")
    rig.removed("small")


def test_a_tier_that_is_full_is_left_alone(rig: Rig) -> None:
    """By its capacity; `test_full_tier.py` has one whose disk is smaller than that."""
    path = rig.file("fills", 20 * MIB)
    rig.put("fills", path, replicas=1, tiers=["memory"], block=4 * MIB)
    found = rig.ready("fills")
    used = {row["node"]: row["bytes"] for row in found["holdings"]}
    assert all(size <= 12 * MIB for size in used.values()), "no more than the tier's capacity"
    with pytest.raises(InvalidInput) as refused:
        rig.put("more", rig.file("more", 30 * MIB), replicas=1, tiers=["memory"])
    assert refused.value.code == "no_room"
    rig.removed("fills")


def test_an_upload_outlives_a_kill_of_the_daemon_and_is_cleared_once_it_is_put(
    rig: Rig, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    (folder / "sub").mkdir(parents=True)
    contents = {"sub/large": 20 * MIB + 5, "small": 100}
    for name, size in contents.items():
        (folder / name).write_bytes(random.Random(name).randbytes(size))
    strikes: list[int] = []

    def tell(done: int, whole: int) -> None:
        if 0 < done < whole and not strikes:
            strikes.append(done)
            rig.tenured.kill()
            rig.tenured.start()

    key = uploading.send(rig.client, "sent", folder, patience_s=SOON_S, tell=tell)
    assert strikes, "the daemon was killed in the middle"
    other = rig.client.begin_upload("other", [{"name": "", "size": 9, "mtime_ns": 1}])["id"]
    assert {row["id"]: row["name"] for row in rig.client.uploads()} == {
        key: "sent",
        other: "other",
    }
    rig.client.drop_upload(other)
    # where the tiers were not looked at since the start, the client asks again
    rig.client.put_dataset({"name": "sent", "upload": key, "block": 4 * MIB})
    rig.ready("sent")
    for name, size in contents.items():
        assert rig.content("sent", name) == random.Random(name).randbytes(size)
    left = rig.tenured.state_dir / "uploads"
    until(lambda: not list(left.iterdir()), SOON_S, "the upload to be cleared")
    rig.removed("sent")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_words_and_lines_of_blocks_in_tiers_are_those_of_the_file(rig: Rig, ending: bytes) -> None:
    """Sorted and counted where the copies lie; the last line has no end, and one is too long."""
    dice = random.Random(17)
    lines = [b"%06x %06x" % (dice.getrandbits(24), dice.getrandbits(24)) for _ in range(160_000)]
    lines[3:3] = [b"", b"long " * 300_000, b""]
    text = ending.join(lines)
    path = rig.inputs / "text"
    path.write_bytes(text)
    rig.put("text", path, tiers=["ssd", "hdd"])
    rig.ready("text")
    pieces = [copies[0][2].read_bytes() for copies in rig.copies("text")]
    assert b"".join(pieces) == rig.content("text") == text
    assert max(map(len, pieces)) > BLOCK, "a line that is longer than a block stays whole"
    assert sum((Counter(piece.split()) for piece in pieces), Counter()) == Counter(text.split())
    runs = [sorted(piece.splitlines(keepends=True)) for piece in pieces]
    assert list(heapq.merge(*runs)) == sorted(text.splitlines(keepends=True))
    rig.removed("text")


def _tenured(rig: Rig, *words: str) -> None:
    argv = [sys.executable, "-m", "tenure.cli.daemon", *words]
    argv += ["--config", str(rig.tenured.config_file)]
    done = bounded.run(argv, cwd=ROOT, text=True)
    assert done.returncode == 0, done.stderr


def _tier(rig: Rig, node: str, name: str) -> dict[str, Any]:
    return next(row for row in rig.client.node(node)["tiers"] if row["name"] == name)


def test_a_restore_removes_nothing_that_was_put_since_and_a_replaced_disk_is_accepted(
    rig: Rig, tmp_path: Path
) -> None:
    old, new = rig.file("old", 2 * MIB), rig.file("new", 3 * MIB)
    rig.put("old", old, tiers=["ssd"])
    rig.ready("old")
    _tenured(rig, "backup", str(tmp_path / "backup"))
    made = rig.put("new", new, tiers=["hdd"])
    rig.ready("new")
    lying = [file for copies in rig.copies("new") for *_, file in copies]
    node, _, file = rig.copies("old")[0][0]
    rig.tenured.stop()
    shutil.rmtree(file.parent.parent)  # the disk was replaced by an empty one
    _tenured(rig, "restore", str(tmp_path / "backup"))
    rig.tenured.start()
    with pytest.raises(NotFound):
        rig.client.dataset("new")

    def orphans() -> list[dict[str, Any]]:
        return [row for row in rig.client.orphans() if row["dataset"] == made["id"]]

    found = until(
        lambda: sum(row["blocks"] for row in orphans()) == 6 and orphans(), SOON_S, "all orphans"
    )
    assert not any(row["is_known"] for row in found)
    assert {Path(row["path"]) for row in found} == {file.parent for file in lying}
    blocks = {file.name: file for file in lying}
    whole = b"".join(blocks[name].read_bytes() for name in sorted(blocks))
    assert whole == new.read_bytes(), "one after another the blocks are the file"
    with pytest.raises(Conflict) as sound:
        rig.client.accept_tier(node, "hdd")
    assert sound.value.code == "no_fault"
    until(lambda: _tier(rig, node, "ssd")["fault"], SOON_S, "the other disk to be noticed")
    rig.client.accept_tier(node, "ssd")
    until(lambda: not _tier(rig, node, "ssd")["fault"], SOON_S, "it to be taken")
    rig.until("old", lambda d: d["whole_blocks"] == d["blocks"], "be whole again")
    assert rig.content("old") == old.read_bytes()
    assert rig.client.discard_orphans(made["id"])["blocks"] == 6
    until(lambda: not any(file.exists() for file in lying), SOON_S, "orphans to go by word")
    rig.removed("old")


def _prefetched(rig: Rig, outcome: str) -> float:
    word = f'tenure_prefetch_copies_total{{outcome="{outcome}"}} '
    lines = rig.client.metrics().splitlines()
    return next(float(line.removeprefix(word)) for line in lines if line.startswith(word))


def test_copies_into_memory_that_nobody_wants_any_more_are_cancelled(rig: Rig) -> None:
    rig.put("brief", rig.file("brief", 6 * MIB), replicas=2, tiers=["ssd", "hdd"])
    rig.ready("brief")
    rig.client.change_dataset("brief", "prefetch")
    rig.client.remove_dataset("brief")
    until(lambda: _prefetched(rig, "cancelled") >= 1, SOON_S, "copies to be cancelled")
    until(lambda: not any(map(rig.helpers, NODES)), SOON_S, "their helpers to be removed")
    rig.removed()
