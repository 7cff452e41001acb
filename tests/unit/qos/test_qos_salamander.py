"""Algorithm 3 by hand: a node of 4 cores and 1000 bytes, margins of a tenth."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.model.errors import InvalidInput
from tenure.model.qos import QosParams, checked
from tenure.model.resources import Resources
from tenure.qos.control import Decision, Kill, Observation, SetQuota, SetSoftMemory, State, Task
from tenure.qos.reclaim import wants_tasks
from tenure.qos.salamander import salamander

NODE = Resources(4000, 1000)
PARAMS = QosParams(cpu_margin=0.1, memory_margin=0.1)
PERIOD_US = PARAMS.period_us


def seen(at: int = 1, **changes: object) -> Observation:
    """Return a quiet node in period ``at``: owners use 1 core and 300 bytes, harvest 2 and 400."""
    quiet = Observation(at * PERIOD_US, NODE, 1000, 2000, 300, 400, quota_m=2600)
    return replace(quiet, **changes)  # type: ignore[arg-type]


def tasks(*memory: int) -> tuple[Task, ...]:
    """Return tasks a, b, c ... started in this order."""
    return tuple(Task("abcdefgh"[n], n, size) for n, size in enumerate(memory))


def quota(decision: Decision) -> int | None:
    found = [action.quota_m for action in decision.actions if isinstance(action, SetQuota)]
    return found[0] if found else None


def killed(decision: Decision) -> list[str]:
    return [action.task.key for action in decision.actions if isinstance(action, Kill)]


def reasons(decision: Decision) -> set[str]:
    return {a.reason for a in decision.actions if not isinstance(a, SetSoftMemory)}


def test_the_quota_is_capacity_less_regular_use_less_margin() -> None:
    decision = salamander(seen(quota_m=None), State(), PARAMS)
    assert decision.limits.cpu_m == 4000 - 1000 - 400
    assert quota(decision) == 2600
    assert quota(salamander(seen(), State(), PARAMS)) is None  # it stands


def test_the_quota_falls_in_the_period_in_which_owners_use_more() -> None:
    state = State(limits=(2600,) * 5)
    decision = salamander(seen(regular_cpu_m=1150), state, PARAMS)
    assert (quota(decision), reasons(decision)) == (2450, {"limit"})


def test_the_quota_rises_when_owners_have_been_calm() -> None:
    state, now = State(limits=(500,)), seen(quota_m=500, harvest_cpu_m=500)
    for period in range(1, PARAMS.calm_periods + 1):
        decision = salamander(replace(now, at_us=period * PERIOD_US), state, PARAMS)
        state = decision.state
        assert quota(decision) == (2600 if period == PARAMS.calm_periods else None)


def test_small_rises_are_left_out_because_a_write_refills_the_quota() -> None:
    params = replace(PARAMS, calm_periods=1, raise_m=50)
    assert quota(salamander(seen(quota_m=2560), State(), params)) is None
    assert quota(salamander(seen(quota_m=2550), State(), params)) == 2600
    assert quota(salamander(seen(quota_m=2610), State(), params)) == 2600


def test_on_a_saturated_node_the_quota_goes_to_the_floor() -> None:
    """Owners have taken what was free, the margin; what they want beyond it cannot be measured."""
    decision = salamander(seen(regular_cpu_m=1400, harvest_cpu_m=2600), State(), PARAMS)
    assert (quota(decision), reasons(decision)) == (PARAMS.floor_m, {"saturated"})
    half = salamander(seen(regular_cpu_m=1200, harvest_cpu_m=2600), State(), PARAMS)
    assert (quota(half), reasons(half)) == (2400, {"limit"})  # half the margin may be entered


def test_a_rest_of_less_than_half_a_margin_is_not_lent() -> None:
    decision = salamander(seen(regular_cpu_m=3401, harvest_cpu_m=0), State(), PARAMS)
    assert (quota(decision), reasons(decision)) == (PARAMS.floor_m, {"saturated"})
    some = salamander(seen(regular_cpu_m=3400, harvest_cpu_m=0), State(), PARAMS)
    assert quota(some) == 200


def test_a_late_throttling_is_no_saturation() -> None:
    """Harvest was held to 2600 in the midst of a period in which it had used 3500."""
    decision = salamander(seen(harvest_cpu_m=3500), State(), PARAMS)
    assert quota(decision) is None


@pytest.mark.parametrize("missing", ["regular_cpu_m", "harvest_cpu_m"])
def test_missing_readings_of_cpu_are_the_floor(missing: str) -> None:
    blind: dict[str, object] = {missing: None}
    decision = salamander(seen(1, **blind), State(limits=(2600,) * 5), PARAMS)
    assert (quota(decision), reasons(decision)) == (PARAMS.floor_m, {"stale"})


def test_an_unknown_capacity_is_a_missing_reading() -> None:
    decision = salamander(seen(capacity=Resources()), State(), PARAMS)
    assert quota(decision) == PARAMS.floor_m
    stated = replace(PARAMS, cpu_m=4000, memory_bytes=1000)
    assert quota(salamander(seen(capacity=Resources(), quota_m=None), State(), stated)) == 2600
    smaller = replace(PARAMS, cpu_m=3000)
    assert quota(salamander(seen(quota_m=None), State(), smaller)) == PARAMS.floor_m  # saturated


def test_the_latest_started_ends_while_harvest_is_over_its_limit_and_half_the_margin() -> None:
    """The limit is 1000 - 300 - 100 = 600; 650 is borne, 651 is not."""
    held = tasks(350, 200, 100)
    assert killed(salamander(seen(harvest_memory_bytes=650, tasks=held), State(), PARAMS)) == []
    one = seen(harvest_memory_bytes=651, tasks=tasks(350, 200, 101))
    assert killed(salamander(one, State(), PARAMS)) == ["c"]
    two = seen(harvest_memory_bytes=800, tasks=tasks(350, 350, 100))
    assert killed(salamander(two, State(), PARAMS)) == ["c", "b"]


def test_tasks_that_are_being_killed_do_not_count_and_are_not_killed_again() -> None:
    over = seen(harvest_memory_bytes=700, tasks=tasks(300, 300, 100))
    first = salamander(over, State(), PARAMS)
    assert killed(first) == ["c"]
    again = salamander(replace(over, at_us=2 * PERIOD_US), first.state, PARAMS)
    assert killed(again) == []
    gone = seen(3, harvest_memory_bytes=600, tasks=tasks(300, 300))
    assert salamander(gone, first.state, PARAMS).state.killing == {}


def test_a_task_that_cannot_be_killed_counts_again() -> None:
    over = seen(harvest_memory_bytes=700, tasks=tasks(300, 300, 100))
    state = salamander(over, State(), PARAMS).state
    later = replace(over, at_us=over.at_us + PARAMS.kill_timeout_us)
    assert killed(salamander(later, state, PARAMS)) == ["c"]


def test_all_end_when_owners_have_entered_the_margin() -> None:
    decision = salamander(seen(regular_memory_bytes=901, tasks=tasks(1, 1)), State(), PARAMS)
    assert (killed(decision), decision.limits.memory_bytes) == (["b", "a"], -1)
    assert reasons(decision) == {"margin"}
    at_it = seen(regular_memory_bytes=900, harvest_memory_bytes=2, tasks=tasks(1, 1))
    assert killed(salamander(at_it, State(), PARAMS)) == []


def test_without_readings_of_memory_all_end_after_a_while() -> None:
    known = salamander(seen(1, tasks=tasks(1, 1)), State(), PARAMS).state
    blind = seen(2, regular_memory_bytes=None, tasks=tasks(1, 1))
    decision = salamander(blind, known, PARAMS)
    assert killed(decision) == []
    late = replace(blind, at_us=PERIOD_US + PARAMS.stale_us)
    decision = salamander(late, decision.state, PARAMS)
    assert (killed(decision), "stale" in reasons(decision)) == (["b", "a"], True)


def test_the_latest_ends_for_pressure_one_at_a_time() -> None:
    params = replace(PARAMS, pressure=0.2)
    pressed = seen(memory_pressure=0.3, tasks=tasks(200, 200))
    first = salamander(pressed, State(), params)
    assert killed(first) == ["b"]
    soon = seen(2, memory_pressure=0.3, tasks=tasks(200))
    assert killed(salamander(soon, first.state, params)) == []
    later = replace(soon, at_us=soon.at_us + params.pressure_hold_us)
    assert killed(salamander(later, first.state, params)) == ["a"]
    assert killed(salamander(replace(pressed, memory_pressure=0.1), State(), params)) == []
    assert killed(salamander(pressed, State(), PARAMS)) == []  # it is off


def test_the_kernel_is_asked_for_memory_before_a_task_ends() -> None:
    params = replace(PARAMS, has_soft_memory=True)
    decision = salamander(seen(), State(), params)
    (soft,) = [a.soft_bytes for a in decision.actions if isinstance(a, SetSoftMemory)]
    assert 585 <= soft <= 600
    stands = salamander(seen(soft_bytes=soft), State(), params)
    assert not [a for a in stands.actions if isinstance(a, SetSoftMemory)]


def test_single_tasks_are_looked_at_only_where_it_matters() -> None:
    quiet = seen()
    limits = salamander(quiet, State(), PARAMS).limits
    assert not wants_tasks(quiet, State(), PARAMS, limits)
    for other in (seen(harvest_memory_bytes=651), seen(harvest_memory_bytes=None)):
        assert wants_tasks(other, State(), PARAMS, limits)
    assert wants_tasks(quiet, State(killing={"a": 1}), PARAMS, limits)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"cpu_margin": 1.5}, "cpu_margin"),
        ({"memory_margin": -0.1}, "memory_margin"),
        ({"threshold": float("nan")}, "threshold"),
        ({"mode": "on"}, "mode"),
        ({"period_us": 0}, "period_us"),
        ({"floor_m": 5}, "floor_m"),
        ({"calm_periods": 0}, "calm_periods"),
        ({"stale_us": 50_000}, "stale_us"),
        ({"raise_m": -1}, "raise_m"),
    ],
)
def test_faulty_parameters_are_named(changes: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked(replace(PARAMS, **changes))  # type: ignore[arg-type]
    assert [fault.path for fault in caught.value.fields] == [path]
