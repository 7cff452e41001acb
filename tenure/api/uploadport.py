"""What the API needs of who keeps uploads (``tenure.daemon.uploads``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from tenure.model.dataset import DatasetFile
from tenure.model.upload import Upload, UploadFile


class Uploads(Protocol):
    """Uploads of clients; each knows its own alone."""

    async def begin(
        self,
        owner: str,
        name: str,
        files: tuple[UploadFile, ...],
        *,
        require_free: Callable[[str], None],
    ) -> Upload:
        """Return the upload of these files, begun already or new. Raises Conflict, Unavailable.

        ``require_free`` raises for the id of one that must not be given up for it.
        """

    async def listing(self, owner: str | None) -> list[Upload]:
        """Return the open uploads of a client (None: of all), by name."""

    async def find(self, owner: str | None, key: str) -> Upload:
        """Return an upload; raises NotFound, of another client's than ``owner`` too."""

    async def take(
        self,
        owner: str,
        key: str,
        place: tuple[int, int],
        digest: bytes,
        pieces: AsyncIterator[bytes],
    ) -> Upload:
        """Add a chunk at (number of the file, offset). Raises Conflict, InvalidInput, Unavailable.

        Nothing of a chunk that is not taken stays.
        """

    async def drop(self, owner: str | None, key: str) -> Upload:
        """Give an upload up. Raises NotFound as ``find`` does, Conflict ``upload_busy``."""

    async def files_of(
        self, owner: str, key: str, name: str
    ) -> tuple[str, tuple[DatasetFile, ...]]:
        """Return root and files of a whole upload; Conflict ``upload_incomplete``, InvalidInput."""
