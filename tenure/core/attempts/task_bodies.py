"""What the container of a task is made of, gets, and where its output goes.

Owns nothing, reads only.
"""

from __future__ import annotations

from typing import Any

from tenure.core.state.context import Context
from tenure.model.batch import (
    CHUNK_NAME,
    INPUT_FOLDER,
    OUTPUT_FOLDER,
    Part,
    Task,
    partition_name,
)
from tenure.model.facts import (
    LABEL_ATTEMPT,
    LABEL_BATCH,
    LABEL_EXECUTOR,
    LABEL_FLEET,
    LABEL_GENERATION,
    LABEL_JOB,
    LABEL_STAGE,
)
from tenure.model.harvest import OOM_SCORE_ADJ, cgroup_parent
from tenure.model.node import Node
from tenure.model.reading import Reading

#: The least weight that cgroups know: beside any owner a task gets next to nothing.
CPU_SHARES = 2
#: Processes and threads of a task: owners need numbers for theirs.
MOST_PIDS = 4096
START_FAILED = "start_failed"


def may_lack_a_mount(code: str, before: str) -> bool:
    """Whether a refusal may be of a block that is not there; ``before`` ended the attempt before.

    Engines look for what they mount when they create (``bad_request``). What is gone by the start
    gives the same ``start_failed`` as a command that cannot run; twice running, each time with the
    block there when the container was created, it is the command.
    """
    return code == "bad_request" or (code == START_FAILED and not before.startswith(START_FAILED))


def body_of(ctx: Context, task: Task, node: Node) -> dict[str, Any]:
    """Return Docker's create body of a task: no CPU quota of its own, first to be killed."""
    stage = ctx.tables.batches[task.batch].spec.stage(task.stage)
    labels = {
        LABEL_FLEET: ctx.meta.fleet,
        LABEL_JOB: task.batch,
        LABEL_EXECUTOR: str(task.index),
        LABEL_ATTEMPT: str(task.attempt),
        LABEL_GENERATION: node.spec.generation,
        LABEL_BATCH: task.batch,
        LABEL_STAGE: task.stage,
    }
    identity = [
        f"TENURE_BATCH={task.batch}",
        f"TENURE_STAGE={task.stage}",
        f"TENURE_TASK={task.number}",
        f"TENURE_TASKS={stage.count}",
        f"TENURE_ATTEMPT={task.attempt}",
        f"TENURE_PARTITIONS={stage.partitions}",
        f"TENURE_INPUT={INPUT_FOLDER}",
        f"TENURE_OUTPUT={OUTPUT_FOLDER}",
    ]
    body: dict[str, Any] = {
        "Image": stage.image,
        "Env": [*stage.env, *identity],
        "Labels": labels,
        "HostConfig": {
            "Memory": stage.request.memory_bytes,
            "CpuShares": CPU_SHARES,
            "CgroupParent": cgroup_parent(node.cgroup_driver, node.spec.cgroup),
            "OomScoreAdj": OOM_SCORE_ADJ,
            "PidsLimit": MOST_PIDS,
            "RestartPolicy": {"Name": "no"},
            "Init": True,
        },
    }
    if task.reading is not None and task.reading.uri:
        body["Env"] += block_env(task.reading)
    elif task.reading is not None:
        body["HostConfig"]["Mounts"] = [mount_of(task.reading)]
    if stage.command:
        body["Cmd"] = list(stage.command)
    return body


def mount_of(reading: Reading, name: str = CHUNK_NAME) -> dict[str, Any]:
    """Return the mount of a copy that is read; an engine without that file refuses it.

    ``name`` is that of the block in the folder of inputs.
    """
    target = f"{INPUT_FOLDER}/{name}"
    return {"Type": "bind", "Source": reading.path, "Target": target, "ReadOnly": True}


def block_env(reading: Reading) -> list[str]:
    """Return where a task finds its block in HDFS: it is not ours to mount."""
    return [
        f"TENURE_BLOCK_URI={reading.uri}",
        f"TENURE_BLOCK_URL={reading.url}",
        f"TENURE_BLOCK_OFFSET={reading.offset}",
        f"TENURE_BLOCK_LENGTH={reading.length}",
    ]


def parts_of(ctx: Context, task: Task) -> tuple[Part, ...]:
    """Return what a task gets: its chunk, and its partition of each task that shuffles to it."""
    batch = ctx.tables.batches[task.batch]
    stage = batch.spec.stage(task.stage)
    parts = []
    if stage.input is not None and task.chunk is not None and task.reading is None:
        chunk = task.chunk
        parts.append(Part(CHUNK_NAME, stage.input.path, chunk.offset, chunk.length))
    if stage.shuffle:
        file = partition_name(task.number)
        first = batch.spec.first_of(stage.shuffle)
        count = batch.spec.stage(stage.shuffle).count
        for number in range(count):
            name = f"from-{number:05d}"
            parts.append(Part(name, f"{folder_of(task.batch, first + number)}/{file}"))
    return tuple(parts)


def folder_of(batch: str, index: int) -> str:
    """Return where the output of a task is kept, below the daemon's folder of outputs."""
    return f"{batch}/{index:05d}"
