"""What engines tell of the health of containers: kept, and told of where it changes."""

from __future__ import annotations

from typing import Any

from tenure.core.services.services import CRASHES, STEADY_US
from tenure.model.events import Tick
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.unit.core.bench import Bench, node, shown


class Ward(Bench):
    """A bench with one container that runs."""

    def __init__(self) -> None:
        super().__init__(node("n", "nursery"))
        self.connect("n")
        self.key = self.create("web").id
        self.made = self.open("create")
        self.end(self.made, Done("c1"))
        self.end(self.open("start"))

    def shows(self, state: str = "running", *, age_us: int = 0, **more: Any) -> Any:
        """Have a listing show it; ``age_us``: how long its last run lasts, or lasted."""
        end_us = self.now_us + 2 * US
        times = {"started_us": end_us - age_us}
        if state == "restarting":
            times["finished_us"] = end_us
        self.listed("n", shown(self.made, "c1", state, **times, **more))
        return self.tables.services[self.key]

    def told(self) -> list[str]:
        words = ("healthy", "unhealthy", "crash_looping")
        kinds = [event.type.removeprefix("container.") for event in self.public]
        return [kind for kind in kinds if kind in words]


def test_a_health_check_is_told_of_once_for_each_change() -> None:
    bench = Ward()
    for word in ("starting", "healthy", "healthy", "unhealthy", "healthy"):
        assert bench.shows(health=word).health == word
    assert bench.told() == ["healthy", "unhealthy", "healthy"]


def test_a_crash_loop_shows_with_its_last_exit_code_until_a_run_lasts() -> None:
    bench = Ward()
    few = bench.shows("restarting", exit_code=7, restarts=CRASHES - 1)
    assert (few.health, few.restarts, few.exit_code) == ("none", CRASHES - 1, 7)
    many = bench.shows("restarting", exit_code=7, restarts=CRASHES)
    assert (many.state, many.health, many.restarts) == ("running", "crash-looping", CRASHES)
    (event,) = [event for event in bench.public if event.type == "container.crash_looping"]
    assert (event.data["exit_code"], event.data["restarts"]) == (7, CRASHES)
    again = bench.shows(restarts=CRASHES + 1)
    assert (again.health, again.exit_code) == ("crash-looping", 7)
    bench.say(Tick(at_us=0), after_us=STEADY_US)
    lasting = bench.shows(age_us=STEADY_US, restarts=CRASHES + 1)
    assert lasting.health == "none"
    assert bench.told() == ["crash_looping", "healthy"]


def test_one_that_is_restarted_now_and_then_does_not_crash_loop() -> None:
    bench = Ward()
    bench.say(Tick(at_us=0), after_us=2 * STEADY_US)
    assert bench.shows("restarting", age_us=STEADY_US, exit_code=1, restarts=9).health == "none"
    assert bench.told() == []


def test_health_is_forgotten_when_it_stops_running() -> None:
    bench = Ward()
    bench.shows(health="unhealthy", restarts=2)
    ended = bench.shows("exited", exit_code=1)
    assert (ended.state, ended.health, ended.exit_code) == ("exited", "none", 1)
