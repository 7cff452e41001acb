"""A plan whose rest is planned anew where hosts have no CPU for their tasks, as the daemon has it.

The paper shifts a plan: a task waits on its host, however long owners need all of it there. The
daemon (``core/batches/starvation.py``) has tasks begin elsewhere after a minute, and plans the rest
anew.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reproductions.salamander.dispatch import MAP, REDUCE, Planned
from reproductions.salamander.replay import Launch, Room
from tenure.harvest.problem import Problem, Running
from tenure.harvest.replan import State, rest
from tenure.harvest.solution import Solution, tasks_of

#: After so long without CPU tasks begin elsewhere; looked at as often (``Params.starved_us``).
STARVED_S = 60.0
Queues = list[deque[tuple[float, int]]]


@dataclass(slots=True, kw_only=True)
class Moved(Planned):
    """A plan's tasks, but those of hosts without CPU begin elsewhere, by a plan of what is left.

    ``problem`` is that of the plan, with the bytes of its chunks; ``solve`` plans its rest. On a
    host whose owners have been in the margin of CPU for a minute nothing begins; what runs there
    begins anew elsewhere if less than half of it was done, or once it got nothing for as long as it
    takes (the first to end counts). A chunk that was placed on such a host is sent again to
    another: that task is remote.
    """

    problem: Problem
    solve: Callable[[Problem], Solution]
    moved: int = 0
    _since_s: dict[int, float] = field(default_factory=dict)
    _looked_s: dict[int, float] = field(default_factory=dict)
    _shut: set[int] = field(default_factory=set)
    _running: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    _far: set[int] = field(default_factory=set)
    _link_s: dict[int, float] = field(default_factory=dict)
    _is_new: bool = False

    def next(self, k: int, room: Room) -> Launch | None:
        """Return the next of a host's tasks, unless it has no CPU; then they are planned anew."""
        if self._is_to_move(k, room):
            self._plan_anew(k, room.now_s)
        launch = None if k in self._shut else Planned.next(self, k, room)
        if launch is None:
            return None
        self._running.setdefault(launch.key, []).append((k, room.now_s))
        is_far = launch.is_map and launch.key in self._far
        return Launch(launch.key, launch.is_map, launch.ready_s, is_far)

    def wakes_s(self, k: int, now_s: float) -> float:
        """Return the same as of any plan, or when a host without CPU is looked at."""
        found = Planned.wakes_s(self, k, now_s)
        if k not in self._since_s:
            return found
        look_s = max(self._since_s[k], self._looked_s.get(k, -math.inf)) + STARVED_S
        return min(found, look_s) if look_s > now_s else found

    def has_news(self) -> bool:
        """Return, once, whether the rest was planned anew."""
        found, self._is_new = self._is_new, False
        return found

    def ended(self, launch: Launch, k: int, now_s: float) -> bool:
        """Count a task; what else was to begin of it does not."""
        self._running.pop(launch.key, None)
        for queue in self._maps if launch.is_map else self._reduces:
            for row in [row for row in queue if row[1] == launch.key]:
                queue.remove(row)
        is_last = Planned.ended(self, launch, k, now_s)
        if is_last:
            for host, queue in enumerate(self._reduces):
                sending_s = self.hosts[host].sending_s(len(queue) * self.batch.chunk_bytes)
                self._link_s[host] = now_s + sending_s
        return is_last

    def killed(self, launch: Launch, k: int, now_s: float) -> bool:
        """Have a task begin there again, unless it runs or is to begin elsewhere."""
        left = [row for row in self._running.pop(launch.key, []) if row[0] != k]
        queues = self._maps if launch.is_map else self._reduces
        if left:
            self._running[launch.key] = left
        elif not any(row[1] == launch.key for queue in queues for row in queue):
            return Planned.killed(self, launch, k, now_s)
        return False

    def _is_to_move(self, k: int, room: Room) -> bool:
        """Take in whether a host has CPU; return whether its tasks are looked at now."""
        if room.left_m > 0:
            is_back = k in self._shut
            self._since_s.pop(k, None)
            self._shut.discard(k)
            return is_back and any(map(len, (*self._maps, *self._reduces)))
        since_s = self._since_s.setdefault(k, room.now_s)
        look_s = max(since_s, self._looked_s.get(k, -math.inf)) + STARVED_S
        if room.now_s < look_s:
            return False
        self._looked_s[k] = room.now_s
        self._shut.add(k)
        return bool(self._maps[k] or self._reduces[k]) or any(self._stuck(k, room.now_s))

    def _stuck(self, k: int, now_s: float) -> Iterator[int]:
        """Yield the tasks that run on a host alone and are worth beginning elsewhere."""
        since_s = self._since_s[k]
        queued = {key for queue in (*self._maps, *self._reduces) for _, key in queue}
        for key, places in self._running.items():
            if len(places) == 1 and places[0][0] == k and key not in queued:
                takes_s = self._takes_s(k, MAP if key < self.batch.maps else REDUCE)
                if since_s - places[0][1] < takes_s / 2 or now_s - since_s >= takes_s:
                    yield key

    def _takes_s(self, k: int, stage: int) -> float:
        work_s = self.batch.map_core_s if stage == MAP else self.batch.reduce_core_s
        return work_s / self.hosts[k].speed

    def _plan_anew(self, k: int, now_s: float) -> None:
        """Plan all that has not begun and what is stuck on ``k``, on hosts that have CPU."""
        stuck = set(self._stuck(k, now_s)) if k in self._since_s else set[int]()
        at, first = math.ceil(now_s / self.tick_s - 1e-9), self.batch.maps
        homes = [
            {key: host for host, queue in enumerate(queues) for _, key in queue}
            for queues in (self._maps, self._reduces)
        ]
        waiting = (
            sorted([*homes[MAP], *(key for key in stuck if key < first)]),
            sorted([*homes[REDUCE], *(key for key in stuck if key >= first)]),
        )
        # what is on its way counts as there: sent elsewhere each time, nothing would ever arrive
        lying = Counter(
            (stage, host)
            for stage, hosts in enumerate(homes)
            for host in hosts.values()
            if stage == MAP or not self._maps_left
        )
        running = tuple(self._runs({*waiting[MAP], *waiting[REDUCE]}, at))
        held = Counter(run.stage for run in running)
        # what goes on without CPU takes no room of others, and nobody knows when it ends
        all_ = (self.batch.maps, self.batch.reduces)
        ended = tuple((0, s, all_[s] - len(waiting[s]) - held[s]) for s in (MAP, REDUCE))
        delivered = tuple((0, stage, node, n) for (stage, node), n in sorted(lying.items()))
        state = State(at, ended, running, delivered, frozenset(self._shut))
        plan = self.solve(rest(self.problem, state))
        if plan.refusals:
            return  # it goes on as it was
        self._is_new = True
        self._maps, self._reduces = (
            self._dealt(list(tasks_of(plan, 0, stage)), waiting[stage], homes[stage], now_s)
            for stage in (MAP, REDUCE)
        )
        self._note_times()

    def _runs(self, waiting: set[int], at: int) -> Iterator[Running]:
        """Yield what runs on hosts with CPU, with the ticks by which it should end."""
        for key, places in self._running.items():
            k, began_s = places[-1]
            if key not in waiting and k not in self._shut:
                stage = MAP if key < self.batch.maps else REDUCE
                end = math.ceil((began_s + self._takes_s(k, stage)) / self.tick_s)
                yield Running(0, stage, k, max(at + 1, end), 1)

    def _dealt(
        self,
        starts: Sequence[tuple[int, int]],
        keys: Sequence[int],
        homes: Mapping[int, int],
        now_s: float,
    ) -> Queues:
        """Return a stage's queues by (host, tick), tasks at home as far as that goes."""
        rows: Queues = [deque() for _ in self.hosts]
        here: list[deque[int]] = [deque() for _ in self.hosts]
        for key in keys:
            if key in homes:
                here[homes[key]].append(key)
        far = deque(key for key in keys if key not in homes)
        wants = Counter(node for node, _ in starts)
        for k, line in enumerate(here):
            while len(line) > wants[k]:
                far.append(line.pop())
        for node, tick in starts:
            key = here[node].popleft() if here[node] else far.popleft()
            if homes.get(key) != node:
                self._move(key, node, now_s)
            rows[node].append((tick * self.tick_s, key))
        return rows

    def _move(self, key: int, node: int, now_s: float) -> None:
        """Have a task begin on another host than it was to, or anew."""
        self.moved += 1
        is_map = key < self.batch.maps
        if not is_map and self._maps_left:
            return  # what it reads is sent once all maps have ended
        begin_s = max(now_s, self._link_s.get(node, 0.0))
        self._link_s[node] = begin_s + self.hosts[node].sending_s(self.batch.chunk_bytes)
        self._there[key] = (node, self._link_s[node])
        if is_map:
            self._far.add(key)
