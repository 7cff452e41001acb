"""The kernel's counters of what its OOM killer did to harvest tasks."""

from __future__ import annotations

from collections.abc import Collection

from tenure.agent import counters
from tenure.agent.io.files import KeptFiles, read
from tenure.agent.io.groups import folders_in
from tenure.agent.io.parent import MAX_TASKS, Parent
from tenure.agent.oom import OomLook, Starved, TaskKills, starved

#: The kernel charges pages by the batch: one that met its limit may have held so much less.
SLACK_BYTES = 1 << 18


class OomWatch:
    """What the kernel ended below one parent; used by one thread alone."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._files = KeptFiles()
        self._before: OomLook | None = None

    def look(self, ended: Collection[str]) -> tuple[Starved, ...]:
        """Return the tasks that the kernel ended since the last look, for want of memory.

        ``ended`` are those that the controller is ending itself. Counters of single tasks are read
        only when the sum has risen.
        """
        before, now = self._before, self._read()
        self._before = now
        return () if before is None or now is None else starved(before, now, ended)

    def close(self) -> None:
        """Close the files that are kept open, and forget what was seen."""
        self._before = None
        self._files.close()

    def _read(self) -> OomLook | None:
        base = self._parent.memory_folder
        if self._parent.version == 2:
            sums = self._files.read(f"{base}/memory.events")
            kills, limits = counters.value(sums, b"oom_kill"), counters.value(sums, b"oom") or 0
        else:
            sums = self._files.read(f"{self._parent.proc}/vmstat")
            kills, limits = counters.value(sums, b"oom_kill"), None
        if kills is None:
            return None  # a kernel before 4.13 does not count them
        before = self._before
        is_same = before is not None and kills == before.kills
        known = before.tasks if before is not None else {}
        tasks = {
            name: known.get(name, TaskKills()) if is_same else self._of(f"{base}/{name}")
            for name in folders_in(base)[:MAX_TASKS]
        }
        return OomLook(kills, limits, tasks)

    def _of(self, group: str) -> TaskKills:
        if self._parent.version == 2:
            events = read(f"{group}/memory.events")
            kills, limits = counters.value(events, b"oom_kill"), counters.value(events, b"oom")
            return TaskKills(kills or 0, limits or 0)
        kills = counters.value(read(f"{group}/memory.oom_control"), b"oom_kill")
        most = counters.number(read(f"{group}/memory.max_usage_in_bytes"))
        limit = counters.limit_bytes(read(f"{group}/memory.limit_in_bytes"))
        is_at_limit = most is not None and limit is not None and most >= limit - SLACK_BYTES
        return TaskKills(kills or 0, is_at_limit=is_at_limit)
