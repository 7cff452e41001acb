"""A node that is never switched off gathered the stays of all executors it ever had."""

from __future__ import annotations

from tenure.core.capacity import ledger
from tenure.core.state.params import Params
from tenure.model.events import Tick
from tenure.model.units import US
from tests.regression.acts import wait
from tests.unit.core.bench import Bench, node


def test_a_long_interval_is_settled_and_begun_anew() -> None:
    spec = node("c", driver="command", price_nano_per_h=3_600_000_000)
    bench = Bench(spec, params=Params(min_on={"young": 1}))
    bench.connect("c")
    count = ledger.MAX_STAYS + 1
    for number in range(count):
        bench.say(Tick(at_us=0), after_us=US // 10)
        bench.act(ledger.begin_stay, f"j/{number}/1", "c", "j")
        bench.act(ledger.end_stay, f"j/{number}/1")
    before = bench.read(ledger.report, 0, bench.now_us)
    wait(bench, 1300)
    assert len(bench.tables.stays) == 0
    assert len(bench.tables.intervals) == 2
    after = bench.read(ledger.report, 0, bench.now_us)
    assert after["on_us"]["c"] == bench.now_us - next(iter(bench.tables.intervals.values())).on_us
    assert after["total"] > before["total"]
    assert after["total"] == after["idle"] + after["services"] + sum(after["by_job"].values())
