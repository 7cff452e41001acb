"""Where and when a plan puts one job: by its value for ``tenure``, else as its own policy says.

Jobs of other policies may wait beside those of ``tenure``. They are planned too, lest one be
promised what the other takes: at the first moment at which their policy finds a place for them in
the room that is free all through the run. So their policy says where, and the plan when.
"""

from __future__ import annotations

import numpy as np

from tenure.model.placing import NEVER
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet
from tenure.placement.decisions.cost import delay_us, is_hybrid, slots
from tenure.placement.decisions.decide import HYBRID, LOCAL, PLANNED, choose
from tenure.placement.planning.timeline import END, moments_of
from tenure.placement.planning.value import Spot, Taste, nowhere, place, place_late
from tenure.placement.planning.window import Horizon, warm_us
from tenure.placement.queue.course import need_now


def in_time(horizon: Horizon, job: int, taste: Taste) -> Spot:
    """Return the place that suits a job best before its deadline; mode 0 if there is none."""
    if horizon.jobs.policy[job] == PLANNED:
        return place(horizon, job, taste)
    return by_own_policy(horizon, job, horizon.jobs.deadline_us[job])


def too_late(horizon: Horizon, job: int) -> Spot:
    """Return the place that ends early, whatever the deadline; mode 0 if the job never fits."""
    if horizon.jobs.policy[job] == PLANNED:
        return place_late(horizon, job)
    return by_own_policy(horizon, job, FOREVER_US)


def by_own_policy(horizon: Horizon, job: int, deadline_us: int) -> Spot:
    """Return the first place that a job's own policy takes before a deadline; mode 0 if none.

    It sees of each node what is free from the start until the longest run would be over.
    O(starts x steps).
    """
    jobs, tries = horizon.jobs, horizon.plan.starts
    moments = moments_of(horizon.line, np.flatnonzero(jobs.eligible[job]))
    longest_us, last = jobs.hybrid_us[job] + longest_boot_us(horizon, job), moments.shape[0] - 1
    for k in range(min(last + 1, tries)):
        start_us = moments[k if k < tries - 1 else last]
        if start_us + jobs.local_us[job] >= deadline_us:
            break
        seen = seen_through(horizon, start_us, start_us + longest_us)
        need = need_now(jobs, job, start_us, True)
        room = slots(seen.free_cpu_m, seen.free_memory, need)
        limit_us = FOREVER_US if deadline_us >= FOREVER_US else deadline_us - start_us
        counts = choose(jobs.policy[job], seen, need, room, limit_us)
        if np.sum(counts) > 0:
            mode = HYBRID if is_hybrid(counts, seen.is_cloud) else LOCAL
            run_us = jobs.local_us[job] if mode == LOCAL else jobs.hybrid_us[job]
            end_us = start_us + delay_us(counts, seen.boot_us) + run_us
            return Spot(0.0, mode, start_us, end_us, start_us, counts)
    return nowhere(horizon.off_us.shape[0], 0)


def longest_boot_us(horizon: Horizon, job: int) -> int:
    """Return the longest boot that a job may have to wait for."""
    fleet, longest_us = horizon.fleet, 0
    for j in range(fleet.price.shape[0]):
        if horizon.jobs.eligible[job, j]:
            longest_us = max(longest_us, fleet.reboot_us[j], horizon.ready_us[j] - horizon.now_us)
    return int(longest_us)


def seen_through(horizon: Horizon, start_us: int, until_us: int) -> Fleet:
    """Return the nodes as a policy may see them at ``start_us``: what is free until ``until_us``.

    On is what runs or is billed until then, as for windows: other planned jobs may be moved.
    """
    fleet, line, n = horizon.fleet, horizon.line, horizon.off_us.shape[0]
    cpu_m, memory = line.whole_cpu_m.copy(), line.whole_memory.copy()
    for j in range(n):
        step = line.head[j]
        while step != END and line.at_us[step] < until_us:
            following = line.after[step]
            if following == END or line.at_us[following] > start_us:
                cpu_m[j] = min(cpu_m[j], line.cpu_m[step])
                memory[j] = min(memory[j], line.memory[step])
            step = following
    is_on, boot_us = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.int64)
    remaining_us = np.zeros(n, dtype=np.int64)
    for j in range(n):
        is_warm = warm_us(horizon, j) > start_us or fleet.reboot_us[j] == NEVER
        is_on[j] = fleet.is_on[j] and is_warm
        boot_us[j] = max(fleet.reboot_us[j], 0)
        if is_on[j]:
            remaining_us[j] = max(horizon.off_us[j] - start_us, 0)
            boot_us[j] = max(horizon.ready_us[j] - start_us, 0)
    return Fleet(
        cpu_m,
        memory,
        fleet.capacity_cpu_m,
        fleet.capacity_memory,
        fleet.price,
        remaining_us,
        is_on,
        fleet.is_cloud,
        boot_us,
        fleet.reboot_us,
        fleet.min_billing_us,
    )
