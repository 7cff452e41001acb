"""Generations end to end: what starts in the nursery ends packed, and emptied engines are off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed import IMAGE, NodeSpec, Testbed, docker_api
from tests.engines.served import served
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]

NURSERY, YOUNG = ("n1", "n2"), ("y1", "y2", "y3")
SPECS = (
    NodeSpec("n1", "nursery"),
    NodeSpec("n2", "nursery", powered=True),
    *(NodeSpec(name, "young", powered=True) for name in YOUNG),
)
CYCLES = {"promote": {"interval_s": 3, "args": "nursery", "min_age_s": 4, "min_samples": 3}}
SPIN = "while :; do :; done"
HOLD = "x=$(head -c 24000000 /dev/zero | tr '\\0' x); "
#: Busy, large, both and idle: what each does, its share of a core and its memory in MiB.
KINDS = {
    "busy-1": (SPIN, 0.15, 16),
    "busy-2": (SPIN, 0.15, 16),
    "large-1": (HOLD + "exec sleep 3600", 0.1, 96),
    "large-2": (HOLD + "exec sleep 3600", 0.1, 96),
    "both": (HOLD + SPIN, 0.15, 96),
    "idle": ("exec sleep 3600", 0.1, 16),
}


def container(name: str) -> dict[str, Any]:
    does, cpus, mib = KINDS[name]
    return {
        "name": name,
        "Image": IMAGE,
        "Cmd": ["sh", "-c", does],
        "HostConfig": {"Init": True, "NanoCpus": int(cpus * 1e9), "Memory": mib << 20},
        "tenure": {"app": name, "overlap": True, "migrate": "restart"},
    }


def where(tenured: Tenured) -> dict[str, str]:
    """Return the node of each container that runs and is not on its way."""
    rows = tenured.client.containers()
    return {row["name"]: row["node"] for row in rows if row["state"] == "running"}


def running(bed: Testbed) -> list[str]:
    """Return the names of all containers that run on any engine that is on."""
    found = []
    for node in bed.nodes.values():
        if node.pid() is not None:
            status, answer = docker_api.call(node.socket, "GET", "/containers/json")
            assert status == 200
            found += [row["Names"][0].lstrip("/") for row in json.loads(answer)]
    return sorted(found)


def test_six_of_four_kinds_end_packed_on_fewer_nodes_and_the_others_are_off() -> None:
    power = {"min_on": {"nursery": 1}}
    with served(SPECS, cycles=CYCLES, generations=["nursery", "young"], power=power) as made:
        bed, tenured = made
        for name in KINDS:
            tenured.client.create_container(container(name))
        until(lambda: where(tenured).keys() == KINDS.keys(), 60, "six to run", poll_s=0.3)
        assert set(where(tenured).values()) <= set(NURSERY)

        def are_young() -> bool:
            found = where(tenured)
            return found.keys() == KINDS.keys() and set(found.values()) <= set(YOUNG)

        until(are_young, 120, "six to be young", poll_s=0.5)
        used = set(where(tenured).values())
        assert len(used) < len(YOUNG), "spread would use all of them"
        emptied = {"n2", *YOUNG} - used

        def are_off() -> bool:
            states = {name: tenured.client.node(name)["state"] for name in emptied}
            return all(state == "off" for state in states.values())

        until(are_off, 60, f"{sorted(emptied)} to be off", poll_s=0.5)
        assert all(bed.nodes[name].pid() is None for name in emptied)
        assert bed.nodes["n1"].pid() is not None
        assert running(bed) == sorted(KINDS)
