"""Nodes go off when empty, and only then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.locality.localizer import Tiers
from tenure.model.effects import ProbePower, Relist, Reply, SwitchPower
from tenure.model.events import (
    Configured,
    EffectEnded,
    Event,
    NodeConnected,
    NodeListed,
    PowerNode,
    Started,
    Tick,
)
from tenure.model.facts import AGENT_NAME, LABEL_AGENT, ContainerFacts, EngineFacts
from tenure.model.node import NodeSpec, Power, PowerSpec
from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.placement.policies import Policies

GRACE_US = 10 * US
SPEC = NodeSpec(
    "n1",
    "tcp://h:1",
    "young",
    capacity=Resources(1000, 1 << 30),
    power=PowerSpec(driver="command", boot_us=US),
)


class Fleet:
    """One switchable node that is on, with a clock."""

    def __init__(self, spec: NodeSpec = SPEC) -> None:
        self.state = FleetState(Params(grace_us=GRACE_US, min_on={}), Policies, localizer=Tiers())
        self.now_us = US
        self.effects: list[object] = []
        self.send(Started(at_us=self.now_us))
        self.send(Configured(at_us=self.now_us, nodes=(spec,)))
        probe = self.last(ProbePower)
        self.send(EffectEnded(at_us=self.now_us, effect=probe.id, outcome=Done("on")))
        facts = EngineFacts("E1", Resources(1000, 1 << 30))
        self.send(NodeConnected(at_us=self.now_us, node="n1", facts=facts))

    def send(self, event: Event) -> None:
        self.effects += self.state.handle(event)

    def last(self, kind: type[ProbePower]) -> ProbePower:
        return [effect for effect in self.effects if isinstance(effect, kind)][-1]

    def wait(self, seconds: float) -> None:
        self.now_us += round(seconds * US)
        self.send(Tick(at_us=self.now_us))

    def list(self, *containers: ContainerFacts) -> None:
        self.send(
            NodeListed(
                at_us=self.now_us, node="n1", started_us=self.now_us - 1, containers=containers
            )
        )

    @property
    def is_switched_off(self) -> bool:
        return any(isinstance(e, SwitchPower) and e.to == "off" for e in self.effects)


def test_off_when_empty() -> None:
    fleet = Fleet()
    fleet.list()
    fleet.wait(9)
    fleet.list()
    assert not fleet.is_switched_off
    fleet.wait(2)
    assert fleet.is_switched_off
    assert fleet.state.tables.nodes["n1"].power is Power.STOPPING


def test_what_is_paid_for_is_used_up() -> None:
    """With a minimum billing period of 60 s the empty node stays on, and is paid, that long."""
    fleet = Fleet(replace(SPEC, power=replace(SPEC.power, min_billing_us=60 * US)))
    fleet.list()
    for seconds in (20, 39):
        fleet.wait(seconds)
        fleet.list()
        assert not fleet.is_switched_off
    fleet.wait(2)
    fleet.list()
    assert fleet.is_switched_off


def test_a_fresh_listing_is_asked_for_first() -> None:
    fleet = Fleet()
    fleet.list()
    fleet.effects.clear()
    fleet.wait(20)
    assert not fleet.is_switched_off
    assert Relist("n1") in fleet.effects
    fleet.list()
    assert fleet.is_switched_off


def test_a_foreign_container_keeps_it_on() -> None:
    fleet = Fleet()
    foreign = ContainerFacts("c1", "somebodys", "i", "running")
    fleet.list(foreign)
    for _ in range(5):
        fleet.wait(10)
        fleet.list(foreign)
    assert not fleet.is_switched_off


def test_the_nodes_own_agent_does_not_keep_it_on() -> None:
    fleet = Fleet()
    agent = ContainerFacts("c1", AGENT_NAME, "i", "running", {LABEL_AGENT: "n1"})
    for _ in range(5):
        fleet.list(agent)
        fleet.wait(10)
    assert fleet.is_switched_off


@pytest.mark.parametrize(("name", "label"), [("other", LABEL_AGENT), (AGENT_NAME, "some.label")])
def test_what_only_looks_like_an_agent_keeps_it_on(name: str, label: str) -> None:
    fleet = Fleet()
    foreign = ContainerFacts("c1", name, "i", "running", {label: "n1"})
    for _ in range(5):
        fleet.list(foreign)
        fleet.wait(10)
    assert not fleet.is_switched_off


def test_a_person_cannot_switch_a_busy_node_off() -> None:
    fleet = Fleet()
    fleet.list(ContainerFacts("c1", "somebodys", "i", "running"))
    fleet.send(PowerNode(at_us=fleet.now_us, request="r1", node="n1", to="off"))
    assert not fleet.is_switched_off
    (refused,) = [e.value for e in fleet.effects if isinstance(e, Reply)]
    assert (refused.code, refused.detail) == (
        "not_empty",
        "node n1 is not empty: tenure node drain n1 first",
    )


def test_cost_ends_when_off_is_confirmed() -> None:
    fleet = Fleet()
    fleet.list()
    fleet.wait(9)
    fleet.list()
    fleet.wait(2)
    off = next(e for e in fleet.effects if isinstance(e, SwitchPower) and e.to == "off")
    fleet.now_us += 3 * US
    fleet.send(EffectEnded(at_us=fleet.now_us, effect=off.id, outcome=Done()))
    (interval,) = fleet.state.tables.intervals.values()
    assert interval.off_us == fleet.now_us
    assert fleet.state.tables.nodes["n1"].power is Power.OFF
