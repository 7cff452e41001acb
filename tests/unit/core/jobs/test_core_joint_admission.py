"""Submissions of one batch: promised together, or each by itself where that fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.jobs import joint_admission
from tenure.core.state.params import Params
from tenure.model.effects import Reply
from tenure.model.events import SubmitJob, Tick
from tenure.model.job import Job, JobSpec, SparkSpec
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.core.bench import IMAGE, SMALL, Bench, node

SPEC = JobSpec("j", "app", IMAGE, ("run",), 1, SMALL, estimate_local_us=10 * US, policy="ff")
RUN_US = 10 * US


class Desk:
    """A bench whose one node holds four executors, and a way to submit many jobs at once."""

    def __init__(self, url: str = "tcp://a", **params: Any) -> None:
        self.bench = Bench(replace(node("a"), url=url), params=Params(min_on={}, **params))
        self.bench.connect("a")
        self.at_us = self.bench.now_us + US

    def job(self, name: str, *, due_s: int | None = None, key: str = "", **spec: Any) -> SubmitJob:
        """Return a submission that takes the whole node for ten seconds."""
        words = {"name": name, "executors": 4, "deadline_us": self._due_us(due_s)} | spec
        new = JobSpec(**({f: getattr(SPEC, f) for f in SPEC.__dataclass_fields__} | words))
        return SubmitJob(
            at_us=self.at_us, request=name, idempotency_key=key, fingerprint=key, job=name, spec=new
        )

    def _due_us(self, due_s: int | None) -> int | None:
        return None if due_s is None else self.at_us + due_s * US

    def submit(self, *commands: SubmitJob) -> dict[str, Any]:
        """Submit in one batch; return the answers by request."""
        effects = self.bench.state.handle_all(commands)
        return {e.request: e.value for e in effects if isinstance(e, Reply)}


def ends_s(desk: Desk, answers: dict[str, Any]) -> dict[str, float]:
    return {
        name: (job.admission.end_us - desk.at_us) / US
        for name, job in answers.items()
        if isinstance(job, Job) and job.admission.end_us is not None
    }


def test_a_batch_is_promised_the_schedule_of_all_of_it() -> None:
    desk = Desk()
    answers = desk.submit(desk.job("late", due_s=100), desk.job("soon", due_s=15))
    # alone, the first would have been promised the node at once
    assert ends_s(desk, answers) == {"soon": 10, "late": 20}


def test_a_batch_costs_one_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    monkeypatch.setattr(Policies, "admit", _must_not_be_asked)
    answers = desk.submit(*(desk.job(f"j{n}", due_s=1000 + n) for n in range(20)))
    assert max(ends_s(desk, answers).values()) == 200


def _must_not_be_asked(*_: Any, **__: Any) -> None:
    raise AssertionError("each was judged by itself")


def test_where_one_cannot_be_met_each_is_judged_by_itself() -> None:
    desk = Desk()
    answers = desk.submit(
        desk.job("x", due_s=15), desk.job("hopeless", due_s=5), desk.job("y", due_s=25)
    )
    assert answers["hopeless"].code == "deadline_unmeetable"
    assert ends_s(desk, answers) == {"x": 10, "y": 20}


def test_the_one_that_makes_another_of_its_batch_late_is_refused() -> None:
    desk = Desk()
    answers = desk.submit(desk.job("x", due_s=15), desk.job("y", due_s=14))
    assert ends_s(desk, answers) == {"x": 10}
    assert answers["y"].extra["reason"] == "would_delay_others"


@pytest.mark.parametrize(
    "second", [{"name": "x"}, {"name": "y", "policy": "none"}, {"name": "y", "key": "k"}]
)
def test_what_is_refused_or_answered_before_leaves_no_trace_in_promises(
    second: dict[str, Any],
) -> None:
    desk = Desk()
    name = second.pop("name")
    twin = desk.job(name, due_s=11, **second)
    answers = desk.submit(desk.job("x", due_s=15, key="k"), twin, desk.job("z", due_s=30))
    assert ends_s(desk, answers)["z"] == 20


def test_a_promise_is_not_kept_for_another_fleet() -> None:
    desk = Desk()
    desk.bench.act(joint_admission.expect, [desk.job("x", due_s=30), desk.job("y", due_s=30)])
    assert desk.bench.read(joint_admission.promised, "x") is not None
    desk.bench.store(desk.bench.tables.nodes["a"])
    assert desk.bench.read(joint_admission.promised, "x") is None


def test_only_submissions_in_a_row_are_together() -> None:
    desk = Desk()
    x, y, z = (desk.job(name) for name in "xyz")
    tick = Tick(at_us=desk.at_us)
    assert list(joint_admission.groups([x, y, tick, z])) == [[x, y], (tick,), [z]]
    assert list(joint_admission.groups([])) == []


def test_what_cannot_be_considered_takes_no_place_in_the_schedule() -> None:
    desk = Desk("unix:///run/a.sock")
    spark = desk.job("spark", due_s=11, spark=SparkSpec("/app.py"))
    answers = desk.submit(spark, desk.job("x", due_s=30), desk.job("y", due_s=30))
    assert answers["spark"].code == "no_address"
    assert ends_s(desk, answers) == {"x": 10, "y": 20}


def test_the_last_places_of_the_queue_go_to_those_who_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(max_queue=2)
    monkeypatch.setattr(Policies, "admit", _must_not_be_asked)
    answers = desk.submit(*(desk.job(name, due_s=30) for name in "xyz"))
    assert answers["z"].code == "queue_full"
    assert ends_s(desk, answers) == {"x": 10, "y": 20}
