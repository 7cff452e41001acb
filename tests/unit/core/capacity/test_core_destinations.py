"""Destinations for what leaves a node: every answer is what the filters say node by node."""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tenure.core.capacity import room
from tenure.core.capacity.destinations import Destinations, NoDestination
from tenure.core.lifecycle import drain_plan
from tenure.model.container import ContainerState, Service
from tenure.model.events import UsageObserved
from tenure.model.node import Power, Reach, Scheduling
from tenure.model.resources import Resources, exhausted
from tenure.model.units import MIB
from tests.unit.core.bench import IMAGE, SIZE, Bench, node

SOURCE = "n000"


def fleet(nodes: int, services: int, dice: Random) -> Bench:
    """Return nodes in all states, with services on some, half of them on the first."""
    bench = Bench(*[node(f"n{i:03}", driver="command") for i in range(nodes)])
    records, foreign = [], {}
    for record in list(bench.tables.nodes.values()):
        records.append(
            replace(
                record,
                power=dice.choice((Power.ON, Power.ON, Power.ON, Power.OFF, Power.BOOTING)),
                reach=dice.choice((Reach.OK, Reach.OK, Reach.UNREACHABLE)),
                scheduling=dice.choice((Scheduling.YES, Scheduling.YES, Scheduling.CORDONED)),
                images=dice.choice(((), (IMAGE,), ("other:1",))),
                capacity=dice.choice((SIZE, replace(SIZE, net_bytes_per_s=100))),
            )
        )
        foreign[record.name] = Resources(dice.randrange(2500), dice.randrange(1200) * MIB)
    bench.say(UsageObserved(at_us=0, foreign=foreign))
    for record in records:
        bench.store(record)
    for i in range(services):
        at = SOURCE if i % 2 else f"n{dice.randrange(nodes):03}"
        bench.store(_service(f"{i + 1:064x}", at, dice))
    return bench


def _service(key: str, at: str, dice: Random) -> Service:
    port = dice.choice(("", "", "80", "81"))
    body: dict[str, Any] = {"Image": IMAGE}
    if port:
        body["HostConfig"] = {"PortBindings": {"80/tcp": [{"HostPort": port}]}}
    need = Resources(dice.randrange(600), dice.randrange(300) * MIB, 0, dice.choice((0, 60)))
    return Service(
        id=key,
        name=key[-4:],
        app="x",
        body=body,
        generation="young",
        request=need,
        created_us=1,
        node=at,
        state=ContainerState.RUNNING,
        is_pullable=dice.random() < 0.3,
    )


def codes(bench: Bench, service: Service) -> dict[str, str]:
    """Return what keeps a service from each other node, asked one by one."""
    found = {}
    for record in bench.tables.nodes.values():
        if record.name == SOURCE:
            continue
        code = bench.read(room.drop_for, service, record)
        need, free = bench.read(room.need_of, service), bench.read(room.free_on, record)
        short = exhausted(need, free, record.capacity)
        found[record.name] = code or (f"no_room_{short[0]}" if short else "")
    return found


@pytest.mark.parametrize("seed", range(60))
def test_it_says_what_the_filters_say(seed: int) -> None:
    dice = Random(seed)
    bench = fleet(dice.randrange(2, 14), dice.randrange(4, 40), dice)
    destinations = bench.read(Destinations, SOURCE)
    here = [one for one in bench.tables.services.values() if one.node == SOURCE]
    for service in sorted(here, key=lambda one: one.id):
        due = codes(bench, service)
        fits = {name for name, code in due.items() if not code}
        destination = destinations.find(service, "young", ())
        if isinstance(destination, NoDestination):
            assert not fits
            assert destination.nodes == len(due)
            assert dict(destination.told) == {name: due[name] for name in sorted(due)[:10]}
            assert bool(destination.short) == any(
                code.startswith("no_room") for code in due.values()
            )
            continue
        assert destination.node in fits
        assert destination.count == len(fits)
        is_on = {name for name in fits if bench.tables.nodes[name].power is Power.ON}
        assert destination.node in (is_on or fits)
        # what the plan gave away is what a service there would take
        bench.store(replace(service, node=destination.node))


def test_a_plan_asks_about_nodes_once_not_for_each_container() -> None:
    dice = Random(1)
    bench = fleet(300, 0, dice)
    for i in range(100):
        service = _service(f"{i + 1:064x}", SOURCE, dice)
        bench.store(replace(service, is_pullable=False))
    source = bench.store(
        replace(bench.tables.nodes[SOURCE], power=Power.ON, reach=Reach.OK, images=(IMAGE,))
    )
    bench.read(drain_plan.plan, source, {})  # what is kept between plans is there
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        plan = bench.read(drain_plan.plan, source, {})
    finally:
        sys.setprofile(None)
    assert len(plan.moves) + len(plan.blockers) == 100
    assert calls < 100_000  # 1,300,000 where each container asks each node
