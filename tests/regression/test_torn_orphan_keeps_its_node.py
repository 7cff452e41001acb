"""A node was switched off under a copy that its engine hides, of a job that a restore had lost."""

from __future__ import annotations

import pytest

from tenure.core.state.params import Params
from tenure.model.effects import SwitchPower
from tenure.model.events import Tick
from tenure.model.facts import LABEL_EXECUTOR, LABEL_FLEET, LABEL_JOB, ContainerFacts
from tenure.model.outcome import Done
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, Bench, node


@pytest.mark.parametrize("is_torn", [True, False])
def test_what_may_run_unseen_keeps_its_node_on(is_torn: bool) -> None:
    bench = Bench(node("a", driver="command"), params=Params(min_on={}, grace_us=5 * US))
    bench.end(bench.open("probe"), Done("on"))
    bench.connect("a")
    labels = {LABEL_FLEET: "bench", LABEL_JOB: "lost", LABEL_EXECUTOR: "0"}
    copy = ContainerFacts("x", "tenure-lost-0-1", IMAGE, "created", labels, is_torn=is_torn)
    for _ in range(6):
        bench.listed("a", copy)
        bench.say(Tick(at_us=0), after_us=2 * US)
    orders = [effect for effect in bench.effects if isinstance(effect, SwitchPower)]
    assert bool(orders) is not is_torn
    assert bench.tables.nodes["a"].foreign_running == int(is_torn)
