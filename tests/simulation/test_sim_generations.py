"""GENPACK's experiments in virtual time: section 3, and laws of the replay."""

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.model.errors import InvalidInput
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US
from tenure.simulation.generations import scenario
from tenure.simulation.generations.machines import Meter, PowerModel
from tenure.simulation.generations.replay import Outcome, Replay
from tenure.simulation.generations.setup import ALWAYS_ON, Setup, generations, pooled
from tenure.simulation.generations.study import (
    Study,
    half_width,
    idle_shares,
    ours,
    paper,
    strategies,
)
from tenure.simulation.generations.tasks import COLUMNS, NODE, Task, read_tasks

TRACE = Path(os.environ.get("TENURE_DATA", "")) / "borg2011_tasks_12h.csv.gz"


def task(number: int, at_s: int, run_s: int, cores: int = 2, app: str = "") -> Task:
    use = Resources(1000 * cores, NODE.memory_bytes // 16)
    return Task(f"t{number:03}", app or f"a{number}", at_s * US, run_s * US, use, use)


def replay(tasks: Sequence[Task], setup: Setup, hours: float = 1.0) -> Outcome:
    return Replay(tasks, setup, round(hours * HOUR_US)).run()


def test_section_3_three_hosts_where_the_policies_need_four() -> None:
    rows = {row["strategy"]: row for row in scenario.table()}
    assert rows["genpack"]["twelve"] == 3
    assert rows["genpack"]["twelve_on_three"] == 12
    for name in ("spread", "binpack"):
        assert (rows[name]["twelve"], rows[name]["twelve_on_three"]) == (4, 10)
    assert rows["genpack"]["twenty"] == 5
    assert rows["binpack"]["twenty"] == 6


def test_a_meter_by_hand() -> None:
    """An hour on, half used; half an hour off; a minute of boot: the linear model of the issue."""
    meter = Meter(on_s=3600, off_s=1800, boot_s=60, used_s=1800)
    joules = 120 * 3600 + 80 * 1800 + 200 * 60 + 5 * 1800
    assert meter.kwh(PowerModel()) == pytest.approx(joules / 3.6e6)


def test_always_on_by_hand() -> None:
    outcome = replay([task(1, 0, 600, cores=4)], pooled(ALWAYS_ON))
    assert outcome.meter.kwh(PowerModel()) == pytest.approx(12 * 0.120 + 0.080 * 0.5 / 6)
    assert (outcome.completion_s, outcome.boots) == ([600.0], 0)


def test_what_does_not_fit_boots_a_machine_and_waits_for_it() -> None:
    tasks = [task(n, 0, 600, cores=4) for n in range(3)]
    outcome = replay(tasks, pooled("binpack"))
    assert (outcome.boots, sorted(outcome.completion_s)) == (1, [600.0, 600.0, 660.0])
    assert outcome.meter.boot_s == 60
    # the first goes off when its grace is over, the second, being the last one, stays on
    assert outcome.meter.on_s == (600 + 60) + (3600 - 60)


def test_a_full_fleet_makes_the_rest_wait_and_the_end_kills_what_runs() -> None:
    tasks = [task(n, 0, 1000, cores=8) for n in range(4)]
    outcome = replay(tasks, replace(pooled("binpack", 2)), hours=0.5)
    assert sorted(outcome.completion_s) == [1000.0, 1060.0]
    assert (outcome.killed, outcome.waiting) == (2, 0)
    assert replay(tasks, pooled("binpack", 1), hours=0.5).waiting == 2


def test_generations_move_what_lives_long_and_each_move_costs_its_time() -> None:
    outcome = replay([task(1, 0, 1500), task(2, 0, 100)], paper())
    assert [(at // US, a, b) for at, a, b in outcome.migrations] == [
        (300 + 60 + 2, "nursery", "young"),  # the host boots for it
        (1200 + 60 + 2, "young", "tenured"),  # at 600 its cool-down is not over
    ]
    assert sorted(outcome.completion_s) == [100.0, 1504.0]
    assert outcome.moved("nursery", "young", until_us=300 * US) == 0


def test_a_known_app_skips_the_nursery() -> None:
    tasks = [task(1, 0, 200, app="web"), task(2, 400, 200, app="web"), task(3, 400, 200)]
    assert replay(tasks, generations()).skipped_nursery == 1
    assert replay(tasks, replace(generations(), knows_apps=False)).skipped_nursery == 0


def test_a_full_nursery_borrows_hosts_or_has_what_comes_wait() -> None:
    tasks = [task(n, 0, 1000, cores=8) for n in range(7)]
    waits = replay(tasks, replace(ours(), is_borrowing=False))
    assert (waits.borrowed, max(waits.completion_s)) == (0, 2060.0)
    borrows = replay(tasks, ours())
    assert (borrows.borrowed, max(borrows.completion_s)) == (2, 1060.0)


def test_half_of_a_confidence_interval_by_hand() -> None:
    assert half_width([1.0]) is None
    # the textbook's t of 2 degrees of freedom is 4.303, the deviation is 1
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5, abs=1e-3)


def test_escape_for_a_saving_leaves_a_lone_container_where_it_is() -> None:
    assert replay([task(1, 0, 1500)], ours()).migrations == []


TASKS = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(1, 2900), st.integers(1, 8)), max_size=40
)


@settings(deadline=None, max_examples=40)
@given(TASKS, st.sampled_from(range(len(strategies()))))
def test_laws_of_a_replay(rows: list[tuple[int, int, int]], chosen: int) -> None:
    """Nothing is lost or ends early; no host is over its room; every second is counted."""
    tasks = [task(n, *row) for n, row in enumerate(rows)]
    tasks.sort(key=lambda one: (one.submit_us, one.id))
    setup = strategies()[chosen]
    run = _Watched(tasks, setup, 2 * HOUR_US)
    outcome = run.run()
    assert len(outcome.completion_s) + outcome.killed + outcome.waiting == len(tasks)
    assert all(stretch >= 1 for stretch in outcome.stretch)
    meter = outcome.meter
    assert meter.on_s + meter.off_s + meter.boot_s == pytest.approx(12 * 7200)
    assert meter.used_s <= meter.on_s + 1e-6
    ended_s = sum(t.run_us * t.use.cpu_m for t in tasks) / US / NODE.cpu_m
    if outcome.killed == outcome.waiting == 0 and not outcome.migrations:
        assert meter.used_s == pytest.approx(ended_s)
    assert run.most <= 1.0


class _Watched(Replay):
    """A replay that looks, after every step, that no machine holds more than it has."""

    most = 0.0

    def _touch(self, machine: object) -> None:
        for row in self.machines.values():
            kept, row.kept = row.kept, None
            free = row.free(self.setup.headroom)
            assert kept in (None, free)
            self.most = max(self.most, 1 - free.cpu_m / NODE.cpu_m)
            assert min(free.cpu_m, free.memory_bytes) >= 0, row.name
        super()._touch(machine)  # type: ignore[arg-type]


def test_the_same_tasks_give_the_same_outcome() -> None:
    tasks = [task(n, 40 * n, 300 + 37 * n % 900, cores=1 + n % 5) for n in range(40)]
    for setup in strategies():
        assert replay(tasks, setup) == replay(tasks, setup)


def trace(path: Path, rows: list[tuple[object, ...]], header: Sequence[str] = COLUMNS) -> Path:
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


ROW = (1, 0, 5.5, 100, "finish", 0.125, 0.25, 7)


def test_the_trace_is_filtered_as_the_paper_says(tmp_path: Path) -> None:
    path = trace(
        tmp_path / "t.csv.gz",
        [
            ROW,
            (1, 1, 1, 100, "kill", 0.1, 0.1, 7),
            (1, 2, 1, 3000.5, "finish", 0.1, 0.1, 7),
            (1, 3, 1, "", "finish", 0.1, 0.1, 7),
            (1, 4, 43_200, 9, "finish", 0.1, 0.1, 7),
            (2, 0, 0, 9, "finish", 0.0, 0.1, 8),
            (2, 0, 30, 9, "finish", 0.0, 0.1, 8),
        ],
    )
    found = read_tasks(path, [7, 8])
    request = Resources(1000, 2048 * 1024**2)
    assert found[7] == [Task("1/0/2", "1", 5_500_000, 100 * US, request, request)]
    assert found[8][0].request.cpu_m == 1
    assert len({task.id for task in found[8]}) == 2  # a task may finish more than once
    drawn = read_tasks(path, [7], is_used_drawn=True)[7][0]
    assert drawn == read_tasks(path, [7], is_used_drawn=True)[7][0]
    assert 0 < drawn.use.cpu_m <= drawn.request.cpu_m


@pytest.mark.parametrize(
    ("rows", "header", "says"),
    [
        ([ROW, (1, 1, "x", 1, "finish", 1, 1, 7)], COLUMNS, "row 3"),
        ([ROW], COLUMNS[1:], "no column job"),
    ],
)
def test_a_faulty_trace_says_where(
    tmp_path: Path, rows: list[tuple[object, ...]], header: Sequence[str], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        read_tasks(trace(tmp_path / "t.csv.gz", rows, header), [7])
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_tasks(tmp_path / "absent.csv", [7])


@pytest.mark.skipif(not TRACE.is_file(), reason="TENURE_DATA names no folder with the Borg trace")
def test_the_papers_replay() -> None:
    samples = Study(TRACE, repetitions=1).samples(1, is_used_drawn=False)
    study = Study(TRACE, repetitions=1)
    found = {setup.strategy: study.run(setup, samples) for setup in strategies()}
    rows = {(r["idle_share"], r["strategy"]): r for r in idle_shares(found)}
    for share in (0.3, 0.6, 0.7):
        assert rows[share, ours().strategy]["saved_always_on"] > 0.23
    mine = found[paper().strategy][0]
    assert 40 <= mine.moved("young", "tenured", until_us=2 * HOUR_US) <= 60  # the paper: 50
    assert len(mine.completion_s) > 0.99 * len(samples[0])
