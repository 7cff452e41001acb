"""What every sub-machine works with: tables, indexes, timers, and the effects to be done.

Owns the timers, the effects and events that go out, and which records are quarantined.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar, cast

from tenure.core.state.block_index import BlockIndex, built
from tenure.core.state.indexes import INDEXED, Index
from tenure.core.state.learned import Learned
from tenure.core.state.owned import Change, Notices, Owned
from tenure.core.state.params import Params
from tenure.core.state.prefetch_state import Prefetches
from tenure.core.state.queue_order import queue_key
from tenure.core.state.tables import Meta, PublicEvent, R, Table, Tables
from tenure.core.state.work_limits import WorkLimits
from tenure.model.batch import Batch, Task
from tenure.model.container import Migration, Service, Tombstone
from tenure.model.deployment import Deployment
from tenure.model.drain import Drain
from tenure.model.effects import DurableEffect, Effect, Reply
from tenure.model.errors import FieldError, Problem
from tenure.model.events import Command
from tenure.model.job import Executor, ExecutorState, Job, JobState
from tenure.model.ledger import Interval, Stay
from tenure.model.locality import Localizer
from tenure.model.node import Node
from tenure.model.placing import Placer
from tenure.model.plan import Run

UNDER_WAY = frozenset((JobState.STARTING, JobState.RUNNING))


S = TypeVar("S", bound=Owned)


class Context:
    """What every machine of the core works with. Only code called from ``handle`` changes it.

    ``tables`` are the records, ``index`` and ``block_index`` are worked out of them, ``learned`` is
    what was told since the start, ``notices`` is what machines have to tell each other,
    ``prefetches`` what is copied ahead, ``work`` the work that is left to this transaction.
    ``names_aside`` are those of containers that are set aside, as bytes that may be damaged.
    ``effects`` and ``public`` events go out with it. ``is_closing``: the daemon stops, and nothing
    begins. ``quarantined`` says by kind and key why a record is left as it is. ``cause`` is the
    request or drain that is being carried out ("": none): public events tell it. What one machine
    alone needs it has of its own (``own``).
    """

    def __init__(
        self, params: Params, make_placer: Callable[[], Placer], localizer: Localizer
    ) -> None:
        self.params, self._make_placer, self.localizer = params, make_placer, localizer
        self.now_us = 0
        self.tables = Tables()
        self.index = Index()
        for kind in INDEXED:
            getattr(self.tables, kind).follow = partial(self._note, kind)
        self.block_index = BlockIndex()
        self.learned = Learned()
        self.prefetches = Prefetches()
        self.work = WorkLimits(params.slice_work)
        self.effects: list[Effect] = []
        self.public: list[PublicEvent] = []
        self.timers: list[tuple[int, int, str, str]] = []
        self._armed: dict[tuple[str, str], int] = {}
        self._timer_seq = 0
        self.is_closing = False
        self.cause = ""
        self.quarantined: dict[tuple[str, str], str] = {}
        self.names_aside: list[bytes] = []
        self._owned: dict[type[Owned], Owned] = {}
        self._hearers: dict[Change, list[Owned]] = {change: [] for change in Change}
        self.notices = self.own(Notices)

    def _note(self, kind: str, key: str, old: object, new: object) -> None:
        for row in INDEXED[kind]:
            row.note(self.index, key, old, new)

    def own(self, kind: type[S]) -> S:
        """Return the state of the machine whose class it is, made when first asked for."""
        found = self._owned.get(kind)
        if found is None:
            found = kind()
            self.put_own(found)
        return cast(S, found)

    def put_own(self, state: Owned) -> None:
        """Replace the state of a machine."""
        was = self._owned.get(type(state))
        self._owned[type(state)] = state
        for change in state.hears:
            hearers = [one for one in self._hearers[change] if one is not was]
            self._hearers[change] = [*hearers, state]

    def tell(self, change: Change, key: str) -> None:
        """Have those who follow such changes hear of one."""
        for state in self._hearers[change]:
            state.hear(change, key)

    def serve_again(self, key: str) -> None:
        """Have the queue served: ``key`` may have made room, or waits for something no more."""
        self.tell(Change.PASS, key)

    @cached_property
    def placer(self) -> Placer:
        """The policies, made by the first question to them."""
        return self._make_placer()

    # records that are not as they can be

    def quarantine(self, kind: str, key: str, why: str) -> None:
        """Leave a record as it is: what was to happen to it cannot, so something is wrong.

        It is told once, by an event, a metric and ``/readyz``; nobody reviews it any more. The
        rest of the fleet goes on. A restart reads it anew, unless the store has set it aside.
        """
        if (kind, key) not in self.quarantined:
            self.quarantined[kind, key] = why
            self.publish("record.quarantined", key, record=kind, reason=why)
            if kind == "job" and key in self.tables.jobs:
                self._index_job(self.tables.jobs[key])

    def is_quarantined(self, kind: str, key: str) -> bool:
        """Whether a record is left as it is."""
        return (kind, key) in self.quarantined

    def is_set_aside(self, owner: str) -> bool:
        """Whether the job, batch or container of an owner without a record is set aside."""
        root = owner.partition("/")[0]
        return any((kind, root) in self.quarantined for kind in ("job", "batch", "container"))

    # effects, events, timers

    @property
    def meta(self) -> Meta:
        return self.tables.meta.get("meta") or Meta()

    def set_meta(self, **changes: Any) -> None:
        """Change the counters that live as long as the fleet."""
        self.tables.meta.put("meta", replace(self.meta, **changes))

    def effect_id(self) -> str:
        """Return a new effect id, never used before in this fleet."""
        number = self.meta.next_effect
        self.set_meta(next_effect=number + 1)
        return f"e{number}"

    def emit(self, effect: Effect) -> None:
        """Ask the shell for ``effect``; a durable one enters the outbox."""
        if isinstance(effect, DurableEffect):
            self.tables.effects.put(effect.id, effect)
        self.effects.append(effect)

    def publish(self, kind: str, subject: str, **data: Any) -> None:
        """Append a public event, numbered without gaps, with the cause where there is one."""
        data |= {"cause": self.cause} if self.cause else {}
        seq = self.meta.next_event + len(self.public)
        self.public.append(PublicEvent(seq, self.now_us, kind, subject, data))

    def reply(self, command: Command, value: Any) -> None:
        """Answer a command."""
        self.emit(Reply(command.request, value))

    def refuse(
        self, command: Command, code: str, detail: str, *, status: int = 422, field: str = ""
    ) -> None:
        """Answer a command with a problem, naming the faulty field where there is one."""
        fields = (FieldError(field, detail),) if field else ()
        self.emit(Reply(command.request, Problem(code, detail, status, fields)))

    def find(self, command: Command, table: Table[R], word: str, key: str) -> R | None:
        """Return the record that a command names; where there is none, refuse it and return None.

        ``word`` is what people call such a record.
        """
        row = table.get(key)
        if row is None and (word, key) in self.quarantined:
            detail = f"the record of {word} {key} is damaged: {self.quarantined[word, key]}"
            self.refuse(command, "record_damaged", detail, status=503)
        elif row is None:
            self.refuse(command, "not_found", f"no {word} {key}", status=404)
        return row

    def arm(self, at_us: int, machine: str, key: str) -> None:
        """Have ``machine`` called for ``key`` at ``at_us``; an earlier call stays armed."""
        armed = self._armed.get((machine, key))
        if armed is not None and armed <= at_us:
            return
        self._armed[machine, key] = at_us
        self._timer_seq += 1
        heapq.heappush(self.timers, (at_us, self._timer_seq, machine, key))

    def due(self) -> Iterator[tuple[str, str]]:
        """Pop the timers that are due; superseded ones are dropped."""
        while self.timers and self.timers[0][0] <= self.now_us:
            at_us, _, machine, key = heapq.heappop(self.timers)
            if self._armed.get((machine, key)) == at_us:
                del self._armed[machine, key]
                yield machine, key

    def wakeup_us(self) -> int | None:
        """Return when the next timer is due, or None."""
        while self.timers:
            at_us, _, machine, key = self.timers[0]
            if self._armed.get((machine, key)) == at_us:
                return at_us
            heapq.heappop(self.timers)
        return None

    # records with indexes

    def put_node(self, node: Node) -> Node:
        """Store a node."""
        self.block_index.turn += bool(node.spec.tiers)  # what its blocks are worth may have changed
        self.tell(Change.NODE, node.name)
        self.serve_again(node.name)
        return self.tables.nodes.put(node.name, replace(node, version=node.version + 1))

    def drop_node(self, node: Node) -> None:
        """Forget a node."""
        self.tables.nodes.drop(node.name)
        self.tell(Change.GONE, node.name)
        self.serve_again(node.name)

    def is_reachable(self, node: str) -> bool:
        """Whether effects can be sent to the engine of a node, by name; not where it is unknown."""
        found = self.tables.nodes.get(node)
        return found is not None and found.is_reachable

    def put_job(self, job: Job) -> Job:
        """Store a job. One that was looked at in vain, and waits from now on, calls for no pass."""
        old = self.tables.jobs.get(job.id)
        job = self.tables.jobs.put(job.id, replace(job, version=job.version + 1))
        self._index_job(job)
        self.tell(Change.JOB, job.id)
        if old is None or (old.state, job.state) != (JobState.ACCEPTED, JobState.WAITING):
            self.serve_again(job.id)
        return job

    def _index_job(self, job: Job) -> None:
        index = self.index
        index.waiting_jobs.put(job, is_left=self.is_quarantined("job", job.id))
        if job.is_estimated:
            return
        if job.state in UNDER_WAY:
            index.unestimated.add(job.id)
        else:
            index.unestimated.discard(job.id)
        if job.id in index.waiting_jobs:
            index.unknown[job.id] = queue_key(job)
        else:
            index.unknown.pop(job.id, None)

    def put_executor(self, executor: Executor) -> Executor:
        """Store an executor; over means that it takes no room (its tombstone may)."""
        old = self.tables.executors.get(executor.key)
        self.forget_loads(*(one.place for one in (old, executor) if one))
        self._index_homeless(executor)
        self.notices.jobs.add(executor.job)
        self.serve_again(executor.key)
        return self.tables.executors.put(executor.key, executor)

    def _index_homeless(self, executor: Executor) -> None:
        job = self.tables.jobs.get(executor.job)
        is_waiting = executor.state is ExecutorState.PLACED and not executor.node
        if is_waiting and job is not None and job.state in UNDER_WAY:
            self.index.homeless.add(executor.job)

    def put_service(self, service: Service) -> Service:
        """Store a service."""
        old = self.tables.services.get(service.id)
        self.forget_loads(old.node if old else "", service.place)
        self.serve_again(service.id)
        if service.deployment:
            self.notices.deployments.add(service.deployment)
        return self.tables.services.put(service.id, replace(service, version=service.version + 1))

    def put_deployment(self, row: Deployment) -> Deployment:
        """Store a deployment."""
        return self.tables.deployments.put(row.name, replace(row, version=row.version + 1))

    def put_migration(self, move: Migration) -> Migration:
        """Store a migration."""
        self.forget_loads(move.source, move.target)
        self.serve_again(move.id)
        return self.tables.migrations.put(move.id, move)

    def put_tombstone(self, tombstone: Tombstone) -> Tombstone:
        """Store a tombstone."""
        self.forget_loads(tombstone.node)
        self.serve_again(tombstone.id)
        return self.tables.tombstones.put(tombstone.id, tombstone)

    def drop_tombstone(self, tombstone: Tombstone) -> None:
        """Forget a tombstone: its container is gone."""
        self.forget_loads(tombstone.node)
        self.tables.tombstones.drop(tombstone.id)
        self.touch_owner(tombstone.owner)
        self.serve_again(tombstone.id)

    def forget_loads(self, *nodes: str) -> None:
        """Have the load of nodes computed anew: something on them changed."""
        for node in filter(None, nodes):
            self.tell(Change.LOAD, node)

    def touch_owner(self, owner: str) -> None:
        """Have the job or service that owns a tombstone reviewed, and whose it is."""
        if owner in self.tables.tasks:
            self.notices.tasks.add(owner)
        elif "/" in owner:
            self.notices.jobs.add(owner.partition("/")[0])
        else:
            self.notices.services.add(owner)
            service = self.tables.services.get(owner)
            if service is not None and service.deployment:
                self.notices.deployments.add(service.deployment)

    def put_interval(self, row: Interval) -> Interval:
        """Store a ledger interval."""
        self.tell(Change.COST, row.node)  # its minimum billing period is part of t_j
        return self.tables.intervals.put(row.id, row)

    def put_stay(self, stay: Stay) -> Stay:
        """Store a stay."""
        return self.tables.stays.put(stay.id, stay)

    def put_run(self, run: Run) -> Run:
        """Store a run of a cycle."""
        return self.tables.runs.put(run.id, run)

    def put_drain(self, drain: Drain) -> Drain:
        """Store the latest drain of a node."""
        return self.tables.drains.put(drain.node, drain)

    def put_batch(self, batch: Batch) -> Batch:
        """Store a batch."""
        self.serve_again(batch.id)
        return self.tables.batches.put(batch.id, replace(batch, version=batch.version + 1))

    def put_task(self, task: Task) -> Task:
        """Store a task of a batch."""
        old = self.tables.tasks.get(task.key)
        for name in (old.place if old is not None else "", task.place):
            if name:
                self.tell(Change.TASKS, name)
        self.notices.tasks.add(task.key)
        self.serve_again(task.key)
        return self.tables.tasks.put(task.key, task)

    # look-ups

    def tasks_on(self, node: str) -> list[Task]:
        """Return the tasks of batches that are on ``node`` and not over, by key."""
        return [self.tables.tasks[key] for key in sorted(self.index.tasks.get(node, ()))]

    def executors_on(self, node: str) -> list[Executor]:
        """Return the executors that are placed on ``node`` and not over, by key."""
        keys = sorted(self.index.executors.get(node, ()))
        return [self.tables.executors[key] for key in keys]

    def executors_of(self, job: str) -> list[Executor]:
        """Return a job's executors in the order of their index."""
        keys = self.index.of_job.get(job, ())
        found = [self.tables.executors[key] for key in keys]
        return sorted(found, key=lambda executor: executor.index)

    def services_on(self, node: str) -> list[Service]:
        """Return the services that are on ``node``, by id."""
        keys = sorted(self.index.services.get(node, ()))
        return [self.tables.services[key] for key in keys]

    def tombstones_on(self, node: str) -> list[Tombstone]:
        """Return the tombstones on ``node``, by id."""
        keys = sorted(self.index.tombstones.get(node, ()))
        return [self.tables.tombstones[key] for key in keys]

    def tombstones_of(self, owner: str) -> list[Tombstone]:
        """Return the tombstones of an executor key or container id."""
        keys = sorted(self.index.tombstones_of.get(owner, ()))
        return [self.tables.tombstones[key] for key in keys]

    def open_moves(self) -> list[Migration]:
        """Return the migrations that are not over, in the order of their acceptance."""
        found = [self.tables.migrations[key] for key in self.index.moves]
        return sorted(found, key=lambda move: (move.created_us, move.id))

    def begun_moves(self) -> list[Migration]:
        """Return the migrations that have begun and not ended, by id."""
        return [self.tables.migrations[key] for key in sorted(self.index.begun)]

    def moves_at(self, node: str) -> list[Migration]:
        """Return the open migrations from or to ``node``, in the order of their acceptance."""
        found = [self.tables.migrations[key] for key in self.index.moves_at.get(node, ())]
        return sorted(found, key=lambda move: (move.created_us, move.id))

    def is_mid_move(self) -> bool:
        """Whether any migration has begun and not ended."""
        return bool(self.index.begun)

    def move_of(self, service: str) -> Migration | None:
        """Return the open migration of a service."""
        key = self.index.move_of.get(service)
        return self.tables.migrations.get(key) if key else None

    def reindex(self) -> None:
        """Build the indexes from freshly loaded tables."""
        self.index = Index()
        for machine in [machine for machine in self._owned if machine.is_derived]:
            self.put_own(machine())
        for kind, rows in INDEXED.items():
            for key, record in getattr(self.tables, kind).items():
                for row in rows:
                    row.note(self.index, key, None, record)
        self.block_index = built(self.tables)
        for job in self.tables.jobs.values():
            self._index_job(job)
        for executor in self.tables.executors.values():
            self._index_homeless(executor)
        for node in self.tables.nodes.values():
            self.tell(Change.NODE, node.name)
