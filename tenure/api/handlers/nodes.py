"""Nodes: list, inspect, cordon, drain, maintain, power, fence."""

from __future__ import annotations

from aiohttp import web

from tenure.api.handlers.occupancy import occupancy
from tenure.api.requests import lookup
from tenure.api.requests.call import Call
from tenure.api.requests.pages import Listing, page
from tenure.api.schemas.fleet import (
    AcceptTierRequest,
    DrainRequest,
    FenceRequest,
    NodeChange,
    PowerRequest,
)
from tenure.api.server.problems import refused
from tenure.api.views.nodes import (
    AgentView,
    DrainView,
    NodeDetail,
    NodeView,
    ResourcesView,
    drain_view,
)
from tenure.api.views.render import render
from tenure.model.drain import Drain, DrainPlan, DrainReport
from tenure.model.events import (
    AcceptTier,
    CancelDrain,
    Command,
    DrainNode,
    FenceNode,
    PowerNode,
    ScheduleNode,
)
from tenure.model.node import Node
from tenure.model.units import seconds_to_us


def _view(call: Call, node: Node) -> NodeView:
    """Return a node with what is on it now."""
    here = occupancy(call.backend, node.name)
    requested = render(ResourcesView, here.requested)
    return render(
        NodeView,
        node,
        requested=requested,
        executors=here.executors,
        containers=here.containers,
    )


def _shown(call: Call, node: Node) -> web.Response:
    # a reply shows the moment of the answer; its ETag must be good for the next change
    node = call.backend.tables.nodes.get(node.name) or node
    return call.record(_view(call, node))


async def listing(call: Call) -> web.StreamResponse:
    """List the nodes by name."""
    found: Listing[Node] = Listing(lambda node: (node.name,), lambda node: _view(call, node))
    return await page(call, call.backend.tables.nodes.values(), found)


async def inspect(call: Call) -> web.Response:
    """Return one node, with the progress of its drain and what blocks it."""
    node = lookup.node(call.backend.tables, call.part("name"))
    report = call.backend.drain(node.name)
    harvest, agent = call.backend.harvest(node.name), call.backend.agent(node.name)
    tasks, objection = call.backend.lending(node.name)
    detail = NodeDetail(
        **_view(call, node),
        drain=_drain_view(call, report),
        harvest=None if harvest is None else dict(harvest),
        tasks=dict(tasks),
        objection=objection,
        agent=None if agent is None else render(AgentView, agent),
        tiers=call.backend.tiers(node.name),
    )
    return call.record(detail)


def _drain_view(call: Call, report: DrainReport | None) -> DrainView | None:
    if report is None:
        return None
    services = call.backend.tables.services
    moving = (services.get(move.container) for move in report.plan.under_way)
    return drain_view(report, {s.id: s.name for s in moving if s is not None})


async def _ask(call: Call, command: Command) -> web.Response:
    node: Node = await call.ask(command)
    return _shown(call, node)


async def change(call: Call) -> web.Response:
    """Cordon or uncordon a node, begin or end its maintenance."""
    node = lookup.node(call.backend.tables, call.part("name"))
    body = call.body_as(NodeChange)
    command = ScheduleNode(
        node=node.name,
        to=body.scheduling or "",
        is_in_maintenance=body.maintenance,
        reason=body.reason,
        **call.command(changes=node),
    )
    return await _ask(call, command)


async def drain(call: Call) -> web.Response:
    """Empty a node by moving its containers away, or show what that would do."""
    node = lookup.node(call.backend.tables, call.part("name"))
    body = call.body_as(DrainRequest)
    timeout_us = None if body.timeout_s is None else seconds_to_us(body.timeout_s)
    command = DrainNode(
        node=node.name,
        is_dry=body.dry_run,
        reason=body.reason,
        timeout_us=timeout_us,
        **call.command(changes=node),
    )
    answer: DrainPlan | Drain = await call.ask(command)
    if isinstance(answer, DrainPlan):
        report: DrainReport | None = call.backend.drain(node.name, is_dry=True)
        report = DrainReport(answer, left=report.left if report is not None else 0)
    else:
        report = _current(call, answer)
    return call.json(_drain_view(call, report))


async def cancel_drain(call: Call) -> web.Response:
    """End the drain of a node: it is what it was before, moves that have begun end."""
    node = lookup.node(call.backend.tables, call.part("name"))
    common = call.command(changes=node)
    answer: Drain = await call.ask(CancelDrain(node=node.name, **common))
    return call.json(_drain_view(call, _current(call, answer)))


def _current(call: Call, said: Drain) -> DrainReport:
    """Return the drain of an answer as it stands now, if its node is still known."""
    is_known = said.node in call.backend.tables.nodes
    report = call.backend.drain(said.node) if is_known else None
    return report or DrainReport(DrainPlan(said.node), said)


async def power(call: Call) -> web.Response:
    """Switch a node on or off."""
    node = lookup.node(call.backend.tables, call.part("name"))
    to = call.body_as(PowerRequest).to
    common = call.command(changes=node)
    return await _ask(call, PowerNode(node=node.name, to=to, **common))


async def accept_tier(call: Call) -> web.Response:
    """Take an operator's word that the disk of a tier was replaced; what it lacks is lost."""
    node, tier = lookup.node(call.backend.tables, call.part("name")), call.part("tier")
    gives_up = call.body_as(AcceptTierRequest).gives_up
    await call.ask(AcceptTier(node=node.name, tier=tier, gives_up=gives_up, **call.command()))
    rows = call.backend.tiers(node.name)
    return call.json(next(row for row in rows if row["name"] == tier))


async def fence(call: Call) -> web.Response:
    """Take an operator's word that nothing runs on a node any more."""
    node = lookup.node(call.backend.tables, call.part("name"))
    if call.body_as(FenceRequest).confirm != node.name:
        raise refused(422, "invalid_input", "must repeat the node's name", field="confirm")
    return await _ask(call, FenceNode(node=node.name, **call.command(changes=node)))
