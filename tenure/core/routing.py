"""Who sees what: events, timers, ends of effects, and the order in which machines are asked.

Everything about the order of the machines stands here, with its reason; ``fleet`` only goes through
it. Each function is given the context, and the key of what it is about. Owns the ends of the
effects that are open, and ``PutAside``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenure.core.attempts import tombstones
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.core.batches import batches, drafts, planning, reclaims, starvation
from tenure.core.blocks import external, orphans, pins, tiers
from tenure.core.capacity import forecasts, ledger
from tenure.core.datasets import copies, datasets, over_replication, prefetching
from tenure.core.dispatch import dispatch_list, task_inputs
from tenure.core.jobs import executor_inputs, jobs, queue, slow_decisions
from tenure.core.lifecycle import adopt, clock_steps, cycle_runs, drain, nodes, restore, retention
from tenure.core.nodes import capacity_probes, power
from tenure.core.services import deployments, requests
from tenure.core.services.migration import admission, migrations, move_records
from tenure.core.services.services import SERVICES
from tenure.core.state.context import Context
from tenure.core.state.owned import Owned
from tenure.model.events import (
    AcceptTier,
    ApplyDeployment,
    BlockDoubted,
    CancelBatch,
    CancelDrain,
    CancelJob,
    ChangeDataset,
    ChangeDeployment,
    ChangeService,
    ClaimRun,
    ClockStepped,
    Closing,
    Configured,
    ContainerSeen,
    CreateService,
    CycleDue,
    DiscardOrphans,
    DrainNode,
    EffectEnded,
    Event,
    FailRun,
    FenceNode,
    GuardSeen,
    HarvestReported,
    MoveService,
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
from tenure.model.node import Reach
from tenure.model.outcome import Outcome, Unknown

MACHINE = "fleet"
#: Kinds of records that are not called as the machine that owns their effects.
RECORDS = {SERVICES.machine: SERVICES.record, adopt.MACHINE: SERVICES.record}
Pass = Callable[[Context], object]

#: Who hears that a node is off or fenced: first what ran there is given up, copies before their
#: owners' moves, then owners look for another node.
ON_NODE_OFF: tuple[Callable[[Context, str], None], ...] = (
    EXECUTORS.on_node_off,
    tombstones.on_node_off,
    migrations.on_node_off,
    SERVICES.on_node_off,
    TASKS.on_node_off,
)
#: Who hears besides that the power is off for certain: memory tiers are empty, nothing costs.
ON_POWER_OFF: tuple[Callable[[Context, str], None], ...] = (
    tiers.on_node_off,
    ledger.close_interval,
)
#: Who hears that a node failed to boot: whatever was not sent yet looks for another node.
ON_NO_BOOT: tuple[Callable[[Context, str], None], ...] = (
    EXECUTORS.on_no_boot,
    SERVICES.on_no_boot,
)
#: At the end of each batch of events: blocks first, for tasks and executors are matched to them.
ALWAYS: tuple[Pass, ...] = (
    tiers.review_nodes,
    datasets.grow,
    copies.settle,
    task_inputs.notice,
    executor_inputs.serve,
)
#: Where room has changed, with a pause between the groups: deadline jobs come before services,
#: moves take what both leave, and only then idle nodes are switched off and batches served.
WHERE_ROOM_CHANGED: tuple[tuple[Pass, ...], ...] = (
    (queue.run, SERVICES.serve),
    (drain.review_all, migrations.review_all, cycle_runs.settle, capacity_probes.serve),
    (power.review_idle, nodes.retire, prefetching.hold, batches.settle, prefetching.settle),
)
#: So many of those whose effects a start takes as ended unknown are named by its event.
NAMED = 200
#: After a start, in this order: nodes before what runs on them, plans last.
AT_START: tuple[Pass, ...] = (
    power.rearm,
    EXECUTORS.rearm,
    jobs.rearm,
    tombstones.rearm,
    SERVICES.rearm,
    deployments.rearm,
    migrations.rearm,
    drain.rearm,
    cycle_runs.rearm,
    retention.rearm,
    batches.rearm,
    datasets.rearm,
    prefetching.rearm,
    pins.rearm,
    executor_inputs.rearm,
    planning.rearm,
)


def _started(ctx: Context, event: Started) -> None:
    """Take every effect that was open when the daemon ended as ended unknown, then go on."""
    clock_steps.resumed(ctx, event)
    effects = dict(ctx.tables.effects.items())
    owners = [(one.owner.partition(":")[2], one.kind) for one in effects.values()]
    told = dict(owners[:NAMED])
    ctx.publish("daemon.started", "tenured", unknown=told, unnamed=len(owners[NAMED:]))
    for (kind, key), why in ctx.quarantined.items():
        ctx.publish("record.quarantined", key, record=kind, reason=why)
    _forget_reach(ctx)
    for key in effects:
        _end(ctx, key, Unknown("the daemon restarted"))
    restore.begin(ctx)
    ctx.serve_again(MACHINE)  # what waits may wait for nothing that is still to come
    for rearm in AT_START:
        rearm(ctx)


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


def _effect_ended(ctx: Context, event: EffectEnded) -> None:
    _end(ctx, event.effect, event.outcome)


def _end(ctx: Context, key: str, outcome: Outcome) -> None:
    """Route the end of an effect to its owner; a second end finds nothing and is ignored.

    That of a record that is left as it is stays open: a restart takes it as ended unknown.
    """
    effect = ctx.tables.effects.get(key)
    if effect is None:
        if not planning.on_end(ctx, key, outcome) and not external.on_end(ctx, key, outcome):
            slow_decisions.on_end(ctx, key, outcome)
        return
    machine, _, owner = effect.owner.partition(":")
    if ctx.is_quarantined(RECORDS.get(machine, machine), owner):
        return
    ctx.tables.effects.drop(key)
    ENDS[machine](ctx, owner, key, outcome)


def _usage(ctx: Context, event: UsageObserved) -> None:
    """Take in measured use. It counts for new placements; what is placed stays, but for relief.

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
    for node, use in event.regular.items():
        ctx.learned.regular[node] = ctx.now_us, use
    forecasts.observe(ctx, event.regular)
    ctx.serve_again("usage")


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
    DiscardOrphans: orphans.discard,
    CreateService: requests.create,
    ChangeService: requests.change,
    MoveService: admission.ask,
    ApplyDeployment: deployments.apply,
    ChangeDeployment: deployments.change,
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


class PutAside(Owned):
    """Who was to be reviewed and did not come to rest, by id: reviewed again after a while."""

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self.services: set[str] = set()
        self.tasks: set[str] = set()
        self.deployments: set[str] = set()


def _again(ctx: Context, key: str) -> None:
    """Have those that were put aside reviewed again, and the queue served."""
    aside = ctx.own(PutAside)
    ctx.notices.jobs |= aside.jobs
    ctx.notices.services |= aside.services
    ctx.notices.tasks |= aside.tasks
    ctx.notices.deployments |= aside.deployments
    ctx.put_own(PutAside())
    ctx.serve_again(MACHINE)


#: Who is called when its time has come.
TIMERS: dict[str, Callable[[Context, str], None]] = {
    MACHINE: _again,
    power.MACHINE: power.on_timer,
    EXECUTORS.machine: EXECUTORS.on_timer,
    jobs.MACHINE: jobs.on_timer,
    queue.MACHINE: Context.serve_again,
    tombstones.MACHINE: tombstones.on_timer,
    TASKS.machine: batches.on_timer,
    planning.MACHINE: planning.on_timer,
    drafts.MACHINE: drafts.on_timer,
    dispatch_list.MACHINE: Context.serve_again,
    starvation.MACHINE: starvation.on_timer,
    SERVICES.machine: SERVICES.on_timer,
    deployments.MACHINE: deployments.on_timer,
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
    external.MACHINE: Context.serve_again,
    executor_inputs.MACHINE: executor_inputs.on_timer,
    capacity_probes.MACHINE: Context.serve_again,
    restore.MACHINE: restore.on_timer,
}
#: Who hears how an effect has ended, by the machine that owns it.
ENDS: dict[str, Callable[[Context, str, str, Outcome], None]] = {
    power.MACHINE: power.on_effect,
    tombstones.MACHINE: tombstones.on_effect,
    EXECUTORS.machine: EXECUTORS.on_effect,
    SERVICES.machine: SERVICES.on_effect,
    TASKS.machine: TASKS.on_effect,
    move_records.MACHINE: migrations.on_effect,
    adopt.MACHINE: adopt.on_effect,
    copies.MACHINE: copies.on_effect,
    tiers.MACHINE: tiers.on_effect,
}
