"""Uploads of files."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from tenure.api.views.render import Moment, Of, render
from tenure.model.upload import CHUNK_BYTES, Upload


class UploadFileView(TypedDict):
    """A file of an upload: ``received`` of its ``bytes`` are safely there."""

    number: int
    name: str
    bytes: int
    received: int


class UploadView(TypedDict):
    """An upload; the next chunk of a file begins at its ``received``.

    A chunk has ``chunk_bytes`` at most. It is given up at ``expires_at`` unless one comes before.
    """

    id: str
    name: str
    bytes: Annotated[int, Of("size_bytes")]
    received: Annotated[int, Of("received_bytes")]
    chunk_bytes: int
    files: list[UploadFileView]
    expires_at: Moment


class OpenUploadView(TypedDict):
    """An upload in a list; ``client`` is who began it."""

    id: str
    name: str
    client: Annotated[str, Of("owner")]
    files: Annotated[int, Of("files", len)]
    bytes: Annotated[int, Of("size_bytes")]
    received: Annotated[int, Of("received_bytes")]
    expires_at: Moment


class ChunkView(TypedDict):
    """What is there of the file after a chunk."""

    number: int
    bytes: int
    received: int


def upload_view(upload: Upload) -> UploadView:
    """Return an upload with its files."""
    rows = enumerate(zip(upload.files, upload.received, strict=True))
    files = [
        UploadFileView(number=number, name=file.name, bytes=file.size_bytes, received=received)
        for number, (file, received) in rows
    ]
    return render(UploadView, upload, chunk_bytes=CHUNK_BYTES, files=files)


def chunk_view(upload: Upload, number: int) -> ChunkView:
    """Return how far one file of an upload is."""
    size = upload.files[number].size_bytes
    return ChunkView(number=number, bytes=size, received=upload.received[number])
