"""Checks of how engines and the API are reached: TLS files, ssh options, listeners.

Files are opened here, so that a missing, unreadable or mismatched one is a fault of the
configuration with its path, and not a node that never answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from ssl import SSLContext
from urllib.parse import urlsplit

from tenure.config.certificates import client_context, server_context
from tenure.config.schema import AgentSection, ConfigFile, NodeSection, SshSection
from tenure.config.urls import MAX_SOCKET_BYTES, parse_listener
from tenure.config.yamlfile import Loc
from tenure.model.access import TlsFiles, check_ssh_path
from tenure.model.errors import InvalidInput

Found = Iterator[tuple[Loc, str]]

SSH_FOLDER = "ssh"
_SOCKET_NAME_BYTES = len("/ssh/") + 8 + len(".sock")


def check_node_reach(here: Loc, node: NodeSection) -> Found:
    """Find faults of a node's ``tls`` and ``ssh`` against its URL and against its files."""
    scheme = urlsplit(node.url).scheme
    if scheme == "https" and not node.tls.ca:
        yield (*here, "tls", "ca"), "is required by https://: the authority of the engine"
    elif node.tls.model_fields_set and scheme not in ("https", "tcp"):
        yield (*here, "tls"), "is used by https:// and tcp:// only"
    elif node.tls.model_fields_set and not node.tls.ca:
        yield (*here, "tls", "ca"), "is required: the authority of the engine"
    elif node.tls.ca:
        files = TlsFiles(node.tls.ca, node.tls.cert, node.tls.key)
        yield from _file_faults((*here, "tls"), files, client_context)
    if node.ssh.model_fields_set and scheme != "ssh":
        yield (*here, "ssh"), "is used by ssh:// only"
    else:
        yield from _check_ssh((*here, "ssh"), node.ssh)


def check_agent(here: Loc, agent: AgentSection) -> Found:
    """Find faults of a node's ``agent``: what its URL needs, and its files."""
    if agent.url is None:
        if agent.model_fields_set:
            yield (*here, "url"), "is required: where the node's agent listens"
        return
    scheme = urlsplit(agent.url).scheme
    if scheme == "unix" and agent.token_file is not None:
        yield (*here, "token_file"), "is not used over unix://; the socket's mode decides"
    elif scheme != "unix" and agent.token_file is None:
        yield (*here, "token_file"), "is required over TCP: a copy of the agent's token"
    elif agent.token_file is not None and (fault := _token_fault(agent.token_file)):
        yield (*here, "token_file"), fault
    files = TlsFiles(agent.ca, agent.cert, agent.key)
    if scheme != "https":
        for key in ("ca", "cert", "key"):
            if getattr(agent, key):
                yield (*here, key), "is used by https:// only"
    elif files != TlsFiles():
        yield from _file_faults(here, files, client_context)


def _token_fault(path: str) -> str:
    """Return what is wrong with an agent's token; an absent one is made with the agent."""
    folder = Path(path).parent
    if not folder.is_dir():
        return f"cannot read {path}: there is no folder {folder}"
    return _path_fault(path, may_be_absent=True)


def _check_ssh(here: Loc, ssh: SshSection) -> Found:
    for key in ("key", "known_hosts", "config"):
        path: str = getattr(ssh, key)
        # accept-new makes the file; without the hosts there is nothing to be strict about
        is_made = key == "known_hosts" and ssh.host_keys == "accept-new"
        if path and (fault := _ssh_path_fault(path, may_be_absent=is_made)):
            yield (*here, key), fault


def _ssh_path_fault(path: str, *, may_be_absent: bool) -> str:
    try:
        check_ssh_path(path)
    except ValueError as error:
        return str(error)
    return _path_fault(path, may_be_absent=may_be_absent)


def _path_fault(path: str, *, may_be_absent: bool = False) -> str:
    try:
        with open(path, "rb") as file:
            file.read(1)
    except FileNotFoundError as error:
        return "" if may_be_absent else f"cannot read {path}: {error.strerror}"
    except OSError as error:
        return f"cannot read {path}: {error.strerror or error}"
    return ""


def check_listeners(file: ConfigFile) -> Found:
    """Find faults of the top-level ``tls`` against the listeners and against its files."""
    listeners = [parse_listener(url) for url in file.listen]
    secure = [index for index, listener in enumerate(listeners) if listener.is_tls]
    if secure and not (file.tls.cert and file.tls.key):
        yield ("tls",), "cert and key are required by https:// in listen"
        return
    if not secure:
        if file.tls.model_fields_set:
            yield ("tls",), "is used by no listener; add https://0.0.0.0:7443 to listen"
        return
    if len(secure) == len(listeners) and file.redis.url is None:
        yield (
            ("listen",),
            "needs a unix:// or tcp:// listener beside https://: the embedded worker uses it",
        )
    for index in secure:
        if listeners[index].is_wildcard and not file.tls.names:
            yield (
                ("listen", index),
                "listens on every address: list the names that clients use in tls.names",
            )
    if file.tls.roles and not file.tls.client_ca:
        yield ("tls", "roles"), "needs client_ca: without it no client shows a certificate"
    files = TlsFiles(file.tls.client_ca, file.tls.cert, file.tls.key)
    for loc, message in _file_faults(("tls",), files, server_context):
        yield ("tls", "client_ca") if loc[-1] == "ca" else loc, message


def check_ssh_folder(file: ConfigFile, nodes: list[NodeSection]) -> Found:
    """Find out whether ssh can keep its sockets below the state folder."""
    if not any(node.url.startswith("ssh:") for node in nodes):
        return
    try:
        check_ssh_path(file.state_dir, is_forwarded=True)
    except ValueError as error:
        yield ("state_dir",), str(error)
    if len(str(Path(file.state_dir)).encode()) + _SOCKET_NAME_BYTES > MAX_SOCKET_BYTES:
        yield ("state_dir",), "is too long a path for the unix sockets of ssh:// nodes"


def _file_faults(here: Loc, files: TlsFiles, make: Callable[[TlsFiles], SSLContext]) -> Found:
    try:
        make(files)
    except InvalidInput as error:
        for fault in error.fields:
            yield (*here, fault.path), fault.message
