"""The endpoint of what tasks over datasets read."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.batchviews import ReadingView
from tenure.api.endpoint import Endpoint
from tenure.api.handlers import readings


class CopyView(TypedDict):
    """A copy of a block that can be read now."""

    node: str
    tier: str
    kind: str


class BlockCopiesView(TypedDict):
    number: int
    copies: list[CopyView]


class ChoiceView(TypedDict):
    """A node that a task could have, free or not, and what it would cost there."""

    node: str
    cost: float


class TaskExplanation(TypedDict):
    """What a task reads and why there.

    ``choices`` are the cheapest nodes as things are now; ``scores`` what costs are made of, and
    what was learned of copies.
    """

    task: int
    state: str
    node: str
    reason: str
    reading: ReadingView | None
    block: BlockCopiesView | None
    choices: list[ChoiceView]
    scores: dict[str, float]


READINGS = (
    Endpoint(
        "GET",
        "/v1/batches/{id}/tasks/{index}/explain",
        "batches",
        readings.explain,
        TaskExplanation,
        problems=(404, 409),
    ),
)
