"""Runs in which the state is put back from a backup: the fleet has gone on meanwhile.

Beside the laws of every run: what ran at the restore and is still known is adopted, not stopped
(R1), but for executors of a Spark driver that begins again, and for what runs unseen because its
engine died while it started it: that is waited for as a copy that may run. Containers that the
backup knows nothing of are left alone, and keep their node on (L4, L7).
The ledger is not judged: what it billed since the backup is forgotten. Nor are datasets that were
removed since the backup: their files are gone, and only their records come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tenure.core.lifecycle import restore
from tenure.core.state.tables import Changes, Meta
from tenure.model.container import ContainerState
from tenure.model.facts import LABEL_DRIVER, LABEL_JOB
from tenure.model.placing import Placer
from tests.fleet import healed, progress
from tests.fleet.laws import copy_of
from tests.fleet.machine import SimContainer
from tests.fleet.store import Records
from tests.fleet.story import LawBroken
from tests.fleet.world import START_US, Report, World

GONE = (ContainerState.REMOVED, ContainerState.FAILED)


@dataclass(frozen=True, slots=True)
class Runs:
    """A container that ran when the state was restored: the newest of its owner."""

    owner: str
    container: SimContainer


class RestoredWorld(World):
    """A world whose daemon is killed once and begins again from an older state."""

    def __init__(self, seed: int, placer: Placer, *, is_loud: bool = False) -> None:
        super().__init__(seed, placer, is_loud=is_loud)
        self.around.laws.is_size_known = False  # what was not forgotten may not fit any more
        self._backup: Records | None = None
        self._runs: list[Runs] = []
        self._owners: set[str] = set()
        self._nodes_named: set[str] = set()

    def run(self) -> Report:
        """Run to the end; raises LawBroken."""
        early, late = sorted(self.random.randrange(self.span_us) for _ in range(2))
        self.timeline.at(START_US + early, self._take)
        self.timeline.at(START_US + late, self._put_back)
        self.replicated.plan_between(START_US + early, START_US + late)
        return super().run()

    def _take(self) -> None:
        self._tell("backup")
        self._backup = self.around.store.load()

    def _put_back(self) -> None:
        """Kill the daemon and have its next life begin from the backup."""
        if not self._backup or "meta" not in self._backup:
            return  # taken before the first commit: there is nothing to restore
        self.shell.die("to be restored")
        self._tell("restore")
        self.story.strike("restored")
        store, laws, now_us = self.around.store, self.around.laws, self.around.clocks.wall_us
        before = dict(store.table("datasets"))
        store.records = {kind: dict(rows) for kind, rows in self._backup.items()}
        meta: Meta = restore.marked(store.table("meta")["meta"], now_us)
        store.records["meta"] = {"meta": meta}
        self.kept.on_restore(before)
        self.replicated.restored()
        store.events.clear()
        laws.waiting.forget()
        laws.last_seq = meta.next_event - 1
        laws.promised = {job: key for job, key in laws.promised.items() if job in self._jobs()}
        laws.keys = {key: job for key, job in laws.keys.items() if job in self._jobs()}
        self._owners = {*store.table("executors"), *store.table("services")}
        self._runs = list(self._running())
        self.story.strike("forgotten" if self._forgotten() else "nothing_forgotten")
        self._nodes_named = set(store.table("nodes"))
        store.watcher = self._settled
        laws.excused = frozenset(("asked", "late", "revived"))  # by the daemon before
        laws.checks["services"] = progress.restored_service

    def _jobs(self) -> dict[str, Any]:
        return self.around.store.table("jobs")

    def _forgotten(self) -> list[SimContainer]:
        return [c for c in self._ours() if c.is_alive and copy_of(c)[0] not in self._owners]

    def _ours(self) -> Iterator[SimContainer]:
        for machine in self.around.machines.values():
            yield from (c for c in machine.containers.values() if copy_of(c)[0])

    def _running(self) -> Iterator[Runs]:
        """Yield what runs and, by the restored state, is meant to."""
        newest: dict[str, SimContainer] = {}
        for container in self._ours():
            owner, turn = copy_of(container)
            other = newest.get(owner)
            if container.is_alive and (other is None or copy_of(other)[1] < turn):
                newest[owner] = container
        tombstones = {(g.owner, g.turn) for g in self.around.store.table("tombstones").values()}
        for owner, container in newest.items():
            is_ours = copy_of(container) not in tombstones and not self._is_given_up(container)
            if is_ours and self._is_meant_to_run(owner):
                yield Runs(owner, container)

    def _is_given_up(self, container: SimContainer) -> bool:
        """Whether the backup had a later copy's number already.

        An operator's word declared the node dead, and what was known of the copies there went
        with the node: it is not to be adopted, but to go.
        """
        owner, turn = copy_of(container)
        tables = self.around.store.table
        if "/" in owner:
            executor = tables("executors").get(owner)
            return executor is not None and turn < executor.attempt
        service = tables("services").get(owner)
        return service is not None and turn < service.incarnation

    def _is_meant_to_run(self, owner: str) -> bool:
        job = self._jobs().get(owner.partition("/")[0])
        if "/" in owner:
            return job is not None and not (job.is_over or job.is_cancelling or job.is_failing)
        service = self.around.store.table("services").get(owner)
        return service is not None and service.state not in GONE and not service.is_removing

    # R1

    def _settled(self, changes: Changes) -> None:
        """Once the survey has ended, every record that is meant to run speaks of what runs."""
        self._nodes_named |= set(self.around.store.table("nodes"))
        if not any(event.type == "state.settled" for event in changes.events):
            return
        self.story.strike("settled")
        self.around.laws.excused = frozenset(("late", "revived"))
        unseen = (c.id for c in self._ours() if c.node not in self._nodes_named)
        self.around.laws.unseen = frozenset(unseen)
        for runs in self._runs:
            container = runs.container
            machine = self.around.machines[container.node]
            is_shown = container.is_alive and not machine.facts_of(container).is_torn
            is_there = is_shown and machine.answers
            if is_there and self._is_meant_to_run(runs.owner) and self._is_served(container):
                self._is_adopted(runs)
        self._runs = []

    def _is_served(self, container: SimContainer) -> bool:
        """Whether the driver that a Spark executor was made for is the one of the record."""
        driver = container.labels.get(LABEL_DRIVER)
        if driver is None:
            return True
        executors = self.around.store.table("executors")
        return str(executors[f"{container.labels[LABEL_JOB]}/0"].attempt) == driver

    def _is_adopted(self, runs: Runs) -> None:
        store, container = self.around.store, runs.container
        table = store.table("executors" if "/" in runs.owner else "services")
        node = store.table("nodes").get(container.node)
        if node is None or node.is_fenced:
            return  # nobody looked there: it was declared dead
        chosen = table[runs.owner].engine_id
        alive = {c.id for c in self._ours() if c.is_alive and copy_of(c)[0] == runs.owner}
        if chosen not in alive:
            text = f"{container.id} runs for {runs.owner}, whose record says {table[runs.owner]}"
            raise LawBroken("R1", text)
        self.story.strike("adopted")

    # the end

    def _unrest(self) -> list[str]:
        """Leave out the containers that no record knows: nobody is to touch them."""
        if not self.shell.is_alive or self.clients.open_wishes:
            return ["clients or daemon are not ready"]
        store = self.around.store
        known = {*store.table("executors"), *store.table("services"), *store.table("tasks")}
        return list(healed.unrest(store, self.around.machines, known=known))

    def _check_ends(self) -> None:
        self.around.laws.on_restart()
        healed.jobs_ended_right(self.around.store)
