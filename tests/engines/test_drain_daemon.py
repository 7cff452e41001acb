"""A node of real engines is drained: start-first and stop-first, blockers by name, a cancel."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import bounded, check, docker_api
from tests.faults.drained import IMAGE, Pair, paired
from tests.faults.tenured import ROOT, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    if missing := check():
        pytest.skip("; ".join(missing))
    folder = Path(tempfile.mkdtemp(prefix="tnd-")).resolve()
    try:
        with paired(folder) as made:
            yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tenure(pair: Pair, *words: str) -> subprocess.CompletedProcess[str]:
    main = "from tenure.cli.main import main; main()"
    argv = [sys.executable, "-c", main, *words, "--host", pair.tenured.config["listen"][0]]
    return bounded.run(argv, cwd=ROOT, text=True, timeout_s=120)


def codes(pair: Pair, node: str) -> dict[str, str]:
    return {b["name"]: b["code"] for b in pair.node(node)["drain"]["blockers"]}


def begin_job(pair: Pair, node: str, tenths: int) -> str:
    body: dict[str, Any] = {
        "name": "batch",
        "image": IMAGE,
        "command": pair.truth.command("job", str(tenths), "0", "0"),
        "executors": 1,
        "cpus": 0.1,
        "memory": "32MiB",
        "volumes": [pair.truth.volume],
        "constraints": [f"name=={node}"],
        "estimate": {"local_s": tenths / 10},
    }
    job = str(pair.tenured.client.submit_job(body)["id"])
    until(lambda: pair.tenured.client.job(job)["state"] == "running", 40, "the job to run")
    return job


def stranger(pair: Pair, node: str) -> None:
    socket = pair.bed.nodes[node].socket
    body = {"Image": IMAGE, "Cmd": ["sleep", "600"]}
    status, answer = docker_api.call(socket, "POST", "/containers/create?name=theirs", body)
    assert status == 201, answer
    assert docker_api.call(socket, "POST", "/containers/theirs/start")[0] == 204


def test_a_drain_moves_what_may_move_and_names_what_may_not(pair: Pair) -> None:
    pair.run("starts", on="a")
    pair.run("stops", on="a", port="8080")
    pinned = pair.run("pinned", on="a", migrate="never")
    job = begin_job(pair, "a", 150)
    stranger(pair, "a")
    plan = pair.tenured.client.drain_node("a", is_dry=True)
    methods = {m["name"]: (m["to"], m["method"]) for m in plan["moves"]}
    assert methods == {"starts": ("b", "start-first"), "stops": ("b", "stop-first")}
    assert {b["name"]: b["code"] for b in plan["blockers"]} == {
        "pinned": "never_migrate",
        "batch/0": "executor",
    }
    pair.tenured.client.drain_node("a", reason="new disk")
    until(lambda: pair.where("stops") == ("b", "running"), 60, "stop-first to have moved")
    until(lambda: pair.where("starts") == ("b", "running"), 60, "start-first to have moved")
    until(lambda: pair.tenured.client.job(job)["state"] == "succeeded", 60, "the job to end")
    assert pair.truth.restarts(f"job.{job}.0") == []
    until(lambda: codes(pair, "a") == {"pinned": "never_migrate"}, 40, "only pinned to be left")
    assert pair.where("pinned") == ("a", "running")
    pair.tenured.client.remove_container(pinned)
    pair.await_drained("a")
    until(lambda: pair.copies("a") == {"theirs": "running"}, 20, "only the foreign one to be left")
    assert pair.node("a")["state"] == "cordoned"
    assert pair.node("a")["reason"] == "new disk"
    assert pair.truth.doubles("service.stops") == []
    running = pair.copies("b", is_all=False)
    assert {name for name in running if name in ("starts", "stops")} == {"starts", "stops"}


def test_the_command_waits_and_a_cancelled_drain_leaves_all_as_it_was(pair: Pair) -> None:
    pair.tenured.client.schedule_node("a", "yes")
    done = tenure(pair, "node", "drain", "b", "--yes", "--wait")
    assert done.returncode == 0, done.stderr
    assert "2 moved, 0 left" in done.stderr
    assert "drained" in done.stdout
    assert {pair.where("starts"), pair.where("stops")} == {("a", "running")}
    late = tenure(pair, "node", "drain", "a", "--yes", "--wait", "--timeout", "4")
    assert late.returncode == 1, late.stderr
    assert "timed_out" in late.stdout
    assert "no_node" in late.stdout  # b is still cordoned
    pair.tenured.client.schedule_node("a", "yes")
    assert tenure(pair, "node", "drain", "a", "--yes").returncode == 0
    assert tenure(pair, "node", "drain", "a", "--cancel").returncode == 0
    assert pair.node("a")["state"] == "ready"
    assert {pair.where("starts"), pair.where("stops")} == {("a", "running")}


def test_a_node_that_is_no_longer_named_is_emptied_and_forgotten(pair: Pair) -> None:
    pair.tenured.client.schedule_node("b", "yes")
    named = pair.tenured.config["nodes"]
    pair.tenured.config["nodes"] = [row for row in named if row["name"] != "a"]
    pair.tenured.write_config()
    pair.tenured.signal(signal.SIGHUP)

    def is_forgotten() -> bool:
        return [node["name"] for node in pair.tenured.client.nodes()] == ["b"]

    until(is_forgotten, 90, "the node to be forgotten")
    assert {pair.where("starts"), pair.where("stops")} == {("b", "running")}
    assert pair.copies("a") == {"theirs": "running"}
