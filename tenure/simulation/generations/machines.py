"""Machines that are switched and draw power, and the containers on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tenure.cycles.snapshot import NodeView
from tenure.model.placing import ClusterView
from tenure.model.resources import Resources, total
from tenure.model.units import US
from tenure.simulation.generations.tasks import NODE, Task

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Watts: linear from ``idle_w`` to ``full_w`` in the share of cores used, ``off_w`` when off,
    ``full_w`` while booting for ``boot_us``.
    """

    idle_w: float = 120.0
    full_w: float = 200.0
    off_w: float = 5.0
    boot_us: int = 60 * US


@dataclass(slots=True)
class Meter:
    """Seconds that a machine was on, off and booting; ``used_s`` is on-time times its load."""

    on_s: float = 0.0
    off_s: float = 0.0
    boot_s: float = 0.0
    used_s: float = 0.0

    def add(self, other: Meter) -> None:
        """Add another machine's."""
        self.on_s += other.on_s
        self.off_s += other.off_s
        self.boot_s += other.boot_s
        self.used_s += other.used_s

    def kwh(self, model: PowerModel) -> float:
        """Return the energy under a model; exact for any linear one with the same boot time."""
        joules = (
            model.idle_w * self.on_s
            + (model.full_w - model.idle_w) * self.used_s
            + model.full_w * self.boot_s
            + model.off_w * self.off_s
        )
        return joules / JOULES_PER_KWH


@dataclass(slots=True)
class Guest:
    """A container's life. ``node`` is where it is, ``target`` where it moves to ("" nowhere).

    ``turn`` tells the events of one span from those before. ``is_measured``: its use is known.
    """

    task: Task
    generation: str
    node: str = ""
    target: str = ""
    since_us: int = 0
    started_us: int | None = None
    end_us: int = 0
    moved_us: int | None = None
    turn: int = 1
    moves: int = 0
    is_measured: bool = False

    def samples(self, now_us: int, sample_us: int) -> int:
        """Return how often the container was sampled in its generation."""
        return 0 if self.started_us is None else (now_us - self.since_us) // sample_us


@dataclass(slots=True)
class Machine:
    """One host. ``guests`` run or wait for its boot here, ``coming`` are to move in.

    ``kept`` is what was free when last asked for; whoever changes what is here forgets it.
    """

    name: str
    generation: str
    power: Literal["off", "booting", "on"] = "off"
    capacity: Resources = NODE
    guests: dict[str, Guest] = field(default_factory=dict)
    coming: dict[str, Guest] = field(default_factory=dict)
    meter: Meter = field(default_factory=Meter)
    seen_us: int = 0
    ready_us: int = 0
    idle_us: int | None = None
    kept: Resources | None = None

    @property
    def is_empty(self) -> bool:
        return not self.guests and not self.coming

    def pass_to(self, now_us: int) -> None:
        """Count the time since it was last looked at as it was; call before any change."""
        span_s = (now_us - self.seen_us) / US
        self.seen_us = now_us
        if self.power == "off":
            self.meter.off_s += span_s
        elif self.power == "booting":
            self.meter.boot_s += span_s
        else:
            running = (g.task.use.cpu_m for g in self.guests.values() if g.started_us is not None)
            self.meter.on_s += span_s
            self.meter.used_s += span_s * min(1.0, sum(running) / self.capacity.cpu_m)

    def free(self, headroom: float) -> Resources:
        """Return what is free here when its guests count for what they need."""
        if self.kept is None:
            every = (*self.guests.values(), *self.coming.values())
            self.kept = self.capacity - total(need_of(guest, headroom) for guest in every)
        return self.kept


def need_of(guest: Guest, headroom: float) -> Resources:
    """Return what a container counts for: its request, once measured its use with headroom."""
    return guest.task.use.scaled(headroom) if guest.is_measured else guest.task.request


def cluster_view(
    machines: list[Machine], headroom: float, now_us: int, boot_us: int
) -> ClusterView:
    """Return the machines as a placement policy sees them, by name."""
    machines = sorted(machines, key=lambda machine: machine.name)
    free = [machine.free(headroom) for machine in machines]
    waits = {"on": 0, "off": boot_us}
    boots = [waits.get(m.power, max(0, m.ready_us - now_us)) for m in machines]
    zeros = np.zeros(len(machines), dtype=np.int64)

    def column(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    return ClusterView(
        names=tuple(machine.name for machine in machines),
        free_cpu_m=column([max(0, f.cpu_m) for f in free]),
        free_memory=column([max(0, f.memory_bytes) for f in free]),
        capacity_cpu_m=column([machine.capacity.cpu_m for machine in machines]),
        capacity_memory=column([machine.capacity.memory_bytes for machine in machines]),
        price=zeros,
        remaining_us=zeros,
        is_on=np.array([machine.power != "off" for machine in machines], dtype=np.bool_),
        is_cloud=np.zeros(len(machines), dtype=np.bool_),
        boot_us=column(boots),
        reboot_us=column([boot_us] * len(machines)),
        min_billing_us=zeros,
    )


def node_view(machine: Machine, headroom: float, model: PowerModel) -> NodeView:
    """Return a machine as a cycle sees it."""
    return NodeView(
        machine.name,
        machine.generation,
        machine.capacity,
        machine.free(headroom),
        is_on=machine.power == "on",
        is_switchable=True,
        idle_w=model.idle_w,
        peak_w=model.full_w,
        held="moves under way" if machine.coming else "",
    )
