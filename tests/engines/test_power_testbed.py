"""The command driver on a node of the testbed: its engine really stops and starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.engines.engine import Engine
from tenure.model.errors import EngineError
from tenure.model.node import PowerSpec
from tenure.model.outcome import Done, Refused, Unknown
from tenure.power.command import CommandDriver
from testbed import Node, Testbed, config
from tests.engines.conftest import QUICK
from tests.engines.lab import Kept

pytestmark = pytest.mark.engines


@pytest.fixture
def powered(bed: Testbed, other: Node) -> Iterator[PowerSpec]:
    words = {
        action: tuple(config.power_command(bed.layout, other.name, action))
        for action in ("on", "off", "status")
    }
    yield PowerSpec("command", on=words["on"], off=words["off"], status=words["status"])
    bed.power_on(other.name)


async def test_off_and_on_again(powered: PowerSpec, other: Node, kept: Kept) -> None:
    driver, engine = CommandDriver(), Engine(other.url, kept.save, timeouts=QUICK)
    assert await driver.probe(powered) == Done("on")
    assert await driver.switch(powered, "off") == Done("off")
    assert await driver.probe(powered) == Done("off")
    with pytest.raises(EngineError):
        await engine.ping()
    assert await driver.switch(powered, "on") == Done("on")
    assert await driver.probe(powered) == Done("on")
    await engine.ping()
    await engine.close()


async def test_a_node_the_testbed_does_not_know(powered: PowerSpec) -> None:
    strange = PowerSpec(
        "command", on=(*powered.on[:-3], "stranger", *powered.on[-2:]), status=("false",)
    )
    outcome = await CommandDriver().switch(strange, "on")
    assert isinstance(outcome, Refused)
    assert "stranger" in outcome.detail
    assert isinstance(await CommandDriver().probe(strange), Unknown)
