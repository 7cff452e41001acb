"""Drains: a node is emptied of what is ours, and then cordoned (docs/moving-containers.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tenure.model.container import Migration
from tenure.model.node import Scheduling

#: How the ids of drains, and so those of their migrations, begin; no cycle can be named so.
PREFIX = "drain:"


class DrainState(StrEnum):
    """A drain's life. Asked for again later, the node gets a new drain."""

    DRAINING = "draining"
    DRAINED = "drained"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


DRAIN_TRANSITIONS: dict[DrainState, tuple[DrainState, ...]] = {
    DrainState.DRAINING: (DrainState.DRAINED, DrainState.CANCELLED, DrainState.TIMED_OUT),
    DrainState.DRAINED: (),
    DrainState.CANCELLED: (),
    DrainState.TIMED_OUT: (),
}


@dataclass(frozen=True, slots=True)
class Blocker:
    """Something of ours that keeps a node from being empty, and is not being moved now.

    ``kind`` is container, executor or copy (one that is being cleared away); ``id`` and ``name``
    its own; ``code`` is stable, ``reason`` a sentence, ``remedy`` what to do about it.
    ``is_passing``: it ends without anybody doing anything, ``until_us`` says when at the latest
    or as estimated (None: nobody knows).
    """

    kind: str
    id: str
    name: str
    code: str
    reason: str
    remedy: str
    is_passing: bool = False
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A move that a drain begins now.

    ``method`` is live, snapshot, stop-first, start-first or at-rest, ``why`` says why it is none
    better.
    """

    container: str
    name: str
    incarnation: int
    target: str
    generation: str
    method: str
    reason: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """What a drain of ``node`` does at this moment: its dry run, and what is enacted.

    ``switch_on`` are nodes that are off and wanted by ``moves``; ``under_way`` the moves off the
    node that are open already; ``strangers`` names of running containers that are not ours (as
    many as are kept), which are left alone and do not count.
    """

    node: str
    moves: tuple[PlannedMove, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    switch_on: tuple[str, ...] = ()
    under_way: tuple[Migration, ...] = ()
    strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Setback:
    """Failed moves of one container: how many, where to, why, and no other before ``retry_us``."""

    count: int
    retry_us: int
    avoid: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Drain:
    """The latest drain of a node; there is one record for each node that ever had one.

    ``before`` and ``before_reason`` are what cancelling goes back to. ``is_ordered``: a person
    asked for it; ``is_removal``: the configuration no longer names the node. After
    ``deadline_us`` (None: never) it gives up. ``moved`` counts containers that left by its moves,
    ``next_move`` numbers them; ``setbacks`` is by container; ``blockers`` as told last.
    """

    node: str
    began_us: int
    before: Scheduling = Scheduling.YES
    before_reason: str = ""
    reason: str = ""
    state: DrainState = DrainState.DRAINING
    is_ordered: bool = True
    is_removal: bool = False
    deadline_us: int | None = None
    finished_us: int | None = None
    moved: int = 0
    next_move: int = 0
    setbacks: dict[str, Setback] = field(default_factory=dict)
    blockers: tuple[Blocker, ...] = ()

    @property
    def id(self) -> str:
        return f"{PREFIX}{self.node}@{self.began_us}"

    @property
    def is_over(self) -> bool:
        return self.state is not DrainState.DRAINING


@dataclass(frozen=True, slots=True)
class DrainReport:
    """A drain as it stands: its record (None: a dry run) and what it does now.

    ``left`` counts containers and executors that are still on the node.
    """

    plan: DrainPlan
    drain: Drain | None = None
    left: int = 0
