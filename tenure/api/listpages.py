"""Pages of the lists that REST v1 answers, as models for its documents."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from tenure.api import shapes
from tenure.api.batchviews import BatchView, TaskView
from tenure.api.forecastviews import ForecastView


class NodePage(TypedDict):
    items: list[shapes.NodeView]
    next_cursor: str | None


class JobPage(TypedDict):
    items: list[shapes.JobView]
    next_cursor: str | None


class BatchPage(TypedDict):
    items: list[BatchView]
    next_cursor: str | None


class TaskPage(TypedDict):
    items: list[TaskView]
    next_cursor: str | None


class ContainerPage(TypedDict):
    items: list[shapes.ContainerView]
    next_cursor: str | None


class CyclePage(TypedDict):
    items: list[shapes.CycleView]
    next_cursor: str | None


class RunLine(shapes.RunSummary):
    cycle: str
    is_dry: bool
    reason: str


class RunPage(TypedDict):
    items: list[RunLine]
    next_cursor: str | None


class ProfilePage(TypedDict):
    items: list[shapes.ProfileView]
    next_cursor: str | None


class ForecastPage(TypedDict):
    items: list[ForecastView]
    next_cursor: str | None


class EventList(TypedDict):
    """Events after a number; ``has_gap`` when some of those asked for are no longer kept."""

    items: list[shapes.EventView]
    first_seq: int
    last_seq: int
    has_gap: bool


class VersionView(TypedDict):
    version: str
    api: str


class LiveView(TypedDict):
    status: str


class ReadyView(TypedDict):
    """``status`` is ok, degraded or not_ready (503).

    Without a token ``is_ready`` and ``status`` are all, and ``status`` is never degraded.
    """

    is_ready: bool
    status: str
    reasons: NotRequired[list[str]]
    degraded: NotRequired[dict[str, str]]
    parts: NotRequired[dict[str, Any]]
