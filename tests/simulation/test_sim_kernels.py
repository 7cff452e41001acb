"""Every placement of a simulation is a decision of the product's kernels, and of nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tenure.placement.binding import bind
from tenure.placement.decisions.decide import NO_ROOM, decide
from tenure.placement.names import POLICIES
from tenure.placement.queue.replay import replay
from tenure.simulation import Options, simulate
from tenure.simulation.sla import run
from tenure.simulation.sla.generator import PaperParams, generate
from tests.simulation.build import small

JOBS = generate(PaperParams(jobs=40, gap_s=30), seed=1)


#: Every decision that was asked for: policy, verdict, executors per node.
ASKED: list[tuple[int, int, Any]] = []


def noting(policy: int, fleet: Any, need: Any) -> Any:
    verdict, counts = decide(policy, fleet, need)
    ASKED.append((policy, verdict, counts))
    return verdict, counts


def never(policy: int, fleet: Any, need: Any) -> Any:
    return NO_ROOM, np.zeros(fleet.price.shape[0], dtype=np.int64)


def _instead(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Have the event loop ask ``function`` in the place of ``decide``."""
    loop = bind(replay, {decide: function})
    monkeypatch.setattr(run, "loop_for", lambda policy, compiled: loop)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_placed_is_what_was_decided(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _instead(monkeypatch, noting)
    ASKED.clear()
    result = simulate(small(), JOBS, policy, compiled=False)
    names = [node.name for node in small().nodes]
    decided = [
        {names[j]: int(counts[j]) for j in np.flatnonzero(counts)}
        for code, verdict, counts in ASKED
        if verdict > 0 and POLICIES[code] == policy
    ]
    order = np.argsort(result.placed_us, kind="stable")
    placed = [dict(result.placements[k]) for k in order if result.has_run[k]]
    assert placed == decided


def test_where_the_kernels_find_no_room_nothing_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    _instead(monkeypatch, never)
    assert simulate(small(), JOBS, "gio", compiled=False).finished == 0


def test_milp_decides_where_it_is_asked_to_and_costs_what_exact_does() -> None:
    pytest.importorskip("scipy")
    first = simulate(small(), JOBS.first(1), "milp", compiled=False)
    assert first.total_nano == simulate(small(), JOBS.first(1), "exact", compiled=False).total_nano
    result = simulate(small(), JOBS, "milp", compiled=False)
    assert result.finished == len(JOBS)
    assert result.policy == "milp"
    admitted = simulate(
        small(), JOBS, "milp", Options(deadlines="admit", tolerance_s=500), compiled=False
    )
    assert admitted.finished > 0
    assert admitted.met == admitted.finished
