"""A real daemon over a state file whose machine's wall is stepped; simulated engines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rig
from tenure.client.client import Client
from tenure.client.target import parse
from testbed.daemon import DaemonProcess
from tests.simulation.stepped import Machine

DAY_S = 86_400
#: It runs through all of the test, and for longer than it may only by a wall that is stepped.
JOB: dict[str, Any] = {
    "name": "long",
    "image": "simulated:1",
    "command": ["work", "36000", "0", "0"],
    "executors": 1,
    "cpus": 1,
    "memory": "64MiB",
    "max_runtime_s": 7200,
}


class Story:
    """What the daemon tells of its clock, in the order in which it is told."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def told(self) -> list[tuple[str, int]]:
        """Return the steps that were told, in whole hours."""
        rows = self._client.events(limit=1000, types="clock.stepped,clock.unsure")["items"]
        return [(row["type"], round(row["data"]["by_s"] / 3600)) for row in rows]

    def wait(self, count: int) -> None:
        rig.until(lambda: len(self.told()) >= count, 60, f"{count} steps to be told")

    def is_in_order(self) -> bool:
        times = [row["at"] for row in self._client.events(limit=1000)["items"]]
        return times == sorted(times)


def daemon_on(machine: Machine, path: Path, nodes: list[dict[str, Any]]) -> rig.Daemon:
    """Return a daemon on a machine, not started."""
    daemon = rig.Daemon(path, {"nodes": nodes})
    script = Path(__file__).with_name("stepped.py")
    words = [sys.executable, str(script), str(machine.folder), "run", "--config", str(daemon.file)]
    daemon.process = DaemonProcess(
        words,
        Path(daemon.config["state_dir"]),
        path / "tenured.log",
        cwd=script.parents[2],
    )
    return daemon


@pytest.mark.timeout(300)
def test_no_step_of_the_wall_ends_a_job_and_each_is_told() -> None:
    with rig.folder() as path, rig.engines(path / "e", nodes=1, cpus=4) as engines:
        machine = Machine(path / "m")
        daemon = daemon_on(machine, path / "d", engines.nodes)
        with rig.running(daemon):
            client = Client(parse(daemon.socket), patience_s=60)
            story = Story(client)
            client.submit_job(JOB)
            rig.until(lambda: client.job("long")["state"] == "running", 60, "the job to run")
            machine.step(DAY_S)
            story.wait(1)
            for by_s, is_reboot in ((DAY_S, False), (DAY_S, True), (-DAY_S, False)):
                daemon.process.kill()
                machine.step(by_s)
                if is_reboot:
                    machine.reboot()
                daemon.process.start()
            story.wait(4)
            day = 24
            stepped, unsure = "clock.stepped", "clock.unsure"
            assert story.told() == [(stepped, day), (stepped, day), (unsure, day), (stepped, -day)]
            assert client.job("long")["state"] == "running"
            assert story.is_in_order()
            client.cancel_job("long")
            rig.until(lambda: client.job("long")["state"] == "cancelled", 60, "the job to end")
