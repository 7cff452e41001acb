"""From problem+json back to the tree of errors."""

from __future__ import annotations

import json

from tenure.model.errors import (
    Conflict,
    EngineError,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    TenureError,
    Unauthorized,
    Unavailable,
)
from tenure.model.jsons import Json

_BY_STATUS: dict[int, type[TenureError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: NotFound,
    412: Conflict,
    429: Unavailable,
    502: EngineError,
    503: Unavailable,
    504: EngineError,
}
#: Members of a problem that its error holds elsewhere.
_STANDARD = frozenset(("type", "title", "status", "code", "detail", "errors"))


class DaemonUnreachable(Unavailable):
    """Nothing answers at the daemon's address. ``was_sent``: the request may have arrived."""

    code = "daemon_unreachable"

    def __init__(self, detail: str, *, was_sent: bool = False) -> None:
        super().__init__(detail)
        self.was_sent = was_sent


def error_from(status: int, body: bytes) -> TenureError:
    """Return the error of an answer with a status of 400 or above."""
    problem = _problem(body)
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = InvalidInput if 400 <= status < 500 else TenureError
    reasons = problem.get("reasons")  # of /readyz
    why = "; ".join(map(str, reasons)) if isinstance(reasons, list) else ""
    detail = str(problem.get("detail") or why or f"the daemon answered {status}")
    extra = {key: value for key, value in problem.items() if key not in _STANDARD}
    code = problem.get("code")
    error = kind(detail, code=str(code) if code else None, fields=_fields(problem), extra=extra)
    error.http_status = status
    return error


def _problem(body: bytes) -> Json:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _fields(problem: Json) -> tuple[FieldError, ...]:
    listed = problem.get("errors")
    faults = [f for f in listed if isinstance(f, dict)] if isinstance(listed, list) else []
    return tuple(FieldError(str(f.get("field", "")), str(f.get("message", ""))) for f in faults)
