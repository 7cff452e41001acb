"""A manual run whose worker died stayed claimed for ever, and its cycle never ran again."""

from __future__ import annotations

from tenure.model.plan import RunState
from tests.regression.acts import claim_run, wait
from tests.unit.core.bench import Bench, node


def test_it_fails_in_time() -> None:
    bench = Bench(node("a", "nursery"))
    run = claim_run(bench)
    wait(bench, 100)
    assert bench.tables.runs[run].state is RunState.CLAIMED
    wait(bench, 40)
    assert bench.tables.runs[run].state is RunState.FAILED
