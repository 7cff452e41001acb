"""What the API needs of who keeps tokens, the audit and uploads; the daemon implements it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Protocol, cast

from aiohttp import web

from tenure.model.audit import AuditRow
from tenure.model.dataset import DatasetFile
from tenure.model.roles import Caller, Role, TokenRecord
from tenure.model.upload import Upload, UploadFile

#: Set by the gate on every request that it lets in; None: an open route, asked by nobody known.
CALLER = web.RequestKey("caller", cast("type[Caller | None]", object))
#: The id of a request, also that of the commands it has the core take in.
REQUEST_ID = web.RequestKey("request_id", str)


class AuditLog(Protocol):
    """Where changes and refusals are recorded."""

    def note(self, row: AuditRow) -> None:
        """Record a row; it waits for nothing."""

    async def written(self) -> None:
        """Return once what was recorded is written, or that takes too long."""

    async def rows(
        self, after: int, since_us: int, who: str, limit: int, about: str = ""
    ) -> Sequence[AuditRow]:
        """Return rows after a number and from a time on; "": of anybody, about anything.

        Raises a TenureError where they cannot be read.
        """


class Access(Protocol):
    """Tokens, and the roles of certificates and of users of the unix socket."""

    def of_token(self, token: bytes) -> Caller:
        """Return who holds a token. Raises Unauthorized: unknown, expired or revoked."""

    def of_certificate(self, name: str) -> Caller | None:
        """Return who shows a certificate of this common name; None where it has no role."""

    def of_peer(self, uid: int, groups: Collection[int]) -> Caller | None:
        """Return who is at the other end of a unix socket; None where no group has a role."""

    def tokens(self) -> Sequence[TokenRecord]:
        """Return the tokens, also those that have ended and are remembered."""

    async def make_token(
        self, name: str, role: Role, *, namespace: str, expires_us: int | None, made_by: str
    ) -> tuple[TokenRecord, str]:
        """Make a token and return its text as well, which is kept nowhere.

        Raises Conflict where an active token has the name, or there are too many; Unavailable
        where it cannot be stored.
        """

    def end_token(self, name: str) -> TokenRecord:
        """Revoke a token until a restart. Raises NotFound, Conflict (a built-in one)."""

    async def store_tokens(self) -> None:
        """Store the tokens as they are. Raises Unavailable."""


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
