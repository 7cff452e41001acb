"""How long matching, allocating and searching prefetches take (section 7.5 of the Trident paper).

Tasks have three replicas on random nodes and tiers, as in the paper's experiment. A time is the
whole call: arrays of replicas and slots in, who runs where out, costs and graph built on the way;
or all of it from what is plain Python: the replica map, or the records that the daemon asks with.
The best of several rounds counts, for what disturbs a round only adds to it; median and span are
over instances.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from benchmarks.figures import Figure, Goal, Report, figure
from reproductions.trident.kernels import Comparisons, compile_comparisons
from reproductions.trident.paper import NOTHING
from reproductions.trident.replicas import Replica, ReplicaMap
from reproductions.trident.wants import wants_over
from tenure.core.datasets import prefetch_inputs
from tenure.locality.arrays import PREFERS, Places, Wants
from tenure.locality.kernels import Kernels, compile_kernels
from tenure.locality.localizer import Tiers
from tenure.locality.prefetch import Blocks, Devices, Timing, Work
from tenure.locality.scores import SCORE, Scores, Tier
from tenure.model.locality import Copy, PrefetchAsk, PrefetchBlock, Read, Seats
from tenure.model.placing import Ints
from tenure.model.units import MIB, US
from tenure.simulation.sla.loops import kept_kernels

Job = tuple[Blocks, Devices, Work, Ints]

SCORES = Scores()
#: What was done with a replica map before it is asked.
FILLED, CHANGED = "filled", "changed"
TIERS = tuple(SCORES.of(tier) for tier in Tier)
BANDWIDTHS = (3200 * MIB, 400 * MIB, 160 * MIB)
#: Tasks, nodes, racks, slots a node: the paper's largest, in one rack and in many, and with choice.
SHAPES = ((1024, 1024, 1, 1), (1024, 1024, 32, 1), (1024, 1024, 32, 4))
SMALL_TASKS, SIZES = 64, (8, 64, 256, 1024, 4096, 16384)
GROWTH = (64, 256, 1024, 4096, 16384)
DEVICES = 12
#: Of the paper's grid, the other end: many copies for few disks, so many rounds.
FEW_NODES, FEW_DEVICES = 4, 3
TIMING = Timing()
SEEDS = range(3)
ROUNDS = 7
GOAL_MS = {"match": 10.0, "small": 0.3, "allocate": 5.0, "prefetch": 3.0}
NOTE = (
    "Three replicas a task, on random nodes and tiers; compiled, one thread. A figure is the "
    "median of three instances, each the best of 7 calls. The paper's, on its own machine: 240 ms, "
    "under 2 ms for 64 tasks, 61 ms for Algorithm 3, 20 ms at worst for the prefetch search."
)
CLOCK = (
    "Inside the clock is one call, from what it is given to its answer. Without more said it is "
    "given arrays: slots and racks of nodes; of tasks the places, tiers and weights; of a prefetch "
    "search also devices and room. `from the replica map`: a `ReplicaMap` and the names of blocks "
    "(`wants_over`, then the call); arrays of slots and racks are given, in the order of the map's "
    "numbers of nodes. The map works out what it tells of a block as the block's copies change, "
    "outside the clock, whatever the scores. Filled: nobody has asked it yet; changed: it was "
    "asked, and then one block in 32 lost a copy and got it back. `from the daemon's records`: "
    "`Tiers.match` and `Tiers.plan` with a `Read` or `PrefetchBlock` of each block and its `Copy` "
    "records, nodes and slots as `Seats`, answers as records again. The daemon asks of at most 256 "
    "blocks at a time."
)


def instance(shape: Sequence[int], seed: int) -> tuple[Places, Wants]:
    """Return places and tasks of a shape: tasks, nodes, racks, slots a node."""
    n, p, racks, slots = shape
    drawn = np.random.default_rng(seed)
    copies = min(3, p)
    place = np.concatenate([drawn.choice(p, copies, replace=False) for _ in range(n)])
    score = drawn.choice(TIERS, n * copies)
    node = np.arange(p, dtype=np.int64)
    places = Places(np.full(p, slots), node % racks, np.zeros(p, dtype=np.int64), node)
    first = np.arange(0, n * copies + 1, copies)
    flat, weight = np.full(n, PREFERS), np.full(n, SCORE)
    return places, Wants(first, place, score, score.copy(), flat, weight)


def job(b: int, nodes: int, seed: int, per_node: int = DEVICES) -> Job:
    """Return b blocks of three replicas on hard disks, and the room in memory of each node."""
    drawn = np.random.default_rng(seed)
    d = nodes * per_node
    copies = min(3, nodes)
    node = np.concatenate([drawn.choice(nodes, copies, replace=False) for _ in range(b)])
    device = node * per_node + drawn.integers(0, per_node, node.shape[0])
    length = drawn.integers(16, 129, b) * MIB
    devices = Devices(
        np.arange(d) // per_node, np.full(d, TIERS[Tier.HDD]), np.full(d, BANDWIDTHS[Tier.HDD])
    )
    first, held = np.arange(0, b * copies + 1, copies), np.zeros(b, dtype=np.int64)
    blocks = Blocks(length, first, device, held, np.argsort(length, kind="stable"))
    read = length * US // BANDWIDTHS[Tier.HDD]
    memory = length * US // BANDWIDTHS[Tier.MEMORY]
    score, order = np.full(b, TIERS[Tier.HDD]), np.arange(b)
    # a slot for every fourth task, so that there are waves for copies to catch up with
    work = Work(read, memory, length // 100, score, order, np.full(b // 4 + 1, 1000), TIERS[0])
    return blocks, devices, work, np.full(nodes, 4096 * MIB)


def best_ms(run: Callable[[], object]) -> float:
    """Return the milliseconds of a call, the best of several."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return best * 1000


def compiled() -> Kernels:
    """Return the compiled kernels, warm."""
    return compile_kernels(kept_kernels())


@cache
def compared() -> Comparisons:
    """Return the comparisons' kernels."""
    return compile_comparisons(kept_kernels())


def matching(kernels: Kernels, shapes: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return milliseconds of each shape and instance."""
    found = []
    for shape in shapes:
        made = [instance(shape, seed) for seed in SEEDS]
        found.append([best_ms(lambda m=m: kernels.schedule(*m, SCORES.rates)) for m in made])  # type: ignore[misc, call-arg]
    return found


def unpruned(shape: Sequence[int]) -> list[float]:
    """Return milliseconds of a shape's instances where nothing is pruned."""
    run, made = compared().schedule_pruned, [instance(shape, seed) for seed in SEEDS]
    return [best_ms(lambda m=m: run(*m, SCORES.rates, NOTHING)) for m in made]  # type: ignore[misc, call-arg]


def allocating(n: int, p: int) -> list[float]:
    """Return milliseconds of requests and Algorithm 3 for n tasks on p nodes of four slots."""

    def run(places: Places, wants: Wants) -> object:
        requests = compared().requests_of(places, wants)
        return compared().allocate(places, requests, SCORES.rates, n)

    made = [instance((n, p, 1, 4), seed) for seed in SEEDS]
    return [best_ms(lambda m=m: run(*m)) for m in made]  # type: ignore[misc]


def prefetching(
    kernels: Kernels, b: int, nodes: int, *, may_wait: bool, per_node: int = DEVICES
) -> list[float]:
    """Return milliseconds of Algorithm 7 for b blocks."""

    def run(given: Job, limits: tuple[Ints, bool]) -> object:
        return kernels.find_prefetch(given[0], given[1], given[2], TIMING, limits)

    made = [job(b, nodes, seed, per_node) for seed in SEEDS]
    return [best_ms(lambda m=m: run(m, (m[3], may_wait))) for m in made]  # type: ignore[misc]


class Known(NamedTuple):
    """A replica map and the names of its blocks."""

    replicas: ReplicaMap
    blocks: list[str]


def map_of(n: int, p: int, seed: int) -> Known:
    """Return n blocks with three replicas each on p nodes, as the public interface takes them."""
    drawn = np.random.default_rng(seed)
    names = [f"node-{j}" for j in range(p)]
    known = ReplicaMap()
    for name in names:
        known.number(name)
    blocks = [f"block-{i}" for i in range(n)]
    for block in blocks:
        for j in drawn.choice(p, min(3, p), replace=False):
            known.add(block, Replica(names[j], Tier(int(drawn.integers(0, 3)))))
    return Known(known, blocks)


def change(known: Known) -> None:
    """Have one block in 32 lose a copy and get it back."""
    for block in known.blocks[::32]:
        copy = known.replicas.replicas(block)[0]
        known.replicas.remove(block, copy)
        known.replicas.add(block, copy)


def wanted(known: Known) -> Wants:
    """Return the arrays of a task for each block."""
    return wants_over(known.replicas, known.blocks, SCORES)


def from_map(kernels: Kernels, shape: Sequence[int], before: str) -> list[float]:
    """Return milliseconds from the replica map, in Python, to who runs where."""
    n, p, racks, slots = shape
    places, _ = instance((1, p, racks, slots), 1)

    def run(known: Known) -> object:
        return kernels.schedule(places, wanted(known), SCORES.rates)

    return [best_of(run, (n, p, seed), before) for seed in SEEDS]


def allocating_from_map(n: int, p: int) -> list[float]:
    """Return milliseconds from a replica map that nobody has asked to Algorithm 3's containers."""
    places, _ = instance((1, p, 1, 4), 1)

    def run(known: Known) -> object:
        requests = compared().requests_of(places, wanted(known))
        return compared().allocate(places, requests, SCORES.rates, n)

    return [best_of(run, (n, p, seed), FILLED) for seed in SEEDS]


def best_of(run: Callable[[Known], object], size: tuple[int, int, int], before: str) -> float:
    """Return the milliseconds of a call with a map, each time a new one if it is just FILLED."""
    maps = [map_of(*size) for _ in range(ROUNDS if before == FILLED else 1)]
    gc.collect()  # of what the maps were made of: no part of the call
    best = float("inf")
    for turn in range(ROUNDS):
        known = maps[turn % len(maps)]
        if before == CHANGED:
            run(known)
            change(known)
        begun = time.perf_counter()
        run(known)
        best = min(best, time.perf_counter() - begun)
    return best * 1000


def from_records(kernels: Kernels, shape: Sequence[int]) -> list[float]:
    """Return milliseconds of a match as the daemon asks for it."""
    n, p, racks, slots = shape
    tiers, found = Tiers(kernels), []
    seats = Seats(
        tuple(f"node-{j}" for j in range(p)),
        tuple(f"rack-{j % racks}" for j in range(p)),
        (slots,) * p,
    )
    for seed in SEEDS:
        known = map_of(n, p, seed)
        reads = [Read(i, copies_of(known, block)) for i, block in enumerate(known.blocks)]
        found.append(best_ms(lambda r=reads: tiers.match(seats, r)))  # type: ignore[misc]
    return found


def copies_of(known: Known, block: str) -> tuple[Copy, ...]:
    """Return the copies of a block as the daemon's records."""
    rows = known.replicas.replicas(block)
    return tuple(Copy(row.node, row.tier.name.lower(), int(row.tier)) for row in rows)


def plan_from_records(kernels: Kernels, b: int, nodes: int) -> list[float]:
    """Return milliseconds of a prefetch plan as the daemon asks for it, nothing in memory yet."""
    tiers, found = Tiers(kernels), []
    tier, speed = int(Tier.HDD), BANDWIDTHS[Tier.HDD]
    for seed in SEEDS:
        blocks, _, work, _ = job(b, nodes, seed)
        rows = []
        for i in range(b):
            mine = blocks.device[blocks.first[i] : blocks.first[i + 1]].tolist()
            copies = tuple(
                Copy(f"node-{d // DEVICES}", f"disk-{d % DEVICES}", tier, False, speed)
                for d in mine
            )
            rows.append(PrefetchBlock(i, int(blocks.length[i]), copies, int(work.cpu_us[i])))
        room = {f"node-{j}": 4096 * MIB for j in range(nodes)}
        ask = PrefetchAsk(tuple(rows), room, (1000,) * (b // 4 + 1))
        found.append(best_ms(lambda a=ask: tiers.plan(a)))  # type: ignore[misc]
    return found


def by_matrix(shape: Sequence[int]) -> list[float]:
    """Return milliseconds of scipy's solver on the matrix of an instance, the matrix given."""
    from scipy.optimize import linear_sum_assignment

    found = []
    for seed in SEEDS:
        places, wants = instance(shape, seed)
        costs = np.full((shape[0], shape[1]), SCORES.rates.across, dtype=np.int64)
        for i in range(shape[0]):
            mine = slice(wants.first[i], wants.first[i + 1])
            near = np.isin(places.rack, places.rack[wants.place[mine]])
            costs[i, near] = SCORES.rates.in_rack + wants.base[mine].min()
            costs[i, wants.place[mine]] = wants.score[mine]
        found.append(best_ms(lambda c=costs: linear_sum_assignment(c)))  # type: ignore[misc]
    return found


def measure(*, is_quick: bool = False) -> Report:
    """Return the figures with goals, then growth."""
    kernels = compiled()
    shapes = ((16, 16, 1, 1), (16, 16, 4, 1), (16, 16, 4, 4)) if is_quick else SHAPES
    sizes = SIZES[:2] if is_quick else SIZES
    growth = (16, 64) if is_quick else GROWTH
    n = 16 if is_quick else 1024
    matching(kernels, [(8, 8, 2, 1)])  # loads the machine code
    unpruned((8, 8, 2, 1))
    allocating(8, 8)
    prefetching(kernels, 8, 8, may_wait=True)
    figures = [
        *_matching(kernels, shapes),
        *_small(kernels, sizes),
        figure(
            "allocate_ms",
            f"Algorithm 3 with its requests, {n:,} tasks x {n:,} nodes",
            "ms",
            allocating(n, n),
            Goal("below", GOAL_MS["allocate"]),
        ),
    ]
    for may_wait in (False, True):
        words = "with" if may_wait else "without"
        values = prefetching(kernels, n, n, may_wait=may_wait)
        what = f"prefetch search {words} delay, {n:,} blocks x {n:,} nodes x {DEVICES} devices"
        goal = Goal("below", GOAL_MS["prefetch"])
        figures.append(figure(f"prefetch_{words}_ms", what, "ms", values, goal))
    values = prefetching(kernels, n, FEW_NODES, may_wait=True, per_node=FEW_DEVICES)
    what = f"the same, {n:,} blocks x {FEW_NODES} nodes x {FEW_DEVICES} devices"
    figures.append(figure("prefetch_few_ms", what, "ms", values))
    figures.extend(_from_python(kernels, shapes, sizes))
    figures.extend(_growth(kernels, growth))
    return Report("locality", tuple(figures), (NOTE, CLOCK))


def _matching(kernels: Kernels, shapes: Sequence[Sequence[int]]) -> list[Figure]:
    found = []
    for shape, ours in zip(shapes, matching(kernels, shapes), strict=True):
        n, p, racks, slots = shape
        key = f"match_{n}_{p}_{racks}_{slots}"
        words = f"{n:,} tasks x {p:,} nodes, {racks} racks, {slots} slots a node"
        goal = Goal("below", GOAL_MS["match"])
        found.append(figure(f"{key}_ms", f"matching, {words}", "ms", ours, goal))
        what = "the same, nothing pruned"
        found.append(figure(f"{key}_unpruned_ms", what, "ms", unpruned(shape)))
    solver = by_matrix(shapes[0])
    what = "scipy's solver on the first's matrix, the matrix given"
    found.append(figure("matrix_ms", what, "ms", solver))
    return found


def _small(kernels: Kernels, sizes: Sequence[int]) -> list[Figure]:
    shapes = [(SMALL_TASKS, p, max(1, p // 40), 4) for p in sizes]
    goal = Goal("below", GOAL_MS["small"])
    return [
        figure(f"small_{p}_ms", f"matching, {SMALL_TASKS} tasks x {p:,} nodes", "ms", values, goal)
        for p, values in zip(sizes, matching(kernels, shapes), strict=True)
    ]


def _from_python(
    kernels: Kernels, shapes: Sequence[Sequence[int]], sizes: Sequence[int]
) -> list[Figure]:
    found, goal = [], Goal("below", GOAL_MS["match"])
    for shape in shapes:
        n, p, racks, slots = shape
        key, words = f"{n}_{p}_{racks}_{slots}_ms", f"{n:,} x {p:,}, {racks} racks, {slots} slots"
        for before in (FILLED, CHANGED):
            values = from_map(kernels, shape, before)
            what = f"matching from the replica map, {before}, {words}"
            found.append(figure(f"from_map_{before}_{key}", what, "ms", values, goal))
        values = from_records(kernels, shape)
        what = f"matching from the daemon's records, {words}"
        found.append(figure(f"from_records_{key}", what, "ms", values, goal))
    for p in sizes:
        values = from_map(kernels, (SMALL_TASKS, p, max(1, p // 40), 4), FILLED)
        what = f"matching from the replica map, filled, {SMALL_TASKS} tasks x {p:,} nodes"
        small = Goal("below", GOAL_MS["small"])
        found.append(figure(f"from_map_small_{p}_ms", what, "ms", values, small))
        values = from_records(kernels, (SMALL_TASKS, p, max(1, p // 40), 4))
        what = f"matching from the daemon's records, {SMALL_TASKS} tasks x {p:,} nodes"
        found.append(figure(f"from_records_small_{p}_ms", what, "ms", values))
    n, p = shapes[0][:2]
    values = allocating_from_map(n, p)
    what = f"Algorithm 3 from the replica map, filled, {n:,} x {p:,}"
    least = Goal("below", GOAL_MS["allocate"])
    found.append(figure("from_map_allocate_ms", what, "ms", values, least))
    for b in sorted({min(prefetch_inputs.MOST, n), n}):
        values = plan_from_records(kernels, b, p)
        what = f"prefetch plan from the daemon's records, {b:,} blocks x {p:,} nodes x {DEVICES}"
        asked = Goal("below", GOAL_MS["prefetch"]) if b == prefetch_inputs.MOST else None
        found.append(figure(f"from_records_prefetch_{b}_ms", what, "ms", values, asked))
    return found


def _growth(kernels: Kernels, sizes: Sequence[int]) -> list[Figure]:
    shapes = [(size, size, max(1, size // 40), 1) for size in sizes]
    found = [
        figure(f"growth_match_{size}_ms", f"growth: matching {size:,} x {size:,}", "ms", values)
        for size, values in zip(sizes, matching(kernels, shapes), strict=True)
    ]
    for size in sizes:
        values = allocating(size, size)
        what = f"growth: Algorithm 3, {size:,} x {size:,}"
        found.append(figure(f"growth_allocate_{size}_ms", what, "ms", values))
    for size in sizes:
        values = prefetching(kernels, size, size, may_wait=True)
        what = f"growth: prefetch search, {size:,} x {size:,} x {DEVICES}"
        found.append(figure(f"growth_prefetch_{size}_ms", what, "ms", values))
    return found
