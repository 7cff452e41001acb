"""Algorithm 1 against a list-by-list oracle, the paper's examples, and its inequality."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.cycles.availability import norm, price_per_core, watts_per_core
from tenure.cycles.candidates import Candidate, by_arrival, select
from tenure.cycles.fit import Pool
from tenure.cycles.packing import best_packing, blended, pack
from tenure.cycles.planner import plan
from tenure.cycles.snapshot import NodeView, Snapshot
from tenure.model.resources import Resources, exhausted
from tests.unit.cycles.fleets import (
    CPU_HEAVY,
    GIB,
    MEM_HEAVY,
    SPEC,
    USABLE,
    arriving,
    node,
    nodes_used,
)

NODES = [node(f"n{i}") for i in range(1, 8)]
#: Figure 3.1: in order of arrival.
FIGURE_3_1 = [CPU_HEAVY] * 4 + [MEM_HEAVY] * 2 + [CPU_HEAVY] * 2 + [MEM_HEAVY] * 4
#: Figures 3.2 and 3.3: 20 containers, 5 of each type in turn.
TWENTY = ([CPU_HEAVY] * 5 + [MEM_HEAVY] * 5) * 2


def binpack(snapshot: Snapshot) -> dict[str, str]:
    """The fullest node that fits, in the order of arrival."""
    pool = Pool(snapshot.nodes)
    rows = by_arrival(select(snapshot, SPEC)[0])
    return {row.service.id: seat.node.name for row, seat in pack(pool, "", rows, 1000).seats}


def spread(snapshot: Snapshot) -> dict[str, str]:
    """The node with the fewest containers that fits, in the order of arrival."""
    free = {row.name: row.free for row in snapshot.nodes}
    count = dict.fromkeys(free, 0)
    found = {}
    for row in by_arrival(select(snapshot, SPEC)[0]):
        fitting = [n for n in snapshot.nodes if not exhausted(row.need, free[n.name], n.capacity)]
        if fitting:
            name = min(fitting, key=lambda n: (count[n.name], n.name)).name
            free[name] -= row.need
            count[name] += 1
            found[row.service.id] = name
    return found


def test_figure_3_1_three_nodes_hold_what_spread_and_binpack_cannot() -> None:
    three = arriving(FIGURE_3_1, NODES[:3])
    assert len(binpack(three)) == 10
    assert len(spread(three)) == 10
    made = plan(three, SPEC, "run")
    assert (len(made.moves), made.kept) == (12, ())
    for name in ("n1", "n2", "n3"):
        kinds = [FIGURE_3_1[int(m.container[1:])] for m in made.moves if m.target == name]
        assert sorted(kinds, key=lambda use: use.cpu_m) == [MEM_HEAVY] * 2 + [CPU_HEAVY] * 2
    four = arriving(FIGURE_3_1, NODES[:4])
    assert len(set(binpack(four).values())) == len(set(spread(four).values())) == 4
    assert nodes_used(plan(four, SPEC, "run")) == 3


def test_the_experiment_of_20_containers_frees_a_node() -> None:
    snapshot = arriving(TWENTY, NODES)
    made = plan(snapshot, SPEC, "run")
    assert (len(made.moves), nodes_used(made)) == (20, 5)
    assert len(set(binpack(snapshot).values())) == 6
    assert len(set(spread(snapshot).values())) == 7


def test_a_container_goes_where_its_constraints_allow_or_says_why_not() -> None:
    use = Resources(100, GIB // 8)
    snapshot = arriving([use] * 3, NODES[:3])
    kept_out, elsewhere, _ = snapshot.services
    rows = (replace(kept_out, allowed=("n2",)), replace(elsewhere, allowed=()))
    made = plan(replace(snapshot, services=(*rows, snapshot.services[2])), SPEC, "run")
    assert {m.container: m.target for m in made.moves}[kept_out.id] == "n2"
    (stays,) = made.kept
    assert (stays.container, stays.code) == (elsewhere.id, "constraint")
    assert "n1 does not satisfy its constraints" in stays.reason


def test_availability_is_the_norm_of_free_ratios_over_what_is_stated() -> None:
    assert norm((600, 800, 5, 5), (1000, 1000, 0, 0)) == pytest.approx(0.5**0.5)
    assert norm((600, 800, -5, 0), (1000, 1000, 100, 0)) == pytest.approx((1 / 3) ** 0.5)
    assert norm((5, 5), (0, 0)) == 0.0


def test_ties_go_by_watts_a_core_and_dearer_nodes_come_last() -> None:
    half = Resources(3000, USABLE.memory_bytes // 2)
    nodes = [
        node("a-cloud-on", price_nano_per_h=10, site="cloud", free=half),
        node("a-dear", price_nano_per_h=90, free=half, peak_w=1.0),
        node("b-hungry", peak_w=200.0),
        node("c-frugal", peak_w=100.0),
    ]
    made = plan(arriving([CPU_HEAVY] * 8, nodes), SPEC, "run")
    targets = [move.target for move in made.moves]
    # three fit on each that is free, the frugal one first; the paid ones, though fuller, are last
    assert targets == ["c-frugal"] * 3 + ["b-hungry"] * 3 + ["a-cloud-on"] + ["a-dear"]


def test_escape_switches_on_the_cheapest_and_then_the_most_efficient() -> None:
    off: dict[str, Any] = {"is_on": False}
    nodes = [
        node("full", free=Resources()),
        node("a-cloud", price_nano_per_h=10, site="cloud", peak_w=50.0, **off),
        node("b-hungry", peak_w=200.0, **off),
        node("c-frugal", peak_w=100.0, **off),
    ]
    made = plan(arriving([CPU_HEAVY] * 7, nodes), SPEC, "run")
    started = [note.node for note in made.nodes if note.code == "started"]
    assert started == ["a-cloud", "b-hungry", "c-frugal"]
    order = [m.target for m in made.moves if "escape" in m.reason]
    assert order == ["c-frugal", "b-hungry", "a-cloud"]


def oracle(rows: Sequence[Candidate], nodes: Sequence[NodeView]) -> dict[str, str]:
    """Algorithm 1 with lists: BLEND given, sorted nodes, first fit, SHIFTLEFT, ESCAPE."""

    def availability(row: NodeView, free: Resources) -> float:
        stated = [(f, c) for f, c in zip(free.values(), row.capacity.values(), strict=True) if c]
        return math.sqrt(sum((max(0, f) / c) ** 2 for f, c in stated) / max(1, len(stated)))

    free = {row.name: row.free for row in nodes}
    by_name = {row.name: row for row in nodes}

    def rank(name: str) -> tuple[float, float, float, str]:
        row = by_name[name]
        key = round(availability(row, free[name]), 9)
        return price_per_core(row), key, watts_per_core(row), name

    listed = sorted((row.name for row in nodes if row.is_on), key=rank)
    closed = [row.name for row in nodes if not row.is_on and row.is_switchable]
    closed.sort(key=lambda n: (price_per_core(by_name[n]), watts_per_core(by_name[n]), n))
    found = {}
    for row in rows:
        for names in (listed, closed):
            fit = next((n for n in names if not _short(row, free[n], by_name[n])), None)
            if fit is not None:
                names.remove(fit)
                free[fit] -= row.need
                listed.append(fit)
                listed.sort(key=rank)
                found[row.service.id] = fit
                break
    return found


def _short(row: Candidate, free: Resources, where: NodeView) -> bool:
    return bool(exhausted(row.need, free, where.capacity))


USES = st.builds(
    Resources, st.integers(1, 12).map(lambda x: 500 * x), st.integers(1, 12).map(lambda x: x << 29)
)


@st.composite
def heterogeneous(draw: st.DrawFn) -> list[NodeView]:
    made = []
    for number in range(draw(st.integers(1, 6))):
        size = draw(st.sampled_from([1, 2]))
        capacity = Resources(6000 * size, USABLE.memory_bytes * size)
        is_on = draw(st.booleans())
        used = draw(st.integers(0, 6)) if is_on else 0
        made.append(
            node(
                f"n{number}",
                capacity,
                free=capacity - Resources(1000 * used, used << 30),
                is_on=is_on,
                is_switchable=draw(st.booleans()),
                peak_w=draw(st.sampled_from([0.0, 100.0, 200.0])),
                price_nano_per_h=draw(st.sampled_from([0, 0, 50, 80])),
            )
        )
    return made


@settings(deadline=None, max_examples=150)
@given(st.lists(USES, max_size=25), heterogeneous())
def test_arrays_choose_what_the_lists_of_algorithm_1_choose(
    uses: list[Resources], nodes: list[NodeView]
) -> None:
    snapshot = arriving(uses, nodes)
    rows = blended(Pool(nodes), select(snapshot, SPEC)[0], 4).order
    packed = pack(Pool(nodes), "blend", rows, 1000)
    assert {row.service.id: seat.node.name for row, seat in packed.seats} == oracle(rows, nodes)


@settings(deadline=None, max_examples=150)
@given(st.lists(USES, min_size=1, max_size=25))
def test_ours_needs_no_more_nodes_than_binpack_and_that_no_more_than_spread(
    uses: list[Resources],
) -> None:
    """The inequality of section 3, on nodes alike and enough of them."""
    snapshot = arriving(uses, [node(f"n{i:02}") for i in range(len(uses))])
    ours = plan(snapshot, SPEC, "run")
    assert len(ours.moves) == len(uses)
    packed, wide = set(binpack(snapshot).values()), set(spread(snapshot).values())
    assert nodes_used(ours) <= len(packed) <= len(wide) == len(uses)


@settings(deadline=None, max_examples=100)
@given(st.lists(USES, min_size=1, max_size=25), heterogeneous())
def test_ours_seats_no_fewer_than_binpack_and_then_on_no_more_nodes(
    uses: list[Resources], nodes: list[NodeView]
) -> None:
    snapshot = arriving(uses, nodes)
    ours, packed = plan(snapshot, SPEC, "run"), binpack(snapshot)
    assert len(ours.moves) >= len(packed)
    if len(ours.moves) == len(packed):
        assert nodes_used(ours) <= len(set(packed.values()))


def test_the_blended_order_alone_breaks_the_papers_inequality() -> None:
    """A counter-example of ``docs/known-gaps.md``: what other orders are tried for."""
    cores = [2000, 1000, 1000, 6000, 2000, 3500, 3000]
    halves = [11, 4, 4, 11, 1, 12, 3]  # of a GiB
    uses = [Resources(*use) for use in zip(cores, (x << 29 for x in halves), strict=True)]
    snapshot = arriving(uses, NODES)
    pool = Pool(snapshot.nodes)
    rows = select(snapshot, SPEC)[0]
    order = blended(pool, rows, 4).order
    alone = pack(pool, "blend", order, 1000)
    assert alone.cost(())[1] > len(set(binpack(snapshot).values()))
    best = best_packing(pool, order, limit=1000, occupied=())
    assert best.cost(())[1] == len(set(binpack(snapshot).values()))
    assert best.order != "blend"
