"""Containers of a node that was shut down: placed elsewhere, or started there when it is back."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.services.services import ENGINE_END_US
from tenure.model.effects import ProbePower
from tenure.model.events import FenceNode, NodeLost, Tick
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.unit.core.bench import Bench, node, shown

KEPT_UP = {"HostConfig": {"RestartPolicy": {"Name": "unless-stopped"}}}
WITH_FILES = {"HostConfig": {"RestartPolicy": {"Name": "always"}, "Binds": ["data:/data"]}}


class Shelf(Bench):
    """A bench of nodes ``n`` and ``m``; one container runs on the first, and ``m`` joins then."""

    def __init__(self, **body: Any) -> None:
        super().__init__(node("n", "nursery"))
        self.connect("n")
        self.key = self.create("web", **body).id
        self.made = self.open("create")
        self.end(self.made, Done("c1"))
        self.end(self.open("start"))
        self.configure(node("n", "nursery"), node("m", "nursery"))
        self.connect("m")

    @property
    def record(self) -> Any:
        return self.tables.services[self.key]

    def exits(self, code: int) -> None:
        ended = shown(self.made, "c1", "exited", exit_code=code, finished_us=self.now_us)
        self.listed("n", ended)

    def loses(self, *, after_us: int = 0) -> None:
        self.say(NodeLost(at_us=0, node="n", why="no answer"), after_us=after_us)

    def fence(self) -> None:
        self.say(FenceNode(at_us=0, request="f", node="n"))

    def passes(self) -> None:
        """Have the pause before another attempt end."""
        self.say(Tick(at_us=0), after_us=10 * US)


@pytest.mark.parametrize("code", [0, 137, 143])
def test_a_container_that_a_shutdown_ended_begins_elsewhere_once_that_is_confirmed(
    code: int,
) -> None:
    bench = Shelf(**KEPT_UP)
    bench.exits(code)
    bench.loses()
    bench.passes()
    assert bench.record.state == "exited", "an engine that is silent gives nothing up"
    bench.fence()
    assert bench.record.state == "waiting"
    bench.passes()
    create = bench.open("create")
    assert create.node == "m"
    assert create.body["Labels"]["tenure.incarnation"] == "2"


def test_one_that_ended_by_itself_stays_ended() -> None:
    for body, code, after_us in (
        ({}, 143, 0),
        ({"HostConfig": {"RestartPolicy": {"Name": "on-failure"}}}, 0, 0),
        (KEPT_UP, 143, 2 * ENGINE_END_US),
    ):
        bench = Shelf(**body)
        bench.exits(code)
        bench.loses(after_us=after_us)
        bench.fence()
        assert bench.record.state == "exited", (body, code, after_us)


@pytest.mark.parametrize(("restarts", "state"), [(2, "waiting"), (3, "exited")])
def test_on_failure_goes_on_as_often_as_it_says(restarts: int, state: str) -> None:
    bench = Shelf(HostConfig={"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}})
    ends = {"exit_code": 1, "finished_us": bench.now_us, "restarts": restarts}
    bench.listed("n", shown(bench.made, "c1", "exited", **ends))
    bench.loses()
    bench.fence()
    assert bench.record.state == state


@pytest.mark.parametrize("is_seen", [True, False])
def test_one_with_files_waits_for_its_node_and_is_started_there(is_seen: bool) -> None:
    bench = Shelf(**WITH_FILES)
    if is_seen:
        bench.exits(137)
    bench.loses()
    bench.fence()
    assert (bench.record.state, bench.record.node) == ("starting", "n")
    assert bench.record.reason.startswith("waits for node n: it has volumes")
    told = [event for event in bench.public if event.type == "container.starting"][-1]
    assert told.data["reason"] == bench.record.reason
    bench.restart()
    bench.connect_again("m")
    bench.passes()
    assert not bench.has_open("create")
    bench.connect_again("n")
    bench.listed("n", shown(bench.made, "c1", "exited", exit_code=137))
    start = bench.open("start")
    assert (start.node, start.engine_id) == ("n", "c1")
    bench.end(start)
    assert (bench.record.state, bench.record.reason) == ("running", "")


def test_one_whose_node_comes_back_empty_begins_anew() -> None:
    bench = Shelf(**WITH_FILES)
    bench.loses()
    bench.fence()
    bench.connect("n")
    bench.end(bench.open("retire"))
    bench.passes()
    assert bench.record.incarnation == 2
    assert bench.open("create").node == "m", "the fenced node comes back cordoned"


def test_one_waits_no_more_for_a_node_that_is_configured_no_longer() -> None:
    bench = Shelf(**WITH_FILES)
    bench.loses()
    bench.fence()
    bench.configure(node("m", "nursery"))
    bench.passes()
    assert bench.open("create").node == "m"


def test_files_that_are_the_same_everywhere_hold_nothing() -> None:
    host = {"RestartPolicy": {"Name": "always"}, "Binds": ["/data:/data"]}
    bench = Shelf(HostConfig=host, Labels={"tenure.binds": "shared"})
    bench.loses()
    bench.fence()
    bench.passes()
    assert bench.open("create").node == "m"


def test_a_node_that_is_off_is_switched_on_for_what_waits() -> None:
    bench = Bench(node("n", "nursery", driver="command"))
    bench.connect("n")
    key = bench.create("web", **WITH_FILES).id
    bench.end(bench.open("create"), Done("c1"))
    bench.end(bench.open("start"))
    lost = bench.say(NodeLost(at_us=0, node="n", why="no answer"))
    (probe,) = [effect for effect in lost if isinstance(effect, ProbePower)]
    bench.end(probe, Done("off"))
    assert bench.tables.services[key].state == "starting"
    assert bench.open("power").to == "on"
