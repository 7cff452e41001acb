"""What becomes of a queue, without simulating again what was simulated a moment ago.

``Lookahead`` remembers the last schedules of one fleet at one moment. A queue that begins like one
of them goes on from there, so a new job costs the simulation of what comes behind it, and a queue
asked for again costs nothing. While the head of the queue waits for room and none comes, a schedule
stays true as time passes, and is taken along (``moved_to``). The answer is the same as from the
beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tenure.model.placing import Bools, ClusterView, Forecast, Ints, Occupation, Queued
from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Ends, Fleet, ends_of, fleet_of
from tenure.placement.decisions.decide import MODES
from tenure.placement.kernels import Kernels
from tenure.placement.queue.plan import blank_jobs, write_job
from tenure.placement.queue.schedule import Line, Record, blank

#: Schedules remembered: the queue as it is, with the newcomer, and one tried for its deadline.
KEPT = 3
#: A mark at least every so many jobs, and about this many of them: they take memory by the node.
MIN_STRIDE, MARKS = 4, 32
MIN_POOL = 64


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """The forecasts of a queue; arrays (q,), ``mode`` 0 and ``end_us`` for ever mean never.

    A job without deadline is neither met nor late.
    """

    queue: tuple[Queued, ...]
    record: Record
    is_met: Bools
    is_late: Bools

    def at(self, position: int) -> Forecast | None:
        """Return the forecast of a job, None if it never fits."""
        plan = self.record.plan
        mode = int(plan.mode[position])
        if mode <= 0:
            return None
        start_us, end_us = int(plan.start_us[position]), int(plan.end_us[position])
        return Forecast(start_us, end_us, int(plan.cost_nano[position]), MODES[mode])

    def reservation(self, position: int, names: Sequence[str]) -> Reservation | None:
        """Return the place of a job on nodes ``names`` in this schedule, None if it never fits."""
        plan = self.record.plan
        mode = int(plan.mode[position])
        if mode <= 0:
            return None
        counts = plan.counts[position]
        used = tuple((names[j], int(counts[j])) for j in np.flatnonzero(counts).tolist())
        ask, end_us = self.queue[position].ask, int(plan.end_us[position])
        is_late = ask.deadline_us is not None and not self.is_met[position]
        return Reservation(
            ask.id, int(plan.placed_us[position]), end_us, MODES[mode], used, is_late
        )


class Pool:
    """The jobs of queues as arrays: each is written once, as long as it is asked about."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self._slots: dict[int, int] = {}
        self._kept: list[Queued] = []
        self.jobs = blank_jobs(MIN_POOL, nodes)

    def order(self, queue: Sequence[Queued], codes: dict[str, int]) -> Ints:
        """Return where the jobs of ``queue`` are in ``jobs``; ``codes`` number the policies."""
        if len(self._kept) > 2 * len(queue) + MIN_POOL:
            self._slots, self._kept = {}, []
        slots = self._slots
        for queued in queue:
            if id(queued) not in slots:
                self._write(queued, codes[queued.policy])
        return np.array([slots[id(queued)] for queued in queue], dtype=np.int64)

    def _write(self, queued: Queued, code: int) -> None:
        slot = len(self._kept)
        if slot == self.jobs.policy.shape[0]:
            larger = blank_jobs(2 * slot, self.nodes)
            for column, known in zip(larger, self.jobs, strict=True):
                column[:slot] = known
            self.jobs = larger
        write_job(self.jobs, slot, queued.ask, code)
        self._slots[id(queued)] = slot
        self._kept.append(queued)  # kept alive, so that no other object gets its id


class Moment(NamedTuple):
    """What a schedule depends on beside the queue; compared by identity."""

    kernels: Kernels
    view: ClusterView
    running: Occupation
    now_us: int


class Lookahead:
    """Schedules of queues at one ``moment``; ``codes`` are the numbers of the policies' names."""

    def __init__(self, moment: Moment, codes: dict[str, int], pool: Pool) -> None:
        self._moment = moment
        self._codes = codes
        self._pool = pool
        self._fleet: Fleet = fleet_of(moment.view)
        self._ends: Ends = ends_of(moment.running, moment.now_us)
        self._known: list[Outlook] = []

    def is_of(self, moment: Moment) -> bool:
        """Whether it was made for this very moment."""
        mine = self._moment
        is_same = mine.view is moment.view and mine.running is moment.running
        return is_same and mine.kernels is moment.kernels and mine.now_us == moment.now_us

    def moved_to(self, moment: Moment) -> Lookahead:
        """Return one for a later moment, with those schedules that are the same from there.

        A schedule is if the fleet is as it was and nothing in it happens before: its first job has
        no room yet, and no executor ends by then. So every mark but the first, from which nothing
        goes on, is of a time to come.
        """
        later = Lookahead(moment, self._codes, self._pool)
        if self._is_still(later):
            later._known = [known for known in self._known if self._is_blocked(known)]
        return later

    def _is_still(self, later: Lookahead) -> bool:
        """Whether nothing but time passed; an end that time has passed by is told as another."""
        mine, its = self._moment, later._moment
        passed_us = its.now_us - mine.now_us
        if passed_us < 0 or mine.kernels is not its.kernels:
            return False
        left_us = self._fleet.remaining_us
        left_us = np.where(left_us < FOREVER_US, np.maximum(left_us - passed_us, 0), FOREVER_US)
        was, now = self._fleet._replace(remaining_us=left_us), later._fleet
        pairs = zip((*was, *self._ends), (*now, *later._ends), strict=True)
        return all(np.array_equal(before, after) for before, after in pairs)

    def _is_blocked(self, known: Outlook) -> bool:
        """Whether the first job of a schedule fits the fleet, but not what is free of it.

        Fewer free slots than executors keep it waiting under every policy, until an executor ends.
        """
        if not known.queue or known.record.plan.mode[0] <= 0:
            return False
        ask, fleet = known.queue[0].ask, self._fleet
        room = np.where(ask.eligible, ask.executors, 0)
        if ask.cpu_m > 0:
            room = np.minimum(room, fleet.free_cpu_m // ask.cpu_m)
        if ask.memory_bytes > 0:
            room = np.minimum(room, fleet.free_memory // ask.memory_bytes)
        return int(room.sum()) < ask.executors

    def outlook(self, queue: Sequence[Queued]) -> Outlook:
        """Return the schedule of ``queue``; its last use makes it the last to be forgotten."""
        best, shared = None, 0
        for known in self._known:
            length = _shared(known.queue, queue)
            if length == len(queue) == len(known.queue):
                self._remember(known)
                return known
            if length > shared:
                best, shared = known, length
        if best is not None:
            self._remember(best)
        fresh = self._from(best, shared, tuple(queue))
        self._remember(fresh)
        return fresh

    def _remember(self, outlook: Outlook) -> None:
        self._known = [outlook, *(one for one in self._known if one is not outlook)][:KEPT]

    def _from(self, base: Outlook | None, shared: int, queue: tuple[Queued, ...]) -> Outlook:
        order = self._pool.order(queue, self._codes)
        stride = _stride(len(queue))
        record = blank(len(queue), self._pool.nodes, stride)
        mark = 0
        if base is not None and _stride(len(base.queue)) == stride:
            mark = min(shared, len(queue) - 1, len(base.queue) - 1) // stride
            _copy(base.record, record, mark, stride)
        span = (self._moment.now_us, mark, stride)
        line = Line(self._pool.jobs, order)
        self._moment.kernels.resume(self._fleet, self._ends, line, record, span)
        plan, deadline_us = record.plan, self._pool.jobs.deadline_us[order]
        is_bound = deadline_us < FOREVER_US
        is_met = (plan.mode > 0) & is_bound & (plan.end_us < deadline_us)
        return Outlook(queue, record, is_met, is_bound & ~is_met)


def _copy(base: Record, record: Record, mark: int, stride: int) -> None:
    """Take over what came before mark number ``mark``, and that mark."""
    head, upto = mark * stride, mark + 1
    for column, known in zip(record.plan, base.plan, strict=True):
        column[:head] = known[:head]
    for rows, past in zip(record.marks[:-1], base.marks[:-1], strict=True):
        rows[:upto] = past[:upto]
    record.marks.pending_us[:upto, :head] = base.marks.pending_us[:upto, :head]


def _shared(one: Sequence[Queued], other: Sequence[Queued]) -> int:
    """Return how many jobs two queues have in common before they part."""
    for length, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine is not its:
            return length
    return min(len(one), len(other))


def _stride(jobs: int) -> int:
    """Return the stride of the marks: a power of two, so that queues of like length share it."""
    return max(MIN_STRIDE, 1 << max(0, jobs // MARKS).bit_length())
