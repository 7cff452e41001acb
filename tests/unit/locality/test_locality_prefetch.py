"""Algorithms 4 to 7: copies that share devices, tasks that wait for them, and what is worth it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.locality.kernels import PLAIN, compile_kernels
from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices, Timing, Work, cache_times, run_us
from tenure.locality.prefetching import ALL, Prefetch, find_prefetch, select
from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US, MIB, US
from tenure.simulation.sla.loops import kept_kernels
from tests.unit.locality.build import H, M, S

TIMING = Timing()
COMPILED = compile_kernels(kept_kernels())


def ints(*values: int) -> Ints:
    return np.array(values, dtype=np.int64)


def blocks_of(rows: Sequence[tuple[int, Sequence[int]]], held: Sequence[int] = ()) -> Blocks:
    """Return blocks of so many MiB with replicas on devices; ``held`` are in memory."""
    length = ints(*(mib * MIB for mib, _ in rows))
    first = np.cumsum([0, *(len(on) for _, on in rows)]).astype(np.int64)
    is_held = ints(*(int(i in held) for i in range(len(rows))))
    devices = ints(*(device for _, on in rows for device in on))
    return Blocks(length, first, devices, is_held, np.argsort(length, kind="stable"))


def disks(count: int, *, per_node: int = 1) -> Devices:
    """Return hard disks of 32 MiB a second."""
    node = np.arange(count, dtype=np.int64) // per_node
    return Devices(node, np.full(count, H), np.full(count, 32 * MIB))


def work_of(blocks: Blocks, slots: int, cpu_s: float = 0.5) -> Work:
    b = len(blocks.length)
    read = blocks.length * US // (32 * MIB)
    speed, memory = np.full(slots, 1000), read // 20
    cpu = np.full(b, round(cpu_s * US))
    return Work(read, memory, cpu, np.full(b, H), np.arange(b), speed, M)


def test_copies_of_a_device_share_it() -> None:
    blocks = blocks_of([(128, [0]), (96, [0]), (64, [1])])
    found = cache_times(blocks, disks(2), ints(0, 0, 1), US)
    assert (found / US).tolist() == [8, 7, 3]
    alone = cache_times(blocks, disks(2), ints(0, NOT_COPIED, NOT_COPIED), US)
    assert alone.tolist() == [5 * US, FOREVER_US, FOREVER_US]


def test_a_task_that_starts_at_the_moment_of_caching_reads_memory() -> None:
    blocks = blocks_of([(64, [0])])
    work, start = work_of(blocks, 1), ints(0)
    assert run_us(work, TIMING, ints(3 * US), 0, start) == 3 * US + 100_000 + 500_000
    assert run_us(work, TIMING, ints(3 * US + 1), 0, start) == 3 * US + 2 * US + 500_000


def test_slow_slots_take_longer_to_compute() -> None:
    blocks = blocks_of([(32, [0])])
    work = work_of(blocks, 1)._replace(speed=ints(500))
    assert run_us(work, TIMING, ints(FOREVER_US), 0, ints(0)) == 3 * US + US + US


def test_the_slowest_tier_is_copied_from_and_the_emptiest_cache_filled() -> None:
    devices = Devices(ints(0, 1, 2, 3), ints(S, H, H, H), ints(*([32 * MIB] * 4)))
    blocks = blocks_of([(64, [0, 1, 2]), (64, [1, 2]), (64, [0])])
    assert select(
        blocks, devices, ints(*[MIB * mib for mib in (64, 100, 150, 0)]), ALL
    ).tolist() == [
        2,
        1,
        0,
    ]


def test_blocks_in_memory_or_without_room_are_not_copied() -> None:
    blocks = blocks_of([(64, [0]), (64, [1]), (64, [0])], held=[0])
    assert select(blocks, disks(2), ints(64 * MIB, 63 * MIB), ALL).tolist() == [-1, -1, 0]


def test_the_limit_is_per_device_not_per_node() -> None:
    blocks = blocks_of([(64, [0]), (64, [0]), (64, [1])])
    found = select(blocks, disks(2, per_node=2), ints(1 << 40), 1)
    assert found.tolist() == [0, -1, 1]


def test_the_room_that_was_chosen_is_not_chosen_again() -> None:
    blocks = blocks_of([(64, [0]), (64, [0])])
    assert select(blocks, disks(1), ints(100 * MIB), ALL).tolist() == [0, -1]


def found_for(blocks: Blocks, slots: int, *, may_wait: bool, cpu_s: float = 0.5) -> Prefetch:
    room = np.full(16, 1 << 40)
    limits = room, may_wait
    return find_prefetch(blocks, disks(16), work_of(blocks, slots, cpu_s), TIMING, limits)


def test_later_waves_read_what_was_copied_meanwhile() -> None:
    blocks = blocks_of([(128, [j]) for j in range(4)])
    found = found_for(blocks, 2, may_wait=False)
    assert found.predicted_us < found.without_us
    assert found.copies >= 1
    assert (found.cached_us < FOREVER_US).sum() == (found.source != NOT_COPIED).sum()


def test_nothing_is_copied_where_it_would_not_help() -> None:
    blocks = blocks_of([(128, [0]), (128, [1])])
    found = found_for(blocks, 2, may_wait=False)
    assert found.copies == 0
    assert found.predicted_us == found.without_us
    assert (found.source == NOT_COPIED).all()


def test_a_delay_is_taken_where_a_moment_saves_a_read() -> None:
    # cached after 4 s, tasks would start after 3: a second's wait saves a read of three
    blocks = blocks_of([(96, [0]), (96, [1])])
    hasty, patient = found_for(blocks, 2, may_wait=False), found_for(blocks, 2, may_wait=True)
    assert hasty.copies == 0
    assert patient.delay_us == US
    assert patient.predicted_us < hasty.predicted_us


@st.composite
def jobs(draw: st.DrawFn) -> tuple[Blocks, Devices, Work]:
    d = draw(st.integers(1, 6))
    rows = [
        (draw(st.integers(1, 200)), draw(st.lists(st.integers(0, d - 1), max_size=3, unique=True)))
        for _ in range(draw(st.integers(1, 12)))
    ]
    held = [i for i in range(len(rows)) if draw(st.integers(0, 4)) == 0]
    blocks, devices = blocks_of(rows, held), disks(d, per_node=2)
    work = work_of(blocks, draw(st.integers(1, 5)), draw(st.sampled_from((0.0, 0.5, 4.0))))
    return blocks, devices, work


@settings(max_examples=150, deadline=None)
@given(jobs(), st.booleans())
def test_laws_of_the_search(job: tuple[Blocks, Devices, Work], may_wait: bool) -> None:
    blocks, devices, work = job
    room = np.array([150, 400, 100], dtype=np.int64) * MIB
    found = find_prefetch(blocks, devices, work, TIMING, (room, may_wait))
    assert found.predicted_us <= found.without_us
    assert found.delay_us == 0 or may_wait
    copied = np.flatnonzero(found.source != NOT_COPIED)
    assert not blocks.held[copied].any()
    used = np.zeros(3, dtype=np.int64)
    for i in copied:
        device = found.source[i]
        assert device in blocks.device[blocks.first[i] : blocks.first[i + 1]]
        used[devices.node[device]] += blocks.length[i]
    assert (used <= room).all()
    if len(copied):
        assert np.bincount(found.source[copied]).max() <= found.copies
    start = np.zeros(len(blocks.length), dtype=np.int64)
    cached = cache_times(blocks, devices, found.source, TIMING.begin_copy_us)
    assert np.array_equal(cached, found.cached_us)
    assert run_us(work, TIMING, cached, found.delay_us, start) == found.predicted_us
    assert (start >= TIMING.begin_job_us + TIMING.begin_task_us + found.delay_us).all()


@pytest.mark.computes
@pytest.mark.timeout(1800)
@settings(max_examples=60, deadline=None)
@given(jobs(), st.booleans())
def test_compiled_and_plain_find_the_same(job: tuple[Blocks, Devices, Work], wait: bool) -> None:
    room = np.array([150, 400, 100], dtype=np.int64) * MIB
    ours, theirs = (k.find_prefetch(*job, TIMING, (room, wait)) for k in (PLAIN, COMPILED))
    assert ours.source.tolist() == theirs.source.tolist()
    assert ours.cached_us.tolist() == theirs.cached_us.tolist()
    assert ours[2:] == theirs[2:]
