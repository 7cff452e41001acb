"""Containers that may be on some nodes alone, or are shared out over racks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenure.core.capacity import room
from tenure.core.capacity.destinations import Destination, Destinations, NoDestination
from tenure.model.container import ContainerState, Service
from tenure.model.errors import Problem
from tenure.model.events import NodeLost
from tenure.model.job import Constraint
from tests.unit.core.bench import Bench, node

NOT_A = (Constraint("name", "!=", ("a",)),)


def bench_of(*racks: str) -> Bench:
    """Return a bench with a node a, b, c and so on in each of these racks."""
    names = "abcdefgh"[: len(racks)]
    bench = Bench(*(node(n, "nursery", rack=r) for n, r in zip(names, racks, strict=True)))
    for name in names:
        bench.connect(name)
    return bench


def create(bench: Bench, name: str, limits: Sequence[Constraint] = (), **more: Any) -> Any:
    return bench.create(name, options={"constraints": tuple(limits), **more})


def nodes_of(bench: Bench) -> list[str]:
    return [service.node for service in bench.tables.services.values()]


def test_it_is_placed_where_its_constraints_allow_and_waits_while_there_is_no_room() -> None:
    bench = bench_of("r1", "r1")
    for i in range(5):  # a node has room for four
        create(bench, f"w{i}", NOT_A)
    assert nodes_of(bench) == ["b"] * 4 + [""]
    last = next(s for s in bench.tables.services.values() if s.name == "w4")
    assert last.state is ContainerState.WAITING


def test_constraints_that_no_node_satisfies_are_refused_with_their_name() -> None:
    bench = bench_of("r1")
    refused = create(bench, "w", NOT_A)
    assert isinstance(refused, Problem)
    assert refused.code == "never_fits"
    assert refused.fields[0].path == "tenure.constraints"


def test_they_hold_for_moves_and_drains_too() -> None:
    bench = bench_of("r1", "r1", "r2")
    service: Service = create(bench, "w", (Constraint("rack", "in", ("r1",)),))
    here = bench.tables.services[service.id].node
    there = "b" if here == "a" else "a"
    nodes = bench.tables.nodes
    codes = {name: bench.read(room.drop_for, service, nodes[name]) for name in "abc"}
    assert codes == {"a": "", "b": "", "c": "constraint"}
    found = bench.read(Destinations, here).find(service, "nursery", ())
    assert found == Destination(there, 1)
    bench.say(NodeLost(at_us=0, node=there))
    nowhere = bench.read(Destinations, here).find(service, "nursery", ())
    assert isinstance(nowhere, NoDestination)
    assert dict(nowhere.told)["c"] == "constraint"


def test_an_app_is_shared_out_over_racks_as_long_as_they_have_room() -> None:
    bench = bench_of("r1", "r1", "r1", "r2")
    made = [create(bench, f"w{i}", spread="rack", app="web") for i in range(6)]
    racks = [bench.tables.nodes[bench.tables.services[s.id].node].spec.rack for s in made]
    assert sorted(racks) == ["r1"] * 3 + ["r2"] * 3
    for i in range(6, 12):  # r2 is full after one more
        create(bench, f"w{i}", spread="rack", app="web")
    assert nodes_of(bench).count("d") == 4
    assert "" not in nodes_of(bench)
