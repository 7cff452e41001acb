"""Stages without an estimate: what nobody knows, and what batches of the same names taught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.model.batch import BatchSpec, StageSpec
from tenure.model.events import SubmitBatch
from tenure.model.outcome import Done
from tenure.model.units import MIB, US
from tests.unit.core.lender import Lender, lender, lends, stage

UNSTATED: dict[str, Any] = {"run_us": 0, "output_ratio": -1.0}


def again(bench: Lender, *stages: StageSpec) -> tuple[StageSpec, ...]:
    """Return the stages of another batch of the same name, as accepted."""
    bench.say(SubmitBatch(at_us=0, request="c", batch="c", spec=BatchSpec("b", stages)))
    accepted = bench.batch("c").spec.stages
    return tuple(accepted)


def run(bench: Lender, index: int, took_us: int, put_out: int = 0) -> None:
    create = bench.run(index)
    begun = bench.now_us
    bench.now_us += took_us
    ends = {"started_us": begun, "finished_us": begun + took_us}
    bench.exit(index, create, 0, **ends)
    bench.end(bench.open_of("collect", index), Done(moved_bytes=put_out))


def test_of_a_stage_that_nobody_knows_a_time_is_assumed() -> None:
    bench = lender()
    (first,) = again(bench, stage(**UNSTATED))
    assert (first.run_us, first.source) == (bench.params.runtime_us, "unknown")
    assert first.output_ratio == 1.0
    bounded = lender()
    (first,) = again(bounded, stage(max_runtime_us=9 * US, **UNSTATED))
    assert (first.run_us, first.source) == (9 * US, "unknown")


def test_what_is_stated_stands() -> None:
    (first,) = again(lender(), stage(output_ratio=0.5))
    assert (first.run_us, first.output_ratio, first.source) == (10 * US, 0.5, "given")


def test_a_batch_teaches_the_next_of_its_name() -> None:
    bench = lender()
    maps = stage("map", 2, partitions=1, chunk_bytes=MIB, **UNSTATED)
    reduces = stage("reduce", 1, after=("map",), shuffle="map", **UNSTATED)
    bench.lend("b", maps, reduces)
    run(bench, 0, 40 * US, MIB // 4)
    run(bench, 1, 20 * US, MIB // 4)
    run(bench, 2, 7 * US)
    assert bench.batch().state == "succeeded"
    first, second = again(bench, maps, reduces)
    assert (first.run_us, first.source) == (36 * US, "learned"), "the mean, and a fifth for safety"
    assert first.output_ratio == 0.25
    assert second.run_us == round(7 * 1.2 * US)


def test_twice_the_input_takes_no_less_than_twice_as_long_until_it_was_seen() -> None:
    bench = lender()
    bench.lend("b", stage(chunk_bytes=MIB, **UNSTATED))
    run(bench, 0, 10 * US)
    (first,) = again(bench, stage(chunk_bytes=2 * MIB, **UNSTATED))
    assert first.run_us == 24 * US


def test_times_are_those_of_a_node_of_speed_one() -> None:
    bench = lender(replace(lends("n"), speed=2.0))
    bench.lend("b", stage(**UNSTATED))
    run(bench, 0, 10 * US)
    (first,) = again(bench, stage(**UNSTATED))
    assert first.run_us == 24 * US


def test_other_names_are_other_stages() -> None:
    bench = lender()
    bench.lend("b", stage(**UNSTATED))
    run(bench, 0, 10 * US)
    (first,) = again(bench, stage("other", **UNSTATED))
    assert first.source == "unknown"


def test_a_task_whose_node_is_gone_is_left_out_of_the_mean() -> None:
    bench = lender()
    bench.lend("b", stage(count=2, **UNSTATED))
    run(bench, 0, 10 * US)
    bench.tables.nodes.drop(bench.task(0).node)
    run(bench, 1, 30 * US)
    learned = bench.tables.apps["b/map"].local
    assert [one.taken_us for one in learned] == [30 * US]
