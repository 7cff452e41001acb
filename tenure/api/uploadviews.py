"""How uploads are shown."""

from __future__ import annotations

from typing_extensions import TypedDict

from tenure.api.views import moment
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
    bytes: int
    received: int
    chunk_bytes: int
    files: list[UploadFileView]
    expires_at: str | None


class OpenUploadView(TypedDict):
    """An upload in a list; ``client`` is who began it."""

    id: str
    name: str
    client: str
    files: int
    bytes: int
    received: int
    expires_at: str | None


class ChunkView(TypedDict):
    """What is there of the file after a chunk."""

    number: int
    bytes: int
    received: int


def upload_view(upload: Upload) -> UploadView:
    """Return an upload with its files."""
    rows = zip(upload.files, upload.received, strict=True)
    return UploadView(
        id=upload.id,
        name=upload.name,
        bytes=upload.size_bytes,
        received=upload.received_bytes,
        chunk_bytes=CHUNK_BYTES,
        files=[
            UploadFileView(number=i, name=file.name, bytes=file.size_bytes, received=received)
            for i, (file, received) in enumerate(rows)
        ],
        expires_at=moment(upload.expires_us),
    )


def open_upload_view(upload: Upload) -> OpenUploadView:
    """Return an upload as a list shows it."""
    return OpenUploadView(
        id=upload.id,
        name=upload.name,
        client=upload.owner,
        files=len(upload.files),
        bytes=upload.size_bytes,
        received=upload.received_bytes,
        expires_at=moment(upload.expires_us),
    )


def chunk_view(upload: Upload, number: int) -> ChunkView:
    """Return how far one file of an upload is."""
    size = upload.files[number].size_bytes
    return ChunkView(number=number, bytes=size, received=upload.received[number])
