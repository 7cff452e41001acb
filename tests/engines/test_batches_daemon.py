"""Batches on real engines: right answers, what is sent and cleared, kills, and what is refused.

``BATCH_MB=300 pytest tests/engines/test_batches_daemon.py -k "counts_as or sorts"``: larger inputs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.lent import holding, removed, run
from tenure.cli.batches import document
from tenure.client.client import Client
from tenure.model.errors import Conflict, InvalidInput, TenureError
from testbed import IMAGE, NodeSpec, Testbed, bounded, docker_api
from tests.engines.served import AGENTS, served
from tests.faults.tenured import ROOT, Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
EXAMPLES = ROOT / "examples" / "batches"
LENDING = ROOT / "examples" / "lending.yml"
NODES = ("a", "b")
MEGABYTES = float(os.environ.get("BATCH_MB", "3"))
ENDS_S = 120.0 + 3 * MEGABYTES
SPLIT = {"size": max(256 << 10, int(MEGABYTES * 50_000))}


class Rig:
    """Two nodes, a daemon, and a folder for inputs."""

    def __init__(self, bed: Testbed, tenured: Tenured, folder: Path) -> None:
        self.bed, self.tenured, self.folder = bed, tenured, folder

    @property
    def client(self) -> Client:
        return self.tenured.client

    def example(self, name: str, source: Path) -> dict[str, Any]:
        batch = document(str(EXAMPLES / f"{name}.yml")) | {"image": IMAGE}
        batch["stages"][0]["input"] = {"file": str(source), "split": SPLIT}
        for stage in batch["stages"]:
            stage["memory"] = "64MiB"
        return batch

    def ended(self, batch: str) -> dict[str, Any]:
        """Return a batch once it is over."""

        def over() -> dict[str, Any] | None:
            found = self.client.batch(batch)
            return found if found["finished_at"] else None

        found: dict[str, Any] = until(over, ENDS_S, f"{batch} to end", poll_s=0.1)
        return found

    def containers(self, node: str) -> list[dict[str, Any]]:
        socket = self.bed.nodes[node].socket
        status, answer = docker_api.call(socket, "GET", "/containers/json?all=1")
        assert status == 200
        return list(json.loads(answer))

    def objection(self, node: str) -> str:
        """Return why no task may begin on a node."""
        return str(self.client.node(node)["objection"])

    def is_lending(self) -> bool:
        """Whether a task may begin on either node."""
        return not any(map(self.objection, NODES))

    def is_empty(self) -> bool:
        return not any(self.containers(node) for node in NODES)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command line as a person would."""
        program = "from tenure.cli.main import main; main()"
        return bounded.run(
            [sys.executable, "-c", program, *words],
            cwd=ROOT,
            env={**os.environ, "TENURE_HOST": self.tenured.config["listen"][0]},
            text=True,
            timeout_s=ENDS_S,
        )

    def output(self, batch: str) -> bytes:
        return b"".join(self.client.batch_output(batch))


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("inputs")
    specs = [NodeSpec(name, "nursery", cpus=2, memory_bytes=512 << 20) for name in NODES]
    batches = {"input_dirs": [str(folder)]}
    (node,) = yaml.safe_load(LENDING.read_text())["nodes"]
    harvest = node["harvest"]
    told: dict[str, Any] = {"harvest": harvest, "batches": batches, "generations": ["nursery"]}
    # rarely sampled, so that the agents see owners grow before the daemon does
    with served(specs, stats={"interval_s": 30}, **told) as (bed, tenured):
        rig = Rig(bed, tenured, folder)
        until(rig.is_lending, 20, "both agents to be heard of")
        yield rig


def generated(kind: str, megabytes: float, path: Path) -> Path:
    """Write the input of an example by its own script."""
    spec = importlib.util.spec_from_file_location("generate", EXAMPLES / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.write(kind, megabytes, path)
    return path


def stage(name: str, script: str, **more: Any) -> dict[str, Any]:
    estimate = {"estimate": {"task_s": 1}}
    return {"name": name, "command": ["sh", "-ec", script], "memory": "16MiB"} | estimate | more


def batch(name: str, *stages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "stages": list(stages), **more}


def test_wordcount_counts_as_one_machine_does(rig: Rig) -> None:
    source = generated("text", MEGABYTES, rig.folder / "text.txt")
    begun = time.monotonic()
    submitted = rig.client.submit_batch(rig.example("wordcount", source))
    found = rig.ended(submitted["id"])
    print(f"{MEGABYTES:g} MB counted in {time.monotonic() - begun:.1f} s, {found['tasks']} tasks")
    assert found["state"] == "succeeded", found
    words = Counter(source.read_text().split())
    told = dict(line.split() for line in rig.output(found["id"]).decode().splitlines())
    assert {word: int(count) for word, count in told.items()} == words
    tasks = rig.client.batch_tasks(found["id"])
    assert len(tasks) == found["tasks"] >= 12 + 4
    assert {task["node"] for task in tasks} == set(NODES)
    counted = found["stages"][0]
    assert counted["output_bytes"] == sum(t["output_bytes"] for t in tasks if t["stage"] == "map")
    ratio = counted["output_bytes"] / source.stat().st_size
    assert counted["measured_output_ratio"] == pytest.approx(ratio, rel=0.01)
    until(rig.is_empty, 30, "all containers to be removed")


def test_a_distributed_sort_sorts(rig: Rig) -> None:
    source = generated("keys", MEGABYTES, rig.folder / "keys.txt")
    document = rig.folder / "sort.json"
    wanted = rig.example("sort", source)
    wanted["stages"][0]["input"]["file"] = source.name  # beside the document
    wanted["stages"][1]["memory"] = "256MiB"
    document.write_text(json.dumps(wanted))
    target = rig.folder / "sorted.txt"
    begun = time.monotonic()
    ran = rig.command("batch", "run", str(document), "--output", str(target))
    print(f"{MEGABYTES:g} MB sorted in {time.monotonic() - begun:.1f} s")
    assert ran.returncode == 0, ran.stderr
    assert "done" in ran.stderr  # progress was shown
    lines = source.read_bytes().splitlines(keepends=True)
    assert target.read_bytes() == b"".join(sorted(lines))
    until(rig.is_empty, 30, "all containers to be removed")


def test_tasks_run_below_the_harvest_parent_and_yield(rig: Rig) -> None:
    submitted = rig.client.submit_batch(batch("sleepers", stage("s", "sleep 300", tasks=2)))

    def running() -> list[dict[str, Any]]:
        return [t for t in rig.client.batch_tasks(submitted["id"]) if t["state"] == "running"]

    until(lambda: len(running()) == 2, 60, "both tasks to run")
    (row,) = rig.containers("a")
    _, answer = docker_api.call(rig.bed.nodes["a"].socket, "GET", f"/containers/{row['Id']}/json")
    host = json.loads(answer)["HostConfig"]
    assert host["CgroupParent"].endswith("/tenure-harvest")
    assert (host["CpuShares"], host["NanoCpus"], host["OomScoreAdj"]) == (2, 0, 1000)
    assert row["Labels"]["tenure.batch"] == submitted["id"]
    shown = rig.client.node("a")
    assert shown["requested"]["cpus"] == 0  # owners see nothing of it
    assert rig.client.cancel_batch(submitted["id"])["is_cancelling"]
    assert rig.ended(submitted["id"])["state"] == "cancelled"
    with pytest.raises(Conflict):
        rig.output(submitted["id"])
    until(rig.is_empty, 30, "all containers to be removed")


FIRST_SLEEPS = "[ $TENURE_ATTEMPT -gt 1 ] || sleep 300; echo done > /tenure/out/o"


def running_task(rig: Rig, batch_id: str) -> dict[str, Any]:
    """Return the one task of a batch once it runs."""

    def first() -> dict[str, Any] | None:
        (task,) = rig.client.batch_tasks(batch_id)
        return task if task["state"] == "running" else None

    found: dict[str, Any] = until(first, 60, "the task to run")
    return found


def test_a_task_killed_by_a_hand_costs_a_retry(rig: Rig) -> None:
    """The agent's journal says that it was not the agent."""
    found = rig.client.submit_batch(batch("hand", stage("s", FIRST_SLEEPS, tasks=1), retries=1))
    task = running_task(rig, found["id"])
    (row,) = rig.containers(task["node"])
    path = f"/containers/{row['Id']}/kill?signal=KILL"
    assert docker_api.call(rig.bed.nodes[task["node"]].socket, "POST", path)[0] == 204
    ended = rig.ended(found["id"])
    assert (ended["state"], ended["retried"], ended["reclaimed"]) == ("succeeded", 1, 0)


def test_a_task_that_the_agent_ends_finishes_elsewhere_and_costs_no_retry(rig: Rig) -> None:
    """An owner that nobody foresaw grows; the task beside it has to go, and counts right."""
    script = "hold 100 & [ $TENURE_ATTEMPT -gt 1 ] || sleep 300; wc -c < /tenure/in/chunk > "
    source = rig.folder / "counted"
    source.write_bytes(b"x" * 999 + b"\n")
    given = {"file": str(source), "split": {"size": "1MiB"}}
    wanted = stage("s", script + "/tenure/out/o", input=given, memory="160MiB")
    found = rig.client.submit_batch(batch("grown", wanted, retries=0))
    task = running_task(rig, found["id"])
    node = rig.bed.nodes[task["node"]]
    agent = AGENTS[task["node"]]

    def is_held() -> bool:
        return int(agent.status["numbers"].get("harvest_memory_bytes", 0)) > 90 << 20

    until(is_held, 30, "the task to hold its memory")
    # 512 less a margin of 20 % is 410 MiB, half the margin may be entered: 461 MiB in all
    with removed([run(node, "grower", holding(370))]) as owners:
        ended = rig.ended(found["id"])
        assert owners[0].state["Running"]
    assert (ended["state"], ended["retried"], ended["reclaimed"]) == ("succeeded", 0, 1)
    (again,) = rig.client.batch_tasks(found["id"])
    assert (again["attempt"], again["node"] != task["node"]) == (2, True)
    assert rig.output(found["id"]) == b"1000\n"
    # where the machine is busy the kernel may be first; the agent says so then
    (kill,) = rig.client.events(types="harvest.kill,harvest.oom")["items"]
    assert kill["subject"] == task["node"]
    is_agents = kill["type"] == "harvest.kill"
    who = "its node's agent ended it for its owners" if is_agents else "the kernel ended it"
    reclaims = rig.client.events(types="task.reclaimed")["items"]
    why = reclaims[-1]["data"]["why"]
    # or the daemon was first: it had heard what the owners need
    assert who in why or why == "its node's owners need the memory"


def test_nothing_is_lent_while_an_agent_is_away_and_what_runs_goes_on(rig: Rig) -> None:
    script = "sleep 6; echo done > /tenure/out/o"
    found = rig.client.submit_batch(batch("alone", stage("s", script, tasks=1), retries=0))
    running_task(rig, found["id"])
    for agent in AGENTS.values():
        agent.stop(kill=True)
    try:
        until(lambda: all(map(rig.objection, NODES)), 20, "both to be missed")
        lost = refusal(rig, batch("none", stage("s", "true", tasks=1)))
        assert lost.code == "no_lender"
        assert "its agent does not protect its owners" in lost.detail
        ended = rig.ended(found["id"])
        assert (ended["state"], ended["reclaimed"]) == ("succeeded", 0)
    finally:
        for agent in AGENTS.values():
            agent.start()
    until(rig.is_lending, 20, "both to be heard of again")


def test_a_failing_task_is_retried_and_then_fails_the_batch(rig: Rig) -> None:
    script = "echo tried $TENURE_ATTEMPT; exit 3"
    found = rig.client.submit_batch(batch("fails", stage("s", script, tasks=1), retries=1))
    ended = rig.ended(found["id"])
    assert (ended["state"], ended["retried"]) == ("failed", 2)
    assert "exit code 3" in ended["reason"]
    log = until(lambda: _log(rig, found["id"]), 20, "the log to be kept")
    assert log == b"tried 2\n"


def _log(rig: Rig, batch_id: str) -> bytes:
    try:
        return b"".join(rig.client.batch_logs(batch_id, 0))
    except TenureError:
        return b""


def test_a_killed_daemon_loses_nothing_and_starts_nothing_twice(rig: Rig) -> None:
    source = generated("text", 2, rig.folder / "again.txt")
    wanted = rig.example("wordcount", source) | {"name": "again"}
    wanted["stages"][0]["command"][1] = (
        'BEGIN { system("sleep 1") }' + wanted["stages"][0]["command"][1]
    )
    found = rig.client.submit_batch(wanted)
    for _ in range(3):
        before = rig.client.batch(found["id"])["done"]
        until(partial(_is_beyond, rig, found["id"], before), 60, "progress")
        rig.tenured.kill()
        rig.tenured.start()
    ended = rig.ended(found["id"])
    assert (ended["state"], ended["retried"]) == ("succeeded", 0)
    words = Counter(source.read_text().split())
    told = dict(line.split() for line in rig.output(found["id"]).decode().splitlines())
    assert {word: int(count) for word, count in told.items()} == words
    until(rig.is_empty, 30, "all containers to be removed")


def _is_beyond(rig: Rig, batch_id: str, done: int) -> bool:
    found = rig.client.batch(batch_id)
    return bool(found["done"] > done or found["finished_at"])


def refusal(rig: Rig, document: dict[str, Any]) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        rig.client.submit_batch(document)
    return caught.value


def test_what_cannot_be_done_is_refused_with_the_reason(rig: Rig) -> None:
    small = stage("s", "true", tasks=1)
    huge = refusal(rig, batch("huge", stage("s", "true", tasks=1, memory="4GiB")))
    assert huge.code == "no_room"
    assert "memory" in huge.detail
    circle = batch("circle", small | {"after": ["t"]}, small | {"name": "t", "after": ["s"]})
    assert "s -> t -> s" in refusal(rig, circle).detail
    missing = {"file": str(rig.folder / "nothing"), "split": {"lines": 5}}
    given = stage("s", "true", input=missing)
    assert refusal(rig, batch("missing", given)).code == "no_input"
    outside = stage("s", "true", input={"file": "/etc/hostname", "split": {"lines": 5}})
    assert refusal(rig, batch("outside", outside)).code == "input_not_allowed"
    (rig.folder / "empty").write_bytes(b"")
    empty = stage("s", "true", input={"file": str(rig.folder / "empty"), "split": {"lines": 5}})
    assert refusal(rig, batch("empty", empty)).code == "zero_tasks"
    assert "stages.0.tasks" in refusal(rig, batch("zero", small | {"tasks": 0})).detail
    whole = rig.folder / "whole"
    with whole.open("wb") as file:
        file.truncate(1 << 30)
    lump = stage("s", "true", input={"file": str(whole), "split": {"size": "1GiB"}})
    assert refusal(rig, batch("lump", lump)).code == "chunk_too_large"
    whole.unlink()
    long = batch("long", stage("s", "true", tasks=100, estimate={"task_s": 80_000}))
    assert refusal(rig, long).code == "outside_window"
    dataset = stage("s", "true", input={"dataset": "d", "split": {"lines": 5}})
    assert "its blocks are the pieces" in refusal(rig, batch("dataset", dataset)).detail
    answer = rig.client.plan_batch(batch("plan", small))
    assert answer["is_accepted"]
    assert answer["end_at"]
    assert rig.is_empty()


@contextmanager
def planning(rig: Rig, **planner: Any) -> Iterator[None]:
    """Have the daemon plan otherwise meanwhile."""
    usual = rig.tenured.config["harvest"]
    try:
        _configured(rig, usual | {"planner": planner})
        yield
    finally:
        _configured(rig, usual)


def _configured(rig: Rig, harvest: dict[str, Any]) -> None:
    rig.tenured.stop()
    rig.tenured.config["harvest"] = harvest
    rig.tenured.write_config()
    rig.tenured.start()
    until(rig.is_lending, 40, "both to lend")


@pytest.mark.parametrize(("solver", "is_proven"), [("cp", True), ("ga", False), ("ls", False)])
def test_the_papers_solvers_plan_what_runs(rig: Rig, solver: str, is_proven: bool) -> None:
    """Asked by the daemon in its planner's process: not in the order of the stages."""
    script = "echo $TENURE_STAGE > /tenure/out/o"
    short = stage("short", script, tasks=4, estimate={"task_s": 2})
    long = stage("long", script, tasks=1, estimate={"task_s": 6})
    with planning(rig, solver=solver, answer_s=4, time_limit_s=4):
        found = rig.client.submit_batch(batch(solver, short, long))
        plan = rig.client.explain_batch(found["id"])["plan"]
        assert (plan["solver"], plan["is_proven"]) == (solver, is_proven)
        planned, end = (datetime.fromisoformat(plan[key]) for key in ("planned_at", "end_at"))
        assert (end - planned).total_seconds() == 8, "in the order of the stages it takes 10"
        assert rig.ended(found["id"])["state"] == "succeeded"
        assert Counter(rig.output(found["id"]).split()) == {b"short": 4, b"long": 1}


def test_where_shares_are_fair_who_holds_less_goes_before_who_came_first(rig: Rig) -> None:
    work = stage("s", "sleep 3; echo $TENURE_TASK > /tenure/out/o", estimate={"task_s": 3})
    with planning(rig, sharing="fair"):
        many = rig.client.submit_batch(batch("many", work | {"tasks": 8}, submitter="alice"))
        few = rig.client.submit_batch(batch("few", work | {"tasks": 2}, submitter="bob"))
        assert few["promised_end_at"] < rig.client.explain_batch(many["id"])["plan"]["end_at"]
        ended = [rig.ended(one["id"]) for one in (many, few)]
    assert [one["state"] for one in ended] == ["succeeded", "succeeded"]
    assert ended[1]["finished_at"] < ended[0]["finished_at"]


def test_a_killed_node_has_the_rest_planned_anew_and_finished_elsewhere(rig: Rig) -> None:
    script = "sleep 2; echo $TENURE_TASK > /tenure/out/o"
    work = stage("s", script, tasks=8, estimate={"task_s": 2})
    found = rig.client.submit_batch(batch("survivor", work, retries=0))
    plan = rig.client.explain_batch(found["id"])["plan"]
    assert {start["node"] for start in plan["starts"]} == set(NODES)
    assert sum(start["tasks"] for start in plan["starts"]) == 8

    def is_under_way() -> bool:
        tasks = rig.client.batch_tasks(found["id"])
        runs_there = any(t["state"] == "running" and t["node"] == "b" for t in tasks)
        return runs_there and any(t["state"] == "done" for t in tasks)

    until(is_under_way, 60, "a task to run on b, others being done")
    rig.bed.kill_node("b")
    try:
        until(lambda: rig.client.node("b")["state"] == "unreachable", 30, "b to be missed")
        rig.client.fence_node("b")
        ended = rig.ended(found["id"])
        assert (ended["state"], ended["retried"]) == ("succeeded", 0)
        assert rig.output(found["id"]).split() == [b"%d" % number for number in range(8)]
        again = [t for t in rig.client.batch_tasks(found["id"]) if t["attempt"] > 1]
        assert again
        assert {task["node"] for task in again} == {"a"}
        whys = [e["data"]["why"] for e in rig.client.events(types="batch.replanned")["items"]]
        assert "other nodes lend" in whys
    finally:
        rig.bed.power_on("b")
    until(lambda: rig.client.node("b")["reach"] == "ok", 40, "b to be back")
    assert "tenure node uncordon b" in rig.objection("b")  # a fence by word cordons
    rig.client.schedule_node("b", "yes")
    until(rig.is_lending, 40, "b to lend again")
    until(rig.is_empty, 30, "all containers to be removed")
