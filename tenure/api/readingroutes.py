"""The endpoints of what tasks and executors over datasets read."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.endpoint import Endpoint
from tenure.api.handlers import jobs, readings
from tenure.api.readingviews import ChoiceView, CopyView, ReadingView


class BlockCopiesView(TypedDict):
    number: int
    copies: list[CopyView]


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


class ExecutorBlockView(TypedDict):
    """A block of an executor: the copy that it reads, those that there are, and costs elsewhere.

    ``reading`` null: it is not settled yet.
    """

    number: int
    file: str
    reading: ReadingView | None
    copies: list[CopyView]
    choices: list[ChoiceView]


class ExecutorExplanation(TypedDict):
    """What an executor reads and why there; ``waits_for`` is what keeps its input from it.

    Of each block ``choices`` are the cheapest nodes as things are now; ``scores`` what costs are
    made of, and what was learned of copies.
    """

    executor: int
    state: str
    node: str
    reason: str
    waits_for: str
    blocks: list[ExecutorBlockView]
    scores: dict[str, float]


READINGS = (
    Endpoint(
        "GET",
        "/v1/jobs/{id}/executors/{index}/explain",
        "jobs",
        jobs.explain_executor,
        ExecutorExplanation,
        problems=(404, 409),
    ),
    Endpoint(
        "GET",
        "/v1/batches/{id}/tasks/{index}/explain",
        "batches",
        readings.explain,
        TaskExplanation,
        problems=(404, 409),
    ),
)
