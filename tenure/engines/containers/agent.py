"""The agent's container on a node: made through the engine, found again by its name and label.

It is no container of the fleet's: no cycle moves it, no drain waits for it, and only the calls of
this module touch it. What it must read and write of the node is mounted, for an engine may refuse
privileged containers.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from urllib.parse import quote, urlsplit

from tenure.engines.containers.create import unsure
from tenure.engines.containers.decode import exit_code
from tenure.engines.containers.listing import Lister
from tenure.engines.containers.registry import Registry
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_NOT_FOUND, EngineAnswer
from tenure.engines.http.transport import Transport
from tenure.engines.moves.images import inspect
from tenure.model.document import OwnDocument, at, part, text, texts, words
from tenure.model.errors import EngineError, EngineRefused
from tenure.model.facts import AGENT_NAME, LABEL_AGENT

NAME = AGENT_NAME
#: Of the container that is about to take the other's place.
NEXT = f"{NAME}-next"
#: What it was made of: an equal one needs no other.
LABEL_STAMP = "tenure.agent.stamp"
#: Parameters and actions of the controller outlive the container.
VOLUME = "tenure-agent"
STATE = "/var/lib/tenure-agent"
#: Where the node's /proc and /sys are inside.
ROOT = "/host"
TOKEN, TLS = "token", "tls"
STOP_S = 10
#: Ten times what it was measured to hold (48 MiB with 400 containers, 146 while 16 asked at once
#: for all it keeps): a defect ends the agent, which starts again, before it takes from owners.
MEMORY_BYTES = 512 << 20
#: Its threads, four as it runs, more while files are opened for those who ask.
MOST_PIDS = 128
#: Log drivers that keep files on the node, which grow without end unless told otherwise.
FILE_DRIVERS = frozenset(("json-file", "local"))
LOG_FILES = {"max-size": "1m", "max-file": "3"}


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """An agent to be: of which node, from which image, and where it listens (``--listen``).

    ``is_lent``: it may write the node's cgroups and end processes, for harvest is to be held back.
    ``group`` owns its unix socket. ``files`` by name below ``STATE``: the token, certificates.
    ``is_confined``: the engine confines containers by AppArmor, whose default profile keeps one
    from asking whose network a process has. ``log_driver`` is the engine's own ("": not known).
    """

    node: str
    image: str
    listen: str
    node_cgroup: str = "/"
    is_lent: bool = False
    group: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict)
    is_confined: bool = False
    log_driver: str = ""


def body(plan: AgentPlan) -> OwnDocument:
    """Return what the container is created with (Docker's create body)."""
    binds = ["/proc:/host/proc:ro", "/sys:/host/sys:ro", f"{VOLUME}:{STATE}"]
    rights = ["SYS_PTRACE"]
    if plan.is_lent:
        binds.append("/sys/fs/cgroup:/host/sys/fs/cgroup")
        rights += ["KILL", "SYS_NICE", "IPC_LOCK"]
    parts = urlsplit(plan.listen)
    if parts.scheme == "unix":
        folder = str(PurePosixPath(parts.path).parent)
        binds.append(f"{folder}:{folder}")
    host: OwnDocument = {
        "Binds": binds,
        "CapAdd": rights,
        "CapDrop": ["ALL"],
        "CgroupnsMode": "host",
        "Init": True,
        "Memory": MEMORY_BYTES,
        "NetworkMode": "host",
        "PidMode": "host",
        "PidsLimit": MOST_PIDS,
        "ReadonlyRootfs": True,
        "RestartPolicy": {"Name": "unless-stopped"},
    }
    if plan.is_confined:
        host["SecurityOpt"] = ["apparmor=unconfined"]
    if plan.log_driver in FILE_DRIVERS:
        host["LogConfig"] = {"Type": plan.log_driver, "Config": LOG_FILES}
    labels = {LABEL_AGENT: plan.node}
    made: OwnDocument = {
        "Image": plan.image,
        "User": f"0:{plan.group}",
        "Cmd": _command(plan),
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
        "Labels": labels,
    }
    labels[LABEL_STAMP] = _stamp(made, plan.files)
    return made


def _command(plan: AgentPlan) -> list[str]:
    words = ["tenured", "agent", "--root", ROOT, "--listen", plan.listen]
    words += ["--node-cgroup", plan.node_cgroup]
    options = (("cert.pem", "--tls-cert"), ("key.pem", "--tls-key"), ("ca.pem", "--tls-client-ca"))
    for name, option in options:
        if f"{TLS}/{name}" in plan.files:
            words += [option, f"{STATE}/{TLS}/{name}"]
    return words


def _stamp(made: OwnDocument, files: Mapping[str, bytes]) -> str:
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    text = json.dumps([made, digests], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class AgentSite:
    """The agent's container on one engine."""

    def __init__(self, transport: Transport, lister: Lister, registry: Registry) -> None:
        self._transport, self._lister, self._registry = transport, lister, registry

    async def look(self) -> OwnDocument | None:
        """Return Docker's document of it, None if there is none.

        Raises EngineRefused if the name is somebody else's.
        """
        return await self._own(NAME)

    async def fitted(self, plan: AgentPlan) -> AgentPlan:
        """Return a plan for the engine as it is: whether it confines containers, how it logs."""
        told = await self._transport.document("/info")
        return replace(
            plan,
            is_confined=any("name=apparmor" in option for option in words(told, "SecurityOptions")),
            log_driver=text(told, "LoggingDriver"),
        )

    async def is_current(self, plan: AgentPlan) -> bool:
        """Whether the one that runs was made of this plan and of the image as it is by now."""
        there = await self.look()
        if not at(there, "State", "Running"):
            return False
        stamp = text(there, "Config", "Labels", LABEL_STAMP)
        if stamp != text(body(plan), "Labels", LABEL_STAMP):
            return False
        image = await inspect(self._transport, plan.image)
        return image is not None and text(image, "Id") == text(there, "Image")

    async def install(self, plan: AgentPlan) -> bool:
        """Have the agent of this plan run; returns whether anything was changed.

        The one before runs until the next is complete, so that owners are without protection for
        as long as one stops and the other starts. Raises EngineError; doing it again mends what was
        left half done.
        """
        if await self.is_current(plan):
            return False
        await self._require_image(plan)
        await self._drop(NEXT)
        await self._send("POST", f"/containers/create?name={NEXT}", body(plan))
        await self._fill(plan.files)
        await self._drop(NAME)
        await self._send("POST", paths.container(NEXT, f"/rename?name={NAME}"))
        await self._send("POST", paths.container(NAME, "/start"))
        return True

    async def remove(self, *, is_purged: bool = False) -> bool:
        """Stop and remove it, ``is_purged`` with its volume; returns whether it was there."""
        was_there = await self._drop(NAME)
        await self._drop(NEXT)
        if is_purged:
            await self._absent_is_fine("DELETE", f"/volumes/{quote(VOLUME)}")
        return was_there

    async def _own(self, name: str) -> OwnDocument | None:
        document = await self._lister.inspect_raw(name)
        if document is None:
            return None
        if LABEL_AGENT not in texts(document, "Config", "Labels"):
            raise EngineRefused(
                f"the engine has a container {name} that tenure did not make; "
                "remove or rename it there",
                code="name_taken",
            )
        return document

    async def _drop(self, name: str) -> bool:
        document = await self._own(name)
        if document is None:
            return False
        key = text(document, "Id")
        limit_s = STOP_S + self._transport.timeouts.stop_extra_s
        path = paths.container(key, f"/stop?t={STOP_S}")
        await self._absent_is_fine("POST", path, timeout_s=limit_s)
        await self._absent_is_fine("DELETE", paths.container(key, "?force=1&v=1"))
        return True

    async def _absent_is_fine(
        self, method: str, path: str, *, timeout_s: float | None = None
    ) -> None:
        try:
            await self._transport.send(method, path, timeout_s=timeout_s)
        except EngineAnswer as answer:
            if answer.status != HTTP_NOT_FOUND:
                raise

    async def _send(self, method: str, path: str, content: OwnDocument | None = None) -> None:
        limit_s = self._transport.timeouts.start_s
        await unsure(self._transport.send(method, path, body=content, timeout_s=limit_s))

    async def _require_image(self, plan: AgentPlan) -> None:
        """Raise EngineRefused if the image is not there and cannot be pulled."""
        if await inspect(self._transport, plan.image) is not None:
            return
        try:
            await self._registry.pull(plan.image)
        except EngineError as error:
            raise EngineRefused(
                f"the engine has no image {plan.image} and cannot pull it ({error.detail}); bring "
                f"it there: docker save {plan.image} | docker -H ENGINE load",
                code="no_image",
            ) from error

    async def _fill(self, files: Mapping[str, bytes]) -> None:
        """Put files into the volume of the next one, readable by root alone."""
        if files:
            path = paths.container(NEXT, "/archive")
            await self._transport.upload("PUT", path, {"path": STATE}, _archive(files))


async def _archive(files: Mapping[str, bytes]) -> AsyncIterator[bytes]:
    """Yield a tar archive of small files of root's, mode 0600, and their folders."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as out:
        for folder in sorted({str(PurePosixPath(name).parent) for name in files} - {"."}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o700
            out.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            out.addfile(entry, io.BytesIO(content))
    yield packed.getvalue()


def summary(document: OwnDocument) -> OwnDocument:
    """Return what people want to know of the container: id, image, state, since when, why ended."""
    state = part(document, "State")
    return {
        "id": text(document, "Id"),
        "image": text(document, "Config", "Image"),
        "state": text(state, "Status") or "unknown",
        "started_at": text(state, "StartedAt"),
        "exit_code": exit_code(document),
        "error": text(state, "Error"),
    }
