"""The usual patience on drawn workloads: cheaper than ``exact``, and hardly longer in the mean."""

from __future__ import annotations

import pytest

from tenure.simulation import Options, read_cluster, simulate
from tenure.simulation.sla.generator import PaperParams, generate
from tests.simulation.build import EXAMPLES

#: Where waiting pays most: local room is scarce, and the cloud four times as dear.
CELLS = {
    "light load, small cluster": ("small", PaperParams(jobs=600, gap_s=100), (1, 2)),
    "with ten seconds added": ("small", PaperParams(jobs=600, gap_s=100, floor_s=10), (1, 2)),
    "high load, large cluster": ("large", PaperParams(jobs=2000, gap_s=5), (1,)),
    "less load, large cluster": ("large", PaperParams(jobs=2000, gap_s=7), (1,)),
}


@pytest.mark.computes
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CELLS)
def test_the_usual_patience_costs_little_time(name: str) -> None:
    size, params, seeds = CELLS[name]
    for seed in seeds:
        load, options = generate(params, seed=seed), Options(tolerance_s=1000)
        for pricing in ("1", "4"):
            nodes = read_cluster(EXAMPLES / f"{size}.yml", pricing)
            ours = simulate(nodes, load, "tenure", options)
            exact = simulate(nodes, load, "exact", options)
            assert ours.mean_duration_s is not None
            assert exact.mean_duration_s is not None
            assert ours.mean_duration_s <= 1.05 * exact.mean_duration_s, (seed, pricing)
            assert ours.total_nano < exact.total_nano, (seed, pricing)
            assert ours.met >= exact.met, (seed, pricing)
