"""Files of datasets read back for people.

A block is fetched whole into a file of its own beside the state, and given on only once its
checksum was found right; a copy that is wrong is told to the core, and another is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO

from tenure.core.blocks import replicas
from tenure.core.datasets import datasets
from tenure.core.state.context import Context
from tenure.daemon.effects.arriving import FULL
from tenure.daemon.effects.hands import Hands
from tenure.daemon.events.loop import EventMaker
from tenure.model.dataset import Block, Dataset, Location
from tenure.model.errors import Conflict, EngineError, Unavailable
from tenure.model.events import BlockDoubted

log = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20


@contextmanager
def _own_disk() -> Iterator[None]:
    """Tell of the daemon's disk, on which blocks lie while they are compared, as what it is."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            told = "the daemon's disk is full: blocks lie there while they are compared"
            raise Unavailable(told, code="disk_full") from None
        told = f"the daemon cannot keep a block while it is compared: {error.strerror}"
        raise Unavailable(told, code="disk_failed") from None


class Reader:
    """Reads files of datasets; ``put`` takes what it finds wrong to the core."""

    def __init__(
        self, ctx: Context, hands: Hands, put: Callable[[EventMaker], None], folder: Path
    ) -> None:
        self._ctx, self._hands, self._put, self._folder = ctx, hands, put, folder

    async def read(self, dataset: Dataset, file: int) -> AsyncGenerator[bytes, None]:
        """Yield a file.

        Raises Conflict ``unreadable`` where a block has no copy that is right; Unavailable
        ``not_looked_at`` where it may have one on a node that is about to be looked at, or
        ``disk_full`` where the daemon's disk has no room for a block.
        """
        first = sum(map(dataset.spec.blocks_of, dataset.spec.files[:file]))
        for number in range(first, first + dataset.spec.blocks_of(dataset.spec.files[file])):
            with _own_disk(), tempfile.TemporaryFile(dir=self._folder) as spool:
                await self._fetch(dataset, number, spool)
                while piece := await asyncio.to_thread(spool.read, PIECE_BYTES):
                    yield piece

    async def _fetch(self, dataset: Dataset, number: int, spool: IO[bytes]) -> None:
        """Have a block that is right in ``spool``."""
        block = self._ctx.tables.blocks.get(f"{dataset.id}/{number}")
        places = () if block is None else replicas.offered(self._ctx, block)
        why = "none of its copies can be read now"
        for place in places:
            if block is None:
                break
            try:
                if await self._is_right(block, place, spool):
                    return
                why = f"the copy in {place.node}/{place.tier} is not what was put"
                self._doubt(block, place)
            except EngineError as error:
                why = f"{place.node}: {error.detail}"
            log.warning("block %s of dataset %s: %s", number, dataset.spec.name, why)
        told = f"block {number} of dataset {dataset.spec.name} cannot be read: {why}"
        coming = self._coming(block)
        if coming:
            told += f"; try again once these were looked at: {', '.join(coming)}"
            raise Unavailable(told, code="not_looked_at")
        raise Conflict(told, code="unreadable")

    def _coming(self, block: Block | None) -> list[str]:
        """Return the nodes that have copies of a block and are about to be looked at."""
        names = {row.node for row in block.replicas if row.is_present} if block else set[str]()
        nodes = (self._ctx.tables.nodes.get(name) for name in sorted(names))
        return [n.name for n in nodes if n and datasets.is_about_to_be_looked_at(self._ctx, n)]

    async def _is_right(self, block: Block, place: Location, spool: IO[bytes]) -> bool:
        engine = self._hands.engine(place.node)
        if engine is None:
            raise EngineError("the node is not configured any more")
        spool.seek(0)
        spool.truncate()
        digest = hashlib.sha256()
        image = self._ctx.params.helper_image
        async with aclosing(engine.read_file(image, place.path)) as pieces:
            async for piece in pieces:
                digest.update(piece)
                await asyncio.to_thread(spool.write, piece)
        spool.seek(0)
        return digest.hexdigest() == block.sha256

    def _doubt(self, block: Block, place: Location) -> None:
        def make(at_us: int) -> BlockDoubted:
            return BlockDoubted(at_us=at_us, block=block.key, node=place.node, tier=place.tier)

        self._put(make)
