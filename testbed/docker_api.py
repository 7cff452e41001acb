"""The few engine API calls the testbed itself needs, over an engine's unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any, BinaryIO

from testbed.errors import TestbedError


class _UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket's path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def call(
    path: Path,
    method: str,
    target: str,
    body: dict[str, Any] | BinaryIO | None = None,
    *,
    timeout_s: float = 30.0,
) -> tuple[int, bytes]:
    """Send one request; return status and body. Raises OSError if the engine does not answer.

    A dict is sent as JSON, a file as a tar archive.
    """
    headers = {}
    payload: str | BinaryIO | None
    if isinstance(body, dict):
        headers["Content-Type"], payload = "application/json", json.dumps(body)
    else:
        payload = body
        if body is not None:
            headers["Content-Type"] = "application/x-tar"
    connection = _UnixConnection(path, timeout_s)
    try:
        connection.request(method, target, payload, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise ConnectionError(f"{path}: {error!r}") from error
    finally:
        connection.close()


def is_up(path: Path, *, timeout_s: float = 1.0) -> bool:
    """Return whether the engine answers a ping within `timeout_s`."""
    try:
        return call(path, "GET", "/_ping", timeout_s=timeout_s)[0] == 200
    except OSError:
        return False


def ensure_image(path: Path, reference: str, archive: Path, *, timeout_s: float = 30.0) -> None:
    """Load an image archive unless the engine has the image; raise TestbedError on failure."""
    if call(path, "GET", f"/images/{reference}/json")[0] == 200:
        return
    with archive.open("rb") as file:
        status, answer = call(path, "POST", "/images/load?quiet=1", file, timeout_s=timeout_s)
    # A failed load may still answer 200, with the error in the body.
    if status != 200 or b'"error"' in answer:
        raise TestbedError(f"loading {reference}: {status} {answer.decode(errors='replace')}")
