"""Who may push whom aside in a plan (ours): rank first, then those who have a deadline.

A job that comes is planned as if those behind it in precedence were not there; these are put back
where they were if it leaves them room, else where they are best. Nobody is put off beyond his
guard for it: his deadline if he was promised it, or some time for which a job without one may be
put off, so that it is never starved. If that cannot be kept, all stay where they were. The same is
done for a job that is put anew: what estimates were wrong about must not turn precedence round.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import FOREVER_US
from tenure.placement.planning.choice import in_time, too_late
from tenure.placement.planning.timeline import END, Timeline, book, lent_line
from tenure.placement.planning.value import Spot, Taste
from tenure.placement.planning.window import Horizon
from tenure.placement.queue.plan import Plan


def note(plan: Plan, job: int, spot: Spot, is_late: bool) -> None:
    """Write down a place without taking its room."""
    row = plan.first[job]
    plan.start_us[job], plan.end_us[job], plan.mode[job] = spot.start_us, spot.end_us, spot.mode
    plan.soon_us[job], plan.is_late[job] = spot.soon_us, is_late
    for j in range(spot.counts.shape[0]):
        if spot.counts[j] > 0:
            plan.node[row], plan.executors[row] = j, spot.counts[j]
            row += 1
    plan.used[job] = row - plan.first[job]


def settle(horizon: Horizon, job: int, spot: Spot, is_late: bool) -> None:
    """Put a job into the plan at ``spot``."""
    note(horizon.plan, job, spot, is_late)
    book(horizon.line, horizon.plan, horizon.jobs, job, 1)


def add(horizon: Horizon, job: int, taste: Taste) -> bool:
    """Plan a job: in time if it can be, else as early as there is room; False if it never fits."""
    spot = in_time(horizon, job, taste)
    is_late = spot.mode == 0
    if is_late:
        spot = too_late(horizon, job)
    if spot.mode == 0:
        return False
    settle(horizon, job, spot, is_late)
    return True


def spot_of(plan: Plan, job: int, nodes: int) -> Spot:
    """Return the place that a job has."""
    counts = np.zeros(nodes, dtype=np.int64)
    for used in range(plan.first[job], plan.first[job] + plan.used[job]):
        counts[plan.node[used]] = plan.executors[used]
    start_us, end_us, soon_us = plan.start_us[job], plan.end_us[job], plan.soon_us[job]
    return Spot(0.0, plan.mode[job], start_us, end_us, soon_us, counts)


def is_hurt(plan: Plan, job: int, was_end_us: int) -> bool:
    """Return whether a job is put off beyond its guard."""
    return bool(plan.end_us[job] > was_end_us and plan.end_us[job] >= plan.guard_us[job])


def behind(horizon: Horizon, others: Ints, job: int) -> Ints:
    """Return who comes after a job in precedence, by start."""
    plan, deadline_us = horizon.plan, horizon.jobs.deadline_us
    has_deadline = deadline_us[job] < FOREVER_US
    is_behind = np.zeros(others.shape[0], dtype=np.bool_)
    for k in range(others.shape[0]):
        other = others[k]
        is_lesser = has_deadline and deadline_us[other] >= FOREVER_US
        is_behind[k] = plan.rank[other] > plan.rank[job] or (
            plan.rank[other] == plan.rank[job] and is_lesser
        )
    found = others[is_behind]
    return found[np.argsort(plan.start_us[found], kind="mergesort")]


def blocked_until_us(
    line: Timeline, rows: tuple[Ints, Ints], need: tuple[int, int, int, int]
) -> int:
    """Return when a window has room again on nodes for executors, its start or earlier if it has.

    ``rows`` are nodes and executors on each, ``need`` the cpu_m and bytes of one executor, start
    and end. FOREVER_US: what is in the way never ends.
    """
    line, (node, executors) = lent_line(line), rows
    cpu_m, memory, start_us, end_us = need
    free_us = start_us
    for k in range(node.shape[0]):
        step = line.head[node[k]]
        while step != END and line.at_us[step] < end_us:
            following = line.after[step]
            following_us = FOREVER_US if following == END else line.at_us[following]
            is_short = line.cpu_m[step] < executors[k] * cpu_m
            if following_us > free_us and (is_short or line.memory[step] < executors[k] * memory):
                free_us = following_us
            step = following
    return int(free_us)


def rows_of(plan: Plan, job: int) -> tuple[Ints, Ints]:
    """Return the nodes (k,) that a job is planned on, and its executors (k,) there."""
    first, last = plan.first[job], plan.first[job] + plan.used[job]
    return plan.node[first:last], plan.executors[first:last]


def fits_where_it_was(horizon: Horizon, job: int) -> bool:
    """Return whether a job that was taken out of the plan fits again where it was."""
    plan, jobs, start_us = horizon.plan, horizon.jobs, horizon.plan.start_us[job]
    need = jobs.cpu_m[job], jobs.memory_bytes[job], start_us, plan.end_us[job]
    return bool(blocked_until_us(horizon.line, rows_of(plan, job), need) <= start_us)


def take_out(horizon: Horizon, job: int) -> None:
    """Give back the room of a planned job."""
    book(horizon.line, horizon.plan, horizon.jobs, job, -1)


def put_back(horizon: Horizon, job: int, taste: Taste) -> bool:
    """Plan a job again that was taken out; False, and it is not, if that puts it off too far."""
    plan = horizon.plan
    if fits_where_it_was(horizon, job):
        book(horizon.line, plan, horizon.jobs, job, 1)
        return True
    was_end_us, was_late = plan.end_us[job], plan.is_late[job]
    old = spot_of(plan, job, horizon.off_us.shape[0])
    if not add(horizon, job, taste):
        return False
    if not is_hurt(plan, job, was_end_us):
        return True
    take_out(horizon, job)
    note(plan, job, old, was_late)
    return False


def make_way(horizon: Horizon, lesser: Ints, job: int, taste: Taste) -> bool:
    """Put ``lesser``, who were taken out, back behind a job that was put; False if that hurts.

    Then they are where they were, and the job is taken out. O(lesser) placements.
    """
    plan, nodes = horizon.plan, horizon.off_us.shape[0]
    old = [spot_of(plan, one, nodes) for one in lesser]
    was_late, done = plan.is_late[lesser], 0
    while done < lesser.shape[0] and put_back(horizon, lesser[done], taste):
        done += 1
    if done == lesser.shape[0]:
        return True
    for k in range(done):
        take_out(horizon, lesser[k])
    take_out(horizon, job)
    for k in range(lesser.shape[0]):
        settle(horizon, lesser[k], old[k], was_late[k])
    return False


def push_aside(horizon: Horizon, lesser: Ints, job: int, taste: Taste) -> bool:
    """Plan a job before ``lesser``, put back behind it; False, and nothing changed, if that hurts.

    O(lesser) placements.
    """
    for one in lesser:
        take_out(horizon, one)
    if add(horizon, job, taste):
        return make_way(horizon, lesser, job, taste)
    for one in lesser:
        book(horizon.line, horizon.plan, horizon.jobs, one, 1)
    return False


def avoid_overdue(horizon: Horizon, job: int) -> Bools:
    """Have a job not be put where something is overdue; return where it could be (n,) so far.

    What is overdue counts as ending right after now (``arrays.ends_of``).
    """
    line = horizon.line
    could: Bools = horizon.jobs.eligible[job].copy()
    for j in range(could.shape[0]):
        step = line.after[line.head[j]]
        if step != END and line.at_us[step] == horizon.now_us + 1:
            horizon.jobs.eligible[job, j] = False
    return could


def go_before(horizon: Horizon, line: Ints, job: int, taste: Taste) -> bool:
    """Plan a job, which was taken out, before those of ``line`` behind it, if it starts earlier so.

    False, and nothing changed, if it does not, or if that hurts. Who waits for what is overdue may
    wait for long, and goes elsewhere. One search where it does not start earlier.
    """
    plan, jobs, nodes = horizon.plan, horizon.jobs, horizon.off_us.shape[0]
    lesser = behind(horizon, line, job)
    lesser = lesser[plan.start_us[lesser] < plan.end_us[job]][: plan.repairs]
    if lesser.shape[0] == 0:
        return False
    old, was_late, could = spot_of(plan, job, nodes), plan.is_late[job], jobs.eligible[job].copy()
    for one in lesser:
        take_out(horizon, one)
    if old.start_us == horizon.now_us + 1:
        avoid_overdue(horizon, job)
    spot = in_time(horizon, job, taste)
    jobs.eligible[job] = could
    if spot.mode > 0 and (spot.start_us < old.start_us or was_late):
        settle(horizon, job, spot, False)
        if make_way(horizon, lesser, job, taste):
            return True
        note(plan, job, old, was_late)
        return False
    for one in lesser:
        book(horizon.line, plan, jobs, one, 1)
    return False
