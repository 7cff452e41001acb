"""What tasks and executors read of datasets, and why."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.render import Of, thousandths


class DatasetInputView(TypedDict):
    """The dataset that a stage or a job reads; of a stage one of its blocks for each task.

    Beside a file as input it is the stage's own: the replicas of its chunks, while it runs.
    """

    dataset: Annotated[str, Of("id")]
    name: str
    blocks: int
    block_bytes: int


class ReadingView(TypedDict):
    """The copy of a block that a task or executor reads on its own node.

    ``cost`` is that of Eq. 1 of the Trident paper. ``is_brought``: from another node, for this
    reader. ``is_ahead``: it was prefetched. Of a block in HDFS ``uri`` is its file, which the task
    reads by itself, and ``is_remote`` says that it has no copy on its node.
    """

    tier: str
    kind: str
    path: str
    cost: Annotated[float, Of("cost", thousandths)]
    is_brought: bool
    is_ahead: bool
    uri: str
    is_remote: bool


class CopyView(TypedDict):
    """A copy of a block that can be read now."""

    node: str
    tier: str
    kind: str


class ChoiceView(TypedDict):
    """A node that a reader could have, free or not, and what it would cost there."""

    node: str
    cost: Annotated[float, Of("cost", thousandths)]


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
