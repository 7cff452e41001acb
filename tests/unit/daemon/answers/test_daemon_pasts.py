"""Pasts of nodes for a worker: what is asked of the store, and how often."""

from __future__ import annotations

from typing import Any

from tenure.daemon.answers.pasts import Pasts
from tenure.model.units import HOUR_US
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.store import HISTORY_US, Whose
from tenure.profiling.profiles.histories import on_grid
from tenure.profiling.readings.sample import UseSeries
from tests.unit.core.bench import Bench, node


class Counting(EmbeddedStats):
    """A store that counts what it is asked for; of containers named in ``whole`` all is known."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.whole: set[str] = set()

    async def history(self, whose: Whose, name: str, since_us: int, until_us: int) -> UseSeries:
        self.asked.append((whose, name))
        times = range(since_us, until_us if name in self.whole else since_us, HISTORY_US)
        return on_grid([(at_us, 1, 1) for at_us in times], (since_us, until_us), HISTORY_US)


def fleet() -> tuple[Bench, list[Any]]:
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    for name in ("a", "b"):
        bench.connect(name)
    made = [bench.create(name) for name in ("web", "db")]
    return bench, [bench.tables.services[one.id] for one in made]


async def test_an_apps_past_is_read_once_for_a_span_and_only_where_it_is_lacking() -> None:
    bench, (web, db) = fleet()
    assert (web.node, db.node) == ("a", "b")
    store = Counting()
    store.whole.add(db.id)
    pasts = bench.read(Pasts, store)
    span = (0, 24 * HOUR_US)
    first: Any = await pasts.usage_of("a", span)
    assert [one["id"] for one in first["containers"].values] == [web.id]
    assert store.asked == [("rest", "a"), ("container", web.id), ("app", "web")]
    await pasts.usage_of("b", span)
    assert store.asked[3:] == [("rest", "b"), ("container", db.id)]
    await pasts.usage_of("a", span)
    assert ("app", "web") not in store.asked[5:]
    await pasts.usage_of("a", (0, 25 * HOUR_US))
    assert store.asked[-1] == ("app", "web")
