"""FleetState: events in, effects out. The one writer of all state (sans-IO, deterministic).

Theory of operation. ``handle_all`` takes in the events of one transaction. Each is dispatched to
the sub-machines by one table, and whatever it touched is reviewed; at the end of the batch, if
room changed, the queue is served. The shell stores ``take_changes`` in one transaction and only
then carries out the effects. The same events in the same batches give the same effects, so a run
can be replayed from its seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from tenure.core.attempts import executors, tasks, tasks_of_node, tombstones
from tenure.core.batches import batches, drafts, planning, reclaims, starvation
from tenure.core.blocks import external, orphans, pins, tiers
from tenure.core.capacity import forecasts, ledger
from tenure.core.datasets import copies, datasets, over_replication, prefetching
from tenure.core.dispatch import dispatch_list, task_inputs
from tenure.core.jobs import executor_inputs, jobs, joint_admission, queue, slow_decisions
from tenure.core.lifecycle import adopt, clock_steps, cycle_runs, drain, nodes, restore, retention
from tenure.core.nodes import capacity_probes, power
from tenure.core.services import requests, services, unplaced
from tenure.core.services.migration import migrations, move_records
from tenure.core.state import conditions, idempotency
from tenure.core.state.context import Context
from tenure.core.state.params import Params
from tenure.core.state.tables import Changes, Tables
from tenure.model.effects import Effect
from tenure.model.events import (
    AcceptTier,
    BlockDoubted,
    CancelBatch,
    CancelDrain,
    CancelJob,
    ChangeDataset,
    ChangeService,
    ClaimRun,
    ClockStepped,
    Closing,
    Command,
    Configured,
    ContainerSeen,
    CreateService,
    CycleDue,
    DiscardStrays,
    DrainNode,
    EffectEnded,
    Event,
    FailRun,
    FenceNode,
    GuardSeen,
    HarvestReported,
    NodeConnected,
    NodeListed,
    NodeLost,
    PowerNode,
    PutDataset,
    RequestRun,
    ScheduleNode,
    Started,
    SubmitBatch,
    SubmitForecasts,
    SubmitJob,
    SubmitPlan,
    Tick,
    UsageObserved,
)
from tenure.model.locality import Localizer
from tenure.model.node import Reach
from tenure.model.outcome import Outcome, Unknown
from tenure.model.placing import Placer

#: Reviews feed each other at most this often per event; more would be a loop, and a defect.
MAX_ROUNDS = 50
#: The kinds of records, in the order of ``Tables``.
TABLES = tuple(field.name for field in fields(Tables))


class FleetState:
    """The fleet's state machine. Not thread-safe: one consumer of the inbox owns it."""

    def __init__(
        self,
        params: Params,
        make_placer: Callable[[], Placer],
        *,
        localizer: Localizer,
        fleet: str = "fleet",
    ) -> None:
        """``make_placer`` is called once, by the first question to the policies."""
        self.ctx = Context(params, make_placer, localizer)
        planning.reset(self.ctx)
        self.ctx.set_meta(fleet=fleet)

    @property
    def tables(self) -> Tables:
        return self.ctx.tables

    def load(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over stored records by kind. ``Started`` must be the next event."""
        for kind in TABLES:
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
        if isinstance(event, Command) and (
            _is_answered(ctx, event) or not conditions.hold(ctx, event)
        ):
            return
        handler = HANDLERS[type(event)]
        handler(ctx, event)
        if isinstance(event, Command):
            _remember(ctx, event)
        _react(ctx)

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
        for kind in TABLES:
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


def _is_answered(ctx: Context, command: Command) -> bool:
    """Answer what was asked before, and what cannot be asked yet."""
    return idempotency.recall(ctx, command) or restore.turns_away(ctx, command)


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
        if not (ctx.notices.gone or ctx.notices.unbooted or touched):
            return
        _gone(ctx)
        _review(ctx)
    raise AssertionError("the fleet does not come to rest")


def _settle(ctx: Context) -> Iterator[None]:
    """Serve the queue if room changed, and review what that touched; repeat. Pauses in between.

    While a restore looks at the fleet, nothing begins.
    """
    for _ in range(MAX_ROUNDS):
        _react(ctx)
        tiers.review_nodes(ctx)
        datasets.grow(ctx)
        copies.settle(ctx)
        task_inputs.notice(ctx)
        executor_inputs.serve(ctx)
        yield
        if not ctx.is_room_changed or ctx.meta.is_restoring:
            return
        ctx.is_room_changed = False
        queue.run(ctx)
        unplaced.serve(ctx)
        yield
        drain.review_all(ctx)
        migrations.review_all(ctx)
        cycle_runs.settle(ctx)
        capacity_probes.serve(ctx)
        yield
        _idle(ctx)
        prefetching.hold(ctx)
        batches.settle(ctx)
        prefetching.settle(ctx)
        yield
    raise AssertionError("the fleet does not come to rest")


def _gone(ctx: Context) -> None:
    """Tell everybody of nodes that were fenced, then close their ledger interval; of no boots."""
    while ctx.notices.gone:
        name, is_off = ctx.notices.gone.pop(0)
        executors.on_node_off(ctx, name)
        tombstones.on_node_off(ctx, name)
        migrations.on_node_off(ctx, name)
        services.on_node_off(ctx, name)
        tasks_of_node.on_node_off(ctx, name)
        if is_off:
            tiers.on_node_off(ctx, name)
            ledger.close_interval(ctx, name)
    while ctx.notices.unbooted:
        name = ctx.notices.unbooted.pop(0)
        executors.unplace_unsent(ctx, name)
        services.on_no_boot(ctx, name)


def _review(ctx: Context) -> None:
    touched, ctx.notices.jobs = sorted(ctx.notices.jobs), set()
    for key in touched:
        jobs.review(ctx, key)
    touched, ctx.notices.services = sorted(ctx.notices.services), set()
    for key in touched:
        services.review(ctx, key)
        adopt.arm(ctx, key)
        move = ctx.move_of(key)
        if move is not None:
            migrations.advance(ctx, move.id)
    batches.review_touched(ctx)


def _idle(ctx: Context) -> None:
    touched, ctx.notices.nodes = sorted(ctx.notices.nodes), set()
    for name in touched:
        node = ctx.tables.nodes.get(name)
        if node is not None:
            power.review(ctx, node)
    nodes.retire(ctx)


def _started(ctx: Context, event: Started) -> None:
    """Take every effect that was open when the daemon ended as ended unknown, then go on."""
    clock_steps.resumed(ctx, event)
    ctx.publish("daemon.started", "tenured")
    _forget_reach(ctx)
    for key in list(dict(ctx.tables.effects.items())):
        _end(ctx, key, Unknown("the daemon restarted"))
    restore.begin(ctx)
    ctx.is_room_changed = True  # what waits may wait for nothing that is still to come
    machines = (
        power,
        executors,
        jobs,
        tombstones,
        services,
        migrations,
        drain,
        cycle_runs,
        retention,
        batches,
        datasets,
        prefetching,
        pins,
        executor_inputs,
        planning,
    )
    for machine in machines:
        machine.rearm(ctx)


def _forget_reach(ctx: Context) -> None:
    """Nothing is known of reach until the engines answer anew."""
    for node in list(ctx.tables.nodes.values()):
        if node.reach is Reach.OK:
            ctx.put_node(replace(node, reach=Reach.UNREACHABLE, unreachable_us=ctx.now_us))


def _tick(ctx: Context, event: Tick) -> None:
    for machine, key in list(ctx.due()):
        if ctx.meta.is_restoring and machine not in restore.AWAKE:
            ctx.arm(ctx.now_us + restore.DEFER_US, machine, key)
        else:
            TIMERS[machine](ctx, key)


def _executor_timer(ctx: Context, key: str) -> None:
    ctx.notices.jobs.add(key.partition("/")[0])


def _effect_ended(ctx: Context, event: EffectEnded) -> None:
    _end(ctx, event.effect, event.outcome)


def _end(ctx: Context, key: str, outcome: Outcome) -> None:
    """Route the end of an effect to its owner; a second end finds nothing and is ignored."""
    effect = ctx.tables.effects.get(key)
    if effect is None:
        if not planning.on_end(ctx, key, outcome) and not external.on_end(ctx, key, outcome):
            slow_decisions.on_end(ctx, key, outcome)
        return
    ctx.tables.effects.drop(key)
    machine, _, owner = effect.owner.partition(":")
    if machine == "executor":
        executor = ctx.tables.executors.get(owner)
        if executor is not None:
            executors.on_effect(ctx, executor, key, outcome)
    elif machine == "service":
        service = ctx.tables.services.get(owner)
        if service is not None:
            services.on_effect(ctx, service, key, outcome)
    else:
        ENDS[machine](ctx, owner, key, outcome)


def _usage(ctx: Context, event: UsageObserved) -> None:
    """Take in measured use. It counts for new placements, never against what is placed.

    Only nodes on which an amount changed are looked at anew: a sweep tells of all of them.
    """
    for profile in event.profiles:
        service = ctx.tables.services.get(profile.container)
        if service is not None:
            old = ctx.learned.profiles.get(profile.container)
            ctx.learned.profiles[profile.container] = profile
            if old is None or old.p90 != profile.p90:
                ctx.forget_loads(service.node)
    for node, use in event.foreign.items():
        if ctx.learned.foreign.get(node) != use:
            ctx.learned.foreign[node] = use
            ctx.forget_loads(node)
    forecasts.observe(ctx, event.regular)
    ctx.is_room_changed = True


def _closing(ctx: Context, event: Closing) -> None:
    """Begin no more moves: those under way have half a minute to end or go back."""
    ctx.is_closing = True


#: Who sees an event.
HANDLERS: dict[type[Event], Callable[[Context, Any], None]] = {
    Started: _started,
    Tick: _tick,
    Closing: _closing,
    ClockStepped: clock_steps.stepped,
    Configured: nodes.configure,
    NodeConnected: nodes.connected,
    NodeLost: nodes.lost,
    NodeListed: nodes.listed,
    ContainerSeen: nodes.seen,
    EffectEnded: _effect_ended,
    UsageObserved: _usage,
    HarvestReported: reclaims.reported,
    GuardSeen: reclaims.guarded,
    CycleDue: cycle_runs.on_due,
    SubmitJob: jobs.submit,
    CancelJob: jobs.cancel,
    SubmitBatch: batches.submit,
    CancelBatch: batches.cancel,
    PutDataset: datasets.put,
    ChangeDataset: datasets.change,
    BlockDoubted: datasets.doubted,
    AcceptTier: tiers.accept,
    DiscardStrays: orphans.discard,
    CreateService: requests.create,
    ChangeService: requests.change,
    ScheduleNode: nodes.schedule,
    DrainNode: drain.begin,
    CancelDrain: drain.cancel,
    PowerNode: power.command,
    FenceNode: power.fence,
    RequestRun: cycle_runs.request,
    ClaimRun: cycle_runs.claim,
    SubmitPlan: cycle_runs.submit,
    SubmitForecasts: cycle_runs.submit_forecasts,
    FailRun: cycle_runs.fail,
}
TIMERS: dict[str, Callable[[Context, str], None]] = {
    power.MACHINE: power.on_timer,
    executors.MACHINE: _executor_timer,
    jobs.MACHINE: jobs.on_timer,
    queue.MACHINE: queue.on_timer,
    tombstones.MACHINE: tombstones.on_timer,
    tasks.MACHINE: batches.on_timer,
    planning.MACHINE: planning.on_timer,
    drafts.MACHINE: drafts.on_timer,
    dispatch_list.MACHINE: dispatch_list.on_timer,
    starvation.MACHINE: starvation.on_timer,
    services.MACHINE: services.on_timer,
    move_records.MACHINE: migrations.on_timer,
    drain.MACHINE: drain.on_timer,
    cycle_runs.MACHINE: cycle_runs.on_timer,
    retention.MACHINE: retention.on_timer,
    adopt.MACHINE: adopt.on_timer,
    datasets.MACHINE: datasets.on_timer,
    copies.MACHINE: copies.on_timer,
    over_replication.MACHINE: over_replication.on_timer,
    tiers.MACHINE: tiers.on_timer,
    prefetching.MACHINE: prefetching.on_timer,
    external.MACHINE: external.on_timer,
    executor_inputs.MACHINE: executor_inputs.on_timer,
    capacity_probes.MACHINE: capacity_probes.on_timer,
    restore.MACHINE: restore.on_timer,
}
ENDS: dict[str, Callable[[Context, str, str, Outcome], None]] = {
    power.MACHINE: power.on_effect,
    tombstones.MACHINE: tombstones.on_effect,
    tasks.MACHINE: tasks.on_effect,
    move_records.MACHINE: migrations.on_effect,
    adopt.MACHINE: adopt.on_effect,
    copies.MACHINE: copies.on_effect,
    tiers.MACHINE: tiers.on_effect,
}
