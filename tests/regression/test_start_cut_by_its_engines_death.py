"""An engine that died amid a start came back with a task that it neither shows nor ends.

Its start was refused for ever, and asked for again for ever; its removal left its process running.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenure.daemon.answers import views
from tenure.model.container import ContainerState, Step
from tenure.model.events import ChangeService
from tenure.model.outcome import Done, Refused, Unknown
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.regression.acts import (
    PUBLISHED,
    begin_move,
    effects_on,
    fence,
    run_service,
    the_move,
    wait,
)
from tests.unit.core.bench import Bench, node, shown

HELD = Refused("start_blocked", "held")
BROKEN = Refused("engine_error", "task web: already exists")


def told(bench: Bench) -> list[str]:
    return [event.subject for event in bench.public if event.type == "copy.blocked"]


def job(**spec: Any) -> tuple[Bench, Any]:
    """Return a bench with one executor whose start is under way, and its create."""
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j", **spec)
    made = bench.open("create")
    bench.end(made, Done("c1"))
    return bench, made


def test_the_next_attempt_waits_until_somebody_has_cleared_the_one_before() -> None:
    bench, made = job()
    bench.end(bench.open("start"), Unknown("cut"))
    bench.listed("a", replace(shown(made, "c1"), is_torn=True))
    for _ in range(3):
        bench.end(bench.open("retire"), HELD)
        wait(bench, 120)
        assert not bench.has_open("create"), "its process may run"
        bench.listed("a", replace(shown(made, "c1"), is_torn=True))
    assert told(bench) == ["j/0"], "said once"
    (tombstone,) = bench.tables.tombstones.values()
    assert tombstone.reason == "held"
    (executor,) = bench.read(views.explain, Policies(), "j")["executors"]
    assert (executor["blocked"]["node"], executor["blocked"]["engine_id"]) == ("a", "c1")
    bench.end(bench.open("retire"), Done())
    wait(bench, 30)
    assert bench.open("create").name == "tenure-j-0-2"
    assert "blocked" not in bench.read(views.explain, Policies(), "j")["executors"][0]


def test_trouble_of_the_engine_costs_no_retry_and_ends_after_some_attempts() -> None:
    bench, _ = job()
    for _ in range(bench.params.mishaps):
        bench.end(bench.open("start"), BROKEN)
        bench.end(bench.open("retire"))
        wait(bench, 30)
        bench.end(bench.open("create"), Done("again"))
    assert not bench.tables.jobs["j"].is_over
    bench.end(bench.open("start"), BROKEN)
    bench.end(bench.open("retire"))
    assert bench.tables.jobs["j"].state == "failed"


def test_what_the_container_is_to_blame_for_costs_a_retry() -> None:
    bench, _ = job()
    bench.end(bench.open("start"), Refused("start_failed", "no such file"))
    bench.end(bench.open("retire"))
    assert bench.tables.jobs["j"].state == "failed"
    assert bench.tables.jobs["j"].exit_code == 127


def test_what_was_refused_a_start_may_run_until_it_is_removed() -> None:
    """Engines tell an error after success too: a second attempt would run beside the first."""
    bench, _ = job(retries=1)
    bench.end(bench.open("start"), Refused("start_failed", "no such file"))
    wait(bench, 60)
    assert bench.tables.executors["j/0"].attempt == 2
    assert not bench.has_open("create"), "the first may run"
    bench.end(bench.open("retire"))
    wait(bench, 30)
    assert bench.open("create").name == "tenure-j-0-2"


def test_a_job_has_not_failed_while_what_was_refused_a_start_may_run() -> None:
    bench, _ = job()
    bench.end(bench.open("start"), Refused("start_failed", "no such file"))
    wait(bench, 60)
    assert not bench.tables.jobs["j"].is_over
    bench.end(bench.open("retire"))
    assert bench.tables.jobs["j"].state == "failed"


def service() -> tuple[Bench, str, Any]:
    """Return a bench with a service whose first start ended unknown."""
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    key = bench.create("web").id
    made = bench.open("create")
    bench.end(made, Done("c1"))
    bench.end(bench.open("start"), Unknown("cut"))
    return bench, key, made


def test_a_service_that_may_run_unseen_is_not_begun_anew() -> None:
    bench, key, made = service()
    bench.listed("a", replace(shown(made, "c1"), is_torn=True))
    wait(bench, 2)
    assert not bench.has_open("start")
    assert bench.tables.services[key].reason
    wait(bench, 60)
    bench.end(bench.open("start"), HELD)
    assert told(bench) == [key]
    assert not bench.has_open("retire")
    wait(bench, 60)
    bench.end(bench.open("start"), Done())
    assert bench.tables.services[key].state is ContainerState.RUNNING


def test_a_service_that_left_a_broken_shim_is_begun_anew() -> None:
    bench, key, made = service()
    bench.listed("a", shown(made, "c1"))
    bench.end(bench.open("start"), BROKEN)
    bench.end(bench.open("retire"))
    wait(bench, 30)
    assert bench.open("create").name == "web"
    assert bench.tables.services[key].incarnation == 2


def test_a_service_that_waits_since_an_older_version_has_not_run() -> None:
    """Its record may say when the copy before was started."""
    bench = Bench(node("a", "nursery"))
    key = bench.create("web").id
    one = bench.tables.services[key]
    bench.records["services"][key] = replace(one, started_us=7 * US)
    bench.restart()
    bench.connect("a")
    bench.end(bench.open("create"), Done("c1"))
    bench.end(bench.open("start"), BROKEN)
    bench.end(bench.open("retire"))
    wait(bench, 30)
    assert bench.open("create").name == "web"


def test_a_service_that_has_run_is_kept_for_its_files() -> None:
    bench = Bench(node("a", "nursery"))
    bench.connect("a")
    key, made = run_service(bench)
    bench.listed("a", shown(made, "engine-web", "exited", exit_code=1))
    bench.say(ChangeService(at_us=0, request="go", container=key, verb="start"))
    for _ in range(5):
        bench.end(bench.open("start"), BROKEN)
        wait(bench, 60)
    bench.end(bench.open("start"), BROKEN)
    wait(bench, 600)
    assert bench.tables.services[key].state is ContainerState.EXITED
    assert "already exists" in bench.tables.services[key].reason
    assert not bench.has_open("retire")
    assert not bench.has_open("start")


def going_back(kind: str = "restart", host: dict[str, Any] | None = None) -> tuple[Bench, str]:
    """Return a bench with a move whose target failed and whose source is to be started again."""
    bench = Bench(node("a", "nursery"), node("t"), best_kind=kind)
    bench.connect("a")
    bench.connect("t")
    key, _ = run_service(bench, HostConfig=host or {})
    begin_move(bench, key, "a", "t")
    for _ in range(12):
        for effect in list(bench.tables.effects.values()):
            if the_move(bench).step is not Step.START:
                bench.end(effect, Done("target"))
    assert the_move(bench).step is Step.START
    bench.end(bench.open("start"), Refused("start_failed", "no"))
    bench.end(bench.open("retire"))
    assert the_move(bench).step is Step.UNDO_SOURCE
    return bench, key


def test_a_source_that_may_run_unseen_is_waited_for() -> None:
    bench, key = going_back(host=PUBLISHED)
    for _ in range(12):
        bench.end(bench.open("start"), HELD)
        wait(bench, 40)
    assert told(bench) == [key]
    bench.end(bench.open("start"), Done())
    bench.end(bench.open("restart_policy"), Done())
    assert the_move(bench).step is Step.ROLLED_BACK


def test_a_source_that_cannot_be_started_is_made_anew() -> None:
    bench, key = going_back(host=PUBLISHED)
    for _ in range(4):
        bench.end(bench.open("start"), BROKEN)
        wait(bench, 40)
    bench.end(bench.open("start"), BROKEN)
    assert the_move(bench).step is Step.ROLLED_BACK
    bench.end(bench.open("retire"))
    wait(bench, 30)
    assert bench.open("create").name == "web"
    assert bench.tables.services[key].incarnation == 3


def test_a_source_that_cannot_be_started_keeps_files_that_were_to_move() -> None:
    bench, key = going_back("snapshot")
    for _ in range(5):
        bench.end(bench.open("start"), BROKEN)
        wait(bench, 40)
    bench.end(bench.open("restart_policy"), Done())
    assert the_move(bench).step is Step.ROLLED_BACK
    assert "could not be started again" in the_move(bench).reason
    assert not bench.has_open("retire")
    assert bench.tables.services[key].engine_id == "engine-web"


def test_an_engine_that_comes_back_is_not_asked_of_a_copy_whose_successor_runs() -> None:
    """It would have been asked by a start of the copy, beside its successor."""
    bench = Bench(node("a"), node("b"))
    for name in ("a", "b"):
        bench.connect(name)
    bench.submit("j", on_unreachable="replace")
    made = bench.open("create")
    there, other = (made.node, "b" if made.node == "a" else "a")
    bench.end(made, Done("c1"))
    bench.end(bench.open("start"), HELD)
    assert not bench.open("retire").is_fenced
    bench.end(bench.open("retire"), HELD)
    fence(bench, there)
    wait(bench, 30)
    bench.end(bench.open("create"), Done("c2"))
    bench.end(bench.open("start"))
    assert effects_on(bench, other, "start")
    bench.connect_again(there)
    bench.listed(there, shown(made, "c1", error="task id already in use"))
    wait(bench, 120)
    bench.listed(there, shown(made, "c1", error="task id already in use"))
    assert bench.open("retire").target == "c1"
    assert bench.open("retire").is_fenced


def test_waiting_for_somebody_leaves_the_tries_that_trouble_afterwards_may_take() -> None:
    """Clearing it means to restart the engine, which may refuse a start on its way."""
    bench, key, made = service()
    bench.listed("a", replace(shown(made, "c1"), is_torn=True))
    for _ in range(8):
        wait(bench, 60)
        bench.end(bench.open("start"), HELD)
    wait(bench, 60)
    bench.end(bench.open("start"), BROKEN)
    assert bench.tables.services[key].state is ContainerState.WAITING
    bench, key = going_back(host=PUBLISHED)
    for _ in range(8):
        bench.end(bench.open("start"), HELD)
        wait(bench, 40)
    bench.end(bench.open("start"), BROKEN)
    wait(bench, 40)
    bench.end(bench.open("start"), Done())
    assert the_move(bench).step is Step.UNDO_ARM
