"""REST v1 on who may do what, as Python methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tenure.client.query import part_of

Json = dict[str, Any]


class AccessCalls(ABC):
    """The part of a client that is about tokens."""

    def tokens(self) -> list[Json]:
        """Return the tokens by name, without their text."""
        return self._all("/v1/tokens", {})

    def make_token(self, name: str, role: str, *, expires_s: float | None = None) -> Json:
        """Make a token that expires (None: never); its text is in this answer alone."""
        body = {"name": name, "role": role, "expires_s": expires_s}
        return self._call("POST", "/v1/tokens", body)

    def revoke_token(self, name: str) -> Json:
        """Revoke a token."""
        return self._call("DELETE", f"/v1/tokens/{part_of(name)}", None, is_again=True)

    @abstractmethod
    def _all(self, path: str, query: dict[str, Any] | None) -> list[Json]: ...

    @abstractmethod
    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        headers: Mapping[str, str] | None = None,
        is_again: bool = False,
    ) -> Json: ...
