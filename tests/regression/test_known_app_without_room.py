"""A container of a known app waited for a full generation while the nursery had room."""

from __future__ import annotations

from typing import Any

from tenure.core.capacity import room
from tenure.model.container import Profile
from tenure.model.events import Configured, CreateService, UsageObserved
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.bench import IMAGE, SIZE, SMALL, Bench, node


def create(bench: Bench, name: str, need: Resources, **more: Any) -> Any:
    command = CreateService(
        at_us=0,
        request=name,
        container=f"{name:0>64}",
        name=name,
        app=name,
        body={"Image": IMAGE},
        request_resources=need,
        **more,
    )
    return bench._reply(bench.say(command))


NODES = (node("n", "nursery"), node("y", "young"))


def fleet() -> Bench:
    bench = Bench(*NODES)
    bench.connect("n")
    bench.connect("y")
    return bench


def test_a_known_app_skips_the_nursery_while_there_is_room() -> None:
    bench = fleet()
    assert create(bench, "a", SMALL, known=SMALL).generation == "young"


def test_without_room_it_starts_in_the_nursery() -> None:
    bench = fleet()
    create(bench, "full", SIZE, generation="young")
    service = create(bench, "a", SMALL, known=SMALL)
    assert service.generation == "nursery"
    assert bench.tables.services[service.id].node == "n"


def test_a_generation_that_was_asked_for_is_waited_for() -> None:
    bench = fleet()
    create(bench, "full", SIZE, generation="young")
    service = create(bench, "a", SMALL, generation="young", known=SMALL)
    assert (service.generation, bench.tables.services[service.id].node) == ("young", "")


def test_it_does_not_wait_for_a_boot_while_the_nursery_is_on() -> None:
    bench = Bench(node("n", "nursery"), node("y", "young", driver="command"))
    bench.connect("n")
    service = create(bench, "a", SMALL, known=SMALL)
    assert service.generation == "nursery"


def test_limitless_containers_of_a_known_app_count_for_what_it_uses() -> None:
    """Eight of them went to one node of two cores, whose free CPU stayed as it was."""
    bench = fleet()
    bench.say(Configured(at_us=0, nodes=(*NODES, node("z", "tenured")), cycles=()))
    bench.connect("z")
    used = Resources(SIZE.cpu_m // 4, 16 * MIB)
    made = [create(bench, f"{i}a", Resources(), known=used) for i in range(10)]
    places = [bench.tables.services[one.id].node for one in made]
    # with headroom three of a quarter fit a node, also where the nursery has none left
    assert {name: places.count(name) for name in ("n", "y", "z", "")} == {
        "n": 3,
        "y": 3,
        "z": 3,
        "": 1,
    }
    left = SIZE - Resources(SIZE.cpu_m * 33 // 40, 3 * 18454938)
    assert all(
        bench.read(room.free_on, bench.tables.nodes[name]) == left for name in ("n", "y", "z")
    )


def test_the_named_generation_counts_it_too_and_its_own_profile_takes_over() -> None:
    bench = fleet()
    used = Resources(1000, 10 * MIB)
    service = create(bench, "a", SMALL, generation="young", known=used)
    free = bench.read(room.free_on, bench.tables.nodes["y"])
    assert SIZE.cpu_m - free.cpu_m == 1100
    assert SIZE.memory_bytes - free.memory_bytes == max(SMALL.memory_bytes, 11 * MIB)
    own = Profile(service.id, Resources(650, 10 * MIB), 10, 60 * US)
    bench.say(UsageObserved(at_us=0, profiles=(own,)))
    free = bench.read(room.free_on, bench.tables.nodes["y"])
    assert SIZE.cpu_m - free.cpu_m == own.p90.scaled(1.1).cpu_m < 1100


def test_an_app_that_uses_more_than_any_node_has_counts_by_what_it_asks() -> None:
    bench = fleet()
    bench.say(UsageObserved(at_us=0, foreign={"n": SMALL, "y": SMALL}))
    service = create(bench, "a", SMALL, known=SIZE)
    assert service.known is None
    assert bench.tables.services[service.id].node, "it waited for a node with nothing beside"
