"""Creating a container so that doing it twice makes one.

Sent over aiohttp although the docker package has a call for it: that one takes keyword arguments
and would drop the fields of a create body that it does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar
from urllib.parse import quote

from tenure.engines.containers import decode
from tenure.engines.containers.listing import Lister
from tenure.engines.containers.registry import Registry
from tenure.engines.http.errors import (
    HTTP_BAD_REQUEST,
    HTTP_CONFLICT,
    HTTP_NOT_FOUND,
    EngineAnswer,
    EngineUnreachable,
    made_id,
)
from tenure.engines.http.transport import Transport
from tenure.engines.moves.images import inspect
from tenure.engines.moves.volumes import claim
from tenure.model.document import text, texts
from tenure.model.effects import CreateContainer
from tenure.model.errors import EngineError, EngineUnclear
from tenure.model.facts import LABEL_CONTAINER, ContainerFacts
from tenure.model.outcome import Done, Outcome, Refused

T = TypeVar("T")

NAME_TRIES = 10
NAME_PAUSE_S = 0.3
"""A name whose container is just being removed becomes free within a second or three."""

GOING = frozenset(("removing", "dead"))
"""States of a container that will never run again though it still has its name."""


async def unsure(step: Awaitable[T]) -> T:
    """Await a step of an effect that may already have changed something.

    A failure to connect then no longer means that nothing happened: it becomes EngineUnclear.
    """
    try:
        return await step
    except EngineUnreachable as error:
        raise EngineUnclear(error.detail) from error


class Creator:
    """Creates containers on one engine."""

    def __init__(self, transport: Transport, lister: Lister, registry: Registry) -> None:
        self._transport = transport
        self._lister = lister
        self._registry = registry

    async def create(self, effect: CreateContainer) -> Outcome:
        """Create the container or adopt its equal; raise EngineError if that stays unclear."""
        owner = texts(effect.body, "Labels").get(LABEL_CONTAINER)
        if owner is not None:
            await claim(self._transport, effect.body, owner)
        may_pull = effect.pull
        refusal: Outcome = Refused("name_taken", effect.name)
        for _ in range(NAME_TRIES):
            try:
                return Done(await self._post(effect))
            except EngineAnswer as error:
                answer = error
            found = await unsure(self._lister.inspect(effect.name))
            if _is_same(effect, found):
                return Done(found.engine_id if found else "")
            if answer.status == HTTP_CONFLICT and (found is None or found.state in GOING):
                refusal = Refused("name_taken" if found else "bad_request", answer.detail)
                await asyncio.sleep(NAME_PAUSE_S)
                continue
            if answer.status != HTTP_NOT_FOUND or await unsure(self._has_image(effect)):
                return _refused(answer)
            if not may_pull:
                return Refused("no_image", answer.detail)
            may_pull = False
            if (failure := await self._pull(effect)) is not None:
                return failure
        return refusal

    async def _post(self, effect: CreateContainer) -> str:
        """Return the id of a new container; the body goes as it is."""
        path = f"/containers/create?name={quote(effect.name, safe='')}"
        return made_id(await self._transport.send("POST", path, body=effect.body), path)

    async def _has_image(self, effect: CreateContainer) -> bool:
        return await inspect(self._transport, text(effect.body, "Image")) is not None

    async def _pull(self, effect: CreateContainer) -> Refused | None:
        """Pull the image; what fails here fails before anything was created."""
        try:
            await self._registry.pull(text(effect.body, "Image"))
        except EngineAnswer as answer:
            return Refused("no_image", answer.detail)
        except EngineError as error:
            return Refused("unreachable", error.detail)
        return None


def _is_same(effect: CreateContainer, found: ContainerFacts | None) -> bool:
    """Return whether a container is the copy that the effect asks for, and will stay."""
    wanted = decode.identity(texts(effect.body, "Labels"))
    return (
        found is not None
        and found.state not in GOING
        and bool(wanted)
        and decode.identity(found.labels) == wanted
    )


def _refused(answer: EngineAnswer) -> Refused:
    codes = {HTTP_CONFLICT: "name_taken", HTTP_BAD_REQUEST: "bad_request"}
    return Refused(codes.get(answer.status, "engine_error"), answer.detail)
