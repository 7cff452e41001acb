"""What the daemon does to itself time and again: what is old goes, and its acts are recorded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tenure.core.fleet import FleetState
from tenure.daemon.access.tokens import Tokens
from tenure.daemon.effects import outputs
from tenure.daemon.events.clock import Clock
from tenure.daemon.events.loop import CoreLoop
from tenure.model.audit import ACTORS, AuditRow, act_row
from tenure.model.errors import TenureError
from tenure.profiling.io.uses import UseStore
from tenure.store.audit import Acts, Audit
from tenure.store.store import MAX_EVENTS_READ, Store

log = logging.getLogger(__name__)
#: Between two looks for acts: one that was lost by a kill is found at the next start.
FOLLOW_S = 1.0


def acts_of(store: Store) -> Acts:
    """Return what reads the acts among public events; from their begin where numbers began anew."""
    types = tuple(ACTORS)

    def after(followed: int) -> tuple[Sequence[AuditRow], int]:
        try:
            last = store.last_seq()
            begin = followed if followed <= last else 0
            found = store.events_after(begin, MAX_EVENTS_READ, types) if begin < last else []
        except TenureError as error:
            log.error("acts are not recorded yet: %s", error.detail)
            return [], followed
        rows = [act_row(one.at_us, one.type, one.subject, one.data) for one in found]
        is_more = len(found) == MAX_EVENTS_READ
        return rows, found[-1].seq if is_more else max([last, *(e.seq for e in found[-1:])])

    return after


async def follow(audit: Audit, loop: CoreLoop) -> None:
    """Have acts recorded for ever."""
    while True:
        await loop.wait_commit(60.0)
        audit.follow()
        await asyncio.sleep(FOLLOW_S)


@dataclass(slots=True)
class Upkeep:
    """The parts whose past is bounded. ``looked_us`` is until when ends of tokens were recorded."""

    store: Store
    uses: UseStore
    audit: Audit
    tokens: Tokens
    state: FleetState
    outputs: Path
    clock: Clock
    looked_us: int

    async def prune(self) -> None:
        """Remove what is too old or too much; what cannot be is logged."""
        now_us = self.clock.now_us()
        try:
            await asyncio.to_thread(self.store.prune, now_us)
            await self.uses.prune(now_us)
            await self.audit.prune(now_us)
            await self._clear_outputs(now_us)
        except TenureError as error:
            log.error("cannot prune: %s", error.detail)
        except OSError as error:
            log.error("cannot clear outputs of batches: %s", error)
        for record in self.tokens.records():
            ends_us = record.expires_us or 0
            if self.looked_us < ends_us <= now_us and record.state(ends_us - 1) == "active":
                self.audit.note(act_row(ends_us, "token.expired", record.name, {}))
        self.looked_us = now_us

    async def _clear_outputs(self, now_us: int) -> None:
        found = await asyncio.to_thread(outputs.listing, self.outputs)
        doomed = self.state.read(outputs.doomed, found, now_us)
        await asyncio.to_thread(outputs.clear, self.outputs, doomed)
        for name in (path for path in doomed if "/" not in path):
            self.audit.note(act_row(now_us, "output.removed", name, {}))
