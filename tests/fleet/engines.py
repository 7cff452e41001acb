"""A fleet of simulated engines on unix sockets: ``python -m tests.fleet.engines --dir D``.

Prints one line of JSON once all answer: the ``nodes`` of a ``tenured.yml``. Ends on SIGTERM, or
when its standard input is closed, so that it never outlives whoever started it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import MIB
from tests.fleet.served import STATS_S, ServedFleet

IMAGE = "simulated:1"
#: Cores of each node, and its memory, unless the command says otherwise.
CPUS, MEMORY_GIB = 16, 64
GENERATIONS = ("nursery", "young", "tenured")
FOREIGN: dict[str, Any] = {
    "Image": IMAGE,
    "Cmd": ["serve", "-1"],
    "HostConfig": {"RestartPolicy": {"Name": "always"}},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to end."""
    return asyncio.run(_serve(_options(argv)))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet.engines")
    parser.add_argument("--dir", type=Path, required=True, help="folder of the sockets")
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--generations", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument("--cpus", type=int, default=CPUS, help="cores of each node")
    parser.add_argument("--memory-gib", type=int, default=MEMORY_GIB, help="memory of each node")
    parser.add_argument("--foreign", type=int, default=0, help="containers of others on each node")
    parser.add_argument("--restarts-per-s", type=float, default=0.0, help="containers that die")
    parser.add_argument(
        "--stats-s", type=float, default=STATS_S, help="time of one-shot statistics"
    )
    parser.add_argument("--lent", type=int, default=0, choices=(0, 1), help="their agents say so")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


async def _serve(options: argparse.Namespace) -> int:
    fleet = ServedFleet(options.dir, stats_s=options.stats_s)
    nodes = [_node(fleet, options, number) for number in range(options.nodes)]
    await fleet.start()
    gc.freeze()  # the machines stay; looking at them again and again would only take time
    print(json.dumps(nodes), flush=True)
    work: list[asyncio.Task[None]] = [asyncio.create_task(_end_of_input())]
    if options.restarts_per_s > 0:
        restarts = fleet.restart_some(options.restarts_per_s, Random(options.seed))
        work.append(asyncio.create_task(restarts))
    work.append(asyncio.create_task(_signalled()))
    done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    for task in work:
        task.cancel()
    await fleet.close()
    for task in done:
        task.result()
    return 0


def _node(fleet: ServedFleet, options: argparse.Namespace, number: int) -> dict[str, Any]:
    """Add a machine; return its entry of the configuration. Generations are of equal size."""
    name = f"n{number:04d}"
    size = Resources(options.cpus * 1000, options.memory_gib * 1024 * MIB)
    machine = fleet.add(name, size, (IMAGE,))
    for index in range(options.foreign):
        made = machine.create(f"theirs-{index}", FOREIGN, pull=False)
        if isinstance(made, Done):
            machine.start(made.value)
    generation = "young"
    if options.generations > 1:
        generation = GENERATIONS[number * options.generations // options.nodes]
    url = f"unix://{options.dir}/{name}.sock"
    lent = {"agent": {"url": url}, "harvest": {"mode": "act"}} if options.lent else {}
    return {"name": name, "url": url, "generation": generation, **lent}


async def _end_of_input() -> None:
    """Return once whoever started this process has gone."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    with suppress(ValueError, OSError):  # a terminal or file: then only a signal ends it
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        return
    await asyncio.Event().wait()


async def _signalled() -> None:
    """Return once this process is told to end."""
    stop = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stop.set)
    await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
