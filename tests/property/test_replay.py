"""The event loop against the admission's schedule, and compiled against plain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.model.placing import Occupied, Queued
from tenure.model.units import US
from tenure.placement.arrays import ends_of, fleet_of
from tenure.placement.names import POLICIES
from tenure.placement.policies import Policies
from tenure.placement.queue.course import Rules, open_course, open_history
from tenure.placement.queue.replay import TO_THE_END, Arrivals, replay
from tenure.simulation.sla.generator import PaperParams, generate
from tenure.simulation.sla.options import Options
from tenure.simulation.sla.run import simulate
from tests.property.test_placement import asks, fleets
from tests.simulation.build import small
from tests.unit.placement.build import N, jobs_of, view_of
from tests.unit.placement.oracles import NOW

PLAIN = Policies()
#: The schedule's reading of a fleet: strict, and a node is on at the instant of its last end.
AS_SCHEDULED = Rules(drops=False, is_strict=True, holds=False, grace_us=0)


def switched(node: N) -> N:
    """Return a node that needs a boot after it was switched off, if it ever is."""
    return node if node.remaining_s is None else replace(node, reboot_s=max(node.boot_s, 20))


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[N], list[Queued], list[Occupied]]:
    nodes = [switched(node) for node in draw(fleets())]
    view = view_of(nodes)
    queue = [
        Queued(draw(asks(view, id=f"j{k}")), draw(st.sampled_from(POLICIES)))
        for k in range(draw(st.integers(1, 6)))
    ]
    running = []
    for j, node in enumerate(nodes):
        taken = round(
            1000 * (node.cores - (node.cores if node.free_cores is None else node.free_cores))
        )
        if taken and node.remaining_s is not None:
            running.append(Occupied(j, taken, 0, NOW + round(node.remaining_s * US)))
    return nodes, queue, running


@given(queues())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_queue_that_is_there_ends_as_the_admission_foresees(
    case: tuple[list[N], list[Queued], list[Occupied]],
) -> None:
    nodes, queue, running = case
    view = view_of(nodes)
    foreseen = PLAIN.predict(view, running, queue, NOW)
    jobs = jobs_of(queue, [POLICIES.index(q.policy) for q in queue], len(nodes))
    course = open_course(fleet_of(view), ends_of(running, NOW), len(queue), NOW)
    history = open_history(course, jobs)
    arrivals = Arrivals(np.full(len(queue), NOW, dtype=np.int64), np.arange(len(queue)))
    replay(course, history, jobs, arrivals, AS_SCHEDULED, TO_THE_END)
    for k, queued in enumerate(queue):
        cast = foreseen[queued.ask.id]
        if cast is None:
            assert history.verdict[k] < 0
        else:
            found = (history.start_us[k], history.end_us[k], history.cost_nano[k])
            assert found == (cast.start_us, cast.end_us, cast.cost_nano)


@pytest.mark.computes
@pytest.mark.timeout(1800)
def test_compiled_equals_plain() -> None:
    workload = generate(PaperParams(jobs=80, gap_s=20), seed=3)
    for policy in POLICIES:
        for deadlines in ("off", "on"):
            options = Options(queue="edf", deadlines=deadlines, tolerance_s=200)
            plain = simulate(small(), workload, policy, options, compiled=False)
            fast = simulate(small(), workload, policy, options, compiled=True)
            assert fast.placements == plain.placements
            assert fast.spans == plain.spans
            np.testing.assert_array_equal(fast.end_us, plain.end_us)
            assert fast.decision_ns > 0
