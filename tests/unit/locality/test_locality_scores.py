"""Scores keep the order that pruning relies on, whatever was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.locality.scores import PAPER_BANDWIDTHS, Scores, Tier, scores_of
from tenure.model.errors import InvalidInput


def test_the_papers_bandwidths_give_the_papers_scores() -> None:
    found = scores_of(PAPER_BANDWIDTHS)
    assert (found.memory, found.ssd, found.hdd) == (1, 8, 20)
    assert (found.in_rack, found.across) == (40, 100)
    assert found == Scores()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory", 0.0),
        ("ssd", float("nan")),
        ("hdd", 1e9),
        ("ssd", 0.5),
        ("hdd", 7.0),
        ("pending", 19.0),
        ("pending", 40.0),
        ("indifferent", 41.0),
        ("across", 59.0),
    ],
)
def test_scores_out_of_order_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        Scores(**{field: value})
    assert field in {fault.path for fault in caught.value.fields} | {"ssd", "hdd"}
    assert caught.value.fields


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        Scores(ssd=30, across=10, pending=50)
    assert {fault.path for fault in caught.value.fields} == {"hdd", "across", "pending"}


@given(
    st.dictionaries(st.sampled_from(Tier), st.floats(min_value=0, max_value=1e12, allow_nan=False))
)
def test_whatever_was_measured_keeps_the_order(bandwidths: dict[Tier, float]) -> None:
    found = scores_of(bandwidths)
    assert 0 < found.memory <= found.ssd <= found.hdd <= found.pending < found.in_rack
    assert found.in_rack + found.hdd <= found.across


def test_a_tier_that_was_not_measured_keeps_its_score() -> None:
    found = scores_of({Tier.MEMORY: 3200, Tier.HDD: 100})
    assert (found.ssd, found.hdd) == (8, 32)
    assert scores_of({Tier.HDD: 100}) == Scores()
