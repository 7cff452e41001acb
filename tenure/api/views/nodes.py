"""Nodes: their drains, tiers and agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.render import Moment, Of, UsdPerHour, moment, render, thousandths
from tenure.model.drain import DrainReport
from tenure.model.jsons import Json


class ResourcesView(TypedDict):
    """Cores, bytes and bytes per second; 0 for disk or net of a node means "not stated"."""

    cpus: Annotated[float, Of("cpu_m", thousandths)]
    memory_bytes: int
    disk_bytes_per_s: int
    net_bytes_per_s: int


class NodeView(TypedDict):
    """``state`` is one word made of the three axes power, reach and scheduling."""

    name: str
    url: str
    generation: str
    site: str
    state: Annotated[str, Of("word")]
    power: str
    reach: str
    scheduling: str
    price_usd_per_h: UsdPerHour
    price_nano_usd_per_h: Annotated[int, Of("price_nano_per_h")]
    capacity: ResourcesView
    requested: ResourcesView
    executors: int
    containers: int
    foreign_containers: Annotated[int, Of("foreign_running")]
    rack: str
    labels: dict[str, str]
    speed: float
    power_driver: Annotated[str, Of("spec.power.driver")]
    images: Annotated[list[str], Of("images", sorted)]
    unreachable_since: Annotated[str | None, Of("unreachable_us", moment)]
    idle_since: Annotated[str | None, Of("idle_us", moment)]
    is_removed: bool
    is_in_maintenance: bool
    reason: str
    note: str
    version: int


class BlockerView(TypedDict):
    """What keeps a node from being empty; ``is_passing``: it ends by itself, until then."""

    kind: str
    id: str
    name: str
    code: str
    reason: str
    remedy: str
    is_passing: bool
    until: Moment


class DrainMoveView(TypedDict):
    """A move that a drain begins now.

    ``method`` is live, snapshot, stop-first, start-first or at-rest; ``why`` says why it is none
    better, "" where it is the best.
    """

    container: str
    name: str
    to: Annotated[str, Of("target")]
    generation: str
    method: str
    why: str
    reason: str


class UnderWayView(TypedDict):
    """A move off the node that is open; ``step`` queued: it waits for its turn."""

    migration: Annotated[str, Of("id")]
    container: str
    name: str
    to: Annotated[str, Of("target")]
    method: str
    step: str


class DrainView(TypedDict):
    """A drain as it stands; ``state`` planned is a dry run.

    ``left`` counts containers and executors that are still there; ``moved`` those that it moved
    away. ``foreign`` names containers that are not tenure's: they stay, and do not count.
    """

    node: str
    state: str
    reason: str
    is_removal: bool
    began_at: Moment
    deadline_at: Moment
    finished_at: Moment
    moved: int
    left: int
    moves: list[DrainMoveView]
    under_way: list[UnderWayView]
    blockers: list[BlockerView]
    switch_on: list[str]
    foreign: list[str]


class AgentView(TypedDict):
    """A node's agent: ``state`` is up, away or unheard yet; ``read_at`` of its newest reading."""

    url: str
    state: Annotated[str, Of("word")]
    detail: Annotated[str, Of("away")]
    read_at: Moment


class TierView(TypedDict):
    """A tier of a node. ``used_bytes`` includes what is on its way and what is to be removed.

    ``bytes_per_s`` is how fast it is read, as stated or measured (None: not yet); ``fault`` is why
    nothing in it can be read or kept now.
    """

    name: str
    kind: str
    path: str
    capacity_bytes: int
    used_bytes: int
    blocks: int
    bytes_per_s: int | None
    is_measured: bool
    surveyed_at: str | None
    verified_at: str | None
    fault: str


class NodeDetail(NodeView):
    """A node with its latest drain (null: it never had one).

    ``harvest`` is how its controller is, as its agent told last (null: nothing is lent); ``tasks``
    counts tasks of batches by state, ``objection`` is why no more may begin there ("": they may).
    ``tiers`` keep blocks of datasets.
    """

    drain: DrainView | None
    harvest: Json | None
    tasks: dict[str, int]
    objection: str
    agent: AgentView | None
    tiers: list[TierView]


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
        moves=[render(DrainMoveView, move) for move in plan.moves],
        under_way=[
            render(UnderWayView, move, name=names.get(move.container, ""))
            for move in plan.under_way
        ],
        blockers=[render(BlockerView, blocker) for blocker in plan.blockers],
        switch_on=list(plan.switch_on),
        foreign=list(plan.strangers),
    )
