"""The order of the queue and its head-of-line rule."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.line import Line, queue_key
from tenure.model.job import Job, JobSpec, JobState
from tenure.model.resources import Resources


def job(seq: int, *, priority: int = 0, deadline_us: int | None = None, policy: str = "gio") -> Job:
    spec = JobSpec(
        name=f"j{seq}",
        app="a",
        image="i",
        command=(),
        executors=1,
        request=Resources(1, 1),
        priority=priority,
        deadline_us=deadline_us,
        policy=policy,
    )
    return Job(f"j-{seq}", seq, spec, arrival_us=seq)


def test_queue_order() -> None:
    """Priority first, then deadline, jobs without one last, then arrival."""
    rows = [
        job(5, priority=1),
        job(4, deadline_us=10),
        job(2, deadline_us=20),
        job(3, deadline_us=20),
        job(1),
        job(6),
        job(0, priority=-1, deadline_us=1),
    ]
    assert sorted(reversed(rows), key=queue_key) == rows


def test_policies_in_arrival_order_queue_as_jobs_without_deadline() -> None:
    rows = [
        job(9, deadline_us=30, policy="asq"),
        job(3, deadline_us=40, policy="exact"),
        job(1, deadline_us=20, policy="fifo"),
        job(2),
        job(4, deadline_us=10, policy="fifo_c"),
        job(5, deadline_us=5, policy="fifo_c_free"),
    ]
    assert sorted(reversed(rows), key=queue_key) == rows


def test_newcomers_are_told_in_order_until_they_were_looked_at() -> None:
    line, late, early = Line(), job(1, deadline_us=20), job(2, deadline_us=10)
    for one in (late, early):
        line.put(one)
    assert line.newcomers() == [early.id, late.id]
    line.put(replace(early, state=JobState.WAITING))
    assert line.newcomers() == [late.id]
    line.put(replace(late, is_cancelling=True))
    assert line.newcomers() == []
    assert list(line) == [early.id]
