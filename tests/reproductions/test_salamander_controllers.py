"""Fig. 5's question on made traces: throttling where Cuckoo kills."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reproductions.salamander.controllers import compare, cuckoo
from reproductions.salamander.replay import Batch, Course, Host
from tenure.model.qos import QosParams
from tenure.model.resources import Resources

GIB = 1 << 30
NODE = Resources(16_000, 64 * GIB)
PARAMS = QosParams(cpu_margin=0.05, memory_margin=0.05)
BATCH = Batch(maps=60, reduces=4, task_memory_bytes=7 * GIB // 2)


def host(cpu: list[int], memory: list[int] | None = None) -> Host:
    return Host(NODE, cpu, memory or [8 * GIB])


def wave(phase: float) -> list[int]:
    """Return a use that swings between a tenth and nine tenths of a host in half an hour."""
    return [round(8000 + 6400 * math.sin(phase + 2 * math.pi * n / 10)) for n in range(10)]


def test_on_idle_hosts_both_are_alike_and_as_fast_as_the_cores() -> None:
    """The margin leaves 15 cores a host: two waves of 35 s, then reduces of 70 s."""
    found = compare([host([0]), host([0])], replace(BATCH, task_memory_bytes=GIB), PARAMS)
    for one in found.values():
        assert one.duration_s is not None
        assert 140 <= one.duration_s <= 180
    # 20 slots on 16 cores: the old one ends what is beyond its limit, the new one holds it back
    assert found["cuckoo"].kills == found["cuckoo"].kills_for_cpu > 0 == found["salamander"].kills


def test_load_of_owners_is_throttled_by_one_and_kills_under_the_other() -> None:
    batch = replace(BATCH, task_memory_bytes=GIB)
    found = compare([host(wave(0)), host(wave(2)), host(wave(4))], batch, PARAMS)
    old, new = found["cuckoo"], found["salamander"]
    assert new.kills == 0
    assert old.kills_for_cpu == old.kills > 0
    assert old.relaunched_ratio == old.kills / 64
    assert new.duration_s is not None


def test_memory_kills_under_both() -> None:
    rising = [8 * GIB] + [40 * GIB] * 50
    found = compare([host([0], rising)], replace(BATCH, map_core_s=200), PARAMS)
    assert all(one.kills > 0 for one in found.values())
    assert all(one.kills_for_cpu == 0 for one in found.values())


def test_a_batch_that_is_not_done_says_so() -> None:
    full = host([16_000], [64 * GIB])
    found = cuckoo([full], BATCH, PARAMS, Course(limit_s=60))
    assert (found.duration_s, found.kills) == (None, 0)


@pytest.mark.parametrize("controller", ["cuckoo", "salamander"])
def test_it_is_the_same_each_time(controller: str) -> None:
    params = replace(PARAMS, controller=controller)
    hosts = [host(wave(0)), host(wave(3))]
    assert cuckoo(hosts, BATCH, params) == cuckoo(hosts, BATCH, params)
