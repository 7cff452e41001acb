"""Counters of a node and of its harvest, to what a control law sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.model.resources import Resources
from tenure.qos.control import Observation, Task

#: Rates over more periods than this are the mean of something that has passed.
STALE_PERIODS = 3


@dataclass(frozen=True, slots=True)
class TaskCounters:
    """A task's cgroup: ``started`` by its first process, and what it has used."""

    key: str
    group: str
    started: int
    memory_bytes: int
    cpu_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Counters:
    """A node at ``at_us`` (monotonic): CPU time ever used, memory held now; None: not readable.

    ``has_parent``: harvest's parent is there; else harvest uses nothing. ``stalled_us`` is how
    long tasks of the node have ever stalled for memory (PSI).
    """

    at_us: int
    capacity: Resources
    node_cpu_ns: int | None
    harvest_cpu_ns: int | None
    node_memory_bytes: int | None
    harvest_memory_bytes: int | None
    has_parent: bool = True
    quota_m: int | None = None
    soft_bytes: int | None = None
    stalled_us: int | None = None
    tasks: tuple[TaskCounters, ...] = field(default=())


def observe(before: Counters | None, now: Counters, period_us: int) -> Observation:
    """Return what is seen between two looks; rates are None where they cannot be told.

    That is at the first look, after a gap of more than ``STALE_PERIODS``, and where a counter fell
    (a group of the same name was made anew). Regular use is the node's less harvest's, at least 0.
    """
    node_m = _rate_m(before, now, "node_cpu_ns", period_us)
    harvest_m = _rate_m(before, now, "harvest_cpu_ns", period_us)
    memory, held = now.node_memory_bytes, now.harvest_memory_bytes
    return Observation(
        now.at_us,
        now.capacity,
        None if node_m is None or harvest_m is None else max(0, node_m - harvest_m),
        harvest_m,
        None if memory is None or held is None else max(0, memory - held),
        held,
        _tasks(before, now),
        now.quota_m,
        now.soft_bytes,
        _pressure(before, now, period_us),
    )


def _rate_m(before: Counters | None, now: Counters, name: str, period_us: int) -> int | None:
    older: int | None = None if before is None else getattr(before, name)
    newer: int | None = getattr(now, name)
    if before is None or older is None or newer is None or newer < older:
        return None
    span_us = now.at_us - before.at_us
    if not 0 < span_us <= STALE_PERIODS * period_us:
        return None
    return round((newer - older) / span_us)


def _pressure(before: Counters | None, now: Counters, period_us: int) -> float | None:
    permille = _rate_m(before, now, "stalled_us", period_us)
    if permille is None or before is None or now.stalled_us is None or before.stalled_us is None:
        return None
    return (now.stalled_us - before.stalled_us) / (now.at_us - before.at_us)


def _tasks(before: Counters | None, now: Counters) -> tuple[Task, ...]:
    older: Mapping[str, TaskCounters] = {t.key: t for t in before.tasks} if before else {}
    span_us = max(1, now.at_us - before.at_us) if before else 1
    return tuple(
        Task(task.key, task.started, task.memory_bytes, _cpu_m(older.get(task.key), task, span_us))
        for task in now.tasks
    )


def _cpu_m(older: TaskCounters | None, task: TaskCounters, span_us: int) -> int:
    if older is None or older.cpu_ns is None or task.cpu_ns is None:
        return 0
    return max(0, round((task.cpu_ns - older.cpu_ns) / span_us))
