"""aiohttp's side of a connection, with our words for what goes wrong before a request is one.

Bytes that are no request are answered as problem+json and logged by their kind alone: the parser's
own message quotes them, and the line that it did not like may hold a token. A client that went away
is no error of ours.
"""

from __future__ import annotations

import logging
from typing import Any

from aiohttp import web
from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.http_exceptions import HttpProcessingError

from tenure.api.server.problems import problem_response
from tenure.model.errors import Problem

log = logging.getLogger("tenure.api")
#: What a reader of the Server header learns.
SERVER = "tenure"
#: What a body's reader raises once nothing whole can come any more: the client went away, or sent
#: something that is no body.
CUT = (web.RequestPayloadError, ClientPayloadError, ConnectionError, HttpProcessingError)
#: Kinds of what is no request, by the parser's classes.
_KINDS = {
    "BadHttpMethod": "the request line has no method",
    "BadStatusLine": "the request line is none of HTTP",
    "InvalidURLError": "the request line has no path",
    "LineTooLong": "the request line or a header is too long",
    "InvalidHeader": "a header is none",
    "ContentLengthError": "the body is not as long as stated",
    "TransferEncodingError": "the body is not encoded as stated",
    "ContentEncodingError": "the body is not encoded as stated",
}


class Connection(web.RequestHandler):
    """A connection of the API."""

    __slots__ = ()

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log what is not the client's doing."""
        error = kw.get("exc_info")
        if isinstance(error, CUT):
            log.info("a connection ended in mid-request: %s", type(error).__name__)
        else:
            log.error(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the problem of a request that never reached the application, and end there."""
        if isinstance(exc, HttpProcessingError):
            status = exc.code if 400 <= exc.code < 500 else 400
            told = _KINDS.get(type(exc).__name__, "the head of the request cannot be read")
            problem = Problem("malformed_request", told, status)
            log.info("a request that cannot be read: %s", told)
        else:
            self.log_exception("a request failed", exc_info=exc)
            problem = Problem("internal", "a defect of the daemon; see its log", status)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun, another cannot follow")
        response = problem_response(problem, "")
        response.headers["Server"] = SERVER
        response.force_close()
        return response


async def name_server(_: web.Request, response: web.StreamResponse) -> None:
    """Name no versions in the Server header, which is aiohttp's otherwise."""
    response.headers["Server"] = SERVER
