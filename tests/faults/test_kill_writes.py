"""kill -9 of ``tenured`` amid writes of many kinds by several clients: what was answered is there.

The engines are simulated, behind Docker's API: what is judged is what the daemon keeps. No root is
needed. ``KILLS=500 pytest -n 0 -s tests/faults/test_kill_writes.py`` kills it as often as that.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import bounded, tied
from testbed.errors import TestbedError
from tests.faults.share import Share
from tests.faults.statedb import events, records
from tests.faults.tenured import ROOT, Tenured, until
from tests.faults.writers import Writer
from tests.webhdfs.server import NameNode

KILLS = int(os.environ.get("KILLS", "25"))
WRITERS = 4
pytestmark = [pytest.mark.faults, pytest.mark.timeout(300 + 15 * KILLS)]
#: Every so many kills one strikes a start.
EARLY = 5
HISTORY = 100_000
TOLD = 50


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="tnw-")).resolve()
    yield path
    shutil.rmtree(path)


@pytest.fixture
def lake() -> Iterator[NameNode]:
    with NameNode() as name_node:
        yield name_node


@pytest.fixture
def tenured(folder: Path, lake: NameNode) -> Iterator[Tenured]:
    """A daemon that was not started, over engines that go on whatever becomes of it."""
    words = ["--dir", str(folder), "--nodes", "6", "--cpus", "64", "--lent", "1"]
    engines = tied.start(
        [sys.executable, "-m", "tests.fleet.engines", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        nodes = json.loads(bounded.line(engines))
        config = {
            "state_dir": str(folder / "state"),
            "listen": [f"unix://{folder}/d.sock"],
            "nodes": nodes,
            "generations": ["young"],
            "redis": {"url": "redis://127.0.0.1:9"},
            "limits": {"history": HISTORY, "wrong_tokens_per_s": 10_000},
            "harvest": {"require_forecast": False},
            "datasets": {"hdfs": [{"name": "lake", "namenodes": [lake.url]}]},
        }
        made = Tenured(folder, config, {})
        yield made
        if made.is_running:
            made.kill()
    finally:
        engines.kill()
        engines.communicate(timeout=60)


class Struck:
    """The daemon under its writers, kill after kill."""

    def __init__(self, folder: Path, tenured: Tenured, rng: random.Random) -> None:
        socket = str(folder / "d.sock")
        self.tenured, self.rng = tenured, rng
        self.writers = [Writer(socket, n, random.Random(rng.random())) for n in range(WRITERS)]
        self.seen: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.early = 0

    def kill_amid_writes(self) -> None:
        """Have everybody write for a moment, and kill the daemon amid that."""
        stop = threading.Event()
        threads = [threading.Thread(target=one.run, args=(stop,)) for one in self.writers]
        for thread in threads:
            thread.start()
        time.sleep(self.rng.uniform(0.02, 0.8))
        self.seen = self.tenured.client.events(after=self._seen(), limit=1000)["items"]
        time.sleep(self.rng.uniform(0.0, 0.05))
        self.tenured.kill()
        stop.set()
        for thread in threads:
            bounded.join(thread)
        self.faults += [repr(one.error) for one in self.writers if one.error]

    def kill_amid_start(self) -> None:
        """Kill the daemon somewhere on the way to being ready."""
        begun = self.tenured.starts

        def strike() -> None:
            while self.tenured.starts == begun or not self.tenured.is_running:
                time.sleep(0.005)
            time.sleep(self.rng.uniform(0.0, 1.2))
            self.tenured.kill()

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            self.tenured.start()
        except TestbedError:
            self.early += 1  # it was not ready yet
        bounded.join(thread)

    def _seen(self) -> int:
        return max(0, int(self.tenured.client.events(limit=1)["last_seq"]) - 500)

    def judge(self) -> None:
        """Look at everything after a start."""
        services = records(self.tenured.database, "services").items()
        removing = {key for key, row in services if row.get("is_removing")}
        for writer in self.writers:
            writer.removing = removing
            self.faults += writer.settle()
        first = self.seen[0]["seq"] if self.seen else 1
        kept = {row["seq"]: row for row in events(self.tenured.database, after=first - 1)}
        for told in self.seen:
            row = kept.get(told["seq"])
            if row is None or (row["type"], row["subject"]) != (told["type"], told["subject"]):
                self.faults.append(f"event {told} was told, and is {row}")

    def judge_all(self) -> None:
        """Look at all that was ever answered, once, and at the audit."""
        for writer in self.writers:
            for write in writer.writes:
                self.faults += writer.faults_of(write)
            names = Counter(row["name"] for row in writer.client.jobs())
            names.update(row["name"] for row in writer.client.batches())
            self.faults += [f"{name} is there {n} times" for name, n in names.items() if n > 1]
        numbers = [row["seq"] for row in events(self.tenured.database)]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            self.faults.append("events are missing")
        rows = list(self.tenured.client.audit())
        self.faults += audit_faults(rows, self.writers, numbers)


def audit_faults(
    rows: list[dict[str, Any]], writers: list[Writer], numbers: list[int]
) -> list[str]:
    """Return the answered writes, and the starts of containers, that the audit does not tell."""
    made = {row["subject"] for row in rows if row["method"] == "POST" and row["status"] < 300}
    writes = [write for writer in writers for write in writer.writes]
    faults = [
        f"the audit has no row of {write.name}"
        for write in writes
        if (write.answer or {}).get("id") not in made
    ]
    tokens = [token.name for writer in writers for token in writer.tokens if token.text]
    faults += [f"the audit has no row of {name}" for name in tokens if name not in made]
    placed = Counter(row["subject"] for row in rows if row["act"] == "container.creating")
    ids = {(w.answer or {}).get("id") for w in writes if w.kind == "container"}
    faults += [f"the audit places {one} {n} times" for one, n in placed.items() if n > 3]
    return faults + [f"the audit places no {one}" for one in ids if not placed[str(one)]]


def test_kill_writes(folder: Path, tenured: Tenured, share: Share) -> None:
    rng = share.draw("kill_writes")
    struck = Struck(folder, tenured, rng)
    tenured.start()
    first = struck.writers[0]  # nobody lends until agents were asked
    until(lambda: _sent(first, "batch"), 30, "a batch to be taken")
    for count in range(1, KILLS + 1):
        if count % EARLY == 0:
            tenured.kill()
            struck.kill_amid_start()
        else:
            struck.kill_amid_writes()
        tenured.start()
        struck.judge()
        assert not struck.faults, f"after {count} kills: " + "\n".join(struck.faults[:20])
        assert "defect" not in tenured.log.read_text(), tenured.tail()
        if count % TOLD == 0:
            print(f"{count} kills", flush=True)
    struck.judge_all()
    answered = sum((one.answered for one in struck.writers), Counter[str]())
    cut = sum((one.cut for one in struck.writers), Counter[str]())
    print(f"{KILLS} kills, {struck.early} before it was ready; answered {dict(answered)}")
    print(f"cut {dict(cut)}")
    assert not struck.faults, "\n".join(struck.faults[:20])
    assert sum(cut.values()) > 0
    assert min(answered[what] for what in ("job", "container", "batch", "dataset", "token")) > 0


def _sent(writer: Writer, kind: str) -> bool:
    """Send a submission; return whether one was taken."""
    writer.submit(kind)
    return writer.answered[kind] > 0
