"""Laws of batches, whose tasks run on what owners leave.

L19 a task takes no room that owners have, and takes room only where everything fits; L20 a task
begins with its whole input and behind the stages that it waits for, and nothing writes to it from
then on; L21 a task is done only if a process of this very attempt ended well; L22 a batch has all
its tasks or is not there, and succeeds only if all are done. That no task runs twice at a time is
L2, that none runs where the power goes off L7.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tenure.core.state.tables import Changes
from tenure.model.batch import (
    BATCH_TRANSITIONS,
    PREPARING,
    TASK_OVER,
    TASK_TRANSITIONS,
    Batch,
    BatchSpec,
    BatchState,
    Chunk,
    InputFile,
    StageSpec,
    Task,
    TaskState,
)
from tenure.model.node import Node
from tenure.model.resources import Resources, total
from tenure.model.units import MIB, US
from tests.fleet.capacity import Needs, load_on
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken

S = TaskState
CHUNK = 4 * MIB


def draw_batches(dice: Random, images: tuple[str, ...], *, is_calm: bool) -> list[BatchSpec]:
    """Return the batches of a run: none in every second one."""
    count = dice.choice((0, 0, 1, 3))
    return [_draw(dice, f"batch{i}", images, is_calm=is_calm) for i in range(count)]


def _draw(dice: Random, name: str, images: tuple[str, ...], *, is_calm: bool) -> BatchSpec:
    count = dice.choice((1, 2, 5))
    stages = [_stage(dice, "map", dice.choice((1, 3, 8)), images, is_calm=is_calm)]
    if dice.random() < 0.6:
        reduce = _stage(dice, "reduce", count, images, is_calm=is_calm)
        stages[0] = replace(stages[0], partitions=count)
        stages.append(replace(reduce, after=("map",), shuffle="map"))
    return BatchSpec(name, tuple(stages), retries=dice.choice((0, 1, 2)))


def with_replicas(dice: Random, spec: BatchSpec) -> BatchSpec:
    """Return a batch, which in every second case reads a file that is kept as replicas."""
    if dice.random() < 0.5:
        return spec
    count = spec.stages[0].count
    source = InputFile(f"/in/{spec.name}", count * CHUNK, 1)
    first = replace(spec.stages[0], input=source, chunk_bytes=CHUNK)
    return replace(spec, stages=(first, *spec.stages[1:]), replicas=dice.choice((2, 2, 3)))


def chunks_of(spec: BatchSpec) -> dict[str, tuple[Chunk, ...]]:
    """Return the chunks of the stages that read a file."""
    reading = (stage for stage in spec.stages if stage.input is not None)
    return {s.name: tuple(Chunk(i * CHUNK, CHUNK) for i in range(s.count)) for s in reading}


def _stage(
    dice: Random, name: str, count: int, images: tuple[str, ...], *, is_calm: bool
) -> StageSpec:
    run_s = dice.choice((1, 5, 20))
    failing, code = (0, 0) if is_calm else dice.choice(((0, 0), (0, 0), (0, 0), (1, 3), (2, 137)))
    return StageSpec(
        name=name,
        image=dice.choice(images),
        command=("work", str(run_s), str(failing), str(code)),
        count=count,
        request=Resources(dice.choice((100, 250)), dice.choice((16, 64)) * MIB),
        run_us=run_s * US,
    )


# L20


def may_begin(store: SimStore, container: SimContainer, owner: str) -> None:
    """Look at a process of a task at the moment when it begins."""
    task: Task | None = store.table("tasks").get(owner)
    if task is None:
        return
    if not container.has_input:
        raise LawBroken("L20", f"{container.id} ({container.name}) begins without its input")
    batch: Batch = store.table("batches")[task.batch]
    waits = batch.spec.stage(task.stage).after
    for other in tasks_of(store, batch):
        if other.stage in waits and other.state is not S.DONE:
            raise LawBroken("L20", f"{owner} begins before {other.key} is done")


def tasks_of(store: SimStore, batch: Batch) -> list[Task]:
    """Return the tasks of a batch."""
    table: dict[str, Task] = store.table("tasks")
    rows = (table.get(f"{batch.id}/{index}") for index in range(batch.spec.tasks))
    return [row for row in rows if row is not None]


# the disk


def forward_batch(old: Batch | None, new: Batch | None) -> None:
    """L3 and L1 of a batch."""
    if old is None:
        return
    if new is None:
        raise LawBroken("L1", f"batch {old.id} is forgotten")
    if new.state is not old.state and new.state not in BATCH_TRANSITIONS[old.state]:
        raise LawBroken("L3", f"batch {old.id}: {old.state} -> {new.state}")


def forward_task(old: Task | None, new: Task | None) -> None:
    """L3 of a task: an attempt goes forward, and the next one has a higher number."""
    if old is None or new is None:
        return
    if new.attempt < old.attempt:
        raise LawBroken("L3", f"task {old.key}: attempt {old.attempt} -> {new.attempt}")
    if new.attempt == old.attempt and new.state not in _REACH[old.state]:
        raise LawBroken("L3", f"task {old.key}: {old.state} -> {new.state}")
    if new.attempt > old.attempt and old.state is S.DONE:
        raise LawBroken("L3", f"task {old.key} is done, and begins again")


def _reach() -> dict[TaskState, set[TaskState]]:
    found = {state: {state} for state in TaskState}
    for _ in TaskState:
        for state, following in TASK_TRANSITIONS.items():
            found[state] |= {state}.union(*(found[other] for other in following))
    return found


_REACH = _reach()


def on_commit(store: SimStore, machines: dict[str, Machine], changes: Changes) -> set[str]:
    """L21 and L22 on what a transaction is about to change; return nodes that got tasks."""
    placed: set[str] = set()
    for key, task in changes.records.get("tasks", {}).items():
        old: Task | None = store.table("tasks").get(key)
        if task is None:
            continue
        was_held = old is not None and old.node == task.node and not old.is_ahead
        if task.state in PREPARING and not task.is_ahead and not was_held:
            placed.add(task.node)
        if task.state is S.DONE and (old is None or old.state is not S.DONE):
            _ended_well(machines[task.node], task)
    fresh = changes.records.get("tasks", {})
    for key, batch in changes.records.get("batches", {}).items():
        if batch is not None and key not in store.table("batches"):
            keys = (f"{key}/{i}" for i in range(batch.spec.tasks))
            missing = [one for one in keys if one not in fresh and one not in store.table("tasks")]
            if missing:
                raise LawBroken("L22", f"batch {key} is accepted without its task {missing[0]}")
    return placed


def _ended_well(machine: Machine, task: Task) -> None:
    container = machine.containers.get(task.engine_id)
    if container is None:
        raise LawBroken("L21", f"task {task.key} is done, and there is no {task.engine_id}")
    is_well = container.life == 1 and not container.is_alive and container.exit_code == 0
    if not is_well:
        text = f"{container.state}, exit code {container.exit_code}, life {container.life}"
        raise LawBroken("L21", f"task {task.key} is done, and {container.id} is {text}")


def fits(store: SimStore, names: set[str], needs: Needs) -> None:
    """L19 on the nodes that a transaction gave tasks to."""
    batches: dict[str, Batch] = store.table("batches")
    tasks: list[Task] = list(store.table("tasks").values())
    for name in sorted(names):
        node: Node = store.table("nodes")[name]
        here = [task for task in tasks if task.node == name and task.state not in TASK_OVER]
        here = [task for task in here if not task.is_ahead]
        lent = total(batches[task.batch].spec.stage(task.stage).request for task in here)
        load = total((*load_on(store, name, needs), lent))
        is_over = load.cpu_m > node.capacity.cpu_m
        if is_over or load.memory_bytes > node.capacity.memory_bytes:
            raise LawBroken("L19", f"{name} is lent {lent}, holds {load} of {node.capacity}")


def ended_right(store: SimStore) -> None:
    """L22: a batch that succeeded has all its tasks done; no other has."""
    for batch in store.table("batches").values():
        rows = tasks_of(store, batch)
        are_done = [row.state for row in rows] == [S.DONE] * batch.spec.tasks
        if are_done is not (batch.state is BatchState.SUCCEEDED) and not batch.is_cancelling:
            raise LawBroken("L22", f"batch {batch.id} is {batch.state}, its tasks done: {are_done}")
