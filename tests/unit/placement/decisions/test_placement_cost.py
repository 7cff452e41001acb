"""Eq. 1-18 on numbers small enough to check by hand."""

import numpy as np
import pytest

from tenure.model.units import HOUR_US, US, cost_nano
from tenure.placement.arrays import fleet_of, need_of
from tenure.placement.decisions.cost import (
    ANYWHERE,
    ON_CLOUD,
    ON_LOCAL,
    delay_us,
    extension_us,
    is_hybrid,
    least_on_us,
    money,
    offer,
    slots,
    total_nano,
)
from tenure.placement.decisions.order import fill
from tests.unit.placement.build import N, ask_of, view_of


def ints(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


def test_slots_are_bound_by_the_scarcer_dimension_and_by_e() -> None:
    view = view_of([N("a", 4, 16), N("b", 8, 4), N("c", 64, 256), N("d", 0.5, 16)])
    need = need_of(ask_of(view, 6, cores=1, gib=2), 0)
    fleet = fleet_of(view)
    # a: min(4, 8) = 4; b: min(8, 2) = 2; c: 64 and 128, but only E = 6 are asked; d: no core.
    assert slots(fleet.free_cpu_m, fleet.free_memory, need).tolist() == [4, 2, 6, 0]


def test_slots_of_a_job_that_asks_no_cpu_and_of_an_overcommitted_node() -> None:
    view = view_of([N("a", 4, 4), N("b", 4, 4, free_cores=-1)])
    fleet = fleet_of(view)
    no_cpu = need_of(ask_of(view, 3, cores=0, gib=2), 0)
    some = need_of(ask_of(view, 3, cores=1, gib=1), 0)
    assert slots(fleet.free_cpu_m, fleet.free_memory, no_cpu).tolist() == [2, 2]
    assert slots(fleet.free_cpu_m, fleet.free_memory, some).tolist() == [3, 0]


def test_ineligible_nodes_have_no_slots() -> None:
    view = view_of([N("a"), N("b")])
    need = need_of(ask_of(view, 2, only=["b"]), 0)
    assert slots(*fleet_of(view)[:2], need).tolist() == [0, 2]


def test_deadline_is_strict() -> None:
    # Eq. 15: T_C < T_D - T_W; 10 s of boot and 90 s of run do not fit into 100 s.
    rows = [N("a", boot_s=0), N("b", boot_s=9), N("c", boot_s=10)]
    fleet = fleet_of(view_of(rows))
    assert offer(fleet, ints(1, 2, 3), ANYWHERE, 90 * US, 100 * US).tolist() == [1, 2, 0]


def test_what_is_offered_is_on_the_site_that_is_asked() -> None:
    fleet = fleet_of(view_of([N("a"), N("b", is_cloud=True)]))
    for sites, expected in ((ON_LOCAL, [1, 0]), (ON_CLOUD, [0, 2]), (ANYWHERE, [1, 2])):
        assert offer(fleet, ints(1, 2), sites, 90 * US, 100 * US).tolist() == expected


def test_extension_is_never_negative() -> None:
    # Eq. 4: T_C = 100 s against t_j = 40 s, 100 s, 250 s and for ever.
    rows = [N(f"n{k}", remaining_s=t) for k, t in enumerate((40, 100, 250, None))]
    fleet = fleet_of(view_of(rows))
    assert [extension_us(fleet, j, 100 * US) for j in range(4)] == [60 * US, 0, 0, 0]


def test_a_node_that_is_switched_on_is_paid_for_its_minimum_period() -> None:
    # b is on: what is paid for already is in its t_j.
    rows = [
        N("a", is_on=False, min_billing_s=60),
        N("b", is_on=True, min_billing_s=60, remaining_s=20),
    ]
    fleet = fleet_of(view_of(rows))
    assert least_on_us(fleet).tolist() == [60 * US, 0]
    assert [extension_us(fleet, j, 50 * US) for j in (0, 1)] == [60 * US, 30 * US]
    assert [extension_us(fleet, j, 70 * US) for j in (0, 1)] == [70 * US, 50 * US]


def test_hybrid_means_any_cloud_node_used() -> None:
    cloud = np.array([False, True])
    assert not is_hybrid(ints(3, 0), cloud)
    assert is_hybrid(ints(3, 1), cloud)
    assert is_hybrid(ints(0, 1), cloud)


def test_the_slowest_boot_delays_all() -> None:
    assert delay_us(ints(1, 0, 2), ints(5, 90, 30)) == 30
    assert delay_us(ints(0, 0, 0), ints(5, 90, 30)) == 0


def test_total_cost_by_hand() -> None:
    # Eq. 16 with T_C = 100 s: a is on for 40 s more anyway, so 60 s at $0.36/h = $0.006;
    # b idles, so 100 s at $0.72/h = $0.02; c is kept on; d is not used.
    view = view_of(
        [
            N("a", usd_per_h=0.36, remaining_s=40),
            N("b", usd_per_h=0.72),
            N("c", usd_per_h=9.0, remaining_s=None),
            N("d", usd_per_h=9.0),
        ]
    )
    assert total_nano(fleet_of(view), ints(2, 1, 1, 0), 100 * US) == 26_000_000


@pytest.mark.parametrize("price", [0, 1, 999, 360_000_007, 10**10 + 7, 10**14 - 1])
@pytest.mark.parametrize("on_us", [0, 1, HOUR_US - 1, HOUR_US, 86_399_999_999, 365 * 24 * HOUR_US])
def test_money_equals_the_exact_product(price: int, on_us: int) -> None:
    assert money(price, on_us) == cost_nano(price, on_us)
    assert money(*ints(price, on_us)) == cost_nano(price, on_us)  # nothing overflows in 64 bits


def test_fill_goes_by_the_order_to_the_brim() -> None:
    keys = ints(20, 30, 10).reshape(1, 3)
    assert fill(keys, ints(3, 3, 2), 4).tolist() == [2, 0, 2]
    assert fill(keys, ints(3, 3, 2), 9).tolist() == [0, 0, 0]
