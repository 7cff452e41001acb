"""Placement against plain oracles: Algorithms 1 and 2 as written, a queue played with ``place``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tenure.model.placing import (
    Admitted,
    Ask,
    ClusterView,
    Forecast,
    Occupied,
    Placed,
    Queued,
    RefusedJob,
    Running,
    Unplaceable,
    queue_deadline_us,
)
from tenure.model.units import FOREVER_US, US, cost_nano
from tenure.placement.arrays import ends_of, fleet_of
from tenure.placement.policies import Policies
from tenure.placement.queue.schedule import simulate
from tenure.simulation.sla.loops import kept_kernels
from tests.unit.placement.build import GIB, N, ask_of, jobs_of, view_of
from tests.unit.placement.oracles import (
    NOW,
    Playback,
    covers,
    holds,
    limit_now,
    more_us,
    naive,
    play,
    room_on,
    sets_of,
)

PLAIN = Policies()
#: All but those that take a solver, which tests/property/test_placement_optimum.py has.
QUICK = tuple(name for name in PLAIN.policies() if PLAIN.stand_in(name) == name)
#: Policies that fill nodes in a stated order, which a plain loop can do too.
LISTS = ("ff", "gio", "fifo", "fifo_c", "fifo_c_free", "asq")
sizes = st.sampled_from([1, 2, 4, 8])
prices = st.sampled_from([0.0, 0.1, 0.36, 0.72, 2.5])
spans = st.integers(1, 300)


@st.composite
def nodes(draw: st.DrawFn, name: str, *, boots: bool = True) -> N:
    cores, gib = draw(sizes), draw(sizes)
    is_on = not boots or draw(st.booleans())
    is_busy = is_on and draw(st.booleans())
    boot_s = draw(st.sampled_from([0, 20, 60]))
    return N(
        name,
        cores,
        gib,
        free_cores=draw(st.integers(0, cores)) if is_busy else None,
        free_gib=draw(st.integers(0, gib)) if is_busy else None,
        usd_per_h=draw(prices),
        remaining_s=draw(st.sampled_from([0, 30, 100, 250, None])) if is_busy else 0,
        is_on=is_on,
        is_cloud=draw(st.booleans()),
        boot_s=0 if is_on else boot_s,
        reboot_s=draw(st.sampled_from([None, boot_s])) if is_on else boot_s,
        min_billing_s=draw(st.sampled_from([0, 0, 60, 200])),
    )


@st.composite
def fleets(draw: st.DrawFn, *, boots: bool = True) -> list[N]:
    count = draw(st.integers(1, 6))
    return [draw(nodes(f"n{index}", boots=boots)) for index in range(count)]


@st.composite
def asks(draw: st.DrawFn, view: ClusterView, id: str = "job", *, late: bool = True) -> Ask:
    local_s = draw(spans)
    deadline_s = draw(st.none() | st.integers(-50 if late else 1, 900))
    return Ask(
        id=id,
        executors=draw(st.integers(1, 8)),
        cpu_m=draw(st.sampled_from([0, 500, 1000, 2000])),
        memory_bytes=draw(st.sampled_from([0, GIB // 2, GIB, 2 * GIB])),
        local_us=local_s * US,
        hybrid_us=(local_s + draw(st.integers(0, 100))) * US,
        deadline_us=None if deadline_s is None else NOW + deadline_s * US,
        eligible=np.array([draw(st.integers(0, 5)) > 0 for _ in view.names], dtype=np.bool_),
    )


@st.composite
def placings(draw: st.DrawFn) -> tuple[ClusterView, Ask]:
    view = view_of(draw(fleets()))
    return view, draw(asks(view))


# One decision


@given(placings(), st.sampled_from(LISTS))
@settings(max_examples=500, deadline=None)
def test_policies_equal_the_papers_loops(case: tuple[ClusterView, Ask], policy: str) -> None:
    view, ask = case
    answer = PLAIN.place(policy, view, ask, NOW)
    expected = naive(policy, view, ask)
    assert (dict(answer.counts) if isinstance(answer, Placed) else {}) == expected


@given(placings(), st.sampled_from(QUICK))
@settings(max_examples=300, deadline=None)
def test_reasons(case: tuple[ClusterView, Ask], policy: str) -> None:
    view, ask = case
    answer = PLAIN.place(policy, view, ask, NOW)
    if isinstance(answer, Unplaceable):
        whenever = [nodes for _, nodes in sets_of(policy, view, ask, FOREVER_US)]
        if not any(holds(view, ask, nodes, empty=True) for nodes in whenever):
            assert answer.reason == "no_node"
        else:
            has_room = any(holds(view, ask, nodes) for nodes in whenever)
            assert answer.reason == ("too_late" if has_room else "no_room")


@given(placings())
@settings(max_examples=400, deadline=None)
def test_exact_is_the_least_of_all_covers(case: tuple[ClusterView, Ask]) -> None:
    view, ask = case
    answer = PLAIN.place("exact", view, ask, NOW)
    ranked = sorted(covers(view, ask))
    if isinstance(answer, Unplaceable):
        assert not ranked
        return
    names = tuple(name for name, _ in answer.counts)
    key = next(key for key, used in ranked if used == names)
    assert (key, answer.cost_nano) == (ranked[0][0], ranked[0][0][0])


@given(placings(), st.sampled_from(QUICK))
@settings(max_examples=300, deadline=None)
def test_all_or_nothing_within_capacity_in_time_at_the_stated_cost(
    case: tuple[ClusterView, Ask], policy: str
) -> None:
    view, ask = case
    answer = PLAIN.place(policy, view, ask, NOW)
    if isinstance(answer, Unplaceable):
        return
    used = [(view.names.index(name), count) for name, count in answer.counts]
    assert sum(count for _, count in used) == ask.executors
    for j, count in used:
        assert 0 < count <= room_on(view, ask, j)
    is_hybrid = any(view.is_cloud[j] for j, _ in used)
    assert answer.mode == ("hybrid" if is_hybrid else "local")
    assert answer.run_us == (ask.hybrid_us if is_hybrid else ask.local_us)
    assert answer.delay_us == max(int(view.boot_us[j]) for j, _ in used)
    until_us = answer.delay_us + answer.run_us
    assert until_us < limit_now(view, ask, NOW, policy)
    assert answer.cost_nano == sum(
        cost_nano(int(view.price[j]), more_us(view, j, until_us)) for j, _ in used
    )


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_names_decide_ties_but_not_what_gio_costs(data: st.DataObject) -> None:
    rows = data.draw(fleets(boots=False))
    view = view_of(rows)
    ask = replace(data.draw(asks(view)), eligible=np.ones(len(rows), dtype=np.bool_))
    names = data.draw(st.permutations(view.names))
    renamed = view_of(replace(row, name=name) for row, name in zip(rows, names, strict=True))
    one, other = (PLAIN.place("gio", one_view, ask, NOW) for one_view in (view, renamed))
    if isinstance(one, Unplaceable) or isinstance(other, Unplaceable):
        assert one == other
    else:
        assert (one.cost_nano, one.mode, len(one.counts)) == (
            other.cost_nano,
            other.mode,
            len(other.counts),
        )


# The schedule


@st.composite
def queues(draw: st.DrawFn, *, boots: bool) -> tuple[ClusterView, list[Occupied], list[Queued]]:
    """A fleet whose used room is given back by running executors, and a queue in order."""
    rows = draw(fleets(boots=boots))
    running = []
    for index, row in enumerate(rows):
        cpu_m = 0 if row.free_cores is None else round(1000 * (row.cores - row.free_cores))
        memory = 0 if row.free_gib is None else round(GIB * (row.gib - row.free_gib))
        if cpu_m or memory:
            end_s = draw(spans)
            running.append(Occupied(index, cpu_m, memory, NOW + end_s * US))
            if row.remaining_s is not None:
                rows[index] = replace(row, remaining_s=max(end_s, row.remaining_s))
        elif row.remaining_s is not None:
            rows[index] = replace(row, remaining_s=0)
    view = view_of(rows)
    count = draw(st.integers(1, 7))
    jobs = [Queued(draw(asks(view, f"j{k}")), draw(st.sampled_from(QUICK))) for k in range(count)]
    jobs.sort(key=lambda one: (rank_us(one), int(one.ask.id[1:])))
    return view, running, jobs


@given(queues(boots=True))
@settings(max_examples=250, deadline=None)
def test_prediction_is_what_playing_the_queue_gives(
    case: tuple[ClusterView, list[Occupied], list[Queued]],
) -> None:
    view, running, queue = case
    assert PLAIN.predict(view, running, queue, NOW) == play(PLAIN, view, running, queue)


@given(queues(boots=True))
@settings(max_examples=250, deadline=None)
def test_what_is_behind_a_placed_head_is_foreseen_as_behind_one_that_waits(
    case: tuple[ClusterView, list[Occupied], list[Queued]],
) -> None:
    view, running, (head, *rest) = case
    placed = PLAIN.place(head.policy, view, head.ask, NOW)
    assume(isinstance(placed, Placed))
    assert isinstance(placed, Placed)
    columns = [(row.node, row.cpu_m, row.memory_bytes, row.end_us) for row in running]
    arrays = np.array(columns, dtype=np.int64).reshape(-1, 4).T
    behind = PLAIN.predict_behind(view, Running(*arrays), head.ask, placed, rest, NOW)
    due = dict(PLAIN.predict(view, running, [head, *rest], NOW))
    del due[head.ask.id]
    assert behind == due


@given(queues(boots=True))
@settings(max_examples=150, deadline=None)
def test_schedules_never_overlap_beyond_capacity(
    case: tuple[ClusterView, list[Occupied], list[Queued]],
) -> None:
    view, running, queue = case
    jobs = jobs_of(queue, [0] * len(queue), len(view.names))
    plan = simulate(fleet_of(view), ends_of(running, NOW), jobs, NOW)
    placed = [k for k in range(len(queue)) if plan.mode[k] > 0]
    assert [plan.placed_us[k] for k in placed] == sorted(plan.placed_us[k] for k in placed)
    for at_us in {int(plan.placed_us[k]) for k in placed}:
        for j in range(len(view.names)):
            cpu_m = int(view.capacity_cpu_m[j]) - sum(
                one.cpu_m for one in running if one.node == j and one.end_us > at_us
            )
            for k in placed:
                if plan.placed_us[k] <= at_us < plan.end_us[k]:
                    cpu_m -= int(plan.counts[k, j]) * queue[k].ask.cpu_m
            assert cpu_m >= 0


# Admission


@given(queues(boots=False), st.data())
@settings(max_examples=150, deadline=None)
def test_admission_keeps_its_word_about_this_queue(
    case: tuple[ClusterView, list[Occupied], list[Queued]], data: st.DataObject
) -> None:
    view, running, queue = case
    policy = data.draw(st.sampled_from(QUICK))
    new = Queued(data.draw(asks(view, "new", late=False)), policy)
    position = place_in(queue, new)
    answer = PLAIN.admit(view, running, queue, new, position, NOW)
    before = PLAIN.predict(view, running, queue, NOW)
    after = PLAIN.predict(view, running, with_new(queue, new), NOW)
    mine = after["new"]
    hurt = [one.ask.id for one in queue if is_met(one, before) and not is_met(one, after)]
    is_fine = not hurt and (new.ask.deadline_us is None or is_met(new, after))
    if mine is not None and is_fine:
        assert answer == Admitted(mine)
        return
    assert isinstance(answer, RefusedJob)
    assert (answer.reason == "never_fits") == (mine is None)
    if answer.earliest_deadline_us is None:
        return
    later = replace(new, ask=replace(new.ask, deadline_us=answer.earliest_deadline_us))
    again = PLAIN.admit(view, running, queue, later, place_in(queue, later), NOW)
    assert again == Admitted(answer.earliest)  # type: ignore[arg-type]


def rank_us(queued: Queued) -> int:
    return queue_deadline_us(queued.policy, queued.ask.deadline_us)


def place_in(queue: Sequence[Queued], new: Queued) -> int:
    return sum(rank_us(one) <= rank_us(new) for one in queue)


def with_new(queue: Sequence[Queued], new: Queued) -> list[Queued]:
    position = place_in(queue, new)
    return [*queue[:position], new, *queue[position:]]


def is_met(queued: Queued, forecasts: Mapping[str, Forecast | None]) -> bool:
    forecast = forecasts[queued.ask.id]
    due_us = queued.ask.deadline_us
    return forecast is not None and due_us is not None and forecast.end_us < due_us


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_every_admitted_job_is_in_time_when_estimates_hold(data: st.DataObject) -> None:
    """Arrivals over time, admitted one by one against the live queue, played to the end."""
    rows = [
        replace(row, free_cores=None, free_gib=None, remaining_s=0)
        for row in data.draw(fleets(boots=False))
    ]
    fleet = Playback(view_of(rows), [])
    queue: list[Queued] = []
    late = []
    arrivals = sorted(data.draw(st.lists(st.integers(0, 400), min_size=1, max_size=8)))
    stops = [(NOW + at_s * US, f"j{k}") for k, at_s in enumerate(arrivals)]
    while stops or queue:
        arrival_us = stops[0][0] if stops else FOREVER_US
        end_us = fleet.next_end_us() or FOREVER_US
        fleet.go_to(min(arrival_us, end_us))
        if arrival_us == fleet.at_us:
            ask = data.draw(asks(fleet.view, stops.pop(0)[1], late=False))
            new = Queued(ask, data.draw(st.sampled_from(QUICK)))
            position = place_in(queue, new)
            view = fleet.see()
            answer = PLAIN.admit(view, fleet.running, queue, new, position, fleet.at_us)
            if isinstance(answer, Admitted):
                queue.insert(position, new)
        while queue:
            placed = PLAIN.place(queue[0].policy, fleet.see(), queue[0].ask, fleet.at_us)
            if isinstance(placed, Unplaceable):
                break
            ask = queue.pop(0).ask
            end_us = fleet.start(ask, placed).end_us
            if ask.deadline_us is not None and end_us >= ask.deadline_us:
                late.append(ask.id)
    assert late == []


# Compiled


@pytest.fixture(scope="module")
def kept() -> str:
    """Where machine code is kept: of code that did not change, from one run to the next."""
    return kept_kernels()


@pytest.fixture(scope="module")
def compiled(kept: str) -> Policies:
    policies = Policies()
    policies.compile(kept)
    return policies


@pytest.mark.computes
@pytest.mark.timeout(1800)
@given(case=queues(boots=True), data=st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_compiled_equals_plain(
    compiled: Policies,
    case: tuple[ClusterView, list[Occupied], list[Queued]],
    data: st.DataObject,
) -> None:
    view, running, queue = case
    assert compiled.predict(view, running, queue, NOW) == PLAIN.predict(view, running, queue, NOW)
    new = Queued(data.draw(asks(view, "new")), data.draw(st.sampled_from(QUICK)))
    for policy in QUICK:
        one, other = (p.place(policy, view, new.ask, NOW) for p in (compiled, PLAIN))
        assert one == other
    position = place_in(queue, new)
    one_answer, other_answer = (
        p.admit(view, running, queue, new, position, NOW) for p in (compiled, PLAIN)
    )
    assert one_answer == other_answer


@pytest.mark.computes
@pytest.mark.timeout(1800)
def test_nothing_compiles_after_the_warm_up(compiled: Policies) -> None:
    view = view_of([N("a"), N("b", is_cloud=True, is_on=False, boot_s=30)])
    for array in (view.free_cpu_m, view.is_on):
        array.flags.writeable = False
    ask = Ask("x", 6, 1000, GIB, 100 * US, 130 * US, NOW + 500 * US, np.ones(2, dtype=np.bool_))
    assert isinstance(compiled.place("ff", view, ask, NOW), Placed)
    assert compiled.predict(view, [], [Queued(ask, "gio")], NOW)["x"] is not None
    dispatchers: list[Any] = list(compiled._kernels)
    assert [len(one.signatures) for one in dispatchers] == [1] * len(dispatchers)


@pytest.mark.computes
@pytest.mark.timeout(1800)
def test_kept_machine_code_is_loaded_and_decides_the_same(compiled: Policies, kept: str) -> None:
    again = Policies()
    again.compile(kept)
    loaded: list[Any] = list(again._kernels)
    assert [sum(one.stats.cache_hits.values()) for one in loaded] == [1] * len(loaded)
    assert not any(one.stats.cache_misses for one in loaded)
    view = view_of([N("a", usd_per_h=0.3), N("b", is_cloud=True)])
    queue = [Queued(ask_of(view, 3, id=name, local_s=20), "gio") for name in "xyz"]
    assert again.predict(view, [], queue, NOW) == PLAIN.predict(view, [], queue, NOW)
