"""Images from one engine to another: only the layers that the target lacks are sent.

A layer is the same on two engines if its chain is (the layers below it and itself), so what the
target has is a run of layers from the bottom. ``docker load`` does not ask for the files of layers
that it has; they are left out of the archive.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import IO
from urllib.parse import quote

from tenure.engines.files.held import held
from tenure.engines.http import paths
from tenure.engines.http.errors import HTTP_NOT_FOUND, EngineAnswer, made_id
from tenure.engines.http.transport import Transport
from tenure.engines.moves import leftovers
from tenure.engines.moves.layers import MEMORY_BYTES, manifest_of, spooled, squashed
from tenure.model.document import Document, text, words
from tenure.model.errors import EngineUnclear

CHUNK_BYTES = 1 << 18
SAVE_OPEN_S = 600.0
"""An engine puts an image together before it sends the first byte of it."""

MAX_LOOKED_AT = 200
"""Images of the target whose layers are looked at, the newest first."""


MOST_KEPT = 16
"""Layers of changes over an image that are kept apart; more are sent as one."""

KEPT_OVER = re.compile(r"tenure: changes over (\d+) layers")
"""What the comment of an image of changes says: how many layers the first of its kind had below."""


class Images:
    """Brings images from a source to a target."""

    def __init__(self, source: Transport, target: Transport, *, most_kept: int = MOST_KEPT) -> None:
        self._source = source
        self._target = target
        self._most_kept = most_kept

    async def bring(self, image: str, name: str) -> tuple[str, int]:
        """Have the target hold ``image`` (an id); return its id there and the bytes sent, 0 if it
        was there.

        It has another id where it is an image of changes with many layers of them: these are one
        there. ``name`` is sent along where it names this image at the source. Raises EngineError.
        """
        if await inspect(self._target, image) is not None:
            return image, 0
        document = await inspect(self._source, image)
        if document is None:
            raise EngineAnswer(HTTP_NOT_FOUND, f"the source has no image {image}")
        named = await inspect(self._source, name)
        is_named = named is not None and named.get("Id") == image
        ref, layers = name if is_named else image, _layers(document)
        known = await self._known(layers)
        if len(layers) - kept_over(document) > self._most_kept:
            return await self._squashed(ref, kept_over(document), known)
        if not known:
            return image, await self._whole(ref, image)
        with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as spool:
            await self._save(ref, spool)
            async with held(_thinned, spool, known) as thin:
                sent = await self._load(_chunks(thin.thing))
        if await inspect(self._target, image) is None:  # an engine that wants every layer's file
            sent += await self._whole(ref, image)
        return image, sent

    async def _squashed(self, ref: str, base: int, known: int) -> tuple[str, int]:
        """Send an image with its layers above ``base`` as one; return its id and the bytes sent."""
        sent = 0
        with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as spool:
            await self._save(ref, spool)
            for left_out in dict.fromkeys((min(known, base), 0)):  # or it wants every layer's file
                async with held(squashed, spool, base, left_out) as made:
                    sent += await self._load(_chunks(made.thing.archive))
                    image = made.thing.image
                if await inspect(self._target, image) is not None:
                    return image, sent
        raise EngineAnswer(HTTP_NOT_FOUND, f"the target did not take image {ref} in one layer")

    async def _whole(self, ref: str, image: str) -> int:
        path = f"/images/{quote(ref, safe='/:')}/get"
        async with self._source.stream(path, {}, open_s=SAVE_OPEN_S) as chunks:
            sent = await self._load(chunks)
        if await inspect(self._target, image) is None:
            raise EngineAnswer(HTTP_NOT_FOUND, f"the target did not take image {image}")
        return sent

    async def _save(self, ref: str, spool: IO[bytes]) -> None:
        path = f"/images/{quote(ref, safe='/:')}/get"
        async with self._source.stream(path, {}, open_s=SAVE_OPEN_S) as chunks:
            async for chunk in chunks:
                spool.write(chunk)

    async def _load(self, content: AsyncIterable[bytes]) -> int:
        counted = Counted(content)
        await self._target.upload("POST", "/images/load", {"quiet": "1"}, counted)
        return counted.total  # the status tells nothing, nor do texts: whether it is there does

    async def _known(self, layers: Sequence[str]) -> int:
        """Return how many layers from the bottom the target has, as part of any image."""
        rows = await self._target.rows("/images/json")
        known = 0
        for row in rows[:MAX_LOOKED_AT]:
            document = await inspect(self._target, text(row, "Id"))
            own = _layers(document or {})
            same = 0
            while same < min(len(own), len(layers)) and own[same] == layers[same]:
                same += 1
            known = max(known, same)
            if known == len(layers):
                break
        return known

    async def keep(self, container: str, owner: str, base: int) -> str:
        """Make an image at the source of a stopped container's files; return its id.

        ``base`` is what ``kept_over`` says of the image that the container was created from.
        """
        comment = quote(f"tenure: changes over {base} layers")
        path = f"/commit?container={quote(container, safe='')}&pause=0&comment={comment}"
        label = {"Labels": leftovers.NOT_OURS | {leftovers.LABEL_SNAPSHOT: owner}}
        limit_s = self._source.timeouts.pull_s
        answer = await self._source.send("POST", path, body=label, timeout_s=limit_s, is_long=True)
        return made_id(answer, path)


class Counted:
    """Chunks that are counted as they pass; refused beyond ``limit_bytes``, None: no limit."""

    def __init__(self, content: AsyncIterable[bytes], limit_bytes: int | None = None) -> None:
        self.total = 0
        self._content = content
        self._limit = limit_bytes

    @property
    def is_beyond(self) -> bool:
        """Whether more came than may."""
        return self._limit is not None and self.total > self._limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._content:
            self.total += len(chunk)
            if self.is_beyond:
                raise EngineUnclear("more than the limit")
            yield chunk


async def inspect(transport: Transport, image: str) -> Document | None:
    """Return Docker's document of an image by id or name, None if there is none.

    Raises EngineError.
    """
    try:
        path = paths.image(image)
    except EngineAnswer:
        return None
    return await transport.find(path)


def kept_over(document: Document) -> int:
    """Return over how many layers an image keeps changes, all of its own if it is none of those."""
    told = KEPT_OVER.fullmatch(text(document, "Comment"))
    own = len(_layers(document))
    return own if told is None else min(own, int(told[1]))


def _layers(document: Document) -> list[str]:
    return words(document, "RootFS", "Layers")


def _thinned(spool: IO[bytes], known: int) -> IO[bytes]:
    """Return a saved image's archive without the files of its ``known`` lowest layers.

    The caller closes it.
    """
    spool.seek(0)
    with (
        spooled() as thin,
        tarfile.open(fileobj=spool) as whole,
        tarfile.open(fileobj=thin, mode="w") as out,
    ):
        files = words(manifest_of(whole), "Layers")
        dropped = set(files[:known]) - set(files[known:])
        for entry in whole:
            if entry.name not in dropped:
                out.addfile(entry, whole.extractfile(entry) if entry.isreg() else None)
    return thin


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk
