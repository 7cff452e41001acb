"""What tenure adds to the start of a container, on a real engine that is on and has the image.

From sending the POST to the engine's own ``State.StartedAt``; beside it a bare create and start of
the same body over Docker's API. Pairs are taken in turn, either first, so that both see the same
machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from benchmarks.errors import BenchError
from benchmarks.figures import Goal, Report, figure
from benchmarks.http import Connection, Door, run
from benchmarks.rig import Daemon, folder, running, say
from tenure.model.facts import LABEL_CONTAINER
from testbed import IMAGE, NodeSpec, Testbed

NODE = "node1"
ENGINE_PORT = 2375
BODY: dict[str, Any] = {"Image": IMAGE, "Cmd": ["sleep", "1000"], "HostConfig": {"Init": True}}
WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How many pairs count, and how many come before them."""

    pairs: int = 20
    warm: int = 3


FULL = Plan()
QUICK = Plan(pairs=3, warm=1)


class Pairs:
    """One client of the daemon and one of the engine, both on kept connections."""

    def __init__(self, daemon: Door, engine: Door) -> None:
        self._daemon, self._engine = Connection(daemon), Connection(engine)
        self._number = 0

    async def __aenter__(self) -> Pairs:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._daemon.close()
        await self._engine.close()

    async def pair(self) -> tuple[float, float]:
        """Start one container each way; return the ms (by tenure, bare)."""
        self._number += 1
        if self._number % 2:
            by_tenure = await self.by_tenure()
            return by_tenure, await self.bare()
        bare = await self.bare()
        return await self.by_tenure(), bare

    async def by_tenure(self) -> float:
        """Return the ms from the POST to the start, and remove the container."""
        body = json.dumps({"name": f"added-{self._number}", **BODY}).encode()
        await self._daemon.open()
        begun_ns = time.time_ns()
        answer = await self._daemon.ask("POST", "/v1/containers", body)
        key = answer.require(201).json["id"]
        engine_id = await self._find(f"{LABEL_CONTAINER}={key}")
        took_ms = await self._until_started(engine_id, begun_ns)
        await self._daemon.ask("DELETE", f"/v1/containers/{key}")
        await self._gone(engine_id)
        return took_ms

    async def bare(self) -> float:
        """Return the ms from the create to the start, and remove the container."""
        body = json.dumps(BODY).encode()
        await self._engine.open()
        begun_ns = time.time_ns()
        made = await self._engine.ask("POST", f"/containers/create?name=b{self._number}x", body)
        engine_id = made.require(201).json["Id"]
        (await self._engine.ask("POST", f"/containers/{engine_id}/start", b"")).require(204)
        took_ms = await self._until_started(engine_id, begun_ns)
        await self._engine.ask("DELETE", f"/containers/{engine_id}?force=1&v=1")
        await self._gone(engine_id)
        return took_ms

    async def _find(self, label: str) -> str:
        """Return the engine's id of the container with a label, once there is one."""
        filters = quote(json.dumps({"label": [label]}))
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            page = await self._engine.ask("GET", f"/containers/json?all=1&filters={filters}")
            if rows := page.require(200).json:
                return str(rows[0]["Id"])
            await asyncio.sleep(0.05)
        raise BenchError(f"no container with {label} came")

    async def _until_started(self, engine_id: str, begun_ns: int) -> float:
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            seen = await self._engine.ask("GET", f"/containers/{engine_id}/json")
            state = seen.require(200).json["State"]
            if state["Running"]:
                return (_ns(state["StartedAt"]) - begun_ns) / 1e6
            await asyncio.sleep(0.05)
        raise BenchError(f"{engine_id} did not start")

    async def _gone(self, engine_id: str) -> None:
        end_s = time.monotonic() + WAIT_S
        while time.monotonic() < end_s:
            if (await self._engine.ask("GET", f"/containers/{engine_id}/json")).status == 404:
                return
            await asyncio.sleep(0.05)
        raise BenchError(f"{engine_id} is not removed")


def _ns(text: str) -> int:
    """Return UTC nanoseconds of Docker's time, which has up to nine digits after the point."""
    whole, _, part = text.rstrip("Z").partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(part.ljust(9, "0"))


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures on an engine of the testbed."""
    plan = QUICK if is_quick else FULL
    spec = NodeSpec(NODE, "nursery", cpus=1.0)
    with folder() as path, Testbed([spec], path / "bed") as bed:
        say("start: a daemon with one real engine")
        daemon = Daemon(path / "d", {"nodes": bed.config()["nodes"]})
        engine = Door(bed.nodes[NODE].address, ENGINE_PORT)
        with running(daemon):
            daemon.rest()
            rows = run(_measure(Pairs(daemon.door, engine), plan))
    added = [by_tenure - bare for by_tenure, bare in rows]
    figures = (
        figure("added_ms", "added to a container's start", "ms", added, Goal("most", 15)),
        figure("by_tenure_ms", "POST /v1/containers to StartedAt", "ms", [row[0] for row in rows]),
        figure("bare_ms", "bare create and start to StartedAt", "ms", [row[1] for row in rows]),
    )
    notes = (
        f"{plan.pairs} pairs in turn on one real engine that is on and has the image; the median "
        "of the differences of pairs. Both clients keep their connection; the first "
        f"{plan.warm} pairs do not count.",
    )
    return Report("start", figures, notes)


async def _measure(pairs: Pairs, plan: Plan) -> list[tuple[float, float]]:
    async with pairs:
        for _ in range(plan.warm):
            await pairs.pair()
        return [await pairs.pair() for _ in range(plan.pairs)]
