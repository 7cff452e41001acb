"""Keys of records by node, job and batch, so that no event costs a walk over the fleet.

Owned by ``Context``: who stores a record has it indexed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from tenure.core.state.queue_order import Key, WaitingJobs
from tenure.model.batch import TASK_OVER, Task, TaskState
from tenure.model.container import Migration, Step, Tombstone
from tenure.model.node import Node


@dataclass(slots=True)
class Index:
    """Keys by node and by job, so that no event costs a walk over the fleet.

    ``moves`` are those that are not over, ``begun`` those of them that are under way;
    ``waiting_jobs`` are those that wait for a place, ``homeless`` those that run or start and may
    have executors without a node; ``unestimated`` of these are without an estimate, ``unknown``
    says where those that wait without one are in the line; ``removed`` are nodes that the
    configuration does not name any more; ``tasks`` those of batches by node, ``tasks_by_stage`` by
    batch and stage; ``tombstoned`` the tombstones that may run, by the job, batch or container that
    owns them; ``unsized`` are nodes of which nobody knows yet what they have; ``remains`` is how
    many tasks are left to be dropped of batches that are forgotten.
    """

    executors: dict[str, set[str]] = field(default_factory=dict)
    of_job: dict[str, set[str]] = field(default_factory=dict)
    services: dict[str, set[str]] = field(default_factory=dict)
    moves: set[str] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)
    move_of: dict[str, str] = field(default_factory=dict)
    tombstones: dict[str, set[str]] = field(default_factory=dict)
    tombstones_of: dict[str, set[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    moves_at: dict[str, set[str]] = field(default_factory=dict)
    open_jobs: set[str] = field(default_factory=set)
    job_names: dict[str, str] = field(default_factory=dict)
    waiting_jobs: WaitingJobs = field(default_factory=WaitingJobs)
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
    tasks_by_stage: dict[tuple[str, str], StageTasks] = field(default_factory=dict)
    open_batches: set[str] = field(default_factory=set)
    tombstoned: dict[str, set[str]] = field(default_factory=dict)
    unsized: set[str] = field(default_factory=set)
    remains: dict[str, int] = field(default_factory=dict)

    def take_node(self, node: Node) -> None:
        """Take in a node, new or changed."""
        for among, is_in in ((self.removed, node.is_removed), (self.unsized, not node.is_sized)):
            if is_in:
                among.add(node.name)
            else:
                among.discard(node.name)

    def drop_node(self, node: Node) -> None:
        """Forget a node."""
        self.removed.discard(node.name)
        self.unsized.discard(node.name)

    def take_move(self, move: Migration) -> None:
        """Take in a move that is not over."""
        self.moves.add(move.id)
        self.move_of[move.container] = move.id
        for node in (move.source, move.target):
            self.moves_at.setdefault(node, set()).add(move.id)
        if move.step is not Step.QUEUED:
            self.begun.add(move.id)

    def drop_move(self, move: Migration) -> None:
        """Forget a move that is over."""
        self.moves.discard(move.id)
        self.begun.discard(move.id)
        self.move_of.pop(move.container, None)
        for node in (move.source, move.target):
            self.moves_at.get(node, set()).discard(move.id)

    def condemn(self, tombstone: Tombstone) -> None:
        """Take in a tombstone."""
        self.tombstones.setdefault(tombstone.node, set()).add(tombstone.id)
        self.tombstones_of.setdefault(tombstone.owner, set()).add(tombstone.id)
        if tombstone.may_run:
            self.tombstoned.setdefault(tombstone.owner.partition("/")[0], set()).add(tombstone.id)
        else:
            self._calm(tombstone)

    def clear(self, tombstone: Tombstone) -> None:
        """Forget a tombstone."""
        self.tombstones.get(tombstone.node, set()).discard(tombstone.id)
        owned = self.tombstones_of.get(tombstone.owner, set())
        owned.discard(tombstone.id)
        if not owned:
            self.tombstones_of.pop(tombstone.owner, None)
        self._calm(tombstone)

    def _calm(self, tombstone: Tombstone) -> None:
        owner = tombstone.owner.partition("/")[0]
        tombstoned = self.tombstoned.get(owner, set())
        tombstoned.discard(tombstone.id)
        if not tombstoned:
            self.tombstoned.pop(owner, None)


@dataclass(slots=True)
class StageTasks:
    """The tasks of one stage: those that wait for a node, and how many are not done, or are.

    ``put_out`` are the bytes that those which are done put out.

    ``again`` are those of ``pending`` that were tried before, and ``tried`` their order: those that
    had to leave a node first, then by index. ``held`` are those that may not begin yet, with their
    places in that order, as far as somebody found them so: they are left out of it until they are
    released. ``shunned`` are those of ``again`` by the node that they had to leave. ``open`` are
    those that are not over. What was never tried is taken in the order of its index, and never
    comes back as such: none stands before ``first``, nor from ``end`` on.
    """

    pending: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    tried: list[tuple[bool, int]] = field(default_factory=list)
    held: dict[int, tuple[bool, int]] = field(default_factory=dict)
    shunned: dict[str, set[int]] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)
    undone: int = 0
    done: int = 0
    put_out: int = 0
    first: int = 1 << 62
    end: int = 0

    def take(self, old: Task | None, task: Task) -> None:
        """Count a task anew (None: it was not counted before)."""
        was_undone = old is not None and old.state is not TaskState.DONE
        self.undone += (task.state is not TaskState.DONE) - was_undone
        for one, sign in ((old, -1), (task, 1)):
            if one is not None and one.state is TaskState.DONE:
                self.done += sign
                self.put_out += sign * one.output_bytes
        if old is None:
            self.first, self.end = min(self.first, task.index), max(self.end, task.index + 1)
        if old is not None and old.index in self.again:
            self._leave(old)
        if task.state is TaskState.PENDING and task.attempt > 1:
            insort(self.tried, _turn(task))
            if task.shunned:
                self.shunned.setdefault(task.shunned, set()).add(task.index)
        for among, is_in in (
            (self.pending, task.state is TaskState.PENDING),
            (self.again, task.state is TaskState.PENDING and task.attempt > 1),
            (self.open, task.state not in TASK_OVER),
        ):
            if is_in:
                among.add(task.index)
            else:
                among.discard(task.index)

    def _leave(self, old: Task) -> None:
        """Take out one that was tried before."""
        if self.held.pop(old.index, None) is None:
            del self.tried[bisect_left(self.tried, _turn(old))]
        if old.shunned:
            self.shunned[old.shunned].discard(old.index)
            if not self.shunned[old.shunned]:
                del self.shunned[old.shunned]

    def hold(self, task: Task) -> None:
        """Leave one that was tried before out of those that wait until it is released."""
        if task.index in self.again and task.index not in self.held:
            del self.tried[bisect_left(self.tried, _turn(task))]
            self.held[task.index] = _turn(task)

    def release(self, index: int) -> None:
        """Count one among those that wait again, if it was held back."""
        turn = self.held.pop(index, None)
        if turn is not None:
            insort(self.tried, turn)

    def waiting(self) -> Iterator[int]:
        """Yield those that wait for a node: those that were tried before, then others by index.

        So that a few of ten thousand cost no walk over all. It may be left at any point.
        """
        yield from self.retried()
        yield from self.fresh()

    def retried(self) -> Iterator[int]:
        """Yield those that were tried before, in their order; what is placed is left out.

        It is kept, so that the first of ten thousand cost no sorting of all.
        """
        last = (False, -1)
        while (place := bisect_right(self.tried, last)) < len(self.tried):
            last = self.tried[place]
            yield last[1]

    def fresh(self) -> Iterator[int]:
        """Yield those that were never tried, by index; what is placed meanwhile is left out."""
        index = self.first
        while index < self.end:
            if index in self.pending and index not in self.again:
                yield index
            elif index == self.first:
                self.first += 1
            index += 1


def _turn(task: Task) -> tuple[bool, int]:
    """Return the place of a task among those that were tried before."""
    return not task.shunned, task.index


def shift(sets: dict[str, set[str]], old: str, new: str, key: str) -> None:
    """Move a key from the set of ``old`` to that of ``new`` ("": none)."""
    if old == new:
        return
    if old and old in sets:
        sets[old].discard(key)
    if new:
        sets.setdefault(new, set()).add(key)
