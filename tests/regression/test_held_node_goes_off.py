"""An idle node that stayed on for a waiting job went off only with a later listing, or never."""

from __future__ import annotations

import pytest

from tenure.core.state.params import Params
from tenure.model.effects import Relist, SwitchPower
from tenure.model.events import CancelJob, Command, DrainNode, ScheduleNode, Tick
from tenure.model.job import Constraint
from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.unit.core.bench import SIZE, Bench, node

HALF = Resources(SIZE.cpu_m // 2, SIZE.memory_bytes // 2)


def holding() -> Bench:
    """Return a fleet where idle ``a`` stays on: the second job was promised its deadline on it."""
    bench = Bench(node("a", driver="command"), node("b"), params=Params(min_on={}, grace_us=5 * US))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    bench.connect("b")
    on_b = (Constraint("name", "==", ("b",)),)
    bench.submit("first", executors=2, estimate_local_us=60 * US, request=HALF, constraints=on_b)
    bench.submit("second", executors=4, deadline_us=bench.now_us + 300 * US, request=HALF)
    bench.listed("a")
    bench.say(Tick(at_us=0), after_us=10 * US)
    assert not bench.has_open("power"), "the second job was promised a"
    return bench


def test_it_goes_off_once_nobody_waits() -> None:
    bench = holding()
    bench.say(CancelJob(at_us=0, request="x", job="second"))
    _goes_off(bench)


@pytest.mark.parametrize(
    "order",
    [
        DrainNode(at_us=0, request="x", node="a"),
        ScheduleNode(at_us=0, request="x", node="a", to="cordoned"),
    ],
    ids=["drained", "cordoned"],
)
def test_it_goes_off_once_it_takes_no_new_work(order: Command) -> None:
    bench = holding()
    bench.say(order)
    _goes_off(bench)


def _goes_off(bench: Bench) -> None:
    looked = bench.say(Tick(at_us=0), after_us=1)
    assert [e.node for e in looked if isinstance(e, Relist | SwitchPower)] == ["a"]
    bench.listed("a")
    assert bench.open("power").to == "off"
