"""The ledger: shares of an interval, by hand and as a property."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.core.ledger import attribute
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


@given(STAYS, st.integers(0, 5 * HOUR_US), st.integers(0, 10**11))
def test_shares_sum_exactly(stays: list[Stay], until_us: int, price: int) -> None:
    split = attribute(interval(price), stays, until_us)
    parts = sum(split.shares.values()) + split.services_nano + split.idle_nano
    assert parts == split.cost_nano == cost_nano(price, until_us)
    assert min([*split.shares.values(), split.services_nano, split.idle_nano]) >= 0
