"""The simulated schedule, through ``Policies.predict``."""

from collections.abc import Mapping

import pytest

from tenure.model.errors import InvalidInput
from tenure.model.placing import Ask, ClusterView, Forecast, Occupied
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.placement.build import GIB, N, ask_of, queued, view_of

NOW = 1_000 * US


def predict(
    view: ClusterView, asks: list[Ask], running: tuple[Occupied, ...] = (), policy: str = "gio"
) -> Mapping[str, Forecast | None]:
    return Policies().predict(view, running, [queued(ask, policy) for ask in asks], NOW)


def span(forecast: Forecast | None) -> tuple[float, float]:
    """Return start and end in seconds from now."""
    assert forecast is not None
    return (forecast.start_us - NOW) / US, (forecast.end_us - NOW) / US


def test_head_of_line_without_backfill() -> None:
    view = view_of([N("a", 4, free_cores=1, usd_per_h=0.36, remaining_s=50)])
    running = (Occupied(0, 3000, 3 * GIB, NOW + 50 * US),)
    big = ask_of(view, 4, id="big", local_s=100)
    small = ask_of(view, 1, id="small", local_s=10)
    answer = predict(view, [big, small], running)
    # small would fit at once, but waits behind big.
    assert span(answer["big"]) == (50, 150)
    assert span(answer["small"]) == (150, 160)
    # Each is paid from where the one before ended: 100 s and 10 s at $0.36/h.
    assert [row.cost_nano for row in answer.values() if row] == [10_000_000, 1_000_000]


def test_jobs_that_share_a_node_pay_only_the_extension() -> None:
    view = view_of([N("a", 4, usd_per_h=0.36)])
    asks = [ask_of(view, 2, id="x", local_s=100), ask_of(view, 2, id="y", local_s=130)]
    answer = predict(view, asks)
    assert [row.cost_nano for row in answer.values() if row] == [10_000_000, 3_000_000]


def test_a_job_that_never_fits_is_passed_over() -> None:
    view = view_of([N("a", 4)])
    answer = predict(view, [ask_of(view, 5, id="huge"), ask_of(view, 1, id="next")])
    assert answer["huge"] is None
    assert span(answer["next"]) == (0, 100)


def test_an_overdue_executor_still_holds_its_room() -> None:
    view = view_of([N("a", 4, free_cores=0)])
    running = (Occupied(0, 4000, 4 * GIB, NOW - 500 * US),)
    answer = predict(view, [ask_of(view, 1, id="x")], running)["x"]
    assert answer is not None
    assert answer.start_us == NOW + 1


def test_a_node_off_boots_and_boots_again_after_it_was_left() -> None:
    view = view_of([N("z", 4, usd_per_h=0.36, is_cloud=True, is_on=False, boot_s=60)])
    asks = [ask_of(view, 4, id=name, local_s=100, hybrid_s=100) for name in "xy"]
    answer = predict(view, asks)
    assert span(answer["x"]) == (60, 160)
    # y is placed at the instant x ends, when the node is still on.
    assert span(answer["y"]) == (160, 260)
    assert [row.cost_nano for row in answer.values() if row] == [16_000_000, 10_000_000]


def test_a_node_left_while_the_head_waits_is_off_again() -> None:
    # x leaves z at 160 s, but both waits for a until 300 s and finds z off.
    view = view_of(
        [
            N("a", 4, free_cores=0, remaining_s=300),
            N("z", 4, is_cloud=True, is_on=False, boot_s=60),
        ]
    )
    running = (Occupied(0, 4000, 4 * GIB, NOW + 300 * US),)
    x = ask_of(view, 4, id="x", local_s=100, hybrid_s=100, only=["z"])
    both = ask_of(view, 8, id="both", local_s=100, hybrid_s=100)
    assert span(predict(view, [x, both], running)["both"]) == (360, 460)


def test_a_head_waits_for_local_room_until_that_cannot_help() -> None:
    view = view_of([N("a", 4, free_cores=0, remaining_s=500), N("z", 4, is_cloud=True)])
    x = ask_of(view, 1, id="x", local_s=100, hybrid_s=130, deadline_s=1_120)
    # Local is full and 130 s are too long for 120 s. A local start would be in time until 20 s.
    in_time = predict(view, [x], (Occupied(0, 4000, 4 * GIB, NOW + 10 * US),))["x"]
    too_late = predict(view, [x], (Occupied(0, 4000, 4 * GIB, NOW + 500 * US),))["x"]
    assert span(in_time) == (10, 110)
    assert in_time is not None
    assert in_time.mode == "local"
    assert span(too_late) == (20, 150)
    assert too_late is not None
    assert too_late.mode == "hybrid"


def test_policies_may_differ_along_the_queue() -> None:
    view = view_of([N("a", usd_per_h=2.0), N("z", usd_per_h=0.1, is_cloud=True)])
    asks = [ask_of(view, 1, id="x"), ask_of(view, 1, id="y")]
    queue = [queued(asks[0], "ff"), queued(asks[1], "gio")]
    answer = Policies().predict(view, (), queue, NOW)
    assert [row.mode for row in answer.values() if row] == ["hybrid", "local"]


def test_nothing_given_is_changed() -> None:
    view = view_of([N("a", 4, free_cores=1, remaining_s=50)])
    before = view.free_cpu_m.tolist(), view.remaining_us.tolist(), view.is_on.tolist()
    running = (Occupied(0, 3000, 3 * GIB, NOW + 50 * US),)
    predict(view, [ask_of(view, 4, id="x")], running)
    assert (view.free_cpu_m.tolist(), view.remaining_us.tolist(), view.is_on.tolist()) == before


def test_no_nodes_no_jobs_unknown_policy() -> None:
    view = view_of([N("a")])
    assert predict(view, []) == {}
    assert predict(view_of([]), [ask_of(view_of([]), 1, id="x")]) == {"x": None}
    with pytest.raises(InvalidInput, match="magic"):
        predict(view, [ask_of(view, 1)], policy="magic")
