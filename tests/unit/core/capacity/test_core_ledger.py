"""The ledger: shares of an interval, by hand and as a property."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tenure.core.capacity.ledger import attribute
from tenure.model.ledger import Interval, Stay
from tenure.model.node import Site
from tenure.model.units import HOUR_US, NANO, US, cost_nano

DOLLAR_A_SECOND = 3600 * NANO


def interval(price: int = DOLLAR_A_SECOND) -> Interval:
    return Interval("i", "n", Site.CLOUD, "young", price, on_us=0)


def test_worked_example() -> None:
    """Boot falls to the first job; an overlap is paid once; gap and tail are idle."""
    stays = [
        Stay("a/0", "n", "a", 2 * US, 10 * US),
        Stay("b/0", "n", "b", 5 * US, 14 * US),
        Stay("c/0", "n", "c", 20 * US, 21 * US),
    ]
    split = attribute(interval(), stays, 30 * US)
    assert split.shares == {"a": 10 * NANO, "b": 4 * NANO, "c": 1 * NANO}
    assert split.idle_nano == 15 * NANO
    assert split.cost_nano == 30 * NANO


def test_the_minimum_billing_period_is_paid_by_who_had_the_node_switched_on() -> None:
    """b runs within what a has paid for; from 20 s on each second is idle."""
    stays = [Stay("a/0", "n", "a", 2 * US, 5 * US), Stay("b/0", "n", "b", 8 * US, 18 * US)]
    row = replace(interval(), billed_us=20 * US)
    for until_s, idle in ((7, 0), (18, 0), (20, 0), (25, 5)):
        split = attribute(row, stays, until_s * US)
        assert (split.shares, split.idle_nano) == ({"a": 20 * NANO}, idle * NANO)
        assert split.cost_nano == max(20, until_s) * NANO


def test_a_minimum_billing_period_that_nothing_used_is_idle() -> None:
    split = attribute(replace(interval(), billed_us=20 * US), [], 3 * US)
    assert (split.idle_nano, split.cost_nano, split.shares) == (20 * NANO, 20 * NANO, {})


def test_services_are_their_own_part() -> None:
    split = attribute(interval(), [Stay("s/1", "n", "", 0, None)], 8 * US)
    assert (split.services_nano, split.idle_nano, split.shares) == (8 * NANO, 0, {})


STAYS = st.lists(
    st.builds(
        lambda i, job, start, span: Stay(f"{i}", "n", job, start, start + span if span else None),
        st.integers(0, 10**6),
        st.sampled_from(["a", "b", "c", ""]),
        st.integers(0, 5 * HOUR_US),
        st.integers(0, 2 * HOUR_US),
    ),
    max_size=12,
)


@given(STAYS, st.integers(0, 5 * HOUR_US), st.integers(0, 10**11), st.sampled_from((0, HOUR_US)))
def test_shares_sum_exactly(stays: list[Stay], until_us: int, price: int, billed_us: int) -> None:
    split = attribute(replace(interval(price), billed_us=billed_us), stays, until_us)
    parts = sum(split.shares.values()) + split.services_nano + split.idle_nano
    assert parts == split.cost_nano == cost_nano(price, max(until_us, billed_us))
    assert min([*split.shares.values(), split.services_nano, split.idle_nano]) >= 0
