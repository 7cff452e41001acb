"""Relief end to end: owners grow on one engine until it is overloaded, and one moves on."""

from __future__ import annotations

from typing import Any

import pytest

from testbed import IMAGE, NodeSpec
from tests.engines.served import served
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]

SPECS = (NodeSpec("n1", "nursery"), NodeSpec("y1", "young"), NodeSpec("y2", "young"))
#: Three of them use 360 of 512 MiB, and with this headroom count for more than there is.
CYCLES = {"promote": {"interval_s": 3, "args": "nursery", "headroom": 1.5}}
GROWS = "sleep 6; head -c 125829120 /dev/zero >/dev/shm/x; while :; do sleep 1; done"
NAMES = ("one", "two", "three")
RUNS = 6


def container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "Image": IMAGE,
        "Cmd": ["sh", "-c", GROWS],
        "HostConfig": {"Init": True, "ShmSize": 256 << 20},
        "tenure": {"app": name, "generation": "young", "migrate": "restart"},
    }


def where(tenured: Tenured) -> dict[str, str]:
    """Return the node of each container that runs and is not on its way."""
    rows = tenured.client.containers()
    return {row["name"]: row["node"] for row in rows if row["state"] == "running"}


def done(tenured: Tenured) -> list[dict[str, Any]]:
    return tenured.client.runs(cycle="promote", state="done")


def codes(tenured: Tenured) -> list[str]:
    """Return what runs that are done told of nodes, the oldest first."""
    runs = [tenured.client.run(run["id"]) for run in reversed(done(tenured))]
    return [note["code"] for run in runs for note in run["nodes"]]


def test_what_grows_beyond_its_engine_is_relieved_and_then_stays() -> None:
    with served(SPECS, cycles=CYCLES, generations=["nursery", "young"]) as (_, tenured):
        tenured.client.schedule_node("y2", "cordoned")
        for name in NAMES:
            tenured.client.create_container(container(name))
        crowded = dict.fromkeys(NAMES, "y1")
        until(lambda: where(tenured) == crowded, 60, "three to run on y1", poll_s=0.3)
        tenured.client.schedule_node("y2", "yes")

        def is_relieved() -> bool:
            return sorted(where(tenured).values()) == ["y1", "y1", "y2"]

        until(is_relieved, 120, "one to be on y2", poll_s=0.5)
        found = where(tenured)
        until(lambda: "relieved" in codes(tenured), 60, "the run of the move to end", poll_s=0.5)
        told = codes(tenured)
        assert told.index("relieved") > told.index("overloaded")
        latest = done(tenured)[0]["id"]

        def have_passed() -> bool:
            runs = [run["id"] for run in done(tenured)]
            return latest not in runs[:RUNS]

        until(have_passed, 120, "some more runs", poll_s=0.5)
        assert where(tenured) == found
