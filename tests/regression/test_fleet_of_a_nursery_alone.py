"""A fleet whose nodes are all in the first generation refused every job, without the reason."""

from __future__ import annotations

from tenure.core.state.params import Params
from tenure.model.job import JobState
from tests.unit.core.bench import Bench, node


def test_a_job_runs_in_the_nursery_where_there_is_nothing_else() -> None:
    bench = Bench(node("a", "nursery"), params=Params(min_on={}, is_nursery_alone=True))
    bench.connect("a")
    bench.submit("j")
    assert bench.tables.jobs["j"].state is JobState.STARTING


def test_and_nowhere_else() -> None:
    bench = Bench(node("a", "nursery"), node("b", "young"))
    bench.connect("a")
    bench.connect("b")
    bench.submit("j")
    assert next(iter(bench.tables.executors.values())).node == "b"
