"""Injected faults: what dies, what lives on, and that the node recovers."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from testbed import Testbed, TestbedError, cgroups, docker_api

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("engines_possible")]
Call = Any
SOON_S = 60.0


def answers(bed: Testbed, name: str = "node1") -> bool:
    """Whether the engine answers a ping over TCP within half a second."""
    try:
        address = (bed.nodes[name].address, 2375)
        with socket.create_connection(address, timeout=0.5) as connection:
            connection.settimeout(0.5)
            connection.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in connection.recv(100)
    except OSError:
        return False


def pid_of(bed: Testbed, call: Call, container: str) -> int:
    found = call(bed.nodes["node1"], "GET", f"/containers/{container}/json")
    return int(found["State"]["Pid"])


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_containers_outlive_their_engine(bed: Testbed, run: Call, call: Call, fault: str) -> None:
    node = bed.nodes["node1"]
    container = run(node, "sleep", "1000")
    before, engine = pid_of(bed, call, container), node.pid()
    if fault == "kill":
        bed.kill_engine("node1")
        assert node.pid() is None
        assert not docker_api.is_up(node.socket)
        assert before in cgroups.processes(bed.layout.node_group("node1"))
    bed.restart_engine("node1")
    assert node.pid() not in (None, engine)
    assert pid_of(bed, call, container) == before
    call(node, "DELETE", f"/containers/{container}?force=1")


def test_a_dead_node_says_nothing_and_boots_again(
    bed: Testbed, run: Call, call: Call, wait: Call
) -> None:
    node = bed.nodes["node1"]
    container = run(node, "sleep", "1000")
    with socket.create_connection((node.address, 2375), timeout=30) as connection:
        bed.kill_node("node1")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):  # no FIN, no RST
            connection.recv(1)
    assert not cgroups.processes(bed.layout.node_group("node1"))
    assert bed.is_on("node1")
    bed.power_on("node1")
    state = call(node, "GET", f"/containers/{container}/json")["State"]
    assert (state["Running"], state["ExitCode"]) == (False, 255), "a proper stop would end it"
    wait(lambda: answers(bed), SOON_S)


def test_a_frozen_engine_is_silent_until_it_is_thawed(bed: Testbed, wait: Call) -> None:
    bed.freeze("node1")
    assert not answers(bed)
    bed.thaw("node1")
    wait(lambda: answers(bed), SOON_S)


def test_a_cut_link_heals(bed: Testbed, wait: Call) -> None:
    bed.cut("node1")
    assert not answers(bed)
    assert docker_api.is_up(bed.nodes["node1"].socket)
    bed.heal("node1")
    wait(lambda: answers(bed), SOON_S)


def test_a_cut_outlives_a_power_cycle(bed: Testbed, wait: Call) -> None:
    bed.cut("node2")
    bed.power_on("node2")
    assert not answers(bed, "node2")
    bed.heal("node2")
    wait(lambda: answers(bed, "node2"), SOON_S)
    bed.power_off("node2")
    bed.heal("node2")
    assert not answers(bed, "node2")


def test_there_is_nothing_to_freeze_on_a_node_that_is_off(bed: Testbed) -> None:
    with pytest.raises(TestbedError, match="does not run"):
        bed.freeze("node2")


def test_without_live_restore_containers_end_with_their_engine(call: Call, run: Call) -> None:
    from testbed import NodeSpec

    with Testbed([NodeSpec("node1", "young")], live_restore=False) as plain:
        container = run(plain.nodes["node1"], "work", "60")
        plain.restart_engine("node1")
        state = call(plain.nodes["node1"], "GET", f"/containers/{container}/json")["State"]
        # told to end, or killed where it was told before it listened
        assert (state["Running"], state["ExitCode"]) in ((False, 143), (False, 137))
