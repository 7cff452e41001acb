"""HTTP/1.1 to the daemon over a unix socket, TCP or TLS; one connection a request."""

from __future__ import annotations

import http.client
import io
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from tenure.client.errors import DaemonUnreachable, error_from
from tenure.client.target import Target
from tenure.model.errors import TenureError
from tenure.model.handshake import Fault, fault_of

#: A snapshot of the largest fleet is some 20 MB; more than this is no answer of a daemon.
MAX_ANSWER_BYTES = 256 << 20
CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Request:
    """A request ready to be sent. ``path`` holds the query, quoted."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self._path)
        except BaseException:
            sock.close()
            raise
        self.sock = sock


def send(target: Target, request: Request, timeout_s: float) -> bytes:
    """Return the answer's body.

    Raises DaemonUnreachable when nothing (whole) comes back within ``timeout_s`` a step, or the
    TenureError that the daemon's problem stands for; InvalidInput ``token_in_clear`` before
    anything is sent.
    """
    connection, response = _open(target, request, timeout_s)
    with closing(connection):
        try:
            body = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise _cut(target, error) from None
    if response.status >= 400:
        raise error_from(response.status, body)
    return body


def stream(target: Target, request: Request, timeout_s: float) -> Iterator[bytes]:
    """Yield the parts of an open-ended answer as they come.

    ``timeout_s`` is the longest silence. Raises as ``send`` does.
    """
    connection, response = _open(target, request, timeout_s)
    with closing(connection):
        if response.status >= 400:
            raise error_from(response.status, response.read(MAX_ANSWER_BYTES))
        while True:
            try:
                part = response.read1(CHUNK_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise _cut(target, error) from None
            if not part:
                if response.length:  # of a stated length: this much of it never came
                    raise _cut(target, ConnectionError(f"{response.length} bytes are missing"))
                return
            yield part


def _open(
    target: Target, request: Request, timeout_s: float
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    target.require_covered()
    connection: http.client.HTTPConnection
    if target.socket_path:
        connection = _UnixConnection(target.socket_path, timeout_s)
    elif target.tls is not None:
        connection = http.client.HTTPSConnection(
            target.host, target.port, timeout=timeout_s, context=target.tls
        )
    else:
        connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout_s)
    try:
        connection.connect()
    except OSError as error:
        connection.close()
        raise _unreachable(target, error) from None
    headers = {"Accept": "application/json", "User-Agent": "tenure", **request.headers}
    if target.token:
        headers["Authorization"] = f"Bearer {target.token}"
    body: bytes | io.BytesIO | None = request.body
    if request.body is not None and len(request.body) > CHUNK_BYTES:
        # in pieces, each with its own time: all of it at once is too much for a slow link
        headers["Content-Length"] = str(len(request.body))
        body, connection.blocksize = io.BytesIO(request.body), CHUNK_BYTES
    try:
        connection.request(request.method, request.path, body, headers)
        return connection, connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise _cut(target, error) from None
    except BaseException:
        connection.close()
        raise


def _unreachable(target: Target, error: OSError) -> TenureError:
    why = error.strerror or str(error)
    fault = fault_of(error, has_certificate=True)
    if fault is not None:
        return DaemonUnreachable(f"no TLS with {target.url}: {_remedied(fault, target)}")
    if isinstance(error, PermissionError):
        detail = f"no permission to open {target.url}; join the group tenure or become root"
    else:
        detail = f"no daemon answers at {target.url} ({why}); start one with `tenured run`"
        detail += ", or say where it is with --host or TENURE_HOST"
    return DaemonUnreachable(detail)


_REMEDIES = {
    Fault.AUTHORITY: "name its authority with --ca or TENURE_CA",
    Fault.NAME: "use a name that it holds",
    Fault.UNWANTED: "set TENURE_CERT and TENURE_KEY to one signed by the daemon's tls.client_ca",
    Fault.WANTED: "set TENURE_CERT and TENURE_KEY to one signed by the daemon's tls.client_ca",
    Fault.PLAIN: "use tcp://, or the port of an https:// listener",
}


def _remedied(fault: Fault, target: Target) -> str:
    remedy = _REMEDIES.get(fault)
    return fault.value.format(peer=target.host) + (f"; {remedy}" if remedy else "")


def _cut(target: Target, error: Exception) -> TenureError:
    fault = fault_of(error, has_certificate=True)
    if fault is not None:  # the handshake's own end: the daemon never saw the request
        return DaemonUnreachable(f"no TLS with {target.url}: {_remedied(fault, target)}")
    why = str(error) or type(error).__name__
    return DaemonUnreachable(f"{target.url} broke off: {why}", was_sent=True)
