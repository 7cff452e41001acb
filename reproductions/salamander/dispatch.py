"""Who starts tasks where: Hadoop's slots over Cuckoo's placement, or a plan of Salamander's."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reproductions.salamander.cuckoo import REPLICAS, SLOTS, Rounds
from reproductions.salamander.replay import Batch, Host, Launch, Room
from tenure.harvest.solution import Solution, tasks_of

MAP, REDUCE = 0, 1
#: Hadoop gives a host one task at a heartbeat whose input lies elsewhere, of its own chunks any.
BEAT_S = 3.0
#: A task that runs for so long, and for so much longer than those before it, gets a copy.
LAG_S, LAG_RATIO = 60.0, 1.5


def dealt(hosts: Sequence[Host], maps: int, weights: Sequence[float]) -> list[tuple[int, ...]]:
    """Return where the chunks of all maps lie as Cuckoo places them, the first replica first.

    Weighted round-robin by ``weights`` (hosts,), the forecast of free CPU; three replicas, each on
    another host.
    """
    rounds, names = Rounds(list(weights)), list(range(len(hosts)))
    found: list[tuple[int, ...]] = [()] * maps
    for _ in range(min(REPLICAS, len(hosts))):
        for key, where in enumerate(found):
            found[key] = (*where, rounds.next([k for k in names if k not in where]))
    return found


def placing_s(hosts: Sequence[Host], batch: Batch, counts: Mapping[int, int]) -> float:
    """Return how long chunks take to their hosts, ``counts`` by host, all links at once."""
    return max(
        (hosts[k].sending_s(count * batch.chunk_bytes) for k, count in counts.items()), default=0.0
    )


@dataclass(slots=True)
class Hadoop:
    """Fixed slots; a map whose chunk is on the host first, else any, whose chunk is then fetched.

    ``where`` the chunk of each map lies, when the job begins. A host takes no task while its owners
    have entered the margin of CPU or memory; beyond that neither is asked for (section II-C and the
    text on Fig. 3). Reduces begin when all maps have ended, and fetch their input over their host's
    link. Of tasks whose input is fetched a host gets one at a heartbeat, as Hadoop's scheduler has.
    Where nothing waits, hosts with free slots run copies of tasks that are slow (speculative ones);
    the first to end counts.
    """

    hosts: Sequence[Host]
    batch: Batch
    where: Sequence[Sequence[int]]
    slots: int = SLOTS
    _local: list[deque[int]] = field(init=False)
    _maps: deque[int] = field(init=False)
    _waiting: set[int] = field(init=False)
    _reduces: deque[int] = field(init=False)
    _maps_left: int = field(init=False)
    _link_s: list[float] = field(init=False)
    _fetched_s: list[float] = field(init=False)
    _running: dict[int, dict[int, float]] = field(init=False)
    _took_s: float = field(init=False)
    _ended: int = field(init=False)

    def __post_init__(self) -> None:
        """Have a line of tasks for each host that has their chunks."""
        batch = self.batch
        self._local = [deque() for _ in self.hosts]
        for key, where in enumerate(self.where):
            for k in where:
                self._local[k].append(key)
        self._maps, self._waiting = deque(range(batch.maps)), set(range(batch.maps))
        self._reduces = deque(range(batch.maps, batch.maps + batch.reduces))
        self._maps_left = batch.maps
        self._link_s = [0.0] * len(self.hosts)
        self._fetched_s = [-BEAT_S] * len(self.hosts)
        self._running, self._took_s, self._ended = {}, 0.0, 0

    def next(self, k: int, room: Room) -> Launch | None:
        """Return the task that a host starts, if it has a slot and its owners leave any room."""
        if not self._is_open(room):
            return None
        key = self._first(self._local[k])
        if key is None and room.now_s >= self._fetched_s[k] + BEAT_S:
            key = self._first(self._maps)
            if key is None and self._reduces and not self._maps_left:
                key = self._reduces.popleft()
            if key is None:
                key = self._slow(k, room.now_s)
        return None if key is None else self._launched(key, k, room.now_s)

    def _launched(self, key: int, k: int, now_s: float) -> Launch:
        self._running.setdefault(key, {})[k] = now_s
        is_map = key < self.batch.maps
        if is_map and k in self.where[key]:
            return Launch(key, is_map, now_s)
        return Launch(key, is_map, self._sent(k, now_s), is_remote=is_map)

    def _slow(self, k: int, now_s: float) -> int | None:
        """Return the task that runs longest elsewhere, if it is slow and has no copy."""
        slow = min(self._alone(k), default=(math.inf, 0))
        return slow[1] if now_s - slow[0] >= self._lag_s else None

    @property
    def _lag_s(self) -> float:
        return max(LAG_S, LAG_RATIO * self._took_s / max(1, self._ended))

    def _alone(self, k: int) -> Iterator[tuple[float, int]]:
        """Yield begin and key of the tasks that run once, on other hosts than ``k``."""
        for key, hosts in self._running.items():
            if len(hosts) == 1 and k not in hosts:
                yield next(iter(hosts.values())), key

    def _is_open(self, room: Room) -> bool:
        slots = self.slots if room.shut_at is None else min(self.slots, room.shut_at)
        limit_bytes = room.left_bytes + room.running * self.batch.task_memory_bytes
        return room.running < slots and room.left_m > 0 and limit_bytes > 0

    def _first(self, line: deque[int]) -> int | None:
        """Take the first of a line that still waits: another line may have had it."""
        while line:
            key = line.popleft()
            if key in self._waiting:
                self._waiting.discard(key)
                return key
        return None

    def _sent(self, k: int, now_s: float) -> float:
        """Return when a host's link has brought another chunk, one after the other."""
        self._fetched_s[k] = now_s
        begin_s = max(now_s, self._link_s[k])
        self._link_s[k] = begin_s + self.hosts[k].sending_s(self.batch.chunk_bytes)
        return self._link_s[k]

    def wakes_s(self, k: int, now_s: float) -> float:
        """Return a host's next heartbeat, if it fetches some input or may look for slow tasks."""
        beat_s = self._fetched_s[k] + BEAT_S
        if beat_s > now_s:
            return beat_s
        if self._waiting:
            return math.inf  # what it may start it can start at once
        # one that is slow already was not for this host, whose room changes with its owners' use
        began_s = min(self._alone(k), default=(math.inf, 0))[0] + self._lag_s
        return began_s if began_s > now_s else math.inf

    def has_news(self) -> bool:
        """Return False: what a host takes is no news to others."""
        return False

    def ended(self, launch: Launch, k: int, now_s: float) -> bool:
        """Count a map; the last one lets reduces begin."""
        self._took_s += now_s - self._running.pop(launch.key)[k]
        self._ended += 1
        self._maps_left -= launch.is_map
        return launch.is_map and not self._maps_left

    def killed(self, launch: Launch, k: int, _now_s: float) -> bool:
        """Put a task first in line again, on all hosts that have its chunk, unless a copy runs."""
        hosts = self._running.get(launch.key, {})
        hosts.pop(k, None)
        if hosts:
            return False
        self._running.pop(launch.key, None)
        if not launch.is_map:
            self._reduces.appendleft(launch.key)
            return True
        self._waiting.add(launch.key)
        for line in (self._maps, *(self._local[k] for k in self.where[launch.key])):
            line.appendleft(launch.key)
        return True


@dataclass(slots=True)
class Planned:
    """A plan's tasks on the plan's hosts at the plan's times; what is ended or late is shifted.

    Chunks lie on their tasks' hosts when the job begins, or ``is_streamed``: go there from then on,
    in the order of the plan. A task that was ended starts there again as soon as it fits (the
    paper: "we only shift the plan"). A task starts when its input is there, its memory and a part
    of a core are free, and its time has come, or fewer run there than the plan has at that time:
    plans count in whole ticks, and tasks end within one.
    """

    hosts: Sequence[Host]
    batch: Batch
    plan: Solution
    tick_s: float
    is_streamed: bool = False
    _maps: list[deque[tuple[float, int]]] = field(init=False)
    _reduces: list[deque[tuple[float, int]]] = field(init=False)
    _there: dict[int, tuple[int, float]] = field(init=False)
    _maps_left: int = field(init=False)
    _starts: list[list[float]] = field(init=False)
    _ends: list[list[float]] = field(init=False)

    def __post_init__(self) -> None:
        """Queue the tasks of each host by their start, and send the chunks of maps."""
        self._maps_left = self.batch.maps
        self._maps = self._queued(MAP, 0)
        self._reduces = self._queued(REDUCE, self.batch.maps)
        self._there = {}
        self._send(self._maps, 0.0, is_there=not self.is_streamed)
        self._note_times()

    def _note_times(self) -> None:
        """Note when the tasks that wait are to start and end on each host."""
        self._starts = [[] for _ in self.hosts]
        self._ends = [[] for _ in self.hosts]
        for k, queues in enumerate(zip(self._maps, self._reduces, strict=True)):
            works_s = (self.batch.map_core_s, self.batch.reduce_core_s)
            for queue, work_s in zip(queues, works_s, strict=True):
                ticks = math.ceil(work_s / self.hosts[k].speed / self.tick_s - 1e-9)
                self._starts[k] += [start_s for start_s, _ in queue]
                self._ends[k] += [start_s + ticks * self.tick_s for start_s, _ in queue]
            self._starts[k].sort()
            self._ends[k].sort()

    def _planned(self, k: int, now_s: float) -> int:
        """Return how many tasks the plan has running on a host."""
        return bisect_right(self._starts[k], now_s) - bisect_right(self._ends[k], now_s)

    @property
    def counts(self) -> dict[int, int]:
        """Return how many chunks go to each host."""
        return {k: len(queue) for k, queue in enumerate(self._maps)}

    def _queued(self, stage: int, first: int) -> list[deque[tuple[float, int]]]:
        rows: list[deque[tuple[float, int]]] = [deque() for _ in self.hosts]
        for key, (k, tick) in enumerate(tasks_of(self.plan, 0, stage), first):
            rows[k].append((tick * self.tick_s, key))
        return rows

    def _send(
        self, queues: Sequence[deque[tuple[float, int]]], from_s: float, *, is_there: bool = False
    ) -> None:
        """Send the input of queued tasks, on each link one after the other, unless it is there."""
        for k, queue in enumerate(queues):
            for number, (_, key) in enumerate(queue, 1):
                takes_s = self.hosts[k].sending_s(number * self.batch.chunk_bytes)
                self._there[key] = (k, from_s if is_there else from_s + takes_s)

    def _queue(self, k: int) -> deque[tuple[float, int]] | None:
        if self._maps[k]:
            return self._maps[k]
        return self._reduces[k] if not self._maps_left else None

    def next(self, k: int, room: Room) -> Launch | None:
        """Return the next of a host's tasks, if its time has come and it fits."""
        queue = self._queue(k)
        if not queue or room.left_m <= 0 or room.left_bytes < self.batch.task_memory_bytes:
            return None
        start_s, key = queue[0]
        where, there_s = self._there[key]
        is_due = start_s <= room.now_s or room.running < self._planned(k, room.now_s)
        if there_s > room.now_s or not is_due:
            return None
        queue.popleft()
        is_remote = where != k or there_s > room.now_s
        return Launch(key, key < self.batch.maps, room.now_s, is_remote)

    def wakes_s(self, k: int, now_s: float) -> float:
        """Return when the next of a host's tasks is to start, or its input is there."""
        queue = self._queue(k)
        if not queue:
            return math.inf
        start_s, key = queue[0]
        times = (start_s, self._there[key][1])
        return min((at_s for at_s in times if at_s > now_s), default=math.inf)

    def has_news(self) -> bool:
        """Return False: what a host takes is no news to others."""
        return False

    def ended(self, launch: Launch, _k: int, now_s: float) -> bool:
        """Count a map; after the last one what reduces read is sent to them."""
        self._maps_left -= launch.is_map
        if not launch.is_map or self._maps_left:
            return False
        self._send(self._reduces, now_s)
        return True

    def killed(self, launch: Launch, k: int, now_s: float) -> bool:
        """Put a task first in its host's line again; its chunk is still there."""
        queue = self._maps[k] if launch.is_map else self._reduces[k]
        queue.appendleft((now_s, launch.key))
        return False
