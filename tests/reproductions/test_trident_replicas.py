"""The replica map: copies, pending prefetches, and what a scheduler is told of them."""

from __future__ import annotations

from reproductions.trident.replicas import Preference, Replica, ReplicaMap
from tenure.locality.scores import Scores, Tier
from tests.unit.locality.build import H, M, S

SCORES = Scores()
PENDING = 30_000


def with_three() -> ReplicaMap:
    found = ReplicaMap()
    for node, tier in (("a", Tier.HDD), ("b", Tier.SSD), ("c", Tier.MEMORY)):
        found.add("b0", Replica(node, tier))
    return found


def test_preferences_name_the_fastest_copy_of_each_node() -> None:
    known = with_three()
    known.add("b0", Replica("a", Tier.MEMORY))
    assert known.preferences("b0", SCORES) == [
        Preference("a", M, M),
        Preference("b", S, S),
        Preference("c", M, M),
    ]


def test_nodes_that_are_away_are_not_offered() -> None:
    assert with_three().preferences("b0", SCORES, away={"a", "c"}) == [Preference("b", S, S)]
    assert with_three().preferences("unknown", SCORES) == []


def test_a_pending_prefetch_costs_more_than_any_tier_until_it_is_done() -> None:
    known = with_three()
    assert known.begin_prefetch("b0", "a")
    assert known.preferences("b0", SCORES)[0] == Preference("a", PENDING, H)
    assert known.end_prefetch("b0", "a", is_done=True)
    assert known.preferences("b0", SCORES)[0] == Preference("a", M, M)
    assert not known.end_prefetch("b0", "a", is_done=True)


def test_a_prefetch_that_fails_leaves_the_copy_as_it_was() -> None:
    known = with_three()
    known.begin_prefetch("b0", "a")
    assert known.end_prefetch("b0", "a", is_done=False)
    assert known.preferences("b0", SCORES)[0] == Preference("a", H, H)


def test_nothing_is_prefetched_to_where_there_is_nothing_to_copy_or_a_copy_already() -> None:
    known = with_three()
    assert not known.begin_prefetch("b0", "c")
    assert not known.begin_prefetch("b0", "elsewhere")
    assert not known.begin_prefetch("unknown", "a")


def test_a_prefetch_ends_with_the_copy_that_it_reads() -> None:
    known = with_three()
    known.begin_prefetch("b0", "a")
    assert known.remove("b0", Replica("a", Tier.HDD))
    assert not known.is_pending("b0", "a")
    assert not known.remove("b0", Replica("a", Tier.HDD))


def test_the_last_copy_is_known_as_such() -> None:
    known = with_three()
    assert not known.is_last("b0", Replica("c", Tier.MEMORY))
    known.remove("b0", Replica("a", Tier.HDD))
    known.remove("b0", Replica("b", Tier.SSD))
    assert known.is_last("b0", Replica("c", Tier.MEMORY))
    assert list(known.blocks()) == ["b0"]
    known.remove("b0", Replica("c", Tier.MEMORY))
    assert list(known.blocks()) == []
