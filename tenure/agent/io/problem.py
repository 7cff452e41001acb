"""How the agent says no: problem+json; and what is asked for in queries."""

from __future__ import annotations

import json
from http import HTTPStatus

from aiohttp import web


def seq_in(request: web.Request) -> int | None:
    """Return the number after which rows are asked for (``after``), None where it is none."""
    after = request.query.get("after", "0")
    return int(after) if after.isascii() and after.isdigit() and len(after) <= 20 else None


def invalid(detail: str) -> web.Response:
    """Return the answer to a request that makes no sense."""
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", detail)


def problem(status: HTTPStatus, code: str, detail: str) -> web.Response:
    """Return an answer with a stable code and words for people."""
    body = {
        "type": f"urn:tenure:problem:{code}",
        "title": status.phrase,
        "status": status.value,
        "code": code,
        "detail": detail,
    }
    text = json.dumps(body)
    return web.Response(text=text, status=status.value, content_type="application/problem+json")
