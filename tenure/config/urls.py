"""The URLs a configuration may name: listeners, engines, Redis. Shapes only; nothing is dialled."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from tenure.model.access import parse_ssh

#: The kernel's bound on the path of a unix socket (sun_path less the final NUL).
MAX_SOCKET_BYTES = 107

_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the API listens: a unix socket at ``path``, else TCP at ``host``:``port`` (0: any).

    ``https://`` is TCP with TLS.
    """

    url: str
    path: Path | None = None
    host: str = ""
    port: int = 0

    @property
    def is_tls(self) -> bool:
        return self.url.startswith("https:")

    @property
    def is_wildcard(self) -> bool:
        """Whether it listens on every address of the machine."""
        return self.host in ("0.0.0.0", "::")


def parse_listener(text: str) -> Listener:
    """Return the listener that ``text`` names; raise ValueError with a remedy."""
    url = _split(text)
    if url.scheme == "unix":
        return Listener(text, path=_socket_path(url))
    if url.scheme not in ("tcp", "https"):
        raise ValueError("must be unix:///path, tcp://127.0.0.1:port or https://address:port")
    host, port = _host_and_port(url)
    if url.scheme == "tcp" and not _is_loopback(host):
        raise ValueError("is not a loopback address; use https:// there, with a certificate in tls")
    return Listener(text, host=host, port=port)


def check_engine_url(text: str) -> str:
    """Return the URL of a Docker engine, or raise ValueError with a remedy."""
    url = _split(text)
    if url.scheme == "ssh":
        parse_ssh(text)
    elif url.scheme == "unix":
        _socket_path(url)
    elif url.scheme in ("tcp", "https"):
        _, port = _host_and_port(url)
        if port == 0:
            raise ValueError("port 0 is no engine's port")
    else:
        raise ValueError(
            "must be unix:///path/to/docker.sock, tcp://host:port, https://host:port or "
            "ssh://user@host"
        )
    return text


def check_agent_url(text: str) -> str:
    """Return the URL of a node's agent, or raise ValueError with a remedy."""
    listener = parse_listener(text)
    if listener.path is None and listener.port == 0:
        raise ValueError("port 0 is no agent's port")
    if listener.is_wildcard:
        raise ValueError("is no address to reach an agent at; name the node's own")
    return text


def check_redis_url(text: str) -> str:
    """Return the URL of a Redis, or raise ValueError with a remedy."""
    url = _split(text)
    if url.scheme == "unix":
        if not url.path.startswith("/"):
            raise ValueError("needs an absolute path: unix:///run/redis/redis.sock")
    elif url.scheme not in ("redis", "rediss"):
        raise ValueError("must be redis://, rediss:// or unix://, or null for a private Redis")
    elif not url.hostname:
        raise ValueError("names no host: redis://host:6379/0")
    elif not _is_loopback(url.hostname):
        _check_remote_redis(url)
    return text


def _check_remote_redis(url: SplitResult) -> None:
    """Raise ValueError where anyone on the network could write to this Redis, or pose as it."""
    options = dict(parse_qsl(url.query))
    if url.scheme == "rediss":
        _require_checked(url)
    if url.scheme == "rediss" and options.get("ssl_certfile"):
        return
    if not (url.password or options.get("password")):
        raise ValueError(
            "needs a password off this machine, for who writes to Redis starts cycles: "
            "rediss://:PASSWORD@host:6379/0, and requirepass in Redis (redis:// goes in clear)"
        )


def _require_checked(url: SplitResult) -> None:
    """Raise ValueError where an option takes away the check of Redis's certificate, or its name."""
    checked = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
    for name, value in parse_qsl(url.query, keep_blank_values=True):
        if name in checked and value.casefold() != checked[name]:
            raise ValueError(f"turns the check of the certificate off; leave {name} out")


def check_influx_url(text: str) -> str:
    """Return the URL of an InfluxDB, or raise ValueError with a remedy."""
    url = _split(text)
    if url.scheme not in ("http", "https"):
        raise ValueError("must be http://host:8086 or https://host:8086")
    if not url.hostname:
        raise ValueError("names no host: http://host:8086")
    if url.username is not None or url.password is not None:
        raise ValueError("takes no user or password; use username and password, or token")
    if url.query or url.fragment:
        raise ValueError("takes nothing after the path")
    return text


def check_name_node_url(text: str) -> str:
    """Return the WebHDFS address of a name node, or raise ValueError with a remedy."""
    url = _split(text)
    if url.scheme not in ("http", "https"):
        raise ValueError("must be http://host:9870 or https://host:9871")
    if not url.hostname or url.port is None:
        raise ValueError("needs a host and a port: http://host:9870")
    if url.username is not None or url.password is not None:
        raise ValueError("takes no user or password; use user, or token_file")
    if url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError("takes nothing after the port: /webhdfs/v1 is added")
    return text.rstrip("/")


def _split(text: str) -> SplitResult:
    if not text.isprintable() or " " in text:
        raise ValueError("holds blanks or control characters")
    try:
        url = urlsplit(text)
        url.port  # noqa: B018 - reading it is what checks it
    except ValueError as error:
        raise ValueError(f"is not a URL: {error}") from None
    if "://" not in text:
        raise ValueError("is not a URL: it has no scheme, such as unix:// or tcp://")
    return url


def _socket_path(url: SplitResult) -> Path:
    if url.netloc or not url.path.startswith("/") or url.path.endswith("/"):
        raise ValueError("needs an absolute path: unix:///run/name.sock")
    if url.query or url.fragment:
        raise ValueError("takes nothing after the path")
    if len(url.path.encode()) > MAX_SOCKET_BYTES:
        raise ValueError(f"the path of a unix socket may have {MAX_SOCKET_BYTES} bytes at most")
    return Path(url.path)


def _host_and_port(url: SplitResult) -> tuple[str, int]:
    if url.username is not None or url.password is not None:
        raise ValueError("takes no user or password")
    if url.path not in ("", "/") or url.query or url.fragment:
        raise ValueError("takes nothing after the port")
    if not url.hostname or url.port is None:
        raise ValueError("needs a host and a port: tcp://host:port")
    return url.hostname, url.port


def check_host_name(text: str) -> str:
    """Return a host name or an address without a port, or raise ValueError with a remedy."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not _HOST_NAME.fullmatch(text):
            raise ValueError("is no host name and no address; give it without a port") from None
    return text


def is_in_clear(engine: str) -> bool:
    """Whether an engine is spoken to over a network as anybody on it could."""
    url = urlsplit(engine)
    return url.scheme == "tcp" and not _is_loopback(url.hostname or "")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
