"""The event loop of a simulation: jobs arrive, the queue is served, executors end.

Events of one instant happen in this order: nodes whose time is over go off, executors end, jobs
arrive, the queue is served (so an end wins over an arrival of the same instant). The loop can be
left at any moment and taken up again: all state is in ``Course`` and ``History``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Jobs
from tenure.placement.decisions.decide import NO_ROOM
from tenure.placement.queue.course import (
    ARRIVED,
    ASKED,
    BLOCKED,
    NOW,
    SPENT_NS,
    WAITING,
    WAKE,
    WOKEN,
    Course,
    History,
    Rules,
    give_back,
    leave_line,
    line_up,
    next_end_us,
    pass_time,
    start_job,
)
from tenure.placement.queue.waiting import pick

#: Until when to replay so that everything has happened.
TO_THE_END = FOREVER_US - 1
#: ``replay``, bound.
Loop = Callable[..., None]


class Arrivals(NamedTuple):
    """Who comes when: ``at_us`` (k,) ascending, ``job`` (k,) the index among the jobs."""

    at_us: Ints
    job: Ints


def clock_ns() -> int:
    """Return 0: this room reads no clock. Who wants decisions timed binds one in its place."""
    return 0


def serve(state: Course, history: History, jobs: Jobs, rules: Rules) -> None:
    """Let the queue policy place what it will at this moment."""
    while state.marks[WAITING] > 0:
        begun_ns = clock_ns()
        picks = pick(state, history, jobs, rules)
        state.marks[SPENT_NS] += clock_ns() - begun_ns
        state.marks[ASKED] += 1
        state.marks[WAKE] = picks.wake_us
        if picks.job.shape[0] == 0:
            return
        for k in range(picks.job.shape[0]):
            job, verdict = picks.job[k], picks.verdict[k]
            leave_line(state, job)
            if verdict > 0:
                start_job(state, history, jobs, job, verdict, picks.counts[k])
                state.marks[WOKEN] = 0
            else:
                history.verdict[job] = verdict
                history.placed_us[job] = state.marks[NOW]
    state.marks[WAKE] = FOREVER_US


def turn_away(state: Course, history: History) -> None:
    """Take the first waiting job out of the line; it will never run."""
    job = state.waiting[0]
    leave_line(state, job)
    history.verdict[job] = NO_ROOM
    history.placed_us[job] = state.marks[NOW]


def welcome(state: Course, arrivals: Arrivals) -> None:
    """Let everyone into the line who has arrived by now."""
    arrived = state.marks[ARRIVED]
    while arrived < arrivals.at_us.shape[0] and arrivals.at_us[arrived] <= state.marks[NOW]:
        line_up(state, arrivals.job[arrived])
        arrived += 1
    state.marks[ARRIVED] = arrived


def next_event_us(state: Course, history: History, jobs: Jobs, arrivals: Arrivals) -> int:
    """Return when something happens next, FOREVER_US if nothing does."""
    next_us = next_end_us(state, history)
    if state.marks[ARRIVED] < arrivals.at_us.shape[0]:
        next_us = min(next_us, arrivals.at_us[state.marks[ARRIVED]])
    if state.marks[WAITING] > 0:
        next_us = min(next_us, state.marks[WAKE])
    return next_us


def replay(  # noqa: PLR0913, PLR0917 - a simulation is these things
    state: Course, history: History, jobs: Jobs, arrivals: Arrivals, rules: Rules, until_us: int
) -> None:
    """Let everything happen that is due by ``until_us``.

    An arrival that belongs to the past arrives now. Whoever waits when nothing happens any more is
    turned away at TO_THE_END (NO_ROOM), lest he block those behind him for ever. O(events x nodes),
    beside the decisions.
    """
    while True:
        at_us = max(next_event_us(state, history, jobs, arrivals), state.marks[NOW])
        if at_us >= FOREVER_US and until_us == TO_THE_END and state.marks[WAITING] > 0:
            turn_away(state, history)
            serve(state, history, jobs, rules)
            continue
        if at_us > until_us:
            return
        is_woken = state.marks[WAITING] > 0 and state.marks[WAKE] <= at_us
        pass_time(state, history, at_us, rules)
        has_ended = give_back(state, history, jobs)
        welcome(state, arrivals)
        if has_ended or is_woken:
            state.marks[BLOCKED] = -1
            state.marks[WOKEN] = 0 if has_ended else 1
        serve(state, history, jobs, rules)
