"""The plan of a queue as the daemon keeps it: records in, kernels, records out.

Between two calls the plan is nothing but reservations, so that it can be stored and shown; what is
in memory only spares work. Places are found by ``repair.renew``, which does for every job that
comes what the simulator's ``rolling.arrive`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tenure.model.placing import (
    Admitted,
    Forecast,
    Planned,
    QueuePlan,
    RefusedJob,
    Rotation,
    Situation,
)
from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US
from tenure.placement.decisions.decide import HYBRID, LOCAL, MODES
from tenure.placement.kernels import Renew
from tenure.placement.planning.repair import NOBODY, Turnout
from tenure.placement.queue.plan import Bounds, Plan
from tenure.placement.queue_arrays import QueueArrays, with_own_places

#: Compiled, and plain, where each start of each job takes some hundred times longer.
COMPILED_BOUNDS, PLAIN_BOUNDS = Bounds(256, 48, 8), Bounds(12, 6, 1)
#: A deadline that nobody misses, by which the earliest possible one is looked for.
FAR_US = 10 * 365 * 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Tools:
    """What planning needs beside the fleet: the kernel, the queue as arrays, the parameters."""

    renew: Renew
    queue_arrays: QueueArrays
    patience: float
    bounds: Bounds


def plan_queue(
    tools: Tools,
    site: Situation,
    queue: Sequence[Planned],
    rotation: Rotation,
    *,
    is_early: bool,
) -> QueuePlan:
    """Return the plan of ``queue`` (in queue order) brought up to date.

    Jobs keep their places as far as they can (``repair``); those without one get one, in the order
    of the queue. Where ``rotation`` says that it is time, some are put where they are best now;
    ``is_early`` has all be, a few at a time, for there is room that nobody counted on.
    """
    draft = Draft(tools, site, queue, rotation)
    draft.renew(is_early=is_early)
    return draft.queue_plan()


def admit(  # noqa: PLR0913 - what is planned with, on what, and who comes where
    tools: Tools,
    site: Situation,
    queue: Sequence[Planned],
    new: Planned,
    rotation: Rotation,
    *,
    position: int | None = None,
) -> Admitted | RefusedJob:
    """Return the promise for ``new``, with the plan that holds it, or why there is none.

    Nobody else is put off beyond his guard by it. ``position`` is where in the queue the job comes
    to stand, None for its end. A refusal says whether the job would be in time if nobody else
    waited, and names the earliest deadline found that would be admitted: each was tried.
    """
    draft = Draft(tools, site, [*queue, new], rotation)
    admitted = draft.promise(len(queue) if position is None else position)
    if admitted is not None:
        return admitted
    if draft.forecast() is None:
        return RefusedJob("never_fits")
    return _refusal(tools, site, queue, new, rotation)


def _refusal(
    tools: Tools, site: Situation, queue: Sequence[Planned], new: Planned, rotation: Rotation
) -> RefusedJob:
    """Return why a job that fits would be late."""
    hurried = replace(tools, patience=0.0)
    alone = _with(hurried, site, (), new, rotation).forecast()
    is_others = alone is not None and _is_in_time(new, alone)
    reason = "would_delay_others" if is_others else "deadline_unmeetable"
    for far_us in (site.now_us + FAR_US, None):
        soon = _with(hurried, site, queue, _due(new, far_us), rotation).forecast()
        if soon is None:
            continue
        earliest_us = soon.end_us + 1
        kept = _with(tools, site, queue, _due(new, earliest_us), rotation).forecast()
        if kept is not None and kept.end_us < earliest_us:
            return RefusedJob(reason, kept, earliest_us)
    return RefusedJob(reason)


def at_once(tools: Tools, site: Situation, queue: Sequence[Planned], job: str) -> Forecast | None:
    """Return what a waiting job would be promised if it were to end as early as it can.

    The others keep their places. None if it fits nowhere.
    """
    others = [one for one in queue if one.queued.ask.id != job]
    (mine,) = (one for one in queue if one.queued.ask.id == job)
    hurried = replace(tools, patience=0.0)
    return _with(hurried, site, others, replace(mine, reservation=None), Rotation()).forecast()


def _is_in_time(one: Planned, cast: Forecast) -> bool:
    deadline_us = one.queued.ask.deadline_us
    return deadline_us is None or cast.end_us < deadline_us


def _due(new: Planned, deadline_us: int | None) -> Planned:
    ask = replace(new.queued.ask, deadline_us=deadline_us)
    guard_us = FOREVER_US if deadline_us is None else deadline_us
    return replace(new, queued=replace(new.queued, ask=ask), guard_us=guard_us)


def _with(
    tools: Tools, site: Situation, queue: Sequence[Planned], new: Planned, rotation: Rotation
) -> Draft:
    """Return the plan of a queue with one job more, which is the last."""
    draft = Draft(tools, site, [*queue, new], rotation)
    draft.renew(is_asked=True)
    return draft


class Draft:
    """A plan as arrays of its own, made of reservations: ``model.placing.Look``.

    Jobs may be put into it one after another. Each gets the place that it would get in a draft made
    of the reservations that the one before left, at the same moment (unless this one would find
    that a boot is not needed any more).
    """

    def __init__(
        self, tools: Tools, site: Situation, queue: Sequence[Planned], rotation: Rotation
    ) -> None:
        self._tools, self._queue, queue_arrays = tools, list(queue), tools.queue_arrays
        self._slots, self._jobs = queue_arrays.seat(queue), queue_arrays.jobs
        self._ground = queue_arrays.ground(site)
        self._plan = queue_arrays.plan(self._ground.fleet, tools.patience, tools.bounds, rotation)
        self._room = queue_arrays.room(self._ground)
        self._told: Plan | None = None
        self._is_open, self._position, self._cost_nano = False, 0, 0

    def renew(self, *, is_asked: bool = False, is_early: bool = False) -> None:
        """Bring the plan up to date; ``is_asked``: the forecast of the last of the queue is."""
        asked, line = self._slots[-1] if is_asked else NOBODY, np.array(self._slots, dtype=np.int64)
        turnout = Turnout(line, asked, is_early, self._is_open)
        kernel, self._is_open = self._tools.renew, True
        self._cost_nano = int(kernel(self._ground, self._jobs, self._plan, turnout, self._room))

    def promise(self, position: int) -> Admitted | None:
        """Return what the last of the queue is promised, None if it would be late or never fits.

        ``position`` is where in the queue it is to stand once others come.
        """
        self._position = position
        self.renew(is_asked=True)
        cast = self.forecast()
        if cast is None or not _is_in_time(self._queue[-1], cast):
            return None
        queue_plan, self._told = self.queue_plan(), with_own_places(self._plan)
        return Admitted(cast, queue_plan, self)

    def admit(self, new: Planned, position: int) -> Admitted | None:
        """Return the promise for a job more; see ``model.placing.Look``."""
        queue_arrays = self._tools.queue_arrays
        if queue_arrays.jobs is not self._jobs or not queue_arrays.has_room_for(new):
            return None
        self._queue.insert(self._position, self._queue.pop())
        self._slots.insert(self._position, self._slots.pop())
        self._queue.append(new)
        self._slots += queue_arrays.seat([new])
        return self.promise(position)

    def forecast(self) -> Forecast | None:
        """Return what is foreseen of the last of the queue, None if it fits nowhere."""
        plan, k = self._plan, self._slots[-1]
        mode = int(plan.mode[k])
        if mode == 0:
            return None
        jobs, end_us = self._tools.queue_arrays.jobs, int(plan.end_us[k])
        run_us = jobs.local_us[k] if mode == LOCAL else jobs.hybrid_us[k]
        return Forecast(end_us - int(run_us), end_us, self._cost_nano, MODES[mode])

    def queue_plan(self) -> QueuePlan:
        """Return the plan as records; who has kept his place has the reservation that he had.

        Once a promise was told of it: only who has moved since then.
        """
        plan, told = self._plan, self._told
        moved = np.flatnonzero(self._tools.queue_arrays.has_moved(plan, told)[self._slots]).tolist()
        fresh = {k: self._reservation(self._queue[k], self._slots[k]) for k in moved}
        if told is None:
            places = [fresh.get(k, one.reservation) for k, one in enumerate(self._queue)]
        elif None in fresh.values():
            self._told = None  # who lost his place is told of by a whole plan only
            return self.queue_plan()
        else:
            places = list(fresh.values())
        reservations = {
            reservation.job: reservation for reservation in places if reservation is not None
        }
        return QueuePlan(reservations, Rotation(*plan.rotation.tolist()), is_whole=told is None)

    def _reservation(self, one: Planned, slot: int) -> Reservation | None:
        plan, names = self._plan, self._tools.queue_arrays.names
        mode, first = int(plan.mode[slot]), int(plan.first[slot])
        if mode not in {LOCAL, HYBRID}:
            return None
        rows = slice(first, first + int(plan.used[slot]))
        pairs = zip(plan.node[rows].tolist(), plan.executors[rows].tolist(), strict=True)
        return Reservation(
            one.queued.ask.id,
            int(plan.start_us[slot]),
            int(plan.end_us[slot]),
            MODES[mode],
            tuple((names[j], count) for j, count in pairs),
            bool(plan.is_late[slot]),
        )
