"""The step tables of migrations: where they lead, and how many copies may run at each step."""

from __future__ import annotations

import pytest

from tenure.core.steps import FORWARD, TARGET_MAY_RUN, is_committed, may_be_start_first
from tenure.model.container import STEP_OVER, Step


def way(step: Step, *, is_start_first: bool) -> list[Step]:
    table, found = FORWARD[is_start_first], [step]
    while found[-1] not in STEP_OVER:
        found.append(table[found[-1]])
    return found


@pytest.mark.parametrize("is_start_first", [False, True])
def test_every_step_leads_to_an_end(is_start_first: bool) -> None:
    for step in FORWARD[is_start_first]:
        end = way(step, is_start_first=is_start_first)[-1]
        assert end is (Step.ROLLED_BACK if step.name.startswith("UNDO") else Step.DONE)


@pytest.mark.parametrize("is_start_first", [False, True])
def test_after_the_commit_there_is_no_way_back(is_start_first: bool) -> None:
    committed = [s for s in way(Step.QUEUED, is_start_first=is_start_first) if is_committed(s)]
    assert committed == [Step.COMMIT, Step.SWEEP, Step.DONE]


def test_stop_first_stops_the_source_before_the_target_may_run() -> None:
    steps = way(Step.QUEUED, is_start_first=False)
    assert steps.index(Step.DISARM) < steps.index(Step.STOP) < steps.index(Step.START)
    assert not TARGET_MAY_RUN & set(steps[: steps.index(Step.START)])


def test_start_first_never_stops_the_source_before_the_commit() -> None:
    steps = way(Step.QUEUED, is_start_first=True)
    assert Step.STOP not in steps
    assert Step.DISARM not in steps


def test_the_way_back_removes_the_target_before_it_starts_the_source() -> None:
    for is_start_first in (False, True):
        steps = way(Step.UNDO_TARGET, is_start_first=is_start_first)
        assert steps == [Step.UNDO_TARGET, Step.UNDO_SOURCE, Step.UNDO_ARM, Step.ROLLED_BACK]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, True),
        ({"HostConfig": None}, True),
        ({"HostConfig": {"Binds": ["/data:/data"]}}, False),
        ({"HostConfig": {"Binds": ["/data:/data:ro", "/x:/y:ro,z"]}}, True),
        ({"HostConfig": {"Binds": ["/data:/data:rw"]}}, False),
        ({"HostConfig": {"Mounts": [{"Type": "volume", "Target": "/x"}]}}, False),
        ({"HostConfig": {"Mounts": [{"Type": "bind", "ReadOnly": True}]}}, True),
        ({"HostConfig": {"Mounts": [{"Type": "tmpfs"}]}}, True),
        ({"HostConfig": {"PortBindings": {"80/tcp": [{"HostPort": "80"}]}}}, False),
        ({"HostConfig": {"NetworkMode": "host"}}, False),
        ({"HostConfig": {"NetworkMode": "bridge"}}, True),
        ({"MacAddress": "02:42:ac:11:00:02"}, False),
        ({"Volumes": {"/data": {}}}, False),
    ],
)
def test_what_forbids_two_copies_at_a_time(body: dict[str, object], expected: bool) -> None:
    assert may_be_start_first(body, overlap=False) is expected
    assert may_be_start_first(body, overlap=True) is True
