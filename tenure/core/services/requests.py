"""What people ask for containers: create, start, stop, remove.

Owns nothing: ``services`` has the records.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.capacity import candidates, room
from tenure.core.nodes import power
from tenure.core.services.services import SERVICES
from tenure.core.state.context import Context
from tenure.core.state.set_aside import is_near
from tenure.model.container import ContainerState, Service
from tenure.model.errors import FieldError, Problem
from tenure.model.events import ChangeService, CreateService
from tenure.model.job import Constraint

S = ContainerState


def create(ctx: Context, command: CreateService) -> None:
    """Accept a container into its generation and place it, or keep it waiting for room."""
    if command.container in ctx.tables.services:
        ctx.refuse(command, "duplicate_id", f"container {command.container} exists", status=409)
        return
    made = made_of(ctx, command)
    if isinstance(made, Service):
        accept(ctx, made)
    ctx.reply(command, made)


def accept(ctx: Context, service: Service) -> None:
    """Take a new container on; its review places it."""
    ctx.put_service(service)
    ctx.notices.services.add(service.id)
    ctx.publish("container.accepted", service.id, name=service.name, generation=service.generation)


def made_of(ctx: Context, command: CreateService) -> Service | Problem:
    """Return the container that is asked for, or why there can be none; nothing is kept."""
    aside = ctx.names_aside
    # a number's container that is set aside is known by its id
    is_aside = (
        command.name.encode() in aside if command.deployment else is_near(command.name, aside)
    )
    if command.name in ctx.index.names or is_aside:
        detail = f"the name {command.name!r} is taken; remove that container or choose another"
        return _fault("name_taken", detail, "name", status=409)
    generation = command.generation or ctx.params.nursery
    if generation not in ctx.params.generations:
        known = ", ".join(ctx.params.generations)
        detail = f"unknown generation {generation!r}; known are {known}"
        return _fault("unknown_generation", detail, "tenure.generation")
    service = Service(
        id=command.container,
        name=command.name,
        app=command.app,
        body=command.body,
        generation=room.home(ctx, generation),
        request=command.request_resources,
        created_us=ctx.now_us,
        migrate=command.migrate,
        overlap=command.overlap,
        min_age_us=command.min_age_us,
        is_pullable=command.is_pullable,
        is_at_home=bool(command.generation),
        changed_us=ctx.now_us,
        owner=command.owner,
        known=command.known,
        constraints=command.constraints,
        spread=command.spread,
        deployment=command.deployment,
    )
    if command.known is not None:
        service = candidates.as_known(ctx, service)
    if service.known is not None and not command.generation:
        service = candidates.skip(ctx, service)
    if not candidates.is_allowed(ctx, service):
        among = " or ".join(candidates.homes(ctx, service))
        detail = f"no node of generation {among} satisfies its constraints"
        return _fault("never_fits", detail, "tenure.constraints")
    if not candidates.could_fit(ctx, service):
        detail = f"no node of generation {service.generation} is large enough for it"
        return _fault("never_fits", detail, "HostConfig")
    return service


def _fault(code: str, detail: str, field: str, *, status: int = 422) -> Problem:
    return Problem(code, detail, status, (FieldError(field, detail),))


def limit(ctx: Context, service: Service, constraints: tuple[Constraint, ...]) -> Service:
    """Have a container bound by these constraints from now on; those that it meets where it is."""
    return ctx.put_service(replace(service, constraints=constraints))


def remove(ctx: Context, service: Service) -> Service:
    """Have a container removed for good; its review goes on with that."""
    ctx.notices.services.add(service.id)
    return ctx.put_service(replace(service, is_removing=True))


def change(ctx: Context, command: ChangeService) -> None:
    """Start, stop or remove a service."""
    service = ctx.tables.services.get(command.container)
    if service is None or service.state is S.REMOVED:
        ctx.refuse(command, "not_found", f"no container {command.container}", status=404)
        return
    if command.verb == "remove":
        service = remove(ctx, service.asked(command.grace_s))
    elif service.is_removing:
        detail = f"container {service.name} is being removed; create it anew once it is gone"
        ctx.refuse(command, "removing", detail, status=409)
        return
    elif service.state is S.MOVING:
        detail = f"container {service.name} is being moved; try again when it has arrived"
        ctx.refuse(command, "moving", detail, status=409)
        return
    elif command.verb == "stop" and service.state is S.RUNNING and not service.effect:
        grace_s = service.asked(command.grace_s).grace(ctx.params.grace_stop_s)
        SERVICES.stop(ctx, service, grace_s)
    elif command.verb == "start" and service.state in (S.STOPPED, S.EXITED):
        if power.is_in_hands(ctx, service.node):
            detail = f"node {service.node} of container {service.name} is off, in maintenance; "
            detail += f"end that first: tenure node maintenance {service.node} off"
            ctx.refuse(command, "maintenance", detail, status=409)
            return
        # nobody else would switch its node on for it
        power.want_on(ctx, service.node, f"container {service.name}")
        SERVICES.start(ctx, SERVICES.to(ctx, service, S.STARTING, reason="", tries=0))
    elif not _is_there(service, command.verb):
        detail = f"container {service.name} is {service.state.value}; cannot {command.verb} it"
        ctx.refuse(command, "wrong_state", detail, status=409)
        return
    ctx.reply(command, ctx.tables.services[service.id])


def _is_there(service: Service, verb: str) -> bool:
    done = {"stop": (S.STOPPED, S.STOPPING, S.EXITED), "start": (S.RUNNING, S.STARTING)}
    return service.state in done[verb]
