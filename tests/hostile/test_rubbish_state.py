"""Rubbish in the state folder: the daemon serves, or says what lies in its way."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.errors import TestbedError
from tests.faults.tenured import Tenured

RUBBISH = b"\0rubbish\xff\n" * 2000


@pytest.fixture
def tenured() -> Iterator[Tenured]:
    """A daemon that never ran, of one node whose engine is not there."""
    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        folder = Path(name)
        node = {"name": "n1", "url": f"unix://{name}/no.sock", "generation": "young"}
        config = {
            "state_dir": f"{name}/state",
            "listen": [f"unix://{name}/t.sock"],
            "nodes": [node | {"site": "local"}],
        }
        (folder / "state").mkdir(mode=0o700)
        made = Tenured(folder, config, {})
        try:
            yield made
        finally:
            made.stop()


def _file(name: str) -> Callable[[Path], object]:
    return lambda state: (state / name).write_bytes(RUBBISH)


def _folder(name: str) -> Callable[[Path], object]:
    return lambda state: (state / name / "in it").mkdir(parents=True)


REFUSED = {
    "state.db": (_file("state.db"), "is damaged"),
    "state.db is a folder": (_folder("state.db"), "cannot use the database"),
    "ssh": (_file("ssh"), "cannot make the folder"),
    "tenured.json": (_folder("tenured.json"), "cannot write"),
    "token": (_file("token"), "write another into it"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_says_what_lies_in_its_way(tenured: Tenured, what: str) -> None:
    spoil, told = REFUSED[what]
    if what == "token":  # beside no state it would be taken for one that went
        tenured.start()
        assert tenured.stop() == 0
    spoil(tenured.state_dir)
    with pytest.raises(TestbedError, match="has ended"):
        tenured.start()
    log = tenured.log.read_text(errors="replace")
    assert told in log
    assert "Traceback" not in log


def test_it_serves_amid_rubbish(tenured: Tenured) -> None:
    state = tenured.state_dir
    tenured.start()
    assert tenured.stop() == 0
    shutil.rmtree(state / "redis", ignore_errors=True)
    for name in ("state.db-wal", "tenured.json"):
        (state / name).unlink(missing_ok=True)
    for name in ("redis", "kernels", "stats.db", "uses.db", "state.db-wal", "tenured.json"):
        (state / name).write_bytes(RUBBISH)
    for name in ("uploads", "outputs"):
        inner = state / name / "b-1"
        (inner / "upload.json").mkdir(parents=True)
        (state / name / "file").write_bytes(RUBBISH)
        (state / name / "circle").symlink_to(state / name / "circle")
        (state / name / os.fsdecode(b"\xff")).mkdir()
    tenured.start()
    assert tenured.client.nodes()
    assert tenured.stop() == 0
    assert "Traceback" not in tenured.log.read_text(errors="replace")
