"""Put a few jobs that start about the same time anew, together: large neighbourhood search.

One job that is taken out and put back finds the best place beside the others as they lie. That two
jobs of five cores and two of three would fill nodes of eight if all four moved it never sees. So a
few neighbours are taken out at once and put back, the largest first (Shaw 1998); if the plan is no
cheaper for it, all go back to where they were. Only where patience is spent beyond the usual: there
many wait, and for long.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US, HOUR_US
from tenure.placement.arrays import Jobs
from tenure.placement.decisions.decide import PLANNED
from tenure.placement.planning.choice import in_time
from tenure.placement.planning.precedence import is_hurt, note, rows_of, settle, spot_of, take_out
from tenure.placement.planning.timeline import book
from tenure.placement.planning.value import Taste, charge_of, wish_of
from tenure.placement.planning.window import Horizon, Window, on_anyway_us
from tenure.placement.queue.plan import Plan

#: So many jobs are put anew together.
GROUP = 4
#: A plan that is cheaper by less than this part of what the jobs cost on full nodes stays.
LEAST_SAVED = 0.001


def neighbours(plan: Plan, jobs: Jobs, line: Ints, job: int) -> Ints:
    """Return the jobs of ``line`` whose starts are nearest to that of ``job``.

    Of those as near, the first in ``line``: with more than GROUP at one start ``job`` may not be
    among them. Those that are late, of another rank, or placed by policies of their own, are left
    out.
    """
    is_alike = (plan.rank[line] == plan.rank[job]) & (jobs.policy[line] == PLANNED)
    some = line[is_alike & ~plan.is_late[line]]
    apart_us = np.abs(plan.start_us[some] - plan.start_us[job])
    nearest: Ints = some[np.argsort(apart_us, kind="mergesort")][:GROUP]
    return nearest


def largest_first(jobs: Jobs, some: Ints) -> Ints:
    """Return jobs by the cores that they take, the most first."""
    cores = jobs.executors[some] * jobs.cpu_m[some]
    ordered: Ints = some[np.argsort(-cores, kind="mergesort")]
    return ordered


def growth_nano(horizon: Horizon, job: int, taste: Taste) -> float:
    """Return what the place of a job, of which no room is taken, adds to the cost of the plan.

    Its delay and the option of a later start count as in ``value``, but without a logarithm: what
    several jobs save together is a sum.
    """
    plan = horizon.plan
    start_us, end_us = plan.start_us[job], plan.end_us[job]
    total_nano = 0.0
    for j in rows_of(plan, job)[0]:
        on_us = on_anyway_us(horizon, j, start_us, end_us)
        more_us = end_us - start_us - on_us
        if on_us == 0:
            more_us = max(more_us, horizon.fleet.min_billing_us[j])
        total_nano += float(more_us) * float(plan.weight[j]) / HOUR_US
    wish = wish_of(horizon, job)
    window = Window(plan.mode[job], start_us, 0, end_us - start_us)
    cost_nano = total_nano + charge_of(wish, window, taste.charge) * wish.full_nano
    if total_nano > wish.full_nano and wish.deadline_us < FOREVER_US:
        latest_us = wish.deadline_us - 1 - window.hold_us
        part = float(start_us - wish.now_us) / float(max(latest_us - wish.now_us + 1, 1))
        cost_nano -= taste.option * part * (total_nano - wish.full_nano)
    return cost_nano


def regroup(horizon: Horizon, line: Ints, job: int, taste: Taste) -> None:
    """Put a job and its neighbours in ``line`` anew if that makes the plan cheaper.

    Nobody is late for it, or put off beyond his guard. One search for each.
    """
    plan, jobs, nodes = horizon.plan, horizon.jobs, horizon.off_us.shape[0]
    some = largest_first(jobs, neighbours(plan, jobs, line, job))
    if some.shape[0] < 2:
        return
    old = [spot_of(plan, one, nodes) for one in some]
    saved_nano = 0.0
    for one in some:
        take_out(horizon, one)
        wish = wish_of(horizon, one)
        saved_nano += growth_nano(horizon, one, taste) - LEAST_SAVED * wish.full_nano
    done = 0
    for k in range(some.shape[0]):
        spot = in_time(horizon, some[k], taste)
        if spot.mode == 0:
            break
        note(plan, some[k], spot, False)
        saved_nano -= growth_nano(horizon, some[k], taste)
        if is_hurt(plan, some[k], old[k].end_us):
            break
        book(horizon.line, plan, jobs, some[k], 1)
        done += 1
    if done == some.shape[0] and saved_nano >= 0.0:
        return
    for one in some[:done]:
        take_out(horizon, one)
    for k in range(some.shape[0]):
        settle(horizon, some[k], old[k], False)
