"""Listings completed by inspects, which are remembered while nothing changes."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from tenure.engines.containers import decode
from tenure.engines.http import paths
from tenure.engines.http.errors import EngineAnswer
from tenure.engines.http.transport import Transport
from tenure.model.document import Document
from tenure.model.facts import ContainerFacts

REMEMBERED = 4_096
"""Inspects kept per engine: several times what one engine runs."""

REMEMBERED_S = 300.0
"""A restart between two listings can look unchanged; events tell of it, but events can be lost."""


@dataclass(frozen=True, slots=True)
class _Kept:
    facts: ContainerFacts
    at_s: float


class Lister:
    """Reads containers of one engine."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def inspect_raw(self, ref: str) -> dict[str, object] | None:
        """Return Docker's document, None if there is no such container. Raises EngineError."""
        try:
            path = paths.container(ref, "/json")
        except EngineAnswer:
            return None
        return await self._transport.find(path)

    async def inspect(self, ref: str) -> ContainerFacts | None:
        """Return a container as it is now and remember it; None if there is none.

        Raises EngineError.
        """
        document = await self.inspect_raw(ref)
        if document is None:
            self._kept.pop(ref, None)
            return None
        facts = decode.from_inspect(document)
        self._remember(facts)
        return facts

    async def listing(self, *, is_fresh: bool = False) -> tuple[ContainerFacts, ...]:
        """Return all containers, each of ours inspected unless an earlier inspect still holds.

        A container that vanishes between listing and inspect is left out. ``is_fresh`` forgets
        what was remembered: for when events may have been missed. Raises EngineError.
        """
        if is_fresh:
            self._kept.clear()
        rows = await self._transport.rows("/containers/json", {"all": "1"})
        found = await asyncio.gather(*(self._complete(row) for row in rows))
        return tuple(facts for facts in found if facts is not None)

    async def _complete(self, row: Document) -> ContainerFacts | None:
        facts = decode.from_listing(row)
        if not decode.is_ours(facts.labels):
            return facts
        kept = self._kept.get(facts.engine_id)
        if kept and _is_young(kept) and decode.is_telling(row, kept.facts):
            return kept.facts
        return await self.inspect(facts.engine_id)

    def _remember(self, facts: ContainerFacts) -> None:
        self._kept[facts.engine_id] = _Kept(facts, time.monotonic())
        self._kept.move_to_end(facts.engine_id)
        while len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)


def _is_young(kept: _Kept) -> bool:
    return time.monotonic() - kept.at_s < REMEMBERED_S
