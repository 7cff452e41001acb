"""The ledger: what every node-second cost, and whose it was.

A node costs from the moment its power-on command is issued until power-off is confirmed. While it
is on, shares are provisional; at switch-off they are computed once more from real starts and ends.
The shares of one interval plus its services and idle parts equal its cost exactly, because every
part is a difference of one rounded function (``cost_nano``). Owns the records of intervals and
stays.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tenure.core.state.context import Context
from tenure.model.ledger import Interval, Stay
from tenure.model.node import Node, Power
from tenure.model.units import cost_nano

#: Stays kept of one interval: a report sorts them all, and each is a record.
MAX_STAYS = 1_000


@dataclass(frozen=True, slots=True)
class Split:
    """One interval's cost until some moment, in nano-dollars, by cause."""

    cost_nano: int
    shares: dict[str, int]
    services_nano: int
    idle_nano: int


def attribute(interval: Interval, stays: Iterable[Stay], until_us: int) -> Split:
    """Split an interval's cost by Eq. 1 and 8 with the real starts and ends of its stays.

    In the order of their starts, each stay pays for the time by which it extends what earlier ones
    had already paid for (delta t of Eq. 4 and 11); the time before the first stay (boot) falls to
    it, and so does the rest of the minimum billing period, for which it is on; gaps and the tail
    are idle.
    """
    start, end = interval.on_us, max(until_us, interval.on_us, interval.billed_us)
    price = interval.price_nano_per_h
    paid_us, shares, services, idle = start, dict[str, int](), 0, 0

    def part(until: int) -> int:
        return cost_nano(price, until - start) - cost_nano(price, paid_us - start)

    is_first = True
    for stay in sorted(stays, key=lambda s: (s.start_us, s.id)):
        stop = min(end if stay.end_us is None else stay.end_us, end)
        if stay.start_us > paid_us and not is_first:
            gap_end = min(stay.start_us, end)
            idle += part(gap_end)
            paid_us = max(paid_us, gap_end)
        if is_first:
            stop = max(stop, interval.billed_us)
        is_first = False
        if stop <= paid_us:
            continue
        amount = part(stop)
        if stay.job:
            shares[stay.job] = shares.get(stay.job, 0) + amount
        else:
            services += amount
        paid_us = stop
    idle += part(end)
    whole = cost_nano(price, end - start)
    return Split(whole, shares, services, idle)


def open_interval(ctx: Context, node: Node) -> None:
    """Begin to count a node as on from now; already counted is fine."""
    if current(ctx, node.name) is not None:
        return
    key = f"{node.name}@{ctx.now_us}"
    spec = node.spec
    row = Interval(
        key,
        node.name,
        spec.site,
        spec.generation,
        spec.price_nano_per_h,
        on_us=ctx.now_us,
        billed_us=ctx.now_us + spec.power.min_billing_us if node.is_switchable else 0,
        boot_us=None if node.power is Power.BOOTING else 0,
        idle_w=spec.power.idle_w,
        peak_w=spec.power.peak_w,
        cpu_m=_cores(node),
    )
    ctx.put_interval(row)


def _cores(node: Node) -> int:
    """Return all cores of a node, those kept for the machine included; 0 where not known yet."""
    return node.capacity.cpu_m + node.spec.reserve.cpu_m if node.capacity.cpu_m else 0


def note_on(ctx: Context, name: str) -> None:
    """Note that a node that costs has booted, and the cores that it came up with.

    One that was on with other cores begins a new interval: its past was drawn by those.
    """
    row, node = current(ctx, name), ctx.tables.nodes[name]
    if row is None or node.power is not Power.ON:
        return
    is_booting, cpu_m = row.boot_us is None, _cores(node) or row.cpu_m
    boot_us = ctx.now_us - row.on_us if row.boot_us is None else row.boot_us
    if not is_booting and row.cpu_m not in (0, cpu_m):
        _renew(ctx, node, row)
    elif is_booting or row.cpu_m != cpu_m:
        ctx.put_interval(replace(row, boot_us=boot_us, cpu_m=cpu_m))


def current(ctx: Context, node: str) -> Interval | None:
    """Return the node's open interval, or None when it does not cost."""
    key = ctx.index.interval.get(node)
    return ctx.tables.intervals.get(key) if key else None


def billed_us(ctx: Context, node: str) -> int:
    """Return when the minimum billing period of a node ends, 0 where it does not cost."""
    row = current(ctx, node)
    return row.billed_us if row is not None else 0


def close_interval(ctx: Context, node: str) -> None:
    """End the node's open interval now and settle its shares for good."""
    row = current(ctx, node)
    if row is None:
        return
    stays = stays_on(ctx, node)
    split = attribute(row, stays, ctx.now_us)
    closed = replace(
        row,
        off_us=ctx.now_us,
        cost_nano=split.cost_nano,
        shares=split.shares,
        services_nano=split.services_nano,
        idle_nano=split.idle_nano,
    )
    ctx.put_interval(closed)
    for stay in stays:
        if stay.end_us is not None:
            ctx.tables.stays.drop(stay.id)
        else:
            ctx.put_stay(replace(stay, start_us=ctx.now_us))
    for job_id, amount in split.shares.items():
        job = ctx.tables.jobs.get(job_id)
        if job is not None:
            ctx.put_job(replace(job, cost_nano=job.cost_nano + amount))


def reprice(ctx: Context, node: Node) -> None:
    """Begin a new interval when what a node that is on is accounted by has changed."""
    row = current(ctx, node.name)
    spec = node.spec
    now = (spec.price_nano_per_h, spec.site, spec.generation, spec.power.idle_w, spec.power.peak_w)
    if row is None:
        return
    if (row.price_nano_per_h, row.site, row.generation, row.idle_w, row.peak_w) != now:
        _renew(ctx, node, row)


def _renew(ctx: Context, node: Node, row: Interval) -> None:
    """Begin a new interval of a node that stays on, whose minimum period goes on."""
    ctx.put_interval(replace(row, billed_us=min(row.billed_us, ctx.now_us)))
    close_interval(ctx, node.name)
    open_interval(ctx, node)
    fresh = current(ctx, node.name)
    if fresh is not None:
        ctx.put_interval(replace(fresh, billed_us=row.billed_us))


def skip(ctx: Context, name: str, step_us: int) -> None:
    """Have a node that is on cost nothing for time that the wall clock skips from now on."""
    row, node = current(ctx, name), ctx.tables.nodes.get(name)
    if row is None or node is None:
        return
    _renew(ctx, node, row)
    fresh = current(ctx, name)
    if fresh is not None:
        billed_us = row.billed_us + step_us if row.billed_us > ctx.now_us else row.billed_us
        ctx.put_interval(replace(fresh, on_us=ctx.now_us + step_us, billed_us=billed_us))
    for stay in stays_on(ctx, name):
        ctx.put_stay(replace(stay, start_us=ctx.now_us + step_us))


def roll(ctx: Context) -> None:
    """Begin new intervals on nodes that had many stays since they were switched on.

    Stays are kept until their interval is settled; a node that is never off would gather them for
    ever. The first stay in the new interval pays for the gap before it, else shares do not change.
    """
    for node in [n for n in ctx.tables.nodes.values() if n.is_switchable]:
        row = current(ctx, node.name)
        if row is not None and len(ctx.index.stays.get(node.name, ())) > MAX_STAYS:
            _renew(ctx, node, row)


def stays_on(ctx: Context, node: str) -> list[Stay]:
    """Return the stays on a node since its interval began."""
    return [ctx.tables.stays[key] for key in sorted(ctx.index.stays.get(node, ()))]


def begin_stay(ctx: Context, key: str, node: str, job: str) -> None:
    """Note that something occupies a switchable node from now on."""
    row = ctx.tables.nodes.get(node)
    if row is None or not row.is_switchable or key in ctx.tables.stays:
        return
    ctx.put_stay(Stay(key, node, job, ctx.now_us))


def end_stay(ctx: Context, key: str) -> None:
    """Note that it is gone."""
    stay = ctx.tables.stays.get(key)
    if stay is not None and stay.end_us is None:
        ctx.put_stay(replace(stay, end_us=ctx.now_us))


def report(ctx: Context, since_us: int, until_us: int) -> dict[str, Any]:
    """Return what ``reporting`` returns, at once."""
    work = reporting(ctx, since_us, until_us)
    try:
        while True:
            next(work)
    except StopIteration as end:
        found: dict[str, Any] = end.value
        return found


def reporting(ctx: Context, since_us: int, until_us: int) -> Generator[None, None, dict[str, Any]]:
    """Return the cost by site, generation, node and job of all intervals that touch the window.

    Amounts are nano-dollars. Intervals count whole within [since, until); an open one until
    ``until_us``. Node-on times are microseconds. Yields after each interval, for callers who must
    not work for long at a stretch; one that is closed meanwhile counts as closed.
    """
    sums: dict[str, dict[str, int]] = {"site": {}, "generation": {}, "node": {}, "job": {}}
    on_us: dict[str, int] = {}
    total, idle, services = 0, 0, 0
    for begun in list(ctx.tables.intervals.values()):
        yield
        row = ctx.tables.intervals.get(begun.id) or begun
        if (row.off_us is not None and row.off_us <= since_us) or row.on_us >= until_us:
            continue
        split = _split(ctx, row, until_us)
        total, idle = total + split.cost_nano, idle + split.idle_nano
        services += split.services_nano
        keys = {"site": row.site.value, "generation": row.generation, "node": row.node}
        for name, key in keys.items():
            sums[name][key] = sums[name].get(key, 0) + split.cost_nano
        for job, amount in split.shares.items():
            sums["job"][job] = sums["job"].get(job, 0) + amount
        end = until_us if row.off_us is None else row.off_us
        on_us[row.node] = on_us.get(row.node, 0) + max(0, end - row.on_us)
    rest = {"total": total, "idle": idle, "services": services}
    return {**rest, **{f"by_{name}": amounts for name, amounts in sums.items()}, "on_us": on_us}


def _split(ctx: Context, row: Interval, until_us: int) -> Split:
    if row.off_us is not None:
        return Split(row.cost_nano, row.shares, row.services_nano, row.idle_nano)
    return attribute(row, stays_on(ctx, row.node), until_us)
