"""Forecasts over REST: handed in, shown, scored, and the use that they are made of."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.api.requests.backend import CycleState
from tenure.client.client import Client
from tenure.client.gateway import Gateway
from tenure.client.target import Target
from tenure.model.events import Configured, UsageObserved
from tenure.model.forecast import Accuracy, NodeForecast
from tenure.model.plan import CycleSpec
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, MIB, US, iso
from tenure.profiling.io.store import HISTORY_US
from tenure.profiling.readings.sample import Measured, Sample
from tests.api.fleet import NODES, CoreBackend
from tests.api.server import CONTAINER, Answer, Server

FORESEE = CycleSpec("foresee", "", "", interval_us=HOUR_US, kind="forecast")
BLOCK_US = 900 * US


class Foreseeing(CoreBackend):
    """A daemon with a cycle that makes forecasts."""

    def __init__(self) -> None:
        super().__init__()
        self.handle(Configured(at_us=self.now_us(), nodes=NODES, cycles=(FORESEE,)))

    def cycles(self) -> Sequence[CycleState]:
        return [CycleState(FORESEE, None)]


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    running = Server(folder, Foreseeing)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def gateway(server: Server) -> Gateway:
    """A worker's way to the daemon."""
    return Gateway(Client(Target(socket_path=str(server.socket))))


def made(node: str = "n1", **change: Any) -> NodeForecast:
    now_us = time.time_ns() // 1000
    good = Accuracy(960, 0.991, 0.002, 0.003)
    whole = NodeForecast(
        node,
        run_id="",
        made_us=0,
        from_us=now_us // BLOCK_US * BLOCK_US,
        step_us=BLOCK_US,
        quantile=0.99,
        model="boosted",
        cpu_m=(1000,) * 48 + (3000,) * 48,
        memory_bytes=(2048 * MIB,) * 96,
        containers=("c1",),
        history_days=6.5,
        cpu=good,
        memory=good,
    )
    return replace(whole, **change)


def claimed(gateway: Gateway, server: Server, *, is_dry: bool = False) -> str:
    run = server.post("/v1/cycles/foresee/run", {"dry_run": is_dry})
    assert run.status == 202, run.body
    return str(gateway.claim("foresee", run.json["id"])["id"])


def hand_in(gateway: Gateway, server: Server, *forecasts: NodeForecast) -> str:
    run_id = claimed(gateway, server)
    gateway.submit_forecasts(run_id, forecasts, is_last=True)
    return run_id


def test_a_worker_hands_forecasts_in_and_they_are_shown(gateway: Gateway, server: Server) -> None:
    run_id = claimed(gateway, server)
    cold = made("n2", cpu_m=(), memory_bytes=(), why="0.3 days are known", cpu=None, memory=None)
    begun = gateway.submit_forecasts(run_id, [made()], is_last=False)
    assert begun["state"] == "claimed"
    ended = gateway.submit_forecasts(run_id, [cold], is_last=True)
    assert ended["state"] == "done"
    assert [(note["node"], note["code"]) for note in ended["nodes"]] == [
        ("n1", "forecast"),
        ("n2", "cold"),
    ]
    rows = {row["node"]: row for row in server.get("/v1/forecasts").json["items"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "n1": "ready",
        "n2": "cold",
        "n3": "none",
        "n4": "none",
    }
    first = rows["n1"]
    assert first["harvest_ratio"] == pytest.approx({"cpu": 0.5, "memory": 0.75})
    assert first["back_test"]["cpu"]["coverage"] == 0.991
    assert (first["live"], first["quantile"], first["history_days"]) == (None, 0.99, 6.5)
    assert rows["n2"]["why"] == "it has no forecast: 0.3 days are known"
    assert "ForecastCycle" in rows["n3"]["why"]


def test_one_nodes_forecast_comes_in_steps_of_three_minutes(
    gateway: Gateway, server: Server
) -> None:
    hand_in(gateway, server, made())
    found = server.get("/v1/forecasts/n1").json
    use, spare = found["use"], found["spare"]
    assert (use["step_s"], spare["step_s"]) == (180, 180)
    assert use["cpu_m"] == [1000] * 240 + [3000] * 240
    assert (len(use["memory_bytes"]), len(spare["cpu_m"])) == (480, 480)
    assert use["since"] == found["since"]
    # 4 cores, a tenth of them left free
    assert spare["cpu_m"][0] == 4000 - 400 - 1000
    assert spare["cpu_m"][-10] == 4000 - 400 - 3000
    assert found["containers"] == ["c1"]
    bare = server.get("/v1/forecasts/n2").json
    assert (bare["use"], bare["state"]) == (None, "none")
    assert server.get("/v1/forecasts/nowhere").status == 404


@pytest.mark.parametrize(
    ("step_s", "shown_s", "count"), [(60, 60, 4), (180, 180, 4), (200, 200, 4), (360, 180, 8)]
)
def test_steps_of_any_width_are_shown_for_what_they_are(
    gateway: Gateway, server: Server, step_s: int, shown_s: int, count: int
) -> None:
    four: dict[str, Any] = {"cpu_m": (1, 2, 3, 4), "memory_bytes": (5, 6, 7, 8)}
    hand_in(gateway, server, made(step_us=step_s * US, from_us=time.time_ns() // 1000, **four))
    use = server.get("/v1/forecasts/n1").json["use"]
    assert (use["step_s"], len(use["cpu_m"]), use["cpu_m"][-1]) == (shown_s, count, 4)


def test_live_scores_are_shown_and_counted(gateway: Gateway, server: Server) -> None:
    hand_in(gateway, server, made(from_us=time.time_ns() // 1000 - HOUR_US))
    begin_us = server.backend.now_us()

    def use(after_us: int, cpu_m: int) -> None:
        regular = {"n1": Resources(cpu_m, MIB)}
        server.backend.handle(UsageObserved(at_us=begin_us + after_us, regular=regular))

    for number, cpu_m in enumerate((0, 500, 1500, 0)):
        server.on_loop(use, number * HISTORY_US, cpu_m)
    assert server.backend.state.tables.scores["n1"].accuracy() is not None
    live = server.get("/v1/forecasts").json["items"][0]["live"]
    assert (live["cpu"]["steps"], live["memory"]["coverage"]) == (3, 1.0)
    assert live["cpu"]["coverage"] == pytest.approx(2 / 3)
    text = server.get("/metrics").body.decode()
    assert 'tenure_forecast_ready{node="n1"} 1.0' in text
    assert 'tenure_forecast_coverage_ratio{node="n1",resource="memory"} 1.0' in text
    assert 'tenure_forecast_steps{node="n1"} 3.0' in text
    assert 'tenure_forecast_use_ratio{node="n1",resource="cpu"} 0.25' in text
    assert "tenure_forecast_pinball_ratio" in text
    assert 'tenure_forecast_ready{node="n3"}' not in text


def test_a_dry_run_keeps_nothing(gateway: Gateway, server: Server) -> None:
    run_id = claimed(gateway, server, is_dry=True)
    ended = gateway.submit_forecasts(run_id, [made()], is_last=True)
    assert (ended["state"], ended["nodes"][0]["code"]) == ("advised", "forecast")
    assert server.get("/v1/forecasts/n1").json["state"] == "none"


def body(**change: Any) -> dict[str, Any]:
    one = {
        "node": "n1",
        "since": iso(time.time_ns() // 1000),
        "step_s": 900,
        "quantile": 0.99,
        "model": "boosted",
        "cpu_m": [1],
        "memory_bytes": [1],
        "history_days": 3.0,
    }
    return {"run_id": "r", "forecasts": [one | change], "is_last": True}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cpu_m": [-1]}, "forecasts.0.cpu_m.0"),
        ({"cpu_m": [1, 2]}, "forecasts.0"),
        ({"cpu_m": [], "memory_bytes": []}, "forecasts.0"),
        ({"why": "both"}, "forecasts.0"),
        ({"quantile": 1.0}, "forecasts.0.quantile"),
        ({"model": "best"}, "forecasts.0.model"),
        ({"cpu": {"steps": 1, "coverage": 1.5, "loss": 0}}, "forecasts.0.cpu.coverage"),
        ({"surprise": 1}, "forecasts.0.surprise"),
        ({"since": "9999-12-31T00:00:00Z"}, "forecasts.0"),
    ],
)
def test_what_is_no_forecast_is_refused_by_its_field(
    server: Server, change: dict[str, Any], field: str
) -> None:
    answer: Answer = server.post("/v1/forecasts", body(**change))
    assert answer.status == 422
    assert answer.fields == [field]


def test_forecasts_of_no_run_or_of_another_kind_are_refused(server: Server) -> None:
    assert server.post("/v1/forecasts", body()).status == 404


def test_the_use_of_a_node_is_that_of_its_containers_apps_and_remainder(
    gateway: Gateway, server: Server
) -> None:
    app = server.post("/v1/containers", CONTAINER).json
    node, key = app["node"], app["id"]
    now_us = server.backend.now_us()
    begin_us = (now_us - HOUR_US) // HISTORY_US * HISTORY_US

    def sample(container: str, of: str, cpu_m: int, at_us: int) -> Measured:
        return Measured(container, node, of, Sample(at_us, US, Resources(cpu_m, 7)))

    server.backend.measured = [
        sample(key, app["app"], 300, begin_us + 1),
        sample("gone", app["app"], 100, begin_us + HISTORY_US),
        sample("", "", 50, begin_us),
    ]
    until_us = begin_us + 2 * HISTORY_US
    found = gateway.node_usage(node, days=1, until_us=until_us)
    assert (found["node"], found["step_s"]) == (node, 300)
    assert found["since"] == iso(until_us - 24 * HOUR_US)
    assert found["capacity"] == {"cpu_m": 4000, "memory_bytes": 8192 * MIB}
    (own,) = found["containers"]
    assert (own["id"], own["app"]) == (key, app["app"])
    assert own["request"]["cpu_m"] > 0
    assert (len(own["cpu_m"]), own["cpu_m"][-2:]) == (288, [300, None])
    assert found["apps"][app["app"]]["cpu_m"][-2:] == [300, 100]
    assert found["remainder"]["cpu_m"][-2:] == [50, None]
    assert found["remainder"]["memory_bytes"][-2:] == [7, None]
    assert server.get(f"/v1/nodes/{node}/usage?days=99").status == 422
    for far in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert server.get(f"/v1/nodes/{node}/usage?days=31&until={far}").status == 200
    assert server.get("/v1/nodes/nowhere/usage").status == 404
