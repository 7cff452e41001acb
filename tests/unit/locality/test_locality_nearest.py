"""Executors go where their blocks are, among nodes that cost no more."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.locality.costs import price_of
from tenure.locality.localizer import Tiers
from tenure.locality.nearest import MOST_APART, Options, nearest, table_of
from tenure.model.locality import Copy, Nearer, Read, Seats, Site
from tests.unit.locality.build import SCORES, Lab

MEMORY, SSD, HDD = range(3)


def site(node: str, chosen: int = 0, *, room: int = 2, cost: int = 0, stays: bool = False) -> Site:
    return Site(node, "r", room, chosen, cost, stays)


def read(key: int, **tiers: int) -> Read:
    return Read(key, tuple(Copy(node, "t", tier) for node, tier in tiers.items()))


def test_free_nodes_are_exchanged_for_those_with_blocks_in_memory() -> None:
    sites = [site("a", 2), site("b"), site("c")]
    found = Tiers().nearer(sites, [read(0, a=HDD, b=MEMORY), read(1, a=HDD, c=MEMORY)])
    assert found == Nearer((("b", 1), ("c", 1)), 2000, 40_000)


def test_dearer_nodes_are_not_taken_and_no_more_of_them_are_used() -> None:
    blocks = [read(0, a=HDD, b=MEMORY), read(1, a=HDD, c=MEMORY)]
    dearer = [site("a", 2, cost=5), site("b", cost=6), site("c", cost=6)]
    assert Tiers().nearer(dearer, blocks) is None
    alike = [site("a", 2, cost=5), site("b", cost=5), site("c", cost=5)]
    found = Tiers().nearer(alike, blocks)
    assert found is None, "one of them, with one block in memory and one elsewhere, is no better"
    both = [read(0, a=HDD, b=MEMORY), read(1, a=HDD, b=MEMORY)]
    assert Tiers().nearer(alike, both) == Nearer((("b", 2),), 2000, 40_000)
    full = [site("a", 2, cost=5), site("b", room=1, cost=5)]
    assert Tiers().nearer(full, both) is None


def test_who_is_counted_on_stays() -> None:
    sites = [site("a", 1, stays=True), site("b")]
    assert Tiers().nearer(sites, [read(0, a=HDD, b=MEMORY)]) is None


def test_what_is_as_near_stays_where_its_policy_put_it() -> None:
    sites = [site("c", 1), site("a"), site("b")]
    assert Tiers().nearer(sites, [read(0, a=SSD, b=SSD, c=SSD)]) is None


def test_the_rack_counts_where_no_node_with_a_copy_has_room() -> None:
    far, near = Site("a", "r1", 1, 1, 0), Site("b", "r2", 1, 0, 0)
    full = Site("c", "r2", 0, 0, 0)
    found = Tiers().nearer([far, near, full], [read(0, c=SSD)])
    assert found == Nearer((("b", 1),), 48_000, 100_000)


def test_costs_are_those_of_equation_1() -> None:
    lab = Lab(["a b", "c"], {}, [{"a": 1}, {"b": 8, "c": 20}, {}])
    table = table_of(lab.places, lab.wants, SCORES.rates)
    due = [
        [price_of(lab.places, lab.wants, SCORES.rates, i, j) for j in range(3)] for i in range(3)
    ]
    assert table.tolist() == due


def test_many_on_one_node_move_together() -> None:
    many = MOST_APART + 1
    table = np.array([[20, 1], [20, 1]])
    options = Options(
        np.array([many, many - 1]),
        np.array([many, 0]),
        np.zeros(2, dtype=np.int64),
        np.zeros(2, dtype=np.bool_),
    )
    assert nearest(table, options).tolist() == [many, 0]


NODES = "abcde"
KINDS = st.sampled_from((MEMORY, SSD, HDD))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Site], list[Read]]:
    sites = []
    for node in NODES:
        chosen = draw(st.integers(0, 3))
        more, cost = draw(st.integers(0, 3)), draw(st.sampled_from((0, 0, 3, 5)))
        sites.append(Site(node, draw(st.sampled_from("rs")), chosen + more, chosen, cost))
    if not any(one.chosen for one in sites):
        sites[0] = sites[0]._replace(room=1, chosen=1)
    count = draw(st.integers(1, 8))
    copies = st.dictionaries(st.sampled_from(NODES), KINDS, max_size=3)
    return sites, [read(i, **draw(copies)) for i in range(count)]


@settings(max_examples=200, deadline=None)
@given(problems())
def test_what_is_told_fits_costs_no_more_and_reads_cheaper(
    problem: tuple[list[Site], list[Read]],
) -> None:
    sites, reads = problem
    tiers = Tiers()
    found = tiers.nearer(sites, reads)
    if found is None:
        return
    by_name, counts = {one.node: one for one in sites}, Counter(dict(found.counts))
    assert sum(counts.values()) == sum(one.chosen for one in sites)
    assert all(count <= by_name[node].room for node, count in counts.items())
    assert sum(by_name[node].cost_nano for node in counts) <= sum(
        one.cost_nano for one in sites if one.chosen
    )
    share = -(-len(reads) // sum(counts.values()))
    names, racks = tuple(s.node for s in sites), tuple(s.rack for s in sites)
    costs = []
    for row in ([counts[s.node] for s in sites], [s.chosen for s in sites]):
        fits = tiers.match(Seats(names, racks, tuple(n * share for n in row)), reads)
        costs.append(sum(fit.cost for fit in fits))
    assert costs == [found.cost, found.chosen_cost]
    assert found.cost < found.chosen_cost
