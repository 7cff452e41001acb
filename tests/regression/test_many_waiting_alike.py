"""Hundreds of containers that waited for the same room were each tried at every change of it."""

from __future__ import annotations

from typing import Any

from tenure.core.services.services import NO_ROOM
from tenure.model.events import UsageObserved
from tests.unit.core.bench import SIZE, SMALL, Bench, node

FIT = SIZE.cpu_m // SMALL.cpu_m


def crowded() -> tuple[Bench, list[str]]:
    """Return a bench on which twenty containers wait, and the list of what its policy was asked."""
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    for i in range(FIT + 20):
        bench.create(f"s{i:02}")
    asked: list[str] = []
    place = bench.placer.spread

    def counted(policy: str, view: Any, ask: Any, seed: int) -> str | None:
        asked.append(ask.id)
        return place(policy, view, ask, seed)

    bench.placer.spread = counted  # type: ignore[method-assign]
    return bench, asked


def test_of_those_alike_one_is_tried() -> None:
    bench, asked = crowded()
    bench.say(UsageObserved(at_us=0))
    assert len(asked) == 1


def test_all_that_fit_are_placed_when_there_is_room() -> None:
    bench, _ = crowded()
    bench.configure(node("a", "nursery"), node("b", "nursery"))
    bench.connect("b")
    assert sum(s.node == "b" for s in bench.tables.services.values()) == FIT
    waiting = [s for s in bench.tables.services.values() if s.reason == NO_ROOM]
    assert len(waiting) == 20 - FIT
