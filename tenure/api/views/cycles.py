"""Cycles, their runs, and what a run proposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.render import Moment, Of, SecondsIfAny, UsdPerHour, render, seconds
from tenure.model.plan import NodeNote, Verdict, saving_of

#: "from" is a keyword, so this one needs the other way to write it.
MoveView = TypedDict(
    "MoveView",
    {
        "container": str,
        "incarnation": int,
        "from": Annotated[str, Of("source")],
        "to": Annotated[str, Of("target")],
        "reason": str,
    },
)


class KeptView(TypedDict):
    container: str
    code: str
    reason: str


class VerdictView(TypedDict):
    """The answer to one proposed move: ``code`` is accepted or why not."""

    container: str
    to: Annotated[str, Of("target")]
    code: str
    migration: str
    detail: str


class NodeNoteView(TypedDict):
    """What a plan means for a node: ``code`` freed, started, or why it was not emptied."""

    node: str
    code: str
    reason: str
    idle_w: float
    price_usd_per_h: UsdPerHour


class SavingView(TypedDict):
    """What a plan saves once enacted: nodes freed less nodes started; negative where it costs.

    ``idle_w`` is modelled from the idle draw that the configuration states.
    """

    nodes: int
    idle_w: float
    usd_per_h: UsdPerHour
    unknown_nodes: int


def _saving(notes: Sequence[NodeNote]) -> SavingView:
    return render(SavingView, saving_of(notes))


def _accepted(verdicts: Sequence[Verdict]) -> int:
    return sum(verdict.code == "accepted" for verdict in verdicts)


class RunView(TypedDict):
    """One run of a cycle: what it proposed, what was accepted, what stayed and why."""

    id: str
    cycle: str
    state: str
    is_dry: bool
    is_manual: bool
    reason: str
    due_at: Moment
    claimed_at: Moment
    finished_at: Moment
    expires_at: Moment
    moves: list[MoveView]
    kept: list[KeptView]
    nodes: list[NodeNoteView]
    saving: Annotated[SavingView, Of("nodes", _saving)]
    verdicts: list[VerdictView]


class RunSummary(TypedDict):
    id: str
    state: str
    due_at: Moment
    finished_at: Moment
    moves: Annotated[int, Of("moves", len)]
    accepted: Annotated[int, Of("verdicts", _accepted)]


class RunLine(RunSummary):
    cycle: str
    is_dry: bool
    reason: str


class CycleView(TypedDict):
    """A configured cycle (``kind`` generation or forecast), its next due time and its last run."""

    name: str
    kind: str
    source: str
    target: str
    cron: str
    interval_s: SecondsIfAny
    mode: str
    min_age_s: Annotated[float, Of("min_age_us", seconds)]
    max_moves: int
    description: str
    next_due_at: Moment
    last_run: RunSummary | None
