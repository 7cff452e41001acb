"""The plan of a queue as the daemon keeps it: records in, kernels, records out.

Between two calls the plan is nothing but bookings, so that it can be stored and shown; what is in
memory only spares work. Places are found by ``upkeep.renew``, which does for every job that comes
what the simulator's ``rolling.arrive`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tenure.model.booking import Booking
from tenure.model.placing import (
    Admitted,
    Agenda,
    Forecast,
    Ints,
    Planned,
    RefusedJob,
    Situation,
)
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import ends_of, fleet_of, jobs_of
from tenure.placement.decide import HYBRID, LOCAL, MODES
from tenure.placement.kernels import Renew
from tenure.placement.plan import UNSEEN, Plan, open_plan
from tenure.placement.upkeep import NOBODY, Ground, Turnout

#: Starts tried for one job and mode, and jobs moved for the sake of another: compiled, and plain,
#: where each start of each job takes some hundred times longer.
COMPILED_BOUNDS, PLAIN_BOUNDS = (256, 48), (12, 6)
#: A deadline that nobody misses, by which the earliest possible one is looked for.
FAR_US = 10 * 365 * 24 * 3600 * 1_000_000
_CODES = {mode: code for code, mode in MODES.items()}


@dataclass(frozen=True, slots=True)
class Tools:
    """What planning needs beside the fleet: the kernel, the policies' numbers, the parameters.

    ``bounds`` as ``COMPILED_BOUNDS``.
    """

    renew: Renew
    code_of: Callable[[str], int]
    patience: float
    bounds: tuple[int, int]


def plan_queue(
    tools: Tools, site: Situation, queue: Sequence[Planned], turn: int, rounds: int
) -> Agenda:
    """Return the plan of ``queue`` (in queue order) brought up to date.

    Jobs keep their places as far as they can (``upkeep``); those without one get one, in the order
    of the queue. Then ``rounds`` jobs are put where they are best now.
    """
    draft = Draft(tools, site, queue, turn)
    draft.renew(draft.fresh(), rounds=rounds)
    return draft.agenda()


def admit(
    tools: Tools, site: Situation, queue: Sequence[Planned], new: Planned, turn: int
) -> Admitted | RefusedJob:
    """Return the promise for ``new``, with the plan that holds it, or why there is none.

    Nobody else is put off beyond his guard by it. A refusal names the earliest deadline found that
    would be admitted: each was tried.
    """
    draft = _with(tools, site, queue, new, turn)
    deadline_us = new.queued.ask.deadline_us
    cast = draft.forecast()
    if cast is None:
        return RefusedJob("never_fits")
    if deadline_us is None or cast.end_us < deadline_us:
        return Admitted(cast, draft.agenda())
    for far_us in (site.now_us + FAR_US, None):
        hurried = replace(tools, patience=0.0)
        soon = _with(hurried, site, queue, _due(new, far_us), turn).forecast()
        if soon is None:
            continue
        earliest_us = soon.end_us + 1
        kept = _with(tools, site, queue, _due(new, earliest_us), turn).forecast()
        if kept is not None and kept.end_us < earliest_us:
            return RefusedJob("deadline_unmeetable", kept, earliest_us)
    return RefusedJob("deadline_unmeetable")


def at_once(
    tools: Tools, site: Situation, queue: Sequence[Planned], job: str, turn: int
) -> Forecast | None:
    """Return what a waiting job would be promised if it were to end as early as it can.

    The others keep their places. None if it fits nowhere.
    """
    others = [one for one in queue if one.queued.ask.id != job]
    (mine,) = (one for one in queue if one.queued.ask.id == job)
    hurried = replace(tools, patience=0.0)
    return _with(hurried, site, others, replace(mine, booking=None), turn).forecast()


def _due(new: Planned, deadline_us: int | None) -> Planned:
    ask = replace(new.queued.ask, deadline_us=deadline_us)
    guard_us = FOREVER_US if deadline_us is None else deadline_us
    return replace(new, queued=replace(new.queued, ask=ask), guard_us=guard_us)


def _with(
    tools: Tools, site: Situation, queue: Sequence[Planned], new: Planned, turn: int
) -> Draft:
    """Return the plan of a queue with one job more, which is the last."""
    draft = Draft(tools, site, [*queue, new], turn)
    draft.renew(draft.fresh(), asked=len(queue))
    return draft


class Draft:
    """A plan as arrays, made of bookings."""

    def __init__(self, tools: Tools, site: Situation, queue: Sequence[Planned], turn: int) -> None:
        self._tools, self._queue = tools, queue
        self._names = site.view.names
        fleet = fleet_of(site.view)
        queued = [one.queued for one in queue]
        codes = [tools.code_of(one.policy) for one in queued]
        self._jobs = jobs_of(queued, codes, len(self._names))
        self._ground = Ground(
            fleet,
            site.now_us + fleet.remaining_us,
            site.now_us + fleet.boot_us,
            ends_of(site.running, site.now_us),
            site.now_us,
        )
        self._plan: Plan = open_plan(fleet, self._jobs, tools.patience, tools.bounds)
        self._plan.turn[0] = turn
        self._cost_nano, self._asked = 0, NOBODY
        position = {name: j for j, name in enumerate(self._names)}
        for k, one in enumerate(queue):
            self._plan.rank[k], self._plan.since_us[k] = one.rank, one.since_us
            self._plan.guard_us[k] = one.guard_us
            if one.booking is not None:
                self._write(k, one.booking, position)

    def _write(self, k: int, booking: Booking, position: dict[str, int]) -> None:
        """Take over a booking; one on a node that is not there is none."""
        plan = self._plan
        if any(name not in position for name, _ in booking.counts):
            return
        plan.start_us[k], plan.end_us[k] = booking.start_us, booking.end_us
        plan.mode[k], plan.is_late[k] = _CODES[booking.mode], booking.is_late
        first = int(plan.first[k])
        for row, (name, count) in enumerate(booking.counts, start=first):
            plan.node[row], plan.executors[row] = position[name], count
        plan.used[k] = len(booking.counts)

    def fresh(self) -> Ints:
        """Return who has no place yet."""
        return np.flatnonzero(self._plan.start_us == UNSEEN).astype(np.int64)

    def kept(self) -> Ints:
        """Return who has a place, in order of precedence."""
        plan, jobs = self._plan, self._jobs
        kept = np.flatnonzero(plan.start_us != UNSEEN).astype(np.int64)
        has_none = jobs.deadline_us[kept] >= FOREVER_US
        order = np.lexsort((plan.start_us[kept], has_none, plan.rank[kept]))
        return kept[order]

    def renew(self, fresh: Ints, *, rounds: int = 0, asked: int = NOBODY) -> None:
        """Bring the plan up to date; the cost of ``asked`` is kept for its forecast."""
        turnout = Turnout(self.kept(), fresh, rounds, asked)
        self._asked = asked
        self._cost_nano = int(self._tools.renew(self._ground, self._jobs, self._plan, turnout))

    def forecast(self) -> Forecast | None:
        """Return what is foreseen of the job that was asked about, None if it fits nowhere."""
        plan, k = self._plan, self._asked
        mode = int(plan.mode[k])
        if mode == 0:
            return None
        end_us = int(plan.end_us[k])
        run_us = self._jobs.local_us[k] if mode == LOCAL else self._jobs.hybrid_us[k]
        return Forecast(end_us - int(run_us), end_us, self._cost_nano, MODES[mode])

    def agenda(self) -> Agenda:
        """Return the plan as records."""
        plan = self._plan
        columns = (plan.mode, plan.start_us, plan.end_us, plan.is_late, plan.first, plan.used)
        rows = zip(self._queue, *(column.tolist() for column in columns), strict=True)
        node, executors = plan.node.tolist(), plan.executors.tolist()
        bookings = {}
        for one, mode, start_us, end_us, is_late, first, used in rows:
            if mode in (LOCAL, HYBRID):
                key, span = one.queued.ask.id, range(first, first + used)
                counts = tuple((self._names[node[row]], executors[row]) for row in span)
                bookings[key] = Booking(key, start_us, end_us, MODES[mode], counts, is_late)
        return Agenda(bookings, int(plan.turn[0]))
