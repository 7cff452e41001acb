"""A container of a known app waited for a full generation while the nursery had room."""

from __future__ import annotations

from typing import Any

from tenure.model.events import CreateService
from tenure.model.resources import Resources
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


def fleet() -> Bench:
    bench = Bench(node("n", "nursery"), node("y", "young"))
    bench.connect("n")
    bench.connect("y")
    return bench


def test_a_known_app_skips_the_nursery_while_there_is_room() -> None:
    bench = fleet()
    assert create(bench, "a", SMALL, may_skip_to="young").generation == "young"


def test_without_room_it_starts_in_the_nursery() -> None:
    bench = fleet()
    create(bench, "full", SIZE, generation="young")
    service = create(bench, "a", SMALL, may_skip_to="young")
    assert service.generation == "nursery"
    assert bench.tables.services[service.id].node == "n"


def test_a_generation_that_was_asked_for_is_waited_for() -> None:
    bench = fleet()
    create(bench, "full", SIZE, generation="young")
    service = create(bench, "a", SMALL, generation="young", may_skip_to="tenured")
    assert (service.generation, bench.tables.services[service.id].node) == ("young", "")


def test_it_does_not_wait_for_a_boot_while_the_nursery_is_on() -> None:
    bench = Bench(node("n", "nursery"), node("y", "young", driver="command"))
    bench.connect("n")
    service = create(bench, "a", SMALL, may_skip_to="young")
    assert service.generation == "nursery"
