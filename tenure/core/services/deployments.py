"""Replicated services: a template and how many containers of it are to run (docs/services.md).

Theory of operation. A deployment has numbered members, and each at most one container, NAME-1 to
NAME-N, which are containers as any others: placed, moved, lost and found by their own machines.
This one compares what is wanted with them whenever one of them changes, or a time has come, and
adds or removes some. The next container of a number is made once the former is gone and no copy of
it may run, so nothing here can make two. One that did not last is followed with a growing delay.
What holds files on its node waits for that, and is started there again (``eligibility.tied``).
Which number is replaced by which revision says ``rollouts``. Owns the records of deployments.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from tenure.core.attempts import tombstones
from tenure.core.attempts.attempt import JUDGE_US
from tenure.core.services import orphan_numbers, requests, rollouts
from tenure.core.services.migration import eligibility
from tenure.core.services.services import RETRY_US, SERVICES, STEADY_US
from tenure.core.state import quotas
from tenure.core.state.context import Context
from tenure.core.state.indexes import held_by_container
from tenure.model.container import ContainerState, Service, digest_of
from tenure.model.deployment import Deployment, DeploymentPlan, Member, Phase, Revision, Template
from tenure.model.errors import Problem
from tenure.model.events import ApplyDeployment, ChangeDeployment, Command, CreateService
from tenure.model.job import Constraint
from tenure.model.matching import satisfies_all
from tenure.model.node import Node, OrphanCopy

MACHINE = "deployment"
#: Waits between containers of a number that do not last double up to RETRY_US * 2**5, 160 s.
MAX_DOUBLINGS = 5
#: So many containers are made at once: an event must not be long.
MAX_MADE = 50
PAUSE_US = 1000
FOUND = "containers of a revision run that the state did not know: apply the newest file and resume"
S = ContainerState


def review(ctx: Context, name: str) -> None:
    """Bring what there is nearer to what is wanted."""
    row = ctx.tables.deployments.get(name)
    if row is None:
        return
    was, row = row, _seen(ctx, row)
    row = rollouts.judged(ctx, row)
    row = _resized(ctx, row)
    row = rollouts.advanced(ctx, row)
    most = rollouts.wanted(ctx, row)
    made = sum(_is_made_now(ctx, member) for member in row.members)
    members = []
    for member in row.members:
        if member.number > most:
            members.append(member)
            _let_go(ctx, member)
            continue
        kept = _kept(ctx, row, member, may_make=made < MAX_MADE)
        made += kept.container not in ("", member.container)
        members.append(kept)
    if row.is_removing and not members:
        ctx.tables.deployments.drop(name)
        ctx.publish("service.removed", name)
        return
    row = _held(ctx, replace(row, members=tuple(members)))
    row = _told(ctx, row)
    if row != was:
        ctx.put_deployment(row)
    if made == MAX_MADE:
        ctx.arm(ctx.now_us + PAUSE_US, MACHINE, name)


def _is_made_now(ctx: Context, member: Member) -> bool:
    """Whether a container was made at this moment: what is made has its service reviewed again."""
    service = ctx.tables.services.get(member.container)
    return service is not None and service.created_us == ctx.now_us


def on_timer(ctx: Context, name: str) -> None:
    """Look again: a wait is over."""
    ctx.notices.deployments.add(name)


def rearm(ctx: Context) -> None:
    """Have all loaded deployments reviewed."""
    ctx.notices.deployments |= {row.name for row in ctx.tables.deployments.values()}


# what people ask for


def apply(ctx: Context, command: ApplyDeployment) -> None:
    """Have so many containers of a template from now on, or say what that would change."""
    row = ctx.tables.deployments.get(command.name)
    if row is None and ("service", command.name) in ctx.quarantined:
        detail = f"the record of service {command.name} is damaged (tenured check)"
        ctx.refuse(command, "record_damaged", detail, status=503)
        return
    if row is not None and row.owner.namespace != command.owner.namespace:
        told = f"the name {row.name!r} is taken; choose another"
        ctx.refuse(command, "name_taken", told, status=409, field="name")
        return
    if row is not None and row.is_removing:
        _refuse_removing(ctx, command, row)
        return
    wish = command.replicas, command.rollout
    if row is None:
        first = (Revision(1, command.template),)
        new = Deployment(command.name, *wish, first, ctx.now_us, owner=command.owner)
    else:
        new = rollouts.renewed(row, command.template)
        new = replace(new, replicas=command.replicas, rollout=command.rollout)
    asked = create_command(ctx, new, command.template, 1)
    problem = requests.made_of(ctx, replace(asked, name=""))
    if isinstance(problem, Problem):
        ctx.reply(command, problem)
    elif command.is_dry:
        ctx.reply(command, DeploymentPlan(new, tuple(_steps(row, new))))
    else:
        ctx.publish("service.applied", new.name, replicas=new.replicas, revision=new.last_revision)
        _answer(ctx, command, new)


def _steps(row: Deployment | None, new: Deployment) -> Iterator[tuple[str, str, str]]:
    """Yield what becomes of each number: (create, replace or remove; container; why)."""
    if row is not None and row.rollout != new.rollout:
        yield "change", new.name, "changed: update"
    there = {} if row is None else {member.number: member for member in row.members}
    for number in range(1, new.replicas + 1):
        name, member = new.container_name(number), there.pop(number, None)
        if member is None:
            yield "create", name, "it is not there"
        elif row is not None and member.revision != new.revision.number:
            before = row.template_of(member.revision)
            changed = [] if before is None else before.changes(new.revision.template)
            yield "replace", name, f"changed: {', '.join(changed) or 'its revision'}"
    for number in sorted(there, reverse=True):
        yield "remove", new.container_name(number), f"{new.replicas} are wanted"


def change(ctx: Context, command: ChangeDeployment) -> None:
    """Scale, pause, resume, roll back or remove a service."""
    row = ctx.find(command, ctx.tables.deployments, "service", command.name)
    if row is None:
        return
    if command.verb == "remove":
        _answer(ctx, command, replace(row, is_removing=True))
    elif row.is_removing:
        _refuse_removing(ctx, command, row)
    elif command.verb == "scale":
        ctx.publish("service.scaled", row.name, replicas=command.replicas)
        _answer(ctx, command, replace(row, replicas=command.replicas, failure=""))
    elif command.verb in ("pause", "resume"):
        _answer(ctx, command, replace(row, is_paused=command.verb == "pause"))
    elif len(row.revisions) < 2:
        told = f"no earlier revision of service {row.name} is kept"
        ctx.refuse(command, "no_revision", told, status=409)
    else:
        _answer(ctx, command, replace(rollouts.returned(row, ""), is_paused=False))


def _refuse_removing(ctx: Context, command: Command, row: Deployment) -> None:
    told = f"service {row.name} is being removed; try again once it is gone"
    ctx.refuse(command, "removing", told, status=409)


def _answer(ctx: Context, command: Command, row: Deployment) -> None:
    """Keep what was asked for, have it carried out, and reply it."""
    ctx.reply(command, ctx.put_deployment(row))
    ctx.notices.deployments.add(row.name)


# what is there


def container_of(ctx: Context, member: Member) -> Service | None:
    """Return the container of a member that is not gone, None for none."""
    service = ctx.tables.services.get(member.container)
    return None if service is None or service.state is S.REMOVED else service


def is_free(ctx: Context, member: Member) -> bool:
    """Whether a number may have a new container: no copy of its last one may run."""
    is_gone = container_of(ctx, member) is None and not ctx.is_set_aside(member.container)
    return is_gone and not tombstones.may_run(ctx, member.container)


def _seen(ctx: Context, row: Deployment) -> Deployment:
    """Note since when its containers are ready, and have those looked at that are not for long."""
    members = tuple(_seen_member(ctx, member) for member in row.members)
    for member in members:
        if member.ready_us and not rollouts.is_steady(ctx, row, member):
            ctx.arm(member.ready_us + row.rollout.min_healthy_us, MACHINE, row.name)
    return replace(row, members=members)


def _seen_member(ctx: Context, member: Member) -> Member:
    service = container_of(ctx, member)
    if service is not None and service.node:
        home = service.node if eligibility.tied(service) else ""
        member = replace(member, home=home) if home != member.home else member
    if service is None or not _is_ready(service):
        return replace(member, ready_us=0)
    return member if member.ready_us else replace(member, ready_us=ctx.now_us, note="")


def _is_ready(service: Service) -> bool:
    is_told = not has_check(service) or service.health != "none"
    is_up = service.state is S.RUNNING and not service.is_removing
    return is_up and is_told and service.health not in ("starting", *rollouts.UNWELL)


def has_check(service: Service) -> bool:
    """Whether its body has a health check; that of its image shows with the first listing."""
    test = (service.body.get("Healthcheck") or {}).get("Test")
    return bool(test) and test != ["NONE"]


# what is wanted


def _resized(ctx: Context, row: Deployment) -> Deployment:
    """Return it with a member for each number that is to be there, and without those that went."""
    most = rollouts.wanted(ctx, row)
    kept = [m for m in row.members if m.number <= most or not _may_drop(ctx, m)]
    there = {member.number for member in kept}
    missing = [n for n in range(1, most + 1) if n not in there]
    fresh = [Member(number, row.revision.number) for number in missing]
    return replace(row, members=tuple(sorted((*kept, *fresh), key=lambda m: m.number)))


def _may_drop(ctx: Context, member: Member) -> bool:
    """Whether nothing is left to do for a number: what is set aside is left alone."""
    return is_free(ctx, member) or ctx.is_set_aside(member.container)


def _let_go(ctx: Context, member: Member) -> None:
    """Have the container of a number removed that is not wanted any more."""
    service = container_of(ctx, member)
    if service is not None and not service.is_removing:
        requests.remove(ctx, service)


def _kept(ctx: Context, row: Deployment, member: Member, *, may_make: bool) -> Member:
    """Do what a member needs next, and return it as it is then."""
    service = container_of(ctx, member)
    if service is not None:
        return member if service.is_removing else _mended(ctx, row, member, service)
    if not is_free(ctx, member):
        return member
    if member.container:
        last = ctx.tables.services.get(member.container)
        member = replace(again(ctx, member, last), container="")
    if ctx.now_us < member.retry_us:
        ctx.arm(member.retry_us, MACHINE, row.name)
        return member
    return _made(ctx, row, member) if may_make else member


def again(ctx: Context, member: Member, last: Service | None) -> Member:
    """Return a member that begins anew: at once after a run that lasted, else ever later."""
    began_us = None if last is None else last.started_us
    ended_us = (last.finished_us if last is not None else None) or ctx.now_us
    if began_us is not None and ended_us - began_us >= STEADY_US:
        return replace(member, tries=0, retry_us=0)
    wait_us = RETRY_US << min(member.tries, MAX_DOUBLINGS)
    return replace(member, tries=member.tries + 1, retry_us=ctx.now_us + wait_us)


def _mended(ctx: Context, row: Deployment, member: Member, service: Service) -> Member:
    """Replace a container that failed, or one that ended and is to be kept up."""
    template = row.template_of(member.revision)
    if service.node and template is not None and service.constraints != template.constraints:
        service = requests.limit(ctx, service, template.constraints)  # it began at home, may move
    note = rollouts.trouble(service)
    if service.state is S.FAILED:
        requests.remove(ctx, service)
        return replace(member, note=note)
    if service.state is not S.EXITED or rollouts.is_resting(service):
        return member
    due_us = max(service.changed_us + JUDGE_US, member.retry_us)
    if ctx.now_us < due_us:
        ctx.arm(due_us, MACHINE, row.name)
    elif ctx.is_reachable(service.node) and not ctx.move_of(service.id) and not service.effect:
        if not eligibility.tied(service):
            requests.remove(ctx, service)
            return replace(member, note=note)
        SERVICES.start(ctx, SERVICES.to(ctx, service, S.STARTING, reason="", tries=0))
        return replace(again(ctx, member, service), note=note)
    return member


def _made(ctx: Context, row: Deployment, member: Member) -> Member:
    """Make a member's next container, of the revision that it is to have, or adopt one."""
    there = orphan_numbers.found(ctx, row.owner.namespace, row.container_name(member.number))
    if there is not None:
        return _adopted(ctx, row, member, *there)
    revision = rollouts.revision_for(row, member)
    command = create_command(ctx, row, revision.template, member.number)
    made = _at_home(ctx, member, command, requests.made_of(ctx, command))
    over = quotas.objection(ctx, row.owner, held_by_container(command.request_resources))
    made = over or made
    if isinstance(made, Service):
        requests.accept(ctx, made)
        return replace(member, container=made.id, revision=revision.number, is_barred=False)
    if made.code == "never_fits" and row.phase is Phase.UPDATING:
        member = replace(member, revision=revision.number, is_barred=True)
    return _later(ctx, row, member, made.detail)


def _adopted(ctx: Context, row: Deployment, member: Member, node: Node, copy: OrphanCopy) -> Member:
    """Adopt a container that no record knows; of a body that is not known it is outdated."""
    if not ctx.is_reachable(node.name):
        why = f"a container of it that the state does not know is on node {node.name}"
        return _later(ctx, row, member, f"{why}, which does not answer")
    same = (one for one in reversed(row.revisions) if digest_of(one.template.body) == copy.body)
    # a revision that forbids its node is not the one that it was made of
    known = next((one for one in same if satisfies_all(node.spec, one.template.constraints)), None)
    command = create_command(ctx, row, (known or row.revision).template, member.number)
    limits = command.constraints if known else ()
    made = requests.made_of(ctx, replace(command, container=copy.owner, constraints=limits))
    if isinstance(made, Problem):
        return _later(ctx, row, member, made.detail)
    orphan_numbers.adopt(ctx, made, node, copy, is_as_known=known is not None)
    number = known.number if known else 0
    return replace(member, container=made.id, revision=number, is_barred=False)


def _held(ctx: Context, row: Deployment) -> Deployment:
    """Return it paused where a container of another revision was adopted: people decide."""
    if row.phase is not Phase.STEADY or row.is_removing:
        return row
    other = [m for m in row.members[: row.replicas] if m.revision != row.revision.number]
    there = (container_of(ctx, member) for member in other)
    if all(service is None or service.is_removing for service in there):
        return row
    return replace(row, phase=Phase.ROLLING_BACK, is_paused=True, failure=FOUND)


def _later(ctx: Context, row: Deployment, member: Member, note: str) -> Member:
    """Return a member whose container could not be made, and have it tried again."""
    member = replace(again(ctx, member, None), note=note)
    ctx.arm(member.retry_us, MACHINE, row.name)
    return member


def _at_home(
    ctx: Context, member: Member, command: CreateService, made: Service | Problem
) -> Service | Problem:
    """Return it as one that begins where its number's files are, if it is to have such files."""
    node = ctx.tables.nodes.get(member.home)
    if isinstance(made, Problem) or node is None or node.is_removed or not eligibility.tied(made):
        return made
    there = Constraint("name", "==", (node.name,))
    limits = (*command.constraints, there)
    generation = node.spec.generation
    made = requests.made_of(ctx, replace(command, constraints=limits, generation=generation))
    if isinstance(made, Service):
        return made
    return replace(made, detail=f"its files are on node {node.name}, but {made.detail}")


def create_command(ctx: Context, row: Deployment, template: Template, number: int) -> CreateService:
    """Return what asks for a container of a number; its id is one that no other ever had."""
    name = row.container_name(number)
    words = f"{ctx.meta.fleet} {name} {ctx.effect_id()}"
    return CreateService(
        at_us=ctx.now_us,
        request="",
        owner=row.owner,
        container=hashlib.sha256(words.encode()).hexdigest(),
        name=name,
        deployment=row.name,
        **template.words(),
    )


# what people are told


def _told(ctx: Context, row: Deployment) -> Deployment:
    """Count what is ready, and tell people where the reason for less than is wanted changes.

    A reason stands until all are ready or there is another: one that is on its way may fail again.
    """
    first = row.members[: row.replicas]
    ready = sum(bool(member.ready_us) for member in first)
    whys = [_why(ctx, row, member) for member in row.members if not member.ready_us]
    found = next(filter(None, whys), "" if ready >= row.replicas else row.reason)
    told = {"ready": ready, "replicas": row.replicas}
    if found and found != row.reason and not row.is_removing:
        ctx.publish("service.short", row.name, reason=found, **told)
    elif row.reason and not found:
        ctx.publish("service.ready", row.name, **told)
    return replace(row, ready=ready, reason=found)


def _why(ctx: Context, row: Deployment, member: Member) -> str:
    service = container_of(ctx, member)
    why = "" if service is None else rollouts.trouble(service)
    if ctx.is_set_aside(member.container):
        why = "its record is set aside (tenured check)"
    left = (one for one in ctx.tombstones_of(member.container) if one.may_run)
    away = next((one.node for one in left if not ctx.is_reachable(one.node)), "")
    if away and (service is None or service.is_removing):
        why = f"the one before is on node {away}, which does not answer"
    why = why or member.note
    return f"{row.container_name(member.number)}: {why}" if why else ""
