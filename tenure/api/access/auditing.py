"""What goes into the audit: requests that change something, and those that are refused."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from tenure.api.access.gate import Buckets
from tenure.api.requests.ports import CALLER, REQUEST_ID, AuditLog
from tenure.api.server.guard import client_of
from tenure.api.server.problems import CODE
from tenure.model.audit import AuditRow

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]
#: Refusals (4xx) that are recorded of one caller at one address, those for its role apart: what
#: somebody guesses must push out neither what others did, nor that it tried what it may not.
REFUSED_PER_S = 2.0
#: Changes that say nothing by themselves: trials, and parts of an upload, which begins and ends.
UNTOLD = frozenset(
    (
        "POST /v1/jobs/plan",
        "POST /v1/batches/plan",
        "POST /v1/services/plan",
        "PUT /v1/uploads/{id}/files/{number}",
    )
)
MAX_PATH, MAX_SUBJECT = 200, 128


def auditor(audit: AuditLog | None, now_us: Callable[[], int]) -> Middleware:
    """Return the middleware that records requests (None: nowhere)."""
    refusals = Buckets(REFUSED_PER_S)

    @web.middleware
    async def record(request: web.Request, handler: Next) -> web.StreamResponse:
        if audit is None:
            return await handler(request)
        response: web.StreamResponse | None = None
        try:
            response = await handler(request)
            return response
        finally:
            status = 0 if response is None else response.status
            is_refused = 400 <= status < 500
            is_told = _is_told(request, status) and (
                not is_refused or not refusals.take(_asker(request, status), time.monotonic())
            )
            if is_told:
                audit.note(_row(request, response, now_us()))
            if is_told and response is not None and not is_refused:
                await audit.written()  # a kill costs no row of what was answered

    return record


def _is_told(request: web.Request, status: int) -> bool:
    if status in (401, 403):
        return True
    if request.method in ("GET", "HEAD"):
        return False
    resource = request.match_info.route.resource
    route = "" if resource is None else f"{request.method} {resource.canonical}"
    return status >= 400 or route not in UNTOLD


def _row(request: web.Request, response: web.StreamResponse | None, now_us: int) -> AuditRow:
    caller = request.get(CALLER)
    return AuditRow(
        at_us=now_us,
        kind="" if caller is None else caller.kind,
        who="" if caller is None else caller.name,
        role="" if caller is None else caller.role.value,
        origin=client_of(request),
        method=_plain(request.method, 16),
        path=_plain(request.path, MAX_PATH),
        subject=_subject(request, response),
        status=0 if response is None else response.status,
        code="" if response is None else response.get(CODE, ""),
        cause=request.get(REQUEST_ID, ""),
    )


def _subject(request: web.Request, response: web.StreamResponse | None) -> str:
    """Return the id of what was made, else the one that the path names."""
    made = "" if response is None else response.headers.get("Location", "")
    named = made.rsplit("/", 1)[-1] or "/".join(request.match_info.values())
    return _plain(named, MAX_SUBJECT)


def _asker(request: web.Request, status: int) -> str:
    caller = request.get(CALLER)
    named = "" if caller is None else caller.key
    return f"{client_of(request)} {named} {status == HTTPStatus.FORBIDDEN}"


def _plain(text: str, most: int) -> str:
    """Return text that a database and a terminal take, of bounded length."""
    return "".join(c if c.isprintable() else "?" for c in text[:most])
