"""Matching: process-local and indifferent tasks, terms, weights, limits, and the alternatives."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from reproductions.trident.paper import NOTHING, PAPER, schedule_pruned
from reproductions.trident.wants import Task, wants_of
from tenure.locality.arrays import Places, Wants, places_of
from tenure.locality.schedule import Matching, explain, schedule
from tenure.locality.scores import Rates
from tenure.model.errors import InvalidInput
from testbed import bounded
from tests.unit.locality.build import C2, SCORES, H, Lab, M, task

RATES = SCORES.rates


def nothing_pruned(places: Places, wants: Wants, rates: Rates) -> Matching:
    return schedule_pruned(places, wants, rates, NOTHING)


def pruned_by_the_paper(places: Places, wants: Wants, rates: Rates) -> Matching:
    return schedule_pruned(places, wants, rates, PAPER)


def test_a_task_runs_in_the_process_that_holds_its_partition() -> None:
    # two executors on one node are two places; the partition is in the second
    places = places_of([1, 1], [0, 0])
    index = {"executor-1": 0, "executor-2": 1}
    wants = wants_of([task(**{"executor-1": 1}), Task(process="executor-2")], index, SCORES)
    found = schedule(places, wants, RATES)
    assert found.place.tolist() == [0, 1]
    assert found.cost.tolist() == [M, 0]


def test_a_rack_keeps_a_slot_beside_that_of_a_process_for_who_reads_within_it() -> None:
    """Both of executor-1's are needed: the second task's fastest copy is in its rack."""
    index = {"executor-1": 0, "far": 1, "near": 2, "other": 3}
    places = places_of([2, 0, 0, 1], [1, 0, 1, 0])
    wants = wants_of([Task(process="executor-1"), task(near=1, far=8)], index, SCORES)
    for matched in (schedule, nothing_pruned):
        found = matched(places, wants, RATES)
        assert found.place.tolist() == [0, 0]
        assert found.cost.tolist() == [0, 41_000]


def test_tasks_without_preference_run_anywhere_before_anyone_reads_over_the_network() -> None:
    places = places_of([1, 1], [0, 0])
    wants = wants_of([task(b=20), Task(is_indifferent=True)], {"a": 0, "b": 1}, SCORES)
    found = schedule(places, wants, RATES)
    assert found.place.tolist() == [1, 0]
    assert found.cost.tolist() == [H, 30_000]
    one = schedule(places_of([1, 0], [0, 0]), wants, RATES)
    assert one.place.tolist() == [-1, 0]


def test_tasks_that_run_as_well_anywhere_are_spread_over_the_nodes() -> None:
    places = places_of([8] * 10, [0] * 5 + [1] * 5)
    wants = wants_of([Task(is_indifferent=True) for _ in range(20)], {}, SCORES)
    for matched in (schedule, nothing_pruned):
        found = matched(places, wants, RATES)
        assert np.bincount(found.place, minlength=10).tolist() == [2] * 10


def test_a_task_whose_replicas_are_all_away_costs_the_most_everywhere() -> None:
    found = schedule(places_of([1], [0]), wants_of([Task()], {"a": 0}, SCORES), RATES)
    assert found.cost.tolist() == [C2]


def test_a_slow_node_is_left_for_a_little_more_reading() -> None:
    wants = wants_of([task(a=1, b=8)], {"a": 0, "b": 1}, SCORES)
    for term, due in ((5.0, 0), (7.5, 1)):
        places = places_of([1, 1], [0, 0], [term, 0.0])
        assert schedule(places, wants, RATES).place.tolist() == [due]


def test_the_task_with_the_larger_input_gets_the_faster_copy() -> None:
    tasks = [task(a=1, b=20), Task(task(a=1, b=20).preferences, weight=4.0)]
    wants = wants_of(tasks, {"a": 0, "b": 1}, SCORES)
    found = schedule(places_of([1, 1], [0, 0]), wants, RATES)
    assert found.place.tolist() == [1, 0]
    assert found.cost.tolist() == [H, 4 * M]


@pytest.mark.parametrize("matched", [schedule, pruned_by_the_paper, nothing_pruned])
def test_nothing_to_match_is_no_fault(
    matched: Callable[[Places, Wants, Rates], Matching],
) -> None:
    nowhere = places_of([], [])
    full = places_of([0, 0], [0, 0])
    none, some = wants_of([], {}, SCORES), wants_of([task(a=1)] * 2, {"a": 0}, SCORES)
    assert matched(full, none, RATES).place.tolist() == []
    assert matched(full, some, RATES).place.tolist() == [-1, -1]
    assert matched(nowhere, none, RATES).place.tolist() == []
    lost = wants_of([Task()], {}, SCORES)
    assert matched(nowhere, lost, RATES).place.tolist() == [-1]


def test_few_tasks_keep_few_slots_of_many() -> None:
    lab = Lab(
        [" ".join(f"n{j}" for j in range(100))], {f"n{j}": 8 for j in range(100)}, [{"n7": 1}]
    )
    assert lab.match().kept_slots.sum() == 1
    assert lab.match_pruned(NOTHING).kept_slots.sum() == 800


def test_many_tasks_for_few_slots_are_pruned_by_their_costs() -> None:
    tasks = [{"n0": 20.0}] * 40 + [{"n1": 1.0}] * 40 + [{"n2": 8.0}] * 40
    lab = Lab(["n0 n1 n2"], {"n0": 1}, tasks)
    matching = lab.match()
    # one slot: the first that costs 60 at most, and all that cost less somewhere
    assert matching.tasks < len(tasks)
    assert matching.cost.sum() == H == lab.match_pruned(NOTHING).cost.sum()


def test_few_slots_in_many_racks_leave_few_of_many_tasks() -> None:
    racks = [" ".join(f"n{g}-{j}" for j in range(10)) for g in range(20)]
    names = [name for rack in racks for name in rack.split()]
    tasks = [dict(zip(names[i % 200 :: 67], (1.0, 8.0, 20.0), strict=False)) for i in range(2000)]
    lab = Lab(racks, {"n0-0": 1, "n7-3": 1, "n19-9": 2}, tasks)
    ours, whole = lab.match(), lab.match_pruned(NOTHING)
    assert ours.cost.sum() == whole.cost.sum()
    assert whole.tasks == 2000
    assert ours.tasks < 100


def test_the_alternatives_of_a_task_are_its_cheapest_places() -> None:
    lab = Lab(["a b", "c"], {"a": 1}, [{"b": 8}])
    found = [(lab.names[o.place], o.cost) for o in explain(lab.places, lab.wants, RATES, 0)]
    assert found == [("b", 8_000), ("a", 48_000), ("c", 100_000)]


@pytest.mark.parametrize(
    ("slots", "racks", "terms"),
    [([1], [0, 0], None), ([-1], [0], None), ([1], [-1], None), ([1], [7], None), ([1], [0], [-1])],
)
def test_places_that_make_no_sense_are_refused(
    slots: list[int], racks: list[int], terms: list[float] | None
) -> None:
    with pytest.raises(InvalidInput):
        places_of(slots, racks, terms)


@pytest.mark.parametrize("weight", [0.0, -1.0, 1e9, float("nan")])
def test_weights_out_of_bounds_are_refused_by_name(weight: float) -> None:
    with pytest.raises(InvalidInput, match=r"tasks\.1\.weight"):
        wants_of([Task(), Task(weight=weight)], {}, SCORES)


def test_importing_the_room_does_not_import_numba() -> None:
    code = "import sys, tenure.locality.kernels; sys.exit('numba' in sys.modules)"
    assert bounded.run([sys.executable, "-c", code]).returncode == 0


def test_the_answer_is_the_same_each_time() -> None:
    lab = Lab(["a b c"], {"a": 2, "b": 2}, [{"a": 1, "b": 1}] * 6)
    first, again = lab.match(), lab.match()
    assert np.array_equal(first.place, again.place)
