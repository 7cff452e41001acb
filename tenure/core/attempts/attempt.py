"""An attempt: one container of an executor, a task or a service, from its create to its tombstone.

Theory of operation. A record of one of the three kinds is on a node and has a container there,
under a name that is the same after any restart. It sends one effect at a time, which is stored in
``effect`` before it leaves, and goes to the next state by how that ends::

    state      sends   goes to   done     refused      what a later listing shows
                                                       nothing   created    runs       has ended
    ---------  ------  --------  -------  -----------  --------  ---------  ---------  ---------
    (waiting)  create  creating
    creating                     created  _refused()   create    created    created *  created *
    created    start   starting                        lose()
    starting                     running  _refused()   lose()    lose() **  running    _exited()
    running                                            lose() +                        _exited()

An effect that ends unknown (time-out, cut link, restart) makes the record unsure: nothing is sent
before a listing that was asked for later than ``changed_us`` has shown what happened. The same
holds where nothing is unsure: a listing counts only if it is newer than the record, and no effect
is under way. A create that did not happen is sent again, for the same name cannot make two; where
it still does not happen, an executor or task is lost (``MOST_TRIES``). What somebody has started
meanwhile (*) goes on, but for tasks, which have no input then. A start (**) is not sent again: the
run may end before the late one arrives, which would then run it twice. So its container is removed,
and the next attempt waits for that; but a service may run twice. A service that ran and is gone (+)
was removed by somebody, so it is ``removed``.

``close`` ends an attempt and condemns its container: the tombstone (``tombstones``) holds back the
next attempt for as long as the container may run. Nothing is begun on another node before, unless
nothing was ever sent (``unplace``) or the node is off or fenced, where nothing runs.

What differs is in subclasses, as methods that this one calls: ``Executors`` wait for each other
before they start, ``Tasks`` get their input before and are asked for their output after it, and
``Services`` go on after an exit, are stopped, and have their next attempt ("incarnation") placed
anew. ``Work`` is what the first two share: it ends by itself, and is tried a limited number of
times. Owns nothing: the subclasses do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar

from tenure.core.attempts import task_bodies, tombstones
from tenure.core.blocks import tiers
from tenure.core.capacity import ledger
from tenure.core.state.context import Context
from tenure.core.state.tables import Table, Tables
from tenure.core.state.transitions import may_go
from tenure.model.batch import Task
from tenure.model.container import Service, Tombstone
from tenure.model.effects import CreateContainer, EngineEffect, Relist, StartContainer
from tenure.model.facts import ContainerFacts
from tenure.model.job import Executor
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources
from tenure.model.units import US

#: The states that all three kinds have, by the values of their enumerations.
CREATING, CREATED, STARTING, RUNNING = "creating", "created", "starting", "running"
#: States in which nothing was sent for an attempt yet.
UNSENT = frozenset(("placed", "pending", "accepted", "waiting"))
ABANDONED = "abandoned"
ENDED = ("exited", "dead")
LOST = "its container vanished from its engine"
OOM_NOTE = "killed for memory (OOM)"
#: Characters of an engine's refusal that are kept.
MOST_TOLD = 500
#: Exit codes by which an engine's own end shows: SIGKILL, SIGTERM, and Docker's "unknown".
ENGINE_END_CODES = frozenset((137, 143, 255))
#: An engine that goes down ends its containers before it is missed: so long such an exit may be
#: its doing. A silent death is noticed within two pings of 3 s each and the 2 s between them.
JUDGE_US = 10 * US
#: A create that did not happen is sent again at once, under the same name, so many times; then it
#: is a mishap, which waits and counts. One that got lost on its way happens well before.
MOST_TRIES = 5
#: Waits before another attempt grow with the tries, up to so many times ``Params.retry_us``.
MOST_WAITS = 5

R = TypeVar("R", Executor, Task, Service)
W = TypeVar("W", Executor, Task)


def record_of(ctx: Context, owner: str) -> Executor | Task | Service | None:
    """Return the record that owns copies: by executor or task key, or container id."""
    tables = ctx.tables
    return tables.executors.get(owner) or tables.tasks.get(owner) or tables.services.get(owner)


@dataclass(frozen=True, slots=True)
class Terms:
    """Settings of an attempt.

    ``request`` is what its tombstone takes from its node while it may run, ``grace_s`` what its
    container gets to end by itself when it is removed. It cannot have begun before ``since_us``, by
    our time. Work that the fleet lost more often than ``most_mishaps`` has no next attempt.
    """

    is_pullable: bool
    request: Resources
    grace_s: int
    since_us: int
    most_mishaps: int = 0


@dataclass(frozen=True)
class Attempts(ABC, Generic[R]):
    """The attempts of one kind of records.

    ``machine`` owns their effects and timers, ``record`` is what one is called where it is
    quarantined. The others read and store the records.
    """

    machine: str
    record: str
    table: Callable[[Tables], Table[R]]
    on_node: Callable[[Context, str], list[R]]
    put: Callable[[Context, R], R]

    # what differs

    @abstractmethod
    def _body(self, ctx: Context, record: R) -> dict[str, Any]:
        """Return Docker's create body of the attempt's container."""

    @abstractmethod
    def _terms(self, ctx: Context, record: R) -> Terms:
        """Return the terms of the attempt."""

    @abstractmethod
    def _refused(self, ctx: Context, record: R, refused: Refused, note: str) -> None:
        """Take in that an engine refused its effect, for any reason but that it is away.

        ``note`` is what is kept of that: its code and detail.
        """

    @abstractmethod
    def _found_ended(self, ctx: Context, record: R, facts: ContainerFacts) -> None:
        """Take in that its container has exited."""

    @abstractmethod
    def lose(self, ctx: Context, record: R, note: str, *, may_run: bool = False) -> None:
        """End an attempt that was the fleet's fault, not its own, and begin the next one.

        ``may_run``: the container may run until it is removed; the default is the kind's.
        """

    @abstractmethod
    def unplace(self, ctx: Context, record: R, reason: str) -> None:
        """Take a record off a node to which nothing was ever sent for this attempt."""

    # forward

    def to(self, ctx: Context, /, record: R, state: str, **changes: Any) -> R:
        """Move a record to a later state of its attempt; an illegal step quarantines it."""
        if not may_go(ctx, self.record, record.key, record.state, type(record.state)(state)):
            return record
        defaults: dict[str, Any] = {"changed_us": ctx.now_us, "is_unsure": False, "effect": ""}
        found = replace(record, state=type(record.state)(state), **(defaults | changes))
        return self.put(ctx, found)

    def is_due(self, ctx: Context, record: R) -> bool:
        """Whether the next effect may be sent: none is under way, and a pause is over."""
        if ctx.now_us < record.retry_us:
            ctx.arm(record.retry_us, self.machine, record.key)
            return False
        return not (record.effect or record.is_unsure)

    def create(self, ctx: Context, record: R) -> None:
        """Have the container created, once its node answers; again where that did not happen."""
        if ctx.is_reachable(record.node):
            key, owner = self._call(ctx, record)
            name, body = record.container_name, self._body(ctx, record)
            pull = self._terms(ctx, record).is_pullable
            effect = CreateContainer(key, owner, record.node, name, body, pull)
            self._send(ctx, record, CREATING, effect)

    def start(self, ctx: Context, record: R) -> None:
        """Have the container started, once its node answers."""
        if ctx.is_reachable(record.node):
            key, owner = self._call(ctx, record)
            effect = StartContainer(key, owner, record.node, record.engine_id)
            self._send(ctx, record, STARTING, effect)

    def _call(self, ctx: Context, record: R) -> tuple[str, str]:
        """Return the id and the owner of a new effect."""
        return ctx.effect_id(), f"{self.machine}:{record.key}"

    def _send(self, ctx: Context, record: R, state: str, effect: EngineEffect) -> None:
        """Have an effect carried out, in the state that waits for its end."""
        if record.state == state:
            now_us = ctx.now_us
            self.put(ctx, replace(record, effect=effect.id, is_unsure=False, changed_us=now_us))
        elif self.to(ctx, record, state, effect=effect.id) is record:
            return
        ctx.emit(effect)

    def _publish(self, ctx: Context, kind: str, record: R, **told: Any) -> None:
        """Tell people what became of an attempt."""
        ctx.publish(f"{self.machine}.{kind}", record.key, node=record.node, **told)

    # ends of effects

    def on_effect(self, ctx: Context, key: str, effect: str, outcome: Outcome) -> None:
        """Take in the end of a record's effect; one that nobody waits for is ignored."""
        record = self.table(ctx.tables).get(key)
        if record is not None and record.effect == effect:
            self._settle(ctx, record, outcome)

    def _settle(self, ctx: Context, record: R, outcome: Outcome) -> None:
        """Go on by how the effect that a record waits for has ended."""
        if isinstance(outcome, Done):
            self._done(ctx, record, outcome)
        elif isinstance(outcome, Refused) and outcome.code != "unreachable":
            note = f"{outcome.code}: {outcome.detail}" if outcome.detail else outcome.code
            self._refused(ctx, record, outcome, note[:MOST_TOLD])
        else:
            self._unknown(ctx, record)

    def _unknown(self, ctx: Context, record: R, **changes: Any) -> None:
        """Take in that the effect may or may not happen: a listing tells."""
        unsure: dict[str, Any] = {"is_unsure": True, "changed_us": ctx.now_us}
        self.put(ctx, replace(record, effect="", **unsure, **changes))
        ctx.emit(Relist(record.node))

    def _done(self, ctx: Context, record: R, outcome: Done) -> None:
        """Take in that the effect happened."""
        if record.state == CREATING:
            self.to(ctx, record, CREATED, engine_id=outcome.value)
        elif record.state == STARTING:
            self._running(ctx, record, started_us=ctx.now_us)

    def _running(self, ctx: Context, record: R, **changes: Any) -> None:
        """Note that the container runs."""
        self.to(ctx, record, RUNNING, **changes)
        self._publish(ctx, "running", record)

    # listings

    def match(
        self,
        ctx: Context,
        node: str,
        copies: Mapping[tuple[str, int], ContainerFacts],
        started_us: int,
        *,
        is_all: bool,
    ) -> None:
        """Compare the records on a node with the copies seen there, by owner and attempt.

        ``is_all``: they are all that there are, so what is not among them is not there.
        """
        for record in self.on_node(ctx, node):
            facts = copies.get((record.key, record.attempt))
            if facts is not None or is_all:
                self.on_listing(ctx, record, facts, started_us)

    def on_listing(
        self, ctx: Context, record: R, facts: ContainerFacts | None, started_us: int
    ) -> None:
        """Take in what an engine shows of this attempt (None: it is not there)."""
        if started_us <= record.changed_us or record.effect or not record.node:
            return
        if ctx.is_quarantined(self.record, record.key):
            return
        if facts is None:
            self._absent(ctx, record)
        elif record.state == CREATING:
            self._found_made(ctx, record, facts)
        elif facts.state == "created":
            if record.state == STARTING:
                self._unconfirmed(ctx, record, facts)
        elif facts.is_running:
            self._found_running(ctx, record, facts)
        elif facts.state in ENDED:
            self._found_ended(ctx, record, facts)

    def _absent(self, ctx: Context, record: R) -> None:
        """Take in that there is no such container."""
        if record.state == CREATING:
            self._uncreated(ctx, record)
        else:
            self.lose(ctx, record, LOST)

    def _uncreated(self, ctx: Context, record: R) -> None:
        """Take in that a create did not happen."""
        self.create(ctx, record)

    def _found_made(self, ctx: Context, record: R, facts: ContainerFacts) -> None:
        """Take in that a create of unknown end has happened.

        It may run: somebody started it while nobody knew of it. Our start is then a no-op.
        """
        self.to(ctx, record, CREATED, engine_id=facts.engine_id)

    def _unconfirmed(self, ctx: Context, record: R, facts: ContainerFacts) -> None:
        """Take in that a start did not happen yet but still may."""
        self.lose(ctx, record, "its start was not confirmed", may_run=True)

    def _found_running(self, ctx: Context, record: R, facts: ContainerFacts) -> None:
        """Take in that the container runs."""
        if record.state == STARTING:
            began_us = self._began_us(ctx, record, facts)
            self._running(ctx, record, engine_id=facts.engine_id, started_us=began_us)
        elif record.is_unsure:
            self.put(ctx, replace(record, is_unsure=False, changed_us=ctx.now_us))

    def _began_us(self, ctx: Context, record: R, facts: ContainerFacts) -> int:
        """Return when the container began, by our time."""
        apart_us = ctx.learned.apart.get(record.node, 0)
        return facts.began_us(self._terms(ctx, record).since_us, ctx.now_us, apart_us=apart_us)

    # ends of attempts

    def stay_of(self, record: R) -> str:
        """Return the key of an attempt: of its stay in the ledger, its tombstone and its log."""
        return f"{record.key}/{record.attempt}"

    def may_run(self, record: R) -> bool:
        """Whether the container of an attempt may run, or come to run by what was sent."""
        return record.state in (STARTING, RUNNING) or record.is_unsure or bool(record.effect)

    def close(
        self, ctx: Context, record: R, state: str, *, may_run: bool, **changes: Any
    ) -> R | None:
        """End an attempt in ``state``; what was created of it is removed by its tombstone.

        Returns None, and does nothing, where the record cannot go there.
        """
        if not may_go(ctx, self.record, record.key, record.state, type(record.state)(state)):
            return None
        ledger.end_stay(ctx, self.stay_of(record))
        self.condemn(ctx, record, may_run=may_run)
        return self.to(ctx, record, state, **changes)

    def condemn(self, ctx: Context, record: R, *, may_run: bool) -> None:
        """Have the container of an attempt, where there is one, removed once its log is kept."""
        if not record.node or record.state in UNSENT:
            return
        key, terms = self.stay_of(record), self._terms(ctx, record)
        goes_on = isinstance(record, Service)  # an engine that comes back may revive it
        tombstone = Tombstone(
            id=key,
            node=record.node,
            owner=record.key,
            turn=record.attempt,
            name=record.container_name,
            engine_id=record.engine_id,
            created_us=ctx.now_us,
            may_run=may_run,
            request=terms.request if may_run or goes_on else Resources(),
            grace_s=terms.grace_s,
            logs_key="" if goes_on else key,
        )
        tombstones.condemn(ctx, tombstone)

    # what becomes of nodes

    def _standing(self, ctx: Context, node: str) -> list[R]:
        """Return the records on a node, but for those that are left as they are."""
        found = self.on_node(ctx, node)
        return [one for one in found if not ctx.is_quarantined(self.record, one.key)]

    def _is_unsent(self, ctx: Context, record: R) -> bool:
        """Whether a record may leave its node as if it had never been there."""
        return record.state in UNSENT and not record.effect

    def on_node_off(self, ctx: Context, node: str) -> None:
        """Give the records of a node that is off or fenced another one."""
        self.unplace_unsent(ctx, node, f"node {node} is gone")
        for record in self._standing(ctx, node):
            self.lose(ctx, record, f"node {node} is gone")

    def on_no_boot(self, ctx: Context, node: str) -> None:
        """Let go of a node that failed to boot where nothing was sent."""
        self.unplace_unsent(ctx, node, f"node {node} did not boot")

    def unplace_unsent(self, ctx: Context, node: str, reason: str) -> None:
        """Let records to which nothing was sent look for another node."""
        for record in self._standing(ctx, node):
            if self._is_unsent(ctx, record):
                self.unplace(ctx, record, reason)


class Work(Attempts[W]):
    """Attempts of what ends by itself, and is tried a limited number of times."""

    KEPT: ClassVar[frozenset[str]]

    @abstractmethod
    def _is_ending(self, ctx: Context, record: W) -> bool:
        """Whether the job or batch of it ends, so that nobody wants it any more."""

    @abstractmethod
    def renew(self, ctx: Context, over: W) -> None:
        """Begin the next attempt, unless nobody wants it any more."""

    @abstractmethod
    def _exited(self, ctx: Context, record: W, code: int, facts: ContainerFacts) -> None:
        """Take in that a container that was told to start has ended with an exit code."""

    def _anew(self, ctx: Context, over: W, tries: int, **changes: Any) -> W:
        """Begin the next attempt: with what is ``KEPT`` of the last one, and as new in all else."""
        lost = (field for field in fields(over) if field.name not in self.KEPT)
        fresh: dict[str, Any] = {field.name: field.default for field in lost}
        fresh |= {"attempt": over.attempt + 1, "changed_us": ctx.now_us}
        fresh |= {"retry_us": self._again_us(ctx, tries)}
        found = replace(over, **(fresh | changes))
        ctx.arm(found.retry_us, self.machine, found.key)
        return self.put(ctx, found)

    def _end(self, ctx: Context, record: W, state: str, *, may_run: bool, **ends: Any) -> W | None:
        """End an attempt now, or when ``ends`` says so."""
        return self.close(ctx, record, state, may_run=may_run, **{"finished_us": ctx.now_us} | ends)

    def lose(self, ctx: Context, record: W, note: str, *, may_run: bool = False) -> None:
        """End an attempt that was the fleet's fault, and begin the next one, unless too often."""
        mishaps = record.mishaps + 1
        over = self._end(ctx, record, ABANDONED, may_run=may_run, note=note, mishaps=mishaps)
        if over is not None:
            self._publish(ctx, "lost", record, note=note)
            if mishaps <= self._terms(ctx, record).most_mishaps:
                self.renew(ctx, over)

    def abandon(self, ctx: Context, record: W, note: str) -> W | None:
        """Stop what nobody wants any more; its tombstone holds its room until it is gone."""
        return self._end(ctx, record, ABANDONED, may_run=self.may_run(record), note=note)

    def _uncreated(self, ctx: Context, record: W) -> None:
        """Send a create that did not happen again, not for ever and not for what ends."""
        if self._is_ending(ctx, record):
            self.abandon(ctx, record, record.note)
        elif record.tries >= MOST_TRIES:
            self.lose(ctx, record, f"its create did not happen {record.tries + 1} times")
        else:
            self.create(ctx, replace(record, tries=record.tries + 1))

    def _is_missing_copy(self, ctx: Context, record: W, path: str, code: str) -> bool:
        """Whether a refusal may be of a copy that was to be read and is gone.

        Its node's tiers are then looked at soon. ``path`` is of a copy that it mounts, "" for none.
        """
        if not path or not task_bodies.may_lack_a_mount(code, record.note):
            return False
        tiers.survey_soon(ctx, record.node)
        return True

    def _found_ended(self, ctx: Context, record: W, facts: ContainerFacts) -> None:
        """Take in an exit of what was told to start."""
        if record.state in (STARTING, RUNNING):
            started_us = record.started_us or self._began_us(ctx, record, facts)
            record = self.put(ctx, replace(record, started_us=started_us))
            self._exited(ctx, record, 255 if facts.exit_code is None else facts.exit_code, facts)

    def _was_away(self, ctx: Context, record: W) -> bool:
        """Whether an engine came back since the attempt started: its end may be the engine's."""
        return ctx.tables.nodes[record.node].reconnected_us > (record.started_us or 0)

    def _again_us(self, ctx: Context, tries: int) -> int:
        """Return when the next attempt may begin, after so many that failed or were lost."""
        return ctx.now_us + ctx.params.retry_us * min(tries, MOST_WAITS)
