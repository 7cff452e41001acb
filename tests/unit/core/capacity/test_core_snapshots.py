"""The snapshot says what the records say, whatever happened since it was read."""

from __future__ import annotations

import numpy as np

from tenure.core.capacity import snapshots
from tenure.core.capacity.releases import settled
from tenure.core.state.learned import Learned
from tenure.model.container import Profile
from tenure.model.effects import DurableEffect
from tenure.model.events import CancelJob, ScheduleNode, Tick, UsageObserved
from tenure.model.outcome import Done
from tenure.model.placing import Running
from tenure.model.resources import Resources
from tenure.model.units import US
from tests.unit.core.bench import Bench, node


def fleet() -> Bench:
    bench = Bench(node("a"), node("b"), node("c", driver="command"), node("d", "nursery"))
    for name in ("a", "b", "d"):
        bench.connect(name)
    bench.end(bench.open("probe"), Done("off"))
    return bench


def check(bench: Bench) -> None:
    assert bench.read(bench.read(snapshots.snapshot_of).problem) == ""


def open_of(bench: Bench, kind: str) -> list[DurableEffect]:
    return [effect for effect in bench.tables.effects.values() if effect.kind == kind]


def test_it_follows_a_job_from_its_place_to_its_end() -> None:
    bench = fleet()
    bench.submit("j", executors=3)
    check(bench)
    for kind in ("create", "start"):
        for effect in open_of(bench, kind):
            bench.end(effect, Done(f"c-{effect.id}") if kind == "create" else None)
            check(bench)
    assert bench.tables.jobs["j"].state == "running"
    bench.say(CancelJob(at_us=0, request="x", job="j"))
    check(bench)


def test_it_follows_services_cordons_and_the_configuration() -> None:
    bench = fleet()
    bench.create("web")
    check(bench)
    bench.say(ScheduleNode(at_us=0, request="x", node="a", to="cordoned"))
    check(bench)
    bench.configure(node("b"), node("d", "nursery"), node("e"))
    check(bench)
    assert "a" not in bench.read(snapshots.scene).position


def test_the_scene_is_the_same_object_until_something_changes() -> None:
    bench = fleet()
    first = bench.read(snapshots.scene)
    assert bench.read(snapshots.scene) is first
    bench.submit("j")
    assert bench.read(snapshots.scene) is not first


def test_time_alone_changes_what_is_left_of_a_run() -> None:
    bench = fleet()
    bench.submit("j")
    before = bench.read(snapshots.scene).running.end_us.tolist()
    bench.say(Tick(at_us=0), after_us=100 * US)
    after = bench.read(snapshots.scene).running.end_us.tolist()
    assert after[0] - before[0] == 100 * US  # it has not started
    check(bench)


def test_a_waiting_job_stays_the_same_until_its_nodes_change() -> None:
    bench = fleet()
    bench.submit("big", executors=8)
    bench.submit("j", executors=8)
    job = bench.tables.jobs["j"]
    (first,) = bench.read(snapshots.queued, [job])
    bench.create("web")
    assert bench.read(snapshots.queued, [job])[0] is first
    bench.say(ScheduleNode(at_us=0, request="x", node="a", to="cordoned"))
    assert bench.read(snapshots.queued, [job])[0] is not first
    check(bench)


def test_a_sweep_has_only_nodes_read_anew_on_which_an_amount_changed() -> None:
    bench = fleet()
    bench.create("web")
    service = next(iter(bench.tables.services.values()))
    use = Resources(100, 1 << 20)
    for samples, cpu_m, there, elsewhere in ((1, 50, True, True), (2, 50, False, False)):
        check(bench)
        profile = Profile(service.id, Resources(cpu_m, 1 << 20), samples, samples * US)
        bench.say(UsageObserved(at_us=0, profiles=(profile,), foreign={"b": use}))
        found = bench.read(snapshots.snapshot_of).stale
        assert (service.node in found, "b" in found) == (there, elsewhere)
        assert bench.state_of(Learned).profiles[service.id] is profile
    check(bench)
    bench.say(UsageObserved(at_us=0, foreign={"b": Resources()}))
    assert bench.read(snapshots.snapshot_of).stale == {"b"}
    check(bench)


def test_what_ends_first_makes_up_for_room_that_was_given_out_twice() -> None:
    rows = ([1, 0, 1, 1], [500, 100, 500, 700], [10, 10, 10, 10], [9, 0, 0, 5])
    running = Running(*(np.array(row, dtype=np.int64) for row in rows))
    found = settled(running, np.array([0, -600]), np.array([3, -5]))
    assert found.cpu_m.tolist() == [500, 100, 0, 600]
    assert found.memory_bytes.tolist() == [10, 10, 5, 10]
    assert found.end_us is running.end_us
    nothing = np.zeros(2, dtype=np.int64)
    assert settled(running, nothing, nothing) is running
