"""Places in a plan against brute force: every start, wait for boots and set of three nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.placing import Running
from tenure.model.units import FOREVER_US, HOUR_US, US
from tenure.placement.arrays import Ends, Fleet, Jobs, ends_of, fleet_of
from tenure.placement.decisions.decide import HYBRID, LOCAL, PLANNED
from tenure.placement.planner import COMPILED_BOUNDS
from tenure.placement.planning.precedence import settle
from tenure.placement.planning.timeline import timeline_of
from tenure.placement.planning.value import Spot, place, place_late, taste_of
from tenure.placement.planning.window import TIE_EMPTY, TIE_LEFT, TIE_NODE, Horizon
from tenure.placement.queue.plan import open_plan
from tests.unit.placement.build import GIB, N, view_of

NOW_US = 1000 * US
JOBS = 4
#: What the product's logarithm may be off by in the value of two places.
ROUGH = 0.003

node: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    cores=st.sampled_from((2, 4, 8)),
    usd_per_h=st.sampled_from((0.0, 3.6, 14.4)),
    is_cloud=st.booleans(),
    is_on=st.booleans(),
    remaining_s=st.sampled_from((0, 30, 60)),
    boot_s=st.sampled_from((0, 20, 45)),
    reboot_s=st.sampled_from((0, 20, 45)),
    min_billing_s=st.sampled_from((0, 60)),
)
#: Node, cores, GiB, seconds that it still runs.
runs = st.tuples(
    st.integers(0, 2), st.integers(0, 3), st.integers(0, 3), st.sampled_from((1, 10, 50))
)


class Wanted(NamedTuple):
    executors: int
    cores: int
    gib: int
    run_s: int
    slower_s: int
    slack_s: int | None
    nodes: tuple[bool, bool, bool]


wanted = st.builds(
    Wanted,
    executors=st.integers(1, 6),
    cores=st.integers(0, 4),
    gib=st.integers(0, 9),
    run_s=st.sampled_from((10, 40, 100)),
    slower_s=st.sampled_from((0, 3, 30)),
    slack_s=st.sampled_from((1, 60, 600, None)),
    nodes=st.tuples(st.booleans(), st.booleans(), st.just(True)),
)


class Use(NamedTuple):
    """Room of a node that is taken from a moment to another."""

    node: int
    cpu_m: int
    memory: int
    from_us: int
    until_us: int


class Cover(NamedTuple):
    """Nodes that hold all executors from ``start_us`` to ``end_us``, and what they cost."""

    mode: int
    start_us: int
    end_us: int
    nano: int


@dataclass
class Oracle:
    """A fleet as lists of what is used when; prices are ``weight``, as in a plan."""

    fleet: Fleet
    weight: list[int]
    uses: list[Use] = field(default_factory=list)

    def room(self, j: int, at_us: int) -> tuple[int, int]:
        taken = [u for u in self.uses if u.node == j and u.from_us <= at_us < u.until_us]
        cpu_m = int(self.fleet.capacity_cpu_m[j]) - sum(u.cpu_m for u in taken)
        return cpu_m, int(self.fleet.capacity_memory[j]) - sum(u.memory for u in taken)

    def changes(self, nodes: list[int]) -> list[int]:
        """Return when the room on nodes changes, the beginning first."""
        times = sorted({at for u in self.uses for at in (u.from_us, u.until_us) if at > NOW_US})
        return [
            NOW_US,
            *(at for at in times if any(self.room(j, at) != self.room(j, at - 1) for j in nodes)),
        ]

    def parts(self, j: int, start_us: int, end_us: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a window in which room and state of a node are one."""
        cuts = {at for u in self.uses if u.node == j for at in (u.from_us, u.until_us)}
        cuts.add(NOW_US + int(self.fleet.remaining_us[j]))
        inner = sorted(at for at in cuts if start_us < at < end_us)
        yield from zip([start_us, *inner], [*inner, end_us], strict=True)

    def fits(self, job: Wanted, j: int, start_us: int, end_us: int) -> int:
        """Return how many executors fit a node for the whole window, by counting."""
        least = job.executors
        for at_us, _ in self.parts(j, start_us, end_us):
            cpu_m, memory = self.room(j, at_us)
            count = 0
            while count < least and (not job.cores or 1000 * job.cores * (count + 1) <= cpu_m):
                if job.gib and GIB * job.gib * (count + 1) > memory:
                    break
                count += 1
            least = min(least, count)
        return least

    def can_begin(self, j: int, start_us: int, wait_us: int) -> bool:
        """Return whether a node can work so soon after a start."""
        fleet = self.fleet
        boot_us = int(fleet.reboot_us[j])
        if fleet.is_on[j] and start_us < max(NOW_US + int(fleet.remaining_us[j]), NOW_US + 1):
            boot_us = NOW_US + int(fleet.boot_us[j]) - start_us
        return boot_us <= wait_us

    def nano(self, job: Wanted, j: int, start_us: int, end_us: int) -> int:
        """Return what using a node costs beside what is on anyway, ties and all."""
        fleet, on_us, free = self.fleet, 0, 0
        whole = int(fleet.capacity_cpu_m[j]), int(fleet.capacity_memory[j])
        for at_us, until_us in self.parts(j, start_us, end_us):
            room, stays_us = self.room(j, at_us), NOW_US + int(fleet.remaining_us[j])
            if room != whole or (fleet.is_on[j] and until_us <= stays_us):
                on_us += until_us - at_us
            free += room[0] * (until_us - at_us) // 1000
        more_us = end_us - start_us - on_us
        if on_us == 0:
            more_us = max(more_us, int(fleet.min_billing_us[j]))
        used = self.fits(job, j, start_us, end_us) * 1000 * job.cores * (end_us - start_us) // 1000
        cores = whole[0] / 1000
        tie_us = (end_us - start_us) / (TIE_NODE * cores) + max(0, free - used) / TIE_LEFT / cores
        if not any(u.node == j for u in self.uses):
            tie_us += (end_us - start_us) / TIE_EMPTY
        return int((more_us + tie_us) * self.weight[j] / HOUR_US)

    def covers(self, job: Wanted, *, is_late: bool) -> Iterator[Cover]:
        """Yield the cheapest cover of each window, of those that plans look at."""
        whole = self.fleet.capacity_cpu_m, self.fleet.capacity_memory
        nodes = [
            j
            for j in range(len(self.weight))
            if job.nodes[j] and 1000 * job.cores <= whole[0][j] and GIB * job.gib <= whole[1][j]
        ]
        changes = self.changes(nodes)
        waits = {0, *(int(self.fleet.reboot_us[j]) for j in nodes)}
        for mode, run_us in ((LOCAL, US * job.run_s), (HYBRID, US * (job.run_s + job.slower_s))):
            for wait_us in waits:
                hold_us = wait_us + run_us
                starts = {*changes}
                if not is_late:
                    starts |= {at - hold_us for at in changes if at - hold_us > NOW_US}
                for start_us in starts:
                    near = [j for j in nodes if mode == HYBRID or not self.fleet.is_cloud[j]]
                    able = [j for j in near if self.can_begin(j, start_us, wait_us)]
                    best = self.cheapest(job, able, start_us, start_us + hold_us, mode)
                    if best is not None:
                        yield Cover(mode, start_us, start_us + hold_us, best)

    def cheapest(
        self, job: Wanted, nodes: list[int], start_us: int, end_us: int, mode: int
    ) -> int | None:
        """Return the least cost of nodes that hold all executors; of mode hybrid one is cloud."""
        fits = {j: self.fits(job, j, start_us, end_us) for j in nodes}
        costs = [
            sum(self.nano(job, j, start_us, end_us) for j in chosen)
            for count in range(1, len(nodes) + 1)
            for chosen in combinations(nodes, count)
            if sum(fits[j] for j in chosen) >= job.executors
            and all(fits[j] > 0 for j in chosen)
            and (mode == LOCAL or any(self.fleet.is_cloud[j] for j in chosen))
        ]
        return min(costs, default=None)


def value_by_hand(job: Wanted, cover: Cover, core_weight: int, patience: float) -> float:
    """Return the value of a place, by the formula of ``value`` as it is printed there."""
    run_us, deadline_us = US * job.run_s, deadline_of(job)
    full_nano = max(core_weight * job.executors * job.cores * run_us / HOUR_US, 1.0)
    ratio = cover.nano / full_nano
    price = ratio if ratio <= 1 else 1 + math.log(ratio)
    charge = max((1 - patience) / (4 * max(patience, 0.001)), 0.002)
    value = price + charge * (cover.end_us - NOW_US - run_us) / run_us
    if ratio > 1 and deadline_us < FOREVER_US:
        latest_us = deadline_us - (cover.end_us - cover.start_us)
        part = (cover.start_us - NOW_US) / (latest_us - NOW_US)
        value -= patience**2 / 2 * (price - 1) * part
    return value


def deadline_of(job: Wanted) -> int:
    return FOREVER_US if job.slack_s is None else NOW_US + US * (job.run_s + job.slack_s)


def jobs_of(rows: list[Wanted], nodes: int) -> Jobs:
    columns: list[Any] = [
        [PLANNED for _ in rows],
        [r.executors for r in rows],
        [1000 * r.cores for r in rows],
        [GIB * r.gib for r in rows],
        [US * r.run_s for r in rows],
        [US * (r.run_s + r.slower_s) for r in rows],
        [deadline_of(r) for r in rows],
    ]
    made: list[Any] = [np.array(column, dtype=np.int64) for column in columns]
    made.append(np.array([r.nodes[:nodes] for r in rows]))
    return Jobs(*made)


def fleet_with(rows: list[dict[str, Any]], running: list[Any]) -> tuple[Fleet, Ends, list[Use]]:
    """Return nodes of which a part is in use, what will be given back, and the same as uses."""
    nodes = []
    for k, row in enumerate(rows):
        unset = {"remaining_s": 0} if not row["is_on"] else {"boot_s": 0}
        nodes.append(N(f"n{k}", gib=4 * row["cores"], **{**row, **unset}))
    fleet, uses = fleet_of(view_of(nodes)), []
    free_cpu_m, free_memory = fleet.free_cpu_m.copy(), fleet.free_memory.copy()
    is_on, boot_us = fleet.is_on.copy(), fleet.boot_us.copy()
    for j, cores, gib, left_s in running:
        if j < len(rows) and free_cpu_m[j] >= 1000 * cores and free_memory[j] >= GIB * gib:
            free_cpu_m[j] -= 1000 * cores
            free_memory[j] -= GIB * gib
            is_on[j], boot_us[j] = True, 0
            uses.append(Use(j, 1000 * cores, GIB * gib, NOW_US, NOW_US + US * left_s))
    columns: Any = zip(*((u.node, u.cpu_m, u.memory, u.until_us) for u in uses), strict=True)
    held = Running(*(np.array(c, dtype=np.int64) for c in (columns if uses else [[]] * 4)))
    own = fleet._replace(
        free_cpu_m=free_cpu_m, free_memory=free_memory, is_on=is_on, boot_us=boot_us
    )
    return own, ends_of(held, NOW_US), uses


def check_place(oracle: Oracle, job: Wanted, spot: Spot) -> None:
    """All executors are on nodes that fit them, and the mode says whether one is cloud."""
    used = [j for j in range(len(oracle.weight)) if spot.counts[j]]
    assert int(spot.counts.sum()) == job.executors
    for j in used:
        assert job.nodes[j]
        assert spot.counts[j] <= oracle.fits(job, j, spot.start_us, spot.end_us)
    assert (spot.mode == HYBRID) == any(oracle.fleet.is_cloud[j] for j in used)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(node, min_size=1, max_size=3) | node.map(lambda row: [row] * 3),
    st.lists(runs, max_size=6),
    st.lists(wanted, min_size=JOBS, max_size=JOBS),
    st.sampled_from((0.0, 0.25, 1.0)),
)
def test_no_place_is_better(
    rows: list[dict[str, Any]], running: list[Any], queue: list[Wanted], patience: float
) -> None:
    fleet, ends, uses = fleet_with(rows, running)
    jobs, taste = jobs_of(queue, len(rows)), taste_of(patience)
    plan = open_plan(fleet, jobs, patience, COMPILED_BOUNDS)
    plan.since_us[:] = NOW_US
    line = timeline_of(fleet, ends, NOW_US, 6 * len(rows) * JOBS)
    off_us, ready_us = NOW_US + fleet.remaining_us, NOW_US + fleet.boot_us
    horizon = Horizon(fleet, off_us, ready_us, jobs, plan, line, NOW_US)
    oracle = Oracle(fleet, plan.weight.tolist(), uses)
    for number, job in enumerate(queue):
        found, late = place(horizon, number, taste), place_late(horizon, number)
        worth = [
            value_by_hand(job, cover, plan.core_weight, patience)
            for cover in oracle.covers(job, is_late=False)
            if cover.end_us < deadline_of(job)
        ]
        assert (found.mode != 0) == bool(worth)
        if worth:
            assert abs(found.value - min(worth)) <= ROUGH
        ends_us = [cover.end_us for cover in oracle.covers(job, is_late=True)]
        assert (late.mode != 0) == bool(ends_us)
        if ends_us:
            assert late.end_us == min(ends_us)
            check_place(oracle, job, late)
        spot = found if found.mode else late
        if spot.mode:
            check_place(oracle, job, spot)
            settle(horizon, number, spot, found.mode == 0)
            oracle.uses += [
                Use(
                    j,
                    int(n) * 1000 * job.cores,
                    int(n) * GIB * job.gib,
                    spot.start_us,
                    spot.end_us,
                )
                for j, n in enumerate(spot.counts)
                if n
            ]
