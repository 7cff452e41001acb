"""Services: apply, plan, list, inspect, scale, pause, resume, roll back, remove."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiohttp import web

from tenure.api.access.permits import require_container
from tenure.api.access.secrets import container_for
from tenure.api.handlers.containers import template_of
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.schemas.containers import docker_body
from tenure.api.schemas.queries import OwnedQuery
from tenure.api.schemas.services import ScaleRequest, ServiceRequest, kept_up, require_progress
from tenure.api.views.render import render
from tenure.api.views.services import ServiceView, plan_view, service_detail
from tenure.model.deployment import Deployment, Rollout
from tenure.model.events import ApplyDeployment, ChangeDeployment
from tenure.model.units import seconds_to_us


def _shown(call: Call, row: Deployment, *, location: str = "") -> web.Response:
    tables = call.backend.tables
    row = tables.deployments.get(row.name) or row  # its ETag must be good for the next change
    return call.record(container_for(call, service_detail(tables, row)), location=location)


async def _wish(call: Call, *, is_dry: bool) -> ApplyDeployment:
    request = call.body_as(ServiceRequest)
    asked: Any = request.container
    body = kept_up(docker_body(call.sent["container"]))
    require_progress(request.update)
    template = await template_of(call, body, asked.tenure, "container.")
    update = request.update
    return ApplyDeployment(
        name=request.name,
        replicas=request.replicas,
        template=replace(template, app=template.app or request.name),
        rollout=Rollout(
            update.max_unavailable, update.max_surge, seconds_to_us(update.min_healthy_s)
        ),
        is_dry=is_dry,
        **call.command(changes=call.backend.tables.deployments.get(request.name)),
    )


async def apply(call: Call) -> web.Response:
    """Have a service as it is sent: made, scaled or updated."""
    row = await call.ask(await _wish(call, is_dry=False))
    return _shown(call, row, location=f"/v1/services/{row.name}")


async def plan(call: Call) -> web.Response:
    """Return what an apply would do now."""
    return call.json(plan_view(await call.ask(await _wish(call, is_dry=True))))


async def listing(call: Call) -> web.StreamResponse:
    """List the services by name."""
    namespace = call.query_as(OwnedQuery).namespace

    def shown(row: Deployment) -> ServiceView:
        return render(ServiceView, row)

    def where(row: Deployment) -> bool:
        return namespace in (None, row.owner.namespace)

    found = Listing(lambda row: (row.name,), shown, where)
    return await page(call, call.backend.tables.deployments.values(), found)


async def inspect(call: Call) -> web.Response:
    """Return one service with its containers and revisions."""
    return _shown(call, lookup.service(call.backend.tables, call.part("name")))


async def _change(call: Call, verb: str, replicas: int = 0) -> web.Response:
    row = lookup.service(call.backend.tables, call.part("name"))
    if verb in ("scale", "resume", "rollback"):
        # what began under another's policy is not made more of, or again
        is_back = verb == "rollback" and len(row.revisions) > 1
        template = row.revisions[-2].template if is_back else row.revision.template
        require_container(call, template.body, template.generation or None)
    common = call.command(changes=row)
    command = ChangeDeployment(name=row.name, verb=verb, replicas=replicas, **common)
    return _shown(call, await call.ask(command))


async def scale(call: Call) -> web.Response:
    """Have another number of containers."""
    return await _change(call, "scale", call.body_as(ScaleRequest).replicas)


async def pause(call: Call) -> web.Response:
    """Hold an update where it is, and those to come before they begin."""
    return await _change(call, "pause")


async def resume(call: Call) -> web.Response:
    """Let updates go on."""
    return await _change(call, "resume")


async def rollback(call: Call) -> web.Response:
    """Go back to the revision that was in force before."""
    return await _change(call, "rollback")


async def remove(call: Call) -> web.Response:
    """Remove a service with its containers."""
    return await _change(call, "remove")
