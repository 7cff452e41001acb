"""Uploads: files of other machines on their way to the daemon, to be put from there."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.units import MIB

#: The longest chunk that is taken in one request.
CHUNK_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class UploadFile:
    """A file as its owner has it; ``name`` is relative, with slashes, "" of a single file."""

    name: str
    size_bytes: int
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Upload:
    """Files that are being brought under ``name``, and how much of each is safely there.

    ``owner`` is the client that began it. It is given up at ``expires_us`` unless more comes.
    """

    id: str
    name: str
    owner: str
    files: tuple[UploadFile, ...]
    received: tuple[int, ...]
    expires_us: int

    @property
    def size_bytes(self) -> int:
        """How many bytes it will have in all."""
        return sum(file.size_bytes for file in self.files)

    @property
    def received_bytes(self) -> int:
        """How many of them are there."""
        return sum(self.received)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self.received == tuple(file.size_bytes for file in self.files)
