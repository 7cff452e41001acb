"""Attribution of an interval's cost beside ``test_core_ledger``: overlaps, gaps, order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenure.core.capacity.ledger import attribute
from tenure.model.ledger import Interval, Stay
from tenure.model.node import Site
from tenure.model.units import HOUR_US, US

#: One nano-dollar a microsecond, so that costs read as times.
PRICE = HOUR_US


def interval(on_s: int, *, price: int = PRICE) -> Interval:
    return Interval("n@0", "n", Site.CLOUD, "young", price, on_us=on_s * US)


def stay(key: str, start_s: float, end_s: float | None) -> Stay:
    end_us = None if end_s is None else round(end_s * US)
    job = "" if key.startswith("service") else key
    return Stay(key, "n", job, round(start_s * US), end_us)


def test_a_later_job_pays_only_for_what_it_adds() -> None:
    stays = [stay("a", 0, 30), stay("b", 10, 40), stay("c", 12, 20)]
    split = attribute(interval(0), stays, 40 * US)
    assert split.shares == {"a": 30 * US, "b": 10 * US}
    assert split.idle_nano == 0


def test_gaps_are_idle_and_services_pay_for_themselves() -> None:
    stays = [stay("a", 0, 10), stay("service", 15, 20), stay("b", 30, None)]
    split = attribute(interval(0), stays, 40 * US)
    assert split.shares == {"a": 10 * US, "b": 10 * US}
    assert split.services_nano == 5 * US
    assert split.idle_nano == 15 * US


def test_nothing_there_is_all_idle() -> None:
    split = attribute(interval(5), [], 9 * US)
    assert (split.idle_nano, split.shares) == (4 * US, {})


def test_an_interval_never_has_a_negative_length() -> None:
    assert attribute(interval(5), [], 1 * US).cost_nano == 0


times = st.integers(-50, 400)


@given(rows=st.lists(st.tuples(times, times)), seed=st.randoms(use_true_random=False))
def test_the_order_in_which_stays_are_kept_does_not_matter(rows, seed) -> None:  # type: ignore[no-untyped-def]
    stays = [stay(f"j{i}", *row) for i, row in enumerate(rows)]
    shuffled = list(stays)
    seed.shuffle(shuffled)
    assert attribute(interval(0), stays, 400 * US) == attribute(interval(0), shuffled, 400 * US)
