"""What tasks of batches used is counted whole and once, sampled or not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from tenure.model.energy import MAX_SPAN_US, TASKS, Use
from tenure.model.units import US
from tenure.profiling.intake.intake import Intake, Target
from tenure.profiling.intake.unsampled import LEAST_US
from tenure.profiling.readings.sample import NodeReading, Reading

EVERY_S = 30


@dataclass(frozen=True)
class Task:
    """Uses a whole core from second ``begin`` to ``end``; seen from then on, as engines tell."""

    begin: int
    end: int
    is_foreign: bool = False

    def cpu_s(self, second: int) -> int:
        return max(0, min(second, self.end) - self.begin)


def reading(tasks: list[Task], second: int) -> NodeReading:
    at_us = second * US
    here = {f"e{i}": task for i, task in enumerate(tasks) if task.begin <= second < task.end}
    rows = {
        key: Reading(at_us, task.cpu_s(second) * 10**9, 1, source="agent")
        for key, task in here.items()
    }
    lent = Reading(at_us, sum(task.cpu_s(second) for task in tasks) * 10**9, 1, source="agent")
    return NodeReading(second, at_us, rows, lent=lent, tasks=frozenset(here))


def uses(tasks: list[Task], until_s: int, *, first_s: int = 0) -> list[Use]:
    intake = Intake()
    rows = [
        Target(f"e{i}", "foreign") if task.is_foreign else Target(f"e{i}", "executor", f"b/{i}")
        for i, task in enumerate(tasks)
    ]
    for second in range(first_s, until_s + 1, EVERY_S):
        intake.take_whole("n", rows, reading(tasks, second))
    return intake.spent()[0]


def cpu_s(found: list[Use], container: str) -> float:
    return sum(use.cpu_us for use in found if use.container == container) / US


def test_a_task_that_nobody_sampled_is_counted() -> None:
    (use,) = uses([Task(31, 45)], 90)
    assert (use.container, use.cpu_us, use.reserved_us) == (TASKS, 14 * US, 0)
    assert (use.begin_us, use.end_us) == (30 * US, 60 * US)


def test_of_one_that_was_sampled_only_what_its_samples_lack() -> None:
    found = uses([Task(20, 100)], 120)
    assert cpu_s(found, "b/0") == 60  # from 30 to 90
    assert cpu_s(found, TASKS) == 20


def test_one_that_is_sampled_all_the_time_has_nothing_beside() -> None:
    found = uses([Task(0, 1000), Task(0, 1000, is_foreign=True)], 120)
    assert (cpu_s(found, "b/0"), cpu_s(found, ""), cpu_s(found, TASKS)) == (120, 120, 0)


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 200), st.booleans()).map(
            lambda row: Task(row[0], row[0] + row[1], row[2])
        ),
        max_size=6,
    )
)
def test_all_is_counted_and_nothing_twice(tasks: list[Task]) -> None:
    found = uses(tasks, 450)
    assert sum(use.cpu_us for use in found) == sum(task.cpu_s(450) for task in tasks) * US


def test_a_sample_of_a_longer_time_is_taken_off_later() -> None:
    intake, rows = Intake(), [Target("e0", "executor", "b/0")]
    task = [Task(0, 1000)]
    for second in range(0, 151, EVERY_S):
        whole = reading(task, second)
        if second == 60:  # its group could not be read this time
            whole = replace(whole, containers={}, tasks=frozenset())
        intake.take_whole("n", rows, whole)
    found = intake.spent()[0]
    # told before it was known that the sample is still to come; no more is said for as long
    assert cpu_s(found, TASKS) == 30
    assert cpu_s(found, "b/0") == 150
    intake.take_whole("n", rows, reading([*task, Task(151, 171)], 180))
    assert cpu_s(intake.spent()[0], TASKS) == 0


def test_nothing_is_told_of_a_time_of_which_it_is_not_known() -> None:
    def second_of(first: NodeReading, second: NodeReading) -> list[Use]:
        intake = Intake()
        intake.take_whole("n", [], first)
        intake.take_whole("n", [], second)
        return intake.spent()[0]

    first, second = reading([Task(0, 10)], 5), reading([Task(0, 10)], 35)
    assert cpu_s(second_of(first, second), TASKS) == 5
    assert second_of(replace(first, lent=None), second) == []
    assert second_of(first, replace(second, lent=None)) == []
    assert second_of(second, replace(first, at_us=second.at_us + 1)) == []  # made anew
    late = reading([Task(0, 10)], 6 + MAX_SPAN_US // US)
    assert second_of(first, late) == []


def test_a_node_whose_agent_was_away_begins_anew() -> None:
    intake = Intake()
    intake.take_whole("n", [], reading([Task(0, 10)], 5))
    intake.forget_whole("n")
    intake.take_whole("n", [], reading([Task(0, 10)], 35))
    assert intake.spent()[0] == []


def test_what_is_as_little_as_reading_takes_waits_until_it_is_more() -> None:
    intake = Intake()
    for number in range(5):
        lent = Reading(number * US, number * (LEAST_US // 2) * 1000, 1, source="agent")
        intake.take_whole("n", [], NodeReading(number + 1, number * US, {}, lent=lent))
    assert [use.cpu_us for use in intake.spent()[0]] == [LEAST_US, LEAST_US]
