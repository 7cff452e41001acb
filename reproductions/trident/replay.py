"""The event loop: jobs come, blocks are copied ahead, tasks get slots, read, compute and write.

Reduce tasks are Hadoop's: they get slots once ``early_reduces`` of the maps have ended and all of
them have slots, and wait in these for the last map, so their durations hold that wait. What maps
put out lies on a disk of their node, from which each reduce task fetches its part over the network;
what it writes goes through a pipeline to as many nodes as a block has replicas.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reproductions.trident.cluster import MB, ClusterSpec
from reproductions.trident.schedulers import (
    KINDS,
    NOTHING,
    ORACLE,
    PATIENT,
    QUARTET_NAME,
    assign,
    plan,
)
from reproductions.trident.storage import Storage
from reproductions.trident.transfers import Resource, Transfers
from reproductions.trident.workload import JobSpec
from tenure.locality.scores import Tier

#: Bytes of shuffle and output for one reduce task.
REDUCE_BYTES = 256 * MB
WHERE = ("memory", "ssd", "hdd", "rack")


@dataclass(slots=True)
class Run:
    """A job under way and what became of it; times in seconds."""

    spec: JobSpec
    blocks: list[str]
    submit_s: float = 0.0
    waiting: list[str] = field(default_factory=list)
    maps_left: int = 0
    reduces_left: int = 0
    is_reducing: bool = False
    #: Node and disk of each map's output, and reduce tasks that wait for the last of them.
    spills: Counter[tuple[str, int]] = field(default_factory=Counter)
    parked: list[Callable[[float], None]] = field(default_factory=list)
    ready_s: float = 0.0
    local_s: float = 0.0
    end_s: float = -1.0
    task_s: float = 0.0
    reduce_s: float = 0.0
    delay_s: float = 0.0
    #: Jobs that had not ended and tasks that ran when it was submitted.
    jobs_beside: int = 0
    tasks_beside: int = 0
    reads: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WHERE, 0))
    #: Blocks prefetched and where to; those read from memory there; copies under way by transfer.
    copied: dict[str, str] = field(default_factory=dict)
    hits: set[str] = field(default_factory=set)
    copying: dict[str, int] = field(default_factory=dict)


class Replay:
    """One workload under one scheduler and prefetcher."""

    def __init__(
        self, spec: ClusterSpec, jobs: Sequence[JobSpec], names: tuple[str, str], seed: int
    ) -> None:
        self.spec, (self.scheduler, self.prefetcher) = spec, names
        self.storage = Storage(spec, seed)
        self.transfers = Transfers(self._bandwidth)
        self.free = [spec.slots] * spec.nodes
        self.queue: list[Run] = []
        self.done: list[Run] = []
        self._random = random.Random(seed + 1)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._made = 0
        self._under_way = 0
        self._beating = False
        self._files: dict[str, list[str]] = {}
        self._jobs = list(jobs)
        for job in jobs:
            if not job.is_generated:
                self._write(job)

    def _busy(self) -> int:
        return self.spec.slots * self.spec.nodes - sum(self.free)

    def _write(self, job: JobSpec) -> None:
        if job.file not in self._files:
            self._files[job.file] = self.storage.write(job.file, job.input_bytes)

    def _bandwidth(self, resource: Resource, users: int) -> float:
        assert isinstance(resource, tuple)
        kind = resource[1]
        if kind in ("in", "out"):
            return self.spec.network
        part = self.spec.shared_disk if kind == Tier.HDD and users > 1 else 1.0
        return self.spec.bandwidth(kind) * part

    def run(self) -> list[Run]:
        """Return all jobs, ended."""
        serial = [job for job in self._jobs if job.is_serial]
        for job in self._jobs[:1] if serial else self._jobs:
            self._at(job.at_s, lambda now, j=job: self._submit(now, j))  # type: ignore[misc]
        while self._events or self.transfers.next_end_s() < float("inf"):
            if self._events and self._events[0][0] <= self.transfers.next_end_s():
                at_s, _, call = heapq.heappop(self._events)
                call(at_s)
            else:
                self.transfers.end_next()
        return self.done

    def _at(self, at_s: float, call: Callable[[float], None]) -> None:
        self._made += 1
        heapq.heappush(self._events, (at_s, self._made, call))

    def _submit(self, now_s: float, job: JobSpec) -> None:
        self._write(job)
        run = Run(job, self._files[job.file], now_s)
        run.jobs_beside, run.tasks_beside = self._under_way, self._busy()
        self._under_way += 1
        slots = max(1, sum(self.free))
        copies = plan(self.prefetcher, self.storage, run.blocks, slots, job.cpu_s_per_byte)
        run.delay_s = copies.delay_s
        for block, node, disk in copies.rows:
            run.copied[block] = node
            if self.prefetcher == ORACLE:
                self.storage.cache(block, node)
            else:
                self.storage.known.begin_prefetch(block, node)
                begin_s = now_s + self.spec.begin_copy_s
                self._at(begin_s, lambda at, r=run, c=(block, node, disk): self._copy(at, r, c))  # type: ignore[misc]
        self._at(now_s + self.spec.begin_job_s + copies.delay_s, lambda at: self._ready(at, run))

    def _copy(self, now_s: float, run: Run, copy: tuple[str, str, int]) -> None:
        block, node, disk = copy
        if run.end_s >= 0:
            return

        def finished(_now_s: float) -> None:
            del run.copying[block]
            if self.storage.known.end_prefetch(block, node, is_done=False):
                self.storage.cache(block, node)

        size = self.storage.size[block]
        over = ((node, Tier.HDD, disk),)
        run.copying[block] = self.transfers.begin(now_s, size, over, finished)

    def _ready(self, now_s: float, run: Run) -> None:
        run.waiting, run.maps_left = list(run.blocks), len(run.blocks)
        run.ready_s = run.local_s = now_s
        self.queue.append(run)
        self._wake(now_s)

    def _wake(self, now_s: float) -> None:
        if not self._beating:
            self._beating = True
            first = self._random.randrange(self.spec.nodes)
            step = self.spec.beat_s / self.spec.nodes
            self._at(now_s + step * self._random.random(), lambda at: self._beat(at, first))

    def _beat(self, now_s: float, node: int) -> None:
        """A node reports: give out what it may get, or all slots if the scheduler sees all."""
        given = self.spec.per_beat
        for run in list(self.queue):
            if self.scheduler in KINDS:
                free = [0] * self.spec.nodes
                free[node] = min(self.free[node], given)
                given -= free[node]
            else:
                free = list(self.free)
            if not sum(free):
                break
            self._serve(now_s, run, free)
        self._beating = bool(self.queue)
        if self._beating:
            following = (node + 1) % self.spec.nodes
            step = self.spec.beat_s / self.spec.nodes
            self._at(now_s + step, lambda at: self._beat(at, following))

    def _serve(self, now_s: float, run: Run, free: list[int]) -> None:
        has_waited = self.scheduler != PATIENT or now_s - run.local_s >= self.spec.hold_s
        at = assign(self.scheduler, self.storage, free, run.waiting, has_waited=has_waited)
        begun = [(block, node) for block, node in zip(run.waiting, at, strict=True) if node >= 0]
        run.waiting = [block for block, node in zip(run.waiting, at, strict=True) if node < 0]
        if not run.waiting:
            self.queue.remove(run)
        for block, node in begun:
            self.free[node] -= 1
            self._launch(now_s, run, block, node)
        self._ask_reduces(now_s, run)

    def _launch(self, now_s: float, run: Run, block: str, node: int) -> None:
        begin_s = now_s + self.spec.launch_s
        if not block:
            self._at(begin_s, lambda at: self._reduce(at, run, (node, now_s)))
            return
        if any(at[0] == self.storage.names[node] for at in self.storage.locations(block)):
            run.local_s = now_s
        elif self.scheduler == QUARTET_NAME:
            begin_s += self.spec.hold_s  # in vain: the container is on this node already
        self._at(begin_s, lambda at: self._map(at, run, block, (node, now_s)))

    def _map(self, now_s: float, run: Run, block: str, where: tuple[int, float]) -> None:
        """Read a block, compute, and leave the output on a disk of the node."""
        node = self.storage.names[where[0]]
        source, tier, disk = self.storage.source(block, node)
        run.reads[WHERE[tier] if source == node else "rack"] += 1
        over: tuple[Resource, ...] = ((source, tier, disk),)
        if source != node:
            over = (*over, (source, "out"), (node, "in"))
        if tier == Tier.MEMORY:
            self.storage.touch(block, source)
            if run.copied.get(block) == source:
                run.hits.add(block)
        size = self.storage.size[block]
        cpu_s = size * run.spec.cpu_s_per_byte
        spilled = run.spec.shuffle_bytes * size / run.spec.input_bytes
        spill = self._random.randrange(self.spec.disks)

        def keep(at_s: float) -> None:
            run.spills[node, spill] += 1
            if not spilled or not self.spec.spills:
                self._end_map(at_s, run, where)
                return
            at_disk = ((node, Tier.HDD, spill),)
            self.transfers.begin(at_s, spilled, at_disk, lambda t: self._end_map(t, run, where))

        self.transfers.begin(now_s, size, over, lambda t: self._at(t + cpu_s, keep))

    def _end_map(self, now_s: float, run: Run, where: tuple[int, float]) -> None:
        self._free(now_s, run, where)
        run.maps_left -= 1
        if run.maps_left == 0:
            if not reduces(run.spec):
                self._finish(now_s, run)
                return
            for begin in run.parked:
                begin(now_s)
            run.parked.clear()
        self._ask_reduces(now_s, run)

    def _ask_reduces(self, now_s: float, run: Run) -> None:
        """Have slots given to the reduce tasks once all maps have theirs and enough have ended."""
        ended = len(run.blocks) - run.maps_left
        enough = max(1, math.ceil(self.spec.early_reduces * len(run.blocks)))
        if run.is_reducing or run.waiting or ended < enough or not reduces(run.spec):
            return
        run.is_reducing = True
        run.reduces_left = reduces(run.spec)
        run.waiting = [""] * run.reduces_left
        self.queue.append(run)
        self._wake(now_s)

    def _reduce(self, now_s: float, run: Run, where: tuple[int, float]) -> None:
        if run.maps_left:
            run.parked.append(lambda at: self._fetch(at, run, where))
        else:
            self._fetch(now_s, run, where)

    def _fetch(self, now_s: float, run: Run, where: tuple[int, float]) -> None:
        """Fetch a reduce task's part of what every map put out, then compute."""
        node = self.storage.names[where[0]]
        part = run.spec.shuffle_bytes / reduces(run.spec)
        cpu_s = part * run.spec.cpu_s_per_byte
        left = len(run.spills)

        def fetched(at_s: float) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._at(at_s + cpu_s, lambda t: self._put_out(t, run, where))

        for (source, disk), maps in sorted(run.spills.items()):
            over: list[Resource] = [(source, Tier.HDD, disk)] if self.spec.spills else []
            over += [(source, "out"), (node, "in")] if source != node else []
            over = over or [(node, Tier.SSD, 0)]
            size = part * maps / len(run.blocks)
            self.transfers.begin(now_s, size, tuple(over), fetched)

    def _put_out(self, now_s: float, run: Run, where: tuple[int, float]) -> None:
        """Write a reduce task's part of the output, here and over the network to other nodes."""
        node, spec = self.storage.names[where[0]], self.spec
        others = [name for name in self.storage.names if name != node]
        nodes = [node, *self._random.sample(others, spec.output_replicas - 1)]
        has_each = spec.is_tiered and len(nodes) == len(Tier)
        tiers = list(Tier) if has_each else [Tier.HDD] * len(nodes)
        self._random.shuffle(tiers)
        over: list[Resource] = [
            (name, tier, self._random.randrange(spec.disks) if tier == Tier.HDD else 0)
            for name, tier in zip(nodes, tiers, strict=True)
        ]
        over += [(name, "out") for name in nodes[:-1]] + [(name, "in") for name in nodes[1:]]
        written = run.spec.output_bytes / reduces(run.spec)
        self.transfers.begin(now_s, written, tuple(over), lambda t: self._end_reduce(t, run, where))

    def _end_reduce(self, now_s: float, run: Run, where: tuple[int, float]) -> None:
        self._free(now_s, run, where)
        run.reduce_s += now_s - where[1]
        run.reduces_left -= 1
        if not run.reduces_left:
            self._finish(now_s, run)

    def _free(self, now_s: float, run: Run, where: tuple[int, float]) -> None:
        node, begun_s = where
        self.free[node] += 1
        run.task_s += now_s - begun_s

    def _finish(self, now_s: float, run: Run) -> None:
        run.end_s = now_s
        self._under_way -= 1
        for block, number in list(run.copying.items()):
            self.transfers.cancel(now_s, number)
            self.storage.known.end_prefetch(block, run.copied[block], is_done=False)
        for block, node in run.copied.items():
            self.storage.forget(block, node)
        if run.spec.output_bytes > 0:
            name, size = f"{run.spec.name}-output", run.spec.output_bytes
            self.storage.write(name, size, evicts=self.spec.outputs_evict)
        self.done.append(run)
        if run.spec.is_serial and len(self.done) < len(self._jobs):
            following = self._jobs[len(self.done)]
            self._at(now_s, lambda at: self._submit(at, following))


def reduces(job: JobSpec) -> int:
    """Return how many reduce tasks a job has; none if it neither shuffles nor writes."""
    whole = job.shuffle_bytes + job.output_bytes
    return max(1, round(whole / REDUCE_BYTES)) if whole else 0


def simulate(
    spec: ClusterSpec,
    jobs: Sequence[JobSpec],
    scheduler: str,
    prefetcher: str = NOTHING,
    seed: int = 0,
) -> list[Run]:
    """Return every job as it ran under a scheduler and a prefetcher."""
    return Replay(spec, jobs, (scheduler, prefetcher), seed).run()
