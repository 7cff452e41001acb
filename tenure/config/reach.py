"""How engines, agents and the API are reached: TLS files, ssh options, agents.

Files are opened here, so that a missing, unreadable or mismatched one is a fault of the
configuration with its path, and not a node that never answers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from ssl import SSLContext
from typing import Literal
from urllib.parse import urlsplit

from tenure.config.access import grants_of, strayed
from tenure.config.certificates import client_context
from tenure.config.fields import (
    AgentUrl,
    FilePath,
    HostName,
    Namespace,
    RoleKind,
    TlsFile,
    Word,
)
from tenure.config.section import Found, Section, stated
from tenure.config.yamlfile import Loc
from tenure.model.access import SshOptions, TlsFiles, check_ssh_path
from tenure.model.errors import InvalidInput
from tenure.model.node import AgentSpec
from tenure.model.roles import Grant

SSH_FOLDER = "ssh"


class EngineTlsSection(Section):
    ca: TlsFile = stated("", "The authority that signed the engine's certificate.")
    cert: TlsFile = stated("", "Our certificate, for an engine under `--tlsverify`.")
    key: TlsFile = stated("", "The key of our certificate, without a passphrase.")

    @property
    def files(self) -> TlsFiles | None:
        """The PEM files; None: no TLS."""
        return TlsFiles(self.ca, self.cert, self.key) if self.ca else None


class SshSection(Section):
    key: TlsFile = stated("", "The login key.", shown="those of the daemon's user, and its agent")
    known_hosts: TlsFile = stated(
        "", "The keys of known hosts.", shown="the user's and the system's known_hosts"
    )
    host_keys: Literal["strict", "accept-new"] = stated(
        "strict", "`accept-new` takes a host that is met for the first time."
    )
    config: TlsFile = stated("", "An ssh_config, for jump hosts and the like.", shown="none")

    @property
    def options(self) -> SshOptions:
        return SshOptions(self.key, self.known_hosts, self.host_keys, self.config)

    def file_faults(self) -> Found:
        """Find files that ssh cannot use; ``accept-new`` makes the one of known hosts."""
        for key in ("key", "known_hosts", "config"):
            path: str = getattr(self, key)
            # without the hosts there is nothing to be strict about
            is_made = key == "known_hosts" and self.host_keys == "accept-new"
            if path and (fault := _ssh_path_fault(path, may_be_absent=is_made)):
                yield (key,), fault


class TlsSection(Section):
    """TLS of the API's listeners."""

    cert: TlsFile = stated("", "The certificate of the `https://` listeners, with its chain.")
    key: TlsFile = stated("", "Its key, without a passphrase.")
    client_ca: TlsFile = stated(
        "",
        "Clients must show a certificate of this authority. They need a token as well, but for "
        "those in `roles`.",
    )
    roles: dict[Word, RoleKind] = stated(
        {},
        "Roles of clients by the common name in their certificate; needs `client_ca`. A token "
        "counts instead where one is sent.",
    )
    namespaces: dict[Word, Namespace] = stated(
        {}, "Namespaces of clients by the names in `roles`; of others `default`."
    )
    names: tuple[HostName, ...] = stated(
        (),
        "Names and addresses by which clients reach the daemon, beside loopback and the addresses "
        "in `listen`: other Host headers are refused.",
    )

    @property
    def grants(self) -> dict[str, Grant]:
        """What each name of a certificate gives its bearer."""
        return grants_of(self.roles, self.namespaces)

    def faults(self) -> Found:
        """Find namespaces of names without a role."""
        yield from strayed(self.roles, self.namespaces, "")

    @property
    def files(self) -> TlsFiles | None:
        """The PEM files, ``ca`` that of clients; None: no listener has TLS."""
        return TlsFiles(self.client_ca, self.cert, self.key) if self.cert else None


class AgentSection(Section):
    url: AgentUrl | None = stated(
        None,
        "Where `tenured agent` listens: `unix:///path` or `tcp://` on this machine, "
        "`https://host:port` elsewhere.",
        shown="none: its engine alone tells what is used there",
    )
    token_file: FilePath | None = stated(
        None,
        "A copy of the agent's token; needed but for `unix://`. `tenure node agent install` makes "
        "it where it is absent.",
        shown="none",
    )
    ca: TlsFile = stated("", "The authority that signed its certificate.", shown="the system's")
    cert: TlsFile = stated("", "Our certificate, for an agent with `--tls-client-ca`.")
    key: TlsFile = stated("", "The key of our certificate, without a passphrase.")

    @property
    def spec(self) -> AgentSpec | None:
        """How it is reached; None: there is none."""
        if self.url is None:
            return None
        files = TlsFiles(self.ca, self.cert, self.key)
        return AgentSpec(self.url, self.token_file or "", files if files != TlsFiles() else None)

    def faults(self) -> Found:
        """Find what its URL needs, and faults of its files."""
        if self.url is None:
            if self.model_fields_set:
                yield ("url",), "is required: where the node's agent listens"
            return
        scheme = urlsplit(self.url).scheme
        if scheme == "unix" and self.token_file is not None:
            yield ("token_file",), "is not used over unix://; the socket's mode decides"
        elif scheme != "unix" and self.token_file is None:
            yield ("token_file",), "is required over TCP: a copy of the agent's token"
        elif self.token_file is not None and (fault := _token_fault(self.token_file)):
            yield ("token_file",), fault
        files = TlsFiles(self.ca, self.cert, self.key)
        if scheme != "https":
            for key in ("ca", "cert", "key"):
                if getattr(self, key):
                    yield (key,), "is used by https:// only"
        elif files != TlsFiles():
            yield from tls_faults((), files, client_context)


def engine_faults(url: str, tls: EngineTlsSection, ssh: SshSection) -> Found:
    """Find faults of a node's ``tls`` and ``ssh`` against its URL and against their files."""
    scheme = urlsplit(url).scheme
    if scheme == "https" and not tls.ca:
        yield ("tls", "ca"), "is required by https://: the authority of the engine"
    elif tls.model_fields_set and scheme not in ("https", "tcp"):
        yield ("tls",), "is used by https:// and tcp:// only"
    elif tls.model_fields_set and not tls.ca:
        yield ("tls", "ca"), "is required: the authority of the engine"
    elif tls.files is not None:
        yield from tls_faults(("tls",), tls.files, client_context)
    if ssh.model_fields_set and scheme != "ssh":
        yield ("ssh",), "is used by ssh:// only"
    else:
        yield from ((("ssh", *loc), words) for loc, words in ssh.file_faults())


def tls_faults(here: Loc, files: TlsFiles, make: Callable[[TlsFiles], SSLContext]) -> Found:
    """Find out whether PEM files make a context of TLS."""
    try:
        make(files)
    except InvalidInput as error:
        for fault in error.fields:
            yield (*here, fault.path), fault.message


def _token_fault(path: str) -> str:
    """Return what is wrong with an agent's token; an absent one is made with the agent."""
    folder = Path(path).parent
    if not folder.is_dir():
        return f"cannot read {path}: there is no folder {folder}"
    return _path_fault(path, may_be_absent=True)


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
