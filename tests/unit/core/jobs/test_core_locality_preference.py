"""Executors of jobs over datasets go where their blocks are fast, at no greater cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.capacity import snapshots
from tenure.core.jobs import locality_preference
from tenure.core.jobs.slow_decisions import Head
from tenure.core.state.params import Params, PrefetchParams
from tenure.core.state.work_limits import WorkLimits
from tenure.model.events import FenceNode, ScheduleNode
from tenure.model.job import Constraint
from tenure.model.node import PowerSpec
from tenure.model.outcome import Done
from tenure.model.reservation import Reservation
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.jobreaders import WIDE, Readers, library
from tests.unit.core.shelf import with_tiers

#: Policies that choose by name, or by what is free, where nodes cost the same.
AT_ONCE = ("tenure", "exact", "ff", "gio", "fifo_c")


def filled(blocks: int = 2) -> Readers:
    """Return a fleet with a block on each of two nodes, in memory of the last ones by name."""
    made = library(nodes="abcd")
    made.put("logs", blocks, replicas=1)
    made.work()
    return made


def on_last(made: Readers, nodes: str = "cd") -> None:
    """Leave copies in memory of these nodes, one block on each, and nowhere else."""
    from tenure.core.blocks import block_records
    from tenure.core.datasets import copies

    for number, name in enumerate(nodes):
        block = made.blocks("logs")[number]
        if not any(r.node == name for r in block.replicas):
            tier = made.tables.nodes[name].spec.tier("hdd")
            assert tier is not None
            made.act(copies.send, block, name, tier)
            made.work()
            block = made.blocks("logs")[number]
        assert made.act(copies.cache, block, name)
        made.work()
        block = made.blocks("logs")[number]
        for replica in block.replicas:
            if replica.node != name:
                block = block_records.without_replica(block, replica.node, replica.tier)
        made.store(block)


@pytest.mark.parametrize("policy", AT_ONCE)
def test_nodes_of_one_price_are_taken_by_tier(policy: str) -> None:
    made = filled()
    on_last(made)
    made.over("logs", 2, policy=policy, deadline_us=made.now_us + 900 * US)
    made.work()
    assert {(e.node, e.readings[0].word) for e in made.crew()} == {("c", "memory"), ("d", "memory")}
    job = made.job()
    assert job.decision.startswith(locality_preference.NEARER)
    assert f"than where {policy} had it: " in job.decision
    assert job.cost_nano == 0
    (told,) = [event for event in made.public if event.type == "job.starting"]
    assert told.data["nodes"] == {"c": 1, "d": 1}


def test_a_slow_policy_is_asked_and_its_nodes_exchanged_too() -> None:
    made = filled()
    on_last(made)
    made.over("logs", 2, policy="milp", deadline_us=made.now_us + 900 * US)
    question = next(e for e in made.effects if e.kind == "decide")
    made.end(question, Done(counts=(("a", 2),)))  # type: ignore[arg-type]
    made.work()
    assert {e.node for e in made.crew()} == {"c", "d"}
    assert made.job().decision.endswith("than where milp had it: 2 on a")


def test_jobs_without_a_dataset_stay_where_their_policy_put_them() -> None:
    made = filled()
    on_last(made)
    made.submit("plain", executors=2)
    assert made.job("plain").decision == ""
    assert {e.node for e in made.crew("plain")} == {"a"}


def priced(**prices: int) -> Readers:
    """Return nodes that are off, which cost so much an hour while they are on."""
    power = PowerSpec("command", boot_us=5 * US)
    params = Params(min_on={}, prefetch=PrefetchParams(mode="off"), grace_us=10_000 * US)
    free = [with_tiers(name, "memory", "hdd") for name, price in prices.items() if not price]
    paid = [
        replace(with_tiers(name, "memory", "hdd", price_nano_per_h=price), power=power)
        for name, price in prices.items()
        if price
    ]
    return Readers(*free, *paid, params=params)


@pytest.mark.parametrize("policy", ["tenure", "exact", "gio"])
def test_a_dearer_node_is_not_taken_for_its_tiers(policy: str) -> None:
    made = priced(a=0, b=10**9)
    for effect in [e for e in made.tables.effects.values() if e.kind == "probe"]:
        made.end(effect, Done("on"))
    made.connect("b")
    made.work()
    made.put("logs", 1, replicas=1)
    made.work()
    on_last(made, "b")
    before = made.tables.nodes["b"]
    assert before.word == "ready"
    answer = made.over("logs", 1, policy=policy)
    made.work()
    (executor,) = made.crew()
    assert executor.node == "a", "b costs something, and a nothing"
    assert made.job().decision == ""
    assert answer.admission.cost_nano == 0


def test_nobody_goes_where_it_is_not_known_what_lies_there() -> None:
    made = filled()
    on_last(made)
    made.lose("d")
    made.over("logs", 2)
    made.work()
    assert "d" not in {e.node for e in made.crew()}
    made.say(ScheduleNode(at_us=0, request="x", node="c", to="cordoned"))
    made.over("logs", 2, "k")
    assert not {"c", "d"} & {e.node for e in made.crew("k")}


WHOLE = Resources(2000, 64 * MIB)


def _lasts(seconds: int, **more: Any) -> dict[str, Any]:
    us = seconds * US
    return {"estimate_local_us": us, "estimate_hybrid_us": us, **more}


def _only(*names: str) -> dict[str, Any]:
    return {"constraints": (Constraint("name", "in", names),)}


def _busy(policy: str) -> Readers:
    """Return a fleet whose only block is in memory of b, and whose c has no room for 40 s."""
    made = library(nodes="abc")
    made.put("logs", 1, replicas=1)
    made.work()
    on_last(made, "b")
    made.submit("long", request=WHOLE, policy=policy, **_lasts(40), **_only("c"))
    return made


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_planned_start_keeps_its_room(*, is_awaited: bool) -> None:
    made = _busy("tenure")
    if is_awaited:
        wants = _lasts(10, deadline_us=made.now_us + 90 * US)
        made.submit("wide", executors=2, request=WHOLE, policy="tenure", **wants, **_only("b", "c"))
        assert dict(made.tables.reservations.get("wide").counts) == {"b": 1, "c": 1}
    made.over("logs", 1, request=WHOLE, policy="tenure", **_lasts(60))
    assert {e.node for e in made.crew()} == {"a" if is_awaited else "b"}
    assert made.job().decision.startswith(locality_preference.NEARER) is not is_awaited


@pytest.mark.parametrize("is_awaited", [False, True])
def test_who_waits_behind_is_in_time_all_the_same(*, is_awaited: bool) -> None:
    """All wait for who comes first; then the node with the block is promised to who comes last."""
    made = _busy("exact")
    made.submit("head", request=WHOLE, policy="exact", priority=2, **_lasts(5), **_only("c"))
    made.over("logs", 1, request=WHOLE, policy="exact", priority=1, **_lasts(60))
    assert made.job().state == "waiting"
    if is_awaited:
        wants = _lasts(10, deadline_us=made.now_us + 65 * US)
        made.submit("last", request=WHOLE, policy="exact", **wants, **_only("b"))
        assert made.job("last").admission.class_ == "admitted"
    (create,) = made.run("long")
    made.exit(create, 0)
    assert {e.node for e in made.crew()} == {"a" if is_awaited else "b"}
    assert made.job().decision.startswith(locality_preference.NEARER) is not is_awaited
    if is_awaited:
        assert made.crew("last")[0].node == "b"


def test_a_lost_executor_is_housed_where_its_blocks_are() -> None:
    made = library(nodes="abcd")
    made.put("logs", 2, replicas=2)
    made.work()
    made.over("logs", 2, request=WIDE)
    made.work()
    made.run()
    hit = made.crew()[0]
    (number,) = hit.blocks
    others = {node for node, _ in made.places("logs")[number]} - {hit.node}
    taken = made.crew()[1].node
    made.lose(hit.node)
    made.say(FenceNode(at_us=0, request="f", node=hit.node))
    made.wait(60)
    again = made.tables.executors[hit.key]
    assert again.attempt == 2
    assert again.node in others or others <= {taken}


def test_executors_that_are_lost_together_foresee_who_waits_no_more_often_than_one_may() -> None:
    """Each foresees all who wait twice, which takes some 10 ms: a lost node has many executors."""
    made = library(nodes="abcdef")
    made.put("logs", 6, replicas=2)
    made.work()
    small, waiting = Resources(100, MIB), 20
    made.over("logs", 6, request=small, policy="exact", **_lasts(600), **_only("b"))
    made.work()
    made.run()
    made.store(replace(made.job(), spec=replace(made.job().spec, constraints=())))
    for number in range(waiting):
        wants = _lasts(10, deadline_us=made.now_us + 5000 * US)
        made.submit(f"w{number}", executors=6, request=WHOLE, policy="exact", **wants)
    assert sum(job.state == "waiting" for job in made.tables.jobs.values()) == waiting
    made.lose("b")
    made.say(FenceNode(at_us=0, request="f", node="b"))
    assert {e.attempt for e in made.crew()} == {2}
    assert made.state_of(WorkLimits).foreseen == 3 * waiting, "as often as fits, of the six"


def test_planned_starts_are_gone_through_no_more_often_than_one_transaction_bears() -> None:
    made = _busy("tenure")
    made.over("logs", 1, policy="tenure", **_lasts(60))
    for number in range(15 * locality_preference.BOOKED):
        key, start_us = f"w{number}", made.now_us + 900 * US
        made.tables.reservations.put(
            key, Reservation(key, start_us, start_us + US, "local", (("c", 1),))
        )
    job, here = made.job(), made.read(snapshots.scene)
    ask = made.read(snapshots.ask_now, job, 1)
    quick = made.placer.recheck(here.view, ask, (("a", 1),), made.now_us)
    assert quick is not None
    made.state_of(WorkLimits).renew()
    head = Head(job, ask, here, quick)
    told = [made.read(locality_preference.choose, head).answer.counts for _ in range(5)]
    assert told == [(("b", 1),)] * (locality_preference.MOST_BEHIND // 15) + [(("a", 1),)]
