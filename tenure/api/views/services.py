"""Services: how many containers of a template are wanted, and what there is of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.containers import image_of
from tenure.api.views.render import Moment, Of, Seconds, render
from tenure.core.state.tables import Tables
from tenure.model.deployment import Deployment, DeploymentPlan
from tenure.model.jsons import Json


class UpdateView(TypedDict):
    """How an update goes."""

    max_unavailable: int
    max_surge: int
    min_healthy_s: Seconds


class ServiceView(TypedDict):
    """A service; ``state`` is steady, short, updating, paused, rolling_back or removing.

    ``reason`` says why fewer are ready than wanted, ``failure`` why the last update was undone.
    """

    name: str
    namespace: Annotated[str, Of("owner.namespace")]
    submitter: Annotated[str, Of("owner.submitter")]
    image: Annotated[str, Of("revision.template.body", image_of)]
    replicas: int
    ready: int
    state: str
    reason: str
    failure: str
    revision: Annotated[int, Of("revision.number")]
    is_paused: bool
    update: Annotated[UpdateView, Of("rollout")]
    created_at: Moment
    version: int


class MemberView(TypedDict):
    """One of its numbers and the container that has it, if there is one."""

    number: int
    revision: int
    id: str
    name: str
    state: str
    health: str
    node: str
    reason: str


class RevisionView(TypedDict):
    """A revision that is kept; the last of a service's is in force."""

    number: int
    image: Annotated[str, Of("template.body", image_of)]


class ServiceDetail(ServiceView):
    """A service with the create body of its containers, and these."""

    body: Annotated[Json, Of("revision.template.body")]
    revisions: list[RevisionView]
    containers: list[MemberView]


class StepView(TypedDict):
    """What becomes of one container: create, replace or remove, and why."""

    act: str
    container: str
    why: str


class ServicePlanView(TypedDict):
    """What an apply would do now."""

    name: str
    replicas: int
    steps: list[StepView]


def service_detail(tables: Tables, row: Deployment) -> ServiceDetail:
    """Return a service with its containers."""
    return render(ServiceDetail, row, containers=list(_members(tables, row)))


def _members(tables: Tables, row: Deployment) -> Iterator[MemberView]:
    for member in row.members:
        service = tables.services.get(member.container)
        yield {
            "number": member.number,
            "revision": member.revision,
            "id": member.container,
            "name": row.container_name(member.number),
            "state": "none" if service is None else service.state.value,
            "health": "none" if service is None else service.health,
            "node": "" if service is None else service.node,
            "reason": member.note or ("" if service is None else service.reason),
        }


def plan_view(plan: DeploymentPlan) -> ServicePlanView:
    """Return a plan as JSON."""
    steps: list[StepView] = [
        {"act": act, "container": name, "why": why} for act, name, why in plan.steps
    ]
    row = plan.deployment
    return {"name": row.name, "replicas": row.replicas, "steps": steps}
