"""A copy that waited for an operator had its whole cycle stand still, in all of the fleet.

Its move was open, so the run that had asked for it was under way, and every later run of that cycle
was skipped because none overlaps another. The same came of an engine that was away in mid-move.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.core.services.migration import migrations
from tenure.core.state.params import Params
from tenure.model.container import ContainerState, Step
from tenure.model.events import NodeLost, SubmitPlan
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.plan import Move, Plan, RunState
from tenure.model.units import US
from tests.regression.acts import PUBLISHED, begin_move, claim_run, run_service, the_move, wait
from tests.regression.test_start_cut_by_its_engines_death import service
from tests.unit.core.bench import Bench, node, shown

HELD = Refused("start_blocked", "held")


def at_start(**params: Any) -> tuple[Bench, Any]:
    """Return a bench with a move whose target is being started, and the target's create."""
    bench = Bench(node("a", "nursery"), node("t"), params=Params(min_on={}, **params))
    bench.connect("a")
    bench.connect("t")
    key, _ = run_service(bench, HostConfig=PUBLISHED)
    begin_move(bench, key, "a", "t")
    made = bench.open("create")
    while the_move(bench).step is not Step.START:
        for effect in list(bench.tables.effects.values()):
            bench.end(effect, Done("target"))
    return bench, made


def state_of_run(bench: Bench) -> RunState:
    (run,) = bench.tables.runs.values()
    found: RunState = run.state
    return found


def moves_another(bench: Bench) -> bool:
    """Whether the cycle runs again, and moves what nothing stands against."""
    key, _ = run_service(bench, "other")
    begin_move(bench, key, "a", "t")
    return any(move.container == key for move in bench.tables.migrations.values())


def test_a_target_that_somebody_has_to_clear_is_waited_for_by_its_move_alone() -> None:
    bench, _ = at_start()
    assert state_of_run(bench) is RunState.ENACTING
    bench.end(bench.open("start"), HELD)
    assert state_of_run(bench) is RunState.ENACTING, "its removal may still do"
    bench.end(bench.open("retire"), HELD)
    assert the_move(bench).step is Step.UNDO_TARGET
    assert state_of_run(bench) is RunState.DONE
    assert moves_another(bench)


def test_a_source_that_somebody_has_to_clear_is_waited_for_by_its_move_alone() -> None:
    bench, _ = at_start()
    bench.end(bench.open("start"), Refused("start_failed", "no"))
    bench.end(bench.open("retire"))
    assert the_move(bench).step is Step.UNDO_SOURCE
    bench.end(bench.open("start"), HELD)
    assert state_of_run(bench) is RunState.DONE
    wait(bench, 60)
    bench.end(bench.open("start"), Done())
    bench.end(bench.open("restart_policy"), Done())
    assert the_move(bench).step is Step.ROLLED_BACK


def test_a_source_whose_engine_has_trouble_with_it_is_waited_for_by_its_move_alone() -> None:
    """It is asked five times, with pauses of half a minute at the end."""
    bench, _ = at_start()
    bench.end(bench.open("start"), Refused("start_failed", "no"))
    bench.end(bench.open("retire"))
    assert state_of_run(bench) is RunState.ENACTING
    bench.end(bench.open("start"), Refused("engine_error", "already exists"))
    assert state_of_run(bench) is RunState.DONE


def test_an_engine_that_is_away_is_waited_for_by_its_move_alone() -> None:
    bench, made = at_start()
    bench.say(NodeLost(at_us=0, node="t"))
    bench.end(bench.open("start"), Unknown("cut"))
    assert state_of_run(bench) is RunState.ENACTING, "it may be back in a moment"
    wait(bench, migrations.AWAY_US // US)
    assert state_of_run(bench) is RunState.DONE
    bench.connect_again("t")
    bench.listed("t", shown(made, "target", "running"))
    assert the_move(bench).step is Step.VERIFY


def test_a_daemon_that_was_restarted_has_not_heard_of_any_engine_yet() -> None:
    """A run ended at every kill of the daemon amid its move, which went on."""
    bench, made = at_start()
    bench.restart()
    assert state_of_run(bench) is RunState.ENACTING
    bench.connect_again("a")
    bench.connect_again("t")
    bench.listed("t", shown(made, "target", "running"))
    assert the_move(bench).step is Step.VERIFY
    assert state_of_run(bench) is RunState.ENACTING


def test_a_node_that_boots_for_a_move_is_waited_for_by_its_run() -> None:
    bench = Bench(node("a", "nursery"), node("t", driver="command"))
    bench.connect("a")
    key, _ = run_service(bench, HostConfig=PUBLISHED)
    bench.end(bench.open("probe"), Done("off"))
    begin_move(bench, key, "a", "t")
    assert the_move(bench).step is Step.CREATE
    assert not bench.has_open("create")
    assert state_of_run(bench) is RunState.ENACTING


def test_moves_that_somebody_has_to_clear_do_not_count_among_those_of_their_nodes() -> None:
    """Two of them on one node had none begin there until they were cleared."""
    bench, _ = at_start(moves_per_node=1)
    bench.end(bench.open("start"), HELD)
    bench.end(bench.open("retire"), HELD)
    others = [run_service(bench, name)[0] for name in ("one", "two")]
    moves = tuple(Move(key, 1, "a", "t", "test") for key in others)
    plan = Plan(claim_run(bench), "young", 0, bench.now_us + 600 * US, moves)
    bench.say(SubmitPlan(at_us=0, request="plan", plan=plan))
    steps = {move.container: move.step for move in bench.open_moves()}
    assert [steps.get(key) is Step.QUEUED for key in others] == [False, True]


def test_a_copy_is_asked_for_at_once_when_its_engine_was_restarted_to_clear_it() -> None:
    """After some minutes it was up to one more minute until anybody asked."""
    bench, made = at_start()
    bench.end(bench.open("start"), HELD)
    for _ in range(6):
        bench.end(bench.open("retire"), HELD)
        wait(bench, 80)
        bench.listed("t", shown(made, "target", error="already exists"))
    bench.end(bench.open("retire"), HELD)
    bench.say(NodeLost(at_us=0, node="t"))
    bench.connect_again("t")
    bench.listed("t", shown(made, "target", error="already exists"))
    bench.end(bench.open("retire"))
    assert the_move(bench).step is Step.UNDO_SOURCE


def test_a_service_is_started_at_once_when_its_engine_was_restarted_to_clear_it() -> None:
    bench, key, made = service()
    bench.listed("a", replace(shown(made, "c1"), is_torn=True))
    for _ in range(6):
        wait(bench, 60)
        bench.end(bench.open("start"), HELD)
    bench.say(NodeLost(at_us=0, node="a"))
    bench.connect_again("a")
    bench.listed("a", shown(made, "c1"))
    bench.end(bench.open("start"), Done())
    assert bench.tables.services[key].state is ContainerState.RUNNING
