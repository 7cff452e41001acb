"""The models of prefetching and of a job's run (Algorithms 4 and 5 of the Trident paper).

Times are whole microseconds from the submission. Algorithm 5 is mended where its text says more
than its lines: a task reads from memory if it starts at the very moment its block is cached, and
the scores change when a prefetch ends, so that a task whose block is being copied is taken last
until then and as one of memory from then on. Nodes and devices may differ in speed (ours).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tenure.locality.heap import pop, push
from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US, US

#: ``source`` of a block that is not prefetched.
NOT_COPIED = -1
#: What a task is doing: to be read where it lies, waiting for its copy, with a finished copy, under
#: way.
LYING, PENDING, READY, STARTED = range(4)
#: Of speeds: 1000 is the usual one.
USUAL_SPEED = 1000


class Blocks(NamedTuple):
    """A job's input, one task a block: ``length`` (b,) bytes, and the devices with a replica.

    Those of block i are ``first[i]`` to ``first[i + 1]`` of ``device`` (e,). ``held`` (b,) is 1 for
    a block that has a replica in memory, which is never prefetched. ``by_length`` (b,) are the
    blocks by increasing length.
    """

    length: Ints
    first: Ints
    device: Ints
    held: Ints
    by_length: Ints


class Devices(NamedTuple):
    """Storage devices (d,): ``node``, ``score`` in thousandths, ``bandwidth`` in bytes a second."""

    node: Ints
    score: Ints
    bandwidth: Ints


class Work(NamedTuple):
    """What each task (b,) takes: to read its block where it lies, to read memory, to compute.

    ``score`` (b,) is its best tier's, ``memory`` that of memory; ``by_score`` (b,) the tasks in the
    order in which a scheduler that knows tiers takes them. ``speed`` (s,) is one of each free slot,
    in thousandths of the usual one.
    """

    read_us: Ints
    memory_us: Ints
    cpu_us: Ints
    score: Ints
    by_score: Ints
    speed: Ints
    memory: int


class Timing(NamedTuple):
    """TimeToInitCache, TimeToInit and TimeToSchedule: waits for heartbeats (1, 2 and 1 s)."""

    begin_copy_us: int = US
    begin_job_us: int = 2 * US
    begin_task_us: int = US


def cache_times(blocks: Blocks, devices: Devices, source: Ints, begin_us: int) -> Ints:
    """Return when each block (b,) is in memory, FOREVER_US for those not copied (Algorithm 4).

    ``source`` (b,) is the device that each is copied from, or NOT_COPIED. The copies of a device
    begin at ``begin_us`` and share it evenly; each that ends leaves its share to the others.
    O(b + d).
    """
    b, d = source.shape[0], devices.node.shape[0]
    cached = np.full(b, FOREVER_US, dtype=np.int64)
    sharing = np.zeros(d, dtype=np.int64)
    before, passed_us = np.zeros(d, dtype=np.int64), np.zeros(d)
    for i in range(b):
        if source[i] != NOT_COPIED:
            sharing[source[i]] += 1
    for i in blocks.by_length:
        on = source[i]
        if on == NOT_COPIED:
            continue
        more = float(blocks.length[i] - before[on]) * sharing[on]
        passed_us[on] += more * US / devices.bandwidth[on]
        cached[i] = begin_us + np.int64(np.ceil(passed_us[on]))
        before[on] = blocks.length[i]
        sharing[on] -= 1
    return cached


def run_us(work: Work, timing: Timing, cached: Ints, delay_us: int, start: Ints) -> int:
    """Return how long a job takes from its submission (Algorithm 5), and its tasks' starts.

    ``cached`` (b,) is when blocks are in memory, FOREVER_US if they are not copied. The first wave
    is held back by ``delay_us``. ``start`` (b,) is filled. O(b log(b + s)).
    """
    b, slots = cached.shape[0], min(work.speed.shape[0], cached.shape[0])
    state = np.where(cached < FOREVER_US, PENDING, LYING)
    queue = Queue(
        np.argsort(cached, kind="mergesort"), np.empty(2 * b, np.int64), np.zeros(4, np.int64)
    )
    busy = np.empty(2 * slots, dtype=np.int64)
    for s in range(slots):
        push(busy, s, 0, s)
    last_us = 0
    for _ in range(b):
        end_us, slot = pop(busy, slots)
        if end_us == 0:
            end_us = delay_us + timing.begin_job_us
        begin_us = end_us + timing.begin_task_us
        task = take(work, queue, cached, state, begin_us)
        start[task] = begin_us
        read_us = work.memory_us[task] if begin_us >= cached[task] else work.read_us[task]
        end_us = begin_us + read_us + work.cpu_us[task] * USUAL_SPEED // work.speed[slot]
        push(busy, slots - 1, end_us, slot)
        last_us = max(last_us, end_us)
    return last_us


#: ``Queue.marks``: blocks that are cached by now, tasks that are ready, and how far the tasks by
#: score and those that wait have been taken.
CACHED, WAITING, BY_SCORE, BY_NUMBER = range(4)


class Queue(NamedTuple):
    """The tasks by when their copies end (b,), a heap of those that are ready, marks (4,)."""

    by_time: Ints
    ready: Ints
    marks: Ints


def take(work: Work, queue: Queue, cached: Ints, state: Ints, now_us: int) -> int:
    """Return the task that a scheduler that knows tiers starts now: lowest score, then number."""
    marks, b = queue.marks, cached.shape[0]
    while marks[CACHED] < b and cached[queue.by_time[marks[CACHED]]] <= now_us:
        task = queue.by_time[marks[CACHED]]
        if state[task] == PENDING:
            state[task] = READY
            push(queue.ready, marks[WAITING], task, task)
            marks[WAITING] += 1
        marks[CACHED] += 1
    while marks[BY_SCORE] < b and state[work.by_score[marks[BY_SCORE]]] != LYING:
        marks[BY_SCORE] += 1
    lying = work.by_score[marks[BY_SCORE]] if marks[BY_SCORE] < b else NOT_COPIED
    ready = queue.ready[0] if marks[WAITING] > 0 else NOT_COPIED
    is_ready = ready != NOT_COPIED and (
        lying == NOT_COPIED
        or work.memory < work.score[lying]
        or (work.memory == work.score[lying] and ready < lying)
    )
    if is_ready:
        pop(queue.ready, marks[WAITING])
        marks[WAITING] -= 1
        chosen = ready
    elif lying != NOT_COPIED:
        chosen = lying
    else:
        while state[marks[BY_NUMBER]] != PENDING:
            marks[BY_NUMBER] += 1
        chosen = marks[BY_NUMBER]
    state[chosen] = STARTED
    return int(chosen)
