"""Policies ``tenure`` and ``milp`` through a real daemon over a state file; simulated engines."""

from __future__ import annotations

import os
from typing import Any

import pytest

from benchmarks import rig
from tenure.client.client import Client
from tenure.client.target import parse

RUN_S = 4
JOB: dict[str, Any] = {
    "app": "a",
    "image": "simulated:1",
    "command": ["work", str(RUN_S), "0", "0"],
    "executors": 2,
    "cpus": 4,
    "memory": "64MiB",
    "deadline_s": 600,
    "estimate": {"local_s": RUN_S},
}


def planned(client: Client, name: str) -> Any:
    found = client.explain_job(name)
    return found["plan"] if found["state"] == "waiting" else None


def rounds(client: Client) -> float:
    """Return how many rounds of its event loop a daemon has counted."""
    name = 'tenure_loop_held_seconds_bucket{le="+Inf"} '
    return sum(float(row.split()[-1]) for row in client.metrics().splitlines() if name in row)


@pytest.mark.timeout(300)
def test_a_killed_daemon_keeps_the_places_and_the_promises() -> None:
    allowed = os.sched_getaffinity(0)
    config = {"placement": {"policy": "tenure", "patience": 0.5}}
    with rig.folder() as path, rig.engines(path / "e", nodes=2, cpus=4) as engines:
        daemon = rig.Daemon(path / "d", {**config, "nodes": engines.nodes})
        with rig.running(daemon):
            client = Client(parse(daemon.socket), patience_s=60)
            for number in range(4):
                made = client.submit_job({**JOB, "name": f"j{number}"})
                assert made["policy"] == "tenure"
            before = planned(client, "j3")
            assert rounds(client) > 0
            assert before["nodes"] == {"n0000": 1, "n0001": 1}
            daemon.process.kill()
            daemon.process.start()
            after = planned(client, "j3")
            assert after is not None
            assert (after["nodes"], after["is_late"]) == (before["nodes"], False)
            rig.until(
                lambda: {job["state"] for job in client.jobs()} == {"succeeded"}, 200, "all to end"
            )
            assert all(job["deadline_met"] for job in client.jobs())
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.timeout(300)
def test_a_daemon_killed_while_a_solver_decides_asks_again_and_starts_nothing_twice() -> None:
    pytest.importorskip("scipy")
    config = {"placement": {"policy": "milp"}}
    with rig.folder() as path, rig.engines(path / "e", nodes=2, cpus=4) as engines:
        daemon = rig.Daemon(path / "d", {**config, "nodes": engines.nodes})
        with rig.running(daemon):
            client = Client(parse(daemon.socket), patience_s=60)
            for number in range(3):
                client.submit_job({**JOB, "name": f"j{number}"})
                if number == 0:
                    assert client.jobs()[0]["state"] in {"accepted", "waiting"}
                    daemon.process.kill()  # the solver's child has only begun
                    daemon.process.start()
            rig.until(
                lambda: {job["state"] for job in client.jobs()} == {"succeeded"}, 200, "all to end"
            )
            jobs = [client.explain_job(job["id"]) for job in client.jobs()]
            assert all(row["attempt"] == 1 for job in jobs for row in job["executors"])
            assert {job["decision"] for job in client.jobs()} == {"milp"}
