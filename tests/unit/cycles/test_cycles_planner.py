"""The planner: who may move, where to, why not; and its laws for any fleet."""

import dataclasses
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.cycles.planner import PLAN_TTL_US, plan
from tenure.cycles.snapshot import (
    NodeView,
    ServiceView,
    Snapshot,
    plan_to_json,
    snapshot_from_json,
    snapshot_to_json,
)
from tenure.model.container import Profile
from tenure.model.errors import InvalidInput
from tenure.model.plan import CycleSpec, Plan
from tenure.model.resources import Resources, exhausted, total
from tenure.model.units import MIB, US
from tests.unit.cycles.fleets import NOW_US, service

SPEC = CycleSpec("promote", "nursery", "young", interval_us=US, min_age_us=60 * US, headroom=1.0)


def node(name: str, cpu_m: int = 1000, mib: int = 1000, **changed: object) -> NodeView:
    capacity = Resources(cpu_m, mib * MIB)
    row = NodeView(name, "young", capacity, capacity, is_on=True)
    return dataclasses.replace(row, **changed)  # type: ignore[arg-type]


def profile(name: str, cpu_m: int, mib: int = 10, samples: int = 5) -> Profile:
    return Profile(name, Resources(cpu_m, mib * MIB), samples, 90 * US)


def fleet(nodes: list[NodeView], services: list[ServiceView], profiles: list[Profile]) -> Snapshot:
    return Snapshot(
        revision=7,
        now_us=NOW_US,
        cooldown_us=300 * US,
        nodes=tuple(nodes),
        services=tuple(services),
        profiles=tuple(profiles),
        cycles=(SPEC,),
    )


def targets(made: Plan) -> dict[str, str]:
    return {move.container: move.target for move in made.moves}


def codes(made: Plan) -> dict[str, str]:
    return {kept.container: kept.code for kept in made.kept}


def test_larger_profiles_first_onto_the_fullest_node_that_fits() -> None:
    half = node("half", free=Resources(400, 500 * MIB))
    made = plan(
        fleet(
            [node("empty"), half],
            [service("small"), service("large")],
            [profile("small", 300), profile("large", 600)],
        ),
        SPEC,
        "run",
    )
    assert [move.container for move in made.moves] == ["large", "small"]
    assert targets(made) == {"large": "empty", "small": "half"}
    assert (made.revision, made.generation, made.run_id) == (7, "nursery", "run")
    assert made.expires_us == NOW_US + PLAN_TTL_US
    assert made.moves[0].source == "nursery-1"
    assert "0.600 cores" in made.moves[0].reason
    assert "5 samples over 90 s" in made.moves[0].reason


def test_each_choice_takes_room_from_the_next() -> None:
    names = ["a", "b", "c"]
    snapshot = fleet([node("n")], [service(n) for n in names], [profile(n, 400) for n in names])
    made = plan(snapshot, SPEC, "run")
    assert targets(made) == {"a": "n", "b": "n"}
    assert codes(made) == {"c": "no_room"}
    assert "n has 0.200 cores free" in made.kept[0].reason


def test_the_order_of_nodes_is_made_again_after_each_choice() -> None:
    fuller = node("fuller", free=Resources(400, 400 * MIB))
    snapshot = fleet(
        [fuller, node("empty")],
        [service("large"), service("small")],
        [profile("large", 900, 900), profile("small", 100, 100)],
    )
    assert targets(plan(snapshot, SPEC, "run")) == {"large": "empty", "small": "empty"}


def test_a_node_that_changed_its_generation_is_no_target_for_its_own() -> None:
    own = node("nursery-1")
    made = plan(fleet([own], [service("a")], [profile("a", 1)]), SPEC, "run")
    assert codes(made) == {"a": "no_node"}
    made = plan(fleet([own, node("z")], [service("a")], [profile("a", 1)]), SPEC, "run")
    assert targets(made) == {"a": "z"}


def test_need_is_the_larger_of_profile_with_headroom_and_reservation() -> None:
    roomy = dataclasses.replace(SPEC, headroom=1.5)
    snapshot = fleet(
        [node("n", 1000)],
        [service("a", reserved=Resources(100, 0)), service("b", reserved=Resources(900, 0))],
        [profile("a", 100), profile("b", 110)],
    )
    made = plan(snapshot, roomy, "run")
    assert targets(made) == {"b": "n"}
    assert "0.150 cores" in made.kept[0].reason


def test_escape_takes_the_most_efficient_node_that_is_off() -> None:
    off = {"is_on": False, "is_switchable": True}
    nodes = [
        node("full", free=Resources(0, 0)),
        node("a-hungry", peak_w=300.0, **off),
        node("b-frugal", peak_w=100.0, **off),
        node("c-unknown", **off),
    ]
    names = ["a", "b", "c"]
    made = plan(
        fleet(nodes, [service(n) for n in names], [profile(n, 400) for n in names]), SPEC, "run"
    )
    # The second goes to the node that is coming up, the third needs another one.
    assert targets(made) == {"a": "b-frugal", "b": "b-frugal", "c": "a-hungry"}
    assert ["escape" in move.reason for move in made.moves] == [True, False, True]
    assert "switched on" in made.moves[1].reason


def test_a_node_that_cannot_be_used_says_why() -> None:
    nodes = [
        node("cordoned", is_schedulable=False),
        node("down", is_on=False),
        node("small", 100),
        node("without", images=("other:latest",)),
        node("zzz", 1),
    ]
    row = service("a", image="mine", is_pullable=False)
    made = plan(fleet(nodes, [row], [profile("a", 200)]), SPEC, "run")
    assert codes(made) == {"a": "no_room"}
    for words in (
        "cordoned takes no new work",
        "down is not on",
        "small has 0.100 cores free",
        "without lacks the image mine",
        "1 more nodes",
    ):
        assert words in made.kept[0].reason


def test_only_nodes_with_the_image_are_taken() -> None:
    nodes = [node("a", images=("x:1",)), node("b", images=("mine:latest",))]
    row = service("a", image="mine", is_pullable=False)
    assert targets(plan(fleet(nodes, [row], [profile("a", 1)]), SPEC, "r")) == {"a": "b"}
    made = plan(fleet(nodes[:1], [row], [profile("a", 1)]), SPEC, "r")
    assert codes(made) == {"a": "no_image"}


def test_a_port_of_a_host_is_bound_once() -> None:
    held = service("held", node="a", generation="young", ports=("tcp/80",))
    rows = [service("x", ports=("tcp/80", "udp/1")), service("y", ports=("udp/1",)), held]
    profiles = [profile("x", 9), profile("y", 8)]
    made = plan(fleet([node("a"), node("b")], rows, profiles), SPEC, "r")
    assert targets(made) == {"x": "b", "y": "a"}
    made = plan(fleet([node("a")], rows, profiles), SPEC, "r")
    assert targets(made) == {"y": "a"}
    assert codes(made) == {"x": "no_room"}
    assert "a has port tcp/80 taken" in made.kept[0].reason


def test_a_port_is_bound_too_where_a_move_brings_who_binds_it() -> None:
    coming = service("held", node="o", generation="young", ports=("tcp/80",), arriving="b")
    known = [profile("x", 1)]
    made = plan(fleet([node("b")], [service("x", ports=("tcp/80",)), coming], known), SPEC, "r")
    assert "b has port tcp/80 taken" in made.kept[0].reason
    queued = dataclasses.replace(coming, arriving="")
    made = plan(fleet([node("b")], [service("x", ports=("tcp/80",)), queued], known), SPEC, "r")
    assert targets(made) == {"x": "b"}


@pytest.mark.parametrize(
    ("changed", "code", "words"),
    [
        ({"state": "stopped"}, "not_running", "stopped"),
        ({"state": "moving"}, "not_running", "moving"),
        ({"barred_code": "bind_mount", "barred": "it has one"}, "bind_mount", "it has one"),
        ({"since_us": NOW_US - 59 * US}, "too_young", "59 s of the 60 s"),
        ({"min_age_us": 101 * US}, "too_young", "100 s of the 101 s"),
        ({"moved_us": NOW_US - 299 * US}, "cooldown", "299 s ago; 300 s"),
    ],
)
def test_who_may_not_move(changed: dict[str, object], code: str, words: str) -> None:
    made = plan(fleet([node("n")], [service("a", **changed)], [profile("a", 1)]), SPEC, "run")
    assert codes(made) == {"a": code}
    assert words in made.kept[0].reason


@pytest.mark.parametrize(
    "changed",
    [
        {"min_age_us": 0, "since_us": NOW_US},
        {"migrate": "restart"},
        {"moved_us": NOW_US - 300 * US},
        {"since_us": NOW_US - 60 * US},
    ],
)
def test_who_may_move(changed: dict[str, object]) -> None:
    made = plan(fleet([node("n")], [service("a", **changed)], [profile("a", 1)]), SPEC, "run")
    assert targets(made) == {"a": "n"}


def test_too_few_samples_is_never_a_guess() -> None:
    made = plan(
        fleet([node("n")], [service("a"), service("b")], [profile("a", 1, samples=2)]), SPEC, "run"
    )
    assert codes(made) == {"a": "too_few_samples", "b": "too_few_samples"}
    assert made.kept[0].reason == "2 samples of the 3 required"
    assert made.kept[1].reason == "0 samples of the 3 required"


def test_other_generations_are_no_business_of_the_cycle() -> None:
    made = plan(
        fleet([node("n")], [service("a", generation="young")], [profile("a", 1)]), SPEC, "run"
    )
    assert (made.moves, made.kept) == ((), ())


def test_the_limit_of_moves_keeps_the_smaller() -> None:
    few = dataclasses.replace(SPEC, max_moves=1)
    made = plan(
        fleet([node("n")], [service("a"), service("b")], [profile("a", 1), profile("b", 2)]),
        few,
        "run",
    )
    assert targets(made) == {"b": "n"}
    assert codes(made) == {"a": "move_limit"}


def test_no_node_in_the_target_generation() -> None:
    made = plan(
        fleet([node("n", generation="tenured")], [service("a")], [profile("a", 1)]), SPEC, "run"
    )
    assert codes(made) == {"a": "no_node"}


AMOUNTS = st.builds(
    Resources,
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.sampled_from([0, 0, 500, 1000]),
    st.sampled_from([0, 0, 500, 1000]),
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    nodes = []
    for number in range(draw(st.integers(0, 5))):
        capacity = draw(AMOUNTS)
        nodes.append(
            NodeView(
                f"n{number}",
                draw(st.sampled_from(["young", "nursery"])),
                capacity,
                capacity - draw(AMOUNTS).scaled(0.5),  # may be negative: overcommitted
                is_on=draw(st.booleans()),
                is_schedulable=draw(st.integers(0, 3)) > 0,
                is_switchable=draw(st.booleans()),
                peak_w=draw(st.sampled_from([0.0, 100.0, 200.0])),
            )
        )
    services, profiles = [], []
    for number in range(draw(st.integers(0, 8))):
        name = f"s{number}"
        services.append(
            service(
                name,
                node=draw(st.sampled_from(["n0", "n1", "elsewhere"])),
                generation=draw(st.sampled_from(["nursery", "nursery", "young"])),
                state=draw(st.sampled_from(["running", "running", "running", "exited"])),
                since_us=NOW_US - draw(st.sampled_from([1, 100])) * US,
                reserved=draw(AMOUNTS).scaled(0.3),
            )
        )
        if draw(st.integers(0, 4)):
            use = draw(AMOUNTS).scaled(0.4)
            profiles.append(Profile(name, use, draw(st.sampled_from([1, 9])), US))
    return fleet(nodes, services, profiles)


@settings(deadline=None)  # the machine may be busy
@given(snapshots(), st.randoms(use_true_random=False))
def test_the_same_whatever_the_order(snapshot: Snapshot, rng: random.Random) -> None:
    shuffled = dataclasses.replace(
        snapshot,
        nodes=tuple(rng.sample(snapshot.nodes, len(snapshot.nodes))),
        services=tuple(rng.sample(snapshot.services, len(snapshot.services))),
        profiles=tuple(rng.sample(snapshot.profiles, len(snapshot.profiles))),
    )
    assert plan(shuffled, SPEC, "run") == plan(snapshot, SPEC, "run")


@settings(deadline=None)  # the machine may be busy
@given(snapshots())
def test_never_more_than_fits_and_everyone_is_told(snapshot: Snapshot) -> None:
    spec = dataclasses.replace(SPEC, headroom=1.2, max_moves=5)
    made = plan(snapshot, spec, "run")
    rows = {row.id: row for row in snapshot.services}
    profiles = {row.container: row for row in snapshot.profiles}
    for view in snapshot.nodes:
        placed = [rows[move.container] for move in made.moves if move.target == view.name]
        if not placed:
            continue
        assert view.generation == "young"
        assert view.is_schedulable
        assert view.is_on or view.is_switchable
        used = total(profiles[row.id].p90.scaled(1.2) for row in placed)
        reserved = total(row.reserved for row in placed)
        assert not exhausted(used, view.free, view.capacity)
        assert not exhausted(reserved, view.free, view.capacity)
        assert view.name not in {row.node for row in placed}
    told = [move.container for move in made.moves] + [kept.container for kept in made.kept]
    assert sorted(told) == sorted(
        row.id for row in snapshot.services if row.generation == "nursery"
    )
    assert len(made.moves) <= 5
    assert all(kept.code and kept.reason for kept in made.kept)


@settings(deadline=None)  # the machine may be busy
@given(snapshots())
def test_no_room_is_true(snapshot: Snapshot) -> None:
    """Who is kept for want of room fits no usable node after the moves of the plan."""
    made = plan(snapshot, SPEC, "run")
    rows = {row.id: row for row in snapshot.services}
    profiles = {row.container: row for row in snapshot.profiles}

    def need(name: str) -> Resources:
        pairs = zip(profiles[name].p90.values(), rows[name].reserved.values(), strict=True)
        return Resources(*(max(pair) for pair in pairs))

    for kept in made.kept:
        if kept.code != "no_room":
            continue
        for view in snapshot.nodes:
            is_usable = view.is_schedulable and (view.is_on or view.is_switchable)
            if (
                view.generation != "young"
                or not is_usable
                or view.name == rows[kept.container].node
            ):
                continue
            larger_first = total(
                need(move.container) for move in made.moves if move.target == view.name
            )
            assert exhausted(need(kept.container), view.free - larger_first, view.capacity)


@settings(deadline=None)  # the machine may be busy
@given(snapshots())
def test_a_snapshot_travels_as_json(snapshot: Snapshot) -> None:
    text = json.dumps(snapshot_to_json(snapshot))
    assert snapshot_from_json(json.loads(text)) == snapshot


def test_a_plan_is_json_and_a_wrong_snapshot_is_refused() -> None:
    made = plan(fleet([node("n")], [service("a")], [profile("a", 1)]), SPEC, "run")
    data = json.loads(json.dumps(plan_to_json(made)))
    assert data["moves"][0]["container"] == "a"
    assert set(data) == {"run_id", "generation", "revision", "expires_us", "moves", "kept", "nodes"}
    with pytest.raises(InvalidInput, match="not a snapshot"):
        snapshot_from_json({"revision": "x"})
