"""The admission test: may a new job be promised its deadline without breaking another promise?

The new job is put into the queue where it belongs and the schedule is simulated. It is refused if
it would end at or after its deadline (Eq. 15), if a waiting job that would be in time without it
would be late with it, or if even an empty fleet could not hold it. A refusal by time names the
earliest deadline found that would be admitted, and what it would cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tenure.model.placing import (
    Admitted,
    Forecast,
    Queued,
    RefusedJob,
    queue_deadline_us,
)
from tenure.model.units import FOREVER_US
from tenure.placement.lookahead import Outlook

#: Simulations spent on finding the earliest deadline of one refusal: at 100 waiting jobs about a
#: tenth of a second uncompiled, a few milliseconds compiled.
SEARCH_STEPS = 12


@dataclass(frozen=True, slots=True)
class Line:
    """The queue without the new job, and how to foresee it.

    ``foresee`` simulates any queue on the same fleet at the same moment ``now_us``. Jobs
    ``queue[first:last]`` have the new job's priority; they are in order of ``queue_deadline_us``.
    """

    queue: Sequence[Queued]
    first: int
    last: int
    now_us: int
    foresee: Callable[[Sequence[Queued]], Outlook]

    def place_for(self, new: Queued) -> int:
        """Return where a new job belongs: behind its equals, which came first."""
        due_us = _rank_us(new)
        ahead = (_rank_us(queued) <= due_us for queued in self.queue[self.first : self.last])
        return self.first + sum(ahead)

    def with_new(self, new: Queued, position: int) -> Outlook:
        """Return the forecasts of all jobs with ``new`` put in at ``position``."""
        return self.foresee([*self.queue[:position], new, *self.queue[position:]])


def _rank_us(queued: Queued) -> int:
    return queue_deadline_us(queued.policy, queued.ask.deadline_us)


def victims(before: Outlook, after: Outlook, position: int) -> tuple[str, ...]:
    """Return the ids of jobs in time (Eq. 15) in ``before`` that are late in ``after``, in order.

    ``after`` has one job more, at ``position``.
    """
    is_late = ~np.delete(after.is_met, position)
    return tuple(before.queue[k].ask.id for k in np.flatnonzero(before.is_met & is_late))


def admit(line: Line, new: Queued, position: int) -> Admitted | RefusedJob:
    """Return the promise for ``new`` at ``position`` of the queue, or why there is none."""
    after = line.with_new(new, position)
    mine = after.at(position)
    if mine is None:
        return RefusedJob("never_fits")
    if not after.is_late.any():
        return Admitted(mine)
    before = line.foresee(line.queue)
    hurt = victims(before, after, position)
    is_late = bool(after.is_late[position])
    if not is_late and not hurt:
        return Admitted(mine)
    found = earliest_deadline(line, new, before) if new.ask.deadline_us is not None else None
    deadline_us, forecast = found if found is not None else (None, None)
    reason = "deadline_unmeetable" if is_late else "would_delay_others"
    return RefusedJob(reason, forecast, deadline_us, hurt)


def admit_all(
    queue: Sequence[Queued], news: Sequence[int], foresee: Callable[[Sequence[Queued]], Outlook]
) -> list[Forecast] | None:
    """Return the forecasts of the new jobs at ``news`` if all may be promised them, else None.

    The test is that of ``admit`` with all of them in the queue at once.
    """
    after = foresee(queue)
    mine = [after.at(position) for position in news]
    forecasts = [forecast for forecast in mine if forecast is not None]
    if len(forecasts) < len(mine):
        return None
    if not after.is_late.any():
        return forecasts
    if after.is_late[list(news)].any():
        return None
    is_old = np.ones(len(queue), dtype=np.bool_)
    is_old[list(news)] = False
    before = foresee([queue[k] for k in np.flatnonzero(is_old).tolist()])
    return None if (before.is_met & after.is_late[is_old]).any() else forecasts


def earliest_deadline(
    line: Line, new: Queued, before: Outlook | None = None
) -> tuple[int, Forecast] | None:
    """Return the earliest deadline found that would be admitted, with its forecast, else None.

    Every answer has been simulated: a job like ``new`` with that deadline would be admitted now.
    The search climbs from "at once" past what stands in the way (its own end, or the deadline of
    the next job that it would overtake), then halves the last gap. As admission is not monotone
    in the deadline (mode, place in the queue and who is hurt change with it), an earlier one may
    exist between two steps. ``before`` are the forecasts without ``new``, if at hand.
    """
    base = line.foresee(line.queue) if before is None else before
    low_us, high_us = line.now_us, line.now_us + 1
    best: Forecast | None = None
    for _ in range(SEARCH_STEPS):
        tried, blocked_us = _try(line, new, high_us, base)
        if tried is not None:
            best = tried
            break
        if blocked_us is None:
            return None
        low_us, high_us = high_us, blocked_us
    if best is None:
        return None
    for _ in range(SEARCH_STEPS):
        middle_us = (low_us + high_us) // 2
        if middle_us <= low_us:
            break
        tried, _ = _try(line, new, middle_us, base)
        if tried is None:
            low_us = middle_us
        else:
            best, high_us = tried, middle_us
    return high_us, best


def _try(
    line: Line, new: Queued, deadline_us: int, before: Outlook
) -> tuple[Forecast | None, int | None]:
    """Return the forecast if that deadline is admitted, else a later deadline worth a try.

    Both None: no later deadline can help.
    """
    ask = replace(new.ask, deadline_us=deadline_us)
    moved = Queued(ask, new.policy)
    position = line.place_for(moved)
    after = line.with_new(moved, position)
    mine = after.at(position)
    if mine is None:
        return None, None
    if mine.end_us >= deadline_us:
        return None, mine.end_us + 1
    if not victims(before, after, position):
        return mine, None
    following_us = _rank_us(line.queue[position]) if position < line.last else FOREVER_US
    return None, None if following_us >= FOREVER_US else following_us
