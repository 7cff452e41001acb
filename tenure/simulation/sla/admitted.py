"""Deadlines as the daemon keeps them: who could not be in time is refused when he comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tenure.model.placing import (
    Admitted,
    Ask,
    ClusterView,
    Occupied,
    Planned,
    Queued,
    Rotation,
    Situation,
)
from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US
from tenure.placement.arrays import Fleet, Jobs
from tenure.placement.decisions.decide import MODES
from tenure.placement.policies import Policies
from tenure.placement.queue.course import (
    ARRIVED,
    NOW,
    REFUSED,
    Course,
    History,
    Rules,
    pass_time,
)
from tenure.placement.queue.plan import UNSEEN, Plan
from tenure.placement.queue.replay import TO_THE_END, Arrivals, Loop
from tenure.placement.queue.waiting import ends_to_come, line_of


@dataclass
class Doorman:
    """Asks the admission test, through the door that the daemon uses, for everyone who arrives."""

    loop: Loop
    policies: Policies
    policy: str
    names: tuple[str, ...]
    rules: Rules
    _asks: dict[int, Queued] = field(default_factory=dict)

    def run(
        self,
        course: Course,
        history: History,
        jobs: Jobs,
        arrivals: Arrivals,
        on_arrival: Callable[[int], None],
    ) -> None:
        """Simulate until nothing happens any more; ``on_arrival`` is told how many have come."""
        let_in = Arrivals(np.empty_like(arrivals.at_us), np.empty_like(arrivals.job))
        count = 0
        rows = zip(arrivals.at_us.tolist(), arrivals.job.tolist(), strict=True)
        for arrived, (at_us, job) in enumerate(rows, start=1):
            inside = Arrivals(let_in.at_us[:count], let_in.job[:count])
            self.loop(course, history, jobs, inside, self.rules, at_us)
            if self._may_enter(course, history, jobs, job, at_us):
                let_in.at_us[count], let_in.job[count] = at_us, job
                count += 1
            else:
                history.verdict[job], history.placed_us[job] = REFUSED, at_us
            on_arrival(arrived)
        inside = Arrivals(let_in.at_us[:count], let_in.job[:count])
        self.loop(course, history, jobs, inside, self.rules, TO_THE_END)
        assert course.marks[ARRIVED] == count

    def _may_enter(
        self, course: Course, history: History, jobs: Jobs, job: int, at_us: int
    ) -> bool:
        pass_time(course, history, max(at_us, int(course.marks[NOW])), self.rules)
        if self.policies.is_planned(self.policy):
            return self._may_be_planned(course, history, jobs, job, at_us)
        queue = [self._queued(jobs, waiting) for waiting in line_of(course).tolist()]
        position = int(np.searchsorted(line_of(course), job))
        running = running_now(course, history, jobs)
        answer = self.policies.admit(
            view_of(self.names, course.fleet),
            running,
            queue,
            self._queued(jobs, job),
            position,
            at_us,
        )
        return isinstance(answer, Admitted)

    def _may_be_planned(
        self, course: Course, history: History, jobs: Jobs, job: int, at_us: int
    ) -> bool:
        view = view_of(self.names, course.fleet)
        site = Situation(view, running_now(course, history, jobs), at_us)
        queue = [self._planned(course.plan, jobs, one, at_us) for one in line_of(course).tolist()]
        new = self._planned(course.plan, jobs, job, at_us)
        answer = self.policies.admit_planned(
            site, queue, new, rotation=Rotation(*course.plan.rotation.tolist())
        )
        return isinstance(answer, Admitted)

    def _planned(self, plan: Plan, jobs: Jobs, job: int, at_us: int) -> Planned:
        """Return a job with its place as the daemon stores it; one that comes has none."""
        queued, since_us = self._queued(jobs, job), int(plan.since_us[job])
        guard_us = int(plan.guard_us[job])
        if since_us == UNSEEN:
            return Planned(queued, 0, at_us, guard_us, None)
        rows = range(int(plan.first[job]), int(plan.first[job] + plan.used[job]))
        counts = tuple((self.names[plan.node[row]], int(plan.executors[row])) for row in rows)
        start_us, end_us = int(plan.start_us[job]), int(plan.end_us[job])
        mode, is_late = MODES[int(plan.mode[job])], bool(plan.is_late[job])
        reservation = Reservation(str(job), start_us, end_us, mode, counts, is_late)
        return Planned(queued, 0, since_us, guard_us, reservation)

    def _queued(self, jobs: Jobs, job: int) -> Queued:
        if job not in self._asks:
            self._asks[job] = Queued(ask_of(jobs, job), self.policy)
        return self._asks[job]


def running_now(course: Course, history: History, jobs: Jobs) -> list[Occupied]:
    """Return what runs, as the daemon's policies see it."""
    ends = ends_to_come(course, history, jobs)
    columns = (ends.node, ends.cpu_m, ends.memory_bytes, ends.end_us)
    return [Occupied(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]


def view_of(names: tuple[str, ...], fleet: Fleet) -> ClusterView:
    """Return the fleet at this moment as the daemon's policies see it."""
    return ClusterView(names, **{name: part.copy() for name, part in fleet._asdict().items()})


def ask_of(jobs: Jobs, job: int) -> Ask:
    """Return one job as the daemon's policies see it."""
    eligible = jobs.eligible[job]
    deadline_us = int(jobs.deadline_us[job])
    return Ask(
        id=str(job),
        executors=int(jobs.executors[job]),
        cpu_m=int(jobs.cpu_m[job]),
        memory_bytes=int(jobs.memory_bytes[job]),
        local_us=int(jobs.local_us[job]),
        hybrid_us=int(jobs.hybrid_us[job]),
        deadline_us=None if deadline_us >= FOREVER_US else deadline_us,
        eligible=eligible,
    )
