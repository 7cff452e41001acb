"""A replay: containers arrive, run, are moved by cycles, end; machines are switched with them.

The policies that place arrivals and the planner of cycles are the product's. All strategies keep
the same rule of switching: a machine that was empty for the grace time goes off, but for one in the
first generation, and one that is needed boots. What fits nowhere waits in order of arrival.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tenure.model.placing import Ask
from tenure.model.units import FOREVER_US, US
from tenure.placement.policies import Policies
from tenure.simulation.generations.machines import Guest, Machine, Meter, cluster_view, need_of
from tenure.simulation.generations.promotion import planned
from tenure.simulation.generations.setup import Setup
from tenure.simulation.generations.tasks import Task

#: At one moment: what ends makes room, machines come up, cycles run, then arrivals are placed.
END, READY, MOVED, CYCLE, ARRIVE, OFF = range(6)


@dataclass(slots=True)
class Outcome:
    """What a replay found. ``completion_s`` from submission to end, of those that ended.

    ``migrations`` are (time, from, to) by generation. ``on`` holds (time, generation, machines that
    are on or booting) at each change. ``borrowed`` began in a later generation for lack of room in
    the first. ``killed`` ran at the end of the time, ``waiting`` never did.
    """

    strategy: str
    meter: Meter = field(default_factory=Meter)
    completion_s: list[float] = field(default_factory=list)
    stretch: list[float] = field(default_factory=list)
    migrations: list[tuple[int, str, str]] = field(default_factory=list)
    on: list[tuple[int, str, int]] = field(default_factory=list)
    boots: int = 0
    skipped_nursery: int = 0
    borrowed: int = 0
    killed: int = 0
    waiting: int = 0

    def moved(self, source: str, target: str, *, until_us: int = FOREVER_US) -> int:
        """Return the migrations between two generations before ``until_us``."""
        return sum(
            at_us < until_us and (a, b) == (source, target) for at_us, a, b in self.migrations
        )


class Replay:
    """One run of ``setup`` over ``tasks`` until ``until_us``; ``seed`` is for random placement."""

    def __init__(self, tasks: Sequence[Task], setup: Setup, until_us: int, seed: int = 0) -> None:
        self.setup = setup
        self.now_us = 0
        self.outcome = Outcome(setup.strategy)
        self.machines: dict[str, Machine] = {}
        self.guests: dict[str, Guest] = {}
        self._until_us = until_us
        self._policies = Policies()
        self._seed = seed
        self._queue: list[tuple[int, int, int, str, int]] = []
        self._order = 0
        self._waiting: deque[str] = deque()
        self._apps: set[str] = set()
        self._tasks = {task.id: task for task in tasks}
        self._fleet()
        for task in tasks:
            self._put(task.submit_us, ARRIVE, task.id)
        for number, period_us in enumerate(setup.periods_us):
            self._put(period_us, CYCLE, str(number))

    def _fleet(self) -> None:
        for place, (generation, count) in enumerate(self.setup.sizes):
            for number in range(count):
                name = f"{generation}-{number + 1:02}"
                machine = self.machines[name] = Machine(name, generation)
                if not self.setup.is_switching or (place == 0 and number == 0):
                    machine.power = "on"
            self._note(generation)

    def run(self) -> Outcome:
        """Run to the end and return what was found."""
        steps = (self._end, self._ready, self._arrived, self._cycle, self._arrive, self._maybe_off)
        while self._queue and self._queue[0][0] < self._until_us:
            self.now_us, kind, _, name, turn = heapq.heappop(self._queue)
            steps[kind](name, turn)
        self.now_us = self._until_us
        for machine in self.machines.values():
            machine.pass_to(self._until_us)
            self.outcome.meter.add(machine.meter)
        self.outcome.waiting = len(self._waiting)
        running = [guest for guest in self.guests.values() if guest.node]
        self.outcome.killed = len(running)
        return self.outcome

    def _put(self, at_us: int, kind: int, name: str, turn: int = 0) -> None:
        self._order += 1
        heapq.heappush(self._queue, (at_us, kind, self._order, name, turn))

    # containers

    def _arrive(self, name: str, _turn: int) -> None:
        task = self._tasks[name]
        names = [generation for generation, _ in self.setup.sizes]
        is_known = self.setup.knows_apps and task.app in self._apps and len(names) > 1
        self.outcome.skipped_nursery += is_known
        self.guests[name] = Guest(task, names[1] if is_known else names[0])
        self._waiting.append(name)
        self._serve()

    def _serve(self) -> None:
        """Place what waits, in order of arrival, each where it fits."""
        tried: set[tuple[str, int, int]] = set()
        for name in list(self._waiting):
            guest = self.guests[name]
            need = need_of(guest, self.setup.headroom)
            kind = (guest.generation, need.cpu_m, need.memory_bytes)
            if kind not in tried and self._place(guest):
                self._waiting.remove(name)
            else:
                tried.add(kind)  # of those alike one is tried

    def _place(self, guest: Guest) -> bool:
        names = [generation for generation, _ in self.setup.sizes]
        is_borrowing = self.setup.is_borrowing and guest.generation == names[0]
        return any(
            self._place_in(guest, generation)
            for generation in (names if is_borrowing else (guest.generation,))
        )

    def _place_in(self, guest: Guest, generation: str) -> bool:
        machines = [m for m in self.machines.values() if m.generation == generation]
        setup, need = self.setup, need_of(guest, self.setup.headroom)
        view = cluster_view(machines, setup.headroom, self.now_us, setup.model.boot_us)
        eligible = np.ones(len(machines), dtype=np.bool_)
        ask = Ask("", 1, need.cpu_m, need.memory_bytes, 0, 0, None, eligible)
        self._seed += 1
        name = self._policies.spread(setup.entry, view, ask, self._seed)
        if name is None:
            return False
        machine = self.machines[name]
        self._touch(machine)
        self.outcome.borrowed += generation != guest.generation
        guest.node, guest.generation = name, generation
        machine.guests[guest.task.id] = guest
        if machine.power == "on":
            self._start(guest)
        else:
            self._boot(machine)
        return True

    def _start(self, guest: Guest) -> None:
        guest.started_us = guest.since_us = self.now_us
        guest.end_us = self.now_us + guest.task.run_us
        self._put(guest.end_us, END, guest.task.id, guest.turn)

    def _end(self, name: str, turn: int) -> None:
        guest = self.guests.get(name)
        if guest is None or guest.turn != turn or self.now_us < guest.end_us:
            return
        self._learn(guest)
        took_us = self.now_us - guest.task.submit_us
        self.outcome.completion_s.append(took_us / US)
        self.outcome.stretch.append(took_us / guest.task.run_us)
        self._leave(guest.node, name)
        if guest.target:
            self._touch(self.machines[guest.target])
            self.machines[guest.target].coming.pop(name, None)
            self._look(self.machines[guest.target])
        del self.guests[name]
        self._serve()

    def _leave(self, node: str, name: str) -> None:
        machine = self.machines[node]
        self._touch(machine)
        machine.guests.pop(name)
        self._look(machine)

    # machines

    def _touch(self, machine: Machine) -> None:
        """Count the time up to now, before something changes on a machine."""
        machine.pass_to(self.now_us)
        machine.idle_us = machine.kept = None

    def _look(self, machine: Machine) -> None:
        """Have a machine that is empty looked at when its grace is over."""
        if machine.is_empty and machine.power == "on" and self.setup.is_switching:
            machine.idle_us = self.now_us
            self._put(self.now_us + self.setup.grace_us, OFF, machine.name, self.now_us)

    def _boot(self, machine: Machine) -> None:
        if machine.power != "off":
            return
        machine.pass_to(self.now_us)
        machine.power = "booting"
        machine.ready_us = self.now_us + self.setup.model.boot_us
        self.outcome.boots += 1
        self._put(machine.ready_us, READY, machine.name)
        self._note(machine.generation)

    def _ready(self, name: str, _turn: int) -> None:
        machine = self.machines[name]
        machine.pass_to(self.now_us)
        machine.power = "on"
        for guest in machine.guests.values():
            if guest.started_us is None:
                self._start(guest)
        for guest in list(machine.coming.values()):
            self._depart(guest)
        self._look(machine)

    def _maybe_off(self, name: str, idle_us: int) -> None:
        machine = self.machines[name]
        if machine.idle_us != idle_us or not machine.is_empty or machine.power != "on":
            return
        first = self.setup.sizes[0][0]
        others = sum(
            m.power == "on" and m.generation == machine.generation and m is not machine
            for m in self.machines.values()
        )
        if machine.generation == first and not others:
            # asked again, because nothing else may tell when another one is on
            self._put(self.now_us + self.setup.grace_us, OFF, name, idle_us)
            return
        machine.pass_to(self.now_us)
        machine.power = "off"
        self._note(machine.generation)

    def _note(self, generation: str) -> None:
        count = sum(m.power != "off" for m in self.machines.values() if m.generation == generation)
        self.outcome.on.append((self.now_us, generation, count))

    # cycles

    def _cycle(self, name: str, _turn: int) -> None:
        number = int(name)
        self._put(self.now_us + self.setup.periods_us[number], CYCLE, name)
        for guest in self.guests.values():
            self._learn(guest)
        spec, machines = self.setup.cycles()[number], self.machines.values()
        for move in planned(spec, self.setup, machines, self.guests.values(), self.now_us):
            guest, target = self.guests[move.container], self.machines[move.target]
            self._touch(target)
            guest.target = target.name
            target.coming[guest.task.id] = guest
            if target.power == "on":
                self._depart(guest)
            else:
                self._boot(target)

    def _learn(self, guest: Guest) -> None:
        samples = guest.samples(self.now_us, self.setup.sample_us)
        if len(self.setup.sizes) > 1 and samples >= self.setup.min_samples:
            guest.is_measured = True
            for name in (guest.node, guest.target):
                if name:
                    self.machines[name].kept = None
            self._apps.add(guest.task.app)

    def _depart(self, guest: Guest) -> None:
        """Begin a move: the container stands still until it has arrived."""
        guest.turn += 1
        guest.end_us += self.setup.migration_us
        self._put(guest.end_us, END, guest.task.id, guest.turn)
        self._put(self.now_us + self.setup.migration_us, MOVED, guest.task.id, guest.turn)

    def _arrived(self, name: str, turn: int) -> None:
        guest = self.guests.get(name)
        if guest is None or guest.turn != turn or not guest.target:
            return
        source, target = self.machines[guest.node], self.machines[guest.target]
        self._touch(target)
        self._leave(source.name, name)
        del target.coming[name]
        target.guests[name] = guest
        moved = (self.now_us, source.generation, target.generation)
        self.outcome.migrations.append(moved)
        if source.generation != target.generation:
            guest.since_us = self.now_us
        guest.generation = target.generation
        guest.node, guest.target = target.name, ""
        guest.moved_us = self.now_us
        guest.moves += 1
        self._serve()
