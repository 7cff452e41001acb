"""Relief of overloaded nodes: one plan, and many in a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.cycles.planner import plan
from tenure.cycles.relief import CALM
from tenure.cycles.snapshot import NodeView, ServiceView, Snapshot
from tenure.model.plan import STRAINED, CycleSpec, Plan
from tenure.model.resources import Resources, exhausted, total
from tenure.model.units import MIB, US
from tests.unit.cycles.fleets import GIB, NOW_US, SPEC, node, profile, service

EVERY_US = 600 * US
COOLDOWN_US = 300 * US
CORES = Resources(4000, 8 * GIB)
#: The runs before found them overloaded.
LATELY = {SPEC.name: {f"n{i}": (1,) for i in range(9)}}


def use(cpu_m: int, memory_mib: int = 100) -> Resources:
    return Resources(cpu_m, memory_mib * MIB)


def seen(
    placed: Mapping[str, Mapping[str, Resources]],
    *,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    services: Mapping[str, Mapping[str, Any]] | None = None,
    **changed: Any,
) -> Snapshot:
    """Return nodes with the containers on each and their use, counted without headroom."""
    views = [
        node(name, CORES, **{"free": CORES - total(rows.values()), **((nodes or {}).get(name, {}))})
        for name, rows in placed.items()
    ]
    rows = [
        service(key, node=name, generation="young", **((services or {}).get(key, {})))
        for name, keys in placed.items()
        for key in keys
    ]
    profiles = [profile(key, one) for keys in placed.values() for key, one in keys.items()]
    made = Snapshot(1, NOW_US, COOLDOWN_US, tuple(views), tuple(rows), tuple(profiles))
    return dataclasses.replace(made, **{"strains": LATELY, **changed})


def moves_of(made: Plan) -> dict[str, str]:
    return {move.container: move.target for move in made.moves}


def notes_of(made: Plan) -> dict[str, str]:
    return {note.node: note.code for note in made.nodes}


HEAVY = {"n1": {"a": use(2500), "b": use(1200), "c": use(900)}, "n2": {"d": use(500)}}


def test_an_overloaded_node_sheds_the_one_that_is_enough() -> None:
    made = plan(seen(HEAVY), SPEC, "run")
    # 600 above, to 3600: 1000 must go; b frees it, and c, which is less, does not
    assert moves_of(made) == {"b": "n2"}
    assert notes_of(made) == {"n1": "relieved"}
    assert made.moves[0].reason.startswith("relief: needs 1.200 cores")


def test_of_those_that_are_enough_the_one_with_least_memory_goes() -> None:
    rows = {"a": use(2300, 1000), "b": use(1200, 4000), "c": use(1200, 50)}
    made = plan(seen({"n1": rows, "n2": {"d": use(500)}}), SPEC, "run")
    assert moves_of(made) == {"c": "n2"}


def test_it_waits_until_runs_in_a_row_found_it_so() -> None:
    for ages, moved in (((), False), ((2, 3), False), ((1,), True), ((1, 2), True)):
        made = plan(seen(HEAVY, strains={SPEC.name: {"n1": ages}}), SPEC, "run")
        assert bool(made.moves) == moved
        assert notes_of(made) == {"n1": "relieved" if moved else "overloaded"}
    patient = dataclasses.replace(SPEC, relief_after=3)
    assert plan(seen(HEAVY), patient, "run").moves == ()
    assert plan(seen(HEAVY, strains={SPEC.name: {"n1": (1, 2)}}), patient, "run").moves != ()


def test_who_wants_none_has_none() -> None:
    made = plan(seen(HEAVY), dataclasses.replace(SPEC, relief_after=0), "run")
    assert (made.moves, made.nodes) == ((), ())
    assert plan(seen(HEAVY), dataclasses.replace(SPEC, relief_above=1.2), "run").moves == ()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"services": {k: {"moved_us": NOW_US - US} for k in "abc"}}, "was moved"),
        (
            {"services": {k: {"barred_code": "never", "barred": "its label"} for k in "abc"}},
            "label",
        ),
        ({"nodes": {"n2": {"is_on": False, "is_switchable": False}}}, "n2 is not on"),
        ({"nodes": {"n2": {"is_schedulable": False}}}, "n2 takes no new work"),
    ],
)
def test_what_cannot_be_relieved_says_why(changed: dict[str, Any], words: str) -> None:
    made = plan(seen(HEAVY, **changed), SPEC, "run")
    assert made.moves == ()
    (note,) = made.nodes
    assert (note.node, note.code) == ("n1", "overloaded")
    assert words in note.reason


def test_a_node_is_switched_on_where_no_other_has_room() -> None:
    off = {"nodes": {"n2": {"is_on": False}}}
    made = plan(seen(HEAVY, **off), SPEC, "run")
    assert moves_of(made) == {"b": "n2"}
    assert notes_of(made) == {"n1": "relieved", "n2": "started"}
    saving = dataclasses.replace(SPEC, escape="saving")
    assert notes_of(plan(seen(HEAVY, **off), saving, "run")) == {"n1": "overloaded"}


def test_a_run_makes_no_more_moves_than_it_may_and_relief_comes_first() -> None:
    rows = {f"s{i}": use(500) for i in range(12)}
    snapshot = seen({"n1": rows, "n2": {}})
    young = service("new", since_us=0)
    snapshot = dataclasses.replace(
        snapshot,
        services=(*snapshot.services, young),
        profiles=(*snapshot.profiles, profile("new", use(100))),
    )
    made = plan(snapshot, dataclasses.replace(SPEC, max_moves=2), "run")
    assert [move.source for move in made.moves] == ["n1", "n1"]
    assert "not relieved by 2 moves; this run moves no more than 2" in made.nodes[0].reason
    assert [kept.code for kept in made.kept] == ["move_limit"]


def test_memory_alone_is_freed_where_memory_is_short() -> None:
    rows = {"cpu": use(3000, 100), "mem": use(100, 5000), "both": use(100, 4000)}
    made = plan(seen({"n1": rows, "n2": {"d": use(100)}}), SPEC, "run")
    assert moves_of(made) == {"both": "n2"}


def test_present_use_that_no_profile_tells_of_has_room_wherever_it_goes() -> None:
    """Who has grown is not known: so whoever it is, its new node is not the next."""
    calm = {"n1": {"a": use(1000), "b": use(700)}, "n2": {"d": use(1800)}, "n3": {}}
    busy = {"n1": {"used": use(3900)}, "n2": {"used": use(1800)}}
    made = plan(seen(calm, nodes=busy), SPEC, "run")
    assert moves_of(made) == {"b": "n3"}  # 700 and the 2200 nobody knows: too much beside d
    assert plan(seen({**calm, "n3": {"e": use(800)}}, nodes=busy), SPEC, "run").moves == ()


def test_what_owners_do_not_use_up_is_no_overload() -> None:
    """Harvest tasks are in no measure of owners: they yield, nobody moves for them."""
    calm = {"n1": {"a": use(2000), "b": use(1500)}, "n2": {"d": use(500)}}
    made = plan(seen(calm, nodes={"n1": {"used": use(3700)}}), SPEC, "run")
    assert (made.moves, made.nodes) == ((), ())


def test_a_node_that_was_overloaded_lately_takes_no_part_in_consolidation() -> None:
    spec = dataclasses.replace(SPEC, is_consolidating=True)
    placed = {"n1": {"a": use(2000)}, "n2": {"b": use(500)}}
    for ages, moved in (((), {"b": "n1"}), ((6,), {})):
        made = plan(seen(placed, strains={SPEC.name: {"n1": ages} if ages else {}}), spec, "run")
        assert moves_of(made) == moved


# many runs


class Fleet:
    """A generation over many runs of its cycle, whose moves are carried out."""

    def __init__(self, places: dict[str, str], capacity: dict[str, Resources]) -> None:
        self.places = places
        self.capacity = capacity
        self.now_us = NOW_US
        self.moved_us: dict[str, int] = {}
        self.runs: list[set[str]] = []

    def snapshot(self, uses: Mapping[str, Resources]) -> Snapshot:
        ages = {
            name: tuple(age for age, run in enumerate(reversed(self.runs), 1) if name in run)
            for name in self.capacity
        }
        return Snapshot(
            1,
            self.now_us,
            COOLDOWN_US,
            tuple(self._node(name, uses) for name in self.capacity),
            tuple(self._service(key) for key in self.places),
            tuple(profile(key, one) for key, one in uses.items()),
            strains={SPEC.name: {name: found for name, found in ages.items() if found}},
        )

    def _node(self, name: str, uses: Mapping[str, Resources]) -> NodeView:
        held = total(uses[key] for key, at in self.places.items() if at == name)
        return node(name, self.capacity[name], free=self.capacity[name] - held, is_switchable=False)

    def _service(self, key: str) -> ServiceView:
        moved_us = self.moved_us.get(key)
        return service(key, node=self.places[key], generation="young", moved_us=moved_us)

    def overloaded(self, uses: Mapping[str, Resources]) -> set[str]:
        views = (self._node(name, uses) for name in self.capacity)
        return {view.name for view in views if min(view.free.values()) < 0}

    def run(self, uses: Mapping[str, Resources], spec: CycleSpec = SPEC) -> Plan:
        """Have one run of the cycle, after which its moves are done; it keeps to the laws."""
        before = self.overloaded(uses)
        made = plan(self.snapshot(uses), spec, "run")
        noted = {note.node: note for note in made.nodes if note.code in STRAINED}
        assert set(noted) == before
        for move in made.moves:
            assert self.now_us >= self.moved_us.get(move.container, 0) + COOLDOWN_US
            assert move.source in before
            assert move.target not in before
            self.places[move.container] = move.target
            self.moved_us[move.container] = self.now_us
        after = self.overloaded(uses)
        assert after <= before
        for name in {move.target for move in made.moves}:
            held = self._node(name, uses)
            assert exhausted(held.capacity - held.free, held.capacity.scaled(CALM), CORES) == ()
        for name in after:
            assert noted[name].code == "overloaded" or "not relieved" in noted[name].reason
        self.runs.append(before)
        self.now_us += EVERY_US
        return made


CPU = st.integers(50, 1500)
MEMORY = st.integers(50, 3000)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Fleet, dict[str, Resources]]:
    names = [f"n{i}" for i in range(draw(st.integers(2, 5)))]
    sizes = st.builds(use, st.sampled_from((2000, 4000)), st.sampled_from((4096, 8192)))
    capacity = {name: draw(sizes) for name in names}
    keys = [f"s{i:02}" for i in range(draw(st.integers(1, 14)))]
    uses = {key: use(draw(CPU), draw(MEMORY)) for key in keys}
    return Fleet({key: draw(st.sampled_from(names)) for key in keys}, capacity), uses


@settings(max_examples=150, deadline=None)
@given(fleets())
def test_with_constant_use_it_ends_and_nobody_moves_twice(
    drawn: tuple[Fleet, dict[str, Resources]],
) -> None:
    fleet, uses = drawn
    moved: list[str] = []
    for _ in range(6):
        moved += [move.container for move in fleet.run(uses).moves]
    assert len(moved) == len(set(moved))
    assert fleet.run(uses).moves == ()


@settings(max_examples=60, deadline=None)
@given(fleets(), st.data())
def test_with_changing_use_it_keeps_to_its_laws(
    drawn: tuple[Fleet, dict[str, Resources]], data: st.DataObject
) -> None:
    fleet, uses = drawn
    for _ in range(8):
        key = data.draw(st.sampled_from(sorted(uses)))
        uses[key] = use(data.draw(CPU), data.draw(MEMORY))
        fleet.run(uses)


def test_use_that_comes_and_goes_moves_nothing() -> None:
    fleet = Fleet({"a": "n1", "b": "n1", "c": "n2"}, {"n1": CORES, "n2": CORES})
    for turn in range(12):
        uses = {"a": use(2500), "b": use(1800 if turn % 2 else 1200), "c": use(500)}
        assert fleet.run(uses).moves == ()
