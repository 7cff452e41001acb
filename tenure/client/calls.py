"""What all calls of REST v1 share: paths and queries, patience, pages, answers as JSON.

A call that may be repeated (a read, or a submission under an idempotency key) is tried again while
the daemon is away, for ``patience_s``: a restart of the daemon is no error to its callers.
"""

from __future__ import annotations

import json
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar
from urllib.parse import quote, urlencode

from tenure.client.errors import DaemonUnreachable
from tenure.client.target import Target
from tenure.client.wire import Request, send, stream
from tenure.model.errors import NotFound, TenureError, Unavailable
from tenure.model.jsons import Json

A = TypeVar("A")
TIMEOUT_S = 45.0
#: A followed log is silent as long as its container is.
FOLLOW_TIMEOUT_S = 24 * 3600.0
BACK_OFF_S = (0.05, 1.0)
PAGE = 1000
#: An input that is not read by then (a terabyte at 300 MB/s) changes all the time.
INPUT_PATIENCE_S = 3600.0
#: Where others' inputs are read before it the daemon says so at once.
AGAIN_S = 1.0
#: A word of a command line that is no UTF-8 goes as the bytes that it is; nothing has such a name.
BYTES = "surrogateescape"


def part_of(text: str) -> str:
    """Return one part of a path. Raises NotFound for an empty one, which would name another."""
    if not text:
        raise NotFound("an id or a name is needed, and an empty one was given")
    return quote(text, safe="", errors=BYTES)


def if_match(version: int | None) -> dict[str, str]:
    """Return the header that asks for a version, none for None."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def query_of(values: Mapping[str, object]) -> str:
    """Return a query with ``?``; what is None, false or empty is left out, "" where all is."""
    given = {k: v for k, v in values.items() if v is not None and v is not False and v != ""}
    texts = {k: "true" if v is True else str(v) for k, v in given.items()}
    return f"?{urlencode(texts, errors=BYTES)}" if texts else ""


def once_read(ask: Callable[[], A]) -> A:
    """Return what ``ask`` does, which is called again for as long as its input is being read.

    The daemon goes on with that between two calls, and has each wait for some seconds.
    """
    until = time.monotonic() + INPUT_PATIENCE_S
    while True:
        try:
            return ask()
        except Unavailable as error:
            if error.code != "input_being_read" or time.monotonic() >= until:
                raise
        time.sleep(AGAIN_S)


class Calls:
    """How a daemon is called."""

    def __init__(
        self,
        target: Target,
        *,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = 0.0,
        namespace: str = "",
    ) -> None:
        """``namespace`` is where it submits, and what it lists alone; "": the caller's, and all."""
        self.target = target
        self._namespace = namespace
        self._timeout_s = timeout_s
        self._patience_s = patience_s

    def _deadline(self) -> float:
        return time.monotonic() + self._patience_s

    def _get(self, path: str) -> Json:
        return self._call("GET", path, None, is_again=True)

    def _all(self, path: str, query: Json | None) -> list[Json]:
        """Return every page of a listing (None: it has only one)."""
        if query is None:
            whole: list[Json] = self._get(path)["items"]
            return whole
        found: list[Json] = []
        cursor = ""
        while True:
            page = self._get(path + query_of({**query, "limit": PAGE, "cursor": cursor}))
            found += page["items"]
            cursor = page["next_cursor"] or ""
            if not cursor:
                return found

    def _submit(self, path: str, body: Mapping[str, object], key: str) -> Json:
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._call("POST", path, body, headers=headers, is_again=True)

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        *,
        headers: Mapping[str, str] | None = None,
        is_again: bool = False,
    ) -> Json:
        data, more = None, dict(headers or {})
        if self._namespace and method != "GET":
            more["Tenure-Namespace"] = self._namespace
        if body is not None:
            data = json.dumps(body, default=str).encode()
            more["Content-Type"] = "application/json"
        answer = self._try(Request(method, path, data, more), is_again=is_again)
        try:
            found = json.loads(answer)
        except ValueError:
            raise TenureError(f"{self.target.url} is no tenure daemon: it speaks no JSON") from None
        if not isinstance(found, dict):
            raise TenureError(f"{self.target.url} is no tenure daemon")
        return found

    def _try(self, request: Request, *, is_again: bool) -> bytes:
        """Send a request, and again while the daemon is away if that is safe."""
        until, wait_s = self._deadline(), BACK_OFF_S[0]
        while True:
            try:
                return send(self.target, request, self._timeout_s)
            except Unavailable as error:
                is_unsent = isinstance(error, DaemonUnreachable) and not error.was_sent
                if not (is_again or is_unsent) or time.monotonic() + wait_s > until:
                    raise
            time.sleep(wait_s * random.uniform(0.5, 1.0))
            wait_s = min(wait_s * 2, BACK_OFF_S[1])

    def _text(self, path: str, query: Json, *, follow: bool) -> Iterator[bytes]:
        request = Request("GET", path + query_of(query), headers={"Accept": "text/plain"})
        timeout_s = FOLLOW_TIMEOUT_S if follow else self._timeout_s
        return stream(self.target, request, timeout_s)
