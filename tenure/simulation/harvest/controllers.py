"""Old controller against new (Salamander, section IV, RQ3): one job, one law, replayed hosts.

The control laws are the agent's own. Tasks are started as Hadoop does for Cuckoo: in order, on any
host with a free slot, reduces once all maps are done; no forecast, no data placement.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.qos.control import Kill, Observation, SetQuota, State, Task
from tenure.qos.laws import LAWS

TASK_CPU_M = 1000


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its capacity, and what its owners use by point of the trace.

    ``cpu_m`` thousandths of a core and ``memory_bytes`` bytes, one value a point; beyond its end
    a trace begins anew. ``speed`` is that of one core, 1.0 where a task's work is stated.
    """

    capacity: Resources
    cpu_m: Sequence[int]
    memory_bytes: Sequence[int]
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A MapReduce job: work in core-seconds and memory of each task of a stage."""

    maps: int = 640
    reduces: int = 40
    map_core_s: float = 35.0
    reduce_core_s: float = 70.0
    task_memory_bytes: int = 3 << 30


@dataclass(frozen=True, slots=True)
class Course:
    """How a replay goes: point and look of the trace, slots of a host, and when it is given up.

    ``start_point`` where the trace begins; ``relaunch_s`` how long a host takes no task after it
    ended one (a heartbeat and the launch).
    """

    point_s: float = 180.0
    look_s: float = 1.0
    start_point: int = 0
    slots: int = 20
    relaunch_s: float = 10.0
    limit_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a batch: its time (None: not done in the limit), and tasks ended by reason."""

    duration_s: float | None
    tasks: int
    kills: int
    kills_for_cpu: int

    @property
    def relaunched_ratio(self) -> float:
        """Return ended and started again, over tasks."""
        return self.kills / self.tasks if self.tasks else 0.0


@dataclass(slots=True)
class _Running:
    key: str
    started: int
    left_core_s: float
    is_map: bool


@dataclass(slots=True)
class _Site:
    """A host with its tasks and its controller."""

    host: Host
    tasks: dict[str, _Running] = field(default_factory=dict)
    state: State = field(default_factory=State)
    quota_m: int | None = None
    shut_until_s: float = 0.0
    used_m: int = 0


def replay(
    hosts: Sequence[Host], batch: Batch, params: QosParams, course: Course | None = None
) -> Replayed:
    """Run a batch on hosts whose owners do what their traces say, under ``params.controller``.

    Deterministic. A task uses one core at most; what harvest gets on a host (its quota, and never
    more than owners leave) is shared evenly. A killed task begins anew. A task starts where a slot
    is free and its memory fits the limit of that moment; CPU is not asked for, as with fixed slots.
    """
    return _Replay(hosts, batch, params, course or Course()).run()


class _Replay:
    def __init__(
        self, hosts: Sequence[Host], batch: Batch, params: QosParams, course: Course
    ) -> None:
        look_us = round(course.look_s * 1e6)
        self._params = replace(params, stale_us=max(params.stale_us, 3 * look_us))
        self._law = LAWS[params.controller]
        self._batch, self._course = batch, course
        self._sites = [_Site(host) for host in hosts]
        self._maps = deque(f"m{n:05}" for n in range(batch.maps))
        self._reduces = deque(f"r{n:05}" for n in range(batch.reduces))
        self._maps_left, self._left = batch.maps, batch.maps + batch.reduces
        self._starts = 0
        self._kills = self._kills_for_cpu = 0

    def run(self) -> Replayed:
        tasks = self._left
        now_s, duration_s = 0.0, None
        while self._left and now_s < self._course.limit_s:
            for site in self._sites:
                self._launch(site, now_s)
            for site in self._sites:
                self._work(site, now_s)
                self._control(site, now_s)
            now_s += self._course.look_s
            duration_s = None if self._left else now_s
        return Replayed(duration_s, tasks, self._kills, self._kills_for_cpu)

    def _regular(self, site: _Site, now_s: float) -> tuple[int, int]:
        point = self._course.start_point + int(now_s // self._course.point_s)
        host = site.host
        cpu_m = min(host.cpu_m[point % len(host.cpu_m)], host.capacity.cpu_m)
        memory = host.memory_bytes[point % len(host.memory_bytes)]
        return cpu_m, min(memory, host.capacity.memory_bytes)

    def _launch(self, site: _Site, now_s: float) -> None:
        if now_s < site.shut_until_s:
            return
        margin = int(site.host.capacity.memory_bytes * self._params.memory_margin)
        room = site.host.capacity.memory_bytes - self._regular(site, now_s)[1] - margin
        need = self._batch.task_memory_bytes
        while len(site.tasks) < self._course.slots and (len(site.tasks) + 1) * need <= room:
            queue = self._maps or (self._reduces if not self._maps_left else None)
            if not queue:
                return
            key = queue.popleft()
            is_map = key.startswith("m")
            work_s = self._batch.map_core_s if is_map else self._batch.reduce_core_s
            self._starts += 1
            site.tasks[key] = _Running(key, self._starts, work_s / site.host.speed, is_map)

    def _work(self, site: _Site, now_s: float) -> None:
        """Let the tasks of a host work for one look."""
        left_m = site.host.capacity.cpu_m - self._regular(site, now_s)[0]
        most_m = left_m if site.quota_m is None else min(left_m, site.quota_m)
        site.used_m = max(0, min(most_m, len(site.tasks) * TASK_CPU_M))
        if not site.tasks:
            return
        done_s = site.used_m / 1000 / len(site.tasks) * self._course.look_s
        for task in list(site.tasks.values()):
            task.left_core_s -= done_s
            if task.left_core_s <= 0:
                del site.tasks[task.key]
                self._left -= 1
                self._maps_left -= task.is_map

    def _control(self, site: _Site, now_s: float) -> None:
        cpu_m, memory = self._regular(site, now_s + self._course.look_s)
        size, count = self._batch.task_memory_bytes, len(site.tasks)
        each_m = site.used_m // count if count else 0
        used_m = each_m * count
        seen = Observation(
            round((now_s + self._course.look_s) * 1e6),
            site.host.capacity,
            cpu_m,
            used_m,
            memory,
            size * count,
            tuple(Task(t.key, t.started, size, each_m) for t in site.tasks.values()),
            site.quota_m,
        )
        decision = self._law(seen, site.state, self._params)
        # a killed task is gone by the next look
        site.state = replace(decision.state, killing={})
        for action in decision.actions:
            if isinstance(action, SetQuota):
                site.quota_m = action.quota_m
            elif isinstance(action, Kill):
                self._end(site, action, now_s)

    def _end(self, site: _Site, kill: Kill, now_s: float) -> None:
        task = site.tasks.pop(kill.task.key)
        (self._maps if task.is_map else self._reduces).appendleft(task.key)
        site.shut_until_s = now_s + self._course.relaunch_s
        self._kills += 1
        self._kills_for_cpu += kill.resource == "cpu"


def compare(
    hosts: Sequence[Host], batch: Batch, params: QosParams, course: Course | None = None
) -> dict[str, Replayed]:
    """Return what becomes of the same batch under each controller (Fig. 5), by its name."""
    return {
        name: replay(hosts, batch, replace(params, controller=name), course)
        for name in sorted(LAWS)
    }
