"""A look at one stage over a dataset forgot what was being brought for tasks of another one.

The block was looked for by its number in the dataset of the stage that was looked at, and not found
on its way: its task was matched anew, and the copy was not known as one that came for it.
"""

from __future__ import annotations

from dataclasses import replace

from tenure.core.state.prefetch_state import Prefetches
from tests.unit.core.dispatch.test_core_planned_starts import HALF, library


def test_what_is_on_its_way_for_one_stage_stays_so_while_another_is_looked_at() -> None:
    made = library(4, replicas=1)
    made.put("more", 1, replicas=1)
    made.work()
    ((holder, _),) = made.places("more")[0]
    other = "b" if holder == "a" else "a"
    made.send(made.over("logs", 4), replace(made.over("more", 1, request=HALF), name="late"))
    made.guard(holder, mode="off")
    made.away.add(other)
    made.plan(("scan", holder, 0, 1, 0), ("scan", holder, 60, 3, 0), ("late", other, 3, 1, 1))
    made.wait(5)
    assert made.state_of(Prefetches).brought == {"b/4": (other, "ssd")}
    made.guard(holder)
    made.wait(5)
    assert made.begun()[holder], "the other stage was looked at"
    assert made.state_of(Prefetches).brought == {"b/4": (other, "ssd")}
