"""The OpenAPI document against the running daemon: every operation, valid and invalid, in chains.

Two checks are left out. ``positive_data_acceptance``: what a fleet can hold, which image exists and
which deadline can be met is no matter of a schema, so a valid request may be refused; instead this
test asks afterwards whether jobs and containers went through their lives. ``allow_header_
conformance``: ``/v1/jobs/plan`` is also the address of a job named plan, and ``Allow`` says so.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import bounded
from tests.hostile.fuzzing import fuzz
from tests.hostile.lab import Daemon, watched

LEFT_OUT = "positive_data_acceptance,allow_header_conformance"
EXAMPLES = 4
LIMIT_S = 600
#: Ends of addresses with an id that only the daemon can have made: of jobs, datasets, containers.
MADE = re.compile(r"/(?:[a-z]-[0-9a-f]{12}|[0-9a-f]{64})\b")

pytestmark = pytest.mark.engines


def _schemathesis(daemon: Daemon, folder: Path) -> subprocess.CompletedProcess[str]:
    words = ("--checks=all", f"--exclude-checks={LEFT_OUT}", f"--max-examples={EXAMPLES}")
    target = (daemon.port, daemon.bearer)
    return fuzz(target, folder, *words, limit_s=LIMIT_S, hooks="schema_hooks")


def _brief(text: str) -> str:
    """Return the failures; bodies of a million characters are no use to a reader."""
    _, _, failures = text.partition("FAILURES")
    return "\n".join(line[:400] for line in failures.splitlines())


def _set_right(daemon: Daemon) -> None:
    """Have the one node take work, whatever was asked of it."""
    for method, path, body in (
        ("DELETE", "/v1/nodes/n1/drain", None),
        ("PATCH", "/v1/nodes/n1", {"maintenance": False}),
        ("PATCH", "/v1/nodes/n1", {"scheduling": "yes"}),
    ):
        status, answer = daemon.ask(method, path, body)
        assert status < 500, answer


@contextlib.contextmanager
def _tended(daemon: Daemon) -> Iterator[None]:
    """Keep the node at work beside the body: schemathesis cordons, drains and maintains it."""
    ended = threading.Event()
    faults: list[str] = []

    def run() -> None:
        while not ended.wait(0.3):
            try:
                _set_right(daemon)
            except (AssertionError, OSError) as error:
                faults.append(repr(error))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        bounded.join(thread)
        _set_right(daemon)
    assert not faults, faults[:3]


def _all(daemon: Daemon, path: str) -> list[dict[str, Any]]:
    """Return every row of events or of the audit."""
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["seq"] if found else 0
        status, page = daemon.ask("GET", f"{path}?after={after}&limit=1000")
        assert status == 200
        if not page["items"]:
            return found
        found += page["items"]


@pytest.mark.timeout(LIMIT_S + 60)
def test_the_document_holds(daemon: Daemon, tmp_path: Path) -> None:
    with watched(daemon), _tended(daemon):
        done = _schemathesis(daemon, tmp_path)
    assert done.returncode == 0, _brief(done.stdout) + done.stderr[-2000:]
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert re.search(rf"✅ {phase}", done.stdout), done.stdout[-3000:]
    types = {event["type"] for event in _all(daemon, "/v1/events")}
    assert {"job.accepted", "container.accepted"} <= types
    # which chains are drawn is the tool's affair; by an id that the daemon made one was followed
    assert [
        row for row in _all(daemon, "/v1/audit") if row["status"] < 300 and MADE.search(row["path"])
    ]
