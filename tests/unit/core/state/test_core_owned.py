"""What machines keep beside the records is made anew where it may not be true any more."""

from __future__ import annotations

import pytest

from tenure.core.capacity import room, snapshots
from tenure.core.dispatch import shuffle_sizes
from tenure.core.jobs import queue_plan
from tenure.core.nodes import harvestable
from tenure.core.state.owned import Owned
from tenure.model.events import Started
from tests.unit.core.bench import Bench, node


@pytest.mark.parametrize(
    "kind", [room.Loads, snapshots.NodeSnapshot, harvestable.Looks, queue_plan.Memory]
)
def test_what_is_worked_out_of_records_goes_when_others_are_loaded(kind: type[Owned]) -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    kept = bench.state_of(kind)
    bench.state.load(bench.records)
    assert bench.state_of(kind) is not kept


def test_a_start_forgets_what_the_last_plan_thought_that_shuffles_carry() -> None:
    bench = Bench(node("a"))
    bench.state_of(shuffle_sizes.Planned).sent_bytes["b", "map"] = 1
    bench.say(Started(at_us=0))
    assert not bench.state_of(shuffle_sizes.Planned).sent_bytes
