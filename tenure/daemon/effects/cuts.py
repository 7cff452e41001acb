"""Inputs of batches and their chunks; what is split by lines is read behind its submission (ours).

Where chunks of so many lines end only a reading of the whole file tells, which may take longer than
any client waits. So it goes on behind, once for all who ask: they wait for a while, are told then
to ask again, and find what was read meanwhile, or all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tenure.daemon.effects import inputs
from tenure.model.batch import Chunk, InputFile
from tenure.model.errors import Unavailable
from tenure.model.units import size_text

#: So long a submission waits for its input: less than clients wait for an answer.
WAIT_S = 20.0
#: Inputs that are read at the same time: each has a thread, and all of them the same disks.
MAX_READING = 2
#: Who asks again comes within this time. Chunks of one input take some 2 MB, so that of those that
#: were read only so many are kept: the first ones go.
KEEP_S, MAX_KEPT = 600.0, 32

Cut = tuple[InputFile, tuple[Chunk, ...]]
Key = tuple[InputFile, int]


class _Ended(Exception):
    """The daemon ends: nobody waits for an input any more."""


@dataclass(slots=True)
class _Reading:
    """An input that is being read, or was; ``seen_bytes`` of it by now."""

    seen_bytes: int = 0
    is_ended: bool = False
    task: asyncio.Task[Cut] | None = field(default=None, repr=False)

    @property
    def is_done(self) -> bool:
        return self.task is not None and self.task.done()

    def note(self, seen_bytes: int) -> None:
        """Note how far its thread is; raises _Ended where nobody waits for it any more."""
        self.seen_bytes = seen_bytes
        if self.is_ended:
            raise _Ended


class Cuts:
    """Cuts inputs that lie in ``folders``."""

    def __init__(self, folders: Sequence[Path], *, wait_s: float = WAIT_S) -> None:
        self.folders = folders
        self._wait_s = wait_s
        self._known: dict[Key, _Reading] = {}
        self._is_closed = False

    async def cut(self, path: str, size_bytes: int | None, lines: int | None) -> Cut:
        """Return a file as it is now and its chunks, of ``size_bytes`` or ``lines`` each.

        Raises InvalidInput as ``inputs.cut`` does; Unavailable ``input_being_read`` for who has to
        ask again.
        """
        if size_bytes or not lines:
            work = partial(inputs.cut, path, self.folders, size_bytes=size_bytes, lines=lines)
            return await asyncio.to_thread(work)
        found = await asyncio.to_thread(inputs.look_at, path, self.folders)
        key = found, lines
        reading = self._known.get(key) or self._begin(key)
        assert reading.task is not None
        await asyncio.wait((reading.task,), timeout=self._wait_s)
        if self._is_closed:
            raise Unavailable("the daemon ends", code="ending")
        if reading.is_done:
            return reading.task.result()
        told = f"{size_text(reading.seen_bytes)} of the {size_text(found.size_bytes)} of {path} "
        raise _again(f"{told}are read, which tells where its lines end")

    def close(self) -> None:
        """Let go of what is being read; its threads end within a block of it."""
        self._is_closed = True
        for reading in self._known.values():
            reading.is_ended = True

    def _begin(self, key: Key) -> _Reading:
        if sum(not reading.is_done for reading in self._known.values()) >= MAX_READING:
            raise _again(f"{MAX_READING} inputs are being read, to tell where their lines end")
        reading = self._known[key] = _Reading(is_ended=self._is_closed)
        reading.task = asyncio.create_task(self._read(key, reading), name="input")
        reading.task.add_done_callback(lambda task: self._keep(key, reading, task))
        return reading

    async def _read(self, key: Key, reading: _Reading) -> Cut:
        found, lines = key
        work = partial(inputs.cut, found.path, self.folders, size_bytes=None, lines=lines)
        return await asyncio.to_thread(partial(work, tell=reading.note))

    def _keep(self, key: Key, reading: _Reading, task: asyncio.Task[Cut]) -> None:
        """Keep what was read for a while; of a failure nothing but for who waits now."""
        if task.cancelled() or task.exception() is not None:
            self._forget(key, reading)
            return
        done = [(known, one) for known, one in self._known.items() if one.is_done]
        for row in done[:-MAX_KEPT]:
            self._forget(*row)
        asyncio.get_running_loop().call_later(KEEP_S, self._forget, key, reading)

    def _forget(self, key: Key, reading: _Reading) -> None:
        if self._known.get(key) is reading:
            del self._known[key]


def _again(told: str) -> Unavailable:
    return Unavailable(f"{told}: send the same again", code="input_being_read")
