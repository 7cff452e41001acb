"""Find the daemon: where it listens, and the token where one is needed."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tenure.model.errors import InvalidInput

SYSTEM_SOCKET = Path("/run/tenure/tenured.sock")
SYSTEM_TOKEN = Path("/var/lib/tenure/token")
USER_STATE = Path(".local/state/tenure")
DEFAULT_PORT = 7480
MAX_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon's address: ``socket_path`` for a unix socket, else ``host`` and ``port``."""

    socket_path: str = ""
    host: str = ""
    port: int = 0
    token: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """Return the address as people write it."""
        if self.socket_path:
            return f"unix://{self.socket_path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{self.port}"


def discover(host: str = "", token_file: str = "", *, env: Mapping[str, str]) -> Target:
    """Return the daemon's address and token.

    The address: ``host``, else TENURE_HOST, else the system's socket, else the user's own. The
    token: ``token_file``, else TENURE_TOKEN, else TENURE_TOKEN_FILE, else the default token file
    of the system or the user. A unix socket needs none. Raises InvalidInput for a URL that is none
    or a named token file that cannot be read.
    """
    home = Path(env.get("HOME") or "/")
    url = host or env.get("TENURE_HOST", "") or f"unix://{_default_socket(home)}"
    target = parse(url)
    if target.socket_path:
        return target
    return Target(host=target.host, port=target.port, token=_token(token_file, env, home))


def parse(url: str) -> Target:
    """Return the address in ``unix:///path``, ``tcp://host:port``, ``http://host:port``."""
    try:
        parts = urlsplit(url if "://" in url else f"tcp://{url}")
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"{url!r} is no address of a daemon: {error}") from None
    if parts.scheme == "unix" and parts.path:
        return Target(socket_path=parts.path)
    is_bare = parts.path in ("", "/") and not parts.query
    if parts.scheme in ("tcp", "http") and parts.hostname and is_bare:
        return Target(host=parts.hostname, port=port or DEFAULT_PORT)
    hint = "give unix:///path/to/tenured.sock or tcp://host:port"
    raise InvalidInput(f"{url!r} is no address of a daemon; {hint}")


def _default_socket(home: Path) -> Path:
    own = home / USER_STATE / "tenured.sock"
    return own if not _is_socket(SYSTEM_SOCKET) and _is_socket(own) else SYSTEM_SOCKET


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _token(token_file: str, env: Mapping[str, str], home: Path) -> str:
    if token_file:
        return read_token(Path(token_file))
    if env.get("TENURE_TOKEN"):
        return env["TENURE_TOKEN"].strip()
    if env.get("TENURE_TOKEN_FILE"):
        return read_token(Path(env["TENURE_TOKEN_FILE"]))
    for path in (SYSTEM_TOKEN, home / USER_STATE / "token"):
        try:
            return read_token(path)
        except InvalidInput:
            continue  # the daemon will say that a token is needed
    return ""


def read_token(path: Path) -> str:
    """Return the token in a file. Raises InvalidInput where there is none."""
    try:
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
    except OSError as error:
        raise InvalidInput(f"cannot read the token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} holds no token") from None
    if not token.isprintable() or not token:
        raise InvalidInput(f"{path} holds no token")
    return token
