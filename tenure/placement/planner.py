"""The plan of a queue as the daemon keeps it: records in, kernels, records out.

Between two calls the plan is nothing but bookings, so that it can be stored and shown; what is in
memory only spares work. Places are found by ``upkeep.renew``, which does for every job that comes
what the simulator's ``rolling.arrive`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tenure.model.booking import Booking
from tenure.model.placing import (
    Admitted,
    Agenda,
    Forecast,
    Planned,
    RefusedJob,
    Rotation,
    Situation,
)
from tenure.model.units import FOREVER_US
from tenure.placement.decide import HYBRID, LOCAL, MODES
from tenure.placement.desk import Desk
from tenure.placement.kernels import Renew
from tenure.placement.plan import Bounds
from tenure.placement.upkeep import NOBODY, Turnout

#: Compiled, and plain, where each start of each job takes some hundred times longer.
COMPILED_BOUNDS, PLAIN_BOUNDS = Bounds(256, 48, 8), Bounds(12, 6, 1)
#: A deadline that nobody misses, by which the earliest possible one is looked for.
FAR_US = 10 * 365 * 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class Tools:
    """What planning needs beside the fleet: the kernel, the queue as arrays, the parameters."""

    renew: Renew
    desk: Desk
    patience: float
    bounds: Bounds


def plan_queue(
    tools: Tools,
    site: Situation,
    queue: Sequence[Planned],
    rotation: Rotation,
    *,
    is_early: bool,
) -> Agenda:
    """Return the plan of ``queue`` (in queue order) brought up to date.

    Jobs keep their places as far as they can (``upkeep``); those without one get one, in the order
    of the queue. Where ``rotation`` says that it is time, some are put where they are best now;
    ``is_early`` has all be, a few at a time, for there is room that nobody counted on.
    """
    draft = Draft(tools, site, queue, rotation)
    draft.renew(is_early=is_early)
    return draft.agenda()


def admit(
    tools: Tools, site: Situation, queue: Sequence[Planned], new: Planned, rotation: Rotation
) -> Admitted | RefusedJob:
    """Return the promise for ``new``, with the plan that holds it, or why there is none.

    Nobody else is put off beyond his guard by it. A refusal says whether the job would be in time
    if nobody else waited, and names the earliest deadline found that would be admitted: each was
    tried.
    """
    draft = _with(tools, site, queue, new, rotation)
    deadline_us = new.queued.ask.deadline_us
    cast = draft.forecast()
    if cast is None:
        return RefusedJob("never_fits")
    if deadline_us is None or cast.end_us < deadline_us:
        return Admitted(cast, draft.agenda())
    hurried = replace(tools, patience=0.0)
    alone = _with(hurried, site, (), new, rotation).forecast()
    is_others = alone is not None and alone.end_us < deadline_us
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
    return _with(hurried, site, others, replace(mine, booking=None), Rotation()).forecast()


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
    """A plan as arrays of its own, made of bookings."""

    def __init__(
        self, tools: Tools, site: Situation, queue: Sequence[Planned], rotation: Rotation
    ) -> None:
        self._tools, self._queue, desk = tools, queue, tools.desk
        self._line = desk.seat(queue)
        self._ground = desk.ground(site)
        self._plan = desk.plan(self._ground.fleet, tools.patience, tools.bounds, rotation)
        self._cost_nano = 0

    def renew(self, *, is_asked: bool = False, is_early: bool = False) -> None:
        """Bring the plan up to date; ``is_asked``: the forecast of the last of the queue is."""
        turnout = Turnout(self._line, int(self._line[-1]) if is_asked else NOBODY, is_early)
        jobs = self._tools.desk.jobs
        self._cost_nano = int(self._tools.renew(self._ground, jobs, self._plan, turnout))

    def forecast(self) -> Forecast | None:
        """Return what is foreseen of the last of the queue, None if it fits nowhere."""
        plan, k = self._plan, int(self._line[-1])
        mode = int(plan.mode[k])
        if mode == 0:
            return None
        jobs, end_us = self._tools.desk.jobs, int(plan.end_us[k])
        run_us = jobs.local_us[k] if mode == LOCAL else jobs.hybrid_us[k]
        return Forecast(end_us - int(run_us), end_us, self._cost_nano, MODES[mode])

    def agenda(self) -> Agenda:
        """Return the plan as records; who has kept his place has the booking that he had."""
        plan, desk = self._plan, self._tools.desk
        has_moved = desk.has_moved(plan)[self._line].tolist()
        bookings = {}
        for one, slot, is_new in zip(self._queue, self._line.tolist(), has_moved, strict=True):
            booking = self._booking(one, slot) if is_new else one.booking
            if booking is not None:
                bookings[booking.job] = booking
        return Agenda(bookings, Rotation(*plan.rotation.tolist()))

    def _booking(self, one: Planned, slot: int) -> Booking | None:
        plan, names = self._plan, self._tools.desk.names
        mode, first = int(plan.mode[slot]), int(plan.first[slot])
        if mode not in {LOCAL, HYBRID}:
            return None
        rows = slice(first, first + int(plan.used[slot]))
        pairs = zip(plan.node[rows].tolist(), plan.executors[rows].tolist(), strict=True)
        return Booking(
            one.queued.ask.id,
            int(plan.start_us[slot]),
            int(plan.end_us[slot]),
            MODES[mode],
            tuple((names[j], count) for j, count in pairs),
            bool(plan.is_late[slot]),
        )
