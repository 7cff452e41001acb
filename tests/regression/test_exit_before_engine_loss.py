"""An engine that goes down ends its containers before it is missed: no failure of theirs."""

from __future__ import annotations

from typing import Any

from tenure.model.events import NodeConnected, NodeLost, Tick
from tenure.model.facts import EngineFacts
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, SIZE, Bench, node, shown


def ended(code: int, **more: Any) -> tuple[Bench, Any]:
    """Return a bench whose executor is shown exited with ``code``, and its create effect."""
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j")
    create = bench.open("create")
    bench.end(create, Done("c1"))
    bench.end(bench.open("start"))
    bench.listed("a", shown(create, "c1", "exited", exit_code=code, **more))
    return bench, create


def test_the_exit_is_the_engines_when_the_engine_is_missed_next() -> None:
    bench, create = ended(255)
    assert not bench.tables.executors["j/0"].is_over
    bench.say(NodeLost(at_us=0, node="a", why="ping"))
    bench.say(NodeConnected(at_us=0, node="a", facts=EngineFacts("id-a", SIZE, images=(IMAGE,))))
    bench.listed("a", shown(create, "c1", "exited", exit_code=255))
    executor = bench.tables.executors["j/0"]
    assert (executor.attempt, executor.failures, executor.mishaps) == (2, 0, 1)
    assert executor.note == "ended with its engine (exit code 255)"
    assert not bench.tables.jobs["j"].is_over


def test_the_exit_is_its_own_when_the_engine_stays() -> None:
    bench, create = ended(137)
    effects = bench.say(Tick(at_us=0), after_us=10 * US)
    assert [effect.kind for effect in effects] == ["relist"]
    bench.listed("a", shown(create, "c1", "exited", exit_code=137))
    assert bench.tables.jobs["j"].is_failing or bench.tables.jobs["j"].state == "failed"
    assert bench.tables.executors["j/0"].exit_code == 137


def test_the_wait_goes_on_after_a_restart() -> None:
    bench, _ = ended(143)
    bench.restart()
    wakeup_us = bench.state.wakeup_us()
    assert wakeup_us is not None
    assert wakeup_us <= bench.now_us + 10 * US


def test_other_exits_are_judged_at_once() -> None:
    assert ended(7)[0].tables.executors["j/0"].exit_code == 7
    assert ended(137, is_oom_killed=True)[0].tables.executors["j/0"].exit_code == 137
