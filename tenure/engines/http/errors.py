"""The one place where an engine's answers and a transport's exceptions become our errors.

EngineError
├── EngineUnreachable   certain: the request never left (no connection)
├── EngineUnclear       time-out, cut, an answer that is not the engine's: it may have happened
└── EngineAnswer        a definite answer of the engine, with its status

The decision is by status code and exception type, never by text: texts change with versions
(``is_held`` is the one exception, for versions that will not change any more).
"""

from __future__ import annotations

import json
import re

import aiohttp

from tenure.model.document import at, text
from tenure.model.errors import EngineError, EngineRefused, EngineUnclear
from tenure.model.handshake import Fault, fault_of

HTTP_BAD_REQUEST = 400
HTTP_NOT_FOUND = 404
HTTP_CONFLICT = 409
HTTP_SERVER_ERROR = 500

_UNCLEAR_STATUS = frozenset((408, 502, 503, 504))
"""What a proxy, or an engine whose containerd is away, says: the request may still be obeyed."""

_DETAIL_CHARS = 2_000
"""Bound of a message kept from an engine."""


class EngineUnreachable(EngineError):
    """No connection was made: nothing was sent, so nothing can happen later."""

    code = "unreachable"
    http_status = 503
    retryable = True


class EngineAnswer(EngineRefused):
    """The engine said no, with an HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        if status == HTTP_NOT_FOUND:
            self.http_status = HTTP_NOT_FOUND
            self.code = "not_found"


_REMEDIES = {
    Fault.EXPIRED: "renew it",
    Fault.NAME: "reach the engine by a name or address that its certificate holds, or issue one "
    "that holds this one (subjectAltName)",
    Fault.AUTHORITY: "set tls.ca to the authority that signed it",
    Fault.WANTED: "set tls.cert and tls.key to one signed by the engine's --tlscacert",
    Fault.UNWANTED: "set tls.cert and tls.key to one that is valid and signed by the engine's "
    "--tlscacert",
    Fault.PLAIN: "use the port of its --tlsverify, or tcp:// without tls",
}


def translated(error: Exception, asked: str, *, has_certificate: bool = False) -> EngineError:
    """Return our error for an exception of the transport while ``asked`` was under way.

    Only a failure to connect, of which a TLS handshake is a part, is certain not to have sent
    anything. ``has_certificate``: we showed a client certificate.
    """
    fault = fault_of(error, has_certificate=has_certificate)
    if fault is not None:
        return EngineUnreachable(f"{asked}: {_tls_detail(fault, error)}")
    silent = "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
    said = str(error).replace(" ssl:default", "")  # aiohttp's word for: no setting of our own
    detail = f"{asked}: {said or silent}"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return EngineUnreachable(detail)
    return EngineUnclear(detail)


def _tls_detail(fault: Fault, error: Exception) -> str:
    said = f" ({error})" if fault is Fault.OTHER else ""
    remedy = _REMEDIES.get(fault)
    return fault.value.format(peer="the engine") + (f": {remedy}" if remedy else said)


def translated_docker(error: Exception, asked: str) -> EngineError:
    """Return our error for an exception of the docker package.

    An answer with a status is judged as elsewhere; without one, what the package itself objects
    to (a name that is none) is a definite no, and a broken connection leaves it open.
    """
    from docker.errors import APIError, DockerException

    status = error.status_code if isinstance(error, APIError) else None
    if isinstance(error, APIError) and status is not None:
        if status in _UNCLEAR_STATUS:
            return EngineUnclear(f"{asked}: HTTP {status}")
        return EngineAnswer(status, str(error.explanation or error)[:_DETAIL_CHARS])
    if isinstance(error, DockerException):
        return EngineAnswer(HTTP_BAD_REQUEST, f"{asked}: {error}"[:_DETAIL_CHARS])
    return EngineUnclear(f"{asked}: {error}"[:_DETAIL_CHARS])


def refusal(status: int, body: bytes, asked: str) -> EngineError:
    """Return our error for an HTTP status of 400 or more.

    A 500 is definite only if it is the engine's own (JSON with a message).
    """
    message = _message(body)
    if status == HTTP_BAD_REQUEST and message is None:
        # the one answer that Docker's TLS port has for plain HTTP is not in Docker's own form
        return EngineAnswer(status, f"{asked}: HTTP 400 of no Docker engine; does it want TLS?")
    is_foreign = status >= HTTP_SERVER_ERROR and message is None
    if status in _UNCLEAR_STATUS or is_foreign:
        return EngineUnclear(f"{asked}: HTTP {status} {message or ''}".rstrip())
    return EngineAnswer(status, message or f"{asked}: HTTP {status}")


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
"""Of containers, execs, and images (``sha256:...``)."""

_HELD = "id already in use"
"""What Docker up to 22 says, with a 500, when its containerd holds a task of a container that it
does not know to run. Newer ones end that task instead."""


def is_held(text: str) -> bool:
    """Return whether an engine says that it can neither start nor end a container.

    The one place where a text decides: the status is a 500, like that of a port that is taken, and
    what follows must differ, for here a process of the container may run.
    """
    return _HELD in text


def parsed(body: bytes, asked: str) -> object:
    """Return the JSON of an answer; raise EngineUnclear if it is none."""
    try:
        return json.loads(body)
    except ValueError as error:
        raise EngineUnclear(f"{asked}: the answer is not JSON") from error


def made_id(body: bytes, asked: str) -> str:
    """Return the id of what an engine has made; raise EngineUnclear if its answer has none."""
    found = text(parsed(body, asked), "Id")
    if not _ID.fullmatch(found):
        raise EngineUnclear(f"{asked}: the answer has no id")
    return found


def _message(body: bytes) -> str | None:
    """Return the text of Docker's error object, None if ``body`` is not one."""
    try:
        message = at(json.loads(body), "message")
    except ValueError:
        return None
    return message[:_DETAIL_CHARS] if isinstance(message, str) else None
