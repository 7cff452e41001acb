"""FleetState: events in, effects out. The one writer of all state (sans-IO, deterministic).

Theory of operation. ``handle_all`` takes in the events of one transaction. Each is dispatched to
the sub-machines by one table, and whatever it touched is reviewed; at the end of the batch, if room
changed, the queue is served. The shell stores ``take_changes`` in one transaction and only then
carries out the effects. The same events in the same batches give the same effects, so a run can be
replayed from its seed. Owns nothing but the ``Context``, which machines share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from tenure.core.batches import batches, planning
from tenure.core.jobs import jobs, joint_admission
from tenure.core.lifecycle import adopt, drain, restore
from tenure.core.routing import (
    ALWAYS,
    HANDLERS,
    MACHINE,
    ON_NO_BOOT,
    ON_NODE_OFF,
    ON_POWER_OFF,
    WHERE_ROOM_CHANGED,
    PutAside,
)
from tenure.core.services import deployments
from tenure.core.services.migration import migrations
from tenure.core.services.services import RECORD, SERVICES
from tenure.core.state import conditions, idempotency, quotas, set_aside
from tenure.core.state.context import Context
from tenure.core.state.params import Params
from tenure.core.state.tables import KINDS, Changes, Meta, Tables
from tenure.model.aside import Aside
from tenure.model.effects import Effect
from tenure.model.events import (
    Command,
    CreateService,
    Event,
    PutDataset,
    SubmitJob,
)
from tenure.model.locality import Localizer
from tenure.model.placing import Placer
from tenure.model.plan import CycleSpec
from tenure.model.units import US

P = ParamSpec("P")
T = TypeVar("T")
#: Reviews feed each other at most this often per event; more would be a loop, and a defect.
MAX_ROUNDS = 50
#: Of those that do not come to rest so many are named.
MAX_TOLD = 5


class FleetState:
    """The fleet's state machine. Not thread-safe: one consumer of the inbox owns it."""

    def __init__(
        self,
        params: Params,
        make_placer: Callable[[], Placer],
        *,
        localizer: Localizer,
        fleet: str = "fleet",
        cycles: Sequence[CycleSpec] = (),
    ) -> None:
        """``make_placer`` is called once, by the first question to the policies.

        ``cycles`` are those of the configuration, which say the headroom of generations: the first
        event may have something placed, before that which tells of the configuration.
        """
        self.ctx = Context(params, make_placer, localizer)
        planning.reset(self.ctx)
        self.ctx.own(drain.Looks)  # it hears of moves that end from the first event on
        self.ctx.learned.cycles = {cycle.name: cycle for cycle in cycles}
        self.ctx.set_meta(fleet=fleet)

    @property
    def tables(self) -> Tables:
        return self.ctx.tables

    @property
    def meta(self) -> Meta:
        """What is kept of the fleet as a whole."""
        return self.ctx.meta

    @property
    def quarantined(self) -> Mapping[tuple[str, str], str]:
        """Why records are left as they are, by kind and key."""
        return self.ctx.quarantined

    def read(
        self, query: Callable[Concatenate[Context, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        """Return what a machine's ``query``, which changes nothing, tells of the state now."""
        return query(self.ctx, *args, **named)

    def load(self, records: Mapping[str, Mapping[str, Any]], kept: Sequence[Aside] = ()) -> None:
        """Take over stored records by kind. ``Started`` must be the next event.

        ``kept`` is what is set aside: nothing of it is touched.
        """
        self.ctx.quarantined = set_aside.quarantined(kept)
        self.ctx.names_aside = set_aside.names(kept)
        for kind in KINDS:
            table: Any = getattr(self.ctx.tables, kind)
            rows = dict(records.get(kind, {}))
            if kind == "meta" and not rows:
                continue
            table.load(rows)
        self.ctx.now_us = self.ctx.meta.clock_us
        self.ctx.reindex()

    def handle(self, event: Event) -> list[Effect]:
        """Take in one event and return the effects to be carried out once it is durable."""
        return self.handle_all((event,))

    def handle_all(self, events: Iterable[Event]) -> list[Effect]:
        """Take in the events of one transaction in their order and return their effects.

        What an event touched is reviewed at once; the queue is served when all are taken in, so
        the same events in the same batches give the same effects.
        """
        for _ in self.steps(events):
            pass
        return self.take_effects()

    def steps(self, events: Iterable[Event]) -> Iterator[None]:
        """Take in the events of one transaction, with pauses in which others may look.

        Whoever asks for the steps goes through all of them, then takes effects and changes; in a
        pause nothing may be put in. Where the pauses are has no influence on what is done.
        """
        self.ctx.work.renew()
        for group in joint_admission.groups(events):
            joint_admission.expect(self.ctx, group)
            for event in group:
                self._take_in(event)
                yield
        joint_admission.forget(self.ctx)
        yield from _settle(self.ctx)

    def _take_in(self, event: Event) -> None:
        ctx = self.ctx
        ctx.now_us = max(ctx.now_us, event.at_us)
        if isinstance(event, Command) and not _may_go_on(ctx, event):
            return
        ctx.cause = event.request if isinstance(event, Command) else ""
        handler = HANDLERS[type(event)]
        handler(ctx, event)
        if isinstance(event, Command):
            _remember(ctx, event)
        _react(ctx)
        ctx.cause = ""

    def take_effects(self) -> list[Effect]:
        """Return the effects of what was taken in, and forget them."""
        effects, self.ctx.effects = self.ctx.effects, []
        return effects

    def take_changes(self) -> Changes:
        """Return everything that one transaction must store, and forget that it changed."""
        ctx = self.ctx
        if ctx.public or ctx.effects:
            following = ctx.meta.next_event + len(ctx.public)
            ctx.set_meta(next_event=following, revision=following - 1)
        records = {}
        for kind in KINDS:
            changed = getattr(ctx.tables, kind).take()
            if changed:
                records[kind] = changed
        if records:
            meta = replace(ctx.meta, clock_us=ctx.now_us)
            ctx.tables.meta.load({"meta": meta})
            records["meta"] = {"meta": meta}
        events, ctx.public = tuple(ctx.public), []
        return Changes(records, events)

    def wakeup_us(self) -> int | None:
        """Return when the next ``Tick`` is due, or None."""
        return self.ctx.wakeup_us()


def _may_go_on(ctx: Context, command: Command) -> bool:
    """Whether a command is for its machine; else answer it: told before, too early, or refused."""
    if idempotency.recall(ctx, command) or restore.turns_away(ctx, command):
        return False
    return conditions.hold(ctx, command) and quotas.hold(ctx, command)


def _remember(ctx: Context, command: Command) -> None:
    """Keep the answer of a submission that was accepted (``planning`` does so for batches)."""
    if isinstance(command, SubmitJob) and command.job in ctx.tables.jobs:
        idempotency.remember(ctx, command, "jobs", command.job)
    elif isinstance(command, CreateService) and command.container in ctx.tables.services:
        idempotency.remember(ctx, command, "services", command.container)
    elif isinstance(command, PutDataset) and command.dataset in ctx.tables.datasets:
        idempotency.remember(ctx, command, "datasets", command.dataset)


def _react(ctx: Context) -> None:
    """Review what was touched until nothing is."""
    for _ in range(MAX_ROUNDS):
        if ctx.meta.is_restoring and not restore.review(ctx):
            return
        touched = ctx.notices.jobs or ctx.notices.services or ctx.notices.tasks
        touched = touched or ctx.notices.deployments
        if not (ctx.notices.gone or ctx.notices.unbooted or touched):
            return
        _gone(ctx)
        _review(ctx)
    _postpone(ctx)


def _postpone(ctx: Context) -> None:
    """Put reviews that keep causing each other aside for a second: a defect, no reason to end."""
    notices, aside = ctx.notices, ctx.own(PutAside)
    touched = sorted((*notices.jobs, *notices.services, *notices.tasks, *notices.deployments))
    among = ", ".join(touched[:MAX_TOLD]) or "the queue"
    aside.jobs |= notices.jobs
    aside.services |= notices.services
    aside.tasks |= notices.tasks
    aside.deployments |= notices.deployments
    notices.jobs, notices.services, notices.tasks = set(), set(), set()
    notices.deployments = set()
    ctx.quarantine("fleet", "reviews", f"they keep causing each other, among them {among}")
    ctx.arm(ctx.now_us + US, MACHINE, "reviews")


def _settle(ctx: Context) -> Iterator[None]:
    """Serve the queue if room changed, and review what that touched; repeat. Pauses in between.

    While a restore looks at the fleet, nothing begins.
    """
    for _ in range(MAX_ROUNDS):
        _react(ctx)
        for serve in ALWAYS:
            serve(ctx)
        yield
        if not ctx.notices.is_pass_due or ctx.meta.is_restoring:
            return
        ctx.notices.is_pass_due = False
        for group in WHERE_ROOM_CHANGED:
            for serve in group:
                serve(ctx)
            yield
    _postpone(ctx)


def _gone(ctx: Context) -> None:
    """Tell everybody of nodes that were fenced, and of those that failed to boot."""
    notices = ctx.notices
    while notices.gone:
        name, is_off = notices.gone.pop(0)
        for hear in (*ON_NODE_OFF, *(ON_POWER_OFF if is_off else ())):
            hear(ctx, name)
    while notices.unbooted:
        name = notices.unbooted.pop(0)
        for hear in ON_NO_BOOT:
            hear(ctx, name)


def _review(ctx: Context) -> None:
    touched, ctx.notices.jobs = sorted(ctx.notices.jobs), set()
    for key in touched:
        jobs.review(ctx, key)
    touched, ctx.notices.services = sorted(ctx.notices.services), set()
    for key in touched:
        if ctx.is_quarantined(RECORD, key):
            continue
        SERVICES.review(ctx, key)
        adopt.arm(ctx, key)
        move = ctx.move_of(key)
        if move is not None:
            migrations.advance(ctx, move.id)
    touched, ctx.notices.deployments = sorted(ctx.notices.deployments), set()
    for key in touched:
        deployments.review(ctx, key)
    batches.review_touched(ctx)
