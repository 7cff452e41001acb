"""Idempotency keys: one key, one job, the first answer again."""

from __future__ import annotations

from tenure.model.errors import Problem
from tenure.model.units import US
from tests.unit.core.bench import Bench, node

DAY_US = 24 * 3600 * US


def ready() -> Bench:
    bench = Bench(node("a"))
    bench.connect("a")
    return bench


def test_the_same_key_gives_the_same_job_also_after_a_restart() -> None:
    bench = ready()
    first = bench.submit("j1", key="k", fingerprint="f", name="one")
    again = bench.submit("j2", key="k", fingerprint="f", name="one")
    bench.restart()
    after = bench.submit("j3", key="k", fingerprint="f", name="one")
    assert [first.id, again.id, after.id] == ["j1", "j1", "j1"]
    assert len(bench.tables.jobs) == 1


def test_the_same_key_with_other_words_is_a_conflict() -> None:
    bench = ready()
    bench.submit("j1", key="k", fingerprint="f", name="one")
    answer = bench.submit("j2", key="k", fingerprint="g", name="two")
    assert isinstance(answer, Problem)
    assert (answer.code, answer.status) == ("idempotency_conflict", 409)
    assert "j2" not in bench.tables.jobs


def test_a_key_is_free_again_after_a_day() -> None:
    bench = ready()
    bench.submit("j1", key="k", fingerprint="f", name="one")
    bench.now_us += DAY_US
    assert bench.submit("j2", key="k", fingerprint="g", name="two").id == "j2"


def test_a_refusal_is_not_remembered() -> None:
    bench = ready()
    assert isinstance(bench.submit("j1", key="k", fingerprint="f", executors=99), Problem)
    assert bench.submit("j2", key="k", fingerprint="f").id == "j2"
