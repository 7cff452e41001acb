"""REST v1 on who may do what, as Python methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from tenure.client.query import part_of, query_of

Json = dict[str, Any]
PAGE = 1000


class AccessCalls(ABC):
    """The part of a client that is about tokens and the audit."""

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

    def audit(self, *, since: str = "", who: str = "") -> Iterator[Json]:
        """Yield changes and refusals, oldest first, from a time (ISO 8601) on; of anybody."""
        after = 0
        while True:
            query = query_of({"after": after, "since": since, "who": who, "limit": PAGE})
            rows: list[Json] = self._call("GET", f"/v1/audit{query}", None, is_again=True)["items"]
            yield from rows
            if len(rows) < PAGE:
                return
            after = rows[-1]["seq"]

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
