"""What the ledger keeps for energy: boots, watts, cores, and since when a node is known."""

from __future__ import annotations

from dataclasses import replace

from tenure.daemon.answers.energy import pasts_of
from tenure.model.effects import ProbePower
from tenure.model.events import EffectEnded, NodeConnected
from tenure.model.facts import EngineFacts
from tenure.model.ledger import Interval
from tenure.model.node import NodeSpec, Power, PowerSpec
from tenure.model.outcome import Done, Refused
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.unit.core.bench import SIZE, Bench

FIXED = NodeSpec("fixed", "tcp://10.0.0.1:2375", "nursery", power=PowerSpec(idle_w=80, peak_w=160))
DRIVER = PowerSpec("command", ("on",), ("off",), ("status",), idle_w=100, peak_w=200, off_w=5)
CLOUD = NodeSpec("cloud", "tcp://10.0.0.2:2375", "young", capacity=SIZE, power=DRIVER)


def rows(bench: Bench, node: str) -> list[Interval]:
    return [row for row in bench.tables.intervals.values() if row.node == node]


def probed(bench: Bench, word: str) -> None:
    """Answer the latest probe."""
    probe = [effect for effect in bench.effects if isinstance(effect, ProbePower)][-1]
    bench.say(EffectEnded(at_us=0, effect=probe.id, outcome=Done(word)))


def booting(bench: Bench) -> Interval:
    """Have the cloud node, off so far, switched on by a job that the fixed node has no room for."""
    bench.configure(replace(CLOUD))
    probed(bench, "off")
    bench.submit("job")
    (row,) = rows(bench, "cloud")
    return row


def test_a_node_that_is_never_switched_is_on_from_its_registration() -> None:
    bench = Bench()
    bench.configure(replace(FIXED, reserve=Resources(cpu_m=500)))
    known = bench.tables.nodes["fixed"].known_us
    (row,) = rows(bench, "fixed")
    assert (row.on_us, row.boot_us, row.cpu_m) == (known, 0, 0)
    bench.connect("fixed")
    (row,) = rows(bench, "fixed")
    assert (row.boot_us, row.idle_w, row.peak_w) == (0, 80, 160)
    assert row.cpu_m == SIZE.cpu_m, "what is kept for the machine is a part of what draws power"


def test_a_boot_lasts_until_the_engine_answers_and_the_command_has_ended() -> None:
    bench = Bench()
    row = booting(bench)
    assert (row.boot_us, bench.tables.nodes["cloud"].power) == (None, Power.BOOTING)
    bench.end(bench.open("power"))
    bench.connect("cloud")
    (on,) = rows(bench, "cloud")
    assert on.boot_us is not None
    assert on.on_us + on.boot_us == bench.tables.nodes["cloud"].power_since_us
    assert on.boot_us >= 2 * US
    assert on.cpu_m == SIZE.cpu_m


def test_a_boot_that_failed_never_ended() -> None:
    bench = Bench()
    booting(bench)
    bench.end(bench.open("power"), Refused("power_failed", "no such machine"))
    probed(bench, "off")
    (row,) = rows(bench, "cloud")
    assert row.off_us is not None
    assert row.boot_us is None


def test_other_watts_begin_a_new_interval() -> None:
    bench = Bench()
    bench.configure(FIXED)
    bench.connect("fixed")
    bench.configure(replace(FIXED, power=PowerSpec(idle_w=90, peak_w=160)))
    old, new = rows(bench, "fixed")
    assert (old.off_us, old.idle_w) == (new.on_us, 80)
    assert (new.off_us, new.idle_w, new.boot_us, new.cpu_m) == (None, 90, 0, SIZE.cpu_m)


def test_an_interval_of_a_version_that_kept_no_watts_ends_when_the_configuration_is_read() -> None:
    """The node is configured as before: its open interval, of years, would never have watts."""
    bench = Bench()
    bench.configure(FIXED)
    bench.connect("fixed")
    (row,) = rows(bench, "fixed")
    bench.records["intervals"][row.id] = replace(row, idle_w=0.0, peak_w=0.0, cpu_m=0)
    bench.restart()
    bench.configure(FIXED)
    old, new = rows(bench, "fixed")
    assert (old.off_us, old.idle_w) == (new.on_us, 0)
    assert (new.off_us, new.idle_w, new.peak_w, new.cpu_m) == (None, 80, 160, SIZE.cpu_m)
    bench.configure(FIXED)
    assert len(rows(bench, "fixed")) == 2


def test_other_cores_begin_a_new_interval() -> None:
    """What it drew with two cores is no other for having four since its restart."""
    bench = Bench()
    bench.configure(FIXED)
    bench.connect("fixed")
    bench.connect_again("fixed")
    assert len(rows(bench, "fixed")) == 1
    facts = EngineFacts("id-fixed", replace(SIZE, cpu_m=2 * SIZE.cpu_m))
    bench.say(NodeConnected(at_us=0, node="fixed", facts=facts))
    old, new = rows(bench, "fixed")
    assert (old.off_us, old.cpu_m) == (new.on_us, SIZE.cpu_m)
    assert (new.off_us, new.cpu_m, new.boot_us) == (None, 2 * SIZE.cpu_m, 0)


def test_the_past_of_nodes_that_are_there_and_of_forgotten_ones() -> None:
    bench = Bench()
    bench.configure(FIXED, CLOUD)
    bench.connect("fixed")
    probed(bench, "off")
    bench.configure(CLOUD)
    assert "fixed" not in bench.tables.nodes
    cloud, fixed = bench.read(pasts_of)
    assert (cloud.name, cloud.off_w, cloud.intervals, cloud.is_known) == ("cloud", 5, [], True)
    assert cloud.known_us > 0
    assert (fixed.name, fixed.generation, fixed.is_known) == ("fixed", "nursery", False)
    assert len(fixed.intervals) == 1
