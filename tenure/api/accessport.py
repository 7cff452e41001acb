"""What the API needs to know who asks; the composition root implements it over its tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from aiohttp import web

from tenure.model.audit import AuditRow
from tenure.model.roles import Caller, Role, TokenRecord

#: Set by the gate on every request that it lets in; None: an open route, asked by nobody known.
CALLER: web.RequestKey[Caller | None] = web.RequestKey("caller", object)  # type: ignore[arg-type]


class AuditLog(Protocol):
    """Where changes and refusals are recorded."""

    def note(self, row: AuditRow) -> None:
        """Record a row; it waits for nothing."""

    async def rows(self, after: int, since_us: int, who: str, limit: int) -> Sequence[AuditRow]:
        """Return rows after a number and from a time on; ``who`` "": of anybody.

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
        self, name: str, role: Role, *, expires_us: int | None, made_by: str
    ) -> tuple[TokenRecord, str]:
        """Make a token and return its text as well, which is kept nowhere.

        Raises Conflict where an active token has the name, or there are too many; Unavailable
        where it cannot be stored.
        """

    def end_token(self, name: str) -> TokenRecord:
        """Revoke a token until a restart. Raises NotFound, Conflict (a built-in one)."""

    async def store_tokens(self) -> None:
        """Store the tokens as they are. Raises Unavailable."""
