"""``tenure forecast`` against the API over the real core."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tenure.client.client import Client
from tenure.model.forecast import Accuracy, NodeForecast
from tenure.model.units import MIB, US
from tests.api.server import Server
from tests.cli.conftest import Tenure

BLOCK_US = 900 * US


@pytest.fixture
def forecast(server: Server) -> NodeForecast:
    now_us = time.time_ns() // 1000
    good = Accuracy(960, 0.991, 0.002, 0.003)
    made = NodeForecast(
        "n1",
        run_id="r",
        made_us=now_us,
        from_us=now_us // BLOCK_US * BLOCK_US,
        step_us=BLOCK_US,
        quantile=0.99,
        model="boosted",
        cpu_m=(1000,) * 48 + (3000,) * 48,
        memory_bytes=(2048 * MIB,) * 96,
        history_days=6.5,
        cpu=good,
        memory=good,
    )
    server.on_loop(server.backend.tables.forecasts.put, "n1", made)
    return made


def test_the_fleets_forecasts_are_one_line_a_node(tenure: Tenure, forecast: NodeForecast) -> None:
    table = tenure("forecast")
    assert table.code == 0
    assert table.lines[0].startswith("NODE")
    assert len(table.lines) == 5
    assert "ready" in table.lines[1]
    assert "99.1% 99.1%" in table.lines[1]
    assert "ForecastCycle" in table.lines[2]
    assert tenure("forecast", "-q").lines == ["n1", "n2", "n3", "n4"]
    assert [row["state"] for row in tenure("forecast", "--json").json][:2] == ["ready", "none"]


def test_a_nodes_forecast_is_shown_hour_by_hour(tenure: Tenure, forecast: NodeForecast) -> None:
    shown = tenure("forecast", "n1")
    assert shown.code == 0
    hours = [line.split() for line in shown.lines if line.rstrip().endswith("GiB")]
    assert len(hours) == 24
    assert hours[0][3:5] == ["1.00", "2GiB"]
    assert hours[1][5] == "2.60"
    assert hours[-2][3] == "3.00"
    losses = [line.split(maxsplit=4)[-1] for line in shown.lines if "loss" in line]
    assert losses[0].strip() == "0.200% 0.200% (rolling quantile 0.300% 0.300%)"
    whole = tenure("forecast", "n1", "--json").json
    assert len(whole["use"]["cpu_m"]) == 480
    none = tenure("forecast", "n2")
    assert (none.code, "none" in none.out) == (0, True)
    assert tenure("forecast", "nowhere").code == 1


def test_a_plot_is_a_picture_of_one_nodes_day(
    tenure: Tenure, forecast: NodeForecast, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    for kind, magic in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        path = tmp_path / f"n1.{kind}"
        ran = tenure("forecast", "n1", "--plot", str(path))
        assert ran.code == 0, ran.err
        assert str(path) in ran.err
        assert path.read_bytes().startswith(magic)
    for words in (("--plot", "x.png"), ("n1", "--plot", "x.pdf"), ("n1", "--plot", "/no/x.png")):
        ran = tenure("forecast", *words)
        assert ran.code == 2, words
        assert ran.out == "" or words[0] == "n1"
    unknown = tmp_path / "n2.png"
    told = tenure("forecast", "n2", "--plot", str(unknown))
    assert "nothing is drawn" in told.err
    assert not unknown.exists()


def test_cycles_of_both_kinds_are_listed(tenure: Tenure, client: Client) -> None:
    assert {cycle["kind"] for cycle in client.cycles()} == {"generation"}
    assert tenure("cycle", "ls").lines[0].split()[:4] == ["NAME", "KIND", "FROM", "TO"]
