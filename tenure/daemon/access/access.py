"""Who may ask the API: tokens, names of client certificates, groups of the unix socket's users."""

from __future__ import annotations

import grp
import logging
import os
from collections.abc import Collection, Mapping, Sequence

from tenure.daemon.access.tokens import Tokens
from tenure.model.roles import Caller, Grant, Role, TokenRecord, height

log = logging.getLogger(__name__)
#: The group that nobody has to have: it stands in the defaults.
USUAL_GROUP = "tenure"


class Access:
    """Implements ``tenure.api.requests.ports.Access``.

    Root and the daemon's own user are admins on the unix socket: they can read the root token.
    """

    def __init__(
        self,
        tokens: Tokens,
        certificates: Mapping[str, Grant] | None = None,
        groups: Mapping[str, Grant] | None = None,
    ) -> None:
        self._tokens = tokens
        self.configure(certificates or {}, groups or {})

    def configure(self, certificates: Mapping[str, Grant], groups: Mapping[str, Grant]) -> None:
        """Take over what certificates and groups give; those of now may end by it."""
        self._certificates = dict(certificates)
        self._groups = _by_number(groups)

    def of_token(self, token: bytes) -> Caller:
        """Return who holds a token. Raises Unauthorized: unknown, expired or revoked."""
        return self._tokens.find(token)

    def of_certificate(self, name: str) -> Caller | None:
        """Return who shows a certificate of this common name; None where it has no role."""
        found = self._certificates.get(name)
        return None if found is None else _caller("certificate", name, found)

    def of_peer(self, uid: int, groups: Collection[int]) -> Caller | None:
        """Return who is at the other end of a unix socket, with the highest role of its groups."""
        name = f"uid {uid}"
        if uid in (0, os.geteuid()):
            return Caller("peer", name, Role.ADMIN)
        held = [grant for number, grant in self._groups.items() if number in groups]
        if not held:
            return None
        return _caller("peer", name, max(held, key=lambda grant: height(grant.role)))

    def tokens(self) -> Sequence[TokenRecord]:
        """Return the tokens, also those that have ended and are remembered."""
        return self._tokens.records()

    async def make_token(
        self, name: str, role: Role, *, namespace: str, expires_us: int | None, made_by: str
    ) -> tuple[TokenRecord, str]:
        """Make a token. Raises as ``Tokens.make`` does."""
        return await self._tokens.make(
            name, role, namespace=namespace, expires_us=expires_us, made_by=made_by
        )

    def end_token(self, name: str) -> TokenRecord:
        """Revoke a token until a restart. Raises as ``Tokens.end`` does."""
        return self._tokens.end(name)

    async def store_tokens(self) -> None:
        """Store the tokens as they are. Raises as ``Tokens.store`` does."""
        await self._tokens.store()


def _caller(kind: str, name: str, grant: Grant) -> Caller:
    return Caller(kind, name, grant.role, namespace=grant.namespace)


def _by_number(groups: Mapping[str, Grant]) -> dict[int, Grant]:
    found: dict[int, Grant] = {}
    for name, grant in groups.items():
        try:
            found[grp.getgrnam(name).gr_gid] = grant
        except KeyError:
            if name != USUAL_GROUP:
                log.warning("api.socket_roles: there is no group %s on this machine", name)
    return found
