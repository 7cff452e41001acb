"""``tenure node drain`` and ``maintenance``, run against the API over the real core."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tenure.model.events import Tick
from tests.api.server import Server
from tests.cli.conftest import Tenure


def test_node_drain_says_first_and_a_script_must_be_sure(tenure: Tenure, container: str) -> None:
    unsure = tenure("node", "drain", "n1")
    assert unsure.code == 2
    assert "--yes" in unsure.err
    assert tenure("node", "drain", "n1", "--json").code == 2
    plan = tenure("node", "drain", "n1", "--dry-run")
    assert plan.code == 1
    assert "web-1" in plan.out
    assert "no_node" in plan.out
    assert tenure("node", "inspect", "n1", "--json").json["scheduling"] == "yes"
    assert tenure("node", "drain", "n9", "--dry-run").code == 255
    assert tenure("node", "drain", "n1", "--dry-run", "--cancel").code == 2


def test_node_drain_begins_shows_and_is_cancelled(tenure: Tenure, container: str) -> None:
    begun = tenure("node", "drain", "n1", "--yes", "--reason", "new disk", "--json").json
    assert (begun["state"], begun["left"]) == ("draining", 1)
    (blocker,) = begun["blockers"]
    assert (blocker["name"], blocker["code"]) == ("web-1", "no_node")
    assert "new disk" in tenure("node", "ls").out
    shown = tenure("node", "inspect", "n1")
    assert "web-1" in shown.out
    assert tenure("node", "drain", "n1", "--dry-run").code == 0
    assert tenure("node", "uncordon", "n1").code == 1
    assert tenure("node", "drain", "n1", "--cancel", "--json").json["state"] == "cancelled"
    again = tenure("node", "drain", "n1", "--cancel")
    assert (again.code, again.out) == (1, "")
    assert "not being drained" in again.err
    assert tenure("node", "inspect", "n1", "--json").json["state"] == "ready"


@pytest.fixture
def ticking(server: Server) -> Iterator[None]:
    """Have the core's time go on by itself, as its daemon does."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(0.1):
            server.on_loop(lambda: server.backend.handle(Tick(at_us=server.backend.now_us())))

    thread = threading.Thread(target=tick)
    thread.start()
    yield
    over.set()
    thread.join(60)


@pytest.mark.usefixtures("ticking")
def test_node_drain_waits_until_it_is_over(tenure: Tenure, container: str) -> None:
    empty = tenure("node", "drain", "n2", "--yes", "--wait")
    assert (empty.code, "drained" in empty.out) == (0, True)
    assert tenure("node", "drain", "n2", "--dry-run").code == 0
    late = tenure("node", "drain", "n1", "--yes", "--wait", "--timeout", "1", "--json")
    assert (late.code, late.json["state"]) == (1, "timed_out")
    assert "blocked by web-1 (no_node)" in late.err
    assert tenure("node", "inspect", "n1", "--json").json["state"] == "cordoned"


def test_node_maintenance(tenure: Tenure) -> None:
    assert "maintenance" in tenure("node", "maintenance", "n2", "on", "--reason", "new fan").out
    assert "new fan" in tenure("node", "ls").out
    refused = tenure("node", "uncordon", "n2")
    assert refused.code == 1
    assert "tenure node maintenance n2 off" in refused.err
    assert tenure("node", "maintenance", "n2", "off", "--json").json[0]["state"] == "ready"
    assert tenure("node", "maintenance", "n2", "perhaps").code == 2
    assert "slow" in tenure("node", "cordon", "n2", "--reason", "slow").out
