"""Volumes from one engine to another: local ones are copied, up to a size.

A volume of the same name on the target may be somebody's: it is taken only if it was made for the
same service, by an earlier move or when it was first created there. The source's stays where it is,
for whoever wants it.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from urllib.parse import quote

from tenure.engines.files.tarstream import archive
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_CONFLICT, HTTP_NOT_FOUND, EngineAnswer
from tenure.engines.http.transport import Transport
from tenure.engines.moves.images import Counted
from tenure.model.document import Document, part, parts, text, texts, words
from tenure.model.errors import EngineError, EngineRefused, EngineUnclear

#: Of a volume that was made for a service: its id.
LABEL_VOLUME = "tenure.volume"
ANONYMOUS_CHARS = 64


class Volumes:
    """Copies the volumes of one container at a time."""

    def __init__(self, source: Transport, target: Transport) -> None:
        self._source = source
        self._target = target

    async def prepare(self, document: Document, owner: str, limit_bytes: int) -> None:
        """Find out while it runs whether the volumes of a container can be copied; make them empty.

        Raises EngineRefused: too much, a driver of which nothing is known, a name that is taken.
        """
        volumes = _volumes(document)
        left = limit_bytes
        for mount in volumes:
            if mount.get("Driver") != "local":
                told = f"volume {mount.get('Name')} is of driver {mount.get('Driver')}, not local"
                raise EngineRefused(told, code="volume_driver")
            left -= await self._measured(document, mount, left, limit_bytes)
        for mount in volumes:
            if not _is_anonymous(mount):
                await self._make(str(mount["Name"]), owner)

    async def _measured(
        self, document: Document, mount: Document, left: int, limit_bytes: int
    ) -> int:
        path = f"{mount['Destination']}/."
        async with aclosing(archive(self._source, str(document["Id"]), path)) as chunks:
            counted = Counted(chunks, left)
            try:
                async for _ in counted:
                    pass
            except EngineUnclear:
                if counted.is_beyond:
                    raise _too_large(mount, limit_bytes) from None
                raise
        return counted.total

    async def _make(self, name: str, owner: str) -> None:
        path = f"/volumes/{quote(name, safe='')}"
        made = await self._source.document(path)
        there = await self._target.find(path)
        if there is not None:
            if texts(there, "Labels").get(LABEL_VOLUME) != owner:
                told = f"the target has a volume {name} already; remove it there if it is not used"
                raise EngineRefused(told, code="volume_exists")
            await self._drop(name)
        body = {
            "Name": name,
            "Driver": "local",
            "DriverOpts": part(made, "Options"),
            "Labels": {**texts(made, "Labels"), LABEL_VOLUME: owner},
        }
        await self._target.send("POST", "/volumes/create", body=body)

    async def _drop(self, name: str) -> None:
        try:
            await self._target.send("DELETE", f"/volumes/{quote(name, safe='')}")
        except EngineAnswer as answer:
            if answer.status == HTTP_CONFLICT:
                told = f"volume {name} on the target is used by another container"
                raise EngineRefused(told, code="volume_exists") from answer
            if answer.status != HTTP_NOT_FOUND:
                raise

    async def copy(self, document: Document, engine_id: str, limit_bytes: int) -> int:
        """Copy a stopped container's volumes into those of a created one; return the bytes."""
        left = limit_bytes
        for mount in _volumes(document):
            where = str(mount["Destination"])
            async with aclosing(archive(self._source, str(document["Id"]), f"{where}/.")) as chunks:
                content = Counted(chunks, left)
                try:
                    await self._target.upload(
                        "PUT", paths.container(engine_id, "/archive"), {"path": where}, content
                    )
                except EngineError:
                    if content.is_beyond:
                        raise _too_large(mount, limit_bytes) from None
                    raise
            left -= content.total
        return limit_bytes - left


async def claim(transport: Transport, body: Document, owner: str) -> None:
    """Make the named local volumes that a create body asks for, marked as made for ``owner``.

    Those that are there already stay as they are. What an engine refuses here, the create tells.
    """
    for name in _named(body):
        asked = {"Name": name, "Driver": "local", "Labels": {LABEL_VOLUME: owner}}
        with suppress(EngineAnswer):
            await transport.send("POST", "/volumes/create", body=asked)


def _named(body: Document) -> list[str]:
    """Return the names of the volumes in a body of which it says nothing more: local ones."""
    host = part(body, "HostConfig")
    if host.get("VolumeDriver") not in (None, "", "local"):
        return []
    binds = [bind.split(":") for bind in words(host, "Binds")]
    names = [pieces[0] for pieces in binds if len(pieces) > 1]
    for mount in parts(host, "Mounts"):
        if mount.get("Type") == "volume" and not mount.get("VolumeOptions"):
            names.append(text(mount, "Source"))
    return [name for name in dict.fromkeys(names) if name and not name.startswith("/")]


def _volumes(document: Document) -> list[Document]:
    return [row for row in parts(document, "Mounts") if row.get("Type") == "volume"]


def _is_anonymous(mount: Document) -> bool:
    """Whether the engine itself named a volume: a copy gets another name of its own."""
    name = text(mount, "Name")
    return len(name) == ANONYMOUS_CHARS and all(c in "0123456789abcdef" for c in name)


def _too_large(mount: Document, limit_bytes: int) -> EngineRefused:
    told = f"with volume {mount.get('Name')} its volumes hold more than {limit_bytes} bytes"
    return EngineRefused(f"{told}, the limit of a move (budgets.volumes_mib)", code="too_large")
