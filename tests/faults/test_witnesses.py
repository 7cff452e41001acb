"""The witnesses of the fault runs notice what they are there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.laws import US, Span, unseen_us_at
from tests.faults.plans import PLANS
from tests.faults.share import Share
from tests.faults.strikes import Tally
from tests.faults.truth import Truth


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    return Truth(tmp_path / "beats")


def write(truth: Truth, name: str, *lines: str) -> str:
    rows = [f"{line} 1 {number}.0\n" for number, line in enumerate(lines)]
    (truth.folder / name).write_text("".join(rows))
    return name


def test_one_after_the_other_is_no_double(truth: Truth) -> None:
    name = write(truth, "job.a.0", "START x", "BEAT x", "END7 x", "START y", "BEAT y", "END0 y")
    assert truth.doubles(name) == []
    assert truth.restarts(name) == []


def test_a_beat_after_anothers_start_is_a_double(truth: Truth) -> None:
    name = write(truth, "job.a.0", "START x", "START y", "BEAT x")
    assert truth.doubles(name) == ["job.a.0: x wrote BEAT after y had started"]


def test_a_source_that_is_started_again_after_its_target_is_no_double(truth: Truth) -> None:
    lines = ("START x", "TERM x", "START y", "TERM y", "START x", "BEAT x")
    name = write(truth, "service.a", *lines)
    assert truth.doubles(name) == []
    assert truth.restarts(name) == ["service.a: x started twice"]


@pytest.mark.parametrize("seed", range(5))
def test_tenth_and_rest_are_all_strikes(seed: int) -> None:
    for name, plan in PLANS.items():
        parts = Share("tenth", seed).of(name) + Share("rest", seed).of(name)
        assert sorted(parts) == sorted(plan) == sorted(Share("all", seed).of(name))
    struck = sum(len(Share("tenth", seed).of(name)) for name in PLANS)
    assert struck == (sum(map(len, PLANS.values())) + 9) // 10


def test_the_daemon_is_killed_more_than_twenty_times() -> None:
    assert len(Share("rest", 20).of("kill_daemon")) >= 20


def test_a_step_never_struck_is_told() -> None:
    tally = Tally(("run.due", "run.claimed"))
    tally.note("run.due", was_struck=True, standing=("job.running",))
    tally.note("run.claimed", was_struck=False)
    assert tally.missing() == ["run.claimed"]
    assert "job.running" not in tally.table()


def test_only_what_nobody_could_see_is_allowed() -> None:
    dead = [Span(10 * US, 12 * US)]
    assert unseen_us_at(11 * US, dead) == 5 * US
    assert unseen_us_at(20 * US, dead) == 0
    assert unseen_us_at(5 * US, dead) == 0
