"""The line of jobs that wait for a place, always in order, so that no event sorts it.

Owned by ``Context``, as an index.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tenure.model.job import Job, JobState
from tenure.model.placing import queue_deadline_us

QUEUED = frozenset((JobState.ACCEPTED, JobState.WAITING))
Key = tuple[int, int, int]


def queue_key(job: Job) -> Key:
    """Return the order of the queue: priority, then deadline (none is last), then arrival.

    Jobs of the paper's ``fifo`` and ``fifo_c`` count as having none (``queue_deadline_us``).
    """
    deadline_us = queue_deadline_us(job.spec.policy, job.spec.deadline_us)
    return (-job.spec.priority, deadline_us, job.seq)


def is_queued(job: Job) -> bool:
    """Whether the job waits for a place."""
    return job.state in QUEUED and not job.is_cancelling


@dataclass(slots=True)
class WaitingJobs:
    """Ids of queued jobs in the order of ``queue_key``, which never changes for a job."""

    _rows: list[tuple[Key, str]] = field(default_factory=list)
    _newcomers: set[str] = field(default_factory=set)
    _keys: dict[str, Key] = field(default_factory=dict, compare=False)
    _dated: set[str] = field(default_factory=set, compare=False)
    _policies: Counter[str] = field(default_factory=Counter, compare=False)
    _turn: int = field(default=0, compare=False)

    @property
    def turn(self) -> int:
        """Return a number that is another one whenever a job has joined or left the line."""
        return self._turn

    @property
    def policies(self) -> Collection[str]:
        """Return the policies of the jobs in the line."""
        return self._policies.keys()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return (job for _, job in self._rows)

    def __contains__(self, job: str) -> bool:
        return job in self._keys

    def put(self, job: Job, *, is_left: bool = False) -> None:
        """Take a job in, or out if it does not wait any more; O(log q) and a short copy.

        ``is_left``: it is quarantined, and stands in nobody's way.
        """
        key, waits = self._keys.get(job.id), is_queued(job) and not is_left
        if waits and job.state is JobState.ACCEPTED:
            self._newcomers.add(job.id)
        else:
            self._newcomers.discard(job.id)
        if waits and key is None:
            key = self._keys[job.id] = queue_key(job)
            self._turn += 1
            insort(self._rows, (key, job.id))
            if job.spec.deadline_us is not None:
                self._dated.add(job.id)
            self._policies[job.spec.policy] += 1
        elif key is not None and not waits:
            del self._keys[job.id]
            self._dated.discard(job.id)
            self._turn += 1
            self._policies[job.spec.policy] -= 1
            if not self._policies[job.spec.policy]:
                del self._policies[job.spec.policy]
            del self._rows[bisect_left(self._rows, (key, job.id))]

    @property
    def dated(self) -> Collection[str]:
        """Return the ids of the jobs that have a deadline."""
        return self._dated

    def head(self, most: int) -> list[str]:
        """Return all jobs with a deadline and the first of the others, ``most`` of both, in order.

        More than ``most`` where more have a deadline. Takes as long as the head is, or as far back
        as the last deadline stands.
        """
        if len(self._rows) <= most:
            return list(self)
        found: list[str] = []
        dated_left, left = len(self._dated), most - len(self._dated)
        for _, job in self._rows:
            if job in self._dated:
                dated_left -= 1
                found.append(job)
            elif left > 0:
                left -= 1
                found.append(job)
            elif not dated_left:
                break
        return found

    def newcomers(self) -> list[str]:
        """Return the ids of the jobs that no pass has looked at, in the order of the queue."""
        return sorted(self._newcomers, key=self._keys.__getitem__)

    def position(self, job: Job) -> int:
        """Return how many are before a job, whether it is in the line or not."""
        return bisect_left(self._rows, (queue_key(job), job.id))

    def peers(self, job: Job) -> tuple[int, int]:
        """Return the span of the line that has the priority of ``job``."""
        first = -job.spec.priority
        low, high = (first, -1, -1), (first + 1, -1, -1)
        return bisect_left(self._rows, (low, "")), bisect_left(self._rows, (high, ""))
