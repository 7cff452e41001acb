"""As what a running container is sampled, and whose CPU use that becomes."""

from __future__ import annotations

from dataclasses import replace

from tenure.daemon.effects.hands import target_of
from tenure.model.facts import LABEL_FLEET
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.profiling.intake.intake import Intake, Target
from tenure.profiling.readings.sample import Reading
from tests.unit.core.bench import shown
from tests.unit.core.lender import lender, stage


def test_what_tasks_of_batches_use_is_kept_by_task_with_the_cores_that_they_ask_for() -> None:
    bench = lender()
    bench.lend("b", stage(count=1, request=Resources(500, 64 * MIB)))
    create = bench.run()
    target = bench.read(target_of, shown(create, "e0", "running"))
    assert target == Target("e0", "executor", "b/0", "b", reserved_m=500)
    intake = Intake()
    for second in (1, 2):
        seen = Reading(second * US, second * 250_000_000, MIB, 0, 0)
        intake.take(create.node, [target], {"e0": seen})
    ((use,), _) = intake.spent()
    assert (use.node, use.container) == (create.node, "b/0")
    assert (use.cpu_us, use.reserved_us) == (250_000, 500 * US)


def test_what_another_fleet_runs_is_foreign() -> None:
    bench = lender()
    bench.lend("b")
    facts = shown(bench.run(), "e0", "running")
    other = replace(facts, labels={**facts.labels, LABEL_FLEET: "another"})
    assert bench.read(target_of, other) == Target("e0", "foreign")
