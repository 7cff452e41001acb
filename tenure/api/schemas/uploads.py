"""An upload as a client announces it, and the checks of its files' names."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Annotated, Literal

from pydantic import FailFast, Field

from tenure.api.schemas.datasets import BlockSize, Split
from tenure.api.schemas.fields import Name, Strict, Text, examples, raise_faults
from tenure.api.schemas.queries import Query
from tenure.api.server.problems import refused
from tenure.model.dataset import DatasetFile, DatasetSpec
from tenure.model.errors import FieldError
from tenure.model.tier import TierKind
from tenure.model.units import MIB
from tenure.model.upload import UploadFile

MAX_FILES = 10_000
#: Of the file system: a name's bytes, and a path's.
MAX_PART_BYTES, MAX_PATH_BYTES = 255, 1024
#: Folders that a file may lie in, one within the other: each is made.
MAX_DEPTH = 32
SHA256_BYTES = 32


class UploadedFile(Strict):
    name: Text = Field(
        default="", description="Relative, with slashes; empty where the dataset is a single file."
    )
    size: int = Field(ge=0, le=1 << 50, description="Bytes.")
    mtime_ns: int = Field(
        default=0,
        ge=-(1 << 63),
        le=(1 << 63) - 1,
        description="When it was changed; before 1970 negative.",
    )


class PutOptions(Strict):
    """As of the put that is to follow; see ``POST /v1/datasets``."""

    block: BlockSize = Field(default=128 * MIB)
    split: Split = None
    replicas: int = Field(default=2, ge=1, le=16)
    tiers: list[Literal["memory", "ssd", "hdd"]] = Field(default=[], max_length=16)


class UploadRequest(Strict):
    """Files of another machine that are to become the dataset ``name``.

    With ``put`` it is refused if that put would be now, before anything is sent.
    """

    model_config = examples({"name": "logs", "files": [{"name": "a/1.log", "size": 5}]})

    name: Name
    files: Annotated[list[UploadedFile], FailFast()] = Field(min_length=1, max_length=MAX_FILES)
    put: PutOptions | None = Field(default=None, description="How it is going to be put.")


class ChunkQuery(Query):
    offset: int = Field(
        default=0, ge=0, le=1 << 50, description="Where in the file the chunk begins."
    )


def upload_files(body: UploadRequest) -> tuple[UploadFile, ...]:
    """Return the files; raises InvalidInput with every name that would not stay in its folder."""
    faults: list[FieldError] = []
    names = [file.name for file in body.files]
    faulty = [_fault(name, is_single=len(names) == 1) for name in names]
    sound = (name for name, why in zip(names, faulty, strict=True) if not why)
    folders = {name[:i] for name in sound for i, char in enumerate(name) if char == "/"}
    seen: set[str] = set()
    for number, name in enumerate(names):
        why = faulty[number]
        if not why and name in seen:
            why = "stands twice"
        if not why and name in folders:
            why = "is a folder of another file"
        if why:
            faults.append(FieldError(f"files.{number}.name", why))
        seen.add(name)
    raise_faults(faults)
    return tuple(UploadFile(file.name, file.size, file.mtime_ns) for file in body.files)


def foreseen_spec(body: UploadRequest, put: PutOptions, split: str) -> DatasetSpec:
    """Return the dataset that an upload is to become."""
    files = (DatasetFile(file.name, file.size, file.mtime_ns) for file in body.files)
    rows = tuple(sorted(files, key=lambda file: file.name))
    kinds = tuple(TierKind(kind) for kind in put.tiers)
    return DatasetSpec(body.name, "", rows, put.block, put.replicas, kinds, split=split)


def _fault(name: str, *, is_single: bool) -> str:
    if not name:
        return "" if is_single else "is needed where there are several files"
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "must be a path within the dataset: no empty part, no . and no .."
    if not name.isprintable():
        return "must be printable"
    return _excess(name, parts)


def _excess(name: str, parts: list[str]) -> str:
    if len(parts) > MAX_DEPTH + 1:
        return f"lies in more than {MAX_DEPTH} folders"
    if any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        return f"has a part of more than {MAX_PART_BYTES} bytes"
    if len(name.encode()) > MAX_PATH_BYTES:
        return f"has more than {MAX_PATH_BYTES} bytes"
    return ""


def digest_of(header: str) -> bytes:
    """Return the SHA-256 in a ``Content-Digest`` header (RFC 9530); raises HttpProblem (422)."""
    for part in header.split(","):
        key, _, value = part.strip().partition("=")
        if key.lower() == "sha-256" and value.startswith(":") and value.endswith(":"):
            try:
                found = b64decode(value.strip(":"), validate=True)
            except binascii.Error:
                break
            if len(found) == SHA256_BYTES:
                return found
    told = "must be sha-256=:BASE64: of the chunk (RFC 9530)"
    raise refused(422, "invalid_input", told, field="Content-Digest")
