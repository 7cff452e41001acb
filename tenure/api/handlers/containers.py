"""Containers: create, list, inspect, start, stop, remove, logs."""

from __future__ import annotations

import secrets
from typing import Any

from aiohttp import web

from tenure.api.access.permits import require_container
from tenure.api.access.secrets import container_for
from tenure.api.handlers.jobs import check_image, chosen_states
from tenure.api.handlers.logs import log_response
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.schemas.containers import (
    ContainerRequest,
    MoveRequest,
    StopRequest,
    TenureOptions,
    container_options,
    docker_body,
    reservation,
)
from tenure.api.schemas.fields import constraints_of, raise_faults
from tenure.api.schemas.queries import ContainersQuery, LogsQuery, RemoveQuery
from tenure.api.views.containers import ContainerView, container_detail
from tenure.api.views.cycles import VerdictView
from tenure.api.views.render import render
from tenure.model.container import ContainerState, Service
from tenure.model.deployment import Template
from tenure.model.errors import FieldError
from tenure.model.events import ChangeService, CreateService, MoveService
from tenure.model.jsons import Json
from tenure.model.units import seconds_to_us


def _shown(call: Call, service: Service, *, status: int = 200) -> web.Response:
    backend = call.backend
    # a reply shows the moment of the answer; its ETag must be good for the next change
    service = backend.tables.services.get(service.id) or service
    moves = (m for m in backend.tables.migrations.values() if m.container == service.id)
    detail = container_detail(service, backend.usage().get(service.id), moves)
    location = f"/v1/containers/{service.id}" if status == 201 else ""
    return call.record(container_for(call, detail), status=status, location=location)


async def template_of(call: Call, body: Json, options: TenureOptions | None, at: str) -> Template:
    """Return what containers of a create body are made of; ``at`` is where the body stands.

    Raises InvalidInput with what the model alone cannot see, Forbidden for what policy forbids.
    """
    given = container_options(body, options)
    faults: list[FieldError] = []
    parse, path = call.options.parse_constraint, f"{at}tenure.constraints"
    constraints = constraints_of(given.constraints, parse, faults, path)
    raise_faults(faults)
    require_container(call, body, given.generation)
    return Template(
        app=given.app or "",
        body=body,
        request_resources=reservation(body),
        generation=given.generation or "",
        migrate=given.migrate or "",
        overlap=bool(given.overlap),
        min_age_us=None if given.min_age_s is None else seconds_to_us(given.min_age_s),
        constraints=constraints,
        spread=given.spread or "",
        is_pullable=not call.is_replay and await check_image(call, body["Image"], f"{at}Image"),
    )


async def create(call: Call) -> web.Response:
    """Submit a container; it is placed in the nursery unless it says otherwise."""
    request: Any = call.body_as(ContainerRequest)
    template = await template_of(call, docker_body(call.sent), request.tenure, "")
    command = CreateService(
        container=secrets.token_hex(32),
        name=request.name,
        **template.words(),
        **call.command(),
    )
    return _shown(call, await call.ask(command), status=201)


async def listing(call: Call) -> web.StreamResponse:
    """List the containers, oldest first; removed ones only where asked for by state."""
    query = call.query_as(ContainersQuery)
    known = [state.value for state in ContainerState]
    states = chosen_states(query.state, known) or set(known) - {ContainerState.REMOVED.value}

    def where(service: Service) -> bool:
        return (
            service.state.value in states
            and query.app in (None, service.app)
            and query.generation in (None, service.generation)
            and query.node in (None, service.node)
            and query.namespace in (None, service.owner.namespace)
        )

    def shown(service: Service) -> ContainerView:
        return render(ContainerView, service)

    found = Listing(lambda row: (row.created_us, row.id), shown, where)
    return await page(call, call.backend.tables.services.values(), found)


async def inspect(call: Call) -> web.Response:
    """Return one container with its body, profile and moves."""
    return _shown(call, lookup.container(call.backend.tables, call.part("id")))


async def _change(call: Call, verb: str, grace_s: int | None = None) -> web.Response:
    service = lookup.container(call.backend.tables, call.part("id"))
    common = call.command(changes=service)
    command = ChangeService(container=service.id, verb=verb, grace_s=grace_s, **common)
    return _shown(call, await call.ask(command))


async def start(call: Call) -> web.Response:
    """Start a stopped or exited container."""
    return await _change(call, "start")


async def stop(call: Call) -> web.Response:
    """Stop a running container."""
    return await _change(call, "stop", call.body_as(StopRequest).grace_s)


async def move(call: Call) -> web.Response:
    """Move a container to a node, as a cycle would, or say how."""
    body: MoveRequest = call.body_as(MoveRequest)
    service = lookup.container(call.backend.tables, call.part("id"))
    node = lookup.node(call.backend.tables, body.node)
    common = call.command(changes=service)
    command = MoveService(container=service.id, node=node.name, is_dry=body.dry_run, **common)
    return call.json(render(VerdictView, await call.ask(command)))


async def remove(call: Call) -> web.Response:
    """Stop and remove a container for good."""
    return await _change(call, "remove", call.query_as(RemoveQuery).grace_s)


async def logs(call: Call) -> web.StreamResponse:
    """Return a container's log."""
    service = lookup.container(call.backend.tables, call.part("id"))
    return await log_response(call, service.id, call.query_as(LogsQuery))
