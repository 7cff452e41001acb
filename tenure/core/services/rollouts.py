"""How a deployment goes from one revision to another: number by number, and back if that fails.

Theory of operation. A number is outdated while its container is of another revision than the one in
force. One after the other is removed, and made anew of that revision, as long as enough others are
ready and not too many of the new ones are still on their way; more than wanted may run meanwhile
(``max_surge``). A container of the new revision that fails or is unhealthy ends the update: the
revision before is in force again, exactly as it was. Owns nothing: ``deployments`` has the records.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.services import requests
from tenure.core.state.context import Context
from tenure.model.container import CRASHING, ContainerState, Service
from tenure.model.deployment import (
    MAX_REVISIONS,
    Deployment,
    Member,
    Phase,
    Revision,
    Template,
)

S = ContainerState
UNWELL = ("unhealthy", CRASHING)


def is_steady(ctx: Context, row: Deployment, member: Member) -> bool:
    """Whether a member has been ready for as long as an update asks for."""
    return bool(member.ready_us) and ctx.now_us >= member.ready_us + row.rollout.min_healthy_us


def wanted(ctx: Context, row: Deployment) -> int:
    """Return the highest number that is to be there: more than replicas amid an update only."""
    if row.is_removing:
        return 0
    if row.phase is Phase.STEADY:
        return row.replicas
    surge = min(row.rollout.max_surge, _unsettled(ctx, row))
    if row.is_paused:  # those that are there stay
        surge = min(surge, max(0, len(row.members) - row.replicas))
    return row.replicas + surge


def revision_for(row: Deployment, member: Member) -> Revision:
    """Return what a member's next container is of: while paused what it was before, if kept."""
    held = row.template_of(member.revision) if row.is_paused else None
    return row.revision if held is None else Revision(member.revision, held)


def renewed(row: Deployment, template: Template) -> Deployment:
    """Return it with a template in force; one that was not in force for good is forgotten."""
    if template == row.revision.template:
        fresh = Revision(row.revision.number, template)  # what is known of it is newer
        return replace(row, revisions=(*row.revisions[:-1], fresh), failure="")
    former = row.revisions[:-1] if row.phase is Phase.UPDATING else row.revisions
    if row.phase is Phase.UPDATING and former[-1].template == template:
        return returned(row, "")
    number = row.last_revision + 1
    kept = (*former, Revision(number, template))[-MAX_REVISIONS:]
    return _begun(replace(row, revisions=kept, last_revision=number, failure=""), Phase.UPDATING)


def returned(row: Deployment, failure: str) -> Deployment:
    """Return it with the revision before in force; there must be one."""
    back = replace(row, revisions=row.revisions[:-1], failure=failure)
    return _begun(back, Phase.ROLLING_BACK)


def _begun(row: Deployment, phase: Phase) -> Deployment:
    fresh = tuple(replace(member, tries=0, retry_us=0, is_barred=False) for member in row.members)
    return replace(row, phase=phase, members=fresh)


def judged(ctx: Context, row: Deployment) -> Deployment:
    """Return it with an update undone that fails, or ended that is done."""
    if row.phase is Phase.STEADY or row.is_removing or row.is_paused:
        return row
    for member in row.members if row.phase is Phase.UPDATING else ():
        service = ctx.tables.services.get(member.container)
        why = member.note if member.is_barred else "" if service is None else _ill(service)
        if why and member.revision == row.revision.number:
            reason = f"{row.container_name(member.number)}: {why}"
            number = row.revision.number
            ctx.publish("service.update_failed", row.name, revision=number, reason=reason)
            return returned(row, reason)
    if _unsettled(ctx, row):
        return row
    told = "service.updated" if row.phase is Phase.UPDATING else "service.rolled_back"
    ctx.publish(told, row.name, revision=row.revision.number)
    return replace(row, phase=Phase.STEADY)


def _unsettled(ctx: Context, row: Deployment) -> int:
    """Return how many numbers that are wanted for good are not settled."""
    first = (member for member in row.members if member.number <= row.replicas)
    return row.replicas - sum(_is_settled(ctx, row, member) for member in first)


def _is_settled(ctx: Context, row: Deployment, member: Member) -> bool:
    """Whether a number is of the revision in force, and steady or meant to be at rest."""
    service = ctx.tables.services.get(member.container)
    is_at_rest = service is not None and is_resting(service) and not service.is_removing
    is_done = is_at_rest or is_steady(ctx, row, member)
    return member.revision == row.revision.number and is_done


def is_resting(service: Service) -> bool:
    """Whether a person stopped a container, or it ended and its policy leaves it at that."""
    is_over = service.state is S.EXITED
    is_over = is_over and not service.is_kept_up(service.exit_code, service.restarts)
    return is_over or service.state is S.STOPPED


def _ill(service: Service) -> str:
    """Return why a container of a new revision makes its update fail, "" where it does not.

    One that its policy starts again, and that its engine did not, may have ended with its engine.
    """
    if service.is_removing or (service.state is S.EXITED and service.suspect_us):
        return ""
    if service.state in (S.FAILED, S.EXITED) or service.health in UNWELL:
        return trouble(service)
    if service.state is S.RUNNING and service.restarts:
        return f"it ended with code {service.exit_code} and was started again"
    return ""


def advanced(ctx: Context, row: Deployment) -> Deployment:
    """Take down outdated containers, as many as may be missing, those first that are not ready.

    One that is ready counts as running, a new one once it was ready for long enough.
    """
    if row.phase is Phase.STEADY or row.is_paused or row.is_removing:
        return row
    current, rollout = row.revision.number, row.rollout
    most = wanted(ctx, row)  # those beyond it go
    fresh = [m for m in row.members if m.revision == current and m.number <= most]
    outdated = [m for m in row.members if m.revision != current and m.number <= most]
    up = sum(is_steady(ctx, row, member) for member in fresh)
    up += sum(bool(member.ready_us) for member in outdated)
    begun = sum(not _is_settled(ctx, row, member) for member in fresh)
    taken = set()
    for member in sorted(outdated, key=lambda m: (m.ready_us > 0, m.number)):
        is_up = bool(member.ready_us)
        if begun >= max(1, rollout.max_unavailable + rollout.max_surge):
            break
        if is_up and up - 1 < row.replicas - rollout.max_unavailable:
            break
        service = ctx.tables.services.get(member.container)
        if ctx.is_set_aside(member.container) or (service and service.state is S.MOVING):
            continue
        if service is not None and service.state is not S.REMOVED and not service.is_removing:
            requests.remove(ctx, service)
        taken.add(member.number)
        up, begun = up - is_up, begun + 1
    members = (
        replace(m, revision=current, ready_us=0) if m.number in taken else m for m in row.members
    )
    return replace(row, members=tuple(members))


def trouble(service: Service) -> str:
    """Return what keeps a container from being ready, "" where it is on its way."""
    if service.state is S.RUNNING:
        return service.health if service.health in UNWELL else ""
    if service.state is S.STOPPED:
        return "was stopped by hand"
    if service.state in (S.EXITED, S.FAILED):
        code = "" if service.exit_code is None else f" with code {service.exit_code}"
        word = "has ended" if service.state is S.EXITED else "failed"
        return f"{word}{code}" + (f": {service.reason}" if service.reason else "")
    is_waiting = service.state in (S.WAITING, S.STARTING) and service.reason
    return service.reason if is_waiting else ""
