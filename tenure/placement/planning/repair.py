"""Keep a plan true while the world departs from it: what a daemon does beyond a simulation.

Executors end earlier or later than estimated, nodes go and come. So before a plan is acted on, each
planned job is looked at: it keeps its nodes and starts as soon as they have room for it, not before
its planned start. One that would miss its deadline so is planned anew, as one that has just come;
one that waits for room that should be there by now looks for other room while that is in time.
Where room was given back early, or one is about to be passed by another of lower rank, some jobs
are put where they are best now. While estimates hold nothing is moved, and every promise is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.model.placing import LAST_CALL_US, NEVER, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Ends, Fleet, Jobs
from tenure.placement.decisions.cost import money
from tenure.placement.decisions.decide import LOCAL
from tenure.placement.planning.choice import in_time
from tenure.placement.planning.precedence import (
    avoid_overdue,
    blocked_until_us,
    rows_of,
    settle,
    take_out,
)
from tenure.placement.planning.rolling import call_by_rank, call_first, improve, take_in
from tenure.placement.planning.timeline import Timeline, book, fill
from tenure.placement.planning.value import taste_of
from tenure.placement.planning.window import Horizon, on_anyway_us
from tenure.placement.queue.plan import UNSEEN, Plan

#: Executors that end together are seen to have ended within this time: a node that has just become
#: empty is not off before.
NEAR_US = 1000
#: Who starts later by no more keeps his turn.
SLIDE_US = 1_000_000
#: As ``Turnout.asked``: nobody asks what his place costs.
NOBODY = -1


class Ground(NamedTuple):
    """The fleet, until when nodes are on and when they are ready (as ``Horizon``), what ends."""

    fleet: Fleet
    off_us: Ints
    ready_us: Ints
    ends: Ends
    now_us: int


class Turnout(NamedTuple):
    """The jobs to plan: ``line`` in queue order; those without a place are planned in it, last.

    ``asked`` is a job of which the cost is wanted, or NOBODY: then those are put where they are
    best now of whom it is time. ``is_early``: there is room that nobody counted on. ``is_open``:
    the plan was brought up to date at this moment already, and who has a place keeps it.
    """

    line: Ints
    asked: int
    is_early: bool
    is_open: bool


def in_order(jobs: Jobs, plan: Plan, line: Ints) -> Ints:
    """Return who has a place, in order of precedence, then of start."""
    kept = line[plan.start_us[line] != UNSEEN]
    kept = kept[np.argsort(plan.start_us[kept], kind="mergesort")]
    kept = kept[np.argsort(jobs.deadline_us[kept] >= FOREVER_US, kind="mergesort")]
    ordered: Ints = kept[np.argsort(plan.rank[kept], kind="mergesort")]
    return ordered


def boot_at_us(horizon: Horizon, job: int, start_us: int) -> int:
    """Return the longest boot of a job's nodes for a start at a moment.

    A node that becomes empty is not switched off while a start on it is nearer than its boot.
    """
    fleet, longest_us = horizon.fleet, 0
    for j in rows_of(horizon.plan, job)[0]:
        boot_us = max(fleet.reboot_us[j], 0)
        warm_us = max(horizon.off_us[j], horizon.now_us) + boot_us + NEAR_US
        if fleet.is_on[j] and (start_us <= warm_us or fleet.reboot_us[j] == NEVER):
            boot_us = max(horizon.ready_us[j] - start_us, 0)
        longest_us = max(longest_us, boot_us)
    return int(longest_us)


def keep(horizon: Horizon, job: int, slack_us: int) -> bool:
    """Take the room of a job on its nodes from its planned start on, or as soon as there is room.

    False, and nothing taken, if it would start more than ``slack_us`` later or miss its deadline.
    """
    plan, jobs = horizon.plan, horizon.jobs
    rows = rows_of(plan, job)
    run_us = jobs.local_us[job] if plan.mode[job] == LOCAL else jobs.hybrid_us[job]
    start_us, end_us = max(plan.start_us[job], horizon.now_us), 0
    latest_us = min(start_us + slack_us, FOREVER_US - 1)
    while start_us <= latest_us:
        end_us = start_us + boot_at_us(horizon, job, start_us) + run_us
        need = jobs.cpu_m[job], jobs.memory_bytes[job], start_us, end_us
        free_us = blocked_until_us(horizon.line, rows, need)
        if free_us <= start_us:
            break
        start_us = free_us
    is_late = end_us >= jobs.deadline_us[job]
    if start_us > latest_us or (is_late and not plan.is_late[job]):
        return False
    plan.start_us[job], plan.end_us[job], plan.is_late[job] = start_us, end_us, is_late
    book(horizon.line, plan, jobs, job, 1)
    return True


def keep_all(horizon: Horizon, kept: Ints) -> Ints:
    """Keep jobs at their places as far as they can, and return those that cannot.

    What is little late passes it on in order of start, for else who comes last in precedence would
    lose his place between others for a moment's sake. The rest is in order of precedence.
    """
    is_kept = np.zeros(kept.shape[0], dtype=np.bool_)
    for k in np.argsort(horizon.plan.start_us[kept], kind="mergesort"):
        is_kept[k] = keep(horizon, kept[k], SLIDE_US)
    for k in range(kept.shape[0]):
        if not is_kept[k]:
            is_kept[k] = keep(horizon, kept[k], FOREVER_US >> 1)
    return kept[~is_kept]


def passed_over(horizon: Horizon, kept: Ints, were_us: Ints) -> int:
    """Return the first of ``kept`` whom one of lower rank is about to pass, NOBODY if none is.

    They are in order of rank, and were to start at ``were_us``. Who was put off by little is passed
    only by one who starts now.
    """
    plan, found = horizon.plan, NOBODY
    lower_us, same_us = FOREVER_US, FOREVER_US
    for k in range(kept.shape[0] - 1, -1, -1):
        job, start_us = kept[k], plan.start_us[kept[k]]
        if k + 1 < kept.shape[0] and plan.rank[kept[k + 1]] > plan.rank[job]:
            lower_us = min(lower_us, same_us)
        is_put_off = start_us > were_us[k] + SLIDE_US or lower_us <= horizon.now_us
        if is_put_off and start_us > max(lower_us, horizon.now_us):
            found = job
        same_us = min(same_us, start_us)
    return int(found)


def forget(plan: Plan, job: int) -> None:
    """Leave a job without a place."""
    plan.start_us[job], plan.end_us[job], plan.mode[job] = UNSEEN, UNSEEN, 0
    plan.used[job], plan.is_late[job] = 0, False


def carry_on(horizon: Horizon, kept: Ints) -> tuple[Ints, int]:
    """Bring the places of jobs, in order of rank, up to date: ``keep_all`` and ``passed_over``.

    Who cannot be kept is left without a place.
    """
    were_us = horizon.plan.start_us[kept]
    lost = keep_all(horizon, kept)
    passed = passed_over(horizon, kept, were_us)
    for job in lost:
        forget(horizon.plan, job)
    return lost, passed


def is_held_up(horizon: Horizon, job: int) -> bool:
    """Return whether a job waits for room that should be there by now, and hardly can any longer.

    What is overdue counts as ending right after now (``arrays.ends_of``), and who waits for it as
    starting then.
    """
    plan, deadline_us = horizon.plan, horizon.jobs.deadline_us[job]
    is_waiting = plan.start_us[job] == horizon.now_us + 1 and not plan.is_late[job]
    return bool(is_waiting and plan.end_us[job] + LAST_CALL_US >= deadline_us)


def look_elsewhere(horizon: Horizon, job: int) -> None:
    """Put a job on nodes where nothing is overdue if that is in time; else it stays and waits."""
    take_out(horizon, job)
    could = avoid_overdue(horizon, job)
    spot = in_time(horizon, job, taste_of(0.0))
    horizon.jobs.eligible[job] = could
    if spot.mode == 0:
        book(horizon.line, horizon.plan, horizon.jobs, job, 1)
    else:
        settle(horizon, job, spot, False)


def renew(ground: Ground, jobs: Jobs, plan: Plan, turnout: Turnout, room: Timeline) -> int:
    """Bring a plan up to date; return what the place of ``asked`` costs, in nano-dollars.

    A job that fits nowhere is left without a place: mode 0. ``room`` is what is free beside those
    who have a place, as the last call left it, and blank unless ``turnout.is_open``.
    """
    line = turnout.line
    fresh = line[plan.start_us[line] == UNSEEN]
    fleet, now_us = ground.fleet, ground.now_us
    horizon = Horizon(fleet, ground.off_us, ground.ready_us, jobs, plan, room, now_us)
    lost, passed = fresh[:0].copy(), NOBODY
    if not turnout.is_open:
        fill(room, fleet, ground.ends, now_us)
        lost, passed = carry_on(horizon, in_order(jobs, plan, line))
    for job in line:
        if is_held_up(horizon, job):
            look_elsewhere(horizon, job)
    line = line[plan.start_us[line] != UNSEEN]
    for job in np.append(lost, fresh):
        forget(plan, job)
        if take_in(horizon, line, job):
            line = np.append(line, job)
    if turnout.asked == NOBODY:
        if turnout.is_early:
            line = call_by_rank(plan, line, now_us)
        elif passed != NOBODY:
            call_first(plan, line, passed, now_us)
        improve(horizon, line)
    elif plan.mode[turnout.asked] > 0:
        return price_nano(horizon, turnout.asked)
    return 0


def price_nano(horizon: Horizon, job: int) -> int:
    """Return by what a planned job makes the plan dearer: Eq. 1 and 8 read over time.

    Its nodes' prices, times by how much longer each is on for it than for what else is planned.
    """
    plan, fleet = horizon.plan, horizon.fleet
    total = 0
    take_out(horizon, job)
    start_us, end_us = plan.start_us[job], plan.end_us[job]
    for j in rows_of(plan, job)[0]:
        on_us = on_anyway_us(horizon, j, start_us, end_us)
        more_us = end_us - start_us - on_us
        if on_us == 0:
            more_us = max(more_us, fleet.min_billing_us[j])
        total += money(fleet.price[j], more_us)
    book(horizon.line, plan, horizon.jobs, job, 1)
    return total
