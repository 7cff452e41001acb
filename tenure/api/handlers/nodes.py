"""Nodes: list, inspect, cordon, drain, maintain, power, fence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tenure.api import lookup
from tenure.api.call import Call
from tenure.api.pages import page
from tenure.api.problems import refused
from tenure.api.schemas.fleet import DrainRequest, FenceRequest, NodeChange, PowerRequest
from tenure.api.schemas.queries import PageQuery
from tenure.api.shapes import DrainView, NodeDetail, NodeView
from tenure.api.views import drain_view, node_view
from tenure.core.tables import Tables
from tenure.model.container import ContainerState
from tenure.model.drain import Drain, DrainPlan, DrainReport
from tenure.model.events import (
    CancelDrain,
    Command,
    DrainNode,
    FenceNode,
    PowerNode,
    ScheduleNode,
)
from tenure.model.node import Node
from tenure.model.resources import Resources
from tenure.model.units import seconds_to_us

#: A container that is stopped keeps its node but asks nothing of it.
_AT_REST = frozenset(
    (
        ContainerState.REMOVED,
        ContainerState.FAILED,
        ContainerState.EXITED,
        ContainerState.STOPPED,
    )
)


@dataclass(slots=True)
class _Use:
    requested: dict[str, Resources] = field(default_factory=dict)
    executors: dict[str, int] = field(default_factory=dict)
    containers: dict[str, int] = field(default_factory=dict)


def _count(counts: dict[str, int], node: str) -> None:
    counts[node] = counts.get(node, 0) + 1


def _use(tables: Tables) -> _Use:
    """Return what is on each node, in one walk over all executors and containers."""
    use = _Use()
    for executor in tables.executors.values():
        job = tables.jobs.get(executor.job)
        if executor.node and not executor.is_over and job is not None and not job.is_over:
            _count(use.executors, executor.node)
            _add(use, executor.node, job.spec.request)
    for service in tables.services.values():
        if service.node and service.state is not ContainerState.REMOVED:
            _count(use.containers, service.node)
            if service.state not in _AT_REST:
                _add(use, service.node, service.request)
    return use


def _add(use: _Use, node: str, amount: Resources) -> None:
    use.requested[node] = use.requested.get(node, Resources()) + amount


def _views(call: Call, nodes: Iterable[Node]) -> list[NodeView]:
    use = _use(call.backend.tables)
    return [
        node_view(
            node,
            use.requested.get(node.name, Resources()),
            use.executors.get(node.name, 0),
            use.containers.get(node.name, 0),
        )
        for node in nodes
    ]


def _shown(call: Call, node: Node) -> web.Response:
    # a reply shows the moment of the answer; its ETag must be good for the next change
    node = call.backend.tables.nodes.get(node.name) or node
    return call.record(_views(call, [node])[0])


async def listing(call: Call) -> web.Response:
    """List the nodes by name."""
    rows = list(call.backend.tables.nodes.values())
    found = page(rows, call.query_as(PageQuery), lambda node: (node.name,), lambda node: node)
    found["items"] = _views(call, found["items"])
    return call.json(found)


async def inspect(call: Call) -> web.Response:
    """Return one node, with the progress of its drain and what blocks it."""
    node = lookup.node(call.backend.tables, call.part("name"))
    report = call.backend.drain(node.name)
    detail = NodeDetail(**_views(call, [node])[0], drain=_drain_view(call, report))
    return call.record(detail)


def _drain_view(call: Call, report: DrainReport | None) -> DrainView | None:
    if report is None:
        return None
    services = call.backend.tables.services
    moving = (services.get(move.container) for move in report.plan.under_way)
    return drain_view(report, {s.id: s.name for s in moving if s is not None})


async def _ask(call: Call, command: Command) -> web.Response:
    node: Any = await call.ask(command)
    return _shown(call, node)


async def change(call: Call) -> web.Response:
    """Cordon or uncordon a node, begin or end its maintenance."""
    node = lookup.node(call.backend.tables, call.part("name"))
    call.check_version(node.version)
    body = call.body_as(NodeChange)
    command = ScheduleNode(
        node=node.name,
        to=body.scheduling or "",
        is_in_maintenance=body.maintenance,
        reason=body.reason,
        **call.command(),
    )
    return await _ask(call, command)


async def drain(call: Call) -> web.Response:
    """Empty a node by moving its containers away, or show what that would do."""
    name = lookup.node(call.backend.tables, call.part("name")).name
    body = call.body_as(DrainRequest)
    timeout_us = None if body.timeout_s is None else seconds_to_us(body.timeout_s)
    command = DrainNode(
        node=name,
        is_dry=body.dry_run,
        reason=body.reason,
        timeout_us=timeout_us,
        **call.command(),
    )
    answer: Any = await call.ask(command)
    if isinstance(answer, DrainPlan):
        report: DrainReport | None = call.backend.drain(name, is_dry=True)
        report = DrainReport(answer, left=report.left if report is not None else 0)
    else:
        report = _current(call, answer)
    return call.json(_drain_view(call, report))


async def cancel_drain(call: Call) -> web.Response:
    """End the drain of a node: it is what it was before, moves that have begun end."""
    name = lookup.node(call.backend.tables, call.part("name")).name
    answer: Any = await call.ask(CancelDrain(node=name, **call.command()))
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
    return await _ask(call, PowerNode(node=node.name, to=to, **call.command()))


async def fence(call: Call) -> web.Response:
    """Take an operator's word that nothing runs on a node any more."""
    node = lookup.node(call.backend.tables, call.part("name"))
    if call.body_as(FenceRequest).confirm != node.name:
        raise refused(422, "invalid_input", "must repeat the node's name", field="confirm")
    return await _ask(call, FenceNode(node=node.name, **call.command()))
