"""A batch on hosts that replay what their owners did, from event to event (Salamander, section IV).

The control laws are the agent's own, looked at every 100 ms for as long as anything still moves:
between two points of the trace a host whose tasks neither start nor end comes to rest after some
looks, and nothing is computed until its next event. Time is counted in looks.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.qos.control import Kill, Observation, SetQuota, State, Task, limits_of
from tenure.qos.laws import LAWS

TASK_CPU_M = 1000
#: What is left of a task's work when it counts as done, core-seconds: less than a look of any host.
DONE_CORE_S = 1e-9


@dataclass(frozen=True, slots=True)
class Host:
    """A host: its capacity, and what its owners use by point of the trace.

    ``cpu_m`` thousandths of a core and ``memory_bytes`` bytes, one value a point; beyond its end
    a trace begins anew. ``speed`` is that of one core, 1.0 where a task's work is stated;
    ``link_bytes_per_s`` how fast chunks reach it, None: they are there at once.
    """

    capacity: Resources
    cpu_m: Sequence[int]
    memory_bytes: Sequence[int]
    speed: float = 1.0
    link_bytes_per_s: float | None = None

    def sending_s(self, amount_bytes: int) -> float:
        """Return how long its link takes for so many bytes."""
        return 0.0 if self.link_bytes_per_s is None else amount_bytes / self.link_bytes_per_s


@dataclass(frozen=True, slots=True)
class Batch:
    """A MapReduce job: work in core-seconds and memory of each task of a stage.

    A map reads a chunk of ``chunk_bytes``, a reduce as much of what maps wrote.
    """

    maps: int = 640
    reduces: int = 40
    map_core_s: float = 35.0
    reduce_core_s: float = 70.0
    task_memory_bytes: int = 3 << 30
    chunk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Course:
    """How a replay goes: point and look of the trace, where it begins, and when it is given up."""

    point_s: float = 180.0
    look_s: float = 0.1
    start_point: int = 0
    limit_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a batch: its time (None: not done in the limit), and what went wrong.

    ``placing_s`` is what its chunks take to their hosts before it begins.

    ``kills`` tasks were ended and started again, ``kills_for_cpu`` of them for CPU; ``remote``
    tasks started on a host where their chunk was not; ``moved`` began, or began anew, elsewhere
    than planned because their host had no CPU for them.
    """

    duration_s: float | None
    tasks: int
    kills: int
    kills_for_cpu: int
    remote: int = 0
    placing_s: float = 0.0
    moved: int = 0

    @property
    def relaunched_ratio(self) -> float:
        """Return ended and started again, over tasks."""
        return self.kills / self.tasks if self.tasks else 0.0

    @property
    def remote_ratio(self) -> float:
        """Return remote starts over tasks."""
        return self.remote / self.tasks if self.tasks else 0.0


@dataclass(frozen=True, slots=True)
class Room:
    """A host as a dispatcher sees it: what harvest may use of it now, and what it uses.

    ``left_m`` and ``left_bytes`` are Algorithm 3's limits (capacity less owners' use less margin);
    ``shut_at``: tasks at which the controller ended some since owners' use last changed, None: it
    ended none.
    """

    now_s: float
    left_m: int
    left_bytes: int
    running: int
    shut_at: int | None


@dataclass(frozen=True, slots=True)
class Launch:
    """A task that starts now: a map or a reduce, and when its input is there (``ready_s``)."""

    key: int
    is_map: bool
    ready_s: float
    is_remote: bool = False


class Dispatcher(Protocol):
    """Who says which task starts where."""

    def next(self, k: int, room: Room) -> Launch | None:
        """Return the task that host ``k`` starts now, None for none."""

    def wakes_s(self, k: int, now_s: float) -> float:
        """Return when a task may start on an idle host though nothing happens there; inf: never."""

    def ended(self, launch: Launch, k: int, now_s: float) -> bool:
        """Take in that a task is done; returns whether other hosts may have work by that."""

    def killed(self, launch: Launch, k: int, now_s: float) -> bool:
        """Take in that a task was ended by the controller; returns the same."""

    def has_news(self) -> bool:
        """Return, once, whether other hosts may have work by what was last asked."""


@dataclass(slots=True)
class _Running:
    launch: Launch
    started: int
    left_core_s: float


@dataclass(slots=True)
class _Site:
    """A host with its tasks and its controller, as of look ``at``."""

    index: int
    host: Host
    tasks: dict[int, _Running] = field(default_factory=dict)
    state: State = field(default_factory=State)
    quota_m: int | None = None
    at: int = 0
    due: int = 0
    point: int = -1
    regular_m: int = 0
    regular_bytes: int = 0
    used_m: int = 0
    working: int = 0
    shut_at: int | None = None
    is_settled: bool = False


class Replay:
    """One replay: hosts, a batch, a control law, and who dispatches."""

    def __init__(
        self,
        hosts: Sequence[Host],
        batch: Batch,
        params: QosParams,
        dispatcher: Dispatcher,
        course: Course,
    ) -> None:
        look_us = round(course.look_s * 1e6)
        self._params = replace(params, stale_us=max(params.stale_us, 3 * look_us))
        self._law = LAWS[params.controller]
        self._batch, self._course, self._dispatcher = batch, course, dispatcher
        self._sites = [_Site(k, host) for k, host in enumerate(hosts)]
        self._left = batch.maps + batch.reduces
        self._point_looks = round(course.point_s / course.look_s)
        self._heap: list[tuple[int, int]] = []
        self._done: set[int] = set()
        self._starts = self._kills = self._kills_for_cpu = self._remote = 0

    def run(self) -> Replayed:
        """Return what becomes of the batch."""
        tasks, now = self._left, 0
        limit = math.ceil(self._course.limit_s / self._course.look_s)
        self._heap = [(0, site.index) for site in self._sites]
        while self._left and self._heap:
            now, k = heapq.heappop(self._heap)
            if now >= limit:
                break
            site = self._sites[k]
            if now == site.due:
                self._turn(site, now)
        duration_s = None if self._left else now * self._course.look_s
        return Replayed(duration_s, tasks, self._kills, self._kills_for_cpu, self._remote)

    def _turn(self, site: _Site, now: int) -> None:
        """Bring a host to ``now``: work, what the controller does, then what is new."""
        is_changed = self._work(site, now)
        if not site.is_settled:
            is_changed |= self._control(site, now)
        is_changed |= self._see(site, now)
        is_changed |= self._launch(site, now)
        if self._dispatcher.has_news():
            self._wake(now)
        if is_changed:
            site.is_settled = False
        self._share(site, now)
        site.due = self._next(site, now)
        heapq.heappush(self._heap, (site.due, site.index))

    def _seconds(self, look: int) -> float:
        return look * self._course.look_s

    def _looks(self, seconds: float) -> int:
        return math.ceil(seconds / self._course.look_s - 1e-9)

    def _work(self, site: _Site, now: int) -> bool:
        """Let the tasks of a host work since its last turn; returns whether any is done."""
        done_s = self._rate(site) * self._seconds(now - site.at)
        since, site.at = site.at, now
        ended = []
        for key, task in site.tasks.items():
            if self._looks(task.launch.ready_s) <= since:
                task.left_core_s -= done_s
                if task.left_core_s <= DONE_CORE_S:
                    ended.append(key)
        ended += [key for key in site.tasks if key in self._done and key not in ended]
        for key in ended:
            launch = site.tasks.pop(key).launch
            if key not in self._done:  # else another copy was first
                self._end(launch, site, now)
        return bool(ended)

    def _end(self, launch: Launch, site: _Site, now: int) -> None:
        """Count a task that is done; copies of it end at the next look."""
        self._done.add(launch.key)
        self._left -= 1
        has_news = self._dispatcher.ended(launch, site.index, self._seconds(now))
        if has_news or any(launch.key in other.tasks for other in self._sites):
            self._wake(now)

    def _rate(self, site: _Site) -> float:
        """Return core-seconds that each task that works gets in a second."""
        return site.used_m / 1000 / site.working if site.working else 0.0

    def _share(self, site: _Site, now: int) -> None:
        """Share what harvest gets (its quota, never more than owners leave) among its tasks."""
        left_m = site.host.capacity.cpu_m - site.regular_m
        most_m = left_m if site.quota_m is None else min(left_m, site.quota_m)
        site.working = sum(self._looks(t.launch.ready_s) <= now for t in site.tasks.values())
        site.used_m = max(0, min(most_m, site.working * TASK_CPU_M))

    def _see(self, site: _Site, now: int) -> bool:
        """Take over the owners' use of a new point of the trace."""
        point = now // self._point_looks
        if point == site.point:
            return False
        site.point, site.shut_at = point, None
        host, row = site.host, self._course.start_point + point
        site.regular_m = min(host.cpu_m[row % len(host.cpu_m)], host.capacity.cpu_m)
        memory = host.memory_bytes[row % len(host.memory_bytes)]
        site.regular_bytes = min(memory, host.capacity.memory_bytes)
        return True

    def _observed(self, site: _Site, now: int) -> Observation:
        size, count = self._batch.task_memory_bytes, len(site.tasks)
        each_m = site.used_m // count if count else 0
        return Observation(
            round(self._seconds(now) * 1e6),
            site.host.capacity,
            site.regular_m,
            each_m * count,
            site.regular_bytes,
            size * count,
            tuple(Task(str(key), t.started, size, each_m) for key, t in site.tasks.items()),
            site.quota_m,
        )

    def _launch(self, site: _Site, now: int) -> bool:
        limits = limits_of(self._observed(site, now), self._params)
        size, is_any = self._batch.task_memory_bytes, False
        while True:
            room = Room(
                self._seconds(now),
                limits.cpu_m or 0,
                (limits.memory_bytes or 0) - size * len(site.tasks),
                len(site.tasks),
                site.shut_at,
            )
            launch = self._dispatcher.next(site.index, room)
            if launch is None:
                return is_any
            work_s = self._batch.map_core_s if launch.is_map else self._batch.reduce_core_s
            self._starts += 1
            self._remote += launch.is_remote
            running = _Running(launch, self._starts, work_s / site.host.speed)
            site.tasks[launch.key] = running
            is_any = True

    def _control(self, site: _Site, now: int) -> bool:
        """Have the law look at a host; returns whether tasks were ended."""
        before = site.state
        decision = self._law(self._observed(site, now), before, self._params)
        # a killed task is gone by the next look
        site.state = replace(decision.state, killing={})
        is_any = False
        for action in decision.actions:
            if isinstance(action, SetQuota):
                site.quota_m = action.quota_m
            elif isinstance(action, Kill):
                self._kill(site, action, now)
                is_any = True
        is_same = site.state.limits == before.limits
        is_long = len(before.limits) in (0, self._params.calm_periods)
        site.is_settled = not decision.actions and is_same and is_long
        return is_any

    def _kill(self, site: _Site, kill: Kill, now: int) -> None:
        launch = site.tasks.pop(int(kill.task.key)).launch
        site.shut_at = len(site.tasks)
        self._kills += 1
        self._kills_for_cpu += kill.resource == "cpu"
        if self._dispatcher.killed(launch, site.index, self._seconds(now)):
            self._wake(now)

    def _wake(self, now: int) -> None:
        """Have every host look for work at the next look."""
        for site in self._sites:
            if site.due > now + 1:
                site.due = now + 1
                heapq.heappush(self._heap, (site.due, site.index))

    def _next(self, site: _Site, now: int) -> int:
        """Return the look at which something happens on a host next."""
        found = [(site.point + 1) * self._point_looks]
        if not site.is_settled:
            found.append(now + 1)
        rate = self._rate(site)
        for task in site.tasks.values():
            ready = self._looks(task.launch.ready_s)
            if ready > now:
                found.append(ready)
            elif rate > 0:
                found.append(now + self._looks(task.left_core_s / rate))
        wakes_s = self._dispatcher.wakes_s(site.index, self._seconds(now))
        if math.isfinite(wakes_s):
            found.append(self._looks(wakes_s))
        return max(now + 1, min(found))


def replay(
    hosts: Sequence[Host],
    batch: Batch,
    params: QosParams,
    dispatcher: Dispatcher,
    course: Course | None = None,
) -> Replayed:
    """Run a batch on hosts whose owners do what their traces say, under ``params.controller``.

    Deterministic. A task uses one core at most; what harvest gets on a host (its quota, and never
    more than owners leave) is shared evenly by those whose input is there. A killed task begins
    anew. Once a controller has ended tasks on a host that takes no more than survived, until its
    owners' use changes: else the same slots would be filled and emptied at every heartbeat (ours;
    the paper does not tell).
    """
    return Replay(hosts, batch, params, dispatcher, course or Course()).run()
