"""Simulated machines behind Docker's HTTP API, in real time: one unix socket for each engine.

The daemon reaches them as it reaches real engines, by ``unix://`` URLs in its configuration, so
that a fleet of a thousand nodes can be had on one machine. What is simulated is the engine; how it
is asked (HTTP, listings, event streams, one-shot statistics) is what the daemon really does.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources
from tests.fleet import documents
from tests.fleet.guarding import PATHS, SimGuards
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.timeline import Timeline

#: Ends of containers happen this late at most.
PUMP_S = 0.02
#: A subscriber that reads no events is cut off after so many.
MAX_WAITING = 10_000
#: An engine takes this long for one-shot statistics (1.0 s on Docker 20.10).
STATS_S = 1.0
STATUS = {"name_taken": 409, "no_image": 404, "no_such_container": 404, "start_failed": 400}


class ServedFleet:
    """Machines by name and the one HTTP server that answers for all of them."""

    def __init__(self, folder: Path, *, stats_s: float = STATS_S) -> None:
        self.machines: dict[str, Machine] = {}
        self.timeline = Timeline(time.time_ns() // 1000)
        self.requests = 0
        self.folder = folder
        self._stats_s = stats_s
        self._readers: dict[str, set[asyncio.Queue[bytes]]] = {}
        self._guards = SimGuards()
        self._runner = web.ServerRunner(
            web.Server(self._answer, access_log=None), shutdown_timeout=0.1
        )
        self._pump: asyncio.Task[None] | None = None

    def add(self, name: str, size: Resources, images: tuple[str, ...]) -> Machine:
        """Add a machine that is on and empty; before ``start``."""
        machine = Machine(name, self.timeline, self, size)
        machine.images = images
        self.machines[name] = machine
        return machine

    async def start(self) -> None:
        """Listen at ``FOLDER/NAME.sock`` for every machine."""
        await self._runner.setup()
        for name in self.machines:
            await web.UnixSite(self._runner, str(self.folder / f"{name}.sock")).start()
        self._pump = asyncio.create_task(self._keep_time())

    async def close(self) -> None:
        """Close every socket."""
        if self._pump is not None:
            self._pump.cancel()
        await self._runner.cleanup()

    async def _keep_time(self) -> None:
        while True:
            self.catch_up()
            await asyncio.sleep(PUMP_S)

    def catch_up(self) -> int:
        """Let everything happen that is due by now; returns the time."""
        now_us = time.time_ns() // 1000
        while self.timeline.step(now_us):
            pass
        return self.timeline.now_us

    async def restart_some(self, per_s: float, random: Random) -> None:
        """Have containers die at a rate until cancelled; policies start them a second later."""
        due_s = time.monotonic()
        while True:
            due_s += random.expovariate(per_s)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            self.catch_up()
            machine = random.choice(list(self.machines.values()))
            alive = [c for c in machine.containers.values() if c.is_alive and c.is_kept_up(1)]
            if alive:
                machine.end(random.choice(alive), 1)

    # witness

    def started(self, container: SimContainer, *, how: str) -> None:
        """Nobody checks laws here."""

    def changed(self, container: SimContainer, what: str) -> None:
        """Send an event to those who follow the engine."""
        said = documents.event(container, what, self.timeline.now_us)
        line = json.dumps(said).encode() + b"\n"
        for queue in list(self._readers.get(container.node, ())):
            if queue.full():
                self._readers[container.node].discard(queue)
            else:
                queue.put_nowait(line)

    def reach_changed(self, machine: Machine) -> None:
        """These machines are always there."""

    # requests

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        self.catch_up()
        machine = self._machine(request)
        parts = request.path.strip("/").split("/")
        if parts[0].startswith("v1."):
            parts = parts[1:]
        if parts[0] in PATHS:
            return await self._guards.answer(request, machine.name)
        if parts == ["events"]:
            return await self._stream(request, machine)
        if request.method == "GET":
            return await self._read(machine, parts)
        return await self._change(request, machine, parts)

    async def _read(self, machine: Machine, parts: list[str]) -> web.Response:
        match parts:
            case ["containers", ref, what]:
                return await self._read_container(machine, unquote(ref), what)
            case ["containers", "json"]:
                return _json([documents.row(machine, c) for c in machine.containers.values()])
            case ["_ping"]:
                return web.Response(text="OK", headers={"Api-Version": documents.API_VERSION})
            case ["images", "json"]:
                return _json(documents.image_rows(machine))
            case ["info"]:
                return _json(documents.info(machine))
        image = unquote("/".join(parts[1:-1]))
        return _json({}) if parts[0] == "images" and image in machine.images else _absent("page")

    async def _change(
        self, request: web.BaseRequest, machine: Machine, parts: list[str]
    ) -> web.Response:
        raw = await request.read()
        body = {} if parts[-1] == "archive" else json.loads(raw or b"{}")
        match request.method, parts:
            case "PUT", ["containers", ref, "archive"] if machine.find(ref):
                return web.Response()
            case "POST", ["containers", "create"]:
                return _created(machine.create(request.query["name"], body, pull=False))
            case "POST", ["containers", ref, "update"]:
                return _done(machine.set_policy(ref, body["RestartPolicy"]))
            case "POST", ["containers", ref, "start" | "stop" as verb]:
                return _done(machine.start(ref) if verb == "start" else machine.stop(ref))
            case "DELETE", ["containers", ref] if machine.find(ref):
                return _done(machine.retire(ref))
        return _absent("page")

    def _machine(self, request: web.BaseRequest) -> Machine:
        transport = request.transport
        name = "" if transport is None else transport.get_extra_info("sockname")
        return self.machines[Path(name).stem]

    async def _read_container(self, machine: Machine, ref: str, what: str) -> web.Response:
        if what == "stats":
            await asyncio.sleep(self._stats_s)
        container = machine.find(ref)
        if container is None:
            return _absent("container")
        if what == "json":
            return _json(documents.inspection(machine, container))
        if what == "stats":
            return _json(documents.statistics(container, self.catch_up()))
        return web.Response() if what == "logs" else _absent("page")

    async def _stream(self, request: web.BaseRequest, machine: Machine) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        readers = self._readers.setdefault(machine.name, set())
        readers.add(queue)
        try:
            with suppress(ConnectionResetError):  # whoever followed has gone
                await response.prepare(request)
                while True:
                    await response.write(await queue.get())
        finally:
            readers.discard(queue)
        return response


def _json(document: Mapping[str, Any] | list[Any], status: int = 200) -> web.Response:
    body = json.dumps(document).encode()
    return web.Response(body=body, content_type="application/json", status=status)


def _absent(what: str) -> web.Response:
    return _json({"message": f"no such {what}"}, 404)


def _created(outcome: Outcome) -> web.Response:
    return _json({"Id": outcome.value}, 201) if isinstance(outcome, Done) else _refused(outcome)


def _done(outcome: Outcome) -> web.Response:
    return web.Response(status=204) if isinstance(outcome, Done) else _refused(outcome)


def _refused(outcome: Outcome) -> web.Response:
    code = outcome.code if isinstance(outcome, Refused) else ""
    return _json({"message": code}, STATUS.get(code, 500))
