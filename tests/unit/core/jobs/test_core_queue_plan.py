"""The plan of the queue: places, promises, precedence, and what departs from estimates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.jobs import jobs, queue_plan
from tenure.core.jobs.offers import offers
from tenure.core.jobs.queue_plan import Memory
from tenure.core.jobs.start import reason_of
from tenure.model.errors import Problem
from tenure.model.events import (
    CancelJob,
    Event,
    NodeLost,
    ScheduleNode,
    SubmitJob,
    UsageObserved,
)
from tenure.model.job import JobSpec, JobState
from tenure.model.placing import Admitted, QueuePlan, RefusedJob
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.core.bench import IMAGE, SIZE, SMALL, Bench, finished
from tests.unit.core.planned import WHOLE, Planned


def test_a_job_waits_for_cheaper_room_and_starts_when_it_comes() -> None:
    fleet = Planned("a", cloud="far")
    fleet.submit("one", 100, 5000)
    fleet.submit("two", 100, 5000)
    assert fleet.state("one") is JobState.RUNNING
    assert fleet.nodes("two") == {"a": 1}
    job, end_us = fleet.bench.tables.jobs["two"], fleet.bench.tables.jobs["one"].end_estimate_us
    assert job.state is JobState.WAITING
    assert fleet.bench.read(reason_of, "two") == "planned"
    assert job.admission.class_ == "admitted"
    assert abs(fleet.start_us("two") - end_us) < US
    fleet.wait(end_us)
    fleet.finish("one")
    assert fleet.state("two") is JobState.RUNNING
    assert not len(fleet.bench.tables.reservations)


def test_a_promise_is_kept_against_those_who_come_later() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    promised = fleet.submit("waits", 50, 120)
    start_us = fleet.start_us("waits")
    refused = fleet.submit("urgent", 50, 60)
    assert isinstance(refused, Problem)
    assert refused.code == "deadline_unmeetable"
    assert refused.extra is not None
    earliest = refused.extra["earliest"]
    assert isinstance(earliest, dict)
    assert fleet.start_us("waits") == start_us
    assert promised.admission.start_us == start_us
    # what a refusal offers is accepted, and no promise is broken for it
    again = fleet.submit("urgent", 50, 60 + 90)
    assert again.admission.class_ == "admitted"
    assert fleet.bench.tables.reservations["waits"].end_us < promised.spec.deadline_us


def test_a_refusal_says_whether_others_are_in_the_way() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("waits", 50, 105)
    start_us = fleet.start_us("waits")
    # in time right after the one that runs, not behind the one that waits for it
    other = fleet.submit("urgent", 50, 105, priority=5)
    assert isinstance(other, Problem)
    assert (other.code, (other.extra or {})["reason"]) == (
        "deadline_unmeetable",
        "would_delay_others",
    )
    own = fleet.submit("hopeless", 50, 60)
    assert isinstance(own, Problem)
    assert (own.extra or {})["reason"] == "deadline_unmeetable"
    assert fleet.start_us("waits") == start_us


def test_a_restart_forgets_no_place() -> None:
    fleet = Planned("a", "b")
    for name in ("r1", "r2"):
        fleet.submit(name, 100)
    for number in range(5):
        fleet.submit(f"w{number}", 50, 1000)
    before = dict(fleet.bench.tables.reservations.items())
    assert len(before) == 5
    fleet.bench.restart()
    # no engine has answered yet, and yet nobody has lost his place
    assert dict(fleet.bench.tables.reservations.items()) == before
    for name in ("a", "b"):
        fleet.bench.connect(name)
    after = dict(fleet.bench.tables.reservations.items())
    assert not any(reservation.is_late for reservation in after.values())
    assert set(after) == set(before)


def test_room_that_comes_early_is_used_at_once() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 1000)
    fleet.submit("waits", 50, 5000)
    assert fleet.start_us("waits") > fleet.bench.now_us + 900 * US
    fleet.wait(fleet.bench.now_us + 100 * US)
    fleet.finish("runs")
    assert fleet.state("waits") is JobState.RUNNING


def test_room_of_what_is_being_removed_is_counted_on() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 1000)
    fleet.bench.say(CancelJob(at_us=0, request="c", job="runs"))
    answer = fleet.submit("next", 50, 10)  # the engine has not removed the other one yet
    assert not isinstance(answer, Problem)
    assert fleet.state("next") is JobState.RUNNING


def test_room_that_was_given_out_twice_comes_back_once() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 1000)
    used = replace(SIZE, cpu_m=SIZE.cpu_m // 2)
    fleet.bench.say(UsageObserved(at_us=0, foreign={"a": used}))
    answer = fleet.submit("next", 50)
    assert isinstance(answer, Problem)
    assert answer.code == "never_fits"


def test_who_waits_for_an_overdue_job_starts_when_it_ends() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("waits", 50, 5000)
    fleet.wait(fleet.start_us("waits") + 300 * US)
    assert fleet.state("waits") is JobState.WAITING
    # the core asks to be woken now and then, not without a pause
    wakeup_us = fleet.bench.state.wakeup_us()
    assert wakeup_us is not None
    assert wakeup_us >= fleet.bench.now_us + US // 10
    fleet.finish("runs")
    assert fleet.state("waits") is JobState.RUNNING


def test_who_waits_for_an_overdue_job_goes_elsewhere_while_that_is_in_time() -> None:
    fleet = Planned("a", "b")
    fleet.submit("r1", 100)
    fleet.submit("r2", 130)
    fleet.submit("waits", 50, 150)
    due_us = fleet.bench.tables.jobs["waits"].spec.deadline_us
    (first,) = fleet.nodes("waits")
    overdue, other = ("r1", "r2") if fleet.made["r1/0"][0].node == first else ("r2", "r1")
    fleet.wait(fleet.start_us("waits") + 31 * US)
    assert fleet.state("waits") is JobState.WAITING
    fleet.finish(other)
    # his own place may come at any moment, and does not; the last that helps is due less 50 s
    fleet.wait(due_us - 51 * US)
    assert fleet.state("waits") is JobState.WAITING
    assert fleet.nodes("waits") == {first: 1}
    fleet.wait(due_us - 50 * US - 1)
    assert fleet.state(overdue) is JobState.RUNNING
    assert fleet.state("waits") is JobState.RUNNING
    assert fleet.bench.tables.jobs["waits"].end_estimate_us < due_us


def test_without_a_place_there_is_nothing_to_improve() -> None:
    """Else the core would ask to be woken at once, again and again."""
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("waits", 50, 5000)
    fleet.bench.say(ScheduleNode(at_us=0, request="s", node="a", to="cordoned"))
    fleet.wait(fleet.bench.now_us + US)
    wakeup_us = fleet.bench.state.wakeup_us()
    assert wakeup_us is None or wakeup_us >= fleet.bench.now_us + US // 10


def test_a_start_that_no_deadline_drives_leaves_a_silent_node_after_a_while() -> None:
    fleet = Planned("a", "b")
    fleet.submit("r1", 100)
    fleet.submit("r2", 130)
    fleet.submit("waits", 50)
    (name,) = fleet.nodes("waits")
    assert name == "a", "its room is there first"
    fleet.wait(fleet.bench.now_us + 20 * US)  # nothing is left to improve
    fleet.bench.say(NodeLost(at_us=0, node="a"))
    fleet.wait(fleet.bench.now_us + 131 * US)
    fleet.finish("r2")
    for _ in range(30):
        fleet.wait(fleet.bench.now_us + US)
    assert fleet.state("waits") is JobState.RUNNING


def test_a_place_on_a_node_that_serves_no_more_is_found_anew() -> None:
    fleet = Planned("a", "b")
    fleet.submit("r1", 100)
    fleet.submit("r2", 130)
    fleet.submit("waits", 50, 5000)
    (name,) = fleet.nodes("waits")
    order = ScheduleNode(at_us=0, request="s", node=name, to="cordoned")
    fleet.bench.say(order)
    (other,) = fleet.nodes("waits")
    assert {name, other} == {"a", "b"}
    fleet.bench.say(NodeLost(at_us=0, node=other))
    assert fleet.state("waits") is JobState.WAITING


def test_cancelling_gives_the_place_to_others() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("first", 500, 5000)
    fleet.submit("second", 50, 5000)
    first, second = sorted(("first", "second"), key=fleet.start_us)
    first_us = fleet.start_us(first)
    fleet.bench.say(CancelJob(at_us=0, request="c", job=first))
    fleet.wait(fleet.bench.now_us + US)
    assert abs(fleet.start_us(second) - first_us) < US


def test_a_node_is_switched_on_for_a_start_and_not_before() -> None:
    fleet = Planned(cloud="far")
    fleet.submit("one", 100, 5000)
    assert fleet.bench.open("power").to == "on"
    busy = Planned("a", cloud="far")
    busy.submit("runs", 100)
    busy.submit("waits", 100, 5000)
    assert not busy.bench.has_open("power")


def test_jobs_of_other_policies_keep_their_promise_when_a_plan_begins() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    old = fleet.submit("old", 50, 110, policy="gio")
    assert not len(fleet.bench.tables.reservations)
    fleet.submit("new", 50, 5000)
    assert fleet.bench.tables.reservations["old"].end_us < old.spec.deadline_us
    assert fleet.start_us("new") >= fleet.bench.tables.reservations["old"].end_us
    late = fleet.submit("late", 50, 5000, policy="gio")
    assert late.admission.class_ == "admitted"
    assert fleet.start_us("late") >= fleet.bench.tables.reservations["old"].end_us


def test_what_never_fits_is_refused_and_blocks_nobody() -> None:
    fleet = Planned("a")
    refused = fleet.submit("big", 50, executors=2)
    assert isinstance(refused, Problem)
    assert refused.code == "never_fits"
    assert fleet.submit("small", 50, image=IMAGE).admission.class_ == "admitted"


def test_on_a_planned_queue_offers_are_of_the_jobs_own_policy_and_of_plans() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("waits", 50, 5000)
    before = dict(fleet.bench.tables.reservations.items())
    spec = replace(fleet.bench.tables.jobs["waits"].spec, name="asks")
    job = fleet.bench.read(jobs.new_job, "asks", spec)
    own = replace(job, spec=replace(job.spec, policy="gio"))
    assert {offer.policy for offer in finished(fleet.bench.read(offers, own))} == {"gio", "tenure"}
    assert dict(fleet.bench.tables.reservations.items()) == before


def _command(fleet: Planned, name: str, run_s: int, slack_s: int) -> SubmitJob:
    now_us = fleet.bench.now_us
    spec = JobSpec(
        name=name,
        app="app",
        image=IMAGE,
        command=("run",),
        executors=1,
        request=WHOLE,
        policy="tenure",
        estimate_local_us=run_s * US,
        deadline_us=now_us + slack_s * US,
    )
    return SubmitJob(at_us=now_us, request=f"q-{name}", job=name, spec=spec)


def _burst(*, is_together: bool) -> Planned:
    """Return a busy fleet to which ten jobs came, and one in vain; one of them is cancelled."""
    fleet = Planned("a", "b")
    fleet.submit("runs", 100)
    fleet.submit("runs-too", 130)
    slacks = [9000, 700, 5000, 900, 20, 8000, 1500, 9000, 6000, 2000]
    comes: list[Event] = [
        _command(fleet, f"j{k}", 40 + k, slack_s) for k, slack_s in enumerate(slacks)
    ]
    comes.insert(6, CancelJob(at_us=fleet.bench.now_us, request="c", job="j1"))
    for group in [comes] if is_together else [[one] for one in comes]:
        fleet.bench.state.handle_all(group)
    return fleet


def test_jobs_that_come_together_get_the_places_that_they_get_one_by_one() -> None:
    one, other = _burst(is_together=True).bench, _burst(is_together=False).bench
    found = dict(one.tables.reservations.items())
    assert len(found) == 8
    assert found == dict(other.tables.reservations.items())
    assert "j4" not in one.tables.jobs
    promised = {job.id: job.admission for job in one.tables.jobs.values()}
    assert promised == {job.id: job.admission for job in other.tables.jobs.values()}


class Counting(Policies):
    """Policies that note what the whole queue was looked at for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def plan(self, *args: Any, **options: Any) -> QueuePlan:
        self.asked.append("plan")
        return super().plan(*args, **options)

    def admit_planned(self, *args: Any, **options: Any) -> Admitted | RefusedJob:
        self.asked.append("admit")
        return super().admit_planned(*args, **options)


def test_the_queue_is_looked_at_once_for_jobs_that_come_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Bench, "make_placer", Counting)
    fleet = Planned("a")
    fleet.submit("runs", 100, policy="gio")
    placer = fleet.bench.placer
    assert isinstance(placer, Counting)
    placer.asked.clear()
    fleet.bench.state.handle_all([_command(fleet, f"j{k}", 10, 9000) for k in range(8)])
    assert len(fleet.bench.tables.reservations) == 8
    assert placer.asked == ["admit"]


def test_a_dry_run_takes_no_room_from_who_comes_next() -> None:
    fleets = [Planned("a"), Planned("a")]
    for fleet, is_dry in zip(fleets, (True, False), strict=True):
        fleet.submit("runs", 100)
        fleet.bench.state.handle(_command(fleet, "one", 50, 5000))
        if is_dry:
            spec = _command(fleet, "dry", 50, 200).spec
            asked = fleet.bench.read(jobs.new_job, "dry", spec)
            assert not isinstance(fleet.bench.read(jobs.appraise, asked), Problem)
        fleet.bench.state.handle(_command(fleet, "two", 50, 200))
    dry, wet = (dict(fleet.bench.tables.reservations.items()) for fleet in fleets)
    assert dry.keys() == {"one", "two"}
    assert dry == wet


def test_who_waits_for_an_overdue_job_goes_on_waiting_when_others_come() -> None:
    fleet = Planned("a")
    fleet.submit("runs", 100)
    fleet.submit("waits", 50, 5000)
    fleet.wait(fleet.start_us("waits") + 300 * US)
    for k in range(3):
        fleet.bench.state.handle(_command(fleet, f"more{k}", 50, 9000))
        fleet.go()
        assert fleet.state("waits") is JobState.WAITING
    fleet.finish("runs")
    assert fleet.state("waits") is JobState.RUNNING


@settings(max_examples=25, deadline=None)
@given(runs_s=st.lists(st.integers(5, 200), min_size=2, max_size=6), data=st.data())
def test_who_was_cancelled_is_nobodys_excuse_to_wait(
    runs_s: list[int], data: st.DataObject
) -> None:
    """What counts as prompt is never later than for those who are left (``placement.budget``)."""
    stage = Planned("a", "b")
    stage.submit("runs", 300, request=SMALL, executors=2)
    names = [f"j{number}" for number in range(len(runs_s))]
    for name, run_s in zip(names, runs_s, strict=True):
        stage.submit(name, run_s, executors=data.draw(st.integers(1, 2)))
    for name in data.draw(st.permutations(names)):
        if stage.state(name) is JobState.WAITING:  # it did not begin
            stage.bench.say(CancelJob(at_us=0, request=name, job=name))
            waiting = stage.bench.tables.reservations.values()
            last_us = max((one.start_us for one in waiting), default=stage.bench.now_us)
            untold_us = queue_plan.TOLD_US  # starts that move by less are not recorded anew
            head_us = stage.bench.state_of(Memory).rotation.head_us
            assert head_us < max(last_us, stage.bench.now_us) + untold_us
            stage.go()


def test_behind_one_that_was_cancelled_nobody_waits_for_nothing() -> None:
    stage = Planned("a", "b")
    stage.submit("runs", 300, request=SMALL)
    stage.submit("wide", 10, executors=2)
    memory = stage.bench.state_of(Memory)
    assert memory.rotation.head_us > stage.bench.now_us + 250 * US, "it needs both nodes"
    stage.bench.say(CancelJob(at_us=0, request="x", job="wide"))
    assert memory.rotation.head_us <= stage.bench.now_us
    prompt_us = memory.rotation.prompt_us
    stage.submit("narrow", 10)
    counted_us = memory.rotation.prompt_us - prompt_us
    assert counted_us <= 11 * US, "its own run, not that of who is gone"


def test_behind_one_that_got_its_room_early_nobody_waits_for_nothing() -> None:
    stage = Planned("a", "b")
    stage.submit("runs", 300)
    stage.submit("wide", 10, executors=2)
    memory = stage.bench.state_of(Memory)
    assert memory.rotation.head_us > stage.bench.now_us + 250 * US, "it needs both nodes"
    stage.wait(stage.bench.now_us + 50 * US)
    stage.finish("runs")
    assert stage.state("wide") is JobState.RUNNING
    prompt_us = memory.rotation.prompt_us
    stage.submit("narrow", 10)
    counted_us = memory.rotation.prompt_us - prompt_us
    assert counted_us <= 21 * US, "the run before it, and its own"
