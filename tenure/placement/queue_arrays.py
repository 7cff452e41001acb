"""The queue of a planner as arrays: the waiting jobs with their places, kept from plan to plan.

A job gets a slot when it is first seen as it is (its record is another object whenever anything of
it has changed), so that a queue of a hundred is not written anew for each that comes; once the
slots are used up all begins anew. Kernels work on copies of what they change: what is here is what
the records say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tenure.model.placing import Bools, Planned, Rotation, Situation
from tenure.model.reservation import Reservation
from tenure.placement.arrays import Fleet, Jobs, ends_of, fleet_of
from tenure.placement.decisions.decide import MODES
from tenure.placement.planning.repair import Ground
from tenure.placement.planning.timeline import Timeline, blank_line
from tenure.placement.queue.plan import (
    UNSEEN,
    Bounds,
    Plan,
    blank_jobs,
    blank_plan,
    columns_of,
    with_fleet,
    write_job,
)

#: Slots beyond twice the queue, and rows of nodes for each: a job needs as many as executors.
SPARE_SLOTS, SPARE_ROWS = 64, 8
_CODES = {mode: code for code, mode in MODES.items()}


class QueueArrays:
    """The jobs of a queue over the nodes ``names``; ``code_of`` numbers their policies."""

    def __init__(self, names: tuple[str, ...], code_of: Callable[[str], int]) -> None:
        self.names = names
        self._code_of = code_of
        self._position = {name: j for j, name in enumerate(names)}
        self._key, self._weighed = b"", blank_plan(0, 0)
        self._open(0, 0)

    def _open(self, slots: int, rows: int) -> None:
        """Forget all jobs, and have room for so many, on so many nodes in all."""
        self.jobs: Jobs = blank_jobs(slots, len(self.names))
        self._plan: Plan = blank_plan(slots, rows)
        self._slots: dict[int, int] = {}
        self._kept: list[Planned] = []
        self._rows = 0

    def has_room_for(self, one: Planned) -> bool:
        """Return whether one job more gets a slot without all others losing theirs."""
        slots, rows = self._plan.used.shape[0], self._plan.node.shape[0]
        return bool(len(self._kept) < slots and self._rows + self._width(one) <= rows)

    def seat(self, queue: Sequence[Planned]) -> list[int]:
        """Return the slots (q,) of jobs in ``jobs`` and in plans."""
        fresh = [one for one in queue if id(one) not in self._slots]
        more = sum(map(self._width, fresh))
        slots, rows = self._plan.used.shape[0], self._plan.node.shape[0]
        if len(self._kept) + len(fresh) > slots or self._rows + more > rows:
            fresh, spare = list(queue), len(queue) + SPARE_SLOTS
            width = sum(map(self._width, fresh))
            each = max(SPARE_ROWS, -(-width // max(len(fresh), 1)))
            self._open(len(fresh) + spare, width + spare * each)
        for one in fresh:
            self._write(one)
        known = self._slots
        return [known[id(one)] for one in queue]

    def _width(self, one: Planned) -> int:
        return min(one.queued.ask.executors, len(self.names))

    def _write(self, one: Planned) -> None:
        plan, slot = self._plan, len(self._kept)
        self._slots[id(one)] = slot
        self._kept.append(one)  # kept alive, so that no other object gets its id
        plan.first[slot] = self._rows
        self._rows += self._width(one)
        write_job(self.jobs, slot, one.queued.ask, self._code_of(one.queued.policy))
        plan.rank[slot], plan.since_us[slot] = one.rank, one.since_us
        plan.guard_us[slot] = one.guard_us
        self._book(slot, one.reservation)

    def _book(self, slot: int, reservation: Reservation | None) -> None:
        """Take over a reservation; one on a node that is not there is none."""
        plan, position = self._plan, self._position
        if reservation is None or any(name not in position for name, _ in reservation.counts):
            plan.start_us[slot], plan.end_us[slot], plan.mode[slot] = UNSEEN, UNSEEN, 0
            plan.is_late[slot], plan.used[slot] = False, 0
            return
        plan.start_us[slot], plan.end_us[slot] = reservation.start_us, reservation.end_us
        plan.mode[slot], plan.is_late[slot] = _CODES[reservation.mode], reservation.is_late
        first = int(plan.first[slot])
        for row, (name, count) in enumerate(reservation.counts, start=first):
            plan.node[row], plan.executors[row] = position[name], count
        plan.used[slot] = len(reservation.counts)

    def ground(self, site: Situation) -> Ground:
        """Return the fleet as plans see it."""
        fleet, now_us = fleet_of(site.view), site.now_us
        off_us, ready_us = now_us + fleet.remaining_us, now_us + fleet.boot_us
        return Ground(fleet, off_us, ready_us, ends_of(site.running, now_us), now_us)

    def plan(self, fleet: Fleet, patience: float, bounds: Bounds, rotation: Rotation) -> Plan:
        """Return a plan to work on, in which everybody has the place that he has."""
        own = with_own_places(self._plan)._replace(
            patience=float(patience),
            **bounds._asdict(),
            rotation=np.array(rotation, dtype=np.int64),
        )
        key = b"".join(column.tobytes() for column in columns_of(fleet))
        if key != self._key:
            self._key, self._weighed = key, with_fleet(own, fleet)
        known = self._weighed
        return own._replace(core_weight=known.core_weight, weight=known.weight, kind=known.kind)

    def room(self, ground: Ground) -> Timeline:
        """Return a blank timeline for all who have a slot or may get one.

        A place on a node adds two steps at most.
        """
        nodes, places = len(self.names), self._plan.node.shape[0]
        return blank_line(nodes, nodes + ground.ends.end_us.shape[0] + 2 * places)

    def has_moved(self, plan: Plan, before: Plan | None = None) -> Bools:
        """Return which slots (s,) have another place in ``plan`` than ``before``.

        None: than here.
        """
        mine = self._plan if before is None else before
        moved: Bools = mine.start_us != plan.start_us
        for name in ("end_us", "mode", "is_late", "used"):
            moved |= getattr(mine, name) != getattr(plan, name)
        rows = np.flatnonzero((mine.node != plan.node) | (mine.executors != plan.executors))
        moved[np.searchsorted(mine.first[: len(self._kept)], rows, side="right") - 1] = True
        return moved


def with_own_places(plan: Plan) -> Plan:
    """Return a plan with copies of what says where jobs are; the rest is the same arrays."""
    return plan._replace(
        start_us=plan.start_us.copy(),
        end_us=plan.end_us.copy(),
        mode=plan.mode.copy(),
        is_late=plan.is_late.copy(),
        soon_us=plan.soon_us.copy(),
        used=plan.used.copy(),
        node=plan.node.copy(),
        executors=plan.executors.copy(),
    )
