"""The aiohttp application: every request passes the gate, its endpoint's checks, then a handler."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from functools import cache

from aiohttp import web
from aiohttp.typedefs import Middleware
from pydantic import BaseModel

from tenure.api.access.auditing import auditor
from tenure.api.access.gate import UNLIMITED, Gate, bearer
from tenure.api.access.reach import seen_by
from tenure.api.endpoint import Endpoint
from tenure.api.handlers.events import TAIL, Tail
from tenure.api.openapi import document
from tenure.api.requests.backend import Backend
from tenure.api.requests.body import parse_json, require_few, require_plain
from tenure.api.requests.bulk import MAX_MANY_VALUES, MAX_VALUES, Bulk
from tenure.api.requests.call import Call, checked_body, checked_query
from tenure.api.requests.fairness import FAIR, FairLoop, charger
from tenure.api.requests.options import Options
from tenure.api.requests.ports import CALLER, REQUEST_ID
from tenure.api.requests.slices import TURNS, Turns
from tenure.api.requests.streams import TASKS, end_streams
from tenure.api.routes import ENDPOINTS
from tenure.api.server.guard import client_of, guard_of
from tenure.api.server.problems import problem_response, refused
from tenure.api.server.protocol import CUT, name_server
from tenure.model import roles
from tenure.model.errors import Problem, TenureError

log = logging.getLogger("tenure.api")
BULK = web.AppKey("bulk", Bulk)
#: A longer body is read in a thread: ten thousand rows take a tenth of a second.
AT_ONCE_BYTES = 1 << 16
Next = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_app(backend: Backend, options: Options) -> web.Application:
    """Return the application that serves REST v1 over ``backend``."""
    app = web.Application(
        middlewares=[
            _guarded,
            auditor(options.audit, backend.now_us),
            _problems(),
            _gatekeeper(options),
        ],
        client_max_size=max(options.max_body_bytes, options.max_plan_bytes),
    )
    app[TASKS] = {}
    app[TURNS] = Turns()
    app[TAIL] = Tail(backend)
    app[BULK] = Bulk()
    app[FAIR] = FairLoop()
    app.on_shutdown.append(end_streams)
    app.on_response_prepare.append(name_server)
    for endpoint in ENDPOINTS:
        serve = _route(endpoint, backend, options)
        for path in filter(None, (endpoint.path, endpoint.was)):
            app.router.add_route(endpoint.method, path, serve, expect_handler=_expected)
    app.router.add_get("/openapi.json", _openapi)
    return app


async def complete() -> None:
    """Have the checks of all bodies and queries made, which the first request of each would do.

    One after another between other work; never in a thread, for pydantic makes no model's twice at
    once.
    """
    for endpoint in ENDPOINTS:
        for model in (endpoint.query, endpoint.body):
            if model is not None:
                model.model_rebuild()
                await asyncio.sleep(0)


async def _openapi(_: web.Request) -> web.StreamResponse:
    await complete()
    text = await asyncio.to_thread(_document)
    return web.Response(body=text, content_type="application/json")


@cache
def _document() -> bytes:
    """Return the document of all endpoints, which takes a tenth of a second to make."""
    return json.dumps(document(ENDPOINTS), separators=(",", ":")).encode()


OPEN_PATHS = frozenset(
    route.partition(" ")[2] for route, need in roles.NEEDS.items() if need.is_open
)


def _gatekeeper(options: Options) -> Middleware:
    gate = Gate(options)

    async def permitted(request: web.Request, handler: Next) -> web.StreamResponse:
        """Check the role, in the one place where roles are checked."""
        if request.transport is None or request.transport.is_closing():  # while it waited
            raise refused(400, "cut", "the connection broke off")
        resource = request.match_info.route.resource
        if resource is not None:  # None: there is no such path, or method
            roles.need_of(request.method, resource.canonical).require(request[CALLER])
        return await handler(request)

    @web.middleware
    async def keep(request: web.Request, handler: Next) -> web.StreamResponse:
        """Find out who asks, whether it may, and when it is its turn."""
        caller = gate.check(request, is_open=request.path in OPEN_PATHS)
        request[CALLER] = caller
        key = f"from {client_of(request)}" if caller is None else caller.key
        fair = request.app[FAIR]
        if request.path == UNLIMITED:
            fair.heard(key)
            return await permitted(request, handler)
        return await fair.serve(key, lambda: permitted(request, handler))

    return keep


@web.middleware
async def _guarded(request: web.Request, handler: Next) -> web.StreamResponse:
    """Tell the connection's guard that its request is being answered."""
    guard = guard_of(request)
    if guard is None:
        return await handler(request)
    guard.begin()
    try:
        return await handler(request)
    finally:
        guard.end()


async def _expected(request: web.Request) -> None:
    """Answer ``Expect: 100-continue``; a body that is too long is refused before it is sent."""
    is_short = (request.content_length or 0) <= request.client_max_size
    if _expects_what_it_may(request) and is_short and request.transport is not None:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _expects_what_it_may(request: web.Request) -> bool:
    return request.headers.get("Expect", "100-continue").lower() == "100-continue"


def _problems() -> Middleware:
    """Return the middleware that gives requests their ids and turns errors into problem+json."""
    # asked of the system once: to ask it for each request takes as long as the gate
    begin = f"r-{secrets.token_hex(4)}"
    numbers = itertools.count()

    @web.middleware
    async def answer(request: web.Request, handler: Next) -> web.StreamResponse:
        request_id = request[REQUEST_ID] = f"{begin}{next(numbers):08x}"
        try:
            response = await handler(request)
        except TenureError as error:
            response = problem_response(error.problem(), request_id)
        except web.HTTPException as error:
            response = _http_problem(request, error, request_id)
        except Exception as error:  # noqa: BLE001 - every answer is a problem
            response = problem_response(_failure(request, error, request_id), request_id)
        if not response.prepared:
            response.headers["X-Request-Id"] = request_id
        return response

    return answer


def _failure(request: web.Request, error: Exception, request_id: str) -> Problem:
    """Return the problem of what nobody refused: a client that went, files, or a defect."""
    asked = (request_id, request.method, request.path)
    is_gone = request.transport is None or request.transport.is_closing()
    if isinstance(error, CUT) and is_gone:
        log.info("request %s: %s %s: its client went away", *asked)
        return Problem("cut", "the connection broke off", 400)
    if isinstance(error, OSError | sqlite3.Error) and not isinstance(error, ConnectionError):
        log.error("request %s: %s %s: the daemon's files: %s", *asked, error)
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Problem("disk_failed", f"the daemon cannot use its files: {told}", 503)
    log.error("request %s: %s %s failed", *asked, exc_info=error)
    return Problem("internal", f"a defect of the daemon; its log has request {request_id}", 500)


def _http_problem(
    request: web.Request, error: web.HTTPException, request_id: str
) -> web.StreamResponse:
    """Return the problem of what aiohttp itself refused: unknown path, method, size."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        problem = Problem("method_not_allowed", f"this path allows {allowed}", 405)
        return problem_response(problem, request_id, headers={"Allow": allowed})
    if isinstance(error, web.HTTPNotFound):
        detail = f"nothing is at {request.path[:200]!r}; /openapi.json lists all paths"
        return problem_response(Problem("unknown_path", detail, 404), request_id)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return problem_response(Problem("too_large", "the body is too large", 413), request_id)
    detail = error.reason or "the request cannot be understood"
    return problem_response(Problem("bad_request", detail, error.status), request_id)


def _route(endpoint: Endpoint, backend: Backend, options: Options) -> Next:
    """Return aiohttp's handler of an endpoint: check the query and body, then call it."""
    blank = cache(endpoint.query)

    async def serve(request: web.Request) -> web.StreamResponse:
        if not _expects_what_it_may(request):
            raise refused(417, "unknown_expectation", "must be 100-continue", field="Expect")
        query = checked_query(endpoint.query, _single(request)) if request.query_string else blank()
        document, body = await _taken(request, endpoint, options)
        header = request.headers.get("Authorization")
        if header is not None and request[CALLER] is not None:
            # it may have been revoked while the request waited, or its body was sent
            options.access.of_token(bearer(header))
        seen = seen_by(request[CALLER], options.permits, backend)
        call = Call(request, seen, options, request[REQUEST_ID], document, body, query)
        return await endpoint.handler(call)

    return serve


async def _taken(
    request: web.Request, endpoint: Endpoint, options: Options
) -> tuple[object, BaseModel | None]:
    """Return a request's body and its model; large ones are checked off the loop, few at a time.

    Raises HttpProblem (400, 408, 413, 415, 422, 503).
    """
    if endpoint.is_raw:
        return _checked(endpoint, b"")
    limit = options.max_plan_bytes if endpoint.is_large else options.max_body_bytes
    size = limit if request.content_length is None else min(request.content_length, limit)
    if not request.body_exists or size <= AT_ONCE_BYTES:
        return _checked(endpoint, await _read(request, endpoint, options))
    caller, bulk = request[CALLER], request.app[BULK]
    with bulk.room(client_of(request), "" if caller is None else caller.key, size):
        raw = await _read(request, endpoint, options)
        if len(raw) <= AT_ONCE_BYTES:
            return _checked(endpoint, raw)
        if endpoint.body is not None:
            endpoint.body.model_rebuild()  # see ``complete``
        async with bulk.checking:
            begun_s = time.perf_counter()
            try:
                return await asyncio.to_thread(_checked, endpoint, raw)
            finally:
                # the loop waits for the interpreter meanwhile
                charger()(time.perf_counter() - begun_s)


def _checked(endpoint: Endpoint, raw: bytes) -> tuple[object, BaseModel | None]:
    """Return a body as it came and its model. Raises HttpProblem (400, 413, 422)."""
    require_few(raw, MAX_MANY_VALUES if endpoint.is_large else MAX_VALUES)
    if endpoint.is_large and endpoint.body is not None and len(raw) > AT_ONCE_BYTES:
        # lengths first: the model ends at the first row that is wrong, before all are in memory
        body = checked_body(endpoint.body, raw)
        return parse_json(raw), body
    document = parse_json(raw) if raw else None
    if endpoint.body is not None:
        return document, checked_body(endpoint.body, raw or b"{}")
    if document not in (None, {}):
        raise refused(422, "invalid_input", "this request takes no body", field="body")
    return document, None


def _single(request: web.Request) -> dict[str, str]:
    """Return the query parameters; HttpProblem (422) for one given twice."""
    found: dict[str, str] = {}
    for name, value in request.query.items():
        if name in found:
            told = f"{name[:64]} is given twice"
            raise refused(422, "invalid_input", told, field=name[:64])
        found[name] = value
    return found


async def _read(request: web.Request, endpoint: Endpoint, options: Options) -> bytes:
    """Return the body, b"" where there is none. Raises HttpProblem (400, 408, 413, 415)."""
    if not request.body_exists:
        return _nothing(endpoint)
    require_plain(request)
    limit = options.max_plan_bytes if endpoint.is_large else options.max_body_bytes
    if (request.content_length or 0) > limit:
        raise refused(413, "too_large", f"the body may have {limit} bytes")
    raw = await _whole(request, limit, options.body_s)
    if not raw.strip():
        return _nothing(endpoint)
    if request.content_type != "application/json":
        detail = "Content-Type must be application/json"
        raise refused(415, "unsupported_media", detail, field="Content-Type")
    return raw


async def _whole(request: web.Request, limit: int, wait_s: float) -> bytes:
    if request.content.is_eof():  # short ones come with the head: nothing to wait for
        return await _joined(request, limit)
    try:
        async with asyncio.timeout(wait_s):
            return await _joined(request, limit)
    except TimeoutError:
        detail = f"the body did not arrive within {wait_s:g} s"
        raise refused(408, "too_slow", detail, field="body") from None


async def _joined(request: web.Request, limit: int) -> bytes:
    raw = bytearray()
    try:
        async for part in request.content.iter_any():
            raw += part
            if len(raw) > limit:
                raise refused(413, "too_large", f"the body may have {limit} bytes")
    except CUT:
        raise refused(400, "cut", "the body broke off", field="body") from None
    return bytes(raw)


def _nothing(endpoint: Endpoint) -> bytes:
    if endpoint.needs_body:
        raise refused(400, "malformed_json", "a JSON body is needed", field="body")
    return b""
