"""What is summed of tiers as copies come and go is what counting anew gives."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.state.params import PrefetchParams
from tenure.model.batch import TaskState
from tenure.model.tier import TierKind
from tests.fleet import remembered
from tests.unit.core.bench import node
from tests.unit.core.dispatch.test_core_task_inputs import Library
from tests.unit.core.lender import AGENT
from tests.unit.core.shelf import tier

ALL = PrefetchParams(policy="all", share=0.5)
KINDS = ((), (TierKind.HDD,), (TierKind.SSD, TierKind.MEMORY))
VERBS = ("put", "prefetch", "scan", "finish", "lose", "find", "remove", "pin", "wait")

steps = st.lists(
    st.tuples(st.sampled_from(VERBS), st.sampled_from("abc"), st.integers(0, 4), st.booleans()),
    max_size=16,
)


@settings(max_examples=40, deadline=None)
@given(steps)
def test_sums_of_tiers_agree_with_their_copies(
    rows: Sequence[tuple[str, str, int, bool]],
) -> None:
    """A tier in memory has room for three blocks, so that copies make room for others."""
    memory, disks = tier("memory", 12), (tier("ssd"), tier("hdd"))
    specs = [node(name, "nursery", tiers=(memory, *disks), **AGENT) for name in "abc"]
    made = Library(*specs, prefetch=ALL)
    for verb, name, number, is_worked in [("put", "a", 4, True), *rows]:
        act(made, verb, name, number)
        assert not remembered.shelved(made.state)
        if is_worked:
            made.work_now()
            assert not remembered.shelved(made.state)
    for name in sorted(made.away):
        made.find(name)
    made.work()
    assert not remembered.shelved(made.state)


def act(made: Library, verb: str, name: str, number: int) -> None:
    """Do one thing to a dataset or node called ``name``, where it can be done."""
    known = [d for d in made.tables.datasets.values() if d.spec.name == name and not d.is_going]
    if verb == "put" and not known:
        made.put(name, 1 + number, replicas=1 + number % 2, tiers=KINDS[number % len(KINDS)])
    elif verb == "scan" and known and known[0].state == "ready" and not made.tables.batches:
        made.scan(name, known[0].spec.blocks)
    elif verb == "finish":
        busy = [task for task in made.tasks() if task.state is TaskState.CREATING]
        for task in [task for task in busy if task.node not in made.away][:number]:
            made.finish(task.index)
    elif verb == "lose" and name not in made.away:
        made.lose(name)
    elif verb == "find" and name in made.away:
        made.find(name)
    elif verb in ("prefetch", "remove", "pin") and known:
        made.change(verb, known[0].id)
    elif verb == "wait":
        made.wait(6 * number)
