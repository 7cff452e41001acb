"""Salamander against Cuckoo on made hosts: where chunks lie, what plans do, what is ended."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reproductions.salamander.check import violations
from reproductions.salamander.controllers import cuckoo
from reproductions.salamander.dispatch import dealt
from reproductions.salamander.planned import Again, Foreseen, moved, problem_of, salamander
from reproductions.salamander.replay import Batch, Course, Host, Replayed
from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Problem
from tenure.harvest.solution import Solution
from tenure.harvest.solvers.first_fit import first_fit
from tenure.model.qos import QosParams
from tenure.model.resources import Resources

GIB = 1 << 30
MB = 10**6
NODE = Resources(16_000, 64 * GIB)
PARAMS = QosParams(cpu_margin=0.05, memory_margin=0.05)
BATCH = Batch(maps=48, reduces=4, task_memory_bytes=3 * GIB, chunk_bytes=128 * MB)
#: The paper's links: a chunk takes 20.48 s.
LINK = 6_250_000
POINTS = 480


def host(cpu: float = 0.0, memory: float = 0.1) -> Host:
    return Host(
        NODE,
        [round(cpu * NODE.cpu_m)] * POINTS,
        [round(memory * NODE.memory_bytes)] * POINTS,
        link_bytes_per_s=LINK,
    )


def told(cpu: float = 0.0, memory: float = 0.1) -> Foreseen:
    return Foreseen([cpu] * POINTS, [memory] * POINTS)


def planned(hosts: list[Host], ahead: list[Foreseen], batch: Batch = BATCH) -> Replayed:
    problem = problem_of(hosts, ahead, batch, 0.05)
    found = plan(problem, "cp", time_limit_s=5)
    assert violations(problem, found) == []
    return salamander(hosts, batch, PARAMS, (problem, found))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_plan_that_comes_true_ends_when_it_says_with_nothing_remote_or_relaunched(
    *, is_streamed: bool
) -> None:
    hosts = [host(), host(), host()]
    problem = problem_of(hosts, [told()] * 3, BATCH, 0.05, is_streamed=is_streamed)
    found = plan(problem, "cp", time_limit_s=5)
    run = salamander(hosts, BATCH, PARAMS, (problem, found))
    assert (run.kills, run.remote) == (0, 0)
    # 16 chunks a host or more at 20.48 s each, before the job or with it
    assert (run.placing_s == 0) == is_streamed
    assert is_streamed or run.placing_s >= 16 * 20.48
    assert ((run.duration_s or 0) > 16 * 20.48) == is_streamed
    assert run.duration_s is not None
    # ends of tasks are rounded up to ticks in the plan, by a tick for each of several waves
    assert 0 <= found.makespan * problem.tick_s - run.duration_s < 6 * problem.tick_s


def test_wrong_forecasts_of_memory_end_tasks_and_the_plan_is_shifted() -> None:
    """Owners take more than forecast; what is ended starts there again, where its chunk is."""
    late = replace(host(), memory_bytes=[6 * GIB] + [48 * GIB] * 2 + [6 * GIB] * POINTS)
    slow = replace(BATCH, map_core_s=200.0)
    run = planned([late, late], [told(), told()], slow)
    sure = planned([host(), host()], [told(), told()], slow)
    assert run.kills > 0 == sure.kills
    assert run.kills_for_cpu == run.remote == 0
    assert run.duration_s is not None
    assert sure.duration_s is not None
    assert run.duration_s > sure.duration_s


def test_cpu_that_owners_take_slows_a_plan_and_ends_nothing() -> None:
    busy = host(cpu=0.9)
    run = planned([busy, busy], [told(), told()])
    assert run.kills == 0
    assert run.duration_s is not None
    assert run.duration_s > (planned([host(), host()], [told(), told()]).duration_s or 0)


def test_a_job_that_no_plan_fits_is_not_done() -> None:
    full = [told(memory=1.0)] * 2
    assert planned([host(), host()], full) == Replayed(None, 52, 0, 0)


def test_cuckoo_places_three_replicas_by_weight() -> None:
    hosts = [host() for _ in range(4)]
    weights = [3.0, 1.0, 1.0, 1.0]
    where = dealt(hosts, 60, weights)
    assert all(len(set(row)) == 3 for row in where)
    firsts = [row[0] for row in where]
    assert [firsts.count(k) for k in range(4)] == [30, 10, 10, 10]
    run = cuckoo(hosts, replace(BATCH, maps=60), PARAMS, weights=weights)
    assert run.placing_s == pytest.approx(30 * 20.48)


def test_a_host_without_chunks_of_its_own_fetches_those_of_others() -> None:
    """Weights are wrong: the least weighted host is the one with room."""
    hosts = [host(cpu=0.97), host(cpu=0.97), host(cpu=0.97), host()]
    small = replace(BATCH, task_memory_bytes=GIB)
    run = cuckoo(hosts, small, PARAMS, weights=[1.0, 1.0, 1.0, 0.0])
    assert run.remote == BATCH.maps, "the three others take nothing"
    assert run.kills == 0


def test_slow_tasks_get_a_copy_and_the_first_to_end_counts() -> None:
    """One host's owners take nearly all: throttled tasks there would last for hours."""
    crawls = [host(cpu=0.94), host(), host(), host()]
    run = cuckoo(crawls, replace(BATCH, task_memory_bytes=GIB), PARAMS)
    assert run.kills == 0
    assert run.duration_s is not None
    assert run.duration_s < 600, "four waves' time, and not hours"
    even = cuckoo([host()] * 4, replace(BATCH, task_memory_bytes=GIB), PARAMS)
    assert even.duration_s is not None
    assert even.duration_s < run.duration_s
    assert even.remote <= run.remote


def test_slots_that_owners_cpu_does_not_bear_end_tasks() -> None:
    """20 slots on 16 cores of which owners take some: the old controller ends what is too much."""
    hosts = [host(cpu=0.5), host(cpu=0.2), host(cpu=0.2), host(cpu=0.2)]
    batch = replace(BATCH, maps=200, task_memory_bytes=GIB)
    old = cuckoo(hosts, batch, replace(PARAMS, controller="cuckoo"))
    new = cuckoo(hosts, batch, PARAMS)
    assert old.kills == old.kills_for_cpu > 0 == new.kills
    assert old.duration_s is not None
    assert new.duration_s is not None


def test_memory_that_owners_leave_is_no_concern_of_slots() -> None:
    hosts = [host(memory=0.6), host(memory=0.6), host(memory=0.6)]
    run = cuckoo(hosts, replace(BATCH, maps=90), PARAMS)
    # 20 tasks of 3 GiB on 64 GiB less 60 %
    assert run.kills > 0
    assert run.duration_s is not None
    assert planned(hosts, [told(memory=0.6)] * 3, replace(BATCH, maps=90)).kills == 0


def test_hosts_whose_owners_entered_the_margin_take_nothing() -> None:
    full = host(cpu=0.97)
    run = cuckoo([full, full, full], BATCH, PARAMS, Course(limit_s=600))
    assert (run.duration_s, run.kills, run.remote) == (None, 0, 0)


def test_a_finer_look_changes_little() -> None:
    """Events are rounded to looks: a second's differ by seconds at most."""
    swing = [round(NODE.cpu_m * (0.5 + 0.3 * math.sin(n))) for n in range(POINTS)]
    hosts = [replace(host(), cpu_m=swing), host(), host()]
    fine, coarse = (cuckoo(hosts, BATCH, PARAMS, Course(look_s=look_s)) for look_s in (0.1, 1.0))
    assert fine.kills == coarse.kills
    assert fine.duration_s is not None
    assert coarse.duration_s == pytest.approx(fine.duration_s, abs=15)


def test_forecasts_and_margin_bound_what_is_planned() -> None:
    problem = problem_of([host()], [told(cpu=0.5, memory=0.25)], BATCH, 0.25)
    (node,) = problem.nodes
    assert node.cpu_m[0] == 4000
    assert node.memory_bytes[0] == 32 * GIB
    assert (node.link_bytes_per_s, problem.step_ticks) == (LINK, 18)
    assert told(cpu=0.25).free_cpu == 0.75


def begun_anew(hosts: list[Host], ahead: list[Foreseen], batch: Batch = BATCH) -> Replayed:
    """Run a plan as the daemon does where hosts have no CPU."""
    problem = problem_of(hosts, ahead, batch, 0.05)
    whole = problem_of(hosts, ahead, batch, 0.05, is_streamed=True)

    def solve(rest: Problem) -> Solution:
        found = first_fit(rest)
        assert violations(rest, found) == []
        return found

    again = Again(problem, plan(problem, "cp", time_limit_s=5), whole, solve)
    return moved(hosts, batch, PARAMS, again)


def test_tasks_of_a_host_without_cpu_begin_elsewhere_where_a_plan_that_is_shifted_waits() -> None:
    """One host's owners want all of it for good, against its forecast."""
    hosts, ahead = [host(), host(), host(cpu=1.0)], [told()] * 3
    shifted, anew = planned(hosts, ahead), begun_anew(hosts, ahead)
    assert shifted.duration_s is None
    assert anew.duration_s is not None
    assert anew.duration_s < 600
    assert anew.kills == 0
    # a third of the maps were to run there, and their chunks were there
    assert 14 <= anew.remote <= 18
    assert anew.moved >= anew.remote


def test_tasks_that_a_host_can_no_longer_end_begin_anew_elsewhere() -> None:
    """Its owners come back when they are half done, and stay."""
    late = replace(host(), cpu_m=[0] + [NODE.cpu_m] * POINTS)
    slow = replace(BATCH, map_core_s=300.0)
    hosts, ahead = [host(), host(), late], [told()] * 3
    assert planned(hosts, ahead, slow).duration_s is None
    run = begun_anew(hosts, ahead, slow)
    assert run.duration_s is not None
    assert run.remote > 0


def test_where_all_hosts_have_cpu_nothing_is_planned_anew() -> None:
    hosts, ahead = [host()] * 3, [told()] * 3
    assert begun_anew(hosts, ahead) == planned(hosts, ahead)
