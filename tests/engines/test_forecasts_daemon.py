"""A real engine, daemon and worker: a node's recorded past is forecast, and lending follows."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from math import pi, sin
from pathlib import Path
from typing import Any

import pytest

from tenure.model.errors import InvalidInput
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, MIB, US
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.store import HISTORY_US
from tenure.profiling.readings.sample import Measured, Sample
from testbed import IMAGE, NodeSpec, Testbed, bounded
from tests.engines.served import served
from tests.faults.tenured import ROOT, Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
#: A node by itself shows a rhythm only after many days: what fleets had in common counts before.
DAYS = 15
DAY_US = 24 * HOUR_US
OBSERVED = ("cpu_m", "memory_bytes")
CYCLES = {"foresee": {"class": "ForecastCycle", "cron": "0 0 1 1 *"}}


def recorded(bed: Testbed) -> None:
    """Write what the node used in the last days, as its daemon would have: by the store's own way.

    An app was there all the time, in a container that is gone by now.
    """
    asyncio.run(_record(Path(bed.config()["state_dir"]) / "stats.db"))


async def _record(path: Path) -> None:
    store, chance = await EmbeddedStats.open(path), random.Random(7)
    try:
        until_us = time.time_ns() // 1000 // HISTORY_US * HISTORY_US
        begin_us = until_us - DAYS * DAY_US
        for day_us in range(begin_us, until_us, DAY_US):
            times = range(day_us + HISTORY_US // 2, day_us + DAY_US, HISTORY_US)
            await store.write([row for at_us in times for row in _used(at_us, chance)])
            for _ in range(DAY_US // HISTORY_US // 12 + 1):
                await store.prune(day_us + DAY_US)
    finally:
        await store.close()


def _used(at_us: int, chance: random.Random) -> list[Measured]:
    share = 0.5 + 0.3 * sin(2 * pi * (at_us % DAY_US) / DAY_US) + chance.uniform(-0.05, 0.05)
    web = Resources(round(1000 * share), round(200 * MIB * share))
    rest = Resources(chance.randrange(20, 60), 30 * MIB)
    return [
        Measured("f" * 64, "n1", "web", Sample(at_us, 30 * US, web, OBSERVED)),
        Measured("", "n1", "", Sample(at_us, 30 * US, rest, OBSERVED)),
    ]


@pytest.fixture(scope="module")
def tenured() -> Iterator[Tenured]:
    specs = [NodeSpec("n1", "nursery", cpus=2, memory_bytes=1024 * MIB)]
    told: dict[str, Any] = {"generations": ["nursery"], "cycles": CYCLES, "is_foreseen": True}
    harvest = {"mode": "act"}
    with served(specs, prepare=recorded, harvest=harvest, **told) as (_, tenured):
        yield tenured


def batch(cpus: float) -> dict[str, Any]:
    stage = {"name": "map", "command": ["true"], "memory": "32MiB", "cpus": cpus, "tasks": 1}
    return {"name": "b", "image": IMAGE, "stages": [stage | {"estimate": {"task_s": 5}}]}


def objection(tenured: Tenured) -> str:
    return str(tenured.client.node("n1")["objection"])


def loaded(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def test_a_cycle_forecasts_a_node_and_lending_follows(tenured: Tenured) -> None:
    client = tenured.client
    until(lambda: "no forecast yet" in objection(tenured), 30, "nothing but a forecast to lack")
    with pytest.raises(InvalidInput, match=r"no node lends.*no forecast yet"):
        client.plan_batch(batch(0.1))
    web = client.create_container({"name": "web", "Image": IMAGE, "Cmd": ["sleep", "600"]} | APP)
    until(lambda: client.container(web["id"])["state"] == "running", 30, "web to run")
    tenured.child("worker")
    until(lambda: "worker" not in tenured.health()["degraded"], 30, "a worker")

    dry = ended(tenured, client.run_cycle("foresee", is_dry=True))
    assert (dry["state"], dry["nodes"][0]["code"]) == ("advised", "forecast"), dry
    assert client.forecast("n1")["state"] == "none"
    run = ended(tenured, client.run_cycle("foresee"))
    assert run["state"] == "done", run

    found = client.forecast("n1")
    assert (found["state"], found["containers"]) == ("ready", [web["id"]])
    assert 6.9 < found["history_days"] <= 7, "of the last seven"
    use = found["use"]["cpu_m"]
    assert (len(use), found["use"]["step_s"]) == (480, 180)
    # the app's rhythm, which this container itself never showed: 0.2 to 0.85 cores, and the rest
    assert 750 < max(use) < 1300
    assert min(use) < 600
    assert found["back_test"]["cpu"]["coverage"] > 0.9
    least = min(found["spare"]["cpu_m"])
    assert least <= 2000 - 200 - max(use)

    until(lambda: objection(tenured) == "", 30, "n1 to lend")
    assert client.plan_batch(batch(0.1))["is_accepted"]
    with pytest.raises(InvalidInput, match=r"no node ever has 1\.75 cores"):
        client.plan_batch(batch(1.75))  # which would fit beside what is used now


def test_the_forecast_is_there_for_people_and_machines(tenured: Tenured) -> None:
    ran = command(tenured, "forecast", "n1", "--json")
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["use"]["memory_bytes"]) == 480
    assert "ready" in command(tenured, "forecast").stdout
    assert 'tenure_forecast_ready{node="n1"} 1.0' in tenured.client.metrics()


def test_models_are_fitted_by_the_worker_alone(tenured: Tenured) -> None:
    assert "sklearn" in loaded(tenured.child("worker"))
    assert "sklearn" not in loaded(tenured.pid)


def test_a_forecast_outlives_its_daemon(tenured: Tenured) -> None:
    before = tenured.client.forecast("n1")
    tenured.kill()
    tenured.start()
    after = tenured.client.forecast("n1")
    for name in ("made_at", "use", "containers", "state"):
        assert after[name] == before[name]
    until(lambda: objection(tenured) == "", 30, "n1 to lend again")


APP = {"tenure": {"app": "web"}}


def ended(tenured: Tenured, run: dict[str, Any]) -> dict[str, Any]:
    """Return a run once it is over."""

    def over() -> dict[str, Any] | None:
        found = tenured.client.run(run["id"])
        return found if found["finished_at"] else None

    found: dict[str, Any] = until(over, 120, f"{run['id']} to end", poll_s=0.2)
    return found


def command(tenured: Tenured, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a person would."""
    return bounded.run(
        [sys.executable, "-c", "from tenure.cli.main import main; main()", *words],
        cwd=ROOT,
        env={**os.environ, "TENURE_HOST": tenured.config["listen"][0]},
        text=True,
        timeout_s=60,
    )
