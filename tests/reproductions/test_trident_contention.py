"""Readers of one node slow each other down: spread where that is cheaper, and still the optimum."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from reproductions.trident.contention import Contention, schedule_contended
from reproductions.trident.kernels import PLAIN
from tenure.locality.arrays import Places, Wants
from tenure.model.placing import Ints
from tests.unit.locality.build import SCORES, H, Lab, M, S

RATES = SCORES.rates
FULL = 1000


def contended(lab: Lab, share: int = FULL, readers: dict[str, int] | None = None) -> list[str]:
    rows = np.array([(readers or {}).get(name, 0) for name in lab.names], dtype=np.int64)
    found = PLAIN.schedule_contended(lab.places, lab.wants, RATES, Contention(rows, share))
    return [lab.names[j] if j >= 0 else "" for j in found.place]


def test_tasks_leave_a_crowded_ssd_for_idle_disks() -> None:
    lab = Lab(["a b c"], {"a": 4, "b": 1, "c": 1}, [{"a": 8, "b": 20}, {"a": 8, "c": 20}] * 2)
    assert sorted(lab.chosen(lab.match())) == ["a"] * 4
    # on a they would cost 8, 16, 24, 32: two go to the disks at 20
    assert sorted(contended(lab)) == ["a", "a", "b", "c"]
    assert sorted(contended(lab, share=0)) == ["a"] * 4


def test_who_reads_there_already_counts() -> None:
    lab = Lab(["a b"], {"a": 1, "b": 1}, [{"a": 8, "b": 20}])
    assert contended(lab) == ["a"]
    assert contended(lab, readers={"a": 2}) == ["b"]


def test_nothing_costs_more_than_reading_the_copy_within_the_rack() -> None:
    lab = Lab(["a b"], {"a": 9}, [{"a": 20}] * 9)
    none = np.zeros(2, dtype=np.int64)
    found = PLAIN.schedule_contended(lab.places, lab.wants, RATES, Contention(none, FULL))
    assert sorted(found.cost.tolist()) == [H, 2 * H, *[3 * H] * 7]


def by_levels(places: Places, wants: Wants, contention: Contention) -> Ints:
    """Return the cost of each task on each slot (n, m), the first slot of a place first."""
    columns = []
    for j, slots in enumerate(places.slots.tolist()):
        for level in range(slots):
            column = []
            for i in range(len(wants.flat)):
                mine = slice(wants.first[i], wants.first[i + 1])
                rows = zip(wants.place[mine], wants.score[mine], wants.base[mine], strict=True)
                best = RATES.across
                for place, score, base in rows:
                    if place == j:
                        ahead = int(contention.readers[j]) + level
                        best = min(best, score + score * contention.share // 1000 * ahead)
                    if places.rack[place] == places.rack[j]:
                        best = min(best, RATES.in_rack + base)
                column.append(int(best))
            columns.append(column)
    return np.array(columns, dtype=np.int64).T


@pytest.mark.parametrize("seed", range(30))
def test_it_is_as_cheap_as_an_independent_solver_says(seed: int) -> None:
    drawn = random.Random(seed)
    nodes = [f"n{j}" for j in range(drawn.randint(2, 12))]
    racks = [" ".join(nodes[g :: (seed % 3) + 1]) for g in range(min((seed % 3) + 1, len(nodes)))]
    tasks = [
        {node: drawn.choice((1.0, 8.0, 20.0)) for node in drawn.sample(nodes, 2)}
        for _ in range(drawn.randint(1, 20))
    ]
    lab = Lab(racks, {node: drawn.randint(0, 3) for node in nodes}, tasks)
    readers = np.array([drawn.randint(0, 2) for _ in lab.names], dtype=np.int64)
    contention = Contention(readers, drawn.choice((0, 300, 1000, 2000)))
    found = schedule_contended(lab.places, lab.wants, RATES, contention)
    slots = int(lab.places.slots.sum())
    assert (found.place >= 0).sum() == min(len(tasks), slots)
    used = np.bincount(found.place[found.place >= 0], minlength=len(lab.names))
    assert (used <= lab.places.slots).all()
    if slots:
        costs = by_levels(lab.places, lab.wants, contention)
        rows, columns = linear_sum_assignment(costs)
        assert found.cost.sum() == costs[rows, columns].sum()


def test_memory_bears_many_readers() -> None:
    lab = Lab(["a b"], {"a": 6, "b": 6}, [{"a": 1, "b": 8}] * 6)
    assert sorted(contended(lab)) == ["a"] * 6
    assert M * 6 < S
