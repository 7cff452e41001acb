"""When what runs will give back its room: a row each, kept between events.

Owns nothing: ``snapshots`` keeps the rows.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.capacity.room import run_estimate_us
from tenure.core.state.context import Context
from tenure.model.arrays import np
from tenure.model.placing import Ints, Running

START_ROWS = 64
NOBODY = -1


class Occupants:
    """Rows of executors by the node they are on; a row that is free has node ``NOBODY``.

    ``started_us`` is -1 until an executor started. From then on it ends after its estimate, as
    ``room.end_estimate_us`` says; before, it waits for its node and its retry. A container that is
    being removed is a row of its own, overdue: its room comes back too.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[int]] = {}
        self._free: list[int] = []
        self._columns = _columns(0)

    def read(self, ctx: Context, name: str, position: int) -> None:
        """Write anew the rows of one node, which is number ``position``."""
        rows = self._rows.pop(name, [])
        self._columns[0][rows] = NOBODY
        self._free += rows
        here = ctx.executors_on(name)
        going = [tombstone.request for tombstone in ctx.tombstones_on(name) if tombstone.may_run]
        count = len(here) + len(going)
        if not count:
            return
        if len(self._free) < count:
            self._grow(count)
        rows = self._rows[name] = [self._free.pop() for _ in range(count)]
        for row, need in zip(rows[len(here) :], going, strict=True):
            self._columns[:, row] = (position, need.cpu_m, need.memory_bytes, 0, 0, 0, 0)
        for row, executor in zip(rows[: len(here)], here, strict=True):
            job = ctx.tables.jobs[executor.job]
            need = job.spec.request
            started_us = -1 if executor.started_us is None else executor.started_us
            self._columns[:, row] = (
                position,
                need.cpu_m,
                need.memory_bytes,
                run_estimate_us(ctx, job),
                started_us,
                job.end_estimate_us or 0,
                executor.retry_us,
            )

    def _grow(self, by: int) -> None:
        size = self._columns.shape[1]
        more = max(START_ROWS, size, by)
        self._columns = np.concatenate((self._columns, _columns(more)), axis=1)
        self._free += range(size + more - 1, size - 1, -1)

    def running(self, boot_us: Ints, now_us: int) -> Running:
        """Return all rows; ``boot_us`` (n,) is how long each node takes until it can work."""
        live = self._columns[:, self._columns[0] != NOBODY]
        node, cpu_m, memory, run_us, started_us, promised_us, retry_us = live
        ready_us = np.maximum(now_us + boot_us[node], retry_us)
        waiting_us = np.maximum(promised_us, ready_us + run_us)
        end_us = np.where(started_us >= 0, started_us + run_us, waiting_us)
        return Running(node, cpu_m, memory, end_us)


def settled(running: Running, free_cpu_m: Ints, free_memory: Ints) -> Running:
    """Return what runs with the room that each gives back where nodes have given out too much.

    ``free_cpu_m`` and ``free_memory`` (n,) are negative there: containers that are being removed
    beside those in their place, or foreign ones. What ends first makes up for that, of those that
    end together what is smallest.
    """
    if not (np.count_nonzero(free_cpu_m < 0) or np.count_nonzero(free_memory < 0)):
        return running
    sizes = (running.memory_bytes, running.cpu_m)
    order = np.lexsort((*sizes, running.end_us, running.node))
    node = running.node[order]
    first = np.searchsorted(node, node)

    def given_back(need: Ints, free: Ints) -> Ints:
        mine = need[order]
        before = np.cumsum(mine) - mine
        before -= before[first] - np.minimum(free, 0)[node]
        back = np.empty_like(mine)
        back[order] = np.maximum(0, before + mine) - np.maximum(0, before)
        return back

    cpu_m = given_back(running.cpu_m, free_cpu_m)
    return replace(running, cpu_m=cpu_m, memory_bytes=given_back(running.memory_bytes, free_memory))


def _columns(rows: int) -> Ints:
    columns = np.zeros((7, rows), dtype=np.int64)
    columns[0] = NOBODY
    return columns
