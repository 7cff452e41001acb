"""Decisions that are taken elsewhere: asked, checked again, given up, and never acted on twice."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.jobs import slow_decisions
from tenure.core.jobs.start import reason_of
from tenure.core.state.params import Params
from tenure.model.effects import CreateContainer, Decide
from tenure.model.events import CancelJob, ScheduleNode, Tick
from tenure.model.job import Constraint, JobState
from tenure.model.node import Site
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.placement.decisions.milp import outcome_of
from tests.unit.core.bench import SIZE, Bench, node

WHOLE = Resources(SIZE.cpu_m, 64 * MIB)


def fleet(*names: str, far: str = "", **params: Any) -> Bench:
    """Return nodes that are on, and one dear cloud node that is off."""
    specs = [node(name) for name in names]
    if far:
        specs.append(node(far, driver="command", site=Site.CLOUD, price_nano_per_h=10**12))
    bench = Bench(*specs, params=Params(min_on={}, **params))
    for name in names:
        bench.connect(name)
    if far:
        bench.end(bench.open("probe"), Done("off"))
    return bench


def asked(bench: Bench) -> list[Decide]:
    return [effect for effect in bench.effects if isinstance(effect, Decide)]


def answer(bench: Bench, question: Decide, outcome: Any) -> None:
    bench.end(question, outcome)  # type: ignore[arg-type]


def nodes_of(bench: Bench, job: str) -> list[str]:
    return [executor.node for executor in bench.crew(job)]


def solve(question: Decide) -> Any:
    return outcome_of(question.policy, question.view, question.ask, question.now_us, 60)


def test_the_answer_is_taken_where_the_fleet_still_allows_it() -> None:
    bench = fleet("a", "b")
    bench.submit("one", policy="milp", request=WHOLE)
    (question,) = asked(bench)
    job = bench.tables.jobs["one"]
    assert (job.state, bench.read(reason_of, "one")) == (JobState.WAITING, "being_decided")
    assert question.limit_s == 10
    answer(bench, question, Done(counts=(("b", 1),)))
    assert nodes_of(bench, "one") == ["b"]
    assert bench.tables.jobs["one"].decision == "milp"
    (started,) = [event for event in bench.public if event.type == "job.starting"]
    assert started.data["decision"] == "milp"


def test_a_real_solver_decides() -> None:
    pytest.importorskip("scipy")
    bench = fleet("a", "b", far="cloud")
    bench.submit("two", policy="milp", request=WHOLE, executors=2)
    (question,) = asked(bench)
    answer(bench, question, solve(question))
    assert nodes_of(bench, "two") == ["a", "b"]
    assert bench.tables.jobs["two"].decision == "milp"


def test_a_policy_that_answers_at_once_is_not_asked_for() -> None:
    bench = fleet("a")
    bench.submit("one", policy="exact")
    assert not asked(bench)
    assert bench.tables.jobs["one"].decision == ""


def test_nothing_is_asked_where_nothing_fits() -> None:
    bench = fleet("a")
    bench.submit("one", policy="exact", request=WHOLE)
    bench.submit("two", policy="milp", request=WHOLE)
    assert not asked(bench)
    assert bench.read(reason_of, "two") == "no_room"


@pytest.mark.parametrize(
    "stale",
    [
        Done(counts=(("b", 1),)),
        Done(counts=(("cloud", 1),)),
        Done(counts=(("a", 2),)),
        Done(counts=(("a", 1), ("a", 0))),
        Done(counts=(("gone", 1),)),
        Done(),
        Unknown("the solver ended"),
    ],
    ids=["cordoned", "dearer", "too many", "empty row", "no such node", "nothing", "unknown"],
)
def test_an_answer_that_is_not_good_is_asked_for_again_and_then_done_without(stale: Any) -> None:
    bench = fleet("a", "b", far="cloud")
    bench.submit("one", policy="milp", request=WHOLE)
    bench.say(ScheduleNode(at_us=0, request="c", node="b", to="cordoned"))
    for turn in range(slow_decisions.ASKS):
        assert len(asked(bench)) == turn + 1
        assert nodes_of(bench, "one") == [""]
        answer(bench, asked(bench)[-1], stale)
    assert len(asked(bench)) == slow_decisions.ASKS
    assert nodes_of(bench, "one") == ["a"]
    assert bench.tables.jobs["one"].decision.startswith("exact: the fleet changed")


def test_what_a_refusal_says_stands_in_the_record() -> None:
    bench = fleet("a")
    bench.submit("one", policy="milp")
    answer(bench, asked(bench)[0], Refused("no_solver", "policy milp needs the package scipy"))
    assert nodes_of(bench, "one") == ["a"]
    assert bench.tables.jobs["one"].decision == "exact: policy milp needs the package scipy"


def test_no_answer_in_time_is_done_without() -> None:
    bench = fleet("a")
    bench.submit("one", policy="milp")
    (question,) = asked(bench)
    due_us = bench.state.wakeup_us()
    assert due_us is not None
    bench.say(Tick(at_us=0), after_us=due_us - bench.now_us)
    assert bench.tables.jobs["one"].decision == "exact: milp took too long"
    made = [effect for effect in bench.effects if isinstance(effect, CreateContainer)]
    answer(bench, question, Done(counts=(("a", 1),)))  # too late to matter
    assert [e for e in bench.effects if isinstance(e, CreateContainer)] == made


def test_thinking_costs_no_promise() -> None:
    bench = fleet("a", "b", far="cloud")
    due_us = bench.now_us + US + 10 * US + US // 10
    bench.submit("tight", policy="milp", deadline_us=due_us)
    assert bench.tables.jobs["tight"].decision == "exact: no time to ask milp"
    bench.submit("first", policy="milp", deadline_us=bench.now_us + 100 * US)
    (question,) = asked(bench)
    # who comes behind can wait for six seconds: half of it is left to the one before
    bench.submit("behind", policy="milp", deadline_us=bench.now_us + 117 * US, priority=-1)
    bench.submit("tighter", policy="exact", deadline_us=bench.now_us + 17 * US, priority=-2)
    give_up_us = bench.state.wakeup_us()
    assert give_up_us is not None
    assert give_up_us < question.now_us + question.limit_s * US
    while bench.tables.jobs["first"].state is JobState.WAITING:
        bench.say(Tick(at_us=0), after_us=max(1, (bench.state.wakeup_us() or 0) - bench.now_us))
    assert bench.tables.jobs["first"].decision == "exact: milp took too long"
    tighter = bench.tables.jobs["tighter"]
    assert tighter.admission.class_ == "admitted"
    while bench.tables.jobs["tighter"].state is JobState.WAITING:
        bench.say(Tick(at_us=0), after_us=max(1, (bench.state.wakeup_us() or 0) - bench.now_us))
    ends_us = bench.tables.jobs["tighter"].end_estimate_us
    assert ends_us is not None
    assert ends_us < tighter.spec.deadline_us


def test_a_place_that_would_break_the_promise_of_one_behind_is_not_taken() -> None:
    """Both nodes cost the same; the one behind was promised its deadline with the other free."""
    for chosen, decision in (("a", "milp"), ("b", "exact: in the place that milp chose")):
        bench = fleet("a", "b")
        bench.submit("first", policy="milp", request=WHOLE, priority=1, estimate_local_us=99 * US)
        only_b = (Constraint("name", "==", ("b",)),)
        due_us = bench.now_us + 60 * US
        bench.submit("behind", request=WHOLE, constraints=only_b, deadline_us=due_us)
        assert bench.tables.jobs["behind"].admission.class_ == "admitted"
        answer(bench, asked(bench)[0], Done(counts=((chosen, 1),)))
        assert bench.tables.jobs["first"].decision.startswith(decision)
        assert nodes_of(bench, "first") == ["a"]
        assert nodes_of(bench, "behind") == ["b"]


def test_a_restart_asks_anew_and_places_once() -> None:
    bench = fleet("a")
    bench.submit("one", policy="milp")
    (old,) = asked(bench)
    bench.restart()
    bench.connect_again("a")
    bench.listed("a")
    fresh = asked(bench)[-1]
    assert fresh.id != old.id
    answer(bench, old, Done(counts=(("a", 1),)))
    assert nodes_of(bench, "one") == [""]
    answer(bench, fresh, Done(counts=(("a", 1),)))
    answer(bench, fresh, Done(counts=(("a", 1),)))
    assert nodes_of(bench, "one") == ["a"]
    assert sum(isinstance(effect, CreateContainer) for effect in bench.effects) == 1


def test_an_answer_for_a_job_that_is_cancelled_does_nothing() -> None:
    bench = fleet("a")
    bench.submit("one", policy="milp")
    bench.say(CancelJob(at_us=0, request="c", job="one"))
    answer(bench, asked(bench)[0], Done(counts=(("a", 1),)))
    assert bench.tables.jobs["one"].state is JobState.CANCELLED
    assert not any(isinstance(effect, CreateContainer) for effect in bench.effects)
    assert not bench.state_of(slow_decisions.Questions).by_job
