"""Spark jobs: what the containers of a driver and its executors are made of.

Theory of operation (ours; docs/spark.md). A Spark job of E executors is a job of E + 1 identical
containers: number 0 is the driver, so that policies, room, estimates and the ledger know nothing of
Spark. All use their node's network. The driver runs a private master; the others are made with its
address, so they belong to one attempt of it, and are made anew with the next
(``spark_application``). The master's port is the only one that is chosen here: it must be known
before it is open. The others are the kernel's choice. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tenure.core.attempts.spark_script import LAUNCH
from tenure.core.state.context import Context
from tenure.model.facts import LABEL_DRIVER, LABEL_PORT, LABEL_ROLE, ContainerFacts, number_of
from tenure.model.job import Executor, ExecutorState, Job, SparkSpec
from tenure.model.units import MIB

DRIVER = 0
#: Below the ports that kernels give out (32768 and up), so that nobody has them by chance.
FIRST_PORT = 20_000
PORTS = 2_000
#: Memory of a container that is not the heap: of master or worker, and of what grows beside heaps
#: (code, stacks, buffers, Python), a quarter of the container and no less than this.
DAEMON_MIB = 256
BESIDE_MIB = 256


def is_driver(executor: Executor, job: Job) -> bool:
    """Whether this container is the driver of a Spark job."""
    return job.spec.spark is not None and executor.index == DRIVER


def is_worker(executor: Executor, job: Job) -> bool:
    """Whether this container is an executor of a Spark job."""
    return job.spec.spark is not None and executor.index != DRIVER


def driver_of(ctx: Context, job: Job) -> Executor:
    """Return the driver of a Spark job in its current attempt."""
    return ctx.tables.executors[f"{job.id}/{DRIVER}"]


def is_outdated(ctx: Context, executor: Executor, job: Job) -> bool:
    """Whether a Spark executor was made for an attempt of its driver that is over."""
    if not is_worker(executor, job) or not executor.driver_attempt:
        return False
    return executor.driver_attempt != driver_of(ctx, job).attempt


def joined(ctx: Context, executor: Executor, job: Job) -> Executor | None:
    """Return the executor as it is about to be created; None: its driver has to come first."""
    if is_driver(executor, job):
        return replace(executor, port=_port_for(ctx, executor, job))
    if is_worker(executor, job):
        driver = driver_of(ctx, job)
        if not driver.port or driver.is_over:
            return None
        return replace(executor, driver_attempt=driver.attempt)
    return executor


def _port_for(ctx: Context, driver: Executor, job: Job) -> int:
    """Return a port that no other driver on the node has, another one for each attempt.

    What else holds a port there is not known: such an attempt fails, and the next has another.
    """
    taken = {other.port for other in ctx.executors_on(driver.node) if other.key != driver.key}
    first = job.seq + 97 * driver.attempt  # far from the ports of jobs that came with this one
    tries = (FIRST_PORT + (first + i) % PORTS for i in range(len(taken) + 1))
    return next((port for port in tries if port not in taken), FIRST_PORT)


def adopted(executor: Executor, facts: ContainerFacts) -> Executor:
    """Return an executor with what the labels of its container tell (after a restore)."""
    labels = facts.labels
    driver, port = labels.get(LABEL_DRIVER, ""), labels.get(LABEL_PORT, "")
    return replace(
        executor,
        driver_attempt=number_of(driver),
        port=number_of(port),
    )


def dressed(ctx: Context, body: dict[str, Any], executor: Executor, job: Job) -> dict[str, Any]:
    """Return the create body of a Spark job's container, made of that of a plain one.

    ``executor`` and its driver were ``joined``, and the driver has a node.
    """
    spec = job.spec.spark
    if spec is None:
        return body
    driver = executor if executor.index == DRIVER else driver_of(ctx, job)
    host = ctx.tables.nodes[driver.node].spec.host
    heap_mib = heap_mib_of(job)
    own = {LABEL_ROLE: job.spec.role_of(executor.index)}
    env = {
        "TENURE_SPARK_HOST": ctx.tables.nodes[executor.node].spec.host,
        "TENURE_SPARK_MASTER": f"{host}:{driver.port}",
        "TENURE_SPARK_CONF": conf_text(_conf(spec, job, host, heap_mib)),
    }
    if executor.index == DRIVER:
        own[LABEL_PORT] = str(driver.port)
        env["TENURE_SPARK_PROGRAM"] = spec.program
        command = [spec.application, *spec.args]
    else:
        own[LABEL_DRIVER] = str(driver.attempt)
        env["TENURE_SPARK_CORES"] = str(cores_of(job))
        env["TENURE_SPARK_MEMORY"] = f"{heap_mib}m"
        command = []
    return body | {
        "Entrypoint": ["bash", "-c", LAUNCH, "tenure-spark"],
        "Cmd": command,
        "Env": [*body["Env"], *(f"{name}={value}" for name, value in env.items())],
        "Labels": body["Labels"] | own,
        "HostConfig": body["HostConfig"] | {"NetworkMode": "host"},
    }


def cores_of(job: Job) -> int:
    """Return how many tasks an executor runs at a time: its cores, rounded up."""
    return -(-job.spec.request.cpu_m // 1000)


def heap_mib_of(job: Job) -> int:
    """Return the heap of driver and executor: what a container has beside its other parts."""
    whole = job.spec.request.memory_bytes // MIB
    return whole - DAEMON_MIB - max(BESIDE_MIB, whole // 4)


def _conf(spec: SparkSpec, job: Job, driver_host: str, heap_mib: int) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.killEnabled": "false",
        **spec.conf,
        "spark.authenticate": "true",
        "spark.authenticate.secret": spec.secret,
        "spark.driver.host": driver_host,
        "spark.driver.memory": f"{heap_mib}m",
        "spark.executor.memory": f"{heap_mib}m",
        "spark.executor.cores": str(cores_of(job)),
        # two executors of a node are two containers: neither sees the other's disk
        "spark.shuffle.readHostLocalDisk": "false",
    }


def conf_text(conf: Mapping[str, str]) -> str:
    """Return properties as Java reads them: backslashes doubled, one property a line."""
    lines = (f"{key}={_escaped(value)}\n" for key, value in conf.items())
    return "".join(lines)


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "\\" + text if text[:1].isspace() else text


def is_ended(executor: Executor) -> bool:
    """Whether an application came to its end: its driver exited 0."""
    return executor.state is ExecutorState.EXITED and executor.exit_code == 0
