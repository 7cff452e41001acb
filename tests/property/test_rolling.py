"""Policy ``tenure`` on random fleets and workloads: room, promises, and compiled against plain."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.model.node import Site
from tenure.model.units import US
from tenure.placement.decisions.decide import HYBRID
from tenure.simulation import Cluster, Options, Result, Workload, simulate
from tenure.simulation.sla.generator import PaperParams, generate
from tests.simulation.build import node, small, workload
from tests.unit.placement.build import N
from tests.unit.placement.planning.test_placement_rolling import Planned

GIB = 1 << 30


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """Draw nodes of few kinds, some with boots, minimum billing or always on."""
    rows = []
    for k in range(draw(st.integers(1, 6))):
        site = draw(st.sampled_from(("local", "cloud")))
        cores = draw(st.sampled_from((2, 4, 8)))
        price = draw(st.sampled_from((0.0, 0.001, 0.004)))
        rows.append(
            replace(
                node(f"n{k}", site, cores=cores, usd_per_s=price),
                boot_us=draw(st.sampled_from((0, 0, 20, 45))) * US,
                min_billing_us=draw(st.sampled_from((0, 0, 60))) * US,
                is_always_on=draw(st.integers(0, 4)) == 0,
            )
        )
    return Cluster.of(rows)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    at_s, rows = 0, []
    for _ in range(draw(st.integers(1, 14))):
        at_s += draw(st.sampled_from((0, 1, 10, 60)))
        run_s = draw(st.sampled_from((1, 10, 40, 100)))
        slack_s = draw(st.sampled_from((1, 50, 300, 3000)))
        shape = draw(st.integers(1, 4)), draw(st.integers(1, 5))
        rows.append((at_s, *shape, run_s, at_s + run_s + slack_s))
    return workload(*rows)


def used_at(result: Result, at_us: int) -> dict[str, tuple[int, int]]:
    """Return thousandths of a core and bytes in use on each node."""
    used: dict[str, tuple[int, int]] = {}
    jobs = result.workload
    for k in np.flatnonzero(result.has_run & (result.placed_us <= at_us) & (at_us < result.end_us)):
        for name, count in result.placements[k]:
            cpu_m, memory = used.get(name, (0, 0))
            more = count * int(jobs.cpu_m[k]), count * int(jobs.memory_bytes[k])
            used[name] = cpu_m + more[0], memory + more[1]
    return used


@given(clusters(), workloads(), st.sampled_from((0.0, 0.25, 1.0)), st.sampled_from((None, 0, 30)))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_job_runs_once_whole_within_the_room(
    cluster: Cluster, jobs: Workload, patience: float, grace_s: float | None
) -> None:
    options = Options(patience=patience, grace_s=grace_s)
    result = simulate(cluster, jobs, "tenure", options, compiled=False)
    exact = simulate(cluster, jobs, "exact", options, compiled=False)
    assert [result.fate(k) for k in range(len(jobs))] == [exact.fate(k) for k in range(len(jobs))]
    capacity = {n.name: (n.cpu_m, n.memory_bytes) for n in cluster.nodes}
    for at_us in result.placed_us:
        for name, (cpu_m, memory) in used_at(result, int(at_us)).items():
            assert cpu_m <= capacity[name][0]
            assert memory <= capacity[name][1]
    for k in np.flatnonzero(result.has_run):
        assert sum(count for _, count in result.placements[k]) == jobs.executors[k]
        assert result.placed_us[k] >= jobs.arrival_us[k]
        is_hybrid = any(
            n.site is Site.CLOUD for n in cluster.nodes if n.name in dict(result.placements[k])
        )
        assert (result.verdict[k] == HYBRID) == is_hybrid
        run_us = result.end_us[k] - result.start_us[k]
        assert run_us == (jobs.hybrid_us(1.3)[k] if is_hybrid else jobs.run_us[k])


class Watched(Planned):
    """A stage that notes by what end each job was promised when it was planned in time."""

    def __init__(self, cluster: Cluster, jobs: Workload) -> None:
        nodes = [
            N(
                n.name,
                n.cpu_m / 1000,
                n.memory_bytes / GIB,
                usd_per_h=n.price_nano_per_h / 1e9,
                remaining_s=None if n.is_always_on else 0,
                is_on=n.is_always_on,
                is_cloud=n.site is Site.CLOUD,
                boot_s=0 if n.is_always_on else n.boot_us / US,
                reboot_s=n.boot_us / US,
            )
            for n in cluster.nodes
        ]
        rows = [
            (
                float(jobs.arrival_us[k]) / US,
                {
                    "executors": int(jobs.executors[k]),
                    "cores": int(jobs.cpu_m[k]) // 1000,
                    "local_s": int(jobs.run_us[k]) / US,
                    "deadline_s": int(jobs.deadline_us[k]) / US,
                },
            )
            for k in range(len(jobs))
        ]
        super().__init__(nodes, *rows)


@given(clusters(), workloads())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_planned_in_time_is_in_time(cluster: Cluster, jobs: Workload) -> None:
    stage = Watched(cluster, jobs)
    promised: set[int] = set()
    for at_us in np.unique(jobs.arrival_us):
        stage.run(until_s=int(at_us) / US)
        plan = stage.course.plan
        seen = np.flatnonzero((plan.since_us >= 0) & ~plan.is_late & (plan.used > 0))
        promised |= set(seen.tolist())
    stage.run()
    late = np.flatnonzero(
        (stage.history.verdict > 0) & (stage.history.end_us >= stage.jobs.deadline_us)
    )
    assert not promised & set(late.tolist())
    # and nobody starts later than the plan said last
    ran = np.flatnonzero(stage.history.verdict > 0)
    assert (stage.history.placed_us[ran] == stage.course.plan.start_us[ran]).all()
    assert (stage.history.end_us[ran] <= stage.course.plan.end_us[ran]).all()


@given(clusters(), workloads(), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_order_of_nodes_in_a_file_is_of_no_account(
    cluster: Cluster, jobs: Workload, rng: random.Random
) -> None:
    rows = list(cluster.nodes)
    rng.shuffle(rows)
    one = simulate(cluster, jobs, "tenure", compiled=False)
    other = simulate(Cluster.of(rows), jobs, "tenure", compiled=False)
    assert one.placements == other.placements
    np.testing.assert_array_equal(one.end_us, other.end_us)


@pytest.mark.computes
@pytest.mark.timeout(1800)
def test_compiled_equals_plain() -> None:
    load = generate(PaperParams(jobs=60, gap_s=15), seed=5)
    for patience in (0.25, 1.0):
        for deadlines in ("off", "on"):
            options = Options(deadlines=deadlines, tolerance_s=300, patience=patience)
            plain = simulate(small(), load, "tenure", options, compiled=False)
            fast = simulate(small(), load, "tenure", options)
            assert fast.placements == plain.placements
            assert fast.spans == plain.spans
            np.testing.assert_array_equal(fast.end_us, plain.end_us)
            np.testing.assert_array_equal(fast.verdict, plain.verdict)
