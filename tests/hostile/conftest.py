"""One real daemon with one real engine for all tests of this folder; nothing they do may end it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import NodeSpec, Testbed, check
from tests.faults.tenured import Tenured
from tests.hostile.lab import Daemon


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    if missing := check():
        pytest.skip("; ".join(missing))
    folder = Path(tempfile.mkdtemp(prefix="tnh-")).resolve()
    try:
        with Testbed([NodeSpec("n1", "nursery", cpus=4.0)], folder / "bed") as bed:
            config = bed.config()
            config |= {
                "state_dir": str(folder / "state"),
                "listen": [f"unix://{folder}/d.sock", "tcp://127.0.0.1:0"],
                "generations": ["nursery"],
                # schemathesis is wrong about the token more often than anybody
                "limits": {"history": 500, "wrong_tokens_per_s": 10_000},
            }
            tenured = Tenured(folder, config, {})
            tenured.start()
            ready = json.loads((folder / "state" / "tenured.json").read_text())
            port = int(ready["addresses"][-1].rsplit(":", 1)[1])
            token = (folder / "state" / "token").read_text().strip()
            made = Daemon(tenured, port, token)
            try:
                yield made
                assert tenured.is_running, tenured.tail()
                assert "defect" not in tenured.log.read_text(), tenured.tail()
            finally:
                tenured.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
