"""Helper containers: a directory of a node opened to the archive calls, and a short script there.

One is made for each thing to be done, with the directories that it needs and no network, and is
removed at its end. What a daemon that was killed left is removed before the next look at the node;
what appears later, for an engine carries out a create also when nobody waits for it any more, and
what it failed to remove, by the next listing that shows it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tenure.engines.containers.listing import Lister
from tenure.engines.containers.logs import Logs
from tenure.engines.containers.registry import Registry
from tenure.engines.http import paths
from tenure.engines.http.errors import (
    HTTP_BAD_REQUEST,
    HTTP_CONFLICT,
    HTTP_NOT_FOUND,
    EngineAnswer,
    made_id,
    parsed,
)
from tenure.engines.http.transport import Transport
from tenure.engines.moves import leftovers
from tenure.model.document import at, text, texts, words
from tenure.model.errors import EngineError, EngineRefused
from tenure.model.facts import LABEL_HELPER, ContainerFacts

#: A script reads a block or lists a tier; a disk that takes longer is out of order.
RUN_S = 900.0
#: The most that a script may say: a listing of a tier's files.
MOST_SAID = 32 << 20
#: Engines that bound the logs of containers would keep the end of a listing alone.
LOG_SIZE = "1g"
#: How often it is looked whether a helper is gone that another call removes.
LOOK_S = 0.2
#: The refusal of a helper for a directory that the node does not have.
NO_FOLDER = "no_tier"
#: Of helpers that work on tiers.
KIND = "tier"
#: Whose helper it is: several fleets may have nodes on one engine. Before it was set, ours.
LABEL_OWNER = "tenure.helper.fleet"


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the node and where the helper sees it."""

    source: str
    target: str
    is_read_only: bool = False


@dataclass(frozen=True, slots=True)
class Crew:
    """The helpers of a ``fleet``; ``alive`` are the names of those at work, on any engine.

    For two names may lead to one engine: of a node whose address changes, or by mistake.
    """

    fleet: str = ""
    alive: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Helpers:
    """Makes helpers on one engine; they are of a ``crew``."""

    transport: Transport
    lister: Lister
    registry: Registry
    crew: Crew
    sweeping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def opened(
        self, image: str, mounts: Sequence[Mount], script: str = "", args: Sequence[str] = ()
    ) -> AsyncIterator[Helper]:
        """Give a helper that was created and not started; it is removed at the end.

        Raises EngineRefused ``no_tier`` where a directory is missing, ``no_image`` where its image
        is not on the node and cannot be pulled, and EngineError.
        """
        name = f"tenure-{KIND}-{secrets.token_hex(6)}"
        self.crew.alive.add(name)
        try:
            engine_id = await self._created(name, _body(image, mounts, script, args) | self._mark())
            try:
                yield Helper(self, engine_id)
            finally:
                await asyncio.shield(leftovers.remove_container(self.transport, engine_id))
        finally:
            self.crew.alive.discard(name)

    def _mark(self) -> dict[str, object]:
        labels = {LABEL_HELPER: KIND, LABEL_OWNER: self.crew.fleet}
        return {"Labels": leftovers.NOT_OURS | labels}

    async def _created(self, name: str, body: Mapping[str, object]) -> str:
        try:
            return await self._post(name, body)
        except EngineAnswer as answer:
            if answer.status != HTTP_NOT_FOUND:
                raise
        image = str(body["Image"])
        try:
            await self.registry.pull(image)
        except EngineError as error:
            told = f"the image {image} of helpers is not on the node and cannot be pulled"
            told += f" (datasets.image): {error.detail}"
            raise EngineRefused(told, code="no_image") from error
        return await self._post(name, body)

    async def _post(self, name: str, body: Mapping[str, object]) -> str:
        """Return the id of a helper that was made; a 400 is EngineRefused ``no_tier``."""
        path = f"/containers/create?name={name}"
        try:
            return made_id(await self.transport.send("POST", path, body=body), path)
        except EngineAnswer as answer:
            if answer.status != HTTP_BAD_REQUEST:
                raise
            told = f"no such directory on the node? {answer.detail}"
            raise EngineRefused(told, code=NO_FOLDER) from answer

    async def clear(self) -> None:
        """Remove the helpers that nobody works with any more: none of them does anything later.

        Raises EngineError if one may be left.
        """
        path = "/containers/json"
        for row in await leftovers.labelled(self.transport, path, LABEL_HELPER, KIND):
            names = {name.lstrip("/") for name in words(row, "Names")}
            if not names & self.crew.alive and self._is_ours(texts(row, "Labels")):
                await self._remove(text(row, "Id"))

    def _is_ours(self, labels: Mapping[str, str]) -> bool:
        return labels.get(LABEL_OWNER, self.crew.fleet) == self.crew.fleet

    def sweep(self, seen: Iterable[ContainerFacts]) -> None:
        """Have helpers removed, beside other work, that a listing shows and nobody works with.

        Those that cannot be removed now are met again by the next listing.
        """
        left = [
            facts.engine_id
            for facts in seen
            if facts.labels.get(LABEL_HELPER) == KIND
            and facts.name not in self.crew.alive
            and self._is_ours(facts.labels)
        ]
        if left and (self.sweeping is None or self.sweeping.done()):
            self.sweeping = asyncio.create_task(self._remove_all(left), name="sweep-helpers")

    async def _remove_all(self, refs: Sequence[str]) -> None:
        for ref in refs:
            await leftovers.remove_container(self.transport, ref)

    async def close(self) -> None:
        """Remove no more."""
        if self.sweeping is not None:
            self.sweeping.cancel()
            await asyncio.gather(self.sweeping, return_exceptions=True)

    async def _remove(self, ref: str) -> None:
        """Remove a helper; one that is being removed already is waited for."""
        deadline_s = time.monotonic() + self.transport.timeouts.removal_s
        while True:
            try:
                await self.transport.send("DELETE", paths.container(ref, "?force=1&v=1"))
            except EngineAnswer as answer:
                if answer.status == HTTP_NOT_FOUND:
                    return
                if answer.status != HTTP_CONFLICT or time.monotonic() > deadline_s:
                    raise
                await asyncio.sleep(LOOK_S)
            else:
                return


@dataclass(frozen=True, slots=True)
class Helper:
    """One helper."""

    helpers: Helpers
    id: str

    async def run(self) -> tuple[int, str]:
        """Start it, and return the exit code of its script and what it said."""
        transport = self.helpers.transport
        limit_s = transport.timeouts.start_s
        await transport.send("POST", paths.container(self.id, "/start"), timeout_s=limit_s)
        path = paths.container(self.id, "/wait")
        answer = parsed(await transport.send("POST", path, timeout_s=RUN_S, is_long=True), path)
        code = at(answer, "StatusCode")
        logs = Logs(transport, self.helpers.lister)
        said = await logs.tail(self.id, MOST_SAID, is_stamped=False)
        return (code if isinstance(code, int) else 255), said.decode(errors="replace")


def _body(
    image: str, mounts: Sequence[Mount], script: str, args: Sequence[str]
) -> dict[str, object]:
    """Return a create body: root of nothing but the directories that are mounted."""
    return {
        "Image": image,
        "Entrypoint": ["sh", "-c", script, "sh"],
        "Cmd": list(args),
        "User": "0:0",
        "Env": ["LC_ALL=C"],
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "CapAdd": ["DAC_OVERRIDE", "FOWNER", "CHOWN"],
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_SIZE}},
            "Mounts": [
                {"Type": "bind", "Source": m.source, "Target": m.target, "ReadOnly": m.is_read_only}
                for m in mounts
            ],
        },
    }
