"""What begins of a stage over a dataset leaves a task beside its copy to each later start."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.dispatch import task_inputs
from tenure.model.units import US
from tests.unit.core.paced import paced

RUN_S = 6.0
#: What the bench's events take in all.
EVENTS_S = 0.1


@pytest.mark.parametrize(
    "homes",
    [
        "ac ba ba ca ac cb",
        "bc ab ac cb cb bc",
        "ac ac ca cb ba ba",
        "ab bc ac cb bc cb",
    ],
)
def test_six_blocks_in_two_copies_on_three_nodes_take_the_two_rounds_promised(homes: str) -> None:
    """By the order of their numbers alone these take three: the last one waits for a node's slot.

    Each word is a block: the node it is planned on, and the other one with a copy.
    """
    made = paced(homes.split(), "abc", slots=1, run_s=RUN_S)
    assert made.took_s([RUN_S] * 6) == pytest.approx(2 * RUN_S, abs=EVENTS_S)


def test_a_task_that_is_planned_elsewhere_begins_where_nobody_else_could() -> None:
    """Both tasks of a are read by b too, whose own is read by b alone: it has to begin there."""
    made = paced(["ab", "ab", "b"], "ab", slots=1, run_s=RUN_S)
    assert made.tasks()[2].node == "b"
    assert made.took_s([RUN_S] * 3) == pytest.approx(2 * RUN_S, abs=EVENTS_S)


@dataclass(frozen=True)
class Drawn:
    """Blocks with their nodes, the planned one first; how long each task lasts, and slots."""

    nodes: str
    slots: int
    homes: list[str]
    lasts_s: list[float]

    @property
    def promised_s(self) -> float:
        """Return what the plan takes if every task lasts as long as the longest."""
        counts = [sum(row[0] == name for row in self.homes) for name in self.nodes]
        return max(-(-count // self.slots) for count in counts) * max(self.lasts_s)


@st.composite
def batches(draw: st.DrawFn) -> Drawn:
    nodes = "abcde"[: draw(st.integers(2, 5))]
    is_late = draw(st.booleans())
    homes, lasts = [], []
    for _ in range(draw(st.integers(1, 4 * len(nodes)))):
        copies = st.permutations(nodes).map("".join)
        homes.append(draw(copies)[: draw(st.integers(1, 3))])
        lasts.append(RUN_S * (draw(st.sampled_from((0.8, 0.9, 1.0))) if is_late else 1.0))
    return Drawn(nodes, draw(st.sampled_from((1, 2))), homes, lasts)


@settings(max_examples=60, deadline=None)
@given(batches())
def test_a_plan_whose_tasks_last_no_longer_than_estimated_is_kept(drawn: Drawn) -> None:
    """Whichever copies there are: a plan that gives each task a slot beside one can be kept.

    As far as each start comes soon after a look in vain, which leaves the stage alone for a while.
    """
    made = paced(drawn.homes, drawn.nodes, slots=drawn.slots, run_s=RUN_S)
    rests_s = len(drawn.homes) * task_inputs.REST_US / US
    assert made.took_s(drawn.lasts_s) <= drawn.promised_s + rests_s + EVENTS_S
