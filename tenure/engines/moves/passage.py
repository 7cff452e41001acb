"""What a migration brings from one engine to another, over their APIs alone.

Everything may be done again from the beginning: an image that is there is not sent twice, a
checkpoint that is there from an earlier try is removed first, volumes are overwritten by files of
a container that stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import PurePosixPath
from urllib.parse import quote

from tenure.engines.files.tarstream import archive
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_CONFLICT, EngineAnswer, made_id
from tenure.engines.http.outcomes import outcome_of
from tenure.engines.http.transport import Transport
from tenure.engines.moves import leftovers
from tenure.engines.moves.images import Counted, Images, inspect, kept_over
from tenure.engines.moves.volumes import Volumes
from tenure.model.document import Document, parts, text
from tenure.model.effects import CarryImage, TransferState, TwoEngineEffect
from tenure.model.errors import EngineUnclear
from tenure.model.facts import LABEL_HELPER
from tenure.model.outcome import Done, Outcome

DELETED = 2
"""The word of /changes for a path that is gone."""

MOUNT = "/tenure-checkpoints"

INIT = "/sbin/docker-init"
"""Where an engine mounts its init, which the files of the container then show as a change."""


class Passage:
    """The way from one engine to another."""

    def __init__(self, source: Transport, target: Transport) -> None:
        self._source = source
        self._target = target
        self._images = Images(source, target)
        self._volumes = Volumes(source, target)

    async def perform(self, effect: TwoEngineEffect) -> Outcome:
        """Carry out ``effect``; every way it can go is an outcome."""
        if isinstance(effect, CarryImage):
            return await outcome_of(self._carry(effect))
        return await outcome_of(self._transfer(effect))

    async def _carry(self, effect: CarryImage) -> Outcome:
        document = await _container(self._source, effect.source_id)
        if not effect.with_changes:
            await self._volumes.prepare(document, effect.container, effect.limit_bytes)
        if not effect.with_image:
            return Done()
        own, name = text(document, "Image"), text(document, "Config", "Image")
        kept = ""
        if effect.with_changes and await self._has_changes(effect.source_id, document):
            base = kept_over(await inspect(self._source, own) or {})
            kept = await self._images.keep(effect.source_id, effect.container, base)
        try:
            brought, sent = await self._images.bring(kept or own, name)
        finally:
            if kept:
                await leftovers.remove_image(self._source, kept)
        if kept or name == own:  # created from an id: a snapshot of an earlier move, mostly
            return Done(brought, moved_bytes=sent)
        named = await inspect(self._target, name)
        is_same = named is not None and named.get("Id") == own
        return Done("" if is_same else brought, moved_bytes=sent)

    async def _has_changes(self, engine_id: str, document: Document) -> bool:
        """Return whether files differ from the image's, mount points aside."""
        path = paths.container(engine_id, "/changes")
        changes = await self._source.read(path, timeout_s=60.0)  # null where there are none
        mounts = [text(row, "Destination") for row in parts(document, "Mounts")]
        made = {str(path) for mount in (*mounts, INIT) for path in _upwards(mount)}
        return any(
            row.get("Kind") == DELETED or text(row, "Path") not in made for row in parts(changes)
        )

    async def _transfer(self, effect: TransferState) -> Outcome:
        origin = await _container(self._source, effect.source_id)
        arriving = await _container(self._target, effect.engine_id)
        sent = await self._volumes.copy(origin, effect.engine_id, effect.limit_bytes)
        if effect.checkpoint:
            sent += await self._checkpoint(effect, origin, arriving)
        return Done(moved_bytes=sent)

    async def _checkpoint(self, effect: TransferState, origin: Document, arriving: Document) -> int:
        name = quote(effect.checkpoint, safe="")
        path = paths.container(effect.engine_id, f"/checkpoints/{name}")
        with suppress(EngineAnswer):  # there is one only after a try that was cut
            await self._target.send("DELETE", path)
        async with (
            _window(self._source, origin, effect.container) as there,
            _window(self._target, arriving, effect.container) as here,
            aclosing(archive(self._source, there, f"{MOUNT}/{name}")) as chunks,
        ):
            content = Counted(chunks)
            where = {"path": MOUNT}
            await self._target.upload("PUT", paths.container(here, "/archive"), where, content)
        return content.total


@asynccontextmanager
async def _window(transport: Transport, document: Document, owner: str) -> AsyncIterator[str]:
    """Give the id of a container, never started, in which another's checkpoints are at MOUNT.

    Raises EngineUnclear where the engine does not say where its containers lie, and EngineError.
    """
    engine_id = text(document, "Id")
    root = text(await transport.document("/info"), "DockerRootDir")
    if not root:
        raise EngineUnclear("/info: the answer has no DockerRootDir")
    folder = f"{root}/containers/{engine_id}/checkpoints"
    name = f"tenure-carry-{engine_id[:12]}"
    body = {
        "Image": document["Image"],
        "Entrypoint": ["none"],
        "Cmd": [],
        "Labels": leftovers.NOT_OURS | {LABEL_HELPER: owner},
        "NetworkDisabled": True,
        "HostConfig": {"Binds": [f"{folder}:{MOUNT}"], "NetworkMode": "none"},
    }
    path = f"/containers/create?name={name}"
    try:
        made = await transport.send("POST", path, body=body)
    except EngineAnswer as answer:
        if answer.status != HTTP_CONFLICT:
            raise
        await leftovers.remove_container(transport, name)  # of a try that was cut
        made = await transport.send("POST", path, body=body)
    helper = made_id(made, path)
    try:
        yield helper
    finally:
        await asyncio.shield(leftovers.remove_container(transport, helper))


async def _container(transport: Transport, engine_id: str) -> Document:
    """Return Docker's document of a container; raise EngineAnswer 404 if there is none."""
    return await transport.document(paths.container(engine_id, "/json"))


def _upwards(path: str) -> list[PurePosixPath]:
    here = PurePosixPath(path)
    return [here, *here.parents]
