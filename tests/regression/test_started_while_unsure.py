"""A container that somebody started while its create was unsure stayed ``creating`` for ever."""

from __future__ import annotations

import pytest

from tenure.model.container import ContainerState
from tenure.model.outcome import Unknown
from tests.unit.core.bench import Bench, node, shown


@pytest.mark.parametrize("state", ["created", "running", "exited"])
def test_it_is_started_whatever_it_does(state: str) -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    service = bench.create("web")
    made = bench.open("create")
    bench.end(made, Unknown("cut"))
    bench.listed("a", shown(made, "engine-web", state))
    assert bench.open("start").engine_id == "engine-web"
    bench.end(bench.open("start"))
    assert bench.tables.services[service.id].state is ContainerState.RUNNING
