"""A dataset as people put it (docs/datasets.md) and its translation into a ``DatasetSpec``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema

from tenure.api.schemas.fields import Name, Strict, Text, memory_bytes
from tenure.api.schemas.queries import PageQuery, Query
from tenure.model.dataset import DatasetFile, DatasetSpec
from tenure.model.tier import TierKind
from tenure.model.units import MIB

#: A block is carried in one go and checked in one go: neither too short for that nor too long.
MIN_BLOCK, MAX_BLOCK = 4096, 4 << 30
MAX_REPLICAS = 16
BlockSize = Annotated[
    int,
    BeforeValidator(memory_bytes),
    Field(ge=MIN_BLOCK, le=MAX_BLOCK),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": MIN_BLOCK, "maximum": MAX_BLOCK},
                {"type": "string", "examples": ["128MiB"]},
            ],
            "description": "Bytes, or a text with a unit (KiB, MiB, GiB, KB, MB, GB).",
        }
    ),
]


class DatasetRequest(Strict):
    """Files of the daemon's machine that are to be kept as blocks in tiers of nodes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "logs",
                    "path": "/srv/inputs/logs",
                    "block": "128MiB",
                    "replicas": 3,
                    "tiers": ["memory", "ssd", "hdd"],
                }
            ]
        }
    )

    name: Name
    path: Text = Field(
        description="Absolute path of a file or a folder, in a folder of batches.input_dirs."
    )
    block: BlockSize = Field(default=128 * MIB, description="Files are cut into such blocks.")
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


def dataset_spec(body: DatasetRequest, root: str, files: tuple[DatasetFile, ...]) -> DatasetSpec:
    """Return a dataset with its files as they are now."""
    kinds = tuple(TierKind(kind) for kind in body.tiers)
    return DatasetSpec(body.name, root, files, body.block, body.replicas, kinds)
