"""The paper's figures, with its numbers, and the instances that show where its pruning is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tenure.locality.allocation import allocate, requests_of
from tenure.locality.arrays import Task, places_of, wants_of
from tenure.locality.costs import price_of
from tenure.locality.paper import paper_slots, paper_tasks
from tenure.locality.prefetch import NOT_COPIED, Blocks, Devices, Timing, Work, cache_times, run_us
from tenure.locality.pruning import keep_slots
from tenure.locality.schedule import NOTHING, OURS, PAPER
from tenure.locality.scores import SCORE
from tenure.model.placing import Ints
from tenure.model.units import FOREVER_US, MIB, US
from tests.unit.locality.build import C1, SCORES, H, Lab, M, S, cost, task

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


def test_figure_4_nine_of_eighteen_slots_are_enough() -> None:
    lab = Lab(SIX, dict.fromkeys(SIX[0].split(), 3), [T1, T2, T3])
    assert paper_slots(lab.places, lab.wants).tolist() == [2, 2, 2, 3, 0, 0]
    assert keep_slots(lab.places, lab.wants).tolist() == [2, 2, 2, 3, 0, 0]


def test_figure_4_with_two_slots_a_node_nothing_is_pruned_by_the_paper() -> None:
    lab = Lab(["n1 n2 n3 n4"], dict.fromkeys(SIX[0].split(), 2), [T1, T2, T3])
    assert paper_slots(lab.places, lab.wants).tolist() == [2, 2, 2, 2]


def test_figure_5_the_task_without_the_node_is_pruned() -> None:
    lab = Lab(SIX, {"n2": 1}, [T1, T2, T3])
    assert paper_tasks(lab.places, lab.wants).tolist() == [True, False, True]
    matching = lab.match(PAPER)
    assert lab.chosen(matching) == ["", "", "n2"]
    assert cost(lab.match(OURS)) == cost(matching) == 1


def test_algorithm_1_loses_the_optimum_where_there_are_two_racks() -> None:
    tasks = [{"a": 8.0, "b": 8.0, "c": 8.0}, {"d": 1.0}, {"d": 1.0}]
    lab = Lab(["a b c", "d e"], {"a": 2, "b": 2, "c": 2, "d": 1, "e": 3}, tasks)
    assert cost(lab.match(PAPER)) == 109
    assert cost(lab.match(OURS)) == cost(lab.match(NOTHING)) == 50


def test_algorithm_2_loses_the_optimum_in_one_rack() -> None:
    tasks = [{"a": 20.0}, {"a": 20.0}, {"c": 1.0}, {"c": 1.0}, {"d": 1.0}, {"d": 1.0}]
    lab = Lab(["a b c d"], {"a": 1, "b": 1}, tasks)
    assert cost(lab.match(PAPER)) == 80
    assert cost(lab.match(OURS)) == cost(lab.match(NOTHING)) == 61


def test_algorithm_2_drops_tasks_without_preference() -> None:
    places = places_of([1], [0])
    rows = [Task(is_indifferent=True), *(task(n0=20) for _ in range(3))]
    wants = wants_of(rows, {"n0": 0}, SCORES)
    assert paper_tasks(places, wants).tolist() == [False, True, True, True]


def test_figure_7_three_containers_of_six_that_are_offered() -> None:
    lab = Lab(SIX, {"n1": 2, "n2": 1, "n4": 4, "n5": 2}, [T1, T2, T3])
    requests = requests_of(lab.places, lab.wants)
    asked = requests.places
    maps = [
        dict(zip(asked.score[a:b].tolist(), asked.many[a:b].tolist(), strict=True))
        for a, b in zip(asked.first[:4], asked.first[1:5], strict=True)
    ]
    assert maps == [{M: 1, H: 1}, {M: 1, S: 1}, {S: 1, H: 1}, {S: 2, H: 1}]
    assert requests.racks.score.tolist() == [M, S]
    assert requests.racks.many.tolist() == [2, 1]
    containers = allocate(lab.places, requests, SCORES.rates, 100)
    got = [(lab.names[j], c) for j, c in zip(containers.place, containers.cost, strict=True)]
    assert got == [("n1", M), ("n2", M), ("n4", S)]


def test_containers_that_cost_the_same_are_on_as_many_nodes_as_can_be() -> None:
    """Algorithm 3 leaves open which of them are taken; on one node they would serve fewer tasks."""
    index = {f"n{j}": j for j in range(4)}
    rows = [task(**{f"n{(i + k) % 4}": 20 for k in range(3)}) for i in range(8)]
    places = places_of([8] * 4, [0] * 4)
    wants = wants_of(rows, index, SCORES)
    containers = allocate(places, requests_of(places, wants), SCORES.rates, 100)
    assert sorted(containers.place.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(containers.cost.tolist()) == {H}


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
