from collections import Counter

import pytest

from tenure.model.errors import InvalidInput
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of


def choose(nodes: list[N], seed: int) -> str | None:
    view = view_of(nodes)
    return Policies().spread("random", view, ask_of(view), seed)


def test_even_over_seeds_and_the_same_for_the_same_seed() -> None:
    nodes = [N("a"), N("b"), N("c"), N("full", free_cores=0), N("off", is_on=False)]
    drawn = Counter(choose(nodes, seed) for seed in range(3000))
    assert set(drawn) == {"a", "b", "c"}
    assert all(850 < count < 1150 for count in drawn.values())
    assert choose(nodes, 2**62) == choose(nodes, 2**62)


def test_consecutive_seeds_do_not_take_turns() -> None:
    nodes = [N("a"), N("b"), N("c")]
    rows = [choose(nodes, seed) for seed in range(60)]
    assert rows[:30] != rows[3:33]


def test_none_fits() -> None:
    assert choose([N("a", free_cores=0)], 1) is None


def test_unknown_policy() -> None:
    view = view_of([N("a")])
    with pytest.raises(InvalidInput, match="worst-fit"):
        Policies().spread("worst-fit", view, ask_of(view), 1)
