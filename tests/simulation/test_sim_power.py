"""Simulated power commands of a daemon that died act soon after its death, or never."""

from __future__ import annotations

from random import Random

import pytest

from tenure.model.effects import SwitchPower
from tenure.model.node import NodeSpec, PowerSpec
from tenure.model.outcome import Outcome
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.fleet.faults import Faults
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.power import SimPower
from tests.fleet.story import Story
from tests.fleet.timeline import Timeline

#: A late command acts at most this long after it was given: it is given up, then comes late.
MOST_US = 45 * US


class Nobody:
    """A witness of a machine without containers."""

    def started(self, container: SimContainer, *, how: str) -> None:
        raise AssertionError("there is no container")

    def changed(self, container: SimContainer, what: str) -> None:
        raise AssertionError("there is no container")

    def reach_changed(self, machine: Machine) -> None:
        pass


def is_on_after_deaths(seed: int, *deaths_s: float) -> bool:
    """Whether a host is on in the end that was told to go off, late, by a daemon that died."""
    timeline = Timeline(0)
    faults = Faults(Random(seed), Story(0), is_calm=False)
    faults.rates = {"power_late": 1.0}
    power = SimPower(timeline, faults)
    machine = Machine("a", timeline, Nobody(), Resources(1000, MIB))
    spec = NodeSpec("a", "tcp://a", "young", power=PowerSpec("command", boot_us=US))
    power.add(machine, spec)
    ended: list[Outcome] = []
    power.switch(SwitchPower("e1", "power:a", "a", "off"), ended.append)
    for death_s in deaths_s:
        timeline.at(int(death_s * US), power.daemon_died)
    while timeline.step(MOST_US):
        pass
    return machine.is_powered


@pytest.mark.parametrize("seed", range(20))
def test_a_command_of_a_living_daemon_acts_late(seed: int) -> None:
    assert not is_on_after_deaths(seed)


@pytest.mark.parametrize("seed", range(20))
def test_no_command_acts_long_after_its_daemon_died(seed: int) -> None:
    # it comes 20 to 40 seconds after it was given, and its daemon is dead for longer than 19
    assert is_on_after_deaths(seed, 0.5)


@pytest.mark.parametrize("seed", range(20))
def test_the_death_of_the_next_daemon_gives_it_no_more_time(seed: int) -> None:
    assert is_on_after_deaths(seed, 0.5, 15, 30, 39)
