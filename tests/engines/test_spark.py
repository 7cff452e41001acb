"""Spark jobs on real engines: right answers, exit codes, lost executors, a daemon that dies."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

from tenure.cli.files import documents
from tenure.cli.programs import with_program
from tenure.model.errors import NotFound
from testbed import NodeSpec, Testbed, docker_api, sparkimage
from testbed.errors import TestbedError
from tests.engines.served import served
from tests.faults.statedb import records
from tests.faults.tenured import ROOT, Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
EXAMPLES = ROOT / "examples" / "spark"
NODES = ("a", "b")
#: Two containers of 1 GiB fit a node: a driver and two executors need both.
NODE_BYTES = 2304 << 20
#: Of JVMs that share two cores with other tests; alone an application takes 20.
ENDS_S = 300.0
#: JVMs that live for seconds compile little: an application takes half the processor time.
SWIFT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUICK = {f"spark.{who}.extraJavaOptions": SWIFT for who in ("driver", "executor")}


class Rig:
    """Two nodes that hold the Spark image, and a daemon."""

    def __init__(self, bed: Testbed, tenured: Tenured) -> None:
        self.bed, self.tenured = bed, tenured

    def submit(self, example: str, *, args: list[str] | None = None, **changes: Any) -> str:
        path = EXAMPLES / f"{example}.yml"
        (job,) = [with_program(found, str(path)) for found in documents(str(path))]
        job = job | {"image": sparkimage.IMAGE, **changes}
        job["spark"] = job["spark"] | {"conf": QUICK}
        if args is not None:
            job["spark"]["args"] = args
        return str(self.tenured.client.submit_job(job)["id"])

    def job(self, job: str) -> dict[str, Any]:
        return self.tenured.client.job(job)

    def ended(self, job: str) -> dict[str, Any]:
        """Return a job once it is over."""

        def over() -> dict[str, Any] | None:
            found = self.job(job)
            return found if found["finished_at"] else None

        found: dict[str, Any] = until(over, ENDS_S, f"{job} to end", poll_s=0.2)
        return found

    def log(self, job: str, executor: int | None = None) -> str:
        """Return what a container has printed so far; of the driver if no number is given."""
        try:
            return b"".join(self.tenured.client.job_logs(job, executor)).decode()
        except NotFound:
            return ""  # it was not created yet

    def containers(self, node: str) -> list[dict[str, Any]]:
        socket = self.bed.nodes[node].socket
        status, answer = docker_api.call(socket, "GET", "/containers/json?all=1")
        assert status == 200
        return list(json.loads(answer))

    def is_empty(self) -> bool:
        return not any(self.containers(node) for node in NODES)


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    try:
        sparkimage.archive()
    except TestbedError as error:
        pytest.skip(f"no image with Spark: {error}")
    specs = [NodeSpec(name, "nursery", cpus=4, memory_bytes=NODE_BYTES) for name in NODES]
    with served(specs, prepare=_load, generations=["nursery"]) as (bed, tenured):
        yield Rig(bed, tenured)


def _load(bed: Testbed) -> None:
    with ThreadPoolExecutor() as pool:
        list(pool.map(sparkimage.load, (bed.nodes[name].socket for name in NODES)))


def program(name: str) -> ModuleType:
    """Load an example as a module; it needs Spark only where it is run."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


#: Runs a first task on each executor, says so, and then keeps both busy for some seconds.
LONG = """
import sys, time
from pyspark import SparkContext
seconds, code = int(sys.argv[1]), int(sys.argv[2])
with SparkContext(appName="long") as spark:
    spark.range(4, numSlices=4).count()
    print("begun", flush=True)
    spark.range(2, numSlices=2).foreach(lambda _: time.sleep(seconds))
    print("ended", flush=True)
sys.exit(code)
"""


def long(seconds: int, code: int = 0) -> dict[str, Any]:
    return {"program": LONG, "args": [str(seconds), str(code)]}


def counted(lines: int) -> Counter[str]:
    line = program("wordcount").line
    return Counter(word for number in range(lines) for word in line(number).split())


def test_wordcount_over_two_nodes_counts_right(rig: Rig) -> None:
    job = rig.submit("wordcount")
    found = rig.ended(job)
    log = rig.log(job)
    assert (found["state"], found["exit_code"]) == ("succeeded", 0), log
    roles = [state["role"] for state in found["executor_states"]]
    assert roles == ["driver", "executor", "executor"]
    assert {state["node"] for state in found["executor_states"]} == set(NODES)
    rows = [line.split() for line in log.splitlines()]
    told = {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}
    assert told == counted(100_000)
    assert "CoarseGrainedExecutorBackend" in rig.log(job, 1)
    secret = records(rig.tenured.database, "jobs")[job]["spec"]["spark"]["secret"]
    assert len(secret) == 64
    assert secret not in log + rig.log(job, 1) + rig.log(job, 2)
    until(rig.is_empty, 30, "all containers to be removed")


def ranked(pages: int, rounds: int) -> list[tuple[int, float]]:
    """Return the five first pages of PageRank, worked out in one place."""
    example = program("pagerank")
    ranks = dict.fromkeys(range(pages), 1.0)
    for _ in range(rounds):
        given: dict[int, float] = defaultdict(float)
        for page, rank in ranks.items():
            targets = example.links(page, pages)
            for target in targets:
                given[target] += rank / len(targets)
        # a page that nobody links to has no rank from then on, in the example as here
        ranks = {page: 0.15 + 0.85 * sum_ for page, sum_ in given.items()}
    return sorted(ranks.items(), key=lambda row: (-row[1], row[0]))[:5]


def test_sort_and_pagerank_side_by_side_answer_right(rig: Rig) -> None:
    sort = rig.submit("sort", executors=1, args=["20000", "4"])
    pagerank = rig.submit("pagerank", executors=1, args=["2000", "3"])
    for job in (sort, pagerank):
        assert rig.ended(job)["state"] == "succeeded", rig.log(job)
    number = program("sort").number
    ordered = sorted(number(index) for index in range(20_000))
    assert f"{ordered[0]} {ordered[10_000]} {ordered[-1]}" in rig.log(sort).splitlines()
    rows = [line.split() for line in rig.log(pagerank).splitlines()]
    told = [(int(row[0]), float(row[1])) for row in rows if len(row) == 2 and row[0].isdigit()]
    wanted = ranked(2000, 3)
    assert [page for page, _ in told] == [page for page, _ in wanted]
    assert [rank for _, rank in told] == pytest.approx([rank for _, rank in wanted], abs=2e-6)


def test_the_exit_code_of_the_application_is_the_jobs(rig: Rig) -> None:
    job = rig.submit("wordcount", name="fails", spark=long(0, 7), retries=0)
    found = rig.ended(job)
    assert (found["state"], found["exit_code"]) == ("failed", 7), rig.log(job)
    assert "ended" in rig.log(job)
    until(rig.is_empty, 30, "all containers to be removed")


def test_a_lost_executor_is_replaced_and_a_cancel_leaves_nothing(rig: Rig) -> None:
    job = rig.submit("wordcount", name="cancelled", spark=long(600))
    until(lambda: "begun" in rig.log(job), ENDS_S, "the application to begin", poll_s=0.2)
    lost = rig.job(job)["executor_states"][1]
    socket = rig.bed.nodes[lost["node"]].socket
    path = f"/containers/{lost['engine_id']}/kill?signal=KILL"
    assert docker_api.call(socket, "POST", path)[0] == 204

    def is_replaced() -> bool:
        driver, first, _ = rig.job(job)["executor_states"]
        is_again = first["attempt"] == 2 and first["state"] == "running"
        return is_again and (driver["attempt"], driver["state"]) == (1, "running")

    until(is_replaced, 60, "the executor to run again, its driver untouched")
    until(lambda: "CoarseGrained" in rig.log(job, 1), 60, "the new one to work for the driver")
    rig.tenured.client.cancel_job(job)
    assert rig.ended(job)["state"] == "cancelled"
    until(rig.is_empty, 30, "all containers to be removed")


def test_an_application_outlives_a_killed_daemon(rig: Rig) -> None:
    job = rig.submit("wordcount", name="outlives", spark=long(10))
    until(lambda: "begun" in rig.log(job), ENDS_S, "the application to begin", poll_s=0.2)
    rig.tenured.kill()
    before = {row["Id"] for node in NODES for row in rig.containers(node)}
    rig.tenured.start()
    found = rig.ended(job)
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert [state["attempt"] for state in found["executor_states"]] == [1, 1, 1]
    assert {state["engine_id"] for state in found["executor_states"]} == before
    assert "ended" in rig.log(job)
    until(rig.is_empty, 30, "all containers to be removed")
