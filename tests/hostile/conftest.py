"""One real daemon with one real engine for all tests of this folder; nothing they do may end it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure.config.certificates import client_context
from tenure.model.access import TlsFiles
from testbed import NodeSpec, Testbed, certificates, check
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
                "listen": [
                    f"unix://{folder}/d.sock",
                    "tcp://127.0.0.1:0",
                    "https://127.0.0.1:0",
                ],
                "tls": {"cert": f"{folder}/own.pem", "key": f"{folder}/own.key"},
                "generations": ["nursery"],
                # schemathesis is wrong about the token more often than anybody
                "limits": {"history": 500, "wrong_tokens_per_s": 10_000},
            }
            authority = certificates.Authority(folder)
            authority.issue(folder / "own", ["localhost"])
            tenured = Tenured(folder, config, {})
            tenured.start()
            ready = json.loads((folder / "state" / "tenured.json").read_text())
            plain, secure = (int(one.rsplit(":", 1)[1]) for one in ready["addresses"][-2:])
            token = (folder / "state" / "token").read_text().strip()
            context = client_context(TlsFiles(str(authority.cert)))
            made = Daemon(tenured, plain, secure, context, token)
            try:
                yield made
                assert tenured.is_running, tenured.tail()
                assert "defect" not in tenured.log.read_text(), tenured.tail()
            finally:
                tenured.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
