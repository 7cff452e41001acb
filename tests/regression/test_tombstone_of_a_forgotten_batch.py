"""A copy of a task whose batch history had forgotten ended the daemon while tasks were dropped.

The batch goes at once, its tasks go a hundred at a time, and a copy on a node that was away for all
that while is found gone in between: its task was looked for in a batch that is no more.
"""

from __future__ import annotations

from tenure.core.batches import drafts
from tenure.core.lifecycle import retention
from tenure.model.batch import BatchState
from tenure.model.container import Tombstone
from tenure.model.events import CancelBatch, FenceNode, NodeLost, Tick
from tenure.model.outcome import Refused
from tests.unit.core.bench import Bench
from tests.unit.core.lender import lender, lends, stage

COUNT = 2 * drafts.PART


def _on(bench: Bench, node: str) -> list[Tombstone]:
    return [one for one in bench.tables.tombstones.values() if one.node == node]


def test_a_copy_that_is_found_gone() -> None:
    bench = lender(lends("n"), lends("m"), max_history=0)
    bench.lend("b", stage(count=COUNT))
    bench.say(Tick(at_us=0))
    bench.say(NodeLost(at_us=0, node="m"))
    bench.say(FenceNode(at_us=0, request="f", node="m"))
    bench.say(CancelBatch(at_us=0, request="c", batch="b"))
    for effect in [one for one in bench.tables.effects.values() if one.node == "n"]:
        bench.end(effect)
    bench.listed("n")
    assert bench.batch().is_over
    assert _on(bench, "m")
    bench.say(Tick(at_us=0), after_us=retention.PERIOD_US)
    assert "b" not in bench.tables.batches
    assert bench.tables.tasks
    bench.connect_again("m")
    bench.listed("m")
    assert not _on(bench, "m")


def test_a_copy_that_may_run_beside_others_that_are_lent_to() -> None:
    bench = lender(lends("n"), max_history=0)
    bench.lend("b", stage())
    bench.finish(0)
    bench.end(bench.open("retire"), Refused("start_blocked", "held"))
    assert bench.batch().state is BatchState.SUCCEEDED
    assert any(tombstone.may_run for tombstone in _on(bench, "n"))
    bench.say(Tick(at_us=0), after_us=retention.PERIOD_US)
    assert "b" not in bench.tables.batches
    assert "b/0" in bench.tables.tasks
    bench.lend("other", stage())
    assert bench.task(batch="other").node == "n"
