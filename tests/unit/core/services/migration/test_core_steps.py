"""The step tables of migrations: where they lead, and how many copies may run at each step."""

from __future__ import annotations

import pytest

from tenure.core.services.migration.steps import (
    CARRYING,
    FORWARD,
    TARGET_MAY_RUN,
    following,
    is_committed,
)
from tenure.model.container import STEP_OVER, Step

METHODS = tuple(FORWARD)
ENDING = {"live": Step.CHECKPOINT, "snapshot": Step.STOP, "stop-first": Step.STOP}


def way(method: str, step: Step = Step.QUEUED, *, has_volumes: bool = True) -> list[Step]:
    found = [step]
    while found[-1] not in STEP_OVER:
        found.append(following(method, found[-1], has_volumes=has_volumes))
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("has_volumes", [False, True])
def test_every_step_leads_to_an_end(method: str, has_volumes: bool) -> None:
    for step in FORWARD[method]:
        end = way(method, step, has_volumes=has_volumes)[-1]
        assert end is (Step.ROLLED_BACK if step.name.startswith("UNDO") else Step.DONE)


@pytest.mark.parametrize("method", METHODS)
def test_after_the_commit_there_is_no_way_back(method: str) -> None:
    committed = [step for step in way(method) if is_committed(step)]
    assert committed == [Step.COMMIT, Step.SWEEP, Step.DONE]


@pytest.mark.parametrize("method", tuple(ENDING))
def test_the_source_is_disarmed_and_ended_before_the_target_may_run(method: str) -> None:
    steps = way(method)
    assert steps.index(Step.DISARM) < steps.index(ENDING[method]) < steps.index(Step.START)
    assert not TARGET_MAY_RUN & set(steps[: steps.index(Step.START)])


@pytest.mark.parametrize("method", ["live", "snapshot"])
def test_files_are_carried_from_a_source_that_stands_still(method: str) -> None:
    steps = way(method)
    order = [ENDING[method], Step.CARRY, Step.CREATE, Step.TRANSFER, Step.START]
    assert [step for step in steps if step in order] == order
    assert steps.index(Step.PREPARE) < steps.index(Step.DISARM)


def test_what_does_not_run_is_carried_disarmed_and_never_started() -> None:
    steps = way("at-rest")
    assert not {Step.START, Step.VERIFY, Step.STOP} & set(steps)
    order = [Step.PREPARE, Step.DISARM, Step.CARRY, Step.CREATE, Step.TRANSFER, Step.COMMIT]
    assert [step for step in steps if step in order] == order


def test_start_first_never_stops_the_source_before_the_commit() -> None:
    assert not {Step.STOP, Step.DISARM, Step.CHECKPOINT} & set(way("start-first"))


def test_a_restart_without_volumes_carries_nothing() -> None:
    assert CARRYING & set(way("stop-first", has_volumes=True)) == {Step.PREPARE, Step.TRANSFER}
    assert not CARRYING & set(way("stop-first", has_volumes=False))


@pytest.mark.parametrize("method", METHODS)
def test_the_way_back_removes_the_target_before_it_starts_the_source(method: str) -> None:
    steps = way(method, Step.UNDO_TARGET)
    assert steps == [Step.UNDO_TARGET, Step.UNDO_SOURCE, Step.UNDO_ARM, Step.ROLLED_BACK]
