"""A dataset as people put it (docs/datasets.md) and its translation into a ``DatasetSpec``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tenure.api.schemas.fields import Name, Size, Strict, Text, examples, raise_faults
from tenure.api.schemas.queries import PageQuery, Query
from tenure.model.dataset import DatasetFile, DatasetSpec
from tenure.model.errors import FieldError
from tenure.model.external import Look
from tenure.model.tier import TierKind
from tenure.model.units import MIB

#: A block is carried in one go and checked in one go: neither too short for that nor too long.
MIN_BLOCK, MAX_BLOCK = 4096, 4 << 30
MAX_REPLICAS = 16
BlockSize = Annotated[int, Size(MIN_BLOCK, MAX_BLOCK, ("128MiB",))]
Split = Annotated[
    Literal["lines", "size"] | None,
    Field(
        description="lines: a block of a text file ends with a line, the last that ends within "
        "`block`, or that of a longer line; a file is text if it begins without a zero byte. size: "
        "blocks end anywhere. Where nothing is said, as the dataset is split that is there, else "
        "lines."
    ),
]


class DatasetRequest(Strict):
    """Files that are to be kept as blocks in tiers of nodes, or that stay in an HDFS.

    One of ``path``, ``upload`` and ``hdfs``; the rest is not for ``hdfs``.
    """

    model_config = examples(
        {
            "name": "logs",
            "path": "/srv/inputs/logs",
            "block": "128MiB",
            "replicas": 3,
            "tiers": ["memory", "ssd", "hdd"],
        }
    )

    name: Name
    path: Text | None = Field(
        default=None,
        description="Absolute path of a file or a folder, in a folder of batches.input_dirs.",
    )
    upload: Text | None = Field(
        default=None,
        min_length=1,
        description="Id of an upload of this name that is whole (`POST /v1/uploads`).",
    )
    hdfs: Text | None = Field(
        default=None,
        description="hdfs://NAME/path of a file or folder, NAME being one of datasets.hdfs: its "
        "blocks stay there, tasks run where they are and read them from there.",
    )
    block: BlockSize = Field(default=128 * MIB, description="Files are cut into such blocks.")
    split: Split = None
    replicas: int = Field(
        default=2, ge=1, le=MAX_REPLICAS, description="Of each block, on as many nodes."
    )
    tiers: list[Literal["memory", "ssd", "hdd"]] = Field(
        default=[],
        max_length=16,
        description="Kinds of tiers that the replicas of a block take in turn; ssd and hdd, "
        "whichever has most room, where none are named.",
    )


class FilesQuery(PageQuery):
    """A page of a dataset's files."""


class ContentQuery(Query):
    file: Text | None = Field(
        default=None, description="Name of a file; needed where the dataset has several."
    )


def require_one_way(body: DatasetRequest) -> None:
    """Raise InvalidInput unless it is said once where the files are, and nothing is in vain."""
    ways = [key for key in ("path", "upload", "hdfs") if getattr(body, key) is not None]
    if len(ways) != 1:
        told = f"excludes {ways[0]}" if ways else "is needed: where its files are; upload, or hdfs"
        raise_faults([FieldError(ways[-1] if ways else "path", told)])
    idle = sorted({"block", "split", "replicas", "tiers"} & body.model_fields_set)
    if body.hdfs is not None:
        told = "is not for a dataset in HDFS, which cuts and keeps its blocks"
        raise_faults([FieldError(key, told) for key in idle])


def dataset_spec(
    body: DatasetRequest, root: str, files: tuple[DatasetFile, ...], split: str = "size"
) -> DatasetSpec:
    """Return a dataset with its files as they are now."""
    kinds = tuple(TierKind(kind) for kind in body.tiers)
    return DatasetSpec(body.name, root, files, body.block, body.replicas, kinds, split=split)


def linked_spec(name: str, found: Look) -> DatasetSpec:
    """Return a dataset whose blocks stay in HDFS, as they were found there."""
    longest = max((block.length for block in found.layout.blocks), default=0)
    return DatasetSpec(name, found.root, found.files, longest, replicas=0, source=found.source)
