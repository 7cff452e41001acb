"""Records as JSON, in the shapes of ``shapes``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenure.api.backend import CycleState
from tenure.api.lazy import Pairs
from tenure.api.shapes import (
    AgentView,
    BlockerView,
    ContainerDetail,
    ContainerView,
    CycleView,
    DrainMoveView,
    DrainView,
    EventView,
    KeptView,
    MigrationView,
    MoneyView,
    MoveView,
    NodeNoteView,
    NodeView,
    ProfileView,
    ResourcesView,
    RunSummary,
    RunView,
    SavingView,
    UnderWayView,
    VerdictView,
)
from tenure.core.state.tables import PublicEvent
from tenure.model.container import Migration, Profile, Service
from tenure.model.drain import Blocker, DrainReport, PlannedMove
from tenure.model.node import AgentTold, Node
from tenure.model.plan import Kept, Move, NodeNote, Run, Verdict, saving_of
from tenure.model.resources import Resources
from tenure.model.units import US, iso, nano_to_usd


def seconds(us: int | None) -> float | None:
    """Return seconds for microseconds."""
    return None if us is None else us / US


def moment(us: int | None) -> str | None:
    """Return ISO text; 0 stands for "never" in records and becomes None."""
    return iso(us) if us else None


def money(nano: int) -> MoneyView:
    """Return an amount for display and exactly."""
    return MoneyView(cost_usd=nano_to_usd(nano), cost_nano_usd=nano)


def resources_view(amount: Resources) -> ResourcesView:
    """Return an amount of resources."""
    return ResourcesView(
        cpus=amount.cpu_m / 1000,
        memory_bytes=amount.memory_bytes,
        disk_bytes_per_s=amount.disk_bytes_per_s,
        net_bytes_per_s=amount.net_bytes_per_s,
    )


def node_view(node: Node, requested: Resources, executors: int, containers: int) -> NodeView:
    """Return a node with what is requested of it by executors and containers."""
    spec = node.spec
    return NodeView(
        name=spec.name,
        url=spec.url,
        generation=spec.generation,
        site=spec.site.value,
        state=node.word,
        power=node.power.value,
        reach=node.reach.value,
        scheduling=node.scheduling.value,
        price_usd_per_h=nano_to_usd(spec.price_nano_per_h),
        price_nano_usd_per_h=spec.price_nano_per_h,
        capacity=resources_view(node.capacity),
        requested=resources_view(requested),
        executors=executors,
        containers=containers,
        foreign_containers=node.foreign_running,
        rack=spec.rack,
        labels=dict(spec.labels),
        speed=spec.speed,
        power_driver=spec.power.driver,
        images=sorted(node.images),
        unreachable_since=moment(node.unreachable_us),
        idle_since=moment(node.idle_us),
        is_removed=node.is_removed,
        is_in_maintenance=node.is_in_maintenance,
        reason=node.reason,
        note=node.note,
        version=node.version,
    )


def agent_view(told: AgentTold | None) -> AgentView | None:
    """Return how a node's agent answers."""
    if told is None:
        return None
    return AgentView(url=told.url, state=told.word, detail=told.away, read_at=moment(told.read_us))


def drain_view(report: DrainReport, names: Mapping[str, str]) -> DrainView:
    """Return a drain as it stands, or its dry run; ``names`` are the containers' by id."""
    plan, drain = report.plan, report.drain
    return DrainView(
        node=plan.node,
        state=drain.state.value if drain else "planned",
        reason=drain.reason if drain else "",
        is_removal=drain is not None and drain.is_removal,
        began_at=moment(drain.began_us) if drain else None,
        deadline_at=moment(drain.deadline_us) if drain else None,
        finished_at=moment(drain.finished_us) if drain else None,
        moved=drain.moved if drain else 0,
        left=report.left,
        moves=[_drain_move_view(move) for move in plan.moves],
        under_way=[_under_way_view(move, names) for move in plan.under_way],
        blockers=[_blocker_view(blocker) for blocker in plan.blockers],
        switch_on=list(plan.switch_on),
        foreign=list(plan.strangers),
    )


def _drain_move_view(move: PlannedMove) -> DrainMoveView:
    return DrainMoveView(
        container=move.container,
        name=move.name,
        to=move.target,
        generation=move.generation,
        method=move.method,
        why=move.why,
        reason=move.reason,
    )


def _under_way_view(move: Migration, names: Mapping[str, str]) -> UnderWayView:
    return UnderWayView(
        migration=move.id,
        container=move.container,
        name=names.get(move.container, ""),
        to=move.target,
        method=move.method,
        step=move.step.value,
    )


def _blocker_view(blocker: Blocker) -> BlockerView:
    return BlockerView(
        kind=blocker.kind,
        id=blocker.id,
        name=blocker.name,
        code=blocker.code,
        reason=blocker.reason,
        remedy=blocker.remedy,
        is_passing=blocker.is_passing,
        until=moment(blocker.until_us),
    )


def container_view(service: Service) -> ContainerView:
    """Return a container."""
    return ContainerView(
        id=service.id,
        name=service.name,
        app=service.app,
        image=str(service.body.get("Image", "")),
        generation=service.generation,
        state=service.state.value,
        reason=service.reason,
        node=service.node,
        engine_id=service.engine_id,
        incarnation=service.incarnation,
        request=resources_view(service.request),
        migrate=service.migrate,
        overlap=service.overlap,
        min_age_s=seconds(service.min_age_us),
        created_at=moment(service.created_us),
        since=moment(service.since_us),
        started_at=moment(service.started_us),
        finished_at=moment(service.finished_us),
        moved_at=moment(service.moved_us),
        exit_code=service.exit_code,
        version=service.version,
    )


def container_detail(
    service: Service, profile: Profile | None, moves: Iterable[Migration]
) -> ContainerDetail:
    """Return a container with its body, profile and moves (oldest first)."""
    ordered = sorted(moves, key=lambda move: (move.created_us, move.id))
    return ContainerDetail(
        **container_view(service),
        body=service.body,
        profile=profile_view(profile) if profile else None,
        moves=[migration_view(move) for move in ordered],
    )


def profile_view(profile: Profile) -> ProfileView:
    """Return a profile."""
    return ProfileView(
        container=profile.container,
        p90=resources_view(profile.p90),
        samples=profile.samples,
        span_s=profile.age_us / US,
        observed=list(profile.observed),
    )


def migration_view(move: Migration) -> MigrationView:
    """Return a move."""
    return MigrationView(
        id=move.id,
        run_id=move.run_id,
        container=move.container,
        source=move.source,
        target=move.target,
        generation=move.generation,
        kind=move.kind,
        method=move.method,
        why=move.why,
        moved_bytes=move.moved_bytes,
        step=move.step.value,
        reason=move.reason,
        is_over=move.is_over,
        created_at=moment(move.created_us),
        started_at=moment(move.started_us),
        finished_at=moment(move.finished_us),
        downtime_s=seconds(move.downtime_us),
    )


def _move_view(move: Move) -> MoveView:
    return {
        "container": move.container,
        "incarnation": move.incarnation,
        "from": move.source,
        "to": move.target,
        "reason": move.reason,
    }


def _kept_view(kept: Kept) -> KeptView:
    return KeptView(container=kept.container, code=kept.code, reason=kept.reason)


def _verdict_view(verdict: Verdict) -> VerdictView:
    return VerdictView(
        container=verdict.container,
        to=verdict.target,
        code=verdict.code,
        migration=verdict.migration,
        detail=verdict.detail,
    )


def _note_view(note: NodeNote) -> NodeNoteView:
    return NodeNoteView(
        node=note.node,
        code=note.code,
        reason=note.reason,
        idle_w=note.idle_w,
        price_usd_per_h=nano_to_usd(note.price_nano_per_h),
    )


def _saving_view(run: Run) -> SavingView:
    saving = saving_of(run.nodes)
    return SavingView(
        nodes=saving.nodes,
        idle_w=saving.idle_w,
        usd_per_h=nano_to_usd(saving.price_nano_per_h),
        unknown_nodes=saving.unknown_nodes,
    )


def run_view(run: Run) -> RunView:
    """Return a run with its moves and verdicts."""
    return RunView(
        id=run.id,
        cycle=run.cycle,
        state=run.state.value,
        is_dry=run.is_dry,
        is_manual=run.is_manual,
        reason=run.reason,
        due_at=moment(run.due_us),
        claimed_at=moment(run.claimed_us),
        finished_at=moment(run.finished_us),
        expires_at=moment(run.expires_us),
        moves=[_move_view(move) for move in run.moves],
        kept=[_kept_view(kept) for kept in run.kept],
        nodes=[_note_view(note) for note in run.nodes],
        saving=_saving_view(run),
        verdicts=[_verdict_view(verdict) for verdict in run.verdicts],
    )


def run_summary(run: Run) -> RunSummary:
    """Return a run in one line."""
    return RunSummary(
        id=run.id,
        state=run.state.value,
        due_at=moment(run.due_us),
        finished_at=moment(run.finished_us),
        moves=len(run.moves),
        accepted=sum(verdict.code == "accepted" for verdict in run.verdicts),
    )


def cycle_view(state: CycleState, last: Run | None) -> CycleView:
    """Return a cycle with its next due time and last run."""
    spec = state.spec
    return CycleView(
        name=spec.name,
        kind=spec.kind,
        source=spec.source,
        target=spec.target,
        cron=spec.cron,
        interval_s=seconds(spec.interval_us or None),
        mode=spec.mode,
        min_age_s=spec.min_age_us / US,
        max_moves=spec.max_moves,
        description=spec.description,
        next_due_at=moment(state.next_due_us),
        last_run=run_summary(last) if last else None,
    )


def event_view(event: PublicEvent) -> EventView:
    """Return a public event."""
    return EventView(
        seq=event.seq,
        at=iso(event.at_us),
        type=event.type,
        subject=event.subject,
        data=event.data,
    )


def cost_view(report: dict[str, Any], since_us: int, until_us: int) -> dict[str, Any]:
    """Return the ledger's report (``core.ledger.report``) with amounts for people as well.

    It is a ``CostView`` whose long members are made when they are sent.
    """

    def amounts(key: str) -> Pairs:
        return Pairs((name, money(nano)) for name, nano in report.get(key, {}).items())

    return {
        "since": moment(since_us),
        "until": iso(until_us),
        "total": money(report["total"]),
        "services": money(report["services"]),
        "idle": money(report["idle"]),
        "by_site": amounts("by_site"),
        "by_generation": amounts("by_generation"),
        "by_node": amounts("by_node"),
        "by_job": amounts("by_job"),
        "on_s": Pairs((name, us / US) for name, us in report.get("on_us", {}).items()),
    }
