"""A restart policy came after a move had disarmed its source, which was revived.

It was a restore's, or that of the move before, whose call had timed out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.lifecycle import restore
from tenure.core.services.services import body_of
from tenure.model.container import Step
from tenure.model.events import Configured, NodeConnected, SubmitPlan, Tick
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.plan import CycleSpec, Move, Plan
from tenure.model.units import US
from tests.regression.acts import ALWAYS, PUBLISHED, begin_move, run_service, the_move, wait
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown
from tests.unit.core.lifecycle.test_core_cycle_runs import NODES, Cycle


def running(bench: Bench, service: Any) -> ContainerFacts:
    turn, policy = service.incarnation, service.restart_policy
    body = bench.read(body_of, service, turn, policy)
    return ContainerFacts(service.engine_id, service.name, IMAGE, "running", body["Labels"])


def test_a_move_waits_for_the_policy_that_its_source_is_given() -> None:
    cycle = Cycle()
    bench, key = cycle.bench, cycle.services[0]
    one = bench.tables.services[key]
    host = {"HostConfig": {"RestartPolicy": {"Name": "always"}}}
    bench.records["services"][key] = replace(one, body=one.body | host)
    meta = bench.records["meta"]
    meta["meta"] = restore.marked(meta["meta"], bench.now_us)
    bench.restart()
    spec = CycleSpec("up", "nursery", "young", max_moves=1)
    bench.say(Configured(at_us=0, nodes=NODES, cycles=(spec,)))
    for name in ("n", "a", "b"):
        facts = EngineFacts(f"id-{name}", SIZE, images=(IMAGE,))
        bench.say(NodeConnected(at_us=0, node=name, facts=facts))
        here = [s for s in bench.tables.services.values() if s.node == name]
        bench.listed(name, *(running(bench, service) for service in here))
    policy = bench.open("restart_policy")
    turn = bench.tables.services[key].incarnation
    plan = Plan("up@1", "nursery", 0, bench.now_us + 60 * US, (Move(key, turn, "n", "a", ""),))
    bench.say(SubmitPlan(at_us=0, request="p", plan=plan))
    (move,) = bench.tables.migrations.values()
    assert move.step == "queued"
    bench.end(policy, Done())
    bench.say(Tick(at_us=0), after_us=5 * US)
    (move,) = bench.tables.migrations.values()
    assert move.step == "create"


def moving(host: dict[str, Any], last: Outcome) -> tuple[Bench, str, Any]:
    """Return a bench with a move whose target was told to start, and how that ended."""
    bench = Bench(node("a", "nursery"), node("t"))
    bench.connect("a")
    bench.connect("t")
    key, made = run_service(bench, HostConfig=host)
    begin_move(bench, key, "a", "t")
    while the_move(bench).step is not Step.START:
        (effect,) = bench.tables.effects.values()
        made = effect if effect.kind == "create" else made
        bench.end(effect, Done("target"))
    bench.end(bench.open("start"), last)
    return bench, key, made


@pytest.mark.parametrize("host", [ALWAYS, {}], ids=["its own", "none"])
def test_the_next_move_waits_for_the_policy_that_a_source_is_given_back(
    host: dict[str, Any],
) -> None:
    bench, key, _ = moving(PUBLISHED | host, Refused("start_failed", "no"))
    for kind in ("retire", "start"):
        bench.end(bench.open(kind))
    assert the_move(bench).step is Step.UNDO_ARM
    bench.end(bench.open("restart_policy"), Unknown("timed out"))
    assert (bench.tables.services[key].late_us > bench.now_us) == (host is ALWAYS)


def test_the_next_move_waits_for_the_policy_that_a_target_is_given() -> None:
    bench, key, made = moving(ALWAYS, Done())
    wait(bench, 10)
    bench.listed("t", shown(made, "target", "running"))
    assert the_move(bench).step is Step.COMMIT
    bench.end(bench.open("restart_policy"), Unknown("timed out"))
    assert bench.tables.services[key].late_us > bench.now_us
    bench.listed("t", shown(made, "target", "running"))
    wait(bench, 10)
    for kind in ("restart_policy", "retire"):
        bench.end(bench.open(kind))
    assert the_move(bench).step is Step.DONE
    assert bench.tables.services[key].late_us > bench.now_us
