"""List scheduling: feasible always, exact for one chain, jobs whole or refused with the reason."""

from dataclasses import replace

import numpy as np
import pytest

from tenure.harvest.grid import Grid, waves
from tenure.harvest.io.solve import plan
from tenure.harvest.problem import Job, Problem
from tenure.harvest.solvers.first_fit import first_fit, random_first_fit
from tenure.model.errors import InvalidInput
from tests.unit.harvest.problems import GIB, assert_feasible, data_centre, flat, map_reduce, stage

TWO = (flat("slow", 2, 8), flat("fast", 1, 8, speed=2.0))


def test_fast_nodes_take_what_would_end_later_on_slow_ones() -> None:
    """5 maps of 2 ticks (1 on the fast node): 2 at once on the slow one, 3 after each other."""
    problem = Problem(TWO, (Job("j", (stage("map", 7, 20.0),)),), 10.0, 2)
    found = first_fit(problem)
    assert_feasible(problem, found)
    assert found.makespan == 4
    assert sum(s.count for s in found.starts if s.node == 1) == 3


def test_a_job_that_does_not_fit_leaves_its_room_to_others() -> None:
    jobs = (map_reduce("long", 40, 1), map_reduce("short", 2, 1))
    problem = Problem((flat("n", 2, 8),), jobs, 10.0, 2)
    found = first_fit(problem)
    assert_feasible(problem, found)
    assert [(r.job, r.code) for r in found.refusals] == [(0, "no_room")]
    assert found.scheduled == 3


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"cpu_m": 3000}, "never_fits"),
        ({"memory_bytes": 9 * GIB}, "never_fits"),
        ({"nodes": ()}, "no_nodes"),
    ],
)
def test_what_never_fits_is_told_apart(more: dict[str, object], code: str) -> None:
    problem = Problem(TWO, (Job("j", (stage("map", 1, 10.0, **more),)),), 10.0, 2)
    refusal = first_fit(problem).refusals[0]
    assert refusal.code == code
    assert "'map' of 'j'" in refusal.detail


def test_no_node_at_all() -> None:
    assert first_fit(Problem((), (map_reduce("j", 1, 1),))).refusals[0].code == "no_nodes"


def test_links_hold_tasks_up() -> None:
    node = replace(flat("n", 8, 8), link_bytes_per_s=10)
    problem = Problem((node,), (Job("j", (stage("map", 3, 10.0, chunk_bytes=200),)),), 10.0, 2)
    found = first_fit(problem)
    assert_feasible(problem, found)
    assert [s.tick for s in found.starts] == [2, 4, 6]


@pytest.mark.parametrize("seed", range(3))
def test_plans_of_the_papers_size_are_feasible(seed: int) -> None:
    problem = data_centre(9, 680, jobs=2, seed=seed, link=6_250_000)
    found = first_fit(problem)
    assert found.scheduled == 680
    assert_feasible(problem, found)
    drawn = random_first_fit(problem, np.random.default_rng(seed))
    assert_feasible(problem, drawn)
    assert drawn.makespan >= found.makespan


def test_bad_problems_and_solvers_are_refused() -> None:
    problem = Problem(TWO, (map_reduce("j", 1, 1),), 10.0, 2)
    with pytest.raises(InvalidInput, match=r"step_ticks"):
        plan(replace(problem, step_ticks=0))
    with pytest.raises(InvalidInput, match="is none of"):
        plan(problem, "oracle")


@pytest.mark.parametrize("seed", range(20))
def test_waves_are_what_trying_tick_by_tick_finds(seed: int) -> None:
    """Free room with gaps, tasks of some ticks, with and without chunks on a slow link."""
    dice = np.random.default_rng(seed)
    link = None if seed % 2 else int(dice.integers(1, 40))
    node = replace(flat("n", 4, 8), link_bytes_per_s=link)
    work = stage("map", 9, float(10 * dice.integers(1, 4)), chunk_bytes=0 if link is None else 200)
    grid = Grid.of(Problem((node,), (Job("j", (work,)),), 10.0, 2))
    grid.cpu_m[0] = 1000 * dice.integers(0, 4, grid.ticks) * (dice.random(grid.ticks) < 0.8)
    room, there = grid.room(work, 0, 3), grid.brought(work, 0, 3)
    lasts = grid.problem.duration(work, 0)
    found, started = [], 0
    for at in range(room.shape[0] - lasts + 1):
        count = int(room[at : at + lasts].min())
        if there is not None:
            count = min(count, int(there[at]) - started)
        if count > 0:
            found.append((3 + at, count))
            room[at : at + lasts] -= count
            started += count
    assert list(waves(grid, work, 0, 3)) == found
