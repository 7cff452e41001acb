"""One Docker engine over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path

from tenure.engines.containers import decode
from tenure.engines.containers.agent import AgentSite
from tenure.engines.containers.create import Creator
from tenure.engines.containers.listing import Lister
from tenure.engines.containers.logs import LOG_TAIL_BYTES, Logs, SaveLog
from tenure.engines.containers.perform import Performer
from tenure.engines.containers.registry import Registry
from tenure.engines.files.carrier import Carrier
from tenure.engines.http import paths
from tenure.engines.http.access import Access
from tenure.engines.http.errors import HTTP_NOT_FOUND, EngineAnswer
from tenure.engines.http.frames import LineReader
from tenure.engines.http.transport import Timeouts, Transport
from tenure.engines.moves.passage import Passage
from tenure.engines.tiers.helper import Crew, Helpers
from tenure.engines.tiers.work import TierWork
from tenure.model.document import OwnDocument, time_us
from tenure.model.effects import FileEffect, OneEngineEffect, TierEffect, TwoEngineEffect
from tenure.model.errors import EngineError, EngineUnclear
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.outcome import Outcome
from tenure.model.units import US

_CONTAINERS_ONLY = json.dumps({"type": ["container"]})


class Engine:
    """A Docker engine by URL (``unix://``, ``tcp://``, ``https://`` or ``ssh://``).

    Raises InvalidInput for another URL. ``save_log`` is called by a retirement that keeps the
    log, before the container is removed; ``access`` holds what TLS and ssh need; helper containers
    are those of ``crew``. Reads raise EngineUnreachable (nothing was sent), EngineUnclear (no
    usable answer in time) or EngineAnswer (a definite no). What takes an effect raises nothing of
    that: it returns an outcome.
    """

    def __init__(
        self,
        url: str,
        save_log: SaveLog,
        *,
        timeouts: Timeouts | None = None,
        access: Access | None = None,
        crew: Crew | None = None,
    ) -> None:
        self._transport = Transport(url, timeouts or Timeouts(), access)
        self._lister = Lister(self._transport)
        self._logs = Logs(self._transport, self._lister)
        self._registry = Registry(self._transport)
        self._helpers = Helpers(self._transport, self._lister, self._registry, crew or Crew())
        self._tiers = TierWork(self._helpers)
        creator = Creator(self._transport, self._lister, self._registry)
        self._performer = Performer(
            self._transport, self._lister, creator=creator, save_log=save_log
        )

    async def ping(self, heard_s: float = 0.0) -> None:
        """Return if the engine answers, or did within ``heard_s``; raise EngineError otherwise."""
        await self._transport.ping(heard_s)

    async def facts(self) -> EngineFacts:
        """Return identity, whole capacity and images."""
        document = await self._transport.document("/info")
        return decode.engine_facts(document, self._transport.api_version, await self.images())

    async def listing(self, *, is_fresh: bool = False) -> tuple[ContainerFacts, ...]:
        """Return all containers; ours with times, exit codes and health.

        Helpers among them that nobody works with are removed meanwhile.
        """
        found = await self._lister.listing(is_fresh=is_fresh)
        self._helpers.sweep(found)
        return found

    async def images(self) -> tuple[str, ...]:
        """Return the tags, digests and ids of all images, sorted."""
        return decode.image_names(await self._transport.rows("/images/json"))

    async def inspect(self, ref: str) -> ContainerFacts | None:
        """Return one container by id or name, None if there is none."""
        return await self._lister.inspect(ref)

    async def inspect_raw(self, ref: str) -> OwnDocument | None:
        """Return Docker's own document, None if there is no such container."""
        return await self._lister.inspect_raw(ref)

    async def has_registry_image(self, image: str) -> bool | None:
        """Return whether the engine could pull the image; None if it cannot tell now."""
        return await self._registry.has_image(image)

    async def logs(
        self, ref: str, *, tail_bytes: int = LOG_TAIL_BYTES, is_stamped: bool = False
    ) -> bytes:
        """Return the last ``tail_bytes`` of both streams."""
        return await self._logs.tail(ref, tail_bytes, is_stamped=is_stamped)

    def follow_logs(
        self, ref: str, *, tail_lines: int | None = None, is_stamped: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield the log from its last ``tail_lines`` (None: all) until the container ends."""
        return self._logs.follow(ref, tail_lines, is_stamped=is_stamped)

    async def stats_once(self, refs: Iterable[str]) -> dict[str, OwnDocument]:
        """Return one stats object per running container, all asked at once.

        Raises EngineError only if not one could be had and one should have been.
        """
        asked = tuple(refs)
        answers = await asyncio.gather(*(self._stats(ref) for ref in asked))
        found = {
            ref: answer
            for ref, answer in zip(asked, answers, strict=True)
            if isinstance(answer, dict)
        }
        failures = [answer for answer in answers if isinstance(answer, EngineError)]
        if failures and not found:
            raise failures[0]
        return found

    async def _stats(self, ref: str) -> OwnDocument | EngineError | None:
        """Return the sample, None for a container that is gone or not running, or the failure.

        Of one that is removed while it is asked for Docker answers 200 and nothing.
        """
        try:
            sample = await self._transport.read(
                paths.container(ref, "/stats"),
                {"stream": "0", "one-shot": "1"},
                timeout_s=self._transport.timeouts.stats_s,
                is_sweep=True,
            )
        except EngineAnswer as answer:
            return None if answer.status == HTTP_NOT_FOUND else answer
        except EngineError as error:
            return error
        return sample if isinstance(sample, dict) and time_us(sample, "read") is not None else None

    async def events(
        self, since_us: int | None = None, *, on_open: Callable[[], None] | None = None
    ) -> AsyncGenerator[OwnDocument, None]:
        """Yield container events; never ends but by raising EngineError.

        ``since_us`` (the engine's clock) replays what the engine still remembers; ``on_open`` is
        called once the engine has accepted: a listing begun after it misses nothing.
        """
        params = {"filters": _CONTAINERS_ONLY}
        if since_us is not None:
            params["since"] = f"{since_us // US}.{since_us % US * 1000:09d}"
        reader = LineReader()
        async with self._transport.stream("/events", params) as chunks:
            if on_open is not None:
                on_open()
            async for chunk in chunks:
                for event in _fed(reader, chunk):
                    yield event
        raise EngineUnclear("the event stream ended")

    async def perform(self, effect: OneEngineEffect) -> Outcome:
        """Carry out an effect; every way it can go is an outcome."""
        return await self._performer.perform(effect)

    async def receive(self, origin: Engine, effect: TwoEngineEffect) -> Outcome:
        """Bring here what belongs to a container of ``origin``, whatever becomes of it."""
        return await Passage(origin._transport, self._transport).perform(effect)

    async def carry(self, effect: FileEffect, folder: Path) -> Outcome:
        """Bring input of a task here, or its output to the daemon's ``folder`` of outputs."""
        return await Carrier(self._transport, folder).perform(effect)

    def agent_site(self) -> AgentSite:
        """Return the place of the agent's container on this engine."""
        return AgentSite(self._transport, self._lister, self._registry)

    async def shelve(self, effect: TierEffect, origin: Engine | None = None) -> Outcome:
        """Do something with the tiers of the node; a block may come from those of ``origin``."""
        return await self._tiers.perform(effect, None if origin is None else origin._tiers)

    def read_file(self, image: str, path: str) -> AsyncGenerator[bytes, None]:
        """Yield a file of the node, through a helper of ``image``. Raises EngineError."""
        return self._tiers.read(image, path)

    async def close(self) -> None:
        """Close all connections, and the ssh that carried them."""
        await self._helpers.close()
        await self._registry.close()
        await self._transport.close()


def _fed(reader: LineReader, chunk: bytes) -> list[OwnDocument]:
    try:
        return list(reader.feed(chunk))
    except ValueError as error:
        raise EngineUnclear(f"/events: {error}") from error
