"""Which tasks begin now with later slots in view, against all ways of doing so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproductions.trident.replicas import Preference
from reproductions.trident.wants import Task, wants_of
from tenure.locality.ahead import LATER, NOW, WAIT, match_now
from tenure.locality.arrays import Places, Wants, places_of
from tenure.locality.kernels import compile_kernels
from tenure.locality.scores import Scores, thousandths
from tenure.simulation.sla.loops import kept_kernels

SCORES = Scores()
TIERS = [thousandths(score) for score in (1, 8, 20)]
COMPILED = compile_kernels(kept_kernels())
#: Tasks, places, and the slots of each that come at some time, and soon.
Instance = tuple[Places, Wants, list[int], list[int]]
#: Where each task is, with its cost: the number of its place, p more for a slot that comes soon,
#: and 2 p more for one that comes later.
Way = tuple[tuple[int, int] | None, ...]


@st.composite
def instances(draw: st.DrawFn, most: int = 4) -> Instance:
    p = draw(st.integers(1, 4))
    counts = st.lists(st.integers(0, 2), min_size=p, max_size=p)
    tasks = [draw(_task(p)) for _ in range(draw(st.integers(0, most)))]
    wants = wants_of(tasks, {str(j): j for j in range(p)}, SCORES)
    return places_of(draw(counts), [0] * p), wants, draw(counts), draw(counts)


@st.composite
def _task(draw: st.DrawFn, p: int) -> Task:
    nodes = draw(st.lists(st.integers(0, p - 1), max_size=3, unique=True))
    scores = [draw(st.sampled_from(TIERS)) for _ in nodes]
    rows = [Preference(str(j), score, score) for j, score in zip(nodes, scores, strict=True)]
    return Task(rows, weight=draw(st.sampled_from((1.0, 1.0, 0.25))))


def _ways(instance: Instance) -> Iterator[Way]:
    """Yield each way of giving tasks slots beside their copies."""
    places, wants, later, soon = instance
    p = len(later)

    def onward(i: int, left: Sequence[int]) -> Iterator[Way]:
        if i == len(wants.flat):
            yield ()
            return
        yield from ((None, *rest) for rest in onward(i + 1, left))
        for e in range(wants.first[i], wants.first[i + 1]):
            for site in (int(wants.place[e]) + k * p for k in range(3)):
                if left[site]:
                    lower = [free - (k == site) for k, free in enumerate(left)]
                    cost = int(wants.weight[i] * wants.score[e] // 1000)
                    yield from (((site, cost), *rest) for rest in onward(i + 1, lower))

    yield from onward(0, [*places.slots.tolist(), *soon, *later])


def _worth(way: Way, p: int) -> tuple[int, int, int]:
    """Return how good a way is: tasks with a slot, of these now or soon, and less cost."""
    placed = [one for one in way if one is not None]
    costs = (cost * (NOW if site < 2 * p else LATER) for site, cost in placed)
    soon = [cost for site, cost in placed if p <= site < 2 * p]
    waits = sum(NOW * WAIT - min(cost, LATER * WAIT) for cost in soon)
    return len(placed), sum(site < 2 * p for site, _ in placed), -sum(costs) - waits


@settings(max_examples=150, deadline=None)
@given(instances())
def test_who_begins_now_is_part_of_the_best_of_all_ways(instance: Instance) -> None:
    places, wants, *later = instance
    at, cost = match_now(places, wants, *(np.array(row, dtype=np.int64) for row in later))
    p = len(later[0])
    begun = {i: (int(at[i]), int(cost[i])) for i in range(len(at)) if at[i] >= 0}
    assert all(cost[i] == 0 for i in range(len(at)) if i not in begun)
    ways = list(_ways(instance))
    best = max(_worth(way, p) for way in ways)
    now = [{i: s for i, s in enumerate(way) if s and s[0] < p} for way in ways]
    is_best = [_worth(way, p) == best for way in ways]
    assert begun in [row for row, is_one in zip(now, is_best, strict=True) if is_one]


@settings(max_examples=100, deadline=None)
@given(instances())
def test_no_fewer_begin_than_could_without_a_view(instance: Instance) -> None:
    places, wants, later, _ = instance
    none = np.zeros(len(later), dtype=np.int64)
    found = [
        int((match_now(places, wants, np.array(row, dtype=np.int64), none)[0] >= 0).sum())
        for row in (later, none)
    ]
    assert found[0] == found[1]


@pytest.mark.computes
@pytest.mark.timeout(1800)
@settings(max_examples=60, deadline=None)
@given(instances(most=12))
def test_compiled_and_plain_begin_the_same(instance: Instance) -> None:
    places, wants, *later = instance
    rows = [np.array(row, dtype=np.int64) for row in later]
    plain, compiled = (kernel(places, wants, *rows) for kernel in (match_now, COMPILED.match_now))
    assert plain[0].tolist() == compiled[0].tolist()
    assert plain[1].tolist() == compiled[1].tolist()
