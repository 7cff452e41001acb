"""Checkpoints of one engine's containers: taken by CRIU, kept in the container's own folder."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from urllib.parse import quote

from tenure.engines.containers.create import unsure
from tenure.engines.containers.listing import Lister
from tenure.engines.http import paths
from tenure.engines.http.errors import EngineAnswer, made_id
from tenure.engines.http.transport import Transport
from tenure.model.effects import CheckpointContainer
from tenure.model.errors import EngineError
from tenure.model.outcome import Done, Outcome, Refused, Unknown

POLL_S = 0.02
"""Pause between looks: for a moment after the answer the container is still shown as paused."""

SETTLE_S = 10.0
"""The longest such moment."""

_SOCKETS = ("/proc/net/tcp", "/proc/net/tcp6")
_STATE = 3
_RESTORABLE = frozenset(("06", "07", "0A"))
"""States of TCP sockets that can be kept: none any more (TIME_WAIT, CLOSE), or listening."""


class Checkpoints:
    """Takes and drops checkpoints on one engine."""

    def __init__(self, transport: Transport, lister: Lister) -> None:
        self._transport = transport
        self._lister = lister

    async def take(self, effect: CheckpointContainer) -> Outcome:
        """Take one and have the container end; refused while it certainly runs on."""
        if count := await self._connections(effect.engine_id):
            told = f"it has {count} open TCP connection{'s' if count > 1 else ''}"
            return Refused("checkpoint_failed", told)
        path = paths.container(effect.engine_id, "/checkpoints")
        asked = {"CheckpointID": effect.checkpoint, "Exit": True}
        limit_s = self._transport.timeouts.start_s
        try:
            await self._transport.send("POST", path, body=asked, timeout_s=limit_s, is_long=True)
        except EngineAnswer as answer:
            return await self._refused(effect, answer)
        if await unsure(self._state(effect.engine_id)) in ("exited", "dead"):
            return Done()
        return Unknown("a checkpoint was taken, and the container did not end")

    async def _refused(self, effect: CheckpointContainer, answer: EngineAnswer) -> Outcome:
        state = await unsure(self._state(effect.engine_id, is_settled=("running",)))
        if state == "":
            return Refused("no_such_container", answer.detail)
        if state == "running":
            return Refused("checkpoint_failed", answer.detail)
        return Unknown(answer.detail)

    async def _state(self, engine_id: str, is_settled: tuple[str, ...] = ()) -> str:
        """Return the state once it is exited or ``is_settled``, or as it is after a while."""
        until_s = time.monotonic() + SETTLE_S
        while True:
            found = await self._lister.inspect(engine_id)
            state = "" if found is None else found.state
            if state in ("", "exited", "dead", *is_settled) or time.monotonic() > until_s:
                return state
            await asyncio.sleep(POLL_S)

    async def _connections(self, engine_id: str) -> int:
        """Return how many open TCP connections a container has, 0 where it cannot tell.

        A dump with one fails with no reason given. An image without ``cat`` cannot tell; then the
        dump does.
        """
        asked = {"AttachStdout": True, "Tty": True, "Cmd": ["cat", *_SOCKETS]}
        try:
            path = paths.container(engine_id, "/exec")
            key = made_id(await self._transport.send("POST", path, body=asked), path)
            shown = await self._transport.send(
                "POST", f"/exec/{key}/start", body={"Detach": False, "Tty": True}, timeout_s=5.0
            )
        except EngineError:
            return 0
        return connections(shown.decode(errors="replace"))

    async def drop(self, engine_id: str, name: str) -> None:
        """Remove a checkpoint that is not needed any more; it goes with its container at last."""
        path = paths.container(engine_id, f"/checkpoints/{quote(name, safe='')}")
        with suppress(EngineError):
            await self._transport.send("DELETE", path)


def connections(table: str) -> int:
    """Return how many connections ``/proc/net/tcp`` shows that cannot be kept."""
    rows = [line.split() for line in table.splitlines()]
    sockets = [row for row in rows if len(row) > _STATE and row[0].removesuffix(":").isdigit()]
    states = [row[_STATE] for row in sockets]
    return sum(state not in _RESTORABLE for state in states)
