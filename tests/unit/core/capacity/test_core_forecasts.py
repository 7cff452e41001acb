"""Forecasts in the core: handed in by a run, judged as time passes, and what is lent by them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tenure.core.capacity import forecasts
from tenure.core.nodes import harvestable
from tenure.core.state.params import Params
from tenure.model.batch import Batch, Forecasted
from tenure.model.effects import Reply
from tenure.model.errors import Problem
from tenure.model.events import (
    ClaimRun,
    Configured,
    RequestRun,
    SubmitForecasts,
    SubmitPlan,
    Tick,
    UsageObserved,
)
from tenure.model.forecast import Accuracy, NodeForecast
from tenure.model.plan import CycleSpec, Plan, Run
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, MIB, US
from tests.unit.core.bench import SIZE, SMALL
from tests.unit.core.lender import Lender, lends, stage

CYCLE = CycleSpec("foresee", "", "", interval_us=HOUR_US, kind="forecast")
BLOCK_US = 900 * US
GOOD = Accuracy(960, 0.99, 0.001, 0.002)


class Foreseen(Lender):
    """A bench whose cycle makes forecasts."""

    def ask(self, command: Any) -> Any:
        replies = [effect for effect in self.say(command) if isinstance(effect, Reply)]
        assert len(replies) == 1
        return replies[0].value

    def claimed(self, *, is_dry: bool = False, cycle: CycleSpec = CYCLE) -> Run:
        nodes = tuple(node.spec for node in self.tables.nodes.values())
        self.say(Configured(at_us=0, nodes=nodes, cycles=(cycle,)))
        run = self.ask(RequestRun(at_us=0, request="run", cycle=cycle.name, is_dry=is_dry))
        found = self.ask(ClaimRun(at_us=0, request="claim", cycle=cycle.name, run_id=run.id))
        assert isinstance(found, Run)
        return found

    def hand_in(self, run: Run, *made: NodeForecast, is_last: bool = True) -> Any:
        command = SubmitForecasts(
            at_us=0, request="in", run_id=run.id, forecasts=made, is_last=is_last
        )
        return self.ask(command)

    def foresee(self, *made: NodeForecast) -> Run:
        ended = self.hand_in(self.claimed(), *made)
        assert isinstance(ended, Run)
        return ended

    def use(self, cpu_m: int, memory_bytes: int = 0, *, after_us: int = 30 * US) -> None:
        """Have a sweep tell what owners use of node n."""
        regular = {"n": Resources(cpu_m, memory_bytes)}
        self.say(UsageObserved(at_us=0, regular=regular), after_us=after_us)


def made(bench: Foreseen, cpu_m: list[int], memory_mib: list[int] | None = None) -> NodeForecast:
    """A forecast of node n in blocks of 15 min, from the block that holds the present on."""
    memory = memory_mib or [100] * len(cpu_m)
    return NodeForecast(
        "n",
        run_id="",
        made_us=0,
        from_us=bench.now_us // BLOCK_US * BLOCK_US,
        step_us=BLOCK_US,
        quantile=0.99,
        model="boosted",
        cpu_m=tuple(cpu_m),
        memory_bytes=tuple(mib * MIB for mib in memory),
        history_days=5.0,
        cpu=GOOD,
        memory=GOOD,
    )


def cold(bench: Foreseen) -> NodeForecast:
    return dataclasses.replace(made(bench, []), why="0.3 days of its last 7 are known")


def bench_of(*nodes: Any, **params: Any) -> Foreseen:
    specs = nodes or (lends("n"),)
    bench = Foreseen(*specs, params=Params(**({"min_on": {}} | params)))
    for spec in specs:
        bench.connect(spec.name)
        bench.guard(spec.name)
    return bench


def spare(bench: Foreseen, **more: Any) -> Resources:
    return bench.read(harvestable.spare_on, bench.tables.nodes["n"], **more)


# runs


def test_a_run_of_forecasts_ends_with_the_last_of_them_and_says_what_it_found() -> None:
    bench = bench_of(lends("n"), lends("m"))
    run = bench.claimed()
    first = bench.hand_in(run, made(bench, [100] * 96), is_last=False)
    assert first.state == "claimed"
    ended = bench.hand_in(run, dataclasses.replace(cold(bench), node="m"))
    assert ended.state == "done"
    assert [(note.node, note.code) for note in ended.nodes] == [("m", "cold"), ("n", "forecast")]
    assert ended.nodes[0].reason == "0.3 days of its last 7 are known"
    assert "CPU covered 99.0%" in ended.nodes[1].reason
    assert bench.tables.forecasts["n"].run_id == run.id
    again = bench.hand_in(run, made(bench, [100] * 96))  # an answer that was lost
    assert again.state == "done"


def test_a_node_that_cannot_be_forecast_this_time_keeps_what_it_has() -> None:
    bench = bench_of(needs_forecast=True)
    bench.foresee(made(bench, [100] * 4))
    run = bench.foresee(cold(bench))
    assert run.nodes[0].code == "cold"
    assert run.nodes[0].reason.endswith("stands")
    assert isinstance(bench.lend("b", stage(), is_dry=True), Forecasted)
    bench.say(Tick(at_us=0), after_us=2 * HOUR_US)
    bench.foresee(cold(bench))
    assert bench.tables.forecasts["n"].is_cold


@pytest.mark.parametrize("how", ["dry", "advise"])
def test_a_dry_run_shows_its_forecasts_and_keeps_none(how: str) -> None:
    bench = bench_of()
    cycle = dataclasses.replace(CYCLE, mode="advise" if how == "advise" else "act")
    run = bench.claimed(is_dry=how == "dry", cycle=cycle)
    ended = bench.hand_in(run, made(bench, [100] * 96))
    assert ended.state == "advised"
    assert [note.code for note in ended.nodes] == ["forecast"]
    assert "n" not in bench.tables.forecasts


def test_forecasts_and_plans_go_to_runs_of_their_kind() -> None:
    bench = bench_of()
    run = bench.claimed()
    plan = Plan(run.id, "young", 1, bench.now_us + HOUR_US, ())
    refused = bench.ask(SubmitPlan(at_us=0, request="p", plan=plan))
    assert isinstance(refused, Problem)
    assert (refused.code, refused.status) == ("wrong_kind", 409)
    moves = bench.claimed(cycle=CycleSpec("moves", "nursery", "young", interval_us=HOUR_US))
    refused = bench.hand_in(moves, made(bench, [1] * 96))
    assert isinstance(refused, Problem)
    assert refused.code == "wrong_kind"
    assert isinstance(bench.hand_in(dataclasses.replace(run, id="gone")), Problem)


def test_a_worker_has_a_quarter_of_an_hour_for_a_fleet() -> None:
    bench = bench_of()
    run = bench.claimed()
    bench.say(Tick(at_us=0), after_us=600 * US)
    assert bench.tables.runs[run.id].state == "claimed"
    bench.say(Tick(at_us=0), after_us=301 * US)
    assert bench.tables.runs[run.id].state == "failed"


def test_forecasts_outlive_a_restart_and_go_with_their_node() -> None:
    bench = bench_of()
    bench.foresee(made(bench, [100] * 96))
    bench.use(100)
    bench.use(100, after_us=600 * US)
    assert bench.tables.scores["n"].days
    before = bench.tables.forecasts["n"], bench.tables.scores["n"]
    bench.restart()
    assert (bench.tables.forecasts["n"], bench.tables.scores["n"]) == before
    bench.say(Configured(at_us=0, nodes=(lends("other"),)))
    assert "n" not in bench.tables.nodes
    assert not len(bench.tables.forecasts)
    assert not len(bench.tables.scores)


# what is lent


def test_nothing_is_lent_without_a_forecast_where_one_is_needed() -> None:
    bench = bench_of(needs_forecast=True)
    refused = bench.lend("b", stage())
    assert isinstance(refused, Problem)
    assert refused.code == "no_lender"
    assert "harvest.require_forecast: false" in refused.detail
    bench.foresee(cold(bench))
    assert "0.3 days of its last 7" in bench.lend("b", stage()).detail
    bench.foresee(made(bench, [100] * 4))
    assert isinstance(bench.lend("b", stage(), is_dry=True), Forecasted)
    bench.say(Tick(at_us=0), after_us=HOUR_US)
    assert "its forecast ended at" in bench.lend("b", stage()).detail


def test_where_none_is_needed_present_use_is_judged_by() -> None:
    bench = bench_of()
    before = spare(bench)
    bench.foresee(cold(bench))
    assert spare(bench) == before == SIZE - SIZE.scaled(0.1)
    assert isinstance(bench.lend("b", stage()), Batch)


def test_the_smaller_of_present_use_and_forecast_counts_over_the_coming_time() -> None:
    bench = bench_of()
    margin = SIZE.scaled(0.1)
    bench.foresee(made(bench, [100] * 8 + [1500] * 88, [100] * 90 + [900] * 6))
    left = SIZE - margin - Resources(100, 100 * MIB)
    assert spare(bench) == left
    # a task that runs for three hours will meet the rise
    assert spare(bench, over_us=3 * HOUR_US).cpu_m == SIZE.cpu_m - margin.cpu_m - 1500
    long_ = stage("long", request=Resources(500, MIB), run_us=3 * HOUR_US)
    assert bench.read(harvestable.seats, long_) == []
    assert bench.read(harvestable.seats, stage("short", request=Resources(500, MIB)))
    # present use above the forecast counts as well
    bench.create("web")
    assert spare(bench) == left - SMALL  # it came after the forecast


def test_what_a_forecast_knows_is_not_counted_twice() -> None:
    bench = bench_of()
    web = bench.create("web")
    known = dataclasses.replace(made(bench, [300] * 96), containers=(web.id,))
    bench.foresee(known)
    here = bench.read(forecasts.outlook, bench.tables.nodes["n"])
    assert here is not None
    left = here.left(bench.now_us, bench.now_us + HOUR_US)
    assert left == SIZE - Resources(300, 100 * MIB)
    # now it asks for more than it was seen to use: that is what counts at present
    assert spare(bench).cpu_m == SIZE.cpu_m - SIZE.scaled(0.1).cpu_m - SMALL.cpu_m


def test_requests_of_executors_come_on_top() -> None:
    bench = bench_of(lends("n", "young"), generations=("young",))
    bench.foresee(made(bench, [300] * 96))
    before = spare(bench).cpu_m
    bench.submit("job", request=SMALL)
    assert bench.tables.executors["job/0"].node == "n"
    assert spare(bench).cpu_m == before - SMALL.cpu_m


def test_use_that_is_to_come_ends_no_task_that_runs() -> None:
    bench = bench_of()
    assert isinstance(bench.lend("b", stage(request=Resources(100, 256 * MIB))), Batch)
    bench.run(0)
    bench.foresee(made(bench, [100] * 96, [1000] * 96))
    assert spare(bench).memory_bytes < 0
    bench.use(0)
    assert bench.task(0).attempt == 1
    assert bench.task(0).state == "running"


def test_what_is_lent_goes_up_when_the_forecast_falls() -> None:
    bench = bench_of()
    bench.foresee(made(bench, [1700] * 4 + [100] * 92))
    falls_us = bench.tables.forecasts["n"].from_us + HOUR_US
    batch = bench.lend("b", stage(request=Resources(500, MIB)))
    assert isinstance(batch, Batch)
    (start,) = bench.tables.schedules["b"].starts
    assert falls_us <= start.at_us < falls_us + 2 * 180 * US
    assert batch.promised_us == start.at_us + 10 * US
    bench.use(0)
    assert bench.task(0).state == "pending"
    bench.use(0, after_us=HOUR_US)
    assert bench.task(0).state == "creating"


def test_what_is_spare_over_time_follows_the_forecast() -> None:
    bench = bench_of()
    bench.foresee(made(bench, [100] * 48 + [1500] * 48))
    node = bench.tables.nodes["n"]
    begin_us = bench.tables.forecasts["n"].from_us
    found = bench.read(harvestable.spare_over, node, begin_us, begin_us + 24 * HOUR_US)
    margin = SIZE.scaled(0.1).cpu_m
    assert len(found) == 480
    low, high = SIZE.cpu_m - margin - 1500, SIZE.cpu_m - margin - 100
    assert found.cpu_m == (high,) * 240 + (low,) * 240
    # a step that reaches into the next block is as bad as the worse of both
    late = bench.read(harvestable.spare_over, node, begin_us + 60 * US, begin_us + 25 * HOUR_US)
    assert late.cpu_m[:241] == (high,) * 239 + (low,) * 2
    assert late.cpu_m[-20:] == (low,) * 20  # beyond its end the most of all counts
    # step by step it is what a look at that step says
    for number in (0, 17, 239, 240, 300, 479):
        at_us = late.from_us + number * late.step_us
        outlook = bench.read(forecasts.outlook, node)
        assert outlook is not None
        left = outlook.left(at_us, at_us + late.step_us)
        assert late.cpu_m[number] == left.cpu_m - margin
        assert late.memory_bytes[number] == (left - SIZE.scaled(0.1)).memory_bytes


def test_present_use_bounds_the_coming_hour_of_what_is_spare_over_time() -> None:
    bench = bench_of()
    bench.create("web")
    known = tuple(service.id for service in bench.tables.services.values())
    bench.foresee(dataclasses.replace(made(bench, [100] * 96), containers=known))
    node = bench.tables.nodes["n"]
    found = bench.read(harvestable.spare_over, node, bench.now_us, bench.now_us + 2 * HOUR_US)
    margin = SIZE.scaled(0.1).cpu_m
    soon, later = SIZE.cpu_m - margin - SMALL.cpu_m, SIZE.cpu_m - margin - 100
    assert found.cpu_m == (soon,) * 20 + (later,) * 20


# live scores


def test_steps_of_five_minutes_are_judged_by_mean_cpu_and_most_memory() -> None:
    bench = bench_of()
    bench.foresee(made(bench, [1000] * 96, [200] * 96))
    bench.use(0, after_us=300 * US)  # a step begins
    bench.use(1400, 150 * MIB, after_us=300 * US)
    bench.use(1000, 250 * MIB, after_us=US)
    bench.use(0, after_us=300 * US)
    (day,) = bench.tables.scores["n"].days
    assert (day.steps, day.cpu_covered, day.memory_covered) == (2, 1, 1)
    cpu, memory = bench.tables.scores["n"].accuracy()
    assert (cpu.steps, cpu.coverage, memory.coverage) == (2, 0.5, 0.5)
    under = 0.01 * 1000 / SIZE.cpu_m
    assert cpu.loss == pytest.approx((under + 0.99 * 200 / SIZE.cpu_m) / 2)
    assert memory.loss == pytest.approx((0.01 * 200 + 0.99 * 50) * MIB / SIZE.memory_bytes / 2)
    assert [one.cpu_m for one in bench.tables.scores["n"].excesses] == [200]


def test_what_a_newcomer_uses_is_no_fault_of_the_forecast() -> None:
    bench = bench_of()
    bench.foresee(made(bench, [1000] * 96))
    bench.create("web")
    bench.use(1000 + SMALL.cpu_m, after_us=300 * US)
    bench.use(0, after_us=300 * US)
    (day,) = bench.tables.scores["n"].days
    assert (day.steps, day.cpu_covered) == (1, 1)


def test_days_that_are_over_leave_the_score() -> None:
    bench = bench_of()
    for _ in range(9):
        bench.foresee(made(bench, [1000] * 96))
        bench.use(0, after_us=300 * US)
        bench.use(0, after_us=300 * US)
        bench.say(Tick(at_us=0), after_us=24 * HOUR_US)
    assert len(bench.tables.scores["n"].days) == 7


def test_only_nodes_that_are_forecast_are_judged() -> None:
    bench = bench_of()
    bench.use(5)
    bench.use(5, after_us=HOUR_US)
    assert not len(bench.tables.scores)
    bench.foresee(cold(bench))
    bench.use(5)
    bench.use(5, after_us=HOUR_US)
    assert not len(bench.tables.scores)


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_dynamic_margin_leaves_free_what_was_above_the_forecast_lately(
    is_dynamic: bool,
) -> None:
    bench = bench_of(has_dynamic_margin=is_dynamic)
    bench.foresee(made(bench, [1000] * 96))
    before = spare(bench)
    bench.use(1300, after_us=300 * US)
    bench.use(0, after_us=300 * US)
    less = 300 if is_dynamic else 0
    assert spare(bench).cpu_m == before.cpu_m - less
    node = bench.tables.nodes["n"]
    over = bench.read(harvestable.spare_over, node, bench.now_us, bench.now_us + 3 * HOUR_US)
    assert over.cpu_m[0] == before.cpu_m - less
    assert over.cpu_m[-1] == before.cpu_m
    bench.use(0, after_us=2 * HOUR_US)
    assert spare(bench).cpu_m == before.cpu_m


def test_a_revised_forecast_has_the_rest_of_batches_planned_anew() -> None:
    bench = bench_of()
    bench.foresee(made(bench, [100] * 96))
    bench.lend("b", stage(count=12, request=Resources(500, MIB), run_us=600 * US))
    before = bench.tables.schedules["b"]
    bench.foresee(made(bench, [1200] * 96))
    bench.say(Tick(at_us=0), after_us=2 * US)
    after = bench.tables.schedules["b"]
    assert after.why == "forecasts were revised"
    assert after.end_us > before.end_us
