"""The paper's figures of what the daemon does, with the paper's numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tenure.locality.costs import price_of
from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices, Timing, Work, cache_times, run_us
from tenure.locality.scores import SCORE
from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US, MIB, US
from tests.unit.locality.build import C1, SCORES, H, Lab, M, S

#: The three tasks of Figures 3 to 5: where the replicas of Figure 2's blocks lie.
T1 = {"n1": 1.0, "n2": 8.0, "n4": 20.0}
T2 = {"n1": 20.0, "n3": 20.0, "n4": 8.0}
T3 = {"n2": 1.0, "n3": 8.0, "n4": 8.0}
SIX = ["n1 n2 n3 n4 n5 n6"]


def test_figure_3_two_tasks_read_memory_and_one_its_ssd() -> None:
    lab = Lab(SIX, {"n1": 2, "n2": 1, "n4": 1}, [T1, T2, T3])
    matching = lab.match()
    assert lab.chosen(matching) == ["n1", "n4", "n2"]
    assert matching.cost.tolist() == [M, S, M]


def test_figure_3_edges_have_the_costs_of_equation_1() -> None:
    lab = Lab(SIX, {"n1": 2, "n2": 1, "n4": 1}, [T1, T2, T3])
    n1, n2, n4 = (lab.names.index(name) for name in ("n1", "n2", "n4"))
    found = [
        [price_of(lab.places, lab.wants, SCORES.rates, i, j) for j in (n1, n2, n4)]
        for i in range(3)
    ]
    assert found == [[M, S, H], [H, C1 + S, S], [C1 + M, M, S]]


#: Figure 8: five blocks on disks of 32 MB/s, CPU 1 s per 64 MB, three slots.
LENGTHS = [128, 96, 128, 96, 64]
SOURCES = {2: 1, 3: 2, 1: 1, 4: 2}


def figure_8(copied: tuple[int, ...]) -> tuple[list[float], list[float], float]:
    """Return cache times and starts in seconds, and when the job ends."""
    length = np.array(LENGTHS, dtype=np.int64) * MIB
    none: Ints = np.zeros(5, dtype=np.int64)
    by_length = np.argsort(length, kind="stable")
    blocks = Blocks(length, np.arange(6), np.array([0, 1, 1, 2, 2]), none, by_length)
    devices = Devices(none[:3], none[:3] + H, none[:3] + 32 * MIB)
    read, cpu = length * US // (32 * MIB), length * US // (64 * MIB)
    work = Work(read, none, cpu, none + H, np.arange(5), none[:3] + 1000, 1 * SCORE)
    source = np.full(5, NOT_COPIED, dtype=np.int64)
    for block in copied:
        source[block] = SOURCES[block]
    cached = cache_times(blocks, devices, source, US)
    start = np.zeros(5, dtype=np.int64)
    took = run_us(work, Timing(), cached, 0, start)
    shown = [c / US if c < FOREVER_US else float("inf") for c in cached.tolist()]
    return shown, (start / US).tolist(), took / US


def test_figure_8_without_prefetching() -> None:
    assert figure_8(())[2] == 13


def test_figure_8a_one_block_a_device() -> None:
    cached, start, took = figure_8((2, 3))
    assert cached[2:4] == [5, 4]
    assert start == [3, 3, 7, 8.5, 3]
    assert took == 10


def test_figure_8b_two_blocks_a_device() -> None:
    cached, start, took = figure_8((1, 2, 3, 4))
    assert cached == [pytest.approx(float("inf")), 7, 8, 6, 5]
    assert start[1] == start[2] == 3  # before their copies end: wasted
    assert took == 11
