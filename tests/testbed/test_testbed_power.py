"""Power: on, off, status, the log; what survives a power cycle and what does not."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import Any

import pytest

from testbed import IMAGE, Testbed, TestbedError, bounded, cgroups

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("engines_possible")]
Call = Any


def power(bed: Testbed, action: str) -> subprocess.CompletedProcess[str]:
    """Run a power command of the configuration as a daemon would: another folder, no PATH."""
    argv = bed.config()["nodes"][1]["power"][action]
    return bounded.run(argv, cwd="/", env={}, text=True)


def test_the_written_commands_switch_the_node(bed: Testbed, call: Call) -> None:
    assert (power(bed, "status").returncode, power(bed, "status").stdout) == (3, "off\n")
    assert power(bed, "on").returncode == 0
    assert power(bed, "status").returncode == 0
    call(bed.nodes["node2"], "GET", f"/images/{IMAGE}/json")
    assert power(bed, "off").returncode == 0
    assert power(bed, "status").returncode == 3
    assert not cgroups.processes(bed.layout.engine_group("node2"))


def test_each_change_is_logged_once_and_in_order(bed: Testbed) -> None:
    before = len(bed.power_log())
    for _ in range(2):
        bed.power_on("node2")
    for _ in range(2):
        bed.power_off("node2")
    entries = bed.power_log()[before:]
    assert [e["event"] for e in entries] == ["on_issued", "on_done", "off_issued", "off_done"]
    assert {e["node"] for e in entries} == {"node2"}
    times = [int(str(e["at_us"])) for e in entries]
    assert all(a < b for a, b in itertools.pairwise(times))
    assert abs(times[-1] / 1e6 - time.time()) < 60


def test_a_command_is_issued_when_its_process_starts() -> None:
    program = (
        "import time; from testbed.power import process_begun_us; time.sleep(0.3);"
        "print(time.time_ns() // 1000 - process_begun_us())"
    )
    began = time.monotonic()
    told = bounded.run([sys.executable, "-c", program], check=True)
    took_us = (time.monotonic() - began) * 1e6
    # the kernel's ticks are hundredths of a second
    assert 300_000 - 20_000 < int(told.stdout) < took_us + 20_000


def test_off_ends_containers_and_on_finds_their_state(
    bed: Testbed, run: Call, call: Call, wait: Call
) -> None:
    bed.power_on("node2")
    node = bed.nodes["node2"]
    clean = run(node, "work", "60")
    restarted = run(node, "sleep", "1000", RestartPolicy={"Name": "always"})
    # before its init listens it does not hear that it is to end
    wait(lambda: len(call(node, "GET", f"/containers/{clean}/top")["Processes"]) > 1, 60)
    bed.power_off("node2")
    assert not cgroups.processes(bed.layout.node_group("node2"))
    bed.power_on("node2")
    state = call(node, "GET", f"/containers/{clean}/json")["State"]
    assert (state["Running"], state["ExitCode"]) == (False, 143)
    wait(lambda: call(node, "GET", f"/containers/{restarted}/json")["State"]["Running"], 60)
    bed.power_off("node2")


def test_off_ends_what_will_not_end_by_itself(bed: Testbed, run: Call, call: Call) -> None:
    bed.power_on("node2")
    node = bed.nodes["node2"]
    paused = run(node, "sleep", "1000")
    call(node, "POST", f"/containers/{paused}/pause")
    run(node, "sleep", "1000", Init=False)  # PID 1 without a handler: deaf to SIGTERM
    bed.freeze("node2")
    bed.power_off("node2")
    assert not cgroups.processes(bed.layout.node_group("node2"))


def test_the_engine_keeps_its_identity_over_a_power_cycle(bed: Testbed, call: Call) -> None:
    ids = []
    for _ in range(2):
        bed.power_on("node2")
        ids.append(call(bed.nodes["node2"], "GET", "/info")["ID"])
        bed.power_off("node2")
    assert ids[0] == ids[1]


def test_an_engine_that_is_off_cannot_be_restarted(bed: Testbed) -> None:
    with pytest.raises(TestbedError, match="node2 is off"):
        bed.restart_engine("node2")
