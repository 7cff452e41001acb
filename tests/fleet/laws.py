"""The laws of the fleet, checked after every event against the truth of the simulated world.

Each law is a small function that raises ``LawBroken``. L1 no accepted job is lost; L2 no executor
runs twice; L3 states only move forward; L4 nothing is stopped without a reason on the disk; L6 a
migration never runs two copies unless it is start-first, and those only in its window; L7 power
goes off only where nothing runs, or to fence; L8 shares sum to cost; L10 nothing leaves before it
is on the disk; L11 public events have no gaps; L12 no placement overcommits; L14 one key, one job;
L15 nothing new lands on a node that is drained; L16 one that was drained is empty of ours.
L5, the rest of L8, and L9 are laws of ends: ``healed``. L13 is checked by running twice. L17, what
the core keeps between events is what its records say, is ``remembered``. L18: what moved live goes
on with the memory that it had. L19 to L22, of batches, are ``lent``,
L23, of what agents ended, is ``agents``. L24, what is planned from the fleet as it is can be
enacted, is the ``worker``'s. L25 to L28, of datasets, are ``kept``. L29, nothing that waits for a
time comes too early, is ``waiting``. L30 is ``healed``. L31, what has run and has files on a node
leaves that by a move alone, for as long as the node is configured. L32, relief
overloads no node, is the ``worker``'s. L33 to L36, of replicated services, are ``replicated``.
L37, a container is where its constraints allow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenure.core.services.migration import eligibility
from tenure.core.state.params import Params
from tenure.core.state.tables import Changes, PublicEvent
from tenure.model.batch import TASK_OVER, Batch, Task
from tenure.model.container import ContainerState, Migration, Service, Step, Tombstone
from tenure.model.drain import Drain
from tenure.model.effects import (
    CheckpointContainer,
    CreateContainer,
    DurableEffect,
    Effect,
    Reply,
    RetireContainer,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
    SwitchPower,
)
from tenure.model.job import Executor, Job
from tenure.model.ledger import Interval
from tenure.model.matching import satisfies_all
from tenure.model.node import Node, Power
from tenure.model.units import US, cost_nano
from tests.fleet import capacity, emptiness, lent, progress
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken
from tests.fleet.timeline import Timeline
from tests.fleet.waiting import Waiting

#: Somebody's own container may start this long before a node idles off without having been seen:
#: the age of the listing, and the way of the command.
JUST_NOW_US = 5 * US
#: The same where a person asks, or where the command comes late.
UNSEEN_US = 60 * US
#: Steps in which a migration has not begun to touch its source.
UNTOUCHED = frozenset((Step.QUEUED, Step.PREPARE, Step.CREATE))
#: Steps of a start-first move at which its target may run beside its source.
TWO_MAY_RUN = frozenset((Step.START, Step.VERIFY, Step.COMMIT, Step.UNDO_TARGET))

Copy = tuple[str, int]


def copy_of(container: SimContainer) -> Copy:
    """Return (owner, turn) of a container of ours; ("", 0) for a foreign one."""
    labels = container.labels
    if "tenure.job" in labels:
        owner = f"{labels['tenure.job']}/{labels['tenure.executor']}"
        return owner, int(labels["tenure.attempt"])
    if "tenure.container" in labels:
        return labels["tenure.container"], int(labels["tenure.incarnation"])
    return "", 0


class Laws:
    """Watches everything; ``store`` is what is on the disk, the machines are the truth.

    ``is_size_known`` False: others' containers were measured too, and L12 is not judged; ``needs``
    are what services count for.
    ``excused`` are ways to start of which L6 and L20 say nothing: moves and tombstones were
    forgotten. ``unseen`` are containers on nodes that neither a backup nor the configuration named,
    beside which L2 and L6 let another copy run: nobody could know of them. ``last_seq`` is the
    number before the first event that the store is to hold, ``checks`` what L1 and L3 say of each
    kind of record.
    """

    def __init__(self, store: SimStore, machines: dict[str, Machine], timeline: Timeline) -> None:
        self.store = store
        self.machines = machines
        self.timeline = timeline
        self.alive: dict[str, list[SimContainer]] = {}
        self.promised: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.is_size_known = True
        self.needs = capacity.Needs()
        self.params = Params()
        self.ours_us: Callable[[], int] = lambda: timeline.now_us
        self.waiting = Waiting(store, machines, timeline)
        self.excused: frozenset[str] = frozenset()
        self.unseen: frozenset[str] = frozenset()
        self.look_at_end: Callable[[Task], None] = lambda _: None
        self.last_seq = 0
        self.checks = dict(progress.CHECKS)
        self.off_reasons: dict[str, str] = {}
        self.look_at_blocks: Callable[[Machine], None] = lambda machine: None
        self.look_at_services: Callable[[Changes], None] = lambda changes: None
        self._how: dict[str, str] = {}
        self._fenced: set[str] = set()
        self._placed: set[str] = set()
        self._lent: set[str] = set()
        self._emptied: list[str] = []

    # the truth: processes

    def started(self, container: SimContainer, *, how: str) -> None:
        """L2 and L6, at the moment when a process begins."""
        owner, _ = copy_of(container)
        if not owner:
            return
        others = [c for c in self.alive.get(owner, ()) if c.is_alive and c is not container]
        self.alive[owner] = [*others, container]
        self._how[container.id] = how
        if container.id in self.unseen:
            return
        others = [other for other in others if other.id not in self.unseen]
        if how not in self.excused:
            lent.may_begin(self.store, container, owner)
        if "/" in owner:
            _no_executor_twice(container, others, how)
        else:
            self._copies_apart(container, others, how)

    def _copies_apart(self, container: SimContainer, others: list[SimContainer], how: str) -> None:
        """L6: what engines revive, or start late, may run beside its successor until condemned."""
        owner, turn = copy_of(container)
        for other in others:
            turns = {turn, copy_of(other)[1]}
            if self._in_window(owner, turns) or self._is_undead(owner, turns, container, other):
                continue
            if how in self.excused:
                continue
            if how == "asked" or not self._is_given_up(owner, turns):
                text = f"{container.id} starts ({how}) while {other.id} runs, both of {owner}"
                raise LawBroken("L6", text)

    def _in_window(self, owner: str, turns: set[int]) -> bool:
        moves: list[Migration] = list(self.store.table("migrations").values())
        return any(
            m.container == owner
            and m.is_start_first
            and m.step in TWO_MAY_RUN
            and turns == {m.source_incarnation, m.incarnation}
            for m in moves
        )

    def _is_given_up(self, owner: str, turns: set[int]) -> bool:
        """Whether one of two copies has a tombstone: engines revive those, tombstones end them."""
        tombstones: list[Tombstone] = list(self.store.table("tombstones").values())
        return any(g.owner == owner and g.turn in turns for g in tombstones)

    def _is_undead(
        self, owner: str, turns: set[int], one: SimContainer, other: SimContainer
    ) -> bool:
        """Whether an engine revived one of the two after its node was declared dead, or forgotten.

        Nobody can keep a host that comes back from that; the copy is removed once it is seen.
        """
        revived = [c for c in (one, other) if self._how.get(c.id) == "revived"]
        if any(c.node in self._fenced for c in revived):
            return True
        return bool(revived) and other in revived and self._is_given_up(owner, turns)

    def is_revived(self, one: SimContainer, other: SimContainer) -> bool:
        """Whether one of two ran again by its engine, or late, though it was given up.

        Of what a restore has forgotten nobody knows that it was.
        """
        if any(self._how.get(c.id) in self.excused or c.id in self.unseen for c in (one, other)):
            return True
        again = [c for c in (one, other) if self._how.get(c.id) in {"revived", "late"}]
        dead = [c for c in again if self._is_given_up(copy_of(c)[0], {copy_of(c)[1]})]
        return bool(dead) or any(c.node in self._fenced for c in again)

    # the disk

    def _told(self, event: PublicEvent) -> None:
        if event.type == "node.stopping":
            self.off_reasons[event.subject] = event.data["why"]
        elif event.type in ("node.fenced", "node.forgotten"):
            self._fenced.add(event.subject)
        elif event.type == "record.quarantined":
            raise LawBroken("L3", f"{event.subject} is quarantined: {event.data}")

    def on_commit(self, changes: Changes) -> None:
        """L3, L11, L8 and L29 on what a transaction is about to change."""
        self.waiting.on_commit(changes, self.params)
        self._placed = capacity.placed_on(self.store, changes)
        last = self.store.events[-1].seq if self.store.events else self.last_seq
        last_us = self.store.events[-1].at_us if self.store.events else 0
        for event in changes.events:
            if event.seq != last + 1 or event.at_us < last_us:
                raise LawBroken("L11", f"event {event.seq} ({event.at_us}) follows {last}")
            last, last_us = event.seq, event.at_us
            self._told(event)
        ended = "node.drain_cancelled", "node.drained", "node.drain_timed_out"
        over = {event.subject for event in changes.events if event.type in ended}
        for kind, rows in changes.records.items():
            check = self.checks.get(kind)
            if check is None:
                continue
            before = self.store.table(kind)
            for key, row in rows.items():
                old = before.get(key)
                if old is not None and row is not None and kind == "drains" and key in over:
                    old = old if old.id == row.id else None  # that one ended, all at once
                check(old, row)
        for key, row in changes.records.get("services", {}).items():
            self._keeps_its_files(self.store.table("services").get(key), row)
            self._keeps_to_its_constraints(row)
        self.look_at_services(changes)
        self._lent = lent.on_commit(self.store, self.machines, changes)
        for task in changes.records.get("tasks", {}).values():
            if task is not None:
                self.look_at_end(task)
        emptiness.nothing_lands(self.store, changes)
        self._emptied = emptiness.drained_by(self.store, changes)
        self._finished(changes)

    def _keeps_its_files(self, old: Service | None, new: Service | None) -> None:
        """L31, but where a restore forgot what was there."""
        if old is None or new is None or self.excused or old.state is not ContainerState.RUNNING:
            return
        node: Node | None = self.store.table("nodes").get(old.node)
        is_known = node is not None and not node.is_removed
        if new.state is ContainerState.WAITING and is_known and eligibility.tied(old):
            raise LawBroken("L31", f"{old.id} leaves {old.node} without its files: {new.reason}")

    def _keeps_to_its_constraints(self, row: Service | None) -> None:
        """L37, wherever a container is placed, moved or found."""
        node: Node | None = self.store.table("nodes").get(row.node) if row is not None else None
        if row is not None and node is not None and not satisfies_all(node.spec, row.constraints):
            raise LawBroken("L37", f"{row.id} is on {row.node}, which {row.constraints} forbid")

    def _finished(self, changes: Changes) -> None:
        """L8 and L18 on what ends with a transaction."""
        for row in changes.records.get("intervals", {}).values():
            if row is not None:
                _shares_sum(row)
        for move in changes.records.get("migrations", {}).values():
            if move is not None and move.kind == "live" and move.step is Step.COMMIT:
                self._memory_moved(move)

    def _memory_moved(self, move: Migration) -> None:
        """L18: the target's first process is the source's, gone on."""
        target = self.machines[move.target].containers.get(move.target_id)
        source = self.machines[move.source].containers.get(move.source_id)
        if target is None or source is None or target.life != 1:
            return
        if target.memory != source.checkpoints.get(move.checkpoint):
            raise LawBroken("L18", f"{target.id} does not go on as {source.id} did")

    def after_commit(self) -> None:
        """L12 and L16 on what a transaction has changed."""
        for node in self._emptied:
            emptiness.is_empty(self.store, self.machines[node])
        if self.is_size_known:
            capacity.check(self.store, self._placed, self.needs)
            lent.fits(self.store, self._lent, self.needs)

    def on_restart(self) -> None:
        """L1: what was promised is on the disk when a daemon starts."""
        kept = {*self.store.table("jobs"), *self.store.table("batches")}
        for job in self.promised:
            if job not in kept:
                raise LawBroken("L1", f"{job} was accepted, and is lost")

    # what leaves

    def on_dispatch(self, effect: Effect) -> None:
        """L10, L4 and L7 on what is about to be carried out."""
        if isinstance(effect, Reply):
            self._reply_is_durable(effect)
            return
        if isinstance(effect, DurableEffect):
            self._effect_is_durable(effect)
        if isinstance(effect, StopContainer | CheckpointContainer):
            self._has_reason(effect.node, effect.engine_id)
        elif isinstance(effect, RetireContainer):
            self._has_reason(effect.node, effect.target)
        elif isinstance(effect, SwitchPower) and effect.to == "off":
            self._may_go_off(effect)
        elif isinstance(effect, SetRestartPolicy | StartContainer):
            self._is_ours(effect.node, effect.engine_id)

    def _effect_is_durable(self, effect: Effect) -> None:
        key = getattr(effect, "id", "")
        if self.store.table("effects").get(key) != effect:
            raise LawBroken("L10", f"effect {key} ({effect.kind}) leaves, and is not on the disk")
        if isinstance(effect, CreateContainer):
            policy = (effect.body.get("HostConfig") or {}).get("RestartPolicy")
            if effect.owner.startswith(("executor:", "task:")) and policy != {"Name": "no"}:
                raise LawBroken("L2", f"executor created with restart policy {policy}")

    def _reply_is_durable(self, reply: Reply) -> None:
        kinds = {Job: "jobs", Batch: "batches", Service: "services", Node: "nodes", Drain: "drains"}
        kind = kinds.get(type(reply.value))
        if kind is None:
            return
        if kind == "drains":
            self._drain_is_durable(reply.value)
            return
        key = reply.value.name if kind == "nodes" else reply.value.id
        row = self.store.table(kind).get(key)
        if row is None and kind == "nodes":
            return  # dropped by the configuration in the same transaction, after the answer
        if row is None or row.version < reply.value.version:
            raise LawBroken("L10", f"reply {reply.request} says {key}, which is not on the disk")

    def _drain_is_durable(self, said: Drain) -> None:
        row: Drain | None = self.store.table("drains").get(said.node)
        if row is None and said.node not in self.store.table("nodes"):
            return  # forgotten in the same transaction, after the answer
        is_there = row is not None and row.began_us >= said.began_us
        if not is_there or (row is not None and row.id == said.id and said.is_over > row.is_over):
            raise LawBroken("L10", f"drain {said.id} was answered, and is not on the disk")

    def accepted(self, key: str, job: str) -> None:
        """L14: an idempotency key means one job, however often it is sent."""
        if self.keys.setdefault(key, job) != job:
            raise LawBroken("L14", f"key {key} made {self.keys[key]} and {job}")
        self.promised[job] = key

    def turned_down(self, key: str, name: str) -> None:
        """L14: what was made for a key is the answer to it; every key of a run has its own name."""
        made = [job.id for job in self.store.table("jobs").values() if job.spec.name == name]
        made += [row.id for row in self.store.table("services").values() if row.name == name]
        made += [b.id for b in self.store.table("batches").values() if b.spec.name == name]
        if made:
            raise LawBroken("L14", f"key {key} is turned down, and had made {made[0]}")

    # reasons

    def _is_ours(self, node: str, target: str) -> SimContainer | None:
        container = self.machines[node].find(target)
        if container is not None and not copy_of(container)[0]:
            raise LawBroken("L4", f"{target} on {node} is not ours, and is touched")
        return container

    def _has_reason(self, node: str, target: str) -> None:
        """L4: a container that runs is stopped only for a reason that is on the disk."""
        container = self._is_ours(node, target)
        if container is None or not container.is_alive:
            return
        owner, turn = copy_of(container)
        is_fair = self._executor_done if "/" in owner else self._copy_done
        if not is_fair(owner, turn, node):
            raise LawBroken("L4", f"{container.id} ({owner} #{turn}) is stopped without a reason")

    def _executor_done(self, owner: str, turn: int, node: str) -> bool:
        task: Task | None = self.store.table("tasks").get(owner)
        if task is not None:
            return task.attempt > turn or task.state in TASK_OVER or task.node != node
        executor: Executor = self.store.table("executors")[owner]
        job: Job = self.store.table("jobs")[executor.job]
        is_ending = job.is_cancelling or job.is_failing or job.is_over
        is_past = executor.attempt > turn or executor.is_over
        return is_ending or is_past or executor.node != node

    def _copy_done(self, owner: str, turn: int, node: str) -> bool:
        services = self.store.table("services")
        service: Service | None = services.get(owner)
        if service is None:  # unknown after a restore, and its number has another container
            container = next(c for c in self.alive[owner] if copy_of(c)[1] == turn)
            return any(one.deployment and one.name == container.name for one in services.values())
        if service.is_removing or (service.node, service.incarnation) != (node, turn):
            return self._no_move_needs(owner, turn)
        if service.state in (ContainerState.STOPPING, ContainerState.FAILED):
            return True
        moves: list[Migration] = list(self.store.table("migrations").values())
        return any(
            m.container == owner and m.source_incarnation == turn and m.is_source_stopped
            for m in moves
            if not m.is_over
        )

    def _no_move_needs(self, owner: str, turn: int) -> bool:
        """Whether no open move counts on this copy as its target."""
        moves: list[Migration] = list(self.store.table("migrations").values())
        return not any(
            m.container == owner
            and m.incarnation == turn
            and m.step in (Step.CREATE, Step.TRANSFER, Step.START, Step.VERIFY)
            for m in moves
        )

    def _may_go_off(self, effect: SwitchPower) -> None:
        """L7: nothing runs there, or the node has been lost for long (to fence it)."""
        node: Node = self.store.table("nodes")[effect.node]
        if node.power is not Power.STOPPING:
            raise LawBroken("L7", f"{node.name} is switched off while {node.power}")
        is_idle = self.off_reasons.get(node.name) == "empty"
        if is_idle:
            self.look_at_blocks(self.machines[node.name])
        self.going_off(self.machines[node.name], unseen_us=JUST_NOW_US if is_idle else UNSEEN_US)

    def going_off(self, machine: Machine, *, unseen_us: int = UNSEEN_US) -> None:
        """L7 once more, when the host truly goes off."""
        node: Node | None = self.store.table("nodes").get(machine.name)
        now_us, ours_us = self.timeline.now_us, self.ours_us()
        since_us = None if node is None else node.unreachable_us
        is_lost = since_us is not None and ours_us - since_us >= 60 * US
        for container in machine.containers.values():
            is_new = now_us - (container.started_us or 0) < unseen_us
            is_foreign = not copy_of(container)[0]
            if container.is_alive and not is_lost and not (is_new and is_foreign):
                raise LawBroken("L7", f"{machine.name} goes off while {container.id} runs")


def _no_executor_twice(container: SimContainer, others: list[SimContainer], how: str) -> None:
    """L2: one running container per executor, each started once."""
    if container.life > 1 or how == "revived":
        raise LawBroken("L2", f"{container.id} ({container.name}) runs for the second time")
    if others:
        raise LawBroken("L2", f"{container.id} starts ({how}) while {others[0].id} still runs")


def _shares_sum(row: Interval) -> None:
    """L8: the parts of a closed interval are its cost, to the nano-dollar."""
    if row.off_us is None:
        return
    parts: Any = sum(row.shares.values()) + row.services_nano + row.idle_nano
    whole = cost_nano(row.price_nano_per_h, max(row.off_us, row.billed_us) - row.on_us)
    if parts != row.cost_nano or row.cost_nano != whole:
        raise LawBroken("L8", f"interval {row.id}: {parts} of {row.cost_nano}, due {whole}")
