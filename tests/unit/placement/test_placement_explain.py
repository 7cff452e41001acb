import json
from typing import Any

from tenure.model.placing import Ask, ClusterView, Occupied
from tenure.model.units import US
from tenure.placement.explain import Explanation, NodeReason, Shortage
from tenure.placement.policies import Policies
from tests.unit.placement.build import GIB, N, ask_of, view_of

NOW = 1_700_000_000 * US


def explain(
    view: ClusterView,
    ask: Ask,
    drops: dict[str, str] | None = None,
    running: tuple[Occupied, ...] = (),
) -> Explanation:
    return Policies().explain("gio", view, ask, drops or {}, running, NOW)


def row(explanation: Explanation, name: str) -> NodeReason:
    return next(one for one in explanation.nodes if one.node == name)


def test_short_of_cpu_until_executors_end() -> None:
    view = view_of([N("a", 4, free_cores=0.5)])
    running = (
        Occupied(0, 200, GIB, NOW + 10 * US),
        Occupied(0, 300, GIB, NOW + 20 * US),
        Occupied(0, 3000, GIB, NOW + 30 * US),
    )
    answer = explain(view, ask_of(view, 2), running=running)
    a = row(answer, "a")
    assert answer.reason == "no_room"
    assert a.exhausted == (Shortage("cpu_m", 1000, 500, 500),)
    assert a.free_us == NOW + 20 * US
    assert a.unblock == (
        "needs 500m more CPU; free at 2023-11-14T22:13:40.000000Z when executors end"
    )
    assert answer.room_us == NOW + 30 * US


def test_short_of_both_with_no_end_known() -> None:
    view = view_of([N("a", 4, free_cores=0, free_gib=0.5)])
    a = row(explain(view, ask_of(view, 1)), "a")
    assert [one.dimension for one in a.exhausted] == ["cpu_m", "memory_bytes"]
    assert a.unblock == (
        "needs 1000m more CPU and 512 MiB more memory; no executor here gives that back"
    )


def test_larger_than_the_node_ever_offers() -> None:
    view = view_of([N("a", 4, 8)])
    answer = explain(view, ask_of(view, 1, cores=1, gib=9))
    assert answer.reason == "no_node"
    expected = "an executor is larger than this node ever offers: 8192 MiB memory at most"
    assert row(answer, "a").unblock == expected


def test_filters_say_what_to_do() -> None:
    view = view_of([N("a"), N("b"), N("c"), N("d")])
    drops = {"a": "cordoned", "b": "constraint: site==cloud", "c": "own_filter"}
    answer = explain(view, ask_of(view, 1, only=[]), drops)
    assert [(one.dropped, one.unblock) for one in answer.nodes] == [
        ("cordoned", "cordoned: uncordon it"),
        ("constraint", "excluded by a constraint of the job (site==cloud)"),
        ("own_filter", "own_filter"),
        ("filtered", "filtered"),
    ]
    assert answer.slots == 0


def test_slots_by_site_boot_and_deadline() -> None:
    view = view_of(
        [N("a", 2), N("y", 4, is_cloud=True), N("z", is_cloud=True, is_on=False, boot_s=60)]
    )
    now_s = NOW / US
    waits = explain(view, ask_of(view, 3, local_s=50, hybrid_s=200, deadline_s=now_s + 100))
    assert (waits.slots, waits.local_slots, waits.executors) == (8, 2, 3)
    assert row(waits, "a").unblock == ""
    assert row(waits, "y").unblock == (
        "too late from here: it takes 200 s, 100 s are left to the deadline"
    )
    ready = explain(view, ask_of(view, 3, local_s=50))
    assert ready.reason == "placeable"
    assert ready.room_us is None
    assert row(ready, "z").unblock == "is off: would be switched on, which takes 60 s"


def test_too_late_now_but_not_for_ever() -> None:
    view = view_of([N("a", 4, free_cores=0), N("z", is_cloud=True)])
    ask = ask_of(view, 1, local_s=50, hybrid_s=200, deadline_s=NOW / US + 100)
    assert explain(view, ask).reason == "too_late"


def test_json_round_trip_and_no_nodes() -> None:
    view = view_of([N("a", 4, free_cores=0)])
    plain: Any = explain(view, ask_of(view, 1)).to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["nodes"][0]["exhausted"][0]["dimension"] == "cpu_m"
    assert explain(view_of([]), ask_of(view_of([]), 1)).reason == "no_node"
