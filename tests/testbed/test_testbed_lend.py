"""Nodes that lend: `up --lend` prints a configuration in which batches run, and leaves nothing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenure.config.load import validate
from testbed import bounded, tied
from testbed.traces import traces
from tests.faults.tenured import ROOT, Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("engines_possible")]
ENDS_S = 60.0


@pytest.fixture
def printed(folder: Path) -> Iterator[str]:
    """What `up --lend` prints; the testbed is there until the test is over."""
    told = folder / "fleet.yml"
    words = ["up", "--nodes", "1", "--lend", str(folder), "--dir", str(folder / "bed")]
    with told.open("w") as out, (folder / "log").open("w") as log:
        argv = [sys.executable, "-m", "testbed", *words]
        process = tied.start(argv, cwd=ROOT, stdout=out, stderr=log)
    try:
        until(lambda: "input_dirs" in told.read_text(), ENDS_S, "the nodes to lend")
        yield told.read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENDS_S) == 0, (folder / "log").read_text()
    assert traces(folder / "bed") == [], "agents end with their engines"


def switch(folder: Path, to: str) -> None:
    """Switch the node as somebody at a shell does."""
    argv = [sys.executable, "-m", "testbed", "power", to, "node1", "--dir", str(folder / "bed")]
    ran = bounded.run(argv, cwd=ROOT, text=True, timeout_s=ENDS_S)
    assert ran.returncode == 0, ran.stderr


def test_a_batch_of_the_examples_image_runs_on_what_it_starts(printed: str, folder: Path) -> None:
    config: dict[str, Any] = yaml.safe_load(printed)
    assert validate(folder / "fleet.yml", {}) == []
    assert yaml.safe_load((folder / "bed/tenured.yml").read_text()) == config
    (folder / "lines").write_text("a\nb\nc\n")
    stage = {
        "name": "count",
        "command": ["sh", "-c", "wc -l < /tenure/in/chunk > /tenure/out/n"],
        "memory": "64MiB",
        "input": {"file": str(folder / "lines"), "split": {"size": "1MiB"}},
        "estimate": {"task_s": 1},
    }
    tenured = Tenured(folder, config, {})
    tenured.start()
    try:
        client = tenured.client
        until(lambda: client.node("node1")["objection"] == "", ENDS_S, "the node to lend")
        batch = client.submit_batch({"name": "b", "image": "busybox:1", "stages": [stage]})
        until(lambda: client.batch(batch["id"])["finished_at"], ENDS_S, "the batch to end")
        assert b"".join(client.batch_output(batch["id"])) == b"3\n"
        switch(folder, "off")
        until(lambda: client.node("node1")["objection"], ENDS_S, "the node to lend nothing")
        switch(folder, "on")
        until(lambda: client.node("node1")["objection"] == "", ENDS_S, "its agent to be back")
    finally:
        tenured.stop()


def test_without_the_product_it_says_so_and_starts_nothing(folder: Path) -> None:
    argv = [sys.executable, "-S", "-m", "testbed", "up", "--lend", str(folder)]
    ran = bounded.run(argv, cwd=ROOT, text=True, timeout_s=ENDS_S)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "--lend needs tenure itself: make setup" in ran.stderr
