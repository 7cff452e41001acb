"""The simulator against the real core on simulated hosts: one policy, one cost, one queue.

A thousand jobs of two workloads go through ``FleetState``, its store, its effects and hosts that
neither fail nor dawdle, and through the policy simulator. Placements and refusals must be equal,
starts and ends within the microseconds that creating, listing and switching take there, the ledger
within what these microseconds cost. Arrivals and run times are not whole seconds, so that nothing
but equal causes happens at equal times.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tenure.model.units import US
from tenure.simulation import Options, Workload, simulate
from tenure.simulation.sla.generator import PaperParams, generate
from tests.simulation.build import small
from tests.simulation.core_run import CoreRun

JOBS = 1000
#: What hosts take for a start, or an end to be seen: at most some ten events of a microsecond.
STEP_US = 100


def uneven(params: PaperParams, seed: int) -> Workload:
    """Return a drawn workload with parts of seconds added to arrivals and run times."""
    drawn = generate(params, seed=seed)
    rng = np.random.default_rng(seed + 1000)
    arrival_us = np.sort(drawn.arrival_us + rng.integers(0, US, len(drawn)))
    run_us = drawn.run_us + rng.integers(0, 1000, len(drawn)) * 1000
    return replace(drawn, arrival_us=arrival_us, run_us=run_us, deadline_us=arrival_us + run_us)


@pytest.mark.computes
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("policy", "gap_s", "refused"), [("gio", 50.0, 20), ("ff", 25.0, 100), ("tenure", 50.0, 20)]
)
def test_core_and_simulator_agree(policy: str, gap_s: float, refused: int) -> None:
    workload = uneven(PaperParams(jobs=JOBS, gap_s=gap_s), seed=7)
    # the daemon's way: EDF, the admission test, empty nodes off once nobody waits
    options = Options(queue="edf", deadlines="admit", tolerance_s=300, grace_s=0)
    simulated = simulate(small(), workload, policy, options, compiled=False)
    core = CoreRun(small(), workload, policy, options)
    done = core.run()
    assert core.refused == set(np.flatnonzero(~simulated.has_run).tolist())
    assert len(core.refused) >= refused, "the workload must put the admission test to work"
    for k, job in done.items():
        assert job.placements == dict(simulated.placements[k]), k
        assert abs(job.start_us - int(simulated.start_us[k])) <= STEP_US, k
        assert abs(job.end_us - int(simulated.end_us[k])) <= STEP_US, k
    assert core.cost_nano() == pytest.approx(simulated.total_nano, rel=1e-6)
