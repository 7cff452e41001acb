"""Consolidation of a generation, and what a plan says of its nodes."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.cycles.planner import plan
from tenure.cycles.snapshot import NodeView, ServiceView, Snapshot
from tenure.model.plan import CycleSpec, NodeNote, Plan, Saving, saving_of
from tenure.model.resources import Resources, exhausted, total
from tenure.model.units import US
from tests.unit.cycles.fleets import (
    CPU_HEAVY,
    NOW_US,
    SPEC,
    USABLE,
    node,
    profile,
    service,
)

OLD = dataclasses.replace(SPEC, is_consolidating=True, min_saving_w=10.0)


def aged(where: dict[str, str], **changed: Any) -> list[ServiceView]:
    """Services of the target generation: name to node."""
    return [service(n, node=at, generation="young", **changed) for n, at in where.items()]


def using(used: int, name: str, **changed: Any) -> NodeView:
    """A node with ``used`` cpu-heavy containers, that draws 100 W idle."""
    free = USABLE - total([CPU_HEAVY] * used)
    return node(name, **{"free": free, "idle_w": 100.0, **changed})


def planned(
    nodes: list[NodeView],
    services: list[ServiceView],
    *,
    spec: CycleSpec = OLD,
    min_on: dict[str, int] | None = None,
    cooldown_us: int = 0,
    spare_cpu_m: int = 0,
    unprofiled: tuple[str, ...] = (),
) -> Plan:
    snapshot = Snapshot(
        1,
        NOW_US,
        cooldown_us,
        nodes=tuple(nodes),
        services=tuple(services),
        profiles=tuple(profile(s.id, CPU_HEAVY) for s in services if s.id not in unprofiled),
        min_on=min_on or {},
        spare_cpu_m=spare_cpu_m,
    )
    return plan(snapshot, spec, "run")


def noted(made: Plan) -> dict[str, str]:
    return {note.node: note.code for note in made.nodes}


PAIR = {"a": "n1", "b": "n1", "c": "n2"}


def test_the_emptier_node_is_emptied_onto_the_fuller() -> None:
    made = planned([using(2, "n1"), using(1, "n2")], aged(PAIR))
    assert [(m.container, m.source, m.target) for m in made.moves] == [("c", "n2", "n1")]
    assert noted(made)["n2"] == "freed"
    assert "n1" not in noted(made)  # it took in what the other gave
    assert made.moves[0].reason.startswith("consolidation: needs 2.000 cores")
    assert saving_of(made.nodes) == Saving(1, 100.0, 0, 0)
    assert made.kept == ()  # of the source generation there was nobody


def test_nobody_moves_for_the_sake_of_one_that_may_move_live_alone_and_has_nowhere_to() -> None:
    services = [*aged({"a": "n1"}), *aged({"b": "n1"}, migrate="live"), *aged({"c": "n2"})]
    nodes = [using(2, "n1", idle_w=200.0), using(1, "n2", is_switchable=False)]
    made = planned(nodes, services)
    assert made.moves == ()
    assert noted(made)["n1"] == "no_room"
    nodes[1] = dataclasses.replace(nodes[1], checkpoint=True)
    assert {m.container for m in planned(nodes, services).moves} == {"a", "b"}


def test_only_a_consolidating_cycle_does() -> None:
    assert planned([using(2, "n1"), using(1, "n2")], aged(PAIR), spec=SPEC).moves == ()


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"held": "executors of jobs"}, "held"),
        ({"is_switchable": False}, "not_switchable"),
        ({"idle_w": 9.0}, "not_worthwhile"),
    ],
)
def test_a_node_is_left_in_use_for_a_reason(changed: dict[str, Any], code: str) -> None:
    made = planned([using(2, "n1", is_switchable=False), using(1, "n2", **changed)], aged(PAIR))
    assert made.moves == ()
    assert noted(made) == {"n1": "not_switchable", "n2": code}
    assert all(note.reason for note in made.nodes)


def test_watts_that_are_not_stated_are_no_objection() -> None:
    made = planned([using(2, "n1", idle_w=0.0), using(1, "n2", idle_w=0.0)], aged(PAIR))
    assert noted(made) == {"n2": "freed"}
    assert saving_of(made.nodes) == Saving(1, 0.0, 0, 1)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"barred_code": "never_migrate", "barred": "its label"}, "never_migrate"),
        ({"state": "stopped"}, "not_running"),
        ({"moved_us": NOW_US - US}, "cooldown"),
    ],
)
def test_one_container_that_may_not_move_keeps_its_node(changed: dict[str, Any], code: str) -> None:
    rows = aged(PAIR)
    rows[2] = dataclasses.replace(rows[2], **changed)
    nodes = [using(2, "n1", is_switchable=False), using(1, "n2")]
    made = planned(nodes, rows, cooldown_us=60 * US)
    assert made.moves == ()
    assert noted(made)["n2"] == code


def test_a_container_without_profile_keeps_its_node() -> None:
    made = planned(
        [using(3, "n1"), using(1, "n2")],
        aged({**PAIR, "d": "n1"}),
        unprofiled=("c",),
    )
    assert noted(made) == {"n1": "no_room", "n2": "too_few_samples"}


@pytest.mark.parametrize(
    ("spare_cpu_m", "codes"),
    [
        # with n2 empty all three containers are on n1, whose 6 cores they use
        (0, {"n2": "freed"}),
        (1, {"n1": "headroom", "n2": "headroom"}),
    ],
)
def test_headroom_stays_on(spare_cpu_m: int, codes: dict[str, str]) -> None:
    made = planned([using(2, "n1"), using(1, "n2")], aged(PAIR), spare_cpu_m=spare_cpu_m)
    assert noted(made) == codes
    assert bool(made.moves) == (spare_cpu_m == 0)


def test_headroom_counts_on_all_nodes_that_stay_on_and_take_new_work() -> None:
    third = using(0, "n3", held="executors of jobs", free=Resources(2000, 0))
    nodes = [using(2, "n1"), using(1, "n2"), third]
    assert noted(planned(nodes, aged(PAIR), spare_cpu_m=2000)) == {"n2": "freed"}
    assert noted(planned(nodes, aged(PAIR), spare_cpu_m=2001))["n2"] == "headroom"
    nodes[2] = dataclasses.replace(third, is_schedulable=False)
    assert noted(planned(nodes, aged(PAIR), spare_cpu_m=2000))["n2"] == "headroom"


def test_a_node_that_promotions_empty_stays_on_as_headroom() -> None:
    source = [
        dataclasses.replace(using(1, name), generation="nursery", free=Resources(4000, 0))
        for name in ("s1", "s2")
    ]
    rows = [service("a", node="s1"), service("b", node="s2")]
    nodes = [*source, using(0, "n1")]
    freed = planned(nodes, rows, spare_cpu_m=4000)
    assert noted(freed) == {"s1": "freed", "s2": "headroom"}
    assert set(noted(planned(nodes, rows)).values()) == {"freed"}


def test_a_node_that_is_drained_is_no_donor() -> None:
    drained = using(1, "n2", is_schedulable=False)
    made = planned([using(2, "n1"), drained], aged(PAIR))
    assert [m.container for m in made.moves] == ["c"], "one that is cordoned is"
    made = planned([using(2, "n1"), dataclasses.replace(drained, is_draining=True)], aged(PAIR))
    assert made.moves == ()
    assert noted(made)["n2"] == "draining"


def test_all_or_nothing_within_the_budget() -> None:
    few = dataclasses.replace(OLD, max_moves=1)
    rows = aged({"a": "n1", "b": "n1", "c": "n2", "d": "n2"})
    nodes = [using(2, "n1"), using(2, "n2")]
    made = planned(nodes, rows, spec=few)
    assert made.moves == ()
    assert set(noted(made).values()) == {"move_limit"}
    # two of three fit elsewhere: none moves
    made = planned(nodes, rows)
    assert made.moves == ()
    assert set(noted(made).values()) == {"no_room"}


def test_a_generation_keeps_its_least_number_on() -> None:
    made = planned([using(2, "n1"), using(1, "n2")], aged(PAIR), min_on={"young": 2})
    assert made.moves == ()
    assert "min_on" in noted(made).values()


def test_never_onto_a_node_that_could_go_off_itself() -> None:
    made = planned([using(1, "n1"), node("empty", idle_w=50.0)], aged({"a": "n1"}))
    assert made.moves == ()
    assert noted(made) == {"n1": "no_room"}


def test_onto_an_empty_node_that_something_else_keeps_on() -> None:
    held = node("busy", idle_w=50.0, held="executors of jobs")
    made = planned([using(1, "n1"), held], aged({"a": "n1"}))
    assert [(m.container, m.target) for m in made.moves] == [("a", "busy")]
    assert noted(made) == {"n1": "freed"}


def test_what_arrives_by_the_same_plan_counts() -> None:
    rows = [*aged({"c": "n2"}), service("new")]
    made = planned([using(0, "n1"), using(1, "n2"), using(2, "nursery-1")], rows)
    targets = {m.container: m.target for m in made.moves}
    assert targets == {"new": "n2"}  # the fuller; then n2 is no donor, for it receives
    assert "n2" not in noted(made)


def test_promotions_free_nodes_of_the_source_generation() -> None:
    old = node("nursery-1", generation="nursery", idle_w=70.0, price_nano_per_h=5)
    made = planned([using(0, "n1"), old], [service("new")])
    assert noted(made) == {"nursery-1": "freed"}
    assert saving_of(made.nodes) == Saving(1, 70.0, 5, 0)
    kept = planned([using(0, "n1"), old], [service("new")], min_on={"nursery": 1})
    assert noted(kept) == {"nursery-1": "min_on"}
    stuck = planned([using(0, "n1"), old], [service("new"), service("x", state="exited")])
    assert noted(stuck) == {}


def test_a_node_that_is_started_costs() -> None:
    made = planned([node("n1", is_on=False, idle_w=80.0)], [service("new")])
    assert noted(made) == {"n1": "started"}
    assert saving_of(made.nodes) == Saving(-1, -80.0, 0, 0)
    assert saving_of([NodeNote("x", "no_room", "", 80.0)]) == Saving()


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=14),
    st.integers(0, 8),
    st.integers(0, 3),
)
def test_laws_of_consolidation(rows: list[tuple[int, int]], limit: int, keep: int) -> None:
    """No node over its room; sources wholly emptied; no target emptied; budgets kept."""
    services = [
        service(f"s{i:02}", node=f"n{at}", generation="young") for i, (at, _) in enumerate(rows)
    ]
    use = {f"s{i:02}": Resources(1000 * cores, 1 << 29) for i, (_, cores) in enumerate(rows)}
    capacity = Resources(16000, 16 << 30)
    free = {
        f"n{at}": capacity - total(use[s.id] for s in services if s.node == f"n{at}")
        for at in range(5)
    }
    nodes = [node(name, capacity, free=left, idle_w=100.0) for name, left in free.items()]
    spec = dataclasses.replace(OLD, max_moves=limit)
    made = plan(
        Snapshot(
            1,
            NOW_US,
            nodes=tuple(nodes),
            services=tuple(services),
            profiles=tuple(profile(name, amount) for name, amount in use.items()),
            min_on={"young": keep},
        ),
        spec,
        "run",
    )
    sources, targets = {m.source for m in made.moves}, {m.target for m in made.moves}
    assert not sources & targets
    assert len(made.moves) <= limit
    leaving = {m.container for m in made.moves}
    assert all(s.id in leaving for s in services if s.node in sources)
    for name in targets:
        need = total(use[m.container] for m in made.moves if m.target == name)
        assert not exhausted(need, free[name], capacity)
    freed = {note.node for note in made.nodes if note.code == "freed"}
    assert freed == sources
    assert not freed or 5 - len(freed) >= keep


def test_escape_for_a_saving_alone() -> None:
    """Switching one on to free one is no saving; to free two, or one that draws more, is."""
    thrifty = dataclasses.replace(SPEC, escape="saving")
    source = node("nursery-1", generation="nursery", idle_w=100.0)
    other = node("nursery-2", generation="nursery", idle_w=100.0)
    off = node("n1", is_on=False, idle_w=100.0)
    one, two = service("a"), service("b", node="nursery-2")
    kept = planned([source, off], [one], spec=thrifty)
    assert (kept.moves, kept.nodes, [k.code for k in kept.kept]) == ((), (), ["no_room"])
    assert "n1 is not on" in kept.kept[0].reason
    assert len(planned([source, other, off], [one, two], spec=thrifty).moves) == 2
    cheaper = dataclasses.replace(off, idle_w=60.0)
    assert len(planned([source, cheaper], [one], spec=thrifty).moves) == 1
    on = dataclasses.replace(off, is_on=True)
    assert len(planned([source, on], [one], spec=thrifty).moves) == 1
    assert len(planned([source, off], [one], spec=SPEC).moves) == 1
