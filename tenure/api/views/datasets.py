"""Datasets, their files and blocks, and what tiers hold of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.render import Moment, Of, moment, render
from tenure.model.dataset import Block, Dataset, Location


@dataclass(frozen=True, slots=True)
class Shelved:
    """What the records alone do not tell of a dataset: whole blocks, and bytes of all copies.

    Of one in HDFS also when its blocks were located (0: not yet), and why not since. ``waits_for``
    is why a block gets no more copies now, "" where none waits.
    """

    whole: int
    stored_bytes: int
    seen_us: int = 0
    fault: str = ""
    waits_for: str = ""


class HoldingView(TypedDict):
    """How many blocks of a dataset lie in a tier of a node, present or on their way."""

    node: str
    tier: str
    kind: str
    blocks: int
    bytes: int
    copying: int


class DatasetView(TypedDict):
    """A dataset. ``whole_blocks`` of its ``blocks`` have all of their replicas.

    ``reason`` is why its put failed or does not get further: a block of it that waits for room.
    ``stored_bytes`` is what all copies take, on their way or not. ``batch``: it is the input of
    that batch, and goes with it; "" of one that people put. ``source`` names the HDFS that its
    blocks lie in, "": they are in our tiers.
    """

    id: str
    name: str
    namespace: Annotated[str, Of("owner.namespace")]
    submitter: Annotated[str, Of("owner.submitter")]
    state: str
    reason: str
    bytes: Annotated[int, Of("spec.size_bytes")]
    files: Annotated[int, Of("spec.files", len)]
    blocks: int
    whole_blocks: int
    block_bytes: int
    replicas: int
    split: str
    tiers: list[str]
    stored_bytes: int
    is_pinned: bool
    path: Annotated[str, Of("root")]
    batch: str
    source: str
    created_at: Moment
    ready_at: Moment
    version: int


class DatasetDetail(DatasetView):
    """A dataset with where it lies; of ``unreadable_blocks`` no copy can be read now.

    Of one in HDFS ``located_at`` is when that was last seen, ``fault`` why it could not be since.
    """

    holdings: list[HoldingView]
    unreadable_blocks: int
    located_at: Moment
    fault: str


class DatasetFileView(TypedDict):
    """A file of a dataset; its name is relative, "" where the dataset is a single file."""

    number: int
    name: str
    bytes: Annotated[int, Of("size_bytes")]
    first_block: int
    blocks: int


class ReplicaView(TypedDict):
    """A copy of a block: ``is_offered`` if it can be read now, at ``path`` of its node."""

    node: str
    tier: str
    kind: str
    state: str
    is_offered: bool
    path: str


class BlockView(TypedDict):
    """A block and its copies; ``note`` is why it has not got more of them."""

    number: int
    file: str
    offset: int
    bytes: Annotated[int, Of("length")]
    sha256: str
    replicas: list[ReplicaView]
    pins: Annotated[int, Of("pins", len)]
    note: str


class OrphanView(TypedDict):
    """Blocks in a tier that no record knows, in ``path`` on the node; their files have numbers.

    ``is_known``: their dataset is, whose put may go on; else nobody needs them but their owner.
    """

    dataset: str
    node: str
    tier: str
    path: str
    blocks: int
    bytes: int
    is_known: bool


class DiscardedView(TypedDict):
    """What of a dataset is being removed."""

    dataset: str
    blocks: int
    bytes: Annotated[int, Of("size_bytes")]


def dataset_view(dataset: Dataset, shelved: Shelved) -> DatasetView:
    """Return a dataset."""
    return render(DatasetView, dataset, **_beside(dataset, shelved))


def _beside(dataset: Dataset, shelved: Shelved) -> dict[str, object]:
    return {
        "reason": dataset.reason or shelved.waits_for,
        "whole_blocks": shelved.whole,
        "stored_bytes": shelved.stored_bytes,
    }


def dataset_detail(
    dataset: Dataset,
    shelved: Shelved,
    holdings: list[HoldingView],
    unreadable: int,
) -> DatasetDetail:
    """Return a dataset with where it lies."""
    return render(
        DatasetDetail,
        dataset,
        **_beside(dataset, shelved),
        holdings=holdings,
        unreadable_blocks=unreadable,
        located_at=moment(shelved.seen_us),
        fault=shelved.fault,
    )


def file_views(dataset: Dataset) -> list[DatasetFileView]:
    """Return the files of a dataset in their order. O(files)."""
    found, first = [], 0
    for number, file in enumerate(dataset.spec.files):
        blocks = dataset.spec.blocks_of(file)
        row = render(DatasetFileView, file, number=number, first_block=first, blocks=blocks)
        found.append(row)
        first += blocks
    return found


def block_view(dataset: Dataset, block: Block, places: Sequence[Location]) -> BlockView:
    """Return a block; ``places`` are its copies that can be read now."""
    offered = {(place.node, place.tier): place for place in places}
    rows = []
    for replica in block.replicas:
        place = offered.get((replica.node, replica.tier))
        kind, path = ("", "") if place is None else (place.kind, place.path)
        is_offered = place is not None
        rows.append(render(ReplicaView, replica, kind=kind, is_offered=is_offered, path=path))
    return render(BlockView, block, file=dataset.spec.files[block.file].name, replicas=rows)
