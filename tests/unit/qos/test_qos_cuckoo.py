"""The controller before Algorithm 3, on the node of ``test_qos_salamander``."""

from __future__ import annotations

from tenure.qos.control import Kill, State, Task
from tenure.qos.cuckoo import cuckoo
from tests.unit.qos.test_qos_salamander import PARAMS, killed, seen, tasks

BUSY = tuple(Task(key, place, 10, 1000) for place, key in enumerate("abc"))


def test_tasks_end_for_cpu_where_algorithm_3_throttles() -> None:
    """The limit of CPU is 4000 - 1500 - 400 = 2100; with half the margin 2300 are borne."""
    decision = cuckoo(seen(regular_cpu_m=1500, harvest_cpu_m=3000, tasks=BUSY), State(), PARAMS)
    assert [(a.task.key, a.resource) for a in decision.actions if isinstance(a, Kill)] == [
        ("c", "cpu")
    ]
    again = cuckoo(
        seen(2, regular_cpu_m=1500, harvest_cpu_m=3000, tasks=BUSY), decision.state, PARAMS
    )
    assert killed(again) == []
    borne = seen(regular_cpu_m=1500, harvest_cpu_m=2300, tasks=BUSY[:2])
    assert killed(cuckoo(borne, State(), PARAMS)) == []


def test_all_end_when_owners_have_entered_the_margin_of_cpu() -> None:
    decision = cuckoo(seen(regular_cpu_m=3601, harvest_cpu_m=100, tasks=BUSY), State(), PARAMS)
    assert killed(decision) == ["c", "b", "a"]


def test_memory_is_as_in_algorithm_3() -> None:
    over = seen(harvest_memory_bytes=700, tasks=tasks(300, 300, 100))
    assert killed(cuckoo(over, State(), PARAMS)) == ["c"]


def test_a_task_ends_once_for_both() -> None:
    held = tuple(Task(key, place, 300, 1500) for place, key in enumerate("abc"))
    both = seen(regular_cpu_m=1500, harvest_cpu_m=4500, harvest_memory_bytes=900, tasks=held)
    assert killed(cuckoo(both, State(), PARAMS)) == ["c", "b"]


def test_missing_readings_of_cpu_do_nothing_by_themselves() -> None:
    assert killed(cuckoo(seen(regular_cpu_m=None, tasks=BUSY), State(), PARAMS)) == []
