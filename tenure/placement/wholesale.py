"""Places by whole arrays: what ``value`` and ``window`` find node by node, for uncompiled code.

Until kernels are compiled, or where no compiler is installed, a loop over a thousand nodes takes
milliseconds for every start that is looked at. Here a start is looked at on all nodes at once: the
steps of the candidates lie in a table of rows (their first, second, ... step) by columns. The same
places are found as by the loops, by the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tenure.model.placing import NEVER, Bools, Floats, Ints
from tenure.model.units import FOREVER_US, HOUR_US
from tenure.placement import timeline, upkeep, value
from tenure.placement.arrays import Ends, Fleet
from tenure.placement.cost import is_hybrid
from tenure.placement.decide import HYBRID, LOCAL
from tenure.placement.exact import MS
from tenure.placement.kernels import BUNDLED, rebound
from tenure.placement.timeline import END, GIVEN_BACK, USED, Timeline
from tenure.placement.upkeep import NEAR_US
from tenure.placement.value import (
    LOOKS,
    Spot,
    Taste,
    Wish,
    charge_of,
    nowhere,
    value_of,
    wish_of,
    with_soonest,
)
from tenure.placement.window import TIE_EMPTY, TIE_LEFT, TIE_NODE, Horizon, Window

#: So many jobs are kept at their places at once.
AT_ONCE = 16


class Sheet(NamedTuple):
    """All of a horizon that concerns one job, as ``window.Grid``.

    Of each candidate (k,): its number, facts and rates (see ``window.IS_CLOUD``, ``window.PRICE``).
    Of each of its steps (d, k), the missing ones at FOREVER_US: from and until when it lasts, how
    many executors fit, free cpu_m, whether anything runs or is planned. ``moments`` (b + 1,).
    """

    cpu_m: int
    need: int
    node: Ints
    is_cloud: Bools
    reboot_us: Ints
    billing_us: Ints
    stays_us: Ints
    ready_us: Ints
    warm_us: Ints
    price: Floats
    ties: Floats
    left_free: Floats
    at_us: Ints
    until_us: Ints
    fits: Ints
    free: Ints
    is_busy: Bools
    moments: Ints


class Offer(NamedTuple):
    """Of each candidate (k,) how many executors fit a window, and what using it costs."""

    fit: Ints
    nano: Ints


class Judge(NamedTuple):
    """What a place is judged by, and how many looks at starts are enough."""

    wish: Wish
    taste: Taste
    tries: int


class Changes(NamedTuple):
    """How room changes, each array (c,): on which node, when, and by how much."""

    node: Ints
    at_us: Ints
    cpu_m: Ints
    memory: Ints


def fill(line: Timeline, fleet: Fleet, ends: Ends, now_us: int) -> None:
    """As ``timeline.fill``."""
    gains = Changes(ends.node, ends.end_us, ends.cpu_m, ends.memory_bytes)
    used = np.bincount(ends.node, minlength=line.head.shape[0])
    write(line, (fleet.free_cpu_m, fleet.free_memory), gains, now_us, np.zeros_like(used))
    line.jobs[:] += used


def write(
    line: Timeline, room: tuple[Ints, Ints], changes: Changes, now_us: int, booked: Ints
) -> bool:
    """Have a timeline hold ``room`` (n,) from ``now_us`` on, with what changes it later.

    Where a node on which anything is ``booked`` (n,) has less than none then, nothing is written
    and the answer is False.
    """
    n = line.head.shape[0]
    order = np.lexsort((changes.at_us, changes.node))
    node, at_us = changes.node[order], changes.at_us[order]
    is_last = np.ones(order.shape[0], dtype=np.bool_)
    is_last[:-1] = (node[1:] != node[:-1]) | (at_us[1:] != at_us[:-1])
    begin, levels = np.searchsorted(node, node), []
    for base, by in zip(room, (changes.cpu_m, changes.memory), strict=True):
        total = np.concatenate(([0], np.cumsum(by[order])))
        levels.append((base[node] + total[1:] - total[begin])[is_last])
    owner, since_us = node[is_last], at_us[is_last]
    for base, level in zip(room, levels, strict=True):
        if (base[booked > 0] < 0).any() or (level[booked[owner] > 0] < 0).any():
            return False
    is_first = np.ones(owner.shape[0], dtype=np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    is_other = np.zeros(owner.shape[0], dtype=np.bool_)
    for base, level in zip(room, levels, strict=True):
        is_other |= level != np.where(
            is_first, base[owner], np.concatenate((level[:1], level[:-1]))
        )
    owner, since_us = owner[is_other], since_us[is_other]
    levels = [level[is_other] for level in levels]
    used = n + owner.shape[0]
    step, is_first = np.arange(n, used), np.ones(used - n, dtype=np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    line.at_us[:n], line.cpu_m[:n], line.memory[:n] = now_us, *room
    line.at_us[n:used], line.cpu_m[n:used], line.memory[n:used] = since_us, *levels
    line.head[:], line.after[:used] = np.arange(n), END
    line.after[np.where(is_first, owner, step - 1)] = step
    last = np.arange(n)
    np.maximum.at(last, owner, step)
    line.spare[USED], line.spare[GIVEN_BACK] = used, END
    line.whole_cpu_m[:], line.whole_memory[:] = line.cpu_m[last], line.memory[last]
    return True


def keep_all(horizon: Horizon, kept: Ints) -> Ints:
    """As ``upkeep.keep_all``: some at once where these can all stay as they are."""
    is_kept = np.zeros(kept.shape[0], dtype=np.bool_)
    order = np.argsort(horizon.plan.start_us[kept], kind="stable")
    for first in range(0, order.shape[0], AT_ONCE):
        some = order[first : first + AT_ONCE]
        if stay(horizon, kept[some]):
            is_kept[some] = True
            continue
        for k in some:
            is_kept[k] = upkeep.keep(horizon, kept[k], upkeep.SLIDE_US)
    for k in np.flatnonzero(~is_kept):
        is_kept[k] = upkeep.keep(horizon, kept[k], FOREVER_US >> 1)
    lost: Ints = kept[~is_kept]
    return lost


def stay(horizon: Horizon, some: Ints) -> bool:
    """Take the room of jobs at their places; False, and nothing is taken, if one would move."""
    plan, jobs = horizon.plan, horizon.jobs
    start_us, end_us, used = plan.start_us[some], plan.end_us[some], plan.used[some]
    if (start_us < horizon.now_us).any() or (used == 0).any():
        return False
    owner, begin = np.repeat(np.arange(some.shape[0]), used), np.cumsum(used) - used
    row = np.arange(owner.shape[0]) + (plan.first[some] - begin)[owner]
    node, executors, job = plan.node[row], plan.executors[row], some[owner]
    boot_us = np.maximum.reduceat(_boots_us(horizon, node, start_us[owner]), begin)
    run_us = np.where(plan.mode[some] == LOCAL, jobs.local_us[some], jobs.hybrid_us[some])
    is_late = end_us >= jobs.deadline_us[some]
    if (start_us + boot_us + run_us != end_us).any() or (is_late != plan.is_late[some]).any():
        return False
    taken = executors * jobs.cpu_m[job], executors * jobs.memory_bytes[job]
    if not _book_all(horizon, node, (start_us[owner], end_us[owner]), taken):
        return False
    horizon.line.jobs[:] += np.bincount(node, minlength=horizon.off_us.shape[0])
    return True


def _boots_us(horizon: Horizon, node: Ints, start_us: Ints) -> Ints:
    """As ``upkeep.boot_at_us``, of each node for its start."""
    fleet = horizon.fleet
    boot_us = np.maximum(fleet.reboot_us[node], 0)
    warm_us = np.maximum(horizon.off_us[node], horizon.now_us) + boot_us + NEAR_US
    is_warm = fleet.is_on[node] & ((start_us <= warm_us) | (fleet.reboot_us[node] == NEVER))
    waits_us: Ints = np.where(is_warm, np.maximum(horizon.ready_us[node] - start_us, 0), boot_us)
    return waits_us


def _book_all(
    horizon: Horizon, node: Ints, span: tuple[Ints, Ints], taken: tuple[Ints, Ints]
) -> bool:
    """Take room off nodes from a moment to another, all or nothing: False if it is not there."""
    line, now_us, n = horizon.line, horizon.now_us, int(horizon.off_us.shape[0])
    step = steps_of(line, np.arange(n))
    depth, owner = np.nonzero(step[1:] != END)
    later, before = step[depth + 1, owner], step[depth, owner]
    gains = [room[later] - room[before] for room in (line.cpu_m, line.memory)]
    columns = (
        (owner, node, node),
        (line.at_us[later], *span),
        (gains[0], -taken[0], taken[0]),
        (gains[1], -taken[1], taken[1]),
    )
    changes = Changes(*(np.concatenate(column) for column in columns))
    is_now = changes.at_us <= now_us
    room = [room[:n].copy() for room in (line.cpu_m, line.memory)]
    for base, by in zip(room, (changes.cpu_m, changes.memory), strict=True):
        np.add.at(base, changes.node[is_now], by[is_now])
    to_come = Changes(*(column[~is_now] for column in changes))
    booked = np.bincount(node, minlength=n)
    return write(line, (room[0], room[1]), to_come, now_us, booked)


def fitting(horizon: Horizon, job: int, cpu_m: Ints, memory: Ints) -> Ints:
    """As ``window.fits_in``, for arrays."""
    jobs = horizon.jobs
    count = np.full(cpu_m.shape, jobs.executors[job])
    if jobs.cpu_m[job] > 0:
        count = np.minimum(count, cpu_m // jobs.cpu_m[job])
    if jobs.memory_bytes[job] > 0:
        count = np.minimum(count, memory // jobs.memory_bytes[job])
    fits: Ints = np.maximum(count, 0)
    return fits


def useful(horizon: Horizon, job: int) -> Ints:
    """As ``window.candidates``."""
    fleet, line, kind = horizon.fleet, horizon.line, horizon.plan.kind
    fits = fitting(horizon, job, line.whole_cpu_m, line.whole_memory)
    is_of_use = (fits > 0) & horizon.jobs.eligible[job]
    is_like = is_of_use & (line.jobs == 0) & ~fleet.is_on
    is_like &= line.whole_cpu_m == fleet.capacity_cpu_m
    is_like &= line.whole_memory == fleet.capacity_memory
    alike = np.flatnonzero(is_like)
    alike = alike[np.argsort(kind[alike], kind="stable")]
    ahead = np.arange(alike.shape[0]) - np.searchsorted(kind[alike], kind[alike])
    is_of_use[alike[ahead * fits[alike] >= horizon.jobs.executors[job]]] = False
    return np.flatnonzero(is_of_use)


def steps_of(line: Timeline, node: Ints) -> Ints:
    """Return the steps (d, k) of nodes, END where there is none."""
    rows, step = [], line.head[node]
    while (step != END).any():
        rows.append(step)
        step = np.where(step == END, END, line.after[step])
    return np.array(rows, dtype=np.int64).reshape(len(rows), node.shape[0])


def sheet_of(horizon: Horizon, job: int) -> Sheet:
    """Return what of the horizon concerns a job."""
    fleet, jobs, line = horizon.fleet, horizon.jobs, horizon.line
    node = useful(horizon, job)
    step = steps_of(line, node)
    is_step = step != END
    at_us = np.where(is_step, line.at_us[step], FOREVER_US)
    until_us = np.full_like(at_us, FOREVER_US)
    until_us[:-1] = at_us[1:]
    cpu_m, memory = line.cpu_m[step], line.memory[step]
    is_on, off_us = fleet.is_on[node], horizon.off_us[node]
    cores = np.maximum(fleet.capacity_cpu_m[node].astype(np.float64), 1.0) / 1000.0
    ties = 1.0 / (TIE_NODE * cores)
    ties[line.jobs[node] == 0] += 1.0 / TIE_EMPTY
    changes = np.concatenate((line.at_us[:1], at_us[1:][is_step[1:]], [FOREVER_US]))
    return Sheet(
        int(jobs.cpu_m[job]),
        int(jobs.executors[job]),
        node,
        fleet.is_cloud[node],
        np.maximum(fleet.reboot_us[node], 0),
        fleet.min_billing_us[node],
        np.where(is_on, off_us, 0),
        np.where(is_on, horizon.ready_us[node], 0),
        np.where(is_on, np.maximum(off_us, horizon.now_us + 1), 0),
        horizon.plan.weight[node] / HOUR_US,
        ties,
        1.0 / (TIE_LEFT * cores),
        at_us,
        until_us,
        fitting(horizon, job, cpu_m, memory),
        cpu_m,
        (cpu_m < line.whole_cpu_m[node]) | (memory < line.whole_memory[node]),
        thinned(np.unique(changes), horizon.plan.starts * LOOKS),
    )


def thinned(moments: Ints, most: int) -> Ints:
    """Return at most so many moments, or all if they are no more; the last two in any case.

    Those to come soon are kept, later ones ever fewer: on a large fleet the first fifty changes may
    all lie within some seconds, and a job that waits for minutes has to find its place too.
    """
    last = moments.shape[0] - 1
    if last < most:
        return moments
    kept = np.unique(np.geomspace(1, last, most - 2).astype(np.int64))
    kept_moments: Ints = moments[np.concatenate(([0], kept[kept < last - 1], [last - 1, last]))]
    return kept_moments


def look_at(sheet: Sheet, window: Window) -> tuple[Offer, int, float]:
    """As ``window.weigh``: the offer, how many fit in all, what no cover costs less than."""
    start_us, stop_us = window.start_us, window.start_us + window.hold_us
    is_in = (sheet.at_us < stop_us) & (sheet.until_us > start_us)
    fit = np.where(is_in, sheet.fits, sheet.need).min(axis=0, initial=sheet.need)
    is_warm = sheet.warm_us > start_us
    boot_us = np.where(is_warm, np.maximum(sheet.ready_us - start_us, 0), sheet.reboot_us)
    fit[boot_us > window.wait_us] = 0
    if window.mode == LOCAL:
        fit[sheet.is_cloud] = 0
    total = int(fit.sum())
    if total < sheet.need:
        return Offer(fit, fit), total, np.inf
    from_us = np.maximum(sheet.at_us, start_us)
    until_us = np.minimum(sheet.until_us, stop_us)
    span_us = np.where(is_in, until_us - from_us, 0)
    billed_us = np.maximum(np.minimum(until_us, sheet.stays_us) - from_us, 0)
    on_us = np.where(sheet.is_busy, span_us, np.where(is_in, billed_us, 0)).sum(axis=0)
    free = (sheet.free * (span_us // MS)).sum(axis=0)
    more_us = window.hold_us - on_us
    more_us = np.where(on_us == 0, np.maximum(more_us, sheet.billing_us), more_us)
    left = np.maximum(free - fit * (sheet.cpu_m * (window.hold_us // MS)), 0).astype(np.float64)
    tie_us = float(window.hold_us) * sheet.ties + left * sheet.left_free
    nano = ((more_us.astype(np.float64) + tie_us) * sheet.price).astype(np.int64)
    is_used = fit > 0
    least = float(sheet.need) * float((nano[is_used] / fit[is_used]).min())
    if window.mode == LOCAL:
        return Offer(fit, nano), total, least
    clouds = nano[is_used & sheet.is_cloud]
    if not clouds.size:
        return Offer(fit, nano), 0, np.inf
    return Offer(fit, nano), total, max(least, float(clouds.min()))


def worth_taking(offer: Offer, need: int) -> Ints:
    """Return the candidates that a cheapest cover may use, in order: the cheapest of each fit."""
    used = np.flatnonzero(offer.fit > 0)
    fit, nano = offer.fit[used], offer.nano[used]
    order = np.lexsort((nano, fit))
    rank = np.arange(order.shape[0]) - np.searchsorted(fit[order], fit[order])
    return np.sort(used[order[rank * fit[order] < need]])


def cheapest(sheet: Sheet, offer: Offer, nodes: int) -> tuple[int, Ints]:
    """Return the least cost of all executors, and their counts per node (n,).

    As ``window.cover`` and ``window.counts_of``.
    """
    need, chosen = sheet.need, worth_taking(offer, sheet.need)
    least = np.full(need + 1, FOREVER_US)
    least[0] = 0
    each, taken = np.arange(need + 1), np.zeros((chosen.shape[0], need + 1), dtype=np.int64)
    for row, i in enumerate(chosen.tolist()):
        rest = np.maximum(each - offer.fit[i], 0)
        cost = least[rest] + offer.nano[i]
        is_less = cost < least
        least[is_less] = cost[is_less]
        taken[row, is_less] = (each - rest)[is_less]
    counts, rest_of = np.zeros(nodes, dtype=np.int64), need
    for row in range(chosen.shape[0] - 1, -1, -1):
        counts[sheet.node[chosen[row]]] = taken[row, rest_of]
        rest_of -= int(taken[row, rest_of])
    return int(least[need]), counts


def windows_of(sheet: Sheet, horizon: Horizon, job: int) -> list[Window]:
    """Return the first windows for each wait for boots, as ``value.place`` tries them."""
    runs = [(LOCAL, int(horizon.jobs.local_us[job]))]
    if sheet.is_cloud.any():
        runs.append((HYBRID, int(horizon.jobs.hybrid_us[job])))
    waits = np.unique(np.concatenate(([0], sheet.reboot_us)))
    return [
        Window(mode, horizon.now_us, wait_us, wait_us + run_us)
        for wait_us in waits.tolist()
        for mode, run_us in runs
    ]


def place(horizon: Horizon, job: int, taste: Taste) -> Spot:
    """As ``value.place``."""
    sheet, wish, tries = sheet_of(horizon, job), wish_of(horizon, job), horizon.plan.starts
    judge, best = Judge(wish, taste, tries), nowhere(horizon.off_us.shape[0], 0)
    for first in windows_of(sheet, horizon, job):
        best = better_start(sheet, judge, first, horizon.fleet.is_cloud, best)
    if best.mode == 0 and sheet.moments.shape[0] > tries:
        last = soonest_start(sheet, horizon, job)
        if last.end_us < wish.deadline_us:
            return last
    return best


def better_start(sheet: Sheet, judge: Judge, first: Window, is_cloud: Bools, best: Spot) -> Spot:
    """As ``value.better``."""
    (wish, taste, tries), moments = judge, sheet.moments
    start_us, tries = first.start_us, judge.tries * LOOKS
    while start_us < wish.deadline_us - first.hold_us and tries > 0:
        window = first._replace(start_us=start_us)
        if charge_of(wish, window, taste.charge) >= best.value:
            break
        offer, fits, least_nano = look_at(sheet, window)
        tries -= 1
        if fits >= sheet.need:
            best = with_soonest(best, window)
        if fits >= sheet.need and value_of(wish, window, least_nano, taste) < best.value:
            tries -= LOOKS - 1
            nano, counts = cheapest(sheet, offer, is_cloud.shape[0])
            worth = value_of(wish, window, float(nano), taste)
            if worth < best.value and (first.mode == LOCAL or is_hybrid(counts, is_cloud)):
                end_us = start_us + first.hold_us
                best = Spot(worth, first.mode, start_us, end_us, best.soon_us, counts)
        begin, end = np.searchsorted(moments, (start_us, start_us + first.hold_us), side="right")
        start_us = int(moments[begin])
        if end < moments.shape[0] - 1:
            start_us = min(start_us, int(moments[end]) - first.hold_us)
    return best


def place_late(horizon: Horizon, job: int) -> Spot:
    """As ``value.place_late``."""
    return soonest_start(sheet_of(horizon, job), horizon, job)


def soonest_start(sheet: Sheet, horizon: Horizon, job: int) -> Spot:
    """As ``value.soonest``."""
    best = nowhere(horizon.off_us.shape[0], FOREVER_US)
    for first in windows_of(sheet, horizon, job):
        best = sooner_start(sheet, first, horizon.fleet.is_cloud, best, horizon.plan.starts)
    return best


def sooner_start(sheet: Sheet, first: Window, is_cloud: Bools, best: Spot, tries: int) -> Spot:
    """As ``value.sooner``."""
    last = sheet.moments.shape[0] - 2
    tries *= LOOKS  # a start is only looked at until one is found
    for k in range(min(last + 1, tries)):
        start_us = int(sheet.moments[k if k < tries - 1 else last])
        end_us = start_us + first.hold_us
        if end_us >= best.end_us:
            break
        offer, fits, _ = look_at(sheet, first._replace(start_us=start_us))
        if fits >= sheet.need:
            _, counts = cheapest(sheet, offer, is_cloud.shape[0])
            mode = HYBRID if is_hybrid(counts, is_cloud) else LOCAL
            return Spot(0.0, mode, start_us, end_us, start_us, counts)
    return best


#: These for those: the rest of planning stays as it is.
INSTEAD: Mapping[Callable[..., Any], Callable[..., Any]] = MappingProxyType(
    {
        timeline.fill: fill,
        value.place: place,
        value.place_late: place_late,
        upkeep.keep_all: keep_all,
    }
)


def bound(kernels: Iterable[Callable[..., Any]]) -> dict[str, Any]:
    """Return kernels by name, each bound to those above it, with these in their places."""
    known: dict[str, Any] = {}
    for kernel in kernels:
        known[kernel.__name__] = rebound(INSTEAD.get(kernel, kernel), known)
    return known


#: ``upkeep.renew`` with places found by whole arrays.
renew: Callable[..., int] = bound(BUNDLED)["renew"]
