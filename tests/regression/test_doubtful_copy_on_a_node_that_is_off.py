"""A copy that has yet to be compared lay on a node that went off: its block lacked one for ever.

The copy did not count, so another was wanted; but its node counted as one that has a copy, so
nothing switched it on, neither to compare that copy nor to make one anew.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.nodes import power
from tenure.model.effects import SwitchPower
from tenure.model.node import Power
from tenure.model.outcome import Done
from tests.unit.core.shelf import Shelf, switchable


def switched_on(shelf: Shelf) -> list[SwitchPower]:
    return [e for e in shelf.effects if isinstance(e, SwitchPower) and e.to == "on"]


def test_its_node_is_switched_on_and_the_copy_compared() -> None:
    shelf = switchable("a", "b", "c")
    shelf.put("logs", 1, replicas=3)
    shelf.work()
    (block,) = shelf.blocks("logs")
    assert {replica.node for replica in block.replicas} == {"a", "b", "c"}
    shelf.lose("c")
    shelf.act(power.is_off, shelf.store(replace(shelf.tables.nodes["c"], power=Power.STOPPING)))
    shelf.store(replace(block, broken=("c/ssd",)))
    assert not switched_on(shelf)
    shelf.wait(30)
    (order,) = switched_on(shelf)
    assert order.node == "c"
    shelf.end(order, Done("on"))
    shelf.find("c")
    shelf.wait(30)
    (block,) = shelf.blocks("logs")
    assert not block.broken, "what lies there is what was put"
    assert shelf.nodes_of("logs") == [{"a", "b", "c"}]
    assert len(switched_on(shelf)) == 1
