"""An attempt lives the same way whether it is of an executor, of a task or of a service."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.attempts.attempt import MOST_TRIES
from tenure.core.attempts.executors import EXECUTORS
from tenure.core.attempts.tasks import TASKS
from tenure.core.services.services import SERVICES
from tenure.model.events import CancelJob, FenceNode, NodeLost, Tick
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.units import US
from tests.unit.core.bench import Bench, node, shown
from tests.unit.core.lender import lender, lends

KINDS = ("executor", "task", "service")
ATTEMPTS: dict[str, Any] = {"executor": EXECUTORS, "task": TASKS, "service": SERVICES}
#: No pause before another attempt is longer, but those after many failures.
PAUSE_US = 10 * US


def begun(kind: str) -> Bench:
    """Return a bench of one node on which something of a kind is being created."""
    if kind == "task":
        lending = lender(lends("n"))
        lending.lend("b")
        return lending
    bench = Bench(node("n", "young" if kind == "executor" else "nursery"))
    bench.connect("n")
    if kind == "executor":
        bench.submit("j")
    else:
        bench.create("web")
    return bench


def record(bench: Bench) -> Any:
    """Return the one executor, task or service."""
    tables = bench.tables
    for table in (tables.executors, tables.tasks, tables.services):
        for found in table.values():
            return found
    raise AssertionError("nothing was accepted")


def to_start(bench: Bench) -> Any:
    """Bring a record to its start; return its create effect."""
    create = bench.open("create")
    bench.end(create, Done("c1"))
    if bench.has_open("send"):
        bench.end(bench.open("send"))
    assert record(bench).state == "starting"
    return create


@pytest.mark.parametrize("kind", KINDS)
def test_a_create_that_did_not_happen_is_sent_again_under_the_same_name(kind: str) -> None:
    bench = begun(kind)
    create = bench.open("create")
    bench.end(create, Unknown("timed out"))
    assert not bench.has_open("create"), "it may still have happened"
    bench.listed("n")
    again = bench.open("create")
    assert (again.name, again.node) == (create.name, "n")
    assert again.id != create.id
    assert record(bench).attempt == 1


@pytest.mark.parametrize("kind", ["executor", "task"])
def test_a_create_that_never_happens_is_a_mishap_after_a_while(kind: str) -> None:
    bench = begun(kind)
    for _ in range(MOST_TRIES + 1):
        assert (record(bench).attempt, record(bench).mishaps) == (1, 0)
        bench.end(bench.open("create"), Unknown("timed out"))
        bench.listed("n")
    assert (record(bench).attempt, record(bench).mishaps, record(bench).tries) == (2, 1, 0)
    assert not bench.has_open("create"), "the next attempt waits"
    bench.listed("n")
    bench.say(Tick(at_us=0), after_us=PAUSE_US)
    assert bench.open("create").name.endswith("-2")


@pytest.mark.parametrize("kind", ["executor", "task"])
def test_nothing_is_created_again_for_what_ends(kind: str) -> None:
    bench = begun(kind)
    bench.end(bench.open("create"), Unknown("timed out"))
    one = record(bench)
    # it ends in slices, and this one's turn has not come yet
    if kind == "executor":
        whole: Any = bench.tables.jobs["j"]
        bench.tables.jobs.put("j", replace(whole, is_cancelling=True))
    else:
        whole = bench.tables.batches["b"]
        bench.tables.batches.put("b", replace(whole, is_cancelling=True))
    bench.act(ATTEMPTS[kind].on_listing, one, None, bench.now_us + 1)
    assert record(bench).state == "abandoned"
    assert record(bench).mishaps == 0
    assert not bench.has_open("create")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_sent_for_a_step_that_is_refused(kind: str) -> None:
    bench = begun(kind)
    bench.is_broken = True
    create = bench.open("create")
    bench.end(create, Done("c1"))
    one = record(bench)
    for effect in list(bench.tables.effects.values()):
        bench.tables.effects.drop(effect.id)
    bench.act(ATTEMPTS[kind].to, one, type(one.state)(one.state))  # no step at all
    assert (ATTEMPTS[kind].record, one.key) in bench.state.quarantined
    bench.act(ATTEMPTS[kind].start, replace(one, state=type(one.state)("created")))
    assert not bench.has_open("start")


def test_executors_of_a_cancelled_job_cost_no_mishap_where_their_node_goes() -> None:
    bench = begun("executor")
    to_start(bench)
    bench.say(CancelJob(at_us=0, request="c", job="j"))
    assert record(bench).state == "abandoned"
    bench = begun("executor")
    to_start(bench)
    job = bench.tables.jobs["j"]
    bench.tables.jobs.put("j", replace(job, is_failing=True, reason="by a test"))
    bench.say(NodeLost(at_us=0, node="n", why="silent"))
    bench.say(FenceNode(at_us=0, request="f", node="n"))
    assert (record(bench).state, record(bench).mishaps) == ("abandoned", 0)
    assert not [event for event in bench.public if event.type == "executor.lost"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_create_that_happened_is_found_by_a_listing(kind: str) -> None:
    bench = begun(kind)
    create = bench.open("create")
    bench.end(create, Unknown("timed out"))
    bench.listed("n", shown(create, "c1"))
    assert record(bench).engine_id == "c1"
    assert not bench.has_open("create")


@pytest.mark.parametrize("kind", ["executor", "service"])
@pytest.mark.parametrize("state", ["running", "exited"])
def test_what_somebody_started_while_nobody_knew_of_it_goes_on(kind: str, state: str) -> None:
    bench = begun(kind)
    create = bench.open("create")
    bench.end(create, Unknown("timed out"))
    bench.listed("n", shown(create, "c1", state, exit_code=0))
    bench.end(bench.open("start"))
    assert record(bench).state == "running"
    assert record(bench).attempt == 1


def test_a_task_that_somebody_started_without_its_input_is_begun_anew() -> None:
    bench = begun("task")
    create = bench.open("create")
    bench.end(create, Unknown("timed out"))
    bench.listed("n", shown(create, "c1", "running"))
    assert record(bench).attempt == 2
    bench.say(Tick(at_us=0), after_us=PAUSE_US)
    assert not bench.has_open("create"), "the first one may still write an output"
    assert bench.open("retire").target == "c1"


@pytest.mark.parametrize("kind", ["executor", "task"])
def test_a_start_that_was_not_confirmed_is_not_sent_again(kind: str) -> None:
    bench = begun(kind)
    create = to_start(bench)
    bench.end(bench.open("start"), Unknown("timed out"))
    bench.listed("n", shown(create, "c1"))
    assert record(bench).attempt == 2
    bench.say(Tick(at_us=0), after_us=PAUSE_US)
    assert not bench.has_open("start")
    assert not bench.has_open("create")
    assert bench.open("retire").target == "c1"


def test_a_service_is_started_again_for_it_may_run_any_number_of_times() -> None:
    bench = begun("service")
    create = to_start(bench)
    bench.end(bench.open("start"), Unknown("timed out"))
    bench.listed("n", shown(create, "c1"))
    assert bench.open("start").engine_id == "c1"
    assert record(bench).attempt == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_of_unknown_end_is_confirmed_by_a_listing(kind: str) -> None:
    bench = begun(kind)
    create = to_start(bench)
    bench.end(bench.open("start"), Unknown("timed out"))
    bench.listed("n", shown(create, "c1", "running"))
    assert record(bench).state == "running"
    assert not record(bench).is_unsure


@pytest.mark.parametrize("kind", KINDS)
def test_what_vanished_from_its_engine_is_begun_anew(kind: str) -> None:
    bench = begun(kind)
    to_start(bench)
    bench.end(bench.open("start"), Unknown("timed out"))
    bench.listed("n")
    assert record(bench).attempt == 2
    assert [tombstone.engine_id for tombstone in bench.tables.tombstones.values()] == ["c1"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_listing_from_before_an_effect_ended_says_nothing(kind: str) -> None:
    bench = begun(kind)
    asked_us = bench.now_us
    to_start(bench)
    bench.end(bench.open("start"))
    bench.listed("n", asked_us=asked_us)
    assert (record(bench).state, record(bench).attempt) == ("running", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_s_refusal_is_kept_in_words(kind: str) -> None:
    bench = begun(kind)
    bench.end(bench.open("create"), Refused("bad_request", "no such option"))
    kept = record(bench)
    told = [event.data.get("note", event.data.get("reason", "")) for event in bench.public]
    assert "bad_request: no such option" in told, kept
