"""What ``tenure node agent`` does on a node's engine, and how it waits for the agent to be heard.

It runs where the daemon's configuration is: nodes, their ways and the agents' tokens come from that
file and those beside it.
"""

from __future__ import annotations

import asyncio
import grp
import os
import posixpath
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from tenure.cli.configured import file_of, settings_of
from tenure.cli.watching import looks
from tenure.model.errors import EngineError, FieldError, InvalidInput, NotFound, TenureError
from tenure.model.jsons import Json
from tenure.model.node import AgentSpec, NodeSpec
from tenure.model.units import iso

if TYPE_CHECKING:  # the other commands must not pay for the engines' libraries
    from tenure.agent.io.client import AgentClient
    from tenure.client.client import Client
    from tenure.cycles.io.tether import Tethered
    from tenure.engines.containers.agent import AgentPlan
    from tenure.engines.engine import Engine

T = TypeVar("T")
GROUP = "tenure"
#: Folders that hold what is not the agent's, sockets of engines above all.
SHARED = frozenset(
    (
        "/",
        "/dev",
        "/dev/shm",
        "/etc",
        "/home",
        "/root",
        "/run",
        "/run/docker",
        "/run/tenure",
        "/tmp",
    )
) | frozenset(("/usr", "/var", "/var/lib", "/var/run", "/var/run/docker", "/var/tmp"))
#: Of the log of an agent that does not come up.
LOG_BYTES = 2000
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants of an installation: image, certificate files, the socket's group."""

    image: str
    cert: str = ""
    key: str = ""
    client_ca: str = ""
    group: str = ""


def node_of(config: Path | None, name: str) -> NodeSpec:
    """Return a configured node; raises NotFound, InvalidInput for a faulty configuration."""
    nodes = {spec.name: spec for spec in settings_of(config).nodes}
    if name not in nodes:
        file = file_of(config) or "without a file"
        told = (
            f"no node {name!r} in the configuration ({file}): it names {', '.join(sorted(nodes))}"
        )
        raise NotFound(f"{told}; say which with --config")
    return nodes[name]


def agent_of(spec: NodeSpec) -> AgentSpec:
    """Return how a node's agent is reached. Raises InvalidInput where the file does not say."""
    if spec.agent is None:
        raise _fault(
            f"nodes.{spec.name}.agent.url",
            "is not set: say in the configuration where its agent is to listen, such as "
            "agent: {url: https://HOST:7481, token_file: agents/NODE.token, ca: tls/ca.pem}",
        )
    return spec.agent


def planned(spec: NodeSpec, wish: Wish, *, is_dry: bool) -> AgentPlan:
    """Return the agent that a node's configuration asks for; makes a token that is absent.

    ``is_dry`` makes none. Raises InvalidInput naming the option or field at fault.
    """
    from tenure.engines.containers.agent import TLS, TOKEN, AgentPlan

    agent = agent_of(spec)
    _check_socket(spec.name, agent.url)
    files = {f"{TLS}/{name}": content for name, content in _certificates(agent, wish).items()}
    if agent.token_file:
        files[TOKEN] = _token(Path(agent.token_file), is_dry=is_dry)
    return AgentPlan(
        node=spec.name,
        image=wish.image,
        listen=_listener(agent.url),
        node_cgroup=spec.cgroup,
        is_lent=spec.harvest is not None,
        group=_group(wish.group) if agent.url.startswith("unix:") else 0,
        files=files,
    )


def _check_socket(node: str, url: str) -> None:
    """Raise InvalidInput for a socket whose folder must not be mounted into the container."""
    parts = urlsplit(url)
    folder = posixpath.normpath("/" + posixpath.dirname(parts.path).lstrip("/"))
    if parts.scheme != "unix" or not (folder in SHARED or ":" in folder):
        return
    raise _fault(
        f"nodes.{node}.agent.url",
        f"names a socket in {folder}, which would be mounted into the agent's container with all "
        "that is there: give it a folder of its own, such as unix:///run/tenure-agent/agent.sock",
    )


def _listener(url: str) -> str:
    """Return ``--listen`` of an agent that is reached at ``url``: on every address, over TLS."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        return url
    every = "[::]" if ":" in (parts.hostname or "") else "0.0.0.0"
    return f"https://{every}:{parts.port or 443}"


def _certificates(agent: AgentSpec, wish: Wish) -> dict[str, bytes]:
    given = (
        ("--tls-cert", wish.cert),
        ("--tls-key", wish.key),
        ("--tls-client-ca", wish.client_ca),
    )
    if not agent.url.startswith("https:"):
        for option, path in given:
            if path:
                raise _fault(option, f"is for https:// only, the agent is to listen at {agent.url}")
        return {}
    if not (wish.cert and wish.key):
        host = urlsplit(agent.url).hostname
        raise _fault(
            "--tls-cert", f"and --tls-key are required: a certificate for {host} and its key"
        )
    if agent.tls is not None and agent.tls.cert and not wish.client_ca:
        raise _fault("--tls-client-ca", "is required: agent.cert is there to be asked for")
    _check_pair(wish)
    names = ("cert.pem", "key.pem", "ca.pem")
    return {
        name: _read(option, path) for name, (option, path) in zip(names, given, strict=True) if path
    }


def _check_pair(wish: Wish) -> None:
    """Raise InvalidInput for a certificate that an agent could not listen with."""
    from tenure.config.certificates import server_context
    from tenure.model.access import TlsFiles

    options = {"cert": "--tls-cert", "key": "--tls-key", "ca": "--tls-client-ca"}
    try:
        server_context(TlsFiles(wish.client_ca, wish.cert, wish.key))
    except InvalidInput as error:
        raise _fault(options[error.fields[0].path], error.fields[0].message) from error


def _read(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _fault(option, f"cannot read {path}: {error.strerror}") from error


def _token(path: Path, *, is_dry: bool) -> bytes:
    from tenure.config.token import ensure_token

    if is_dry and not path.exists():
        return b""
    return f"{ensure_token(path)}\n".encode()


def _group(stated: str) -> int:
    """Return the group of the agent's socket: the stated one, else the daemon's, else our own."""
    if stated.isascii() and stated.isdigit():
        return int(stated)
    try:
        return grp.getgrnam(stated or GROUP).gr_gid
    except KeyError:
        if stated:
            raise _fault("--group", f"there is no group {stated!r} here; give its number") from None
        return os.getgid()


@asynccontextmanager
async def engine_of(spec: NodeSpec) -> AsyncIterator[Engine]:
    """Give the engine of a node, by the way that the daemon would take."""
    from tenure.config.certificates import client_context
    from tenure.engines.engine import Engine
    from tenure.engines.http.access import Access, prepare_folder

    with tempfile.TemporaryDirectory(prefix="tn-") as name:
        prepare_folder(Path(name))
        access = Access(spec.tls, client_context, spec.ssh, Path(name), _spawn)
        engine = Engine(spec.url, _keep_no_log, access=access)
        try:
            yield engine
        finally:
            await engine.close()


def on_engine(spec: NodeSpec, work: Callable[[Engine], Coroutine[None, None, T]]) -> T:
    """Return what ``work`` does with the engine of a node."""

    async def run() -> T:
        async with engine_of(spec) as engine:
            return await work(engine)

    return asyncio.run(run())


def _spawn(argv: Sequence[str], log_file: Path) -> Tethered:
    from tenure.cycles.io.tether import Tethered

    return Tethered(argv, log=log_file)


async def _keep_no_log(_key: str, _content: bytes) -> None:
    """Nothing is retired here."""


async def asked(agent: AgentSpec) -> Json:
    """Return how an agent answers us: ``state`` up or away, and why; when its reading was made."""
    from tenure.agent.io.client import AgentAway, AgentClient
    from tenure.config.certificates import client_context

    client = AgentClient(agent, client_context)
    try:
        return await _newest(client)
    except AgentAway as error:
        return {"state": "away", "detail": error.detail, "read_at": None, "read_us": 0}
    finally:
        await client.close()


async def _newest(client: AgentClient) -> Json:
    from tenure.daemon.effects.agents import NEWEST_US

    answer = await client.samples(0, NEWEST_US)
    newest_us = answer.readings[-1].at_us if answer.readings else 0
    state = "up" if newest_us else "away"
    detail = "" if newest_us else "it has read nothing yet"
    read_at = iso(newest_us) if newest_us else None
    return {"state": state, "detail": detail, "read_at": read_at, "read_us": newest_us}


async def answering(engine: Engine, agent: AgentSpec, *, timeout_s: float) -> Json:
    """Wait until an agent answers here. Raises TenureError with the end of its log if not."""
    from tenure.engines.containers.agent import NAME, summary

    until_s = time.monotonic() + timeout_s
    while True:
        told = await asked(agent)
        if told["state"] == "up":
            return told
        if time.monotonic() >= until_s:
            break
        await asyncio.sleep(POLL_S)
    there = await engine.agent_site().look()
    state = "gone" if there is None else summary(there)["state"]
    said = await _log(engine, NAME)
    raise TenureError(
        f"the agent does not answer at {agent.url} within {timeout_s:g} s ({told['detail']}); its "
        f"container is {state}{said}",
        code="agent_away",
    )


async def _log(engine: Engine, ref: str) -> str:
    try:
        content = await engine.logs(ref, tail_bytes=LOG_BYTES)
    except EngineError:
        return ""
    text = content.decode(errors="replace").strip()
    return f" and says:\n{text}" if text else ""


def heard(client: Client, name: str, agent: AgentSpec, since_us: int, timeout_s: float) -> Json:
    """Wait until the daemon has heard a reading no older than ``since_us``; return what it says.

    Its ``state`` is ``up``; ``unknown`` where the daemon does not answer; else why not in time.
    """
    told: Json = {}
    for _ in looks(timeout_s):
        told = _told(client, name, agent)
        is_new = told["state"] == "up" and str(told["read_at"] or "") >= str(iso(since_us))
        if is_new or told["state"] == "unknown":
            return told
    return told if told["state"] != "up" else told | {"state": "unheard"}


def _told(client: Client, name: str, agent: AgentSpec) -> Json:
    from tenure.model.errors import Unavailable

    try:
        told = client.node(name).get("agent")
    except Unavailable as error:
        return {"state": "unknown", "detail": error.detail, "read_at": None}
    except NotFound:
        told = None
    if not isinstance(told, dict) or told["url"] != agent.url:
        detail = "the daemon has not read this configuration: systemctl reload tenured"
        return {"state": "unconfigured", "detail": detail, "read_at": None}
    return {key: told[key] for key in ("state", "detail", "read_at")}


def _fault(path: str, message: str) -> InvalidInput:
    return InvalidInput(f"{path} {message}", fields=(FieldError(path, message),))
