"""The agent beside real engines: the same figures as theirs, and what the daemon makes of both."""

from __future__ import annotations

import asyncio
import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tenure.agent.io.reader import NodeReader
from tenure.engines.engine import Engine
from tenure.model.energy import TASKS
from tenure.model.harvest import cgroup_parent
from tenure.model.units import MIB, US
from tenure.profiling.intake.intake import Intake
from tenure.profiling.readings.decode import decode_stats
from tenure.profiling.readings.sample import Reading
from testbed import IMAGE, Node, Testbed, bounded, docker_api, tied
from tests.faults.tenured import Tenured, until

pytestmark = pytest.mark.engines
ROOT = Path(__file__).parents[2]
LOADS = {
    "burn": ["burn", "0.2"],
    "hold": ["hold", "48"],
    "churn": ["churn", "1", "/data/churn"],
    "chatter": ["chatter", "100"],
}
INTERVAL_S = 0.2
MAIN = "from tenure.cli.main import main; main()"


def run(node: Node, name: str) -> str:
    body = {
        "Image": IMAGE,
        "Cmd": LOADS[name],
        "HostConfig": {"Init": True},
        "Volumes": {"/data": {}},
    }
    status, answer = docker_api.call(node.socket, "POST", f"/containers/create?name={name}", body)
    assert status == 201, answer
    made = str(json.loads(answer)["Id"])
    status, answer = docker_api.call(node.socket, "POST", f"/containers/{made}/start")
    assert status == 204, answer
    return made


async def test_both_say_the_same(node: Node, engine: Engine) -> None:
    """Counters that rise lie between what the agent read before and after the engine did."""
    ids = {name: run(node, name) for name in LOADS}
    reader = NodeReader(Path("/"), node.cgroup_parent)
    await asyncio.to_thread(_wait_for_use, reader, ids)
    before = reader.read()
    told = {
        key: decode_stats(raw) for key, raw in (await engine.stats_once([*ids.values()])).items()
    }
    after = reader.read()
    assert set(before.containers) == set(told) == set(ids.values())
    for key in ids.values():
        low, high, engines = before.containers[key], after.containers[key], told[key]
        assert engines is not None
        assert low.cpu_ns <= engines.cpu_ns <= high.cpu_ns
        assert low.net_bytes is not None
        assert high.net_bytes is not None
        assert engines.net_bytes is not None
        assert low.net_bytes <= engines.net_bytes <= high.net_bytes
        assert _close(low.memory_bytes, engines.memory_bytes, high.memory_bytes)
        assert (engines.disk_bytes is None) == (low.disk_bytes is None)
        if engines.disk_bytes is not None and low.disk_bytes is not None:
            assert low.disk_bytes <= engines.disk_bytes <= (high.disk_bytes or 0)
    assert 45 * MIB < after.containers[ids["hold"]].memory_bytes < 60 * MIB
    burned = _cores(before.containers[ids["burn"]], after.containers[ids["burn"]])
    assert 0 < burned <= 1.0  # the node has one
    assert before.total is not None
    assert after.total is not None
    parts = sum(_cores(before.containers[key], after.containers[key]) for key in ids.values())
    assert _cores(before.total, after.total) >= 0.8 * parts


def _wait_for_use(reader: NodeReader, ids: dict[str, str]) -> None:
    def is_used() -> bool:
        rows = reader.read().containers
        return (
            rows.keys() >= set(ids.values())
            and rows[ids["hold"]].memory_bytes > 45 * MIB
            and rows[ids["burn"]].cpu_ns > 100_000_000
            and (rows[ids["churn"]].disk_bytes or 0) > 0
        )

    until(is_used, 20, "loads that are seen")


def _close(low: int, between: int, high: int) -> bool:
    """A gauge moves both ways: a mebibyte beyond what was seen around it is the same."""
    return min(low, high) - MIB <= between <= max(low, high) + MIB


def _cores(older: Reading, newer: Reading) -> float:
    return (newer.cpu_ns - older.cpu_ns) / 1000 / (newer.at_us - older.at_us)


def test_what_a_task_used_that_nobody_saw_is_told_of_all_tasks(node: Node) -> None:
    """It came and went between two readings: for its samples it was never there."""
    reader, intake = NodeReader(Path("/"), node.cgroup_parent), Intake()
    try:
        _run_task(node, "first", "true")  # since then there are tasks
        intake.take_whole(node.name, [], reader.read())
        _run_task(node, "short", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
        intake.take_whole(node.name, [], reader.read())
    finally:
        reader.close()
    (use,) = intake.spent()[0]
    assert use.container == TASKS
    assert use.cpu_us > 0.05 * US


def _run_task(node: Node, name: str, script: str) -> None:
    """Run a task of a batch to its end, and remove it."""
    parent = cgroup_parent("cgroupfs", node.cgroup_parent)
    host = {"CgroupParent": parent, "Init": True}
    body = {"Image": IMAGE, "Cmd": ["sh", "-c", script], "HostConfig": host}
    for method, path, given, wanted in (
        ("POST", f"/containers/create?name={name}", body, 201),
        ("POST", f"/containers/{name}/start", None, 204),
        ("POST", f"/containers/{name}/wait", None, 200),
        ("DELETE", f"/containers/{name}", None, 204),
    ):
        status, answer = docker_api.call(node.socket, method, path, given)
        assert status == wanted, answer


@pytest.fixture
def daemon(bed: Testbed, node: Node, tmp_path: Path) -> Iterator[Tenured]:
    config: dict[str, Any] = {
        "state_dir": str(tmp_path / "state"),
        "listen": [f"unix://{tmp_path / 'd.sock'}"],
        "stats": {"interval_s": 1},
        "generations": ["nursery"],
        "nodes": [
            {
                "name": "node1",
                "url": node.url,
                "generation": "nursery",
                "capacity": {"cpus": 1, "memory": "512MiB"},
                "agent": {"url": f"unix://{tmp_path / 'a.sock'}"},
            }
        ],
    }
    made = Tenured(tmp_path, config, {})
    yield made
    made.stop()


def start_agent(folder: Path, node: Node) -> subprocess.Popen[bytes]:
    words = ["--listen", f"unix://{folder / 'a.sock'}", "--node-cgroup", node.cgroup_parent]
    words += ["--interval-s", str(INTERVAL_S)]
    with (folder / "agent.log").open("ab") as log:
        agent = tied.start(
            [sys.executable, "-m", "tenure.cli.daemon", "agent", *words], cwd=ROOT, stderr=log
        )
    until(partial(serves, folder / "a.sock"), 20, "the agent to serve")
    return agent


def serves(path: Path) -> bool:
    """Whether anybody listens there: a daemon that asks before is told that the agent is away."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def test_the_daemon_samples_from_the_agent(daemon: Tenured, node: Node, tmp_path: Path) -> None:
    """Profiles come from the agent; while it is away, from the engine; and it is told which."""
    agent = start_agent(tmp_path, node)
    try:
        daemon.start()
        client = daemon.client
        body = {"Image": IMAGE, "Cmd": LOADS["burn"], "HostConfig": {"Init": True}, "name": "web"}
        key = str(client.create_container(body)["id"])
        until(lambda: samples_of(client) >= 3, 30, "a profile from the agent")
        assert "agents" not in daemon.health()["degraded"]
        assert 'tenure_agent_up{node="node1"} 1.0' in client.metrics()
        assert 'tenure_agent_failures_total{node="node1"} 0.0' in client.metrics()
        _is_in_top(tmp_path, key)
    finally:
        agent.kill()
        bounded.wait(agent)
    until(lambda: "node1" in daemon.health()["degraded"].get("agents", ""), 20, "agent away")
    before = samples_of(client)
    until(lambda: samples_of(client) >= before + 2, 30, "samples from the engine")
    _is_in_top(tmp_path, key)
    again = start_agent(tmp_path, node)
    try:
        until(lambda: "agents" not in daemon.health()["degraded"], 20, "the agent is back")
        before = samples_of(client)
        until(lambda: samples_of(client) >= before + 2, 30, "samples from the agent again")
        daemon.kill()
        known = len(spans(tmp_path, key))
        time.sleep(4)  # the agent goes on
        daemon.start()
        until(lambda: len(spans(tmp_path, key)) >= known + 4, 30, "what the agent kept meanwhile")
    finally:
        daemon.stop()
        again.terminate()
        assert again.wait(20) == 0
    rows = spans(tmp_path, key)[known - 2 :]
    assert all(end == begin for (_, end), (begin, _) in pairwise(rows)), rows
    log = (tmp_path / "tenured.log").read_text()
    assert log.count("the agent of node node1 is away") == 1  # once, not at every sweep
    assert log.count("the agent of node node1 answers again") == 1
    assert "Traceback" not in log


def _is_in_top(folder: Path, key: str) -> None:
    """Wait until ``tenure top`` shows what the container burns: a fifth of the node's core."""

    def top(*words: str) -> str:
        argv = [sys.executable, "-c", MAIN, "top", *words, "--host", f"unix://{folder / 'd.sock'}"]
        ran = bounded.run(argv, text=True, timeout_s=60, check=True)
        return ran.stdout

    def is_shown() -> bool:
        found = json.loads(top("--json"))
        (node,) = found["nodes"]
        rows = {row["id"]: row["used"]["cpus"] for row in found["containers"]}
        is_told = node["used"] is not None and not node["is_stale"] and not node["unsampled"]
        # CPU time is lent in slices: what is burnt in a second is about so much
        return is_told and rows.get(key, 0) > 0.02 and node["used"]["cpus"] >= rows[key] - 0.001

    until(is_shown, 30, "the container's use in tenure top")
    lines = top().splitlines()  # printed once: this is no terminal
    assert lines[0] == "1 node: 1 ready"
    assert any(line.split()[:3] == ["web", "container", "node1"] for line in lines), lines


def spans(folder: Path, key: str) -> list[tuple[int, int]]:
    """Return from when to when each kept sample of a container measured, in order."""
    query = (
        "SELECT at_us - span_us, at_us FROM sample JOIN series ON series.id = sample.series "
        "WHERE container_name = ? ORDER BY at_us"
    )
    with closing(sqlite3.connect(f"file:{folder / 'state' / 'stats.db'}?mode=ro", uri=True)) as db:
        return db.execute(query, (key,)).fetchall()


def samples_of(client: Any) -> int:
    found = client.profiles()
    return int(found[0]["samples"]) if found else 0
