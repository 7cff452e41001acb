"""How it is shown what tasks and executors read of datasets."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.model.reading import DatasetInput, Reading


class DatasetInputView(TypedDict):
    """The dataset that a stage or a job reads; of a stage one of its blocks for each task.

    Beside a file as input it is the stage's own: the replicas of its chunks, while it runs.
    """

    dataset: str
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
    cost: float
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
    cost: float


def dataset_input_view(source: DatasetInput | None) -> DatasetInputView | None:
    """Return the dataset that is read."""
    if source is None:
        return None
    return DatasetInputView(
        dataset=source.id, name=source.name, blocks=source.blocks, block_bytes=source.block_bytes
    )


def reading_view(reading: Reading | None) -> ReadingView | None:
    """Return the copy that is read."""
    if reading is None:
        return None
    return ReadingView(
        tier=reading.tier,
        kind=reading.kind.value,
        path=reading.path,
        cost=reading.cost / 1000,
        is_brought=reading.is_brought,
        is_ahead=reading.is_ahead,
        uri=reading.uri,
        is_remote=reading.is_remote,
    )
