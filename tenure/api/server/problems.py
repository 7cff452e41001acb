"""Errors as HTTP answers: problem+json (RFC 9457) with a stable ``code``."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import NotRequired

from aiohttp import web
from typing_extensions import TypedDict

from tenure.model.errors import FieldError, Problem, TenureError
from tenure.model.jsons import Json

MEDIA = "application/problem+json"
#: Of the response: the problem's code.
CODE = web.ResponseKey("code", str)
#: A document with a thousand faults is answered by its first ones.
MAX_FIELDS = 50


class FieldFault(TypedDict):
    """One fault of an input: ``field`` such as ``executors`` or ``moves.2.to``."""

    field: str
    message: str


class ProblemView(TypedDict):
    """RFC 9457 problem details. ``code`` is stable; ``detail`` is for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: NotRequired[list[FieldFault]]


class HttpProblem(TenureError):
    """A problem with a status of its own, such as an answer of the core or a bad request."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(
            problem.detail, code=problem.code, fields=problem.fields, extra=problem.extra
        )
        self.http_status = problem.status
        self.retryable = problem.status == HTTPStatus.SERVICE_UNAVAILABLE


def refused(status: int, code: str, detail: str, *, field: str = "") -> HttpProblem:
    """Return the error for one refused request, naming the faulty field where there is one."""
    fields = (FieldError(field, detail),) if field else ()
    return HttpProblem(Problem(code, detail, status, fields))


def problem_body(problem: Problem, request_id: str) -> Json:
    """Return the JSON of a problem; members of ``extra`` never hide the standard ones."""
    body: Json = dict(problem.extra or {})
    view = ProblemView(
        type=f"urn:tenure:problem:{problem.code}",
        title=title_of(problem.status),
        status=problem.status,
        code=problem.code,
        detail=problem.detail,
        request_id=request_id,
    )
    if problem.fields:
        faults = problem.fields[:MAX_FIELDS]
        view["errors"] = [FieldFault(field=f.path, message=f.message) for f in faults]
    body.update(view)
    return body


def problem_response(
    problem: Problem, request_id: str, *, headers: dict[str, str] | None = None
) -> web.Response:
    """Return the HTTP response of a problem."""
    text = json.dumps(problem_body(problem, request_id), default=str)
    response = web.Response(
        status=problem.status, body=text.encode(), content_type=MEDIA, headers=headers
    )
    response[CODE] = problem.code
    if problem.status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="tenure"'
    if problem.status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        wait_s = (problem.extra or {}).get("retry_after_s")
        seconds = math.ceil(wait_s) if isinstance(wait_s, float) else 1
        response.headers["Retry-After"] = str(max(1, seconds))
    return response


def title_of(status: int) -> str:
    """Return the phrase of an HTTP status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
