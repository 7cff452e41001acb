"""Simulations by hand: figures, deadlines, queue orders, determinism."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tenure.model.errors import InvalidInput
from tenure.model.units import US
from tenure.placement.names import POLICIES
from tenure.placement.policies import Policies
from tenure.simulation import Cluster, Options, Result, Workload, simulate
from tenure.simulation.sla.generator import LOADS, PaperParams, generate
from tenure.simulation.sla.options import DEFAULTS
from tests.simulation.build import node, small, workload

ONE = Cluster.of([node("n", cores=4)])
CONTRACT = (
    "cost_usd",
    "deadline_met_ratio",
    "jobs",
    "finished",
    "rejected",
    "mean_duration_s",
    "mean_wait_s",
    "decision_us_mean",
    "wall_s",
)


def run(
    cluster: Cluster, jobs: Workload, policy: str = "ff", options: Options = DEFAULTS
) -> Result:
    return simulate(cluster, jobs, policy, options, compiled=False)


def test_figures_by_hand() -> None:
    # job 0 runs 0-10, job 1 waits and runs 10-30, job 2 never fits
    jobs = workload((0, 4, 1, 10, 10), (2, 3, 1, 20, 30.5), (3, 9, 1, 5, 99))
    result = run(ONE, jobs)
    summary = result.summary()
    assert set(CONTRACT) <= set(summary)
    assert summary["cost_usd"] == pytest.approx(0.030)
    assert (summary["jobs"], summary["finished"], summary["rejected"]) == (3, 2, 1)
    # job 0 ends at its deadline, which is not before it
    assert summary["deadline_met_ratio"] == pytest.approx(1 / 3)
    assert summary["mean_duration_s"] == pytest.approx((10 + 28) / 2)
    assert summary["mean_wait_s"] == pytest.approx(8 / 2)
    assert [result.fate(k) for k in range(3)] == ["finished", "finished", "never_fits"]
    assert result.placements == ((("n", 4),), (("n", 3),), ())
    assert sum(span.cost_nano for span in result.spans) == result.total_nano


def test_tolerance_is_added_and_met_is_strict() -> None:
    jobs = workload((0, 1, 1, 10, 9))
    ratios = [
        run(ONE, jobs, options=Options(tolerance_s=extra)).deadline_met_ratio
        for extra in (0, 1, 1.000001)
    ]
    assert ratios == [0, 0, 1]


@pytest.mark.parametrize(("run_s", "hybrid_s"), [(10, 13), (11, 14), (3, 3), (4, 5), (250, 325)])
def test_the_hybrid_increment_is_truncated_to_whole_seconds(run_s: int, hybrid_s: int) -> None:
    cloud = Cluster.of([node("c", "cloud")])
    assert run(cloud, workload((0, 1, 1, run_s, 999))).end_us[0] == hybrid_s * US


def test_the_increment_equals_the_authors_for_every_whole_second() -> None:
    seconds = np.arange(1, 5000)
    jobs = workload(*((0.0, 1, 1, float(s), 9.0) for s in seconds))
    expected = [int(s) + int(int(s) * 0.30) for s in seconds]
    assert (jobs.hybrid_us(1.3) // US).tolist() == expected
    np.testing.assert_array_equal(jobs.hybrid_us(1.0), jobs.run_us)


def test_deadline_modes() -> None:
    jobs = workload((0, 4, 1, 10, 11), (1, 4, 1, 10, 19), (2, 4, 1, 10, 40))
    off, on, admit = (run(ONE, jobs, options=Options(deadlines=d)) for d in ("off", "on", "admit"))
    assert (off.finished, off.met) == (3, 2)
    assert [on.fate(k) for k in range(3)] == ["finished", "dropped", "finished"]
    assert on.placed_us[1] == 10 * US
    assert [admit.fate(k) for k in range(3)] == ["finished", "refused", "finished"]
    assert admit.placed_us[1] == 1 * US
    assert (on.end_us[2], admit.end_us[2]) == (20 * US, 20 * US)


def test_admission_refuses_who_would_make_an_admitted_job_late() -> None:
    jobs = workload((0, 4, 1, 10, 11), (1, 4, 1, 10, 21), (2, 4, 1, 5, 19))
    result = run(ONE, jobs, options=Options(queue="edf", deadlines="admit"))
    assert [result.fate(k) for k in range(3)] == ["finished", "finished", "refused"]


def test_edf_orders_those_who_wait_and_sees_no_future() -> None:
    jobs = workload((0, 4, 1, 10, 99), (1, 4, 1, 10, 80), (2, 4, 1, 10, 70), (25, 4, 1, 1, 30))
    fcfs, edf = (run(ONE, jobs, options=Options(queue=q)).start_us // US for q in ("fcfs", "edf"))
    assert fcfs.tolist() == [0, 10, 20, 30]
    assert edf.tolist() == [0, 20, 10, 30]


def test_the_order_of_the_file_does_not_matter() -> None:
    jobs = generate(PaperParams(jobs=60, gap_s=15), seed=4)
    places = np.random.default_rng(0).permutation(60)
    shuffled = jobs.only(places)
    for policy in POLICIES:
        one, other = run(small(), jobs, policy), run(small(), shuffled, policy)
        assert one.total_nano == other.total_nano
        np.testing.assert_array_equal(one.end_us[places], other.end_us)


def test_no_policy_overfills_a_node_or_splits_a_job() -> None:
    jobs = generate(PaperParams(jobs=150, gap_s=5), seed=8)
    for policy in POLICIES:
        result = run(small(), jobs, policy)
        fits = {n.name: (n.cpu_m, n.memory_bytes) for n in result.cluster.nodes}
        changes: dict[str, list[tuple[int, int, int, int]]] = {name: [] for name in fits}
        for k in range(len(jobs)):
            placed = dict(result.placements[k])
            assert sum(placed.values()) in (0, jobs.executors[k])
            assert (sum(placed.values()) > 0) == bool(result.has_run[k])
            for name, count in placed.items():
                cpu, memory = int(count * jobs.cpu_m[k]), int(count * jobs.memory_bytes[k])
                changes[name].append((int(result.start_us[k]), 1, cpu, memory))
                changes[name].append((int(result.end_us[k]), 0, -cpu, -memory))
        for name, rows in changes.items():
            cpu = memory = 0
            for _, _, more_cpu, more_memory in sorted(rows):
                cpu, memory = cpu + more_cpu, memory + more_memory
                assert cpu <= fits[name][0]
                assert memory <= fits[name][1]


def test_nodes_are_on_exactly_while_executors_run() -> None:
    jobs = generate(PaperParams(jobs=120, gap_s=30), seed=2)
    result = run(small(), jobs, "gio")
    busy: dict[str, list[tuple[int, int]]] = {}
    for k in range(len(jobs)):
        for name, _ in result.placements[k]:
            busy.setdefault(name, []).append((int(result.start_us[k]), int(result.end_us[k])))
    for name, rows in busy.items():
        merged: list[list[int]] = []
        for start, end in sorted(rows):
            if merged and start < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        spans = [[s.on_us, s.off_us] for s in result.spans if s.node == name]
        assert spans == merged


def test_a_paper_workload_has_the_papers_distributions() -> None:
    jobs = generate(PaperParams(jobs=20_000, gap_s=LOADS["high"], floor_s=10), seed=1)
    gaps = np.diff(jobs.arrival_us) / US
    assert gaps.mean() == pytest.approx(5, rel=0.02)
    assert gaps.var() == pytest.approx(5, rel=0.05)
    runs = jobs.run_us / US
    assert runs.min() >= 10
    assert runs.mean() == pytest.approx(109.5, rel=0.02)
    for column, low, high in (
        (jobs.cpu_m // 1000, 1, 6),
        (jobs.memory_bytes >> 30, 1, 10),
        (jobs.executors, 1, 8),
    ):
        assert (column.min(), column.max()) == (low, high)
        assert column.mean() == pytest.approx((low + high) / 2, rel=0.02)
    np.testing.assert_array_equal(jobs.deadline_us, jobs.arrival_us + jobs.run_us)
    again = generate(PaperParams(jobs=20_000, gap_s=LOADS["high"], floor_s=10), seed=1)
    np.testing.assert_array_equal(again.run_us, jobs.run_us)
    other = generate(PaperParams(jobs=20_000, gap_s=LOADS["high"], floor_s=10), seed=2)
    assert (other.run_us != jobs.run_us).any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue": "lifo"},
        {"deadlines": "maybe"},
        {"tolerance_s": -1},
        {"tolerance_s": float("nan")},
        {"hybrid_factor": 0.9},
        {"grace_s": -2},
        {"patience": 1.01},
        {"patience": float("nan")},
    ],
)
def test_wrong_options_name_themselves(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Options(**wrong)  # type: ignore[arg-type]


def test_an_unknown_policy_is_named_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInput, match="'best' is none of ff, gio"):
        run(ONE, workload((0, 1, 1, 1, 1)), "best")


def test_tenure_admits_by_planning_on_a_copy() -> None:
    # the second is promised what the third would need: it is refused, and the second is in time
    jobs = workload((0, 1, 4, 100, 101), (1, 1, 4, 50, 160), (2, 1, 4, 50, 158))
    result = run(ONE, jobs, "tenure", Options(deadlines="admit", grace_s=0))
    assert [result.fate(k) for k in range(3)] == ["finished", "finished", "refused"]
    assert "tenure" in Policies().policies()
    assert run(ONE, workload((0, 1, 1, 1, 1)), "gio").summary()["patience"] is None


def test_nothing_finished_has_no_means() -> None:
    summary = run(ONE, workload((0, 9, 1, 1, 1))).summary()
    assert (summary["finished"], summary["rejected"], summary["cost_usd"]) == (0, 1, 0)
    assert summary["mean_duration_s"] is summary["decision_us_mean"] is None
    assert summary["deadline_met_ratio"] == 0


def test_an_always_on_node_costs_until_the_last_job_ends() -> None:
    cluster = Cluster.of([replace(node("n"), is_always_on=True)])
    result = run(cluster, workload((5, 1, 1, 10, 99), (100, 1, 1, 10, 999)))
    assert [(s.on_us, s.off_us) for s in result.spans] == [(0, 110 * US)]


def test_the_largest_numbers_stay_within_64_bits() -> None:
    ten_years_s = 320_000_000.0
    cloud = Cluster.of([replace(node("c", "cloud"), price_nano_per_h=10_000 * 10**9)])
    jobs = workload((ten_years_s, 1, 1, ten_years_s, ten_years_s))
    result = run(cloud, jobs, "exact", Options(hybrid_factor=1.3, tolerance_s=1e9))
    on_s = int(ten_years_s * 1.3)
    assert result.total_nano == result.cost_nano[0] == 10_000 * 10**9 * on_s // 3600
    assert jobs.hybrid_us(1000.0)[0] == 1000 * 320_000_000 * US
