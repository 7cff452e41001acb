"""Spark jobs in the core: containers made for their driver, one end, retries, adoption."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.attempts import spark_bodies
from tenure.model.effects import CreateContainer, RetireContainer, StartContainer
from tenure.model.errors import Problem
from tenure.model.facts import LABEL_DRIVER, LABEL_PORT, LABEL_ROLE, ContainerFacts
from tenure.model.job import Job, JobSpec, JobState, SparkSpec
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import MIB
from tests.unit.core.bench import Bench, node

APPLICATION = SparkSpec("/opt/app.py", args=("7",), conf={"spark.x": "y"}, secret="s3")
SIZE = Resources(250, 64 * MIB)


class Stage:
    """One Spark job of two executors on two nodes, brought forward by hand."""

    def __init__(self, **spec: Any) -> None:
        self.bench = Bench(node("a"), node("b"))
        self.bench.connect("a")
        self.bench.connect("b")
        words: dict[str, Any] = {"executors": 2, "request": SIZE, "command": ()}
        self.answer = self.bench.submit("j", **(words | {"spark": APPLICATION} | spec))
        self.bodies: dict[str, CreateContainer] = {}

    @property
    def job(self) -> Job:
        job: Job = self.bench.tables.jobs["j"]
        return job

    def executor(self, index: int) -> Any:
        return self.bench.tables.executors[f"j/{index}"]

    def settle(self) -> None:
        """Carry out creates, starts and removals until none is open."""
        while effects := [e for e in self.bench.tables.effects.values() if e.kind != "power"]:
            for effect in list(effects):
                if isinstance(effect, CreateContainer):
                    self.bodies[effect.owner.partition(":")[2]] = effect
                    self.bench.end(effect, Done(f"id-{effect.name}"))
                else:
                    assert isinstance(effect, StartContainer | RetireContainer)
                    self.bench.end(effect)

    def facts(self, index: int, state: str, code: int | None = None) -> ContainerFacts:
        one, effect = self.executor(index), self.bodies[f"j/{index}"]
        labels = effect.body["Labels"]
        return ContainerFacts(
            one.engine_id, effect.name, "base", state, labels=labels, exit_code=code
        )

    def see(self, *ended: tuple[int, int]) -> None:
        """Have listings show that some ended with a code, and that the others run."""
        codes = dict(ended)
        here: dict[str, list[ContainerFacts]] = {"a": [], "b": []}
        for index in range(3):
            if self.executor(index).state == "running":
                state = "exited" if index in codes else "running"
                facts = self.facts(index, state, codes.get(index))
                here[self.executor(index).node].append(facts)
        for name, shown in here.items():
            self.bench.listed(name, *shown)


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.settle()
    return stage


def env_of(effect: CreateContainer) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in effect.body["Env"])


def test_driver_and_executors_are_identical_containers_that_know_the_driver(stage: Stage) -> None:
    assert stage.job.state is JobState.RUNNING
    assert set(stage.bodies) == {"j/0", "j/1", "j/2"}
    driver, first = stage.bodies["j/0"], stage.bodies["j/1"]
    master = f"{stage.executor(0).node}:{stage.executor(0).port}"
    for effect in stage.bodies.values():
        assert env_of(effect)["TENURE_SPARK_MASTER"] == master
        assert effect.body["HostConfig"]["NetworkMode"] == "host"
        assert effect.body["HostConfig"]["Memory"] == 64 * MIB
        conf = env_of(effect)["TENURE_SPARK_CONF"].splitlines()
        assert {"spark.x=y", "spark.authenticate=true", "spark.authenticate.secret=s3"} <= set(conf)
    assert driver.body["Cmd"] == ["/opt/app.py", "7"]
    assert driver.body["Labels"][LABEL_ROLE] == "driver"
    assert driver.body["Labels"][LABEL_PORT] == str(stage.executor(0).port)
    assert first.body["Cmd"] == []
    assert first.body["Labels"][LABEL_ROLE] == "executor"
    assert first.body["Labels"][LABEL_DRIVER] == "1"


def test_all_ends_with_the_driver(stage: Stage) -> None:
    stage.see((0, 0))
    assert stage.job.state is JobState.RUNNING  # its executors may still run
    stage.settle()
    assert (stage.job.state, stage.job.exit_code) == (JobState.SUCCEEDED, 0)
    assert stage.executor(0).finished_us == stage.job.finished_us
    assert len(stage.bench.tables.tombstones) == 0


def test_a_cancel_after_the_application_ended_comes_too_late(stage: Stage) -> None:
    from tenure.model.events import CancelJob

    stage.see((0, 0))
    stage.bench.say(CancelJob(at_us=0, request="r", job="j"))
    stage.settle()
    assert stage.job.state is JobState.SUCCEEDED
    assert not stage.job.is_cancelling


def test_a_failing_driver_fails_the_job_with_its_code(stage: Stage) -> None:
    stage.see((0, 7))
    stage.settle()
    assert (stage.job.state, stage.job.exit_code) == (JobState.FAILED, 7)


@pytest.mark.parametrize("code", [0, 1])
def test_an_executor_that_ends_before_its_driver_has_failed(code: int) -> None:
    stage = Stage(retries=1)
    stage.settle()
    stage.see((1, code))
    assert stage.job.state is JobState.RUNNING
    one = stage.executor(1)
    assert (one.attempt, one.failures) == (2, 1)
    assert stage.executor(0).attempt == 1


def test_an_executor_without_retries_fails_the_job(stage: Stage) -> None:
    stage.see((2, 0))
    stage.settle()
    assert (stage.job.state, stage.job.exit_code) == (JobState.FAILED, 1)


def test_executors_begin_again_with_their_driver() -> None:
    stage = Stage(retries=1)
    stage.settle()
    port = stage.executor(0).port
    stage.see((0, 3))
    assert [stage.executor(i).attempt for i in range(3)] == [2, 2, 2]
    assert [stage.executor(i).failures for i in range(3)] == [1, 0, 0]
    stage.settle()
    while stage.executor(2).state != "running":
        stage.bench.say(_tick())
        stage.settle()
    assert stage.executor(0).port != port
    assert stage.bodies["j/2"].body["Labels"][LABEL_DRIVER] == "2"
    assert env_of(stage.bodies["j/2"])["TENURE_SPARK_MASTER"].endswith(str(stage.executor(0).port))
    stage.see((0, 0))
    stage.settle()
    assert stage.job.state is JobState.SUCCEEDED


def _tick() -> Any:
    from tenure.model.events import Tick

    return Tick(at_us=0)


def test_drivers_of_one_node_have_ports_of_their_own() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    for name in ("j1", "j2"):
        words: dict[str, Any] = {"command": (), "spark": APPLICATION, "request": SIZE}
        bench.submit(name, **words)
    ports = {bench.tables.executors[f"{name}/0"].port for name in ("j1", "j2")}
    assert len(ports) == 2
    first, count = spark_bodies.FIRST_PORT, spark_bodies.PORTS
    assert all(first <= port < first + count for port in ports)


def test_a_node_without_an_address_takes_no_spark_job() -> None:
    bench = Bench(NodeSpec("a", "unix:///run/a.sock", "young", capacity=node("a").capacity))
    bench.connect("a")
    words: dict[str, Any] = {"command": (), "spark": APPLICATION, "request": SIZE}
    answer = bench.submit("j", **words)
    assert isinstance(answer, Problem)
    assert answer.code == "no_address"
    assert "nodes[].address" in answer.detail
    spec = NodeSpec("a", "unix:///x", "young", capacity=node("a").capacity, address="10.0.0.1")
    bench.configure(spec)
    assert isinstance(bench.submit("j", **words), Job)


def test_properties_are_written_as_java_reads_them() -> None:
    text = spark_bodies.conf_text({"spark.a": "C:\\x", "spark.b": " y", "spark.c": "1=2 # 3"})
    assert text == "spark.a=C:\\\\x\nspark.b=\\ y\nspark.c=1=2 # 3\n"


@pytest.mark.parametrize(("memory_mib", "heap_mib"), [(1024, 512), (2048, 1280), (8192, 5888)])
def test_the_heap_leaves_room_for_what_is_beside_it(memory_mib: int, heap_mib: int) -> None:
    request = Resources(1500, memory_mib * MIB)
    spec = JobSpec("j", "a", "i", (), 2, request, spark=APPLICATION)
    job = Job("j", 1, spec, 0)
    assert spark_bodies.heap_mib_of(job) == heap_mib
    assert spark_bodies.cores_of(job) == 2
    assert spec.containers == 3
