"""Matching, allocation and prefetching on random instances, against oracles."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from reproductions.trident import kernels as trident
from reproductions.trident.contention import Contention
from reproductions.trident.kernels import Comparisons, compile_comparisons
from reproductions.trident.paper import NOTHING
from reproductions.trident.replicas import Preference
from reproductions.trident.wants import Task, wants_of
from tenure.locality.arrays import Places, Wants, places_of
from tenure.locality.costs import price_of
from tenure.locality.kernels import PLAIN, compile_kernels
from tenure.locality.schedule import Matching
from tenure.locality.scores import Scores, thousandths
from tenure.model.placing import Ints
from tenure.simulation.sla.loops import kept_kernels

SCORES = Scores()
TIERS = [thousandths(score) for score in (1, 8, 20)]
PENDING = thousandths(SCORES.pending)
pytestmark = [pytest.mark.computes, pytest.mark.timeout(1800)]
COMPILED = compile_kernels(kept_kernels())
KERNELS = [PLAIN, COMPILED]
COMPARED = compile_comparisons(kept_kernels())
COMPARISONS = [trident.PLAIN] if COMPARED is None else [trident.PLAIN, COMPARED]


def matrix(places: Places, wants: Wants) -> Ints:
    """Return Eq. 1 of every task on every slot (n, m), one column a slot."""
    columns = [j for j, slots in enumerate(places.slots) for _ in range(slots)]
    rows = [
        [price_of(places, wants, SCORES.rates, i, j) for j in columns]
        for i in range(len(wants.flat))
    ]
    return np.array(rows, dtype=np.int64).reshape(len(wants.flat), len(columns))


def by_trying(costs: Ints) -> int:
    n, m = costs.shape
    if n > m:
        return by_trying(costs.T)
    ways = itertools.permutations(range(m), n)
    return min(sum(int(costs[i, j]) for i, j in enumerate(way)) for way in ways)


@st.composite
def instances(draw: st.DrawFn) -> tuple[Places, Wants]:
    p = draw(st.integers(1, 5))
    racks = draw(st.integers(1, min(3, p)))
    rack = [draw(st.integers(0, racks - 1)) for _ in range(p)]
    slots = [draw(st.integers(0, 2)) for _ in range(p)]
    while sum(slots) > 6:
        slots[slots.index(max(slots))] -= 1
    has_terms = draw(st.booleans())
    terms = [draw(st.sampled_from((0, 0.5, 3, 15, 60))) for _ in range(p)] if has_terms else None
    tasks = [draw(_task(p)) for _ in range(draw(st.integers(0, 6)))]
    index = {str(j): j for j in range(p)}
    return places_of(slots, rack, terms), wants_of(tasks, index, SCORES)


@st.composite
def _task(draw: st.DrawFn, p: int) -> Task:
    weight = draw(st.sampled_from((1.0, 1.0, 0.25, 3.0)))
    if draw(st.integers(0, 7)) == 0:
        return Task(is_indifferent=True, weight=weight)
    nodes = draw(st.lists(st.integers(0, p - 1), max_size=3, unique=True))
    rows = []
    for node in nodes:
        base = draw(st.sampled_from(TIERS))
        score = PENDING if draw(st.integers(0, 5)) == 0 else base
        rows.append(Preference(str(node), score, base))
    process = str(draw(st.integers(0, p - 1))) if draw(st.integers(0, 5)) == 0 else None
    return Task(rows, process=process, weight=weight)


def check(places: Places, wants: Wants, matching: Matching, best: int) -> None:
    """Hold a matching against the laws of one, and its cost against the best."""
    used = np.bincount(matching.place[matching.place >= 0], minlength=len(places.slots))
    assert (used <= places.slots).all()
    assert (matching.place >= 0).sum() == min(len(wants.flat), places.slots.sum())
    for i, (place, cost) in enumerate(zip(matching.place, matching.cost, strict=True)):
        due = price_of(places, wants, SCORES.rates, i, place) if place >= 0 else 0
        assert cost == due
    assert matching.cost.sum() == best


@settings(max_examples=400, deadline=None)
@given(instances())
def test_matching_is_as_cheap_as_the_best_of_all(instance: tuple[Places, Wants]) -> None:
    places, wants = instance
    best = by_trying(matrix(places, wants)) if len(wants.flat) and places.slots.sum() else 0
    for kernels in KERNELS:
        check(places, wants, kernels.schedule(places, wants, SCORES.rates), best)
    for comparisons in COMPARISONS:
        found = comparisons.schedule_pruned(places, wants, SCORES.rates, NOTHING)
        check(places, wants, found, best)


def large(
    n: int, p: int, racks: int, seed: int, *, slots: int, terms: bool
) -> tuple[Places, Wants]:
    drawn = random.Random(seed)
    free = [drawn.randint(0, slots) for _ in range(p)]
    extra = [drawn.choice((0.0, 2.5, 11.0)) for _ in range(p)] if terms else None
    tasks = []
    for _ in range(n):
        nodes = drawn.sample(range(p), min(3, p))
        rows = []
        for node in nodes:
            base = drawn.choice(TIERS)
            rows.append(Preference(str(node), PENDING if drawn.random() < 0.05 else base, base))
        flat = drawn.random() < 0.02
        tasks.append(Task((), True) if flat else Task(rows, weight=drawn.choice((1, 1, 1, 0.5))))
    rack = [j % racks for j in range(p)]
    index = {str(j): j for j in range(p)}
    return places_of(free, rack, extra), wants_of(tasks, index, SCORES)


@pytest.mark.parametrize("terms", [False, True], ids=["alike", "terms"])
@pytest.mark.parametrize(
    ("n", "p", "racks", "slots"),
    [(400, 200, 1, 4), (300, 200, 4, 3), (900, 60, 5, 4), (500, 60, 1, 8), (30, 300, 6, 4)],
)
def test_matching_is_as_cheap_as_an_independent_solver_says(
    n: int, p: int, racks: int, slots: int, terms: bool
) -> None:
    assert COMPARED is not None
    for seed in range(3):
        places, wants = large(n, p, racks, seed, slots=slots, terms=terms)
        costs = whole(places, wants)
        rows, columns = linear_sum_assignment(costs)
        best = int(costs[rows, columns].sum())
        check(places, wants, COMPILED.schedule(places, wants, SCORES.rates), best)
        unpruned = COMPARED.schedule_pruned(places, wants, SCORES.rates, NOTHING)
        check(places, wants, unpruned, best)


def whole(places: Places, wants: Wants) -> Ints:
    """Return ``matrix`` by whole arrays, for many slots: written apart from ``price_of``."""
    n, p = len(wants.flat), len(places.slots)
    rates = SCORES.rates
    costs = np.full((n, p), rates.across, dtype=np.int64)
    for i in range(n):
        mine = slice(wants.first[i], wants.first[i + 1])
        for place, base in zip(wants.place[mine], wants.base[mine], strict=True):
            same = places.rack == places.rack[place]
            costs[i, same] = np.minimum(costs[i, same], rates.in_rack + base)
        for place, score in zip(wants.place[mine], wants.score[mine], strict=True):
            costs[i, place] = min(costs[i, place], score)
        if wants.flat[i] >= 0:
            costs[i] = wants.flat[i]
        costs[i] = wants.weight[i] * costs[i] // 1000 + places.term
    return np.repeat(costs, places.slots, axis=1)


@settings(max_examples=100, deadline=None)
@given(instances(), st.lists(st.integers(0, 2), min_size=5, max_size=5), st.integers(0, 2000))
def test_contention_costs_the_same_compiled_and_nothing_where_it_is_none(
    instance: tuple[Places, Wants], readers: list[int], share: int
) -> None:
    places, wants = instance
    rows = np.array(readers[: len(places.slots)], dtype=np.int64)
    found = [
        kernels.schedule_contended(places, wants, SCORES.rates, Contention(rows, share))
        for kernels in COMPARISONS
    ]
    assert len({int(matching.cost.sum()) for matching in found}) == 1
    alone = trident.PLAIN.schedule_contended(places, wants, SCORES.rates, Contention(rows, 0))
    plain = PLAIN.schedule(places, wants, SCORES.rates)
    assert alone.cost.sum() == plain.cost.sum() <= found[0].cost.sum()


@settings(max_examples=100, deadline=None)
@given(instances(), st.integers(0, 2))
def test_comparisons_give_slots_out_once(instance: tuple[Places, Wants], kind: int) -> None:
    from reproductions.trident.greedy import Rule

    places, wants = instance
    everyone = np.ones(len(wants.flat), dtype=np.bool_)
    for kernels in COMPARISONS:
        at = kernels.fill_slots(places, wants, Rule(kind, TIERS[0], everyone))
        used = np.bincount(at[at >= 0], minlength=len(places.slots))
        assert (used <= places.slots).all()
        assert (at >= 0).sum() == min(len(wants.flat), places.slots.sum())


@settings(max_examples=200, deadline=None)
@given(instances(), st.integers(0, 8))
def test_containers_are_free_slots_the_cheapest_first(
    instance: tuple[Places, Wants], most: int
) -> None:
    places, wants = instance
    for kernels in COMPARISONS:
        requests = kernels.requests_of(places, wants)
        made = kernels.allocate(places, requests, SCORES.rates, most)
        used = np.bincount(made.place, minlength=len(places.slots))
        assert (used <= places.slots).all()
        assert len(made.place) == min(most, len(wants.flat), places.slots.sum())
        assert (np.diff(made.cost) >= 0).all()
        assert asked_per_place(places, wants, kernels)


def asked_per_place(places: Places, wants: Wants, kernels: Comparisons) -> bool:
    """Return whether each place's preference map counts the tasks that name it, by score."""
    maps = kernels.requests_of(places, wants).places
    for j in range(len(places.slots)):
        due = sorted(
            int(wants.score[e])
            for i in range(len(wants.flat))
            if wants.flat[i] < 0
            for e in range(wants.first[i], wants.first[i + 1])
            if wants.place[e] == j
        )
        span = slice(maps.first[j], maps.first[j + 1])
        if np.repeat(maps.score[span], maps.many[span]).tolist() != due:
            return False
    return True
