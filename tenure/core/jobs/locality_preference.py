"""Executors of a job over a dataset, nearer its blocks: cost first, then tiers.

Theory of operation. A policy chooses nodes by what they cost, not by where blocks lie. Before its
answer is enacted, executors go to nodes on which their blocks can be read faster, as long as the
job costs no more there, ends no later, and nobody who was promised a place is worse off: where the
queue is planned no room is taken that a planned start counts on, and no node is left that one
expects to be on; else the schedule of those who wait is foreseen with both, and keeps all deadlines
that it kept. Nodes of which it is not known what lies there take nobody for their blocks' sake. All
of it is bounded: some blocks stand for all, the nodes with most of them for those with any. Owns
nothing, reads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tenure.core.blocks import replicas
from tenure.core.datasets import prefetch_inputs, reads
from tenure.core.jobs import executor_inputs, slow_decisions
from tenure.core.jobs.slow_decisions import Choice, Head
from tenure.core.state import reservations
from tenure.core.state.context import Context
from tenure.model.dataset import Location
from tenure.model.job import Job
from tenure.model.locality import Read, Site
from tenure.model.placing import NEVER, Placed
from tenure.model.resources import Resources

#: Blocks that stand for all, and nodes that are looked at: some milliseconds, uncompiled.
MOST_BLOCKS, MOST_SITES = 32, 64
#: With more jobs waiting nothing is exchanged: to foresee them twice would take too long. Nor is it
#: once that many were foreseen in a transaction: all executors of a lost node come at once.
MOST_BEHIND = 64
#: Planned starts beyond which it is not asked what they count on; as many as ``BOOKED`` take about
#: as long to be gone through as one who waits to be foreseen.
MOST_BOOKED, BOOKED = 1000, 64

#: How what a job's record says of such a choice begins.
NEARER = "nearer its blocks"


def choose(ctx: Context, head: Head, numbers: Sequence[int] = (), *, by: str = "") -> Choice:
    """Return where a job goes whose policy has chosen ``head.quick``: there, or nearer its blocks.

    ``numbers`` are the blocks that its executors are to read, none: all of its dataset. ``by`` is
    who chose, where the policy is slow.
    """
    stays = Choice(head.quick, by)
    if head.job.spec.dataset is None or _are_many(ctx, head.job):
        return stays
    places = _places(ctx, head.job, numbers)
    sites = _sites(ctx, head, places)
    reads = _reads(ctx, head.job, places)
    found = ctx.localizer.nearer(sites, reads) if reads else None
    if found is None:
        return stays
    placed = ctx.placer.recheck(head.here.view, head.ask, found.counts, ctx.now_us)
    if placed is None or not _is_as_good(placed, head.quick) or _hurts(ctx, head, placed):
        return stays
    was = ", ".join(f"{count} on {node}" for node, count in head.quick.counts)
    note = f"{NEARER} at no greater cost than where {by or head.job.spec.policy} had it: {was}"
    return Choice(placed, note)


def _are_many(ctx: Context, job: Job) -> bool:
    if reservations.is_planned(ctx):
        booked = len(ctx.tables.reservations)
        return booked > MOST_BOOKED or not _may_foresee(ctx, booked // BOOKED)
    return len(ctx.index.waiting_jobs) > MOST_BEHIND + (job.id in ctx.index.waiting_jobs)


def _places(ctx: Context, job: Job, numbers: Sequence[int]) -> dict[int, tuple[Location, ...]]:
    """Return the copies that can be read now of some of the blocks, by the block's number."""
    given = job.spec.dataset
    assert given is not None
    most = min(MOST_BLOCKS, prefetch_inputs.most(ctx))
    some = numbers[:most] if numbers else executor_inputs.some_of(given.blocks, most)
    blocks = {number: ctx.tables.blocks.get(given.key(number)) for number in some}
    return {n: replicas.offered(ctx, b) for n, b in blocks.items() if b is not None}


def _reads(ctx: Context, job: Job, places: Mapping[int, tuple[Location, ...]]) -> list[Read]:
    given = job.spec.dataset
    assert given is not None
    prefetch_inputs.learn_rates(ctx)
    return [
        reads.read_of(ctx, given, ctx.tables.blocks[given.key(number)], copies, number)
        for number, copies in places.items()
    ]


def _sites(ctx: Context, head: Head, places: Mapping[int, tuple[Location, ...]]) -> list[Site]:
    """Return the nodes that the policy chose, and those with most of the blocks.

    Nodes that take nobody have no room: blocks are near to others of their rack all the same.
    """
    chosen, view, need = dict(head.quick.counts), head.here.view, head.ask
    held = Counter(place.node for copies in places.values() for place in copies)
    holders = sorted(held, key=lambda name: (-held[name], name))
    names = list(dict.fromkeys((*chosen, *holders)))[:MOST_SITES]
    names = [name for name in (*chosen, *names[len(chosen) :]) if name in head.here.position]
    until_us = head.quick.delay_us + head.quick.run_us
    prices = ctx.placer.prices_nano(view, names, until_us)
    awaited, taken = _counted_on(ctx, head.job, names, ctx.now_us + until_us)
    sites = []
    for name, price in zip(names, prices, strict=True):
        j, count = head.here.position[name], chosen.get(name, 0)
        is_open = bool(need.eligible[j]) and view.boot_us[j] <= head.quick.delay_us
        is_open = is_open and executor_inputs.is_known(ctx, name)
        room = _fit(head, j, taken.get(name, Resources())) if is_open else 0
        stays = name in awaited and int(view.reboot_us[j]) != NEVER
        rack = head.here.nodes[j].spec.rack
        sites.append(Site(name, rack, max(room, count), count, price, stays))
    return sites


def _fit(head: Head, j: int, taken: Resources) -> int:
    """Return how many executors fit a node beside what planned starts take there."""
    view, need, most = head.here.view, head.ask, head.ask.executors
    if need.cpu_m:
        most = min(most, (int(view.free_cpu_m[j]) - taken.cpu_m) // need.cpu_m)
    if need.memory_bytes:
        free_bytes = int(view.free_memory[j]) - taken.memory_bytes
        most = min(most, free_bytes // need.memory_bytes)
    return max(0, most)


def _counted_on(
    ctx: Context, job: Job, names: Sequence[str], until_us: int
) -> tuple[set[str], dict[str, Resources]]:
    """Return on which of some nodes others have planned starts, and what these take of each.

    Of those alone that come before a job would be over.
    """
    among, awaited = set(names), set[str]()
    cpu_m, memory_bytes = Counter[str](), Counter[str]()
    for reservation in ctx.tables.reservations.values():
        other = ctx.tables.jobs.get(reservation.job)
        if other is None or other.id == job.id:
            continue
        need, is_before = other.spec.request, reservation.start_us < until_us
        for name, count in reservation.counts:
            if name not in among:
                continue
            awaited.add(name)
            if is_before:
                cpu_m[name] += need.cpu_m * count
                memory_bytes[name] += need.memory_bytes * count
    return awaited, {name: Resources(cpu_m[name], memory_bytes[name]) for name in cpu_m}


def _is_as_good(found: Placed, quick: Placed) -> bool:
    """Whether a place costs no more than another, and does not end later."""
    ends_us = [one.delay_us + one.run_us for one in (found, quick)]
    return found.cost_nano <= quick.cost_nano and ends_us[0] <= ends_us[1]


def _hurts(ctx: Context, head: Head, placed: Placed) -> bool:
    """Whether one who waits and would be in time behind the policy's place would not be now.

    Taken for granted once as many were foreseen in this transaction as one may.
    """
    if reservations.is_planned(ctx):
        return False
    behind = len(ctx.index.waiting_jobs) - (head.job.id in ctx.index.waiting_jobs)
    return not _may_foresee(ctx, behind) or slow_decisions.late_behind(ctx, head, placed)


def _may_foresee(ctx: Context, jobs: int) -> bool:
    """Whether so many may be foreseen in this transaction besides those that were; count them."""
    if ctx.work.foreseen + jobs > MOST_BEHIND:
        return False
    ctx.work.foreseen += jobs
    return True
