"""Why a task over a dataset reads the copy that it reads."""

from __future__ import annotations

from typing import Any

from tenure.core.state.params import PrefetchParams
from tenure.daemon.answers import readings
from tests.unit.core.datasets.test_core_prefetching import lay, shelved


def test_a_task_beside_a_slower_copy_says_what_the_node_with_a_faster_one_had_room_for() -> None:
    """Each block lies on the SSD of a and on the HDD of b, and a has not room for all."""
    made = shelved(12, prefetch=PrefetchParams(mode="off"))
    lay(made, "logs", ["ab"] * 12)
    made.scan("logs", 12)
    begun = [task for task in made.tasks() if task.reading]
    told: Any = [(task.node, made.read(readings.explain, task)["reason"]) for task in begun]
    fast = sum(task.node == "a" for task in begun)
    assert 0 < fast < len(begun)
    slow = "it reads a copy in hdd of b, the cheapest match; faster copies, with the starts of its "
    for where, why in told:
        if where == "a":
            assert why == "it reads a copy in ssd of a, the cheapest match"
        else:
            assert why.startswith(f"{slow}stage there: a (ssd): {fast} free then, ")
            assert why.endswith(" later by the plan")
