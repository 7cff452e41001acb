"""The record of energy on a real file: sums, windows, wider buckets, forgetting, a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenure.model.energy import Metered, Use
from tenure.model.units import HOUR_US, US
from tenure.profiling.io.store import StatsUnavailable
from tenure.profiling.io.uses import DAY_US, MOST, TIERS, UseStore

START = 20_000 * DAY_US
SPAN = 30 * US
NODES = ("n", "m")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[UseStore]:
    opened = await UseStore.open(tmp_path / "uses.db")
    yield opened
    await opened.close()


def use(at_us: int, container: str = "c", node: str = "n") -> Use:
    """A core in use for ``SPAN`` before a moment, half a core reserved."""
    return Use(node, container, at_us - SPAN, at_us, SPAN, 500 * SPAN)


async def sums(store: UseStore, since_us: int = 0, until_us: int = 2 * START) -> tuple[int, ...]:
    record = await store.read(since_us, until_us, NODES)
    found = [use for rows in record.uses.values() for use in rows]
    return sum(use.cpu_us for use in found), sum(use.reserved_us for use in found), len(found)


async def test_samples_of_one_bucket_are_one_row(store: UseStore) -> None:
    await store.add([use(START + k * SPAN) for k in range(1, 11)])  # five minutes
    await store.add(
        [use(START + 11 * SPAN), use(START + 2 * SPAN, "d"), use(START + SPAN, node="m")]
    )
    record = await store.read(START, START + HOUR_US, NODES)
    first = Use("n", "c", START, START + 10 * SPAN, 10 * SPAN, 5000 * SPAN)
    assert set(record.uses["n"]) == {first, use(START + 11 * SPAN), use(START + 2 * SPAN, "d")}
    assert record.uses["m"] == [use(START + SPAN, node="m")]


async def test_only_the_nodes_that_are_asked_for_are_read(store: UseStore) -> None:
    """A large fleet's record is read some nodes at a time: all of it is hundreds of megabytes."""
    added = [use(START + SPAN), use(START + SPAN, node="m"), use(START + SPAN, node="o'brien\"")]
    await store.add(added, [Metered(one.node, one.begin_us, one.end_us, 1) for one in added])
    for one in added:
        record = await store.read(START, START + HOUR_US, [one.node])
        assert record.uses == {one.node: [one]}
        assert list(record.metered) == [one.node]
    assert (await store.read(START, START + HOUR_US, ())).uses == {}


async def test_only_what_touches_the_window_is_read(store: UseStore) -> None:
    await store.add([use(START + k * 10 * SPAN) for k in range(1, 5)])
    touched = [
        (START + 15 * SPAN, START + 19 * SPAN, 0),
        (START + 15 * SPAN, START + 19 * SPAN + 1, 1),
        (START + 20 * SPAN, START + 29 * SPAN, 0),
        (START + 20 * SPAN - 1, START + 29 * SPAN, 1),
        (START, START + HOUR_US, 4),
    ]
    for since, until, count in touched:
        assert (await sums(store, since, until))[2] == count


async def test_uses_reach_as_far_as_a_measurement_that_is_cut(store: UseStore) -> None:
    await store.add(
        [use(START + 2 * SPAN), use(START + 20 * SPAN), use(START + 60 * SPAN)],
        [Metered("n", START, START + 25 * SPAN, 1000)],
    )
    record = await store.read(START + 10 * SPAN, START + 11 * SPAN, NODES)
    assert record.metered == {"n": [Metered("n", START, START + 25 * SPAN, 1000)]}
    assert set(record.uses["n"]) == {use(START + 2 * SPAN), use(START + 20 * SPAN)}


async def test_old_buckets_are_merged_and_lose_nothing(store: UseStore) -> None:
    spans = [START + k * 10 * SPAN for k in range(1, 24 * 12 + 1)]  # each five minutes of a day
    for at in spans:
        await store.add([use(at), use(at, "")], [Metered("n", at - SPAN, at, 7)])
    before = await sums(store)
    (fine_us, fine_kept), (hour_us, hour_kept), (day_us, day_kept) = TIERS
    counts = []
    for age_us in (fine_kept + hour_us + DAY_US, hour_kept + day_us + DAY_US):
        for _ in range(40):
            await store.prune(START + age_us)
        assert (await sums(store))[:2] == before[:2]
        counts.append((await sums(store))[2])
    assert counts == [2 * 24, 2], "by the hour, then by the day"
    metered = (await store.read(0, 2 * START, NODES)).metered["n"]
    assert sum(m.energy_uj for m in metered) == 7 * len(spans)
    assert fine_us < hour_us
    for _ in range(3):
        await store.prune(START + day_kept + 2 * DAY_US)
    assert (await sums(store))[2] == 0


async def test_late_samples_join_what_was_merged(store: UseStore) -> None:
    await store.add([use(START + SPAN)])
    now = START + TIERS[0][1] + 2 * HOUR_US
    await store.prune(now)
    await store.add([use(START + 2 * SPAN)])
    await store.prune(now)
    record = await store.read(START, START + HOUR_US, NODES)
    assert record.uses["n"] == [Use("n", "c", START, START + 2 * SPAN, 2 * SPAN, 1000 * SPAN)]


async def test_it_is_there_after_a_restart_and_says_when_it_is_closed(tmp_path: Path) -> None:
    store = await UseStore.open(tmp_path / "uses.db")
    await store.add([use(START)])
    await store.close()
    await store.close()
    with pytest.raises(StatsUnavailable):
        await store.read(0, START, NODES)
    again = await UseStore.open(tmp_path / "uses.db")
    assert await sums(again) == (SPAN, 500 * SPAN, 1)
    await again.close()


async def test_amounts_beyond_sense_stay_whole_numbers(store: UseStore) -> None:
    """What an agent or an engine made up neither stops the record nor makes its sums inexact."""
    much = 1 << 70
    for k in range(1, 13):
        at = START + k * 10 * SPAN
        for _ in range(3):
            row = Use("n", "c", at - SPAN, at, much, much)
            await store.add([row, use(at, "d")], [Metered("n", at - SPAN, at, much)])
    for _ in range(3):
        await store.prune(START + 40 * DAY_US)
    record = await store.read(START, START + HOUR_US, NODES)
    (made,) = (use for use in record.uses["n"] if use.container == "c")
    (metered,) = record.metered["n"]
    assert (made.cpu_us, made.reserved_us, metered.energy_uj) == (MOST, MOST, MOST)
    (other,) = (use for use in record.uses["n"] if use.container == "d")
    assert other.cpu_us == 36 * SPAN
