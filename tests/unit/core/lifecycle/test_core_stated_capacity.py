"""A node's capacity: stated whole, in part, or not at all."""

from __future__ import annotations

from dataclasses import replace

from tenure.model.events import Configured
from tenure.model.node import NodeSpec
from tenure.model.resources import Resources
from tenure.model.units import MIB
from tests.unit.core.bench import SIZE, Bench, node

CORES = replace(node("a"), capacity=Resources(1500, 0), reserve=Resources(500, 24 * MIB))


def has(bench: Bench) -> tuple[int, int]:
    found = bench.tables.nodes["a"].capacity
    return found.cpu_m, found.memory_bytes


def configured(bench: Bench, spec: NodeSpec) -> tuple[int, int]:
    bench.say(Configured(at_us=0, nodes=(spec,)))
    return has(bench)


def test_what_is_not_stated_its_engine_tells() -> None:
    bench = Bench(CORES)
    assert not bench.tables.nodes["a"].is_sized, "nobody knows its memory yet"
    bench.connect("a")
    assert has(bench) == (1000, SIZE.memory_bytes - 24 * MIB)
    assert bench.tables.nodes["a"].is_sized


def test_a_new_statement_keeps_what_the_engine_told() -> None:
    bench = Bench(CORES)
    bench.connect("a")
    more = replace(CORES, capacity=Resources(1700, 0))
    assert configured(bench, more) == (1200, SIZE.memory_bytes - 24 * MIB)
    memory = replace(CORES, capacity=Resources(0, 512 * MIB))
    assert configured(bench, memory) == (1200, 488 * MIB), "cores as before"


def test_of_a_node_that_nobody_asked_a_smaller_reserve_tells_nothing() -> None:
    bench = Bench(CORES)
    assert configured(bench, replace(CORES, reserve=Resources())) == (1500, 0)
    assert not bench.tables.nodes["a"].is_sized
