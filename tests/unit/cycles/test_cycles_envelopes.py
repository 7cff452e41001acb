"""Envelopes, their scores, and BLEND."""

import math
import sys
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.cycles.candidates import Candidate
from tenure.cycles.envelopes import cluster, make_envelopes, ratios, scores
from tenure.cycles.packing import blend
from tenure.model.resources import Resources
from testbed import bounded
from tests.unit.cycles.fleets import CPU_HEAVY, GIB, MEM_HEAVY, USABLE, profile, service


def candidate(name: str, use: Resources) -> Candidate:
    return Candidate(service(name), profile(name, use), use)


def members(made: list[Candidate] | tuple[Candidate, ...]) -> list[str]:
    return [row.service.id for row in made]


def test_a_score_is_the_norm_of_the_shares_in_the_envelope() -> None:
    vectors = np.array([[3.0, 0.0, 1.0], [1.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    assert scores(vectors).tolist() == pytest.approx(
        [math.hypot(0.75, 0.25), math.hypot(0.25, 0.75), 0.0]
    )


def test_vectors_are_ratios_to_the_target_shape_in_the_dimensions_it_states() -> None:
    uses = [Resources(1500, 3 * GIB, 7, 9)]
    assert ratios(uses, USABLE).tolist() == [[0.25, 0.5]]
    assert ratios(uses, Resources(1500, 3 * GIB, 0, 90)).tolist() == [[1.0, 1.0, 0.1]]


def test_the_two_types_of_the_paper_are_two_envelopes() -> None:
    rows = [candidate(f"c{i}", CPU_HEAVY if i % 2 else MEM_HEAVY) for i in range(6)]
    made = make_envelopes(rows, USABLE, 4)
    # their use is as large, relative to a node: the one with the first name comes first
    assert [(envelope.kind, members(envelope.members)) for envelope in made] == [
        ("memory", ["c0", "c2", "c4"]),
        ("cpu", ["c1", "c3", "c5"]),
    ]


def test_four_kinds_of_use_are_four_envelopes_by_k_means() -> None:
    random = Random(5)
    shape = Resources(8000, 8 * GIB, 10**9, 10**9)
    kinds = {
        "cpu": (3000, GIB // 8, 10**6, 10**6),
        "memory": (100, 3 * GIB, 10**6, 10**6),
        "disk": (100, GIB // 8, 4 * 10**8, 10**6),
        "net": (100, GIB // 8, 10**6, 4 * 10**8),
    }
    rows = [
        candidate(f"{kind}-{i:02}", Resources(*(round(x * random.uniform(0.8, 1.2)) for x in use)))
        for i in range(10)
        for kind, use in kinds.items()
    ]
    made = make_envelopes(rows, shape, 4)
    assert sorted(envelope.kind for envelope in made) == ["cpu", "disk", "memory", "net"]
    for envelope in made:
        assert {name.split("-")[0] for name in members(envelope.members)} == {envelope.kind}
        found = scores(ratios([row.profile.p90 for row in envelope.members], shape)).tolist()
        assert found == sorted(found, reverse=True)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=30),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_the_same_envelopes_whatever_the_order(
    uses: list[tuple[int, int]], k: int, random: Random
) -> None:
    rows = [candidate(f"c{i:02}", Resources(*use)) for i, use in enumerate(uses)]
    shuffled = random.sample(rows, len(rows))
    made = make_envelopes(rows, Resources(40, 40), k)
    assert make_envelopes(shuffled, Resources(40, 40), k) == made
    assert len(made) <= min(k, len(set(uses)))
    placed = [name for envelope in made for name in members(envelope.members)]
    assert sorted(placed) == members(rows)


def test_no_more_envelopes_than_distinct_vectors() -> None:
    same = np.full((5, 2), 0.25)
    assert cluster(same, 4).tolist() == [0] * 5
    assert len(set(cluster(np.array([[0.1, 0], [0.2, 0], [0.1, 0]]), 4).tolist())) == 2
    assert make_envelopes([], USABLE, 4) == []


def test_nothing_stated_is_one_envelope() -> None:
    made = make_envelopes([candidate("a", CPU_HEAVY)], Resources(), 4)
    assert [envelope.kind for envelope in made] == ["even"]


def test_blend_takes_one_head_of_each_until_all_are_empty() -> None:
    """As printed, line 26 ends the loop when the last envelope is empty."""
    assert blend([["a1", "a2", "a3"], ["b1"], [], ["c1", "c2"]]) == [
        *("a1", "b1", "c1"),
        *("a2", "c2"),
        "a3",
    ]
    assert blend([]) == []


def test_neither_daemon_nor_planner_loads_scikit_learn_to_begin_with() -> None:
    code = (
        "import sys, tenure.daemon.app, tenure.cycles.planner;"
        "sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    )
    assert bounded.run([sys.executable, "-c", code]).returncode == 0
