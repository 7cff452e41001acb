"""Harvest tasks that the kernel's OOM killer ended, told from its counters (ours).

A node whose owners grow faster than the controller looks runs out of memory before that can end a
task; the kernel takes harvest first then, by its OOM score. The kernel counts whom it kills in the
group of the victim (``oom_kill`` of version 1's ``memory.oom_control`` and of version 2's
``memory.events``). Engines remove that group some tens of milliseconds later, often before the next
look; what is left then is the count of all kills (version 1: the machine's, version 2: those below
harvest's parent) and that a task is gone.

A task that met its own limit was not short of what owners took: that is its own fault. Version 2
counts limits that were met (``oom``); on version 1 a group that once held as much as it may is
taken to have met it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TaskKills:
    """How often the kernel killed in a task's group, and how often that met its own limit.

    ``is_at_limit``: it held as much as it may at some time (version 1, which counts no limits).
    """

    kills: int = 0
    limits: int = 0
    is_at_limit: bool = False


@dataclass(frozen=True, slots=True)
class OomLook:
    """Counters at a look: of all kills, of all limits met (None: not counted), and of each task."""

    kills: int
    limits: int | None = None
    tasks: Mapping[str, TaskKills] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Starved:
    """A task that the kernel ended because its node was short of memory.

    Not ``is_certain``: it is gone, and somebody was killed; it may have met its own limit.
    """

    key: str
    is_certain: bool


def starved(before: OomLook, now: OomLook, ended: Collection[str] = ()) -> tuple[Starved, ...]:
    """Return the tasks that the kernel ended between two looks for want of the node's memory.

    ``ended`` are those that the controller is ending itself. O(tasks).
    """
    risen = now.kills - before.kills
    if risen <= 0:
        return ()
    found: list[Starved] = []
    own = 0
    for key, task in now.tasks.items():
        was = before.tasks.get(key, TaskKills())
        if task.kills <= was.kills:
            continue
        risen -= task.kills - was.kills
        own += task.limits - was.limits
        if not (task.is_at_limit or task.limits > was.limits):
            found.append(Starved(key, is_certain=True))
    gone = [key for key in before.tasks if key not in now.tasks and key not in ended]
    limits = None if now.limits is None else now.limits - (before.limits or 0) - own
    if risen > 0 and not limits:
        is_certain = limits is not None and risen >= len(gone)
        found += [Starved(key, is_certain) for key in gone]
    return tuple(found)
