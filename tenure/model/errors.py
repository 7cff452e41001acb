"""The tree of tenure's errors; API and CLI map from the class attributes.

TenureError
├── InvalidInput        the caller's words are wrong: 422 / exit 2
├── NotFound            404
├── Conflict            409
├── Unauthorized        401: nobody knows who asks
├── Forbidden           403: who asks may not
├── Unavailable         503, retryable
└── EngineError         an engine said no or did not answer
    ├── EngineRefused   it said no (status below 500, or a definite 500)
    └── EngineUnclear   time-out, cut: it may have happened
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of an input: ``path`` such as ``executors`` or ``nodes.2.url``."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as the API shows it (RFC 9457): a stable ``code``, a sentence, the fields."""

    code: str
    detail: str
    status: int = 422
    fields: tuple[FieldError, ...] = ()
    extra: dict[str, object] | None = None


class TenureError(Exception):
    """The root of all errors raised on purpose."""

    code = "internal"
    http_status = 500
    exit_code = 1
    retryable = False

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        fields: tuple[FieldError, ...] = (),
        extra: dict[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.fields = fields
        self.extra = extra

    def problem(self) -> Problem:
        """Return what the API shows of this error."""
        return Problem(self.code, self.detail, self.http_status, self.fields, self.extra)


class InvalidInput(TenureError):
    code = "invalid_input"
    http_status = 422
    exit_code = 2


class NotFound(TenureError):
    code = "not_found"
    http_status = 404


class Conflict(TenureError):
    code = "conflict"
    http_status = 409


class Unauthorized(TenureError):
    code = "unauthorized"
    http_status = 401


class Forbidden(TenureError):
    code = "forbidden"
    http_status = 403


class Unavailable(TenureError):
    code = "unavailable"
    http_status = 503
    retryable = True


class EngineError(TenureError):
    code = "engine_error"
    http_status = 502


class EngineRefused(EngineError):
    code = "engine_refused"


class EngineUnclear(EngineError):
    code = "engine_unclear"
    retryable = True
