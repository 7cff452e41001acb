"""Find the daemon: where it listens, and the token and the certificates where some are needed."""

from __future__ import annotations

import ipaddress
import ssl
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from tenure.model.access import TlsFiles
from tenure.model.errors import InvalidInput

SYSTEM_SOCKET = Path("/run/tenure/tenured.sock")
SYSTEM_TOKEN = Path("/var/lib/tenure/token")
USER_STATE = Path(".local/state/tenure")
DEFAULT_PORT = 7480
DEFAULT_TLS_PORT = 7443
MAX_TOKEN_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon's address: ``socket_path`` for a unix socket, else ``host`` and ``port``.

    ``tls`` None: no TLS. It must check the daemon's certificate and name. ``may_be_clear``: the
    token may go over a network without TLS.
    """

    socket_path: str = ""
    host: str = ""
    port: int = 0
    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    may_be_clear: bool = False

    @property
    def is_far(self) -> bool:
        """Whether the daemon may be on another machine: it is reached over the network."""
        return not self.socket_path and not _is_loopback(self.host)

    def require_covered(self) -> None:
        """Raise InvalidInput where a request would show the token to the network."""
        if self.token and self.is_far and self.tls is None and not self.may_be_clear:
            raise InvalidInput(
                f"the token would go to {self.url} in clear, for everyone on the way to read: use "
                f"https://, or a tunnel to a loopback address; {CLEAR}=1 sends it all the same",
                code="token_in_clear",
            )

    @property
    def url(self) -> str:
        """Return the address as people write it."""
        if self.socket_path:
            return f"unix://{self.socket_path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'tcp'}://{host}:{self.port}"


#: Set to 1, the token may go over a network in clear.
CLEAR = "TENURE_TOKEN_IN_CLEAR"
MakeContext = Callable[[TlsFiles], ssl.SSLContext]
"""Makes a context that checks the host name; raises InvalidInput naming a faulty file."""


def discover(
    host: str = "",
    token_file: str = "",
    *,
    env: Mapping[str, str],
    ca_file: str = "",
    make_context: MakeContext | None = None,
) -> Target:
    """Return the daemon's address, token and TLS.

    The address: ``host``, else TENURE_HOST, else the system's socket, else the user's own. The
    token: ``token_file``, else TENURE_TOKEN, else TENURE_TOKEN_FILE, else the default token file
    of the system or the user. Over a unix socket only ``token_file`` is sent. For ``https://``:
    the authority in ``ca_file``, else TENURE_CA, else the system's; TENURE_CERT and TENURE_KEY
    where the daemon asks for a certificate. TENURE_TOKEN_IN_CLEAR=1: the token may go over a
    network without TLS. Raises InvalidInput for a URL that is none or a named file that cannot
    be read.
    """
    home = Path(env.get("HOME") or "/")
    url = host or env.get("TENURE_HOST", "") or f"unix://{_default_socket(home)}"
    target = parse(url)
    if target.socket_path:
        return replace(target, token=read_token(Path(token_file))) if token_file else target
    if target.tls is not None and make_context is not None:
        target = replace(target, tls=make_context(_files(ca_file, env)))
    may_be_clear = env.get(CLEAR, "") == "1"
    return replace(target, token=_token(token_file, env, home), may_be_clear=may_be_clear)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _files(ca_file: str, env: Mapping[str, str]) -> TlsFiles:
    ca = ca_file or env.get("TENURE_CA", "")
    return TlsFiles(ca, env.get("TENURE_CERT", ""), env.get("TENURE_KEY", ""))


def parse(url: str) -> Target:
    """Return the address in ``unix:///path``, ``tcp://host:port`` (or http) or ``https://host``.

    Over ``https://`` the system's authorities are trusted.
    """
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
    if parts.scheme == "https" and parts.hostname and is_bare:
        tls = ssl.create_default_context()
        return Target(host=parts.hostname, port=port or DEFAULT_TLS_PORT, tls=tls)
    hint = "give unix:///path/to/tenured.sock, tcp://host:port or https://host:port"
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
