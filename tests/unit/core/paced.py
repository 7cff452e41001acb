"""A library whose tasks last as long as they are said to, and how long a batch of them takes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tenure.model.batch import TaskState
from tenure.model.events import Event, Tick
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.bench import shown
from tests.unit.core.dispatch.test_core_planned_starts import Planned
from tests.unit.core.dispatch.test_core_task_inputs import OFF
from tests.unit.core.lender import AGENT
from tests.unit.core.shelf import with_tiers

#: What a node of the bench lends to batches.
LENT_M = 1500
#: Steps of one batch: each is a timer or the end of a task.
MOST_STEPS = 5_000


class Paced(Planned):
    """Events take a microsecond, timers come at their time and tasks end at theirs."""

    def say(self, event: Event, *, after_us: int = 1) -> list[Any]:
        return super().say(event, after_us=after_us if isinstance(event, Tick) else 1)

    def listed(self, name: str, *facts: Any, asked_us: int | None = None) -> list[Any]:
        return super().listed(name, *facts, asked_us=asked_us or self.now_us + 1)

    def lay(self, name: str, homes: Sequence[Sequence[str]]) -> None:
        """Have the blocks of a dataset lie on these nodes, one row a block, in their first tier."""
        for block, nodes in zip(self.blocks(name), homes, strict=True):
            rows = (replace(block.replicas[0], node=node, tier="ssd") for node in nodes)
            self.store(replace(block, replicas=tuple(rows)))

    def took_s(self, lasts_s: Sequence[float]) -> float:
        """Return how long batch b takes, whose tasks last so long each, from now on."""
        begun_us, ends = self.now_us, list[tuple[int, int, Any]]()
        for _ in range(MOST_STEPS):
            for task in self.tasks():
                if task.state is TaskState.CREATING:
                    create = self.run(task.index)
                    end_us = self.now_us + round(lasts_s[task.index] * US)
                    heapq.heappush(ends, (end_us, task.index, create))
            if all(task.state is TaskState.DONE for task in self.tasks()):
                return (self.now_us - begun_us) / US
            self._step(ends)
        raise AssertionError("the batch does not end")

    def _step(self, ends: list[tuple[int, int, Any]]) -> None:
        """Let the next timer come, or the next task end."""
        timer_us = self.state.wakeup_us()
        if timer_us is not None and not (ends and ends[0][0] <= timer_us):
            self.say(Tick(at_us=0), after_us=max(1, timer_us - self.now_us))
            self.work_now()
            return
        end_us, index, create = ends[0]
        self.say(Tick(at_us=0), after_us=max(1, end_us - self.now_us))
        here = [row for row in ends if row[2].node == create.node]
        heapq.heappop(ends)
        facts = [self._seen(made, key, is_over=key == index) for _, key, made in here]
        self.listed(create.node, *facts)
        self.end(self.open_of("collect", index))
        self.work_now()

    @staticmethod
    def _seen(create: Any, index: int, *, is_over: bool) -> Any:
        if is_over:
            return shown(create, f"e{index}", "exited", exit_code=0)
        return shown(create, f"e{index}", "running")


def paced(homes: Sequence[Sequence[str]], nodes: str, *, slots: int, run_s: float) -> Paced:
    """Return a library over which a batch was sent whose tasks fill ``slots`` of each node.

    ``homes`` are the nodes of each task's block, the first where it is planned: one after another.
    """
    words: dict[str, Any] = {"generation": "nursery", **AGENT}
    made = Paced(*(with_tiers(name, "ssd", **words) for name in nodes), prefetch=OFF)
    made.put("logs", len(homes), replicas=1)
    made.work()
    made.lay("logs", homes)
    request = Resources(LENT_M // slots, 16 * MIB)
    made.send(made.over("logs", len(homes), run_us=round(run_s * US), request=request))
    counts = {name: sum(row[0] == name for row in homes) for name in nodes}
    made.plan(
        *(
            ("scan", name, turn * run_s, min(slots, count - turn * slots), 0)
            for name, count in counts.items()
            for turn in range(-(-count // slots))
        )
    )
    return made
