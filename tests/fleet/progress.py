"""L3: records only move forward along their tables; L1: a job is never forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from tenure.core.services.migration.steps import FORWARD
from tenure.model.container import STEP_OVER, ContainerState, Migration, Service, Step
from tenure.model.drain import DRAIN_TRANSITIONS, Drain
from tenure.model.job import EXECUTOR_TRANSITIONS, JOB_TRANSITIONS, Executor, Job
from tenure.model.ledger import Interval
from tenure.model.plan import RUN_TRANSITIONS, Run
from tests.fleet import lent
from tests.fleet.story import LawBroken

W = TypeVar("W", bound=StrEnum)


def _closure(table: Mapping[W, tuple[W, ...]]) -> dict[W, set[W]]:
    """Return what can be reached from each word, itself included."""
    reach = {word: {word} for word in table}
    for _ in table:
        for word, following in table.items():
            reach[word] |= {word}.union(*(reach[other] for other in following))
    return reach


#: What may follow a step besides its own successor: a way back before the commit.
_BEFORE_COMMIT = (
    *(Step.PREPARE, Step.CREATE, Step.DISARM, Step.CHECKPOINT, Step.STOP),
    *(Step.CARRY, Step.TRANSFER, Step.START, Step.VERIFY),
)


def _steps(method: str) -> dict[Step, tuple[Step, ...]]:
    table: dict[Step, tuple[Step, ...]] = {step: () for step in Step}
    for step, following in FORWARD[method].items():
        table[step] = (following,)
    if method == "live":  # refused by the source, it goes on as a snapshot
        table[Step.CHECKPOINT] = (*table[Step.CHECKPOINT], Step.STOP)
        table[Step.STOP] = (FORWARD["snapshot"][Step.STOP],)
    for step in _BEFORE_COMMIT:
        table[step] = (*table[step], Step.UNDO_TARGET)
    table[Step.QUEUED] = (*table[Step.QUEUED], Step.REFUSED)
    table[Step.UNDO_TARGET] = (Step.UNDO_SOURCE, Step.UNDO_ARM, Step.ROLLED_BACK)
    table[Step.UNDO_SOURCE] = (Step.UNDO_ARM, Step.ROLLED_BACK)
    return table


JOBS = _closure(JOB_TRANSITIONS)
EXECUTORS = _closure(EXECUTOR_TRANSITIONS)
RUNS = _closure(RUN_TRANSITIONS)
DRAINS = _closure(DRAIN_TRANSITIONS)
STEPS = {method: _closure(_steps(method)) for method in FORWARD}


def _job(old: Job | None, new: Job | None) -> None:
    if old is None:
        return
    if new is None:
        raise LawBroken("L1", f"job {old.id} is forgotten")
    if new.state not in JOBS[old.state]:
        raise LawBroken("L3", f"job {old.id}: {old.state} -> {new.state}")
    if old.is_over and (new.exit_code, new.finished_us) != (old.exit_code, old.finished_us):
        raise LawBroken("L3", f"job {old.id} ends a second time")


def _executor(old: Executor | None, new: Executor | None) -> None:
    if old is None or new is None:
        return
    if new.attempt < old.attempt:
        raise LawBroken("L3", f"executor {old.key}: attempt {old.attempt} -> {new.attempt}")
    if new.attempt == old.attempt and new.state not in EXECUTORS[old.state]:
        raise LawBroken("L3", f"executor {old.key}: {old.state} -> {new.state}")


def _service(old: Service | None, new: Service | None) -> None:
    if old is None or new is None:
        return
    if new.state is ContainerState.REMOVED and not new.is_removing:
        raise LawBroken("L1", f"container {old.id} was not to be removed, and is")
    restored_service(old, new)


def restored_service(old: Service | None, new: Service | None) -> None:
    """L3 after a restore: removals that were forgotten still happen."""
    if old is None or new is None:
        return
    if old.state is ContainerState.REMOVED and new.state is not ContainerState.REMOVED:
        raise LawBroken("L3", f"container {old.id} comes back from removal")
    if new.incarnation < old.incarnation:
        raise LawBroken("L3", f"container {old.id}: incarnation goes back")


def _migration(old: Migration | None, new: Migration | None) -> None:
    if old is None or new is None:
        return
    # the method is chosen anew when a move begins
    method = new.method if old.step is Step.QUEUED else old.method
    if new.step not in STEPS[method][old.step]:
        raise LawBroken("L3", f"migration {old.id}: {old.step} -> {new.step}")
    if old.step in STEP_OVER and new != old:
        raise LawBroken("L3", f"migration {old.id} changes after its end")


def _run(old: Run | None, new: Run | None) -> None:
    if old is not None and new is not None and new.state not in RUNS[old.state]:
        raise LawBroken("L3", f"run {old.id}: {old.state} -> {new.state}")


def _drain(old: Drain | None, new: Drain | None) -> None:
    if old is None or new is None:
        return
    if new.began_us < old.began_us:
        raise LawBroken("L3", f"drain {old.id} gives way to an older one")
    is_same = new.id == old.id
    if is_same and (new.state not in DRAINS[old.state] or new.moved < old.moved):
        raise LawBroken("L3", f"drain {old.id}: {old.state} -> {new.state}")
    if not is_same and not old.is_over:
        raise LawBroken("L3", f"drain {old.id} is lost for {new.id}")


def _interval(old: Interval | None, new: Interval | None) -> None:
    if old is not None and old.off_us is not None and new is not None and new != old:
        raise LawBroken("L3", f"interval {old.id} changes after it was closed")


CHECKS: dict[str, Callable[[Any, Any], None]] = {
    "jobs": _job,
    "executors": _executor,
    "services": _service,
    "migrations": _migration,
    "runs": _run,
    "intervals": _interval,
    "drains": _drain,
    "batches": lent.forward_batch,
    "tasks": lent.forward_task,
}
