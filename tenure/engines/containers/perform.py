"""Effects on one engine, each to its outcome.

``Refused`` is said only where it is certain that nothing happened and nothing will; whatever is
not certain is ``Unknown``, and the core inspects before it acts again. Statuses decide, never
texts; where a status can mean two things, an inspect tells which.
"""

from __future__ import annotations

import asyncio
import math
from urllib.parse import quote

from tenure.engines.containers import decode
from tenure.engines.containers.checkpoint import Checkpoints
from tenure.engines.containers.create import Creator, unsure
from tenure.engines.containers.listing import Lister
from tenure.engines.containers.logs import LOG_TAIL_BYTES, Logs, SaveLog
from tenure.engines.http import paths
from tenure.engines.http.errors import (
    HTTP_BAD_REQUEST,
    HTTP_CONFLICT,
    HTTP_NOT_FOUND,
    HTTP_SERVER_ERROR,
    EngineAnswer,
    is_held,
)
from tenure.engines.http.outcomes import outcome_of
from tenure.engines.http.transport import Transport
from tenure.engines.moves import leftovers
from tenure.model.document import at
from tenure.model.effects import (
    CheckpointContainer,
    CreateContainer,
    OneEngineEffect,
    RetireContainer,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
)
from tenure.model.facts import LABEL_CONTAINER, ContainerFacts
from tenure.model.outcome import Done, Outcome, Refused, Unknown

POLL_S = 0.2
"""Pause between looks at a container that is being removed."""


HELD = "the engine holds a task of it that it neither shows nor ends: its process may run"
"""Why a container can be neither started nor removed."""


class Performer:
    """Carries out effects on one engine."""

    def __init__(
        self, transport: Transport, lister: Lister, *, creator: Creator, save_log: SaveLog
    ) -> None:
        self._transport = transport
        self._lister = lister
        self._creator = creator
        self._logs = Logs(transport, lister)
        self._save_log = save_log
        self._checkpoints = Checkpoints(transport, lister)

    async def perform(self, effect: OneEngineEffect) -> Outcome:
        """Carry out ``effect``; every way it can go is an outcome."""
        return await outcome_of(self._attempt(effect), {HTTP_BAD_REQUEST: "bad_request"})

    async def _attempt(self, effect: OneEngineEffect) -> Outcome:
        match effect:
            case CreateContainer():
                return await self._creator.create(effect)
            case StartContainer():
                return await self._start(effect)
            case StopContainer():
                return await self._stop(effect.engine_id, effect.grace_s)
            case RetireContainer():
                return await self._retire(effect)
            case SetRestartPolicy():
                return await self._set_restart_policy(effect)
            case CheckpointContainer():
                return await self._checkpoints.take(effect)

    async def _start(self, effect: StartContainer) -> Outcome:
        """Start; a 404 can be the container or one of its networks, a 500 can come too late.

        A 500 is the engine's own trouble and may pass; other statuses blame the container.
        """
        query = f"?checkpoint={quote(effect.checkpoint, safe='')}" if effect.checkpoint else ""
        path = paths.container(effect.engine_id, f"/start{query}")
        try:
            await self._transport.send("POST", path, timeout_s=self._transport.timeouts.start_s)
        except EngineAnswer as answer:
            found = await unsure(self._lister.inspect(effect.engine_id))
            if found is None:
                return Refused("no_such_container", answer.detail)
            if found.state != "running":
                return _refused_start(answer)
        if effect.checkpoint:
            await self._checkpoints.drop(effect.engine_id, effect.checkpoint)
        return Done()

    async def _stop(self, engine_id: str, grace_s: int) -> Outcome:
        """Stop; after a 500 the container may still die, unless an inspect shows it dead."""
        path = paths.container(engine_id, f"/stop?t={grace_s}")
        limit_s = grace_s + self._transport.timeouts.stop_extra_s
        try:
            await self._transport.send("POST", path, timeout_s=limit_s, is_long=True)
        except EngineAnswer as answer:
            if answer.status == HTTP_NOT_FOUND:
                return Done()
            if answer.status < HTTP_SERVER_ERROR:
                raise
            found = await unsure(self._lister.inspect(engine_id))
            is_over = found is None or not found.is_running
            return Done() if is_over else Unknown(answer.detail)
        return Done()

    async def _retire(self, effect: RetireContainer) -> Outcome:
        """Stop, keep the log, remove. Found by name, it must be a tenure's: nothing else is ours.

        From the inspect on the id is used, lest a name be taken by another container meanwhile.
        """
        document = await self._lister.inspect_raw(effect.target)
        if document is None:
            return Done()
        facts = decode.from_inspect(document)
        if effect.target != facts.engine_id and not decode.is_ours(facts.labels):
            return Done()
        if await self._is_blocked(facts, is_fenced=effect.is_fenced):
            return Refused("start_blocked", HELD)
        if facts.is_running or is_held(facts.error):
            stopped = await self._stop(facts.engine_id, effect.grace_s)
            if not isinstance(stopped, Done):
                return stopped
        if effect.logs_key:
            failure = await unsure(self._keep_log(facts.engine_id, effect.logs_key))
            if failure is not None:
                return failure
        outcome = await unsure(self._remove(facts.engine_id))
        if isinstance(outcome, Done) and (owner := facts.labels.get(LABEL_CONTAINER)):
            await leftovers.clear(self._transport, owner)
        return outcome

    async def _is_blocked(self, facts: ContainerFacts, *, is_fenced: bool) -> bool:
        """Whether a removal might leave a process of a container that does not show as running.

        Docker 20.10 removes such a container, and its process runs on, seen by nobody. What ran
        before can be asked by starting it: it is about to be stopped anyway. What never ran is not
        asked, because an attempt of an executor is begun once; nor what was fenced, because its
        successor may run, and what its engine remembers is of before the node was off.
        """
        if facts.is_running or not is_held(facts.error):
            return facts.is_torn
        if is_fenced:
            return False
        started = await self._start(StartContainer("", "", "", facts.engine_id))
        return isinstance(started, Refused) and started.code == "start_blocked"

    async def _keep_log(self, engine_id: str, key: str) -> Unknown | None:
        """Hand over the log's end; an unreadable log (gone, or a driver that only writes) is none.

        Returns Unknown if it could not be kept: the container must then stay.
        """
        try:
            content = await self._logs.tail(engine_id, LOG_TAIL_BYTES, is_stamped=False)
        except EngineAnswer:
            return None
        try:
            await self._save_log(key, content)
        except Exception as error:  # noqa: BLE001 - whatever the store raised, the log comes first
            return Unknown(f"the log of {engine_id} was not kept: {error}")
        return None

    async def _remove(self, engine_id: str) -> Outcome:
        """Remove a container with its anonymous volumes."""
        path = paths.container(engine_id, "?force=1&v=1")
        try:
            await self._transport.send("DELETE", path, timeout_s=self._transport.timeouts.removal_s)
        except EngineAnswer as answer:
            if answer.status == HTTP_NOT_FOUND:
                return Done()
            if answer.status == HTTP_CONFLICT:
                return await self._await_removal(engine_id)
            return Unknown(answer.detail)
        return Done()

    async def _await_removal(self, engine_id: str) -> Outcome:
        """Wait for a removal that someone else began."""
        for _ in range(math.ceil(self._transport.timeouts.removal_s / POLL_S)):
            if await self._lister.inspect(engine_id) is None:
                return Done()
            await asyncio.sleep(POLL_S)
        return Unknown(f"{engine_id} is being removed, and stays")

    async def _set_restart_policy(self, effect: SetRestartPolicy) -> Outcome:
        path = paths.container(effect.engine_id, "/update")
        try:
            await self._transport.send("POST", path, body={"RestartPolicy": effect.policy})
        except EngineAnswer as answer:
            if answer.status == HTTP_NOT_FOUND:
                return Refused("no_such_container", answer.detail)
            if answer.status < HTTP_SERVER_ERROR:
                return Refused("bad_request", answer.detail)
            document = await unsure(self._lister.inspect_raw(effect.engine_id))
            name = at(document, "HostConfig", "RestartPolicy", "Name")
            is_set = name == effect.policy.get("Name")
            return Done() if is_set else Refused("engine_error", answer.detail)
        return Done()


def _refused_start(answer: EngineAnswer) -> Refused:
    """Return why a container that does not run was not started."""
    if is_held(answer.detail):
        return Refused("start_blocked", HELD)
    is_passing = answer.status >= HTTP_SERVER_ERROR
    return Refused("engine_error" if is_passing else "start_failed", answer.detail)
