"""Laws of drains: nothing new lands on a node while it is drained, and it ends up empty of ours."""

from __future__ import annotations

from collections.abc import Mapping

from tenure.core.state.tables import Changes
from tenure.model.batch import TASK_OVER, Task
from tenure.model.container import ContainerState, Migration, Service, Step
from tenure.model.drain import Drain, DrainState
from tenure.model.facts import LABEL_CONTAINER, LABEL_EXECUTOR, LABEL_JOB
from tenure.model.job import Executor, ExecutorState
from tests.fleet.machine import Machine
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken

#: What a service is in while it takes no place on its node.
GONE = (ContainerState.REMOVED, ContainerState.FAILED)


def nothing_lands(store: SimStore, changes: Changes) -> None:
    """L15: what a transaction places goes to no node that was and is being drained."""
    draining = _draining_throughout(store, changes)
    if not draining:
        return
    kinds = (("services", _service), ("executors", _executor), ("migrations", _move))
    for kind, lands in (*kinds, ("tasks", _task)):
        before = store.table(kind)
        for key, row in changes.records.get(kind, {}).items():
            node = "" if row is None else lands(before.get(key), row)
            if node in draining:
                raise LawBroken("L15", f"{kind} {key} is placed on {node}, which is drained")


def _draining_throughout(store: SimStore, changes: Changes) -> set[str]:
    """Return the nodes whose drain was under way before a transaction and still is."""
    found = set()
    now = changes.records.get("drains", {})
    drains: list[Drain] = list(store.table("drains").values())
    for drain in drains:
        after: Drain | None = now.get(drain.node, drain)
        if not drain.is_over and after is not None and after.id == drain.id and not after.is_over:
            found.add(drain.node)
    return found


def _service(old: Service | None, new: Service) -> str:
    """Return where a new incarnation is created, "" if none is: moves are judged as moves."""
    is_new = old is None or (old.node, old.incarnation) != (new.node, new.incarnation)
    return new.node if is_new and new.state is ContainerState.CREATING else ""


def _executor(old: Executor | None, new: Executor) -> str:
    """Return where a new attempt is placed; one that runs at once was there, and was adopted."""
    if new.state is ExecutorState.RUNNING:
        return ""
    is_new = old is None or (old.node, old.attempt) != (new.node, new.attempt)
    return new.node if is_new and not new.is_over else ""


def _task(old: Task | None, new: Task) -> str:
    """Return where a new attempt of a task is placed."""
    is_new = old is None or (old.node, old.attempt) != (new.node, new.attempt)
    return new.node if is_new and new.state not in TASK_OVER else ""


def _move(old: Migration | None, new: Migration) -> str:
    has_begun = new.step not in (Step.QUEUED, Step.REFUSED)
    return new.target if has_begun and (old is None or old.step is Step.QUEUED) else ""


def drained_by(store: SimStore, changes: Changes) -> list[str]:
    """Return the nodes of which a transaction says that they were drained."""
    found = []
    for node, drain in changes.records.get("drains", {}).items():
        before = store.table("drains").get(node)
        is_new = before is None or before.id != drain.id or not before.is_over if drain else False
        if is_new and drain.state is DrainState.DRAINED:
            found.append(node)
    return sorted(found)


def is_empty(store: SimStore, machine: Machine) -> None:
    """L16: no record says that anything of ours is on a node that was just drained."""
    name = machine.name
    on = [e.key for e in store.table("executors").values() if e.node == name and not e.is_over]
    on += [s.id for s in store.table("services").values() if s.node == name and s.state not in GONE]
    tasks: list[Task] = list(store.table("tasks").values())
    on += [task.key for task in tasks if task.node == name and task.state not in TASK_OVER]
    on += [g.id for g in store.table("tombstones").values() if g.node == name]
    moves: list[Migration] = list(store.table("migrations").values())
    on += [m.id for m in moves if not m.is_over and name in (m.source, m.target)]
    if on:
        raise LawBroken("L16", f"{name} was drained, and {on[0]} is there")
    for container in machine.containers.values():
        if container.is_alive and _has_record(store, container.labels):
            raise LawBroken("L16", f"{name} was drained, and {container.id} runs there")


def _has_record(store: SimStore, labels: Mapping[str, str]) -> bool:
    """Whether a container is ours by a record too: after a restore some are known to nobody."""
    executor = f"{labels.get(LABEL_JOB)}/{labels.get(LABEL_EXECUTOR)}"
    is_service = labels.get(LABEL_CONTAINER) in store.table("services")
    return is_service or executor in store.table("executors") or executor in store.table("tasks")
