"""More demand than local room: deadlines are met, the cloud node serves what is left over.

The ledger is held against the record that the nodes' power switch keeps of itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tenure.model.units import iso
from testbed import IMAGE, NodeSpec, Testbed
from tests.engines.served import served
from tests.faults.laws import Window, ledger_spans, logged_spans
from tests.faults.tenured import Tenured, until

pytestmark = [pytest.mark.engines, pytest.mark.timeout(600)]
LOCAL, CLOUD = ("l1", "l2"), "c1"
US = 1_000_000
SPECS = (
    NodeSpec("l1", "nursery", cpus=2, price_per_hour=0.05),
    NodeSpec("l2", "nursery", cpus=2, price_per_hour=0.05),
    NodeSpec(CLOUD, "nursery", "cloud", 4, price_per_hour=0.12, initially_on=False, powered=True),
)
#: A job of the second wave cannot wait for one of the first to end.
RUN_S, DEADLINE_S = 70, 110
#: As the testbed's configuration states them.
IDLE_W, PEAK_W = 120, 200


class Rig:
    """Two local nodes that are on, a cloud node that is off, and a daemon."""

    def __init__(self, bed: Testbed, tenured: Tenured) -> None:
        self.bed, self.tenured = bed, tenured

    def submit(self, name: str, run_s: int, deadline_s: int) -> str:
        """Submit a job of two executors of one core: half of the local room."""
        body: dict[str, Any] = {
            "name": name,
            "image": IMAGE,
            "command": ["sleep", str(run_s)],  # as long on a busy machine
            "executors": 2,
            "cpus": 1,
            "memory": "32MiB",
            "deadline_s": deadline_s,
            "estimate": {"local_s": run_s + 2, "hybrid_s": run_s + 2},
            "policy": "exact",
        }
        job = self.tenured.client.submit_job(body)
        assert job["admission"]["promise"] == "admitted"
        return str(job["id"])

    def ended(self, jobs: list[str]) -> list[dict[str, Any]]:
        """Return jobs once all are over."""

        def over() -> list[dict[str, Any]] | None:
            found = [self.tenured.client.job(job) for job in jobs]
            return found if all(job["finished_at"] for job in found) else None

        found: list[dict[str, Any]] = until(over, 120, "all jobs to end", poll_s=0.2)
        return found


@pytest.fixture
def rig() -> Iterator[Rig]:
    power = {"min_on": {"nursery": 0}}
    with served(SPECS, generations=["nursery"], power=power) as (bed, tenured):
        yield Rig(bed, tenured)


def _is(rig: Rig, node: str, state: str) -> bool:
    return bool(rig.tenured.client.node(node)["state"] == state)


def nodes_of(job: dict[str, Any]) -> set[str]:
    return {state["node"] for state in job["executor_states"]}


def test_the_cloud_serves_what_local_nodes_cannot_in_time(rig: Rig) -> None:
    began_us = time.time_ns() // 1000
    first = rig.ended([rig.submit(f"fits{i}", 5, 60) for i in range(2)])
    assert [job["deadline_met"] for job in first] == [True, True]
    assert not logged_spans(rig.bed, CLOUD, began_us), "the cloud node was on for work that fits"
    second = rig.ended([rig.submit(f"over{i}", RUN_S, DEADLINE_S) for i in range(4)])
    assert [job["deadline_met"] for job in second] == [True] * 4
    assert sorted(job["mode"] for job in second) == ["hybrid", "hybrid", "local", "local"]
    for job in second:
        there = {CLOUD} if job["mode"] == "hybrid" else set(LOCAL)
        assert nodes_of(job) <= there
    until(partial(_is, rig, CLOUD, "off"), 40, "the cloud node to be off again")
    _ledger_is_what_was_logged(rig, began_us)


def _ledger_is_what_was_logged(rig: Rig, began_us: int) -> None:
    """On-times agree within 1 % by node and over the fleet, and cost is on-time times price."""
    now_us = time.time_ns() // 1000
    window, sums = Window(began_us, now_us), [0, 0]
    for spec in SPECS:
        logged = logged_spans(rig.bed, spec.name, now_us)
        ledger = ledger_spans(rig.tenured.database, spec.name, now_us)
        on_us = [
            sum(span.within(window.since_us, window.until_us) for span in spans)
            for spans in (logged, ledger)
        ]
        print(f"{spec.name}: logged {on_us[0] / US:.2f} s, ledger {on_us[1] / US:.2f} s")
        assert on_us[0] > RUN_S * US
        assert abs(on_us[1] - on_us[0]) <= on_us[0] / 100, spec.name
        sums = [sums[0] + on_us[0], sums[1] + on_us[1]]
    assert abs(sums[1] - sums[0]) <= sums[0] / 100
    (closed,) = ledger_spans(rig.tenured.database, CLOUD, now_us)
    on_s = (closed.off_us - closed.on_us) / US
    cost = rig.tenured.client.cost()["by_node"][CLOUD]["cost_usd"]
    assert cost == pytest.approx(on_s * 0.12 / 3600, rel=1e-6)
    _energy_is_what_the_log_allows(rig, window)


def _energy_is_what_the_log_allows(rig: Rig, window: Window) -> None:
    """Node by node between idle and peak draw for the logged time, the boot at peak; sums hold."""
    since, until = (iso(at_us) or "" for at_us in (window.since_us, window.until_us))
    found = rig.tenured.client.energy(since=since, until=until)
    assert (found["source"], found["unknown_nodes"]) == ("modelled", [])
    total = found["total"]["energy_uj"]
    assert sum(node["energy_uj"] for node in found["by_node"].values()) == total
    parts = ("containers", "foreign", "idle", "boot", "off")
    assert sum(found[part]["energy_uj"] for part in parts) == total
    for spec in SPECS:
        node = found["by_node"][spec.name]
        spans = logged_spans(rig.bed, spec.name, window.until_us)
        on_us = sum(span.within(window.since_us, window.until_us) for span in spans)
        drawn = node["energy_uj"] - node["off_uj"]
        print(f"{spec.name}: {drawn / on_us:.1f} W while on, boot {node['boot_s']:.2f} s")
        assert 0.99 * IDLE_W * on_us <= drawn <= 1.01 * PEAK_W * on_us
        assert node["off_s"] * US == pytest.approx(
            window.until_us - window.since_us - on_us, abs=US
        )
    logged = {row["event"]: row["at_us"] for row in rig.bed.power_log() if row["node"] == CLOUD}
    boot_s = (int(str(logged["on_done"])) - int(str(logged["on_issued"]))) / US
    cloud = found["by_node"][CLOUD]
    assert cloud["boot_s"] == pytest.approx(boot_s, abs=1.5)
    assert cloud["boot_uj"] == round(cloud["boot_s"] * US * PEAK_W)
    on_cloud = [row for row in found["by_container"].values() if CLOUD in row["by_node"]]
    assert {row["kind"] for row in on_cloud} == {"executor"}
    assert sum(row["by_node"][CLOUD] for row in on_cloud) == cloud["containers_uj"] > 0
