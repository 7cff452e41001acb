"""After a restart nothing watched a node with work on it that was no longer configured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tenure.daemon.effects.hands import Hands, Ports
from tenure.model.container import ContainerState
from tests.regression.acts import run_service
from tests.unit.core.bench import Bench, node


async def _save(key: str, body: bytes) -> None:
    """Keep no log."""


def test_it_is_reached_until_nothing_is_on_it() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service, _ = run_service(bench)
    ignore: Callable[[Any], None] = lambda made: None  # noqa: E731
    ports = Ports(ignore, lambda: bench.now_us, _save, ignore)

    async def reach() -> list[bool]:
        hands = bench.read(Hands, ports)
        hands.configure(())
        found = [hands.engine("a") is not None]
        bench.store(replace(bench.tables.services[service], state=ContainerState.REMOVED))
        hands.configure(())
        found.append(hands.engine("a") is not None)
        await hands.close()
        return found

    assert asyncio.run(reach()) == [True, False]
