"""Laws of the control laws, over drawn nodes, loads, states and parameters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.qos.control import Decision, Kill, Observation, SetQuota, State, Task, limits_of
from tenure.qos.laws import LAWS
from tenure.qos.reclaim import bound_bytes, latest, wants_tasks
from tenure.qos.salamander import salamander
from tenure.qos.wire import decode_params, encode_params, revision_of

AMOUNT = st.integers(0, 5000)
GAUGE = st.none() | AMOUNT
RATIO = st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.5, 1.0])
TASKS = st.lists(
    st.builds(Task, st.sampled_from("abcdefgh"), st.integers(0, 5), AMOUNT, AMOUNT),
    unique_by=lambda task: task.key,
    max_size=8,
).map(tuple)
PARAMS = st.builds(
    QosParams,
    cpu_margin=RATIO,
    memory_margin=RATIO,
    threshold=RATIO,
    floor_m=st.integers(10, 200),
    calm_periods=st.integers(1, 6),
    raise_m=st.integers(0, 100),
    pressure=RATIO,
    has_soft_memory=st.booleans(),
    cpu_m=AMOUNT,
    memory_bytes=AMOUNT,
)
SEEN = st.builds(
    Observation,
    st.integers(10_000_000, 20_000_000),
    st.builds(Resources, AMOUNT, AMOUNT),
    GAUGE,
    GAUGE,
    GAUGE,
    GAUGE,
    TASKS,
    quota_m=GAUGE,
    soft_bytes=GAUGE,
    memory_pressure=st.none() | RATIO,
)
STATES = st.builds(
    State,
    st.lists(st.integers(-5000, 5000), max_size=6).map(tuple),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1_000_000, 10_000_000), max_size=4),
    st.none() | st.integers(1_000_000, 10_000_000),
    st.none() | st.integers(1_000_000, 10_000_000),
)


def quota_after(seen: Observation, decision: Decision) -> int | None:
    """Return the quota that stands after a decision."""
    written = [a.quota_m for a in decision.actions if isinstance(a, SetQuota)]
    assert len(written) <= 1
    return written[0] if written else seen.quota_m


def killed(decision: Decision) -> list[Task]:
    return [action.task for action in decision.actions if isinstance(action, Kill)]


@given(SEEN, STATES, PARAMS)
def test_the_quota_never_exceeds_the_limit_but_for_the_floor(
    seen: Observation, state: State, params: QosParams
) -> None:
    """Whatever stood and whatever came before: a rise that is held back slows no fall."""
    limit = limits_of(seen, params).cpu_m
    stands = quota_after(seen, salamander(seen, state, params))
    assert stands is not None
    assert stands <= max(params.floor_m, limit or 0)
    if stands != seen.quota_m:
        assert stands >= params.floor_m


@given(SEEN, STATES, PARAMS)
def test_missing_readings_lead_to_the_floor(
    seen: Observation, state: State, params: QosParams
) -> None:
    for blind in (replace(seen, regular_cpu_m=None), replace(seen, harvest_cpu_m=None)):
        stands = quota_after(blind, salamander(blind, state, params))
        assert stands is not None
        assert stands <= params.floor_m


@given(SEEN, STATES, PARAMS, st.sampled_from(sorted(LAWS)))
def test_missing_memory_ends_all_after_a_while(
    seen: Observation, state: State, params: QosParams, name: str
) -> None:
    late = replace(state, known_us=seen.at_us - params.stale_us)
    blind = replace(seen, harvest_memory_bytes=None, regular_cpu_m=None)
    decision = LAWS[name](blind, late, params)
    assert {task.key for task in seen.tasks} == decision.state.killing.keys()


@given(SEEN, STATES, PARAMS, st.sampled_from(sorted(LAWS)))
def test_the_latest_started_end_first(
    seen: Observation, state: State, params: QosParams, name: str
) -> None:
    decision = LAWS[name](seen, state, params)
    killing = decision.state.killing
    ended = {task.key for task in killed(decision)}
    assert len(ended) == len(killed(decision))  # nobody twice
    order = sorted(seen.tasks, key=lambda task: (-task.started, task.key))
    alive = [task for task in order if task.key in ended or task.key not in killing]
    assert [task.key in ended for task in alive] == sorted(
        (task.key in ended for task in alive), reverse=True
    )


@given(TASKS, st.integers(-10, 20_000))
def test_the_chosen_are_the_fewest_of_the_latest(tasks: tuple[Task, ...], over: int) -> None:
    chosen = latest(tasks, over)
    order = sorted(tasks, key=lambda task: (-task.started, task.key))
    assert chosen == order[: len(chosen)]
    assert sum(task.memory_bytes for task in chosen) >= over or len(chosen) == len(tasks)
    if chosen:
        assert sum(task.memory_bytes for task in chosen[:-1]) < over


@given(SEEN, STATES, PARAMS)
def test_after_the_kills_harvest_is_within_its_bound_and_no_kill_was_idle(
    seen: Observation, state: State, params: QosParams
) -> None:
    params = replace(params, pressure=0.0)
    decision = salamander(seen, state, params)
    limits = decision.limits
    if limits.memory_bytes is None or seen.harvest_memory_bytes is None:
        return
    left = [task for task in seen.tasks if task.key not in decision.state.killing]
    if limits.memory_bytes < 0:
        assert left == []
        return
    bound = bound_bytes(limits, params)
    assert sum(task.memory_bytes for task in left) <= bound
    if ended := killed(decision):
        dying = [task for task in seen.tasks if task.key in decision.state.killing]
        before = seen.harvest_memory_bytes - sum(t.memory_bytes for t in dying if t not in ended)
        before = max(before, sum(task.memory_bytes for task in (*left, *ended)))
        assert before - sum(task.memory_bytes for task in ended[:-1]) > bound


@given(SEEN, STATES, PARAMS, st.integers(0, 2000), st.integers(0, 2000))
def test_more_load_of_owners_never_leaves_harvest_more(
    seen: Observation, state: State, params: QosParams, cpu_m: int, memory_bytes: int
) -> None:
    if seen.regular_cpu_m is None or seen.regular_memory_bytes is None:
        return
    params = replace(params, pressure=0.0)
    more = replace(
        seen,
        regular_cpu_m=seen.regular_cpu_m + cpu_m,
        regular_memory_bytes=seen.regular_memory_bytes + memory_bytes,
    )
    light, heavy = salamander(seen, state, params), salamander(more, state, params)
    low, high = quota_after(more, heavy), quota_after(seen, light)
    assert low is not None
    assert high is not None
    assert low <= high
    assert {t.key for t in killed(light)} <= {t.key for t in killed(heavy)}


@given(SEEN, STATES, PARAMS)
def test_tasks_that_are_not_looked_at_would_not_have_been_killed(
    seen: Observation, state: State, params: QosParams
) -> None:
    # what is read for all of harvest is at least what is read for its parts
    whole = max(seen.harvest_memory_bytes or 0, sum(task.memory_bytes for task in seen.tasks))
    seen = replace(seen, harvest_memory_bytes=whole)
    if not wants_tasks(seen, state, params, limits_of(seen, params)):
        assert killed(salamander(seen, state, params)) == []


@given(SEEN, STATES, PARAMS)
def test_a_decision_enacted_is_not_made_again(
    seen: Observation, state: State, params: QosParams
) -> None:
    first = salamander(seen, state, params)
    after = replace(seen, quota_m=quota_after(seen, first), at_us=seen.at_us + 1)
    again = salamander(after, first.state, params)
    for action in again.actions:
        if isinstance(action, SetQuota):  # harvest counts with the new quota: it may rise again
            assert action.quota_m != after.quota_m
        if isinstance(action, Kill):
            assert action.task.key not in first.state.killing


@given(PARAMS)
def test_parameters_survive_their_way_to_the_agent(params: QosParams) -> None:
    again = decode_params(encode_params(params))
    assert again == params
    assert revision_of(again) == revision_of(params)
