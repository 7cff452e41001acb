"""How the agent says no: problem+json."""

from __future__ import annotations

import json
from http import HTTPStatus

from aiohttp import web


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
