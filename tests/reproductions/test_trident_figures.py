"""The paper's figures of what is a comparison here: where its pruning is wrong, Algorithm 3."""

from __future__ import annotations

from reproductions.trident.allocation import allocate, requests_of
from reproductions.trident.paper import NOTHING, PAPER, paper_slots, paper_tasks
from reproductions.trident.wants import Task, wants_of
from tenure.locality.arrays import places_of
from tenure.locality.pruning import keep_slots
from tests.unit.locality.build import SCORES, H, Lab, M, S, cost, task

#: The three tasks of Figures 3 to 5: where the replicas of Figure 2's blocks lie.
T1 = {"n1": 1.0, "n2": 8.0, "n4": 20.0}
T2 = {"n1": 20.0, "n3": 20.0, "n4": 8.0}
T3 = {"n2": 1.0, "n3": 8.0, "n4": 8.0}
SIX = ["n1 n2 n3 n4 n5 n6"]


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
    matching = lab.match_pruned(PAPER)
    assert lab.chosen(matching) == ["", "", "n2"]
    assert cost(lab.match()) == cost(matching) == 1


def test_algorithm_1_loses_the_optimum_where_there_are_two_racks() -> None:
    tasks = [{"a": 8.0, "b": 8.0, "c": 8.0}, {"d": 1.0}, {"d": 1.0}]
    lab = Lab(["a b c", "d e"], {"a": 2, "b": 2, "c": 2, "d": 1, "e": 3}, tasks)
    assert cost(lab.match_pruned(PAPER)) == 109
    assert cost(lab.match()) == cost(lab.match_pruned(NOTHING)) == 50


def test_algorithm_2_loses_the_optimum_in_one_rack() -> None:
    tasks = [{"a": 20.0}, {"a": 20.0}, {"c": 1.0}, {"c": 1.0}, {"d": 1.0}, {"d": 1.0}]
    lab = Lab(["a b c d"], {"a": 1, "b": 1}, tasks)
    assert cost(lab.match_pruned(PAPER)) == 80
    assert cost(lab.match()) == cost(lab.match_pruned(NOTHING)) == 61


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
