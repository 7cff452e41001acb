"""Histories for forecasts: what is noted of nodes beside our containers, and what is read back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US
from tenure.profiling.intake.intake import Intake, Target, regular_use
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.store import APP_CONTAINERS, HISTORY_US
from tenure.profiling.profiles.histories import on_grid
from tenure.profiling.readings.sample import Measured, NodeReading, Reading, Sample

ROWS = [Target("e1", "service", "c1", "app"), Target("e2", "foreign")]
FIVE = HISTORY_US
START_US = 500_000 * HOUR_US
NONE = Resources()


def reading(second: int, cpu_m: int, memory: int) -> Reading:
    at_us = second * US
    return Reading(at_us, at_us * cpu_m, memory, source="agent")


def whole(second: int) -> NodeReading:
    rows = {"e1": reading(second, 200, 10), "e2": reading(second, 100, 5)}
    return NodeReading(second, second * US, rows, reading(second, 900, 50))


# what is noted


def test_a_whole_node_leaves_a_remainder_less_what_the_machine_keeps() -> None:
    intake = Intake()
    intake.take_whole("n", ROWS, whole(1))
    assert intake.rests(lambda _: NONE) == []
    intake.take_whole("n", ROWS, whole(31))
    (row,) = intake.rests(lambda _: Resources(300, 20))
    assert (row.container, row.node, row.app) == ("", "n", "")
    assert row.sample == Sample(31 * US, 30 * US, Resources(400, 20), ("cpu_m", "memory_bytes"))
    assert intake.rests(lambda _: NONE) == []
    intake.take_whole("n", ROWS, whole(61))
    (row,) = intake.rests(lambda _: Resources(5000, 5000))
    assert row.sample.use == Resources(100, 5), "foreign containers are not the machine's own"


def test_without_an_agent_foreign_containers_are_the_remainder() -> None:
    intake = Intake()
    for second in (1, 31):
        intake.take("n", ROWS, {"e1": reading(second, 200, 10), "e2": reading(second, 100, 5)})
        intake.note_foreign("n", second * US)
    (row,) = intake.rests(lambda _: Resources(90, 1))
    assert row.sample.use == Resources(100, 5), "the reserve is kept for what no engine tells of"
    assert row.sample.span_us == 30 * US


def test_a_node_with_nothing_else_has_a_remainder_of_nothing() -> None:
    intake = Intake()
    for second in (1, 31):
        intake.take("n", ROWS[:1], {"e1": reading(second, 200, 10)})
        intake.note_foreign("n", second * US)
    (row,) = intake.rests(lambda _: NONE)
    assert row.sample.use == NONE


def test_a_remainder_is_not_told_of_a_time_that_nobody_saw() -> None:
    intake = Intake()
    intake.take("n", [], {})
    intake.note_foreign("n", US)
    intake.forget({})
    intake.take("n", [], {})
    intake.note_foreign("n", 31 * US)
    assert intake.rests(lambda _: NONE) == []


def test_regular_use_is_services_and_remainder_and_nothing_by_halves() -> None:
    rows = [*ROWS, Target("e3", "executor", "job/0", "job")]
    targets = {"n": rows, "m": rows, "gone": rows}

    def sample(node: str, container: str, cpu_m: int, at_s: int = 1) -> Measured:
        return Measured(container, node, "", Sample(at_s * US, US, Resources(cpu_m, 1)))

    measured = [sample("n", "c1", 7), sample("n", "job/0", 100), sample("m", "job/0", 100)]
    measured.append(sample("n", "c1", 9, at_s=2))
    rests = [sample("n", "", 30), sample("m", "", 30)]
    assert regular_use(targets, measured, rests) == {"n": Resources(39, 2)}


# what is read back


def test_rows_fall_on_their_buckets() -> None:
    rows = [(START_US + FIVE, 5.4, None), (START_US, None, 7.0), (START_US - FIVE, 1.0, 1.0)]
    found = on_grid(rows, (START_US + 1, START_US + 2 * FIVE + 1), FIVE)
    assert (found.start_us, found.cpu_m) == (START_US, (None, 5, None))
    assert found.memory_bytes == (7, None, None)
    assert on_grid(rows, (START_US, START_US), FIVE).cpu_m == ()
    assert on_grid(rows, (START_US, START_US - 1), FIVE).cpu_m == ()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EmbeddedStats]:
    opened = await EmbeddedStats.open(tmp_path / "stats.db")
    yield opened
    await opened.close()


def row(step: int, cpu_m: int, memory: int, container: str = "c", **more: str) -> Measured:
    words = {"node": "n", "app": "a"} | more
    use = Resources(cpu_m, memory)
    sample = Sample(START_US + step * 100 * US, 100 * US, use, ("cpu_m", "memory_bytes"))
    return Measured(container, words["node"], words["app"], sample)


async def test_a_containers_history_goes_on_where_it_moves(store: EmbeddedStats) -> None:
    here = [row(0, 10, 5), row(1, 30, 9), row(2, 50, 7), row(3, 8, 4)]
    there = [row(4, 8, 6, node="m"), row(5, 20, 2, node="m"), row(9, 1, 1, node="m")]
    await store.write([*here, *there])
    await store.prune(START_US + HOUR_US)
    found = await store.history("container", "c", START_US, START_US + 4 * FIVE)
    assert found.cpu_m == (30, 12, None, 1)
    assert found.memory_bytes == (9, 6, None, 1)
    assert (await store.history("container", "other", START_US, START_US + FIVE)).cpu_m == (None,)


async def test_an_apps_history_is_the_mean_of_its_latest_containers(store: EmbeddedStats) -> None:
    many = [row(0, 1000, 1000, container=f"old{n}") for n in range(3)]
    late = [row(3, 10 * n, n, container=f"new{n:02}") for n in range(APP_CONTAINERS)]
    await store.write([*many, *late, row(3, 500, 500, container="job/0")])
    await store.prune(START_US + HOUR_US)
    found = await store.history("app", "a", START_US, START_US + 2 * FIVE)
    assert found.cpu_m == (None, 75), "the oldest and the executor are left out"


async def test_remainders_have_a_history_and_no_profile(store: EmbeddedStats) -> None:
    rests = [row(n, n, 10 * n, container="", app="") for n in range(6)]
    other = [replace(one, node="m") for one in rests]
    await store.write([*rests, *other[:1]])
    await store.prune(START_US + HOUR_US)
    found = await store.history("rest", "n", START_US, START_US + 2 * FIVE)
    assert (found.cpu_m, found.memory_bytes) == ((1, 4), (20, 50))
    assert await store.profiles({"": START_US}, START_US + HOUR_US) == {}
    assert await store.app_profile("") is None


async def test_a_history_is_forgotten_with_the_roll_ups(store: EmbeddedStats) -> None:
    await store.write([row(0, 10, 5), row(0, 1, 1, container="", app="")])
    for _ in range(2):
        await store.prune(START_US + HOUR_US)
        await store.prune(START_US + 22 * 24 * HOUR_US)
    for whose, name in (("container", "c"), ("rest", "n"), ("app", "a")):
        found = await store.history(whose, name, START_US, START_US + FIVE)  # type: ignore[arg-type]
        assert found.cpu_m == (None,)
