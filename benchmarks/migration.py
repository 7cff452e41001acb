"""What a move costs: the gap that a live one leaves in a process, beside the bare API sequence.

The process itself tells its gap: it writes the time of day every 20 ms, and the longest pause
between two lines counts. Beside 200 MiB of touched memory the engines' own work (dump and restore)
is nearly all of it; what tenure adds is the difference to the same calls made by hand, with target
and helpers created beforehand. Both ways are taken in turn, so that they see the same machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.http import run
from benchmarks.rig import Daemon, folder, running, say, until
from tenure.client.client import Client
from tenure.client.target import parse
from tenure.engines.http.transport import Timeouts, Transport
from tenure.model.document import at
from testbed import IMAGE, NodeSpec, Testbed, docker_api

SOURCE, TARGET = "a", "b"
#: The wall's clock: CRIU restores into a time namespace, whose uptime leaves the gap out.
SCRIPT = "hold {mib} & while :; do echo $EPOCHREALTIME >>/told/$0; usleep 20000; done"
WAIT_S = 120.0
LINES = 25
MOUNT = "/cp"
#: Bare and by tenure: the issue's bound on the ratio of the medians.
MOST_RATIO = 1.1
#: Of a change of one small file: its layer, the image's configuration, tar's padding.
MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Plan:
    """How many moves each way count, and how much memory they carry."""

    moves: int = 5
    mib: int = 200


FULL = Plan()
QUICK = Plan(moves=1, mib=10)


@dataclass(frozen=True, slots=True)
class Bench:
    """Two engines, a daemon over them, and the folder in which containers tell the time."""

    bed: Testbed
    client: Client
    told: Path
    plan: Plan

    def body(self, name: str) -> dict[str, Any]:
        """Return the create body of a process that holds memory and tells the time."""
        return {
            "Image": IMAGE,
            "Cmd": ["sh", "-c", SCRIPT.format(mib=self.plan.mib), name],
            "HostConfig": {"Init": True, "Binds": [f"{self.told}:/told"]},
            "Labels": {"tenure.binds": "shared"},
        }

    def gap_s(self, name: str) -> float:
        """Return the longest pause of a process, once it has told the time for a while after it."""
        lines = self.lines(name)
        wanted = len(lines) + LINES
        until(lambda: len(self.lines(name)) >= wanted, WAIT_S, f"{name} to go on")
        lines = self.lines(name)
        return max(after - before for before, after in pairwise(lines))

    def lines(self, name: str) -> list[float]:
        """Return the times that a process has told, in seconds."""
        file = self.told / name
        return [float(line) for line in file.read_text().split()] if file.exists() else []

    def ready(self, name: str, node: str) -> None:
        """Wait until a process holds its memory, and tells the time in peace."""
        path = f"/containers/{name}/stats?stream=0&one-shot=1"
        least = self.plan.mib << 20

        def holds() -> bool:
            status, answer = docker_api.call(self.bed.nodes[node].socket, "GET", path)
            memory = json.loads(answer).get("memory_stats", {}) if status == 200 else {}
            return bool(memory.get("usage", 0) >= least and len(self.lines(name)) > LINES)

        until(holds, WAIT_S, f"{name} to hold its memory", poll_s=0.2)
        (self.told / name).write_text("")
        until(lambda: len(self.lines(name)) > 1, WAIT_S, f"{name} to tell the time")


def by_tenure(bench: Bench, name: str) -> tuple[float, dict[str, Any]]:
    """Move a container by a drain; return its gap in seconds, and the move as told."""
    client = bench.client
    _create(bench, name, bench.body(name))
    bench.ready(name, SOURCE)
    move = _drained(bench, name)
    if move["kind"] != "live":
        raise BenchError(f"{name} was moved by {move['kind']}: {move['why']}")
    gap_s = bench.gap_s(name)
    client.remove_container(name)
    until(lambda: not client.containers(), WAIT_S, f"{name} to be gone")
    return gap_s, move


def _create(bench: Bench, name: str, body: dict[str, Any]) -> None:
    bench.client.schedule_node(TARGET, "cordoned")
    bench.client.create_container({"name": name, **body})
    running_there = partial(_is_running, bench.client, name)
    until(running_there, WAIT_S, f"{name} to run")
    bench.client.schedule_node(TARGET, "yes")


def _is_running(client: Client, name: str) -> bool:
    return bool(client.container(name)["state"] == "running")


def _drained(bench: Bench, name: str) -> dict[str, Any]:
    client = bench.client
    client.drain_node(SOURCE)
    until(lambda: client.container(name)["node"] == TARGET, WAIT_S, f"{name} to have moved")
    until(lambda: client.node(SOURCE)["drain"]["state"] == "drained", WAIT_S, "the drain to end")
    client.schedule_node(SOURCE, "yes")
    move: dict[str, Any] = client.container(name)["moves"][-1]
    return move


def bare(bench: Bench, name: str) -> float:
    """Move a container by the bare calls; return its gap in seconds."""
    return run(_bare(bench, name))


async def _bare(bench: Bench, name: str) -> float:
    source, target = (
        Transport(f"unix://{bench.bed.nodes[node].socket}", Timeouts()) for node in NODES
    )
    try:
        made = [await _made(end, name, bench.body(name)) for end in (source, target)]
        helpers = [
            await _made(end, f"{name}-helper", await _window(end, key))
            for end, key in zip((source, target), made, strict=True)
        ]
        await source.send("POST", f"/containers/{made[0]}/start")
        await asyncio.to_thread(bench.ready, name, SOURCE)
        asked = {"CheckpointID": "cp", "Exit": True}
        await source.send("POST", f"/containers/{made[0]}/checkpoints", body=asked)
        await _until_exited(source, made[0])
        where = {"path": f"{MOUNT}/cp"}
        async with source.stream(f"/containers/{helpers[0]}/archive", where) as chunks:
            path = f"/containers/{helpers[1]}/archive"
            await target.upload("PUT", path, {"path": MOUNT}, chunks)
        await target.send("POST", f"/containers/{made[1]}/start?checkpoint=cp")
        gap_s = await asyncio.to_thread(bench.gap_s, name)
        for end, keys in ((source, (made[0], helpers[0])), (target, (made[1], helpers[1]))):
            for key in keys:
                await end.send("DELETE", f"/containers/{key}?force=1&v=1")
        return gap_s
    finally:
        await source.close()
        await target.close()


NODES = (SOURCE, TARGET)


async def _made(end: Transport, name: str, body: dict[str, Any]) -> str:
    answer = await end.send("POST", f"/containers/create?name={name}", body=body)
    return str(json.loads(answer)["Id"])


async def _until_exited(end: Transport, key: str) -> None:
    """Wait for the end of a container: for a moment after the answer it is still shown paused."""
    end_s = time.monotonic() + WAIT_S
    while time.monotonic() < end_s:
        if at(await end.document(f"/containers/{key}/json"), "State", "Status") == "exited":
            return
        await asyncio.sleep(0.01)
    raise BenchError(f"{key} did not end")


async def _window(end: Transport, key: str) -> dict[str, Any]:
    root = at(await end.document("/info"), "DockerRootDir")
    bind = f"{root}/containers/{key}/checkpoints:{MOUNT}"
    return {"Image": IMAGE, "Cmd": ["true"], "HostConfig": {"Binds": [bind]}}


def snapshot(bench: Bench, name: str) -> dict[str, Any]:
    """Move a container that has written a small file by a snapshot; return the move as told."""
    script = "echo kept >/kept; exec sleep 999"
    body = {"Image": IMAGE, "Cmd": ["sh", "-c", script], "HostConfig": {"Init": True}}
    _create(bench, name, body | {"tenure": {"migrate": "snapshot"}})
    time.sleep(1)  # so that the file is written; nothing outside can see it
    move = _drained(bench, name)
    bench.client.remove_container(name)
    until(lambda: not bench.client.containers(), WAIT_S, f"{name} to be gone")
    return move


def measure(*, is_quick: bool = False) -> Report:
    """Take the figures on two engines of the testbed that can checkpoint."""
    plan = QUICK if is_quick else FULL
    specs = [NodeSpec(name, "nursery", memory_bytes=1 << 30, checkpoint=True) for name in NODES]
    with folder() as path, Testbed(specs, path / "bed") as bed:
        say("migration: a daemon with two real engines")
        (path / "told").mkdir()
        budgets = {"verify_s": 1, "cooldown_s": 0}
        config = {"nodes": bed.config()["nodes"], "generations": ["nursery"], "budgets": budgets}
        daemon = Daemon(path / "d", config)
        with running(daemon):
            daemon.rest()
            bench = Bench(bed, Client(parse(daemon.socket)), path / "told", plan)
            figures = _figures(bench)
    notes = (
        f"{plan.moves} moves each way in turn, of a process with {plan.mib} MiB of touched memory "
        "between two engines of one machine. The gap is what the process itself saw. The bare "
        "sequence has its target and helpers created beforehand.",
        "The snapshot carries one small file; bytes are those sent to the target.",
    )
    return Report("migration", figures, notes)


def _figures(bench: Bench) -> tuple[Figure, ...]:
    ways: dict[str, list[float]] = {"tenure": [], "bare": []}
    told: list[dict[str, Any]] = []
    for number in range(2 * bench.plan.moves):
        is_bare = number % 4 in (1, 2)  # each way first as often as second
        say(f"move {number + 1} of {2 * bench.plan.moves}, {'bare' if is_bare else 'by tenure'}")
        if is_bare:
            ways["bare"].append(bare(bench, f"bare-{number}"))
        else:
            gap_s, move = by_tenure(bench, f"live-{number}")
            ways["tenure"].append(gap_s)
            told.append(move)
    kept = snapshot(bench, "kept")
    status, image = docker_api.call(bench.bed.nodes[SOURCE].socket, "GET", f"/images/{IMAGE}/json")
    if status != 200:
        raise BenchError("the testbed's image is gone")
    gap, plain = (figure("", "", "", ways[way]).median for way in ("tenure", "bare"))
    rows: tuple[tuple[str, str, str, Any, Goal | None], ...] = (
        (
            "live_ratio",
            "gap of a live move, to that of the bare calls",
            "",
            gap / plain,
            Goal("most", MOST_RATIO),
        ),
        ("live_gap_s", "gap of a live move, by tenure", "s", ways["tenure"], None),
        ("bare_gap_s", "gap of the bare calls", "s", ways["bare"], None),
        ("told_s", "downtime as tenure tells it", "s", [m["downtime_s"] for m in told], None),
        ("live_mib", "sent by a live move", "MiB", [m["moved_bytes"] / 2**20 for m in told], None),
        ("snapshot_s", "downtime of a snapshot move, as told", "s", kept["downtime_s"], None),
        (
            "snapshot_bytes",
            "sent by a snapshot move",
            "bytes",
            kept["moved_bytes"],
            Goal("most", MOST_BYTES),
        ),
        ("image_bytes", "the image that the target has", "bytes", json.loads(image)["Size"], None),
    )
    make: Callable[..., Figure] = figure
    return tuple(make(*row) for row in rows)
