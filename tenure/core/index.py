"""Keys of records by node, job and batch, so that no event costs a walk over the fleet."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenure.core.line import Key, Line
from tenure.model.batch import Task, TaskState


@dataclass(slots=True)
class Index:
    """Keys by node and by job, so that no event costs a walk over the fleet.

    ``line`` is the jobs that wait for a place, ``homeless`` those that run or start and may have
    executors without a node; ``unestimated`` of these are without an estimate, ``unknown``
    says where those that wait without one are in the line; ``removed`` are nodes that the
    configuration does not name any more; ``tasks`` those of batches by node, ``strands`` by
    batch and stage.
    """

    executors: dict[str, set[str]] = field(default_factory=dict)
    of_job: dict[str, set[str]] = field(default_factory=dict)
    services: dict[str, set[str]] = field(default_factory=dict)
    moves: set[str] = field(default_factory=set)
    move_of: dict[str, str] = field(default_factory=dict)
    graves: dict[str, set[str]] = field(default_factory=dict)
    graves_of: dict[str, set[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    moves_at: dict[str, set[str]] = field(default_factory=dict)
    open_jobs: set[str] = field(default_factory=set)
    job_names: dict[str, str] = field(default_factory=dict)
    line: Line = field(default_factory=Line)
    homeless: set[str] = field(default_factory=set)
    unestimated: set[str] = field(default_factory=set)
    unknown: dict[str, Key] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    open_runs: set[str] = field(default_factory=set)
    open_drains: set[str] = field(default_factory=set)
    unplaced: set[str] = field(default_factory=set)
    interval: dict[str, str] = field(default_factory=dict)
    stays: dict[str, set[str]] = field(default_factory=dict)
    tasks: dict[str, set[str]] = field(default_factory=dict)
    strands: dict[tuple[str, str], Strand] = field(default_factory=dict)
    open_batches: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Strand:
    """The tasks of one stage: those that wait for a node, and how many are not done."""

    pending: set[int] = field(default_factory=set)
    undone: int = 0

    def take(self, old: Task | None, task: Task) -> None:
        """Count a task anew (None: it was not counted before)."""
        was_undone = old is not None and old.state is not TaskState.DONE
        self.undone += (task.state is not TaskState.DONE) - was_undone
        if task.state is TaskState.PENDING:
            self.pending.add(task.index)
        else:
            self.pending.discard(task.index)


def shift(sets: dict[str, set[str]], old: str, new: str, key: str) -> None:
    """Move a key from the set of ``old`` to that of ``new`` ("": none)."""
    if old == new:
        return
    if old and old in sets:
        sets[old].discard(key)
    if new:
        sets.setdefault(new, set()).add(key)


@dataclass(frozen=True, slots=True)
class Look:
    """When a drain looks again: not before ``soonest_us``, by ``due_us`` if nothing happens there.

    ``calm`` counts looks in a row that found the same.
    """

    soonest_us: int
    due_us: int
    calm: int = 0
