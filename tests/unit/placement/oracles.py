"""Plain oracles: policies as written, brute force, and a queue played one decision at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tenure.model.placing import NEVER, Ask, ClusterView, Forecast, Occupied, Placed, Queued
from tenure.model.units import FOREVER_US, US, cost_nano
from tenure.placement.policies import Policies
from tests.unit.placement.build import GIB

NOW = 1_000_000 * US


def room_on(view: ClusterView, ask: Ask, index: int, *, empty: bool = False) -> int:
    """How many executors fit, by trying one after the other."""
    cpu = int((view.capacity_cpu_m if empty else view.free_cpu_m)[index])
    memory = int((view.capacity_memory if empty else view.free_memory)[index])
    count = 0
    while ask.eligible[index] and count < ask.executors:
        cpu, memory = cpu - ask.cpu_m, memory - ask.memory_bytes
        if (ask.cpu_m and cpu < 0) or (ask.memory_bytes and memory < 0):
            break
        count += 1
    return count


def in_time_nodes(view: ClusterView, ask: Ask, run_us: int, limit_us: int) -> list[int]:
    return [j for j in range(len(view.names)) if view.boot_us[j] + run_us < limit_us]


def node_sets(view: ClusterView, ask: Ask, limit_us: int) -> Iterator[tuple[str, list[int]]]:
    """The two modes and the nodes on which a run of that mode ends in time."""
    near = [j for j in range(len(view.names)) if not view.is_cloud[j]]
    yield "local", [j for j in in_time_nodes(view, ask, ask.local_us, limit_us) if j in near]
    yield "hybrid", in_time_nodes(view, ask, ask.hybrid_us, limit_us)


def holds(view: ClusterView, ask: Ask, chosen: Sequence[int], *, empty: bool = False) -> bool:
    return sum(room_on(view, ask, j, empty=empty) for j in chosen) >= ask.executors


def limit_now(view: ClusterView, ask: Ask, at_us: int, policy: str = "gio") -> int:
    """Time left to the deadline; for ever if there is none or an empty fleet would miss it."""
    if ask.deadline_us is None:
        return FOREVER_US
    limit_us = ask.deadline_us - at_us
    sets = sets_of(policy, view, ask, limit_us)
    can_be_met = any(holds(view, ask, nodes, empty=True) for _, nodes in sets)
    return limit_us if can_be_met else FOREVER_US


def sets_of(
    policy: str, view: ClusterView, ask: Ask, limit_us: int
) -> Iterator[tuple[str, list[int]]]:
    """As ``node_sets``; ``asq`` never uses both sites."""
    for mode, nodes in node_sets(view, ask, limit_us):
        is_one_site = policy == "asq" and mode == "hybrid"
        yield mode, [j for j in nodes if view.is_cloud[j]] if is_one_site else nodes


def naive(policy: str, view: ClusterView, ask: Ask) -> dict[str, int]:
    """What the list policies would place now, as their papers say it."""
    sets = dict(sets_of(policy, view, ask, limit_now(view, ask, NOW, policy)))
    if policy in {"gio", "asq"}:
        mode = "local" if holds(view, ask, sets["local"]) else "hybrid"
        return naive_greedy(view, ask, sets[mode], mode)
    chosen = sets["hybrid"] if holds(view, ask, sets["hybrid"]) else sets["local"]
    if policy == "ff":
        return naive_ff(view, ask, chosen)
    if policy == "fifo":
        return naive_round_robin(view, ask, chosen)
    if policy == "fifo_c":
        return naive_fill(view, ask, sorted(chosen, key=lambda j: not view.is_on[j]))
    assert policy == "fifo_c_free"
    return naive_fill(view, ask, sorted(chosen, key=lambda j: int(view.free_cpu_m[j])))


def more_us(view: ClusterView, j: int, until_us: int) -> int:
    """How much longer a node stays on for a job that leaves it then."""
    if not view.is_on[j]:
        until_us = max(until_us, int(view.min_billing_us[j]))
    return max(0, until_us - int(view.remaining_us[j]))


def naive_greedy(view: ClusterView, ask: Ask, nodes: Sequence[int], mode: str) -> dict[str, int]:
    run_us = ask.local_us if mode == "local" else ask.hybrid_us

    def cost_of(j: int) -> tuple[int, int, bool, int, int, str]:
        longer_us = more_us(view, j, int(view.boot_us[j]) + run_us)
        return (
            cost_nano(int(view.price[j]), longer_us),
            longer_us // 1000 * int(view.capacity_cpu_m[j]),
            bool(view.is_cloud[j]),
            int(view.free_cpu_m[j]),
            -room_on(view, ask, j),
            view.names[j],
        )

    return naive_fill(view, ask, sorted(nodes, key=cost_of))


def naive_ff(view: ClusterView, ask: Ask, chosen: Sequence[int]) -> dict[str, int]:
    """Algorithm 1 with its goto: fill the active list, switch the cheapest on, start again."""

    def rank(j: int) -> tuple[int, float, str]:
        weight = 0.8 * int(view.free_cpu_m[j]) / 1000 + 0.2 * int(view.free_memory[j]) / GIB
        return int(view.price[j]), round(weight, 9), view.names[j]

    active = sorted((j for j in chosen if view.is_on[j]), key=rank)
    unused = sorted((j for j in chosen if not view.is_on[j]), key=rank)
    while not holds(view, ask, active):
        fitting = [j for j in unused if room_on(view, ask, j) > 0]
        if not fitting:
            return {}
        active.append(fitting[0])
        unused.remove(fitting[0])
    return naive_fill(view, ask, active)


def naive_round_robin(view: ClusterView, ask: Ask, chosen: Sequence[int]) -> dict[str, int]:
    placed: dict[str, int] = {}
    while holds(view, ask, chosen) and sum(placed.values()) < ask.executors:
        for j in chosen:
            name = view.names[j]
            is_over = sum(placed.values()) == ask.executors
            if not is_over and placed.get(name, 0) < room_on(view, ask, j):
                placed[name] = placed.get(name, 0) + 1
    return placed


Key = tuple[int, int, int]


def covers(view: ClusterView, ask: Ask) -> Iterator[tuple[Key, tuple[str, ...]]]:
    """Every set of nodes that holds the job in time: the key of ``exact`` and the names.

    Eq. 16 by trying all subsets; only for a handful of nodes.
    """
    limit_us = limit_now(view, ask, NOW)
    rooms = [room_on(view, ask, j) for j in range(len(view.names))]
    for size in range(1, len(view.names) + 1):
        for used in combinations([j for j, room in enumerate(rooms) if room], size):
            is_hybrid = any(view.is_cloud[j] for j in used)
            until_us = max(int(view.boot_us[j]) for j in used)
            until_us += ask.hybrid_us if is_hybrid else ask.local_us
            if sum(rooms[j] for j in used) < ask.executors or until_us >= limit_us:
                continue
            longer = [(j, more_us(view, j, until_us)) for j in used]
            key = (
                sum(cost_nano(int(view.price[j]), us) for j, us in longer),
                sum(us // 1000 * int(view.capacity_cpu_m[j]) for j, us in longer),
                sum(int(view.free_cpu_m[j]) for j in used),
            )
            yield key, tuple(view.names[j] for j in used)


def naive_fill(view: ClusterView, ask: Ask, order: Sequence[int]) -> dict[str, int]:
    if not holds(view, ask, order):
        return {}
    placed: dict[str, int] = {}
    for j in order:
        for _ in range(room_on(view, ask, j)):
            if sum(placed.values()) < ask.executors:
                placed[view.names[j]] = placed.get(view.names[j], 0) + 1
    return placed


@dataclass
class Playback:
    """A fleet that really plays a queue: plain dictionaries, one decision at a time.

    A node left idle is switched off right after, but not before what was paid for is used up.
    """

    view: ClusterView
    running: list[Occupied]
    at_us: int = NOW

    def __post_init__(self) -> None:
        n = range(len(self.view.names))
        self.free = {j: [int(self.view.free_cpu_m[j]), int(self.view.free_memory[j])] for j in n}
        self.off_us = {j: NOW + int(self.view.remaining_us[j]) for j in n}
        self.is_on = {j: bool(self.view.is_on[j]) for j in n}
        self.ready_us = {j: NOW + int(self.view.boot_us[j]) for j in n}

    def see(self) -> ClusterView:
        n = range(len(self.view.names))
        boot = [
            max(0, self.ready_us[j] - self.at_us) if self.is_on[j] else self.view.reboot_us[j]
            for j in n
        ]
        return replace(
            self.view,
            free_cpu_m=np.array([self.free[j][0] for j in n], dtype=np.int64),
            free_memory=np.array([self.free[j][1] for j in n], dtype=np.int64),
            remaining_us=np.array([max(0, self.off_us[j] - self.at_us) for j in n], dtype=np.int64),
            is_on=np.array([self.is_on[j] for j in n], dtype=np.bool_),
            boot_us=np.array(boot, dtype=np.int64),
        )

    def start(self, ask: Ask, placed: Placed) -> Forecast:
        start_us = self.at_us + placed.delay_us
        end_us = start_us + placed.run_us
        for name, count in placed.counts:
            j = self.view.names.index(name)
            paid_us = 0
            if not self.is_on[j]:
                self.ready_us[j] = self.at_us + int(self.view.reboot_us[j])
                paid_us = self.at_us + int(self.view.min_billing_us[j])
            self.is_on[j] = True
            self.off_us[j] = max(self.off_us[j], end_us, paid_us)
            self.take(j, -count * ask.cpu_m, -count * ask.memory_bytes)
            self.running.append(Occupied(j, count * ask.cpu_m, count * ask.memory_bytes, end_us))
        return Forecast(start_us, end_us, placed.cost_nano, placed.mode)

    def take(self, j: int, cpu_m: int, memory_bytes: int) -> None:
        self.free[j][0] += cpu_m
        self.free[j][1] += memory_bytes
        assert min(self.free[j]) >= 0

    def next_end_us(self) -> int | None:
        return min((one.end_us for one in self.running), default=None)

    def go_to(self, at_us: int) -> None:
        self.at_us = at_us
        for one in [one for one in self.running if one.end_us <= at_us]:
            self.running.remove(one)
            self.take(one.node, one.cpu_m, one.memory_bytes)
        for j in self.is_on:
            if self.view.reboot_us[j] != NEVER and self.off_us[j] < at_us:
                self.is_on[j] = False

    def lost_us(self, ask: Ask, policy: str) -> int:
        """When an empty fleet would miss the deadline: tried second by second."""
        assert ask.deadline_us is not None
        view, at_us = self.see(), self.at_us
        while limit_now(view, ask, at_us, policy) < FOREVER_US:
            at_us += US
        return at_us


def play(
    placer: Policies, view: ClusterView, running: list[Occupied], queue: list[Queued]
) -> dict[str, Forecast | None]:
    fleet = Playback(view, list(running))
    answers: dict[str, Forecast | None] = {}
    for queued in queue:
        woken = False
        while queued.ask.id not in answers:
            answer = placer.place(queued.policy, fleet.see(), queued.ask, fleet.at_us)
            next_us = fleet.next_end_us()
            if isinstance(answer, Placed):
                answers[queued.ask.id] = fleet.start(queued.ask, answer)
                continue
            if answer.reason == "too_late" and not woken:
                lost_us = fleet.lost_us(queued.ask, queued.policy)
                woken = next_us is None or lost_us < next_us
                next_us = lost_us if woken else next_us
            else:
                woken = False
            if answer.reason == "no_node" or next_us is None:
                answers[queued.ask.id] = None
            else:
                fleet.go_to(next_us)
    return answers
