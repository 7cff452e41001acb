"""The play itself: submit, wait for conditions, never for exact times."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.follow import Follower
from demo.stage import Stage
from demo.work import Job, Work
from tenure.client import Client
from tenure.model.errors import TenureError

POLL_S = 0.5
#: After this long nobody waits for stragglers any more: the report says what is missing.
LIMIT_S = 150.0
#: The second wave waits for empty cloud nodes to be switched off, but no longer than this.
WAVE_S = 75.0
CANCEL_AFTER_S = 4.0
#: A container's profile is looked at this often; the richest is kept for the report.
PROFILES_S = 3.0
OVER = ("succeeded", "failed", "cancelled")


@dataclass
class Played:
    """What only the play itself saw; the rest is read from the daemon afterwards."""

    begun_s: float
    """Seconds since the epoch at the first submission."""
    answers: dict[str, str] = field(default_factory=dict)
    """Job name -> id of an accepted one."""
    refusals: dict[str, TenureError] = field(default_factory=dict)
    explanation: Mapping[str, Any] = field(default_factory=dict)
    profiles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    """Container name -> id."""
    ended_s: float = 0.0


class Play:
    """Runs the work on a stage; `follower` prints what happens."""

    def __init__(self, stage: Stage, work: Work, follower: Follower) -> None:
        self._stage = stage
        self._work = work
        self._follower = follower
        self._client: Client = stage.tenured.client
        self._running_since: dict[str, float] = {}
        self._looked_s = 0.0
        self._begun = time.monotonic()
        self.played = Played(time.time())

    def run(self) -> Played:
        """Play everything; returns at the end or after ``LIMIT_S``."""
        # the first look at an image asks the registries, which takes a while where there are none
        self._client.plan_job(self._work.jobs[0].body)
        self._begun = time.monotonic()
        self._follower.begun_s = self.played.begun_s = time.time()
        self._create_containers()
        for wave in self._work.waves:
            if wave > 1:
                self._wait(self._is_quiet, WAVE_S)
            for job in self._work.jobs:
                if job.wave == wave:
                    self._submit(job)
        self._wait(self._is_settled, LIMIT_S)
        self.played.ended_s = time.time()
        return self.played

    def _create_containers(self) -> None:
        for container in self._work.containers:
            made = self._client.create_container(container.body)
            self.played.containers[container.name] = made["id"]

    def _submit(self, job: Job) -> None:
        try:
            answer = self._client.submit_job(job.body)
        except TenureError as error:
            if error.http_status != 422:
                raise
            self.played.refusals[job.name] = error
            return
        self.played.answers[job.name] = answer["id"]
        if job.name == self._work.explained:
            self.played.explanation = self._client.explain_job(answer["id"])

    def _wait(self, condition: Any, until_s: float) -> None:
        """Look until the condition holds or ``until_s`` after the begin is over."""
        while True:
            self._stage.tenured.require_alive()
            jobs = self._client.jobs()
            self._cancel_due(jobs)
            self._keep_profiles()
            is_done = condition(jobs)
            self._follower.show()
            if is_done or time.monotonic() - self._begun > until_s:
                return
            time.sleep(POLL_S)

    def _cancel_due(self, jobs: list[dict[str, Any]]) -> None:
        """Cancel what is to be cancelled, once it has run for a little."""
        doomed = {job.name for job in self._work.jobs if job.expects == "cancelled"}
        for job in jobs:
            if job["name"] not in doomed or job["state"] != "running" or job["is_cancelling"]:
                continue
            since = self._running_since.setdefault(job["id"], time.monotonic())
            if time.monotonic() - since >= CANCEL_AFTER_S:
                self._client.cancel_job(job["id"])

    def _keep_profiles(self) -> None:
        if time.monotonic() - self._looked_s < PROFILES_S:
            return
        self._looked_s = time.monotonic()
        for profile in self._client.profiles():
            known = self.played.profiles.get(profile["container"])
            if known is None or profile["samples"] >= known["samples"]:
                self.played.profiles[profile["container"]] = profile

    def _is_quiet(self, jobs: list[dict[str, Any]]) -> bool:
        """Whether all jobs so far are over and no cloud node is on."""
        return all(job["state"] in OVER for job in jobs) and self._is_cloud_off()

    def _is_cloud_off(self) -> bool:
        if self._stage.is_own:
            return True
        nodes = self._client.nodes()
        return all(node["power"] == "off" for node in nodes if node["site"] == "cloud")

    def _is_settled(self, jobs: list[dict[str, Any]]) -> bool:
        """Whether jobs are over, containers where they belong, cloud off and no run under way."""
        if not self._is_quiet(jobs):
            return False
        containers = self._client.containers()
        if any(c["generation"] != self._work.last or c["state"] != "running" for c in containers):
            return False
        return not self._client.runs(state="claimed,enacting")
