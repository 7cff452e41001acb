"""L29: nothing that waits for a time comes too early, whatever clocks do.

By the true time: no job is ended by ``max_runtime_s`` before its last executor to start has run for
so long, no lost node is fenced, no boot given up and no idle node switched off before its time. Too
late they may be: where the daemon's machine was started anew, nobody knows how much time passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.core.state.params import Params
from tenure.model.job import Executor, Job
from tenure.model.node import Node, Power, Reach
from tests.fleet.machine import Machine
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken
from tests.fleet.timeline import Timeline

if TYPE_CHECKING:
    from tenure.core.state.tables import Changes

TOO_LONG = "max_runtime_s exceeded"


class Waiting:
    """Since when, truly, nodes are lost, idle or booting."""

    def __init__(self, store: SimStore, machines: dict[str, Machine], timeline: Timeline) -> None:
        self._store, self._machines, self._timeline = store, machines, timeline
        self._since: dict[tuple[str, str], int] = {}

    def forget(self) -> None:
        """Begin anew with records that are others: nothing says since when they are as they are."""
        self._since.clear()
        for name, node in self._store.table("nodes").items():
            self._look_at(name, node, since_us=0)

    def on_commit(self, changes: Changes, params: Params) -> None:
        """L29 on what a transaction is about to end, then note what begins to wait with it."""
        nodes: dict[str, Node] = self._store.table("nodes")
        for event in changes.events:
            why = str(event.data.get("why"))
            if event.type == "node.stopping" and why == "empty":
                self._waited("idle", event.subject, params.grace_us)
            elif event.type == "node.stopping" and why.startswith("fence"):
                self._waited("lost", event.subject, params.fence_after_us or 0)
            elif event.type == "node.failed" and event.subject in nodes:
                self._waited("boot", event.subject, nodes[event.subject].spec.power.timeout_us)
        for job in changes.records.get("jobs", {}).values():
            if job is not None and job.reason == TOO_LONG:
                self._ran_long(job, changes)
        for name, node in changes.records.get("nodes", {}).items():
            self._look_at(name, node, since_us=self._timeline.now_us)

    def _look_at(self, name: str, node: Node | None, *, since_us: int) -> None:
        for what, is_so in (
            ("lost", node is not None and node.reach is not Reach.OK),
            ("idle", node is not None and node.idle_us is not None),
            ("boot", node is not None and node.power is Power.BOOTING),
        ):
            if is_so:
                self._since.setdefault((what, name), since_us)
            else:
                self._since.pop((what, name), None)

    def _waited(self, what: str, name: str, wanted_us: int) -> None:
        now_us = self._timeline.now_us
        took_us = now_us - self._since.get((what, name), now_us - wanted_us)
        if took_us < wanted_us:
            raise LawBroken("L29", f"{name} was {what} for {took_us} us, {wanted_us} are due")

    def _ran_long(self, job: Job, changes: Changes) -> None:
        before: Job | None = self._store.table("jobs").get(job.id)
        if before is not None and before.reason == TOO_LONG:
            return
        executors: dict[str, Executor] = {
            **self._store.table("executors"),
            **changes.records.get("executors", {}),
        }
        crew = (executors[f"{job.id}/{index}"] for index in range(job.spec.containers))
        known = (e for e in crew if e.node and e.started_us is not None)
        found = (self._machines[e.node].find(e.engine_id) for e in known)
        starts = [one.started_us for one in found if one is not None and one.started_us]
        ran_us = self._timeline.now_us - max(starts, default=0)
        if ran_us < (job.spec.max_runtime_us or 0):
            raise LawBroken("L29", f"{job.id} ran for {ran_us} us of {job.spec.max_runtime_us}")
