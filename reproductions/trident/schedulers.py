"""The schedulers and prefetchers of section 7, as calls of the product's kernels.

Hadoop's own, H-Scheduler and Quartet are asked when a node reports, for the slots of that node;
Trident's sees all free slots each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from reproductions.trident.cluster import ClusterSpec
from reproductions.trident.contention import Contention
from reproductions.trident.greedy import H_SCHEDULER, LOCALITY_FIRST, QUARTET, Rule
from reproductions.trident.kernels import Comparisons, compile_comparisons
from reproductions.trident.storage import Storage
from reproductions.trident.wants import wants_over
from tenure.locality.arrays import Places, Wants, places_of
from tenure.locality.kernels import Kernels, compile_kernels
from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices, Timing, Work
from tenure.locality.prefetching import ALL
from tenure.locality.scores import Scores, Tier
from tenure.model.placing import Ints
from tenure.model.units import US
from tenure.simulation.sla.loops import kept_kernels

#: ``quartet``: paired with the Capacity Scheduler, as in the paper: it waits with a container that
#: it got already. ``quartet-delay``: it leaves the slot, and so may get a better one. ``trident``:
#: Algorithm 3 allocates, the matching assigns. ``tenure``: the matching over all free slots.
#: ``tenure-spread``: the same where readers of a node slow each other down.
DEFAULT, H, QUARTET_NAME, PATIENT = "default", "h-scheduler", "quartet", "quartet-delay"
TRIDENT, TENURE, SPREAD = "trident", "tenure", "tenure-spread"
SCHEDULERS = (DEFAULT, H, QUARTET_NAME, PATIENT, TRIDENT, TENURE, SPREAD)
KINDS = {DEFAULT: LOCALITY_FIRST, H: H_SCHEDULER, QUARTET_NAME: QUARTET, PATIENT: QUARTET}
NOTHING, EVERYTHING, SEARCH, SEARCH_WAIT, ORACLE = "none", "all", "trident-d", "trident+d", "oracle"
PREFETCHERS = (NOTHING, EVERYTHING, SEARCH, SEARCH_WAIT, ORACLE)
SCORES = Scores()
#: By how much each reader makes the others of its node slower, in thousandths.
CONTENTION = 1000


@cache
def kernels() -> Kernels:
    """Return the compiled kernels."""
    return compile_kernels(kept_kernels())


@cache
def comparisons() -> Comparisons:
    """Return those of the schedulers that the product does not have, compiled as ``kernels``."""
    return compile_comparisons(kept_kernels())


def assign(
    name: str, storage: Storage, free: Sequence[int], blocks: Sequence[str], *, has_waited: bool
) -> list[int]:
    """Return the node of each task, -1 for those that wait; "" is a block of a task without one."""
    places = places_of(list(free), [0] * len(free))
    wants = wants_over(storage.known, blocks, SCORES)
    if name in KINDS:
        waited = np.full(len(blocks), has_waited)
        at = comparisons().fill_slots(
            places, wants, Rule(KINDS[name], SCORES.of(Tier.MEMORY), waited)
        )
    else:
        if name == TRIDENT:
            places = _allocated(places, wants)
        at = _matched(name, storage, places, wants)
    return [int(place) for place in at]


def _matched(name: str, storage: Storage, places: Places, wants: Wants) -> Ints:
    if name != SPREAD:
        return kernels().schedule(places, wants, SCORES.rates).place
    readers = storage.spec.slots - places.slots
    contention = Contention(readers, CONTENTION)
    return comparisons().schedule_contended(places, wants, SCORES.rates, contention).place


def _allocated(places: Places, wants: Wants) -> Places:
    n = len(wants.flat)
    requests = comparisons().requests_of(places, wants)
    containers = comparisons().allocate(places, requests, SCORES.rates, n)
    slots = np.bincount(containers.place, minlength=len(places.slots))
    return places._replace(slots=slots.astype(np.int64))


@dataclass(frozen=True, slots=True)
class Copies:
    """What to prefetch: (block, node, disk) each, and how long the job is held back."""

    rows: tuple[tuple[str, str, int], ...] = ()
    delay_s: float = 0.0


def plan(name: str, storage: Storage, blocks: Sequence[str], slots: int, cpu_s: float) -> Copies:
    """Return what a prefetcher copies for a job over ``blocks`` that finds ``slots`` free.

    ``cpu_s`` is what a byte takes to compute.
    """
    if name == NOTHING or not blocks:
        return Copies()
    given, devices, rooms = _input(storage, blocks)
    if name in (EVERYTHING, ORACLE):
        source, delay_us = kernels().select(given, devices, rooms, ALL), 0
    else:
        work = _work(storage.spec, given, slots, cpu_s)
        spec = storage.spec
        waits = (spec.begin_copy_s, spec.begin_job_s, spec.launch_s)
        timing = Timing(*(round(wait * US) for wait in waits))
        found = kernels().find_prefetch(given, devices, work, timing, (rooms, name == SEARCH_WAIT))
        source, delay_us = found.source, found.delay_us
    rows = []
    for i, block in enumerate(blocks):
        if source[i] != NOT_COPIED:
            node, disk = divmod(int(source[i]), storage.spec.disks)
            rows.append((block, storage.names[node], disk))
    return Copies(tuple(rows), delay_us / US)


def _input(storage: Storage, blocks: Sequence[str]) -> tuple[Blocks, Devices, Ints]:
    """Return blocks, disks and room in memory as the models take them."""
    spec, index = storage.spec, {node: j for j, node in enumerate(storage.names)}
    length, first, held = [], [0], []
    device: list[int] = []
    for block in blocks:
        found = storage.locations(block)
        length.append(storage.size[block])
        device.extend(index[n] * spec.disks + disk for n, tier, disk in found if tier == Tier.HDD)
        first.append(len(device))
        held.append(int(any(tier == Tier.MEMORY for _, tier, _ in found)))
    d = spec.nodes * spec.disks
    size = np.array(length, dtype=np.int64)
    rows = (size, first, device, held, np.argsort(size, kind="stable"))
    given = Blocks(*(np.array(row, dtype=np.int64) for row in rows))
    node = np.arange(d, dtype=np.int64) // spec.disks
    bandwidth = np.full(d, round(spec.bandwidth(Tier.HDD)), dtype=np.int64)
    devices = Devices(node, np.full(d, SCORES.of(Tier.HDD), dtype=np.int64), bandwidth)
    return given, devices, np.array([storage.room(n) for n in storage.names], dtype=np.int64)


def _work(spec: ClusterSpec, given: Blocks, slots: int, cpu_s: float) -> Work:
    read = (given.length * (US / spec.bandwidth(Tier.HDD))).astype(np.int64)
    memory = (given.length * (US / spec.bandwidth(Tier.MEMORY))).astype(np.int64)
    cpu = (given.length * (cpu_s * US)).astype(np.int64)
    score = np.where(given.held > 0, SCORES.of(Tier.MEMORY), SCORES.of(Tier.HDD))
    by_score = np.argsort(score, kind="stable")
    base = np.where(given.held > 0, memory, read)
    speed = np.full(max(1, slots), 1000, dtype=np.int64)
    return Work(base, memory, cpu, score, by_score, speed, SCORES.of(Tier.MEMORY))
