"""A container run from an image committed from one of ours was removed, or taken for ours."""

from __future__ import annotations

from dataclasses import replace

from tenure.model.container import ContainerState
from tenure.model.facts import LABEL_INCARNATION
from tests.regression.acts import effects_on, run_service
from tests.unit.core.bench import Bench, node, shown


def test_it_is_foreign() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service, made = run_service(bench)
    ours = shown(made, "engine-web", "running")
    same = replace(ours, engine_id="x", name="own")
    past = replace(same, engine_id="y", labels=ours.labels | {LABEL_INCARNATION: "0"})
    bench.listed("a", ours, same, past)
    assert effects_on(bench, "a", "stop", "retire") == []
    assert bench.tables.nodes["a"].foreign_running == 2
    bench.listed("a", replace(ours, state="exited", exit_code=1), same, past)
    assert bench.tables.services[service].state is ContainerState.EXITED


def test_one_of_ours_that_somebody_renamed_is_still_ours() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service, made = run_service(bench)
    bench.listed("a", replace(shown(made, "engine-web", "running"), name="renamed"))
    assert bench.tables.services[service].state is ContainerState.RUNNING
    assert bench.tables.nodes["a"].foreign_running == 0
