"""The comparison schedulers, by the paper's sentences on them."""

from __future__ import annotations

import numpy as np

from reproductions.trident.greedy import H_SCHEDULER, LOCALITY_FIRST, QUARTET, Rule, fill_slots
from reproductions.trident.wants import Task, wants_of
from tenure.locality.arrays import places_of
from tests.unit.locality.build import SCORES, Lab, M, task


def fill(lab: Lab, kind: int, *, has_waited: bool = True) -> list[int]:
    waited = np.full(len(lab.wants.flat), has_waited)
    at = fill_slots(lab.places, lab.wants, Rule(kind, M, waited))
    return [int(place) for place in at]


def test_locality_first_takes_the_first_local_task_of_any_tier() -> None:
    lab = Lab(["a b"], {"a": 1}, [{"b": 1}, {"a": 20}, {"a": 1}])
    assert fill(lab, LOCALITY_FIRST) == [-1, 0, -1]


def test_h_scheduler_takes_local_memory_before_ssd_before_hdd() -> None:
    lab = Lab(["a b"], {"a": 2}, [{"a": 20}, {"a": 8}, {"a": 1}])
    assert fill(lab, H_SCHEDULER) == [-1, 0, 0]


def test_h_scheduler_takes_remote_disks_before_remote_memory() -> None:
    lab = Lab(["a b"], {"a": 1}, [{"b": 1}, {"b": 20}, {"b": 8}])
    assert fill(lab, H_SCHEDULER) == [-1, 0, -1]


def test_quartet_leaves_a_task_that_is_in_memory_elsewhere() -> None:
    lab = Lab(["a b"], {"a": 1}, [{"a": 8, "b": 1}, {"a": 20}])
    assert fill(lab, QUARTET) == [-1, 0]
    assert fill(lab, H_SCHEDULER) == [0, -1]


def test_quartet_holds_tasks_back_for_a_local_slot_until_they_have_waited() -> None:
    lab = Lab(["a b"], {"a": 1}, [{"b": 8}])
    assert fill(lab, QUARTET, has_waited=False) == [-1]
    assert fill(lab, QUARTET, has_waited=True) == [0]


def test_tasks_without_preference_come_after_local_and_before_rack_local_ones() -> None:
    places, index = places_of([1, 0], [0, 0]), {"a": 0, "b": 1}
    free = Task(is_indifferent=True)
    for kind in (LOCALITY_FIRST, H_SCHEDULER, QUARTET):
        for tasks, due in (([free, task(b=1), task(a=20)], 2), ([free, task(b=1)], 0)):
            rule = Rule(kind, M, np.ones(len(tasks), dtype=np.bool_))
            at = fill_slots(places, wants_of(tasks, index, SCORES), rule)
            assert np.flatnonzero(at >= 0).tolist() == [due]
