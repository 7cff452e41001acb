"""From the pasts of containers and remainders to forecasts of nodes, and a cycle's work on them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tenure.harvest.forecast.fleet import (
    ContainerPast,
    NodePast,
    NodeRow,
    Past,
    forecasts_of,
    row_of,
)
from tenure.harvest.forecast.grid import DAY_S, STEP_S, Floats
from tenure.harvest.io.cycle import PAGE, PAST_DAYS, forecast_fleet
from tenure.model.errors import InvalidInput, NotFound
from tenure.model.forecast import ForecastOptions, ModelName, NodeForecast
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from testbed import bounded

NAN = np.nan
SIZE = Resources(1000, 100)
FIVE_S = 300
#: Quick, and still quantiles.
OPTIONS = ForecastOptions(model="linear")


def past(*cpu_m: float, memory: Sequence[float] | None = None) -> Past:
    cpu: Floats = np.array(cpu_m, dtype=np.float32)
    tenth: Floats = (cpu / 10).astype(np.float32)
    return Past(cpu, tenth if memory is None else np.array(memory, dtype=np.float32))


def node(*containers: ContainerPast, remainder: Past, **more: Any) -> NodePast:
    words: dict[str, Any] = {"capacity": SIZE, "start_s": 0, "step_s": STEP_S} | more
    return NodePast("n", remainder=remainder, containers=containers, **words)


def own(*cpu_m: float, request: int = 0, app: Past | None = None) -> ContainerPast:
    return ContainerPast("c", Resources(request, request), past(*cpu_m), app)


def test_a_node_is_its_containers_and_its_remainder_as_shares() -> None:
    made = row_of(node(own(100, 200), own(300, 300), remainder=past(50, 100)))
    assert made.use["cpu_m"].tolist() == pytest.approx([0.45, 0.6])
    assert made.use["memory_bytes"].tolist() == pytest.approx([0.45, 0.6])
    assert (made.start_s, made.containers) == (0, ("c", "c"))


def test_five_minutes_are_held_on_steps_of_three() -> None:
    made = row_of(node(remainder=past(100, 200, 300), step_s=FIVE_S))
    assert made.use["cpu_m"].tolist() == pytest.approx([0.1, 0.1, 0.2, 0.3, 0.3])


def test_short_gaps_are_bridged_and_the_nodes_own_unknown_time_stays_so() -> None:
    remainder = past(100, *[NAN] * 30)
    made = row_of(node(remainder=remainder)).use["cpu_m"]
    assert made[:21].tolist() == pytest.approx([0.1] * 21)
    assert np.isnan(made[21:]).all()


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (own(*[NAN] * 30, 300, app=past(*[50] * 31)), [0.05, 0.3]),  # what its app used
        (own(*[NAN] * 30, 300), [0.3, 0.3]),  # the most that it was seen to use
        (own(*[NAN] * 30, 300, request=700), [0.7, 0.3]),  # what it asked for
        (own(*[NAN] * 31, request=700), [0.7, 0.7]),
        (own(*[NAN] * 31), [NAN, NAN]),  # nothing at all is known
    ],
)
def test_what_is_not_known_of_a_container_is_taken_from_its_app_or_assumed(
    container: ContainerPast, expected: list[float]
) -> None:
    made = row_of(node(container, remainder=past(*[0] * 31))).use["cpu_m"]
    assert [made[0], made[-1]] == pytest.approx(expected, nan_ok=True)


def test_a_node_without_capacity_has_no_use() -> None:
    made = row_of(node(remainder=past(1, 1), capacity=Resources(0, 100)))
    assert np.isnan(made.use["cpu_m"]).all()
    assert np.isfinite(made.use["memory_bytes"]).all()


def wave(days: float, *, level: float = 300.0, seed: int = 0) -> Past:
    """A day's rhythm with noise, in buckets of 5 min, unknown before the last ``days``."""
    random = np.random.default_rng(seed)
    steps = 9 * DAY_S // FIVE_S
    turn = np.arange(steps) * 2 * np.pi * FIVE_S / DAY_S
    values: Floats = (level + 200 * np.sin(turn) + random.normal(0, 20, steps)).astype(np.float32)
    values[: int(steps - days * DAY_S / FIVE_S)] = NAN
    return Past(values, (values / 10).astype(np.float32))


def rows(*days: float) -> list[NodeRow]:
    return [
        row_of(
            replace(node(remainder=wave(known, seed=k), step_s=FIVE_S), node=f"n{k}", start_s=900)
        )
        for k, known in enumerate(days)
    ]


@pytest.fixture(scope="module")
def made() -> list[NodeForecast]:
    return forecasts_of(rows(9, 9, 1.5), OPTIONS)


def test_a_day_is_forecast_in_amounts_above_most_of_what_was_used(
    made: list[NodeForecast],
) -> None:
    first = made[0]
    assert (first.from_us, first.step_us) == ((900 + 9 * DAY_S) * US, 900 * US)
    assert (len(first.cpu_m), len(first.memory_bytes)) == (96, 96)
    assert first.until_us - first.from_us == DAY_S * US
    assert 450 < max(first.cpu_m) < 700
    assert min(first.cpu_m) < 0.75 * max(first.cpu_m), "nights are told from days"
    assert (first.history_days, first.why, first.quantile) == (7.0, "", 0.99)


def test_back_tests_say_how_good_forecasts_of_the_last_days_would_have_been(
    made: list[NodeForecast],
) -> None:
    for found in (made[0].cpu, made[0].memory):
        assert found is not None
        assert found.steps == 960
        assert found.coverage > 0.95
        assert found.baseline_loss is not None
        assert 0 < found.loss < found.baseline_loss


def test_too_little_history_is_said_and_nothing_forecast(made: list[NodeForecast]) -> None:
    young = made[2]
    assert young.is_cold
    assert young.why == "1.5 days of its last 7 are known, and 2 are needed"
    assert (young.cpu, young.memory, young.memory_bytes) == (None, None, ())


def test_a_fleet_that_is_new_has_nothing_to_learn_from() -> None:
    (alone,) = forecasts_of(rows(3), OPTIONS)
    assert alone.is_cold
    assert "a new fleet needs 3 days and 8 hours" in alone.why
    assert forecasts_of([], OPTIONS) == []


def test_pasts_of_different_times_are_refused() -> None:
    pair = [*rows(3), replace(rows(3)[0], start_s=1800)]
    with pytest.raises(InvalidInput, match="same time"):
        forecasts_of(pair, OPTIONS)


# the cycle's work


class Daemon:
    """What the daemon answers a worker, as data."""

    def __init__(self, days: float) -> None:
        self.days = days
        self.pages: list[tuple[str, list[NodeForecast], bool]] = []
        self.asked: list[tuple[str, int, int]] = []
        self.change: dict[str, Any] = {}
        self.gone = ""

    def node_usage(self, node: str, *, days: int, until_us: int) -> Mapping[str, Any]:
        self.asked.append((node, days, until_us))
        if node == self.gone:
            raise NotFound(f"no node {node}")
        steps = days * DAY_S // FIVE_S
        known = int(self.days * DAY_S // FIVE_S)
        values = [None] * (steps - known) + [100 + k % 50 for k in range(known)]
        series = {"cpu_m": values, "memory_bytes": values}
        return {
            "node": node,
            "since": "2030-01-01T00:00:00Z",
            "step_s": FIVE_S,
            "capacity": {"cpu_m": 4000, "memory_bytes": 4096 * MIB},
            "remainder": series,
            "containers": [
                {"id": "c1", "app": "web", "request": {"cpu_m": 0, "memory_bytes": 0}} | series
            ],
            "apps": {"web": series},
        } | self.change

    def submit_forecasts(
        self, run_id: str, forecasts: Sequence[NodeForecast], *, is_last: bool
    ) -> Mapping[str, Any]:
        self.pages.append((run_id, list(forecasts), is_last))
        return {}


def cycle(daemon: Daemon, count: int, *, model: ModelName = "linear") -> dict[str, int]:
    names = [f"n{k}" for k in range(count)]
    options = ForecastOptions(model=model)
    return forecast_fleet(daemon, names, run_id="r", now_us=1_900_000_123 * US, options=options)


def test_a_cycle_reads_every_nodes_past_and_hands_its_forecasts_in() -> None:
    daemon = Daemon(days=5)
    assert cycle(daemon, 2) == {"forecast": 2, "cold": 0}
    until_us = 1_899_999_900 * US
    assert daemon.asked == [("n0", PAST_DAYS, until_us), ("n1", PAST_DAYS, until_us)]
    ((run, page, is_last),) = daemon.pages
    assert (run, is_last, [one.node for one in page]) == ("r", True, ["n0", "n1"])
    assert page[0].from_us == until_us
    assert page[0].containers == ("c1",)
    assert all(200 <= value <= 320 for value in page[0].cpu_m)


def test_a_node_that_left_meanwhile_costs_itself_alone() -> None:
    daemon = Daemon(days=5)
    daemon.gone = "n0"
    assert cycle(daemon, 2) == {"forecast": 1, "cold": 0}
    assert [one.node for one in daemon.pages[0][1]] == ["n1"]


def test_a_large_fleets_forecasts_go_in_pages_the_last_of_which_is_marked() -> None:
    daemon = Daemon(days=0.5)
    assert cycle(daemon, PAGE + 1) == {"forecast": 0, "cold": PAGE + 1}
    assert [(len(page), is_last) for _, page, is_last in daemon.pages] == [(PAGE, False), (1, True)]
    empty = Daemon(days=0)
    assert cycle(empty, 0) == {"forecast": 0, "cold": 0}
    assert [is_last for _, _, is_last in empty.pages] == [True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"capacity": None}, "the past of node n0: capacity"),
        ({"apps": {"web": {"cpu_m": [], "memory_bytes": []}}}, "has not 6048 buckets"),
    ],
)
def test_an_answer_that_is_no_past_is_refused_by_its_field(
    change: dict[str, Any], words: str
) -> None:
    daemon = Daemon(days=1)
    daemon.change = change
    with pytest.raises(InvalidInput, match=words):
        cycle(daemon, 1)


def test_a_worker_loads_scikit_learn_with_its_first_forecast_and_not_before() -> None:
    code = (
        "import sys, tenure.cli.worker\n"
        "early = [m for m in ('sklearn', 'scipy', 'numba') if m in sys.modules]\n"
        "from tests.unit.harvest.forecast import test_harvest_forecast_fleet as made\n"
        "made.cycle(made.Daemon(5), 1, model='boosted')\n"
        "sys.exit(bool(early) or 'sklearn' not in sys.modules)"
    )
    assert bounded.run([sys.executable, "-c", code]).returncode == 0
