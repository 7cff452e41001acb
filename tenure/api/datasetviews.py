"""How datasets, their files and their blocks are shown."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from tenure.api.tierviews import HoldingView, Shelved
from tenure.api.views import moment
from tenure.model.dataset import Block, Dataset, Location


class DatasetView(TypedDict):
    """A dataset. ``whole_blocks`` of its ``blocks`` have all of their replicas.

    ``reason`` is why its put failed or does not get further: a block of it that waits for room.
    ``stored_bytes`` is what all copies take, on their way or not. ``batch``: it is the input of
    that batch, and goes with it; "" of one that people put. ``source`` names the HDFS that its
    blocks lie in, "": they are in our tiers.
    """

    id: str
    name: str
    state: str
    reason: str
    bytes: int
    files: int
    blocks: int
    whole_blocks: int
    block_bytes: int
    replicas: int
    tiers: list[str]
    stored_bytes: int
    is_pinned: bool
    path: str
    batch: str
    source: str
    created_at: str | None
    ready_at: str | None
    version: int


class DatasetDetail(DatasetView):
    """A dataset with where it lies; of ``unreadable_blocks`` no copy can be read now.

    Of one in HDFS ``located_at`` is when that was last seen, ``fault`` why it could not be since.
    """

    holdings: list[HoldingView]
    unreadable_blocks: int
    located_at: str | None
    fault: str


class DatasetFileView(TypedDict):
    """A file of a dataset; its name is relative, "" where the dataset is a single file."""

    number: int
    name: str
    bytes: int
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
    bytes: int
    sha256: str
    replicas: list[ReplicaView]
    pins: int
    note: str


def dataset_view(dataset: Dataset, shelved: Shelved) -> DatasetView:
    """Return a dataset."""
    spec = dataset.spec
    return DatasetView(
        id=dataset.id,
        name=spec.name,
        state=dataset.state.value,
        reason=dataset.reason or shelved.waits_for,
        bytes=spec.size_bytes,
        files=len(spec.files),
        blocks=spec.blocks,
        whole_blocks=shelved.whole,
        block_bytes=spec.block_bytes,
        replicas=spec.replicas,
        tiers=[kind.value for kind in spec.tiers],
        stored_bytes=shelved.stored_bytes,
        is_pinned=dataset.is_pinned,
        path=spec.root,
        batch=spec.batch,
        source=spec.source,
        created_at=moment(dataset.created_us),
        ready_at=moment(dataset.ready_us),
        version=dataset.version,
    )


def dataset_detail(
    dataset: Dataset,
    shelved: Shelved,
    holdings: list[HoldingView],
    unreadable: int,
) -> DatasetDetail:
    """Return a dataset with where it lies."""
    return DatasetDetail(
        **dataset_view(dataset, shelved),
        holdings=holdings,
        unreadable_blocks=unreadable,
        located_at=moment(shelved.seen_us or None),
        fault=shelved.fault,
    )


def file_views(dataset: Dataset) -> list[DatasetFileView]:
    """Return the files of a dataset in their order. O(files)."""
    found, first = [], 0
    for number, file in enumerate(dataset.spec.files):
        blocks = dataset.spec.blocks_of(file)
        row = DatasetFileView(
            number=number,
            name=file.name,
            bytes=file.size_bytes,
            first_block=first,
            blocks=blocks,
        )
        found.append(row)
        first += blocks
    return found


def block_view(dataset: Dataset, block: Block, places: Sequence[Location]) -> BlockView:
    """Return a block; ``places`` are its copies that can be read now."""
    offered = {(place.node, place.tier): place for place in places}
    rows = []
    for replica in block.replicas:
        place = offered.get((replica.node, replica.tier))
        row = ReplicaView(
            node=replica.node,
            tier=replica.tier,
            kind="" if place is None else place.kind.value,
            state=replica.state.value,
            is_offered=place is not None,
            path="" if place is None else place.path,
        )
        rows.append(row)
    return BlockView(
        number=block.number,
        file=dataset.spec.files[block.file].name,
        offset=block.offset,
        bytes=block.length,
        sha256=block.sha256,
        replicas=rows,
        pins=len(block.pins),
        note=block.note,
    )
