"""How much room nodes have, and which filter keeps work away."""

from __future__ import annotations

from dataclasses import replace

from tenure.core.capacity import room, snapshots
from tenure.model.container import Profile
from tenure.model.events import CancelJob, NodeLost, ScheduleNode, UsageObserved
from tenure.model.job import Constraint
from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import FOREVER_US, MIB, US
from tests.unit.core.bench import IMAGE, SIZE, SMALL, Bench, node


def free(bench: Bench, name: str) -> Resources:
    return bench.read(room.free_on, bench.tables.nodes[name])


def test_executors_take_room_from_placement_until_their_end() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    assert free(bench, "a") == SIZE
    bench.submit("j", executors=2)
    assert free(bench, "a") == SIZE - SMALL - SMALL


def test_what_may_still_run_takes_room_after_its_end() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    bench.submit("j")
    bench.end(bench.open("create"), Done("c"))
    bench.end(bench.open("start"))
    bench.say(NodeLost(at_us=0, node="a"))
    bench.say(CancelJob(at_us=0, request="x", job="j"))
    assert free(bench, "a") == SIZE - SMALL


def test_a_profile_with_headroom_takes_the_place_of_the_limits() -> None:
    bench = Bench(node("n", "nursery"))
    bench.connect("n")
    service = bench.create("web")
    assert free(bench, "n") == SIZE - SMALL
    used = Profile(service.id, Resources(1000, 10 * MIB), 10, 60 * US)
    bench.say(UsageObserved(at_us=0, profiles=(used,)))
    assert free(bench, "n") == SIZE - Resources(1100, 11 * MIB)


def test_foreign_use_counts_against_capacity() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    bench.say(UsageObserved(at_us=0, foreign={"a": Resources(300, MIB)}))
    assert free(bench, "a") == SIZE - Resources(300, MIB)


def test_filters_have_stable_codes() -> None:
    bench = Bench(node("a"), node("b", "nursery"), node("c"), node("d", driver="command"))
    bench.connect("a")
    bench.connect("b")
    bench.say(ScheduleNode(at_us=0, request="x", node="a", to="cordoned"))
    codes = {n.name: room.is_usable(n, bench.now_us) for n in bench.tables.nodes.values()}
    assert codes == {"a": "cordoned", "b": "", "c": "unreachable", "d": "power_unknown"}


def test_what_only_a_change_of_job_or_configuration_lifts() -> None:
    bench = Bench(node("a", labels={"disk": "ssd"}), node("b"), node("n", "nursery"))
    for name in ("a", "b", "n"):
        bench.connect(name)
    job = bench.submit("j", constraints=(Constraint("label.disk", "==", ("ssd",)),))
    nodes = list(bench.tables.nodes.values())
    allowed = bench.params.job_generations()
    codes = {n.name: room.never_for(job, n, allowed) for n in nodes}
    assert codes == {"a": "", "b": "constraint", "n": "generation"}
    other = replace(job, spec=replace(job.spec, image="other", constraints=()), avoid=("b",))
    codes = {n.name: room.never_for(other, n, allowed) for n in nodes}
    assert codes == {"a": "image", "b": "avoided", "n": "generation"}


def test_an_image_without_a_tag_means_latest() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    record = bench.tables.nodes["a"]
    assert room.has_image(record, "base")
    assert room.has_image(record, IMAGE)
    assert not room.has_image(record, "base:1")
    assert not room.has_image(record, "registry:5000/base")


def test_an_image_by_its_digest_is_held_whatever_its_tag() -> None:
    bench = Bench(node("a"))
    bench.connect("a")
    for name in ("base", "registry:5000/x/base"):
        digest = f"@sha256:{'0' * 64}"
        record = replace(bench.tables.nodes["a"], images=(name + digest,))
        assert room.has_image(record, name + digest)
        assert room.has_image(record, f"{name}:1{digest}")
        assert not room.has_image(record, f"{name}@sha256:{'1' * 64}")
        assert not room.has_image(record, f"{name}:1")


def test_the_end_of_executors_that_boot_comes_after_the_boot() -> None:
    bench = Bench(node("a", driver="command"))
    bench.end(bench.open("probe"), Done("off"))
    bench.submit("j")
    (executor,) = bench.crew("j")
    assert bench.read(room.end_estimate_us, executor) == bench.now_us + 15 * US


def test_a_node_that_is_never_switched_stays_on_for_ever() -> None:
    bench = Bench(node("a"), node("b", driver="command"))
    scene = bench.read(snapshots.scene)
    assert scene.view.names == ("a", "b")
    assert scene.view.remaining_us.tolist() == [FOREVER_US, 0]


def test_views_do_not_depend_on_the_order_of_the_configuration() -> None:
    one, other = Bench(node("a"), node("b")), Bench(node("b"), node("a"))
    views = [bench.read(snapshots.scene).view for bench in (one, other)]
    assert views[0].names == views[1].names
    assert views[0].capacity_cpu_m.tolist() == views[1].capacity_cpu_m.tolist()
