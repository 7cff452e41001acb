"""The engine as the rest of tenure sees it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Protocol

from tenure.model.effects import OneEngineEffect
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.outcome import Outcome

Json = dict[str, object]
SaveLog = Callable[[str, bytes], Awaitable[None]]
"""Keeps the end of a container's log under a key before the container is removed."""

LOG_TAIL_BYTES = 1 << 20
"""How much of a log is read and kept."""


class EnginePort(Protocol):
    """One Docker engine.

    Reads raise EngineUnreachable (nothing was sent), EngineUnclear (no usable answer in time) or
    EngineAnswer (a definite no). ``perform`` raises nothing of that: it returns an outcome.
    """

    async def ping(self, heard_s: float = 0.0) -> None:
        """Return if the engine answers in time, or answered anything within the last ``heard_s``.

        Raises EngineError otherwise.
        """

    async def facts(self) -> EngineFacts:
        """Return identity, whole capacity and images."""

    async def listing(self, *, is_fresh: bool = False) -> tuple[ContainerFacts, ...]:
        """Return all containers; ours with times, exit codes and health. ``is_fresh``: no cache."""

    async def images(self) -> tuple[str, ...]:
        """Return the tags, digests and ids of all images, sorted."""

    async def inspect(self, ref: str) -> ContainerFacts | None:
        """Return one container by id or name, None if there is none."""

    async def inspect_raw(self, ref: str) -> Json | None:
        """Return Docker's own document, None if there is no such container."""

    async def has_registry_image(self, image: str) -> bool | None:
        """Return whether the engine could pull the image; None if it cannot tell now."""

    async def logs(
        self, ref: str, *, tail_bytes: int = LOG_TAIL_BYTES, is_stamped: bool = False
    ) -> bytes:
        """Return the last ``tail_bytes`` of both streams; ``is_stamped``: a time on each line."""

    def follow_logs(
        self, ref: str, *, tail_lines: int | None = None, is_stamped: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log from its last ``tail_lines`` (None: all) until the container ends."""

    def stats_stream(self, ref: str) -> AsyncGenerator[Json, None]:
        """Yield Docker's stats objects, about one per second, until the container ends."""

    async def stats_once(self, refs: Iterable[str]) -> dict[str, Json]:
        """Return one stats object per container, all asked at once; absent ones are left out."""

    def events(
        self, since_us: int | None = None, *, on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[Json, None]:
        """Yield container events; never ends but by raising EngineError."""

    async def perform(self, effect: OneEngineEffect) -> Outcome:
        """Carry out an effect; every way it can go is an outcome."""

    async def close(self) -> None:
        """Close all connections."""
