"""A bench to which batches are submitted, and short ways to bring their tasks on."""

from __future__ import annotations

import dataclasses
from typing import Any

from tenure.core.state.params import Params
from tenure.model.batch import Batch, BatchSpec, StageSpec, Task, TaskState
from tenure.model.effects import Reply
from tenure.model.events import (
    GuardSeen,
    HarvestReported,
    SubmitBatch,
)
from tenure.model.harvest import Guard, HarvestAction
from tenure.model.node import AgentSpec, NodeSpec
from tenure.model.outcome import Done, Outcome
from tenure.model.qos import QosParams
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, SMALL, Bench, node, shown

S = TaskState


def stage(name: str = "map", count: int = 1, **more: Any) -> StageSpec:
    words: dict[str, Any] = {"image": IMAGE, "command": ("run",), "request": SMALL}
    return StageSpec(name=name, count=count, **(words | {"run_us": 10 * US} | more))


def two() -> tuple[StageSpec, StageSpec]:
    return stage("map", 2, partitions=1), stage("reduce", 1, after=("map",), shuffle="map")


AGENT: dict[str, Any] = {"agent": AgentSpec("unix:///agent"), "harvest": QosParams()}
GUARD = Guard("act", "/tenure-harvest")


def lends(name: str, generation: str = "nursery", **more: Any) -> NodeSpec:
    return node(name, generation, **(AGENT | more))


class Lender(Bench):
    """A bench to which batches are submitted; its nodes lend and have an agent."""

    def guard(self, name: str, **change: Any) -> None:
        guard = dataclasses.replace(GUARD, **change)
        self.say(GuardSeen(at_us=0, node=name, guard=guard), after_us=1)

    def told(self, index: int = 0, *, kills: str = "", outcome: Outcome | None = None) -> None:
        """Have the journal of a task's node be read, which says that it ended ``kills``."""
        ask = self.open_of("ask_journal", index)
        if kills:
            self.killed(ask.node, kills)
        self.end(ask, outcome)

    def killed(self, name: str, engine_id: str) -> None:
        self.seq = getattr(self, "seq", 0) + 1
        action = HarvestAction(
            self.seq, 1, "kill", "limit", is_done=True, task=engine_id, resource="memory"
        )
        self.say(HarvestReported(at_us=0, node=name, actions=(action,)))

    def lend(self, name: str, *stages: StageSpec, is_dry: bool = False, **spec: Any) -> Any:
        given = BatchSpec(name, stages or (stage(),), **spec)
        command = SubmitBatch(at_us=0, request=name, batch=name, spec=given, is_dry=is_dry)
        replies = [e for e in self.say(command) if isinstance(e, Reply)]
        assert len(replies) == 1
        return replies[0].value

    def task(self, index: int = 0, batch: str = "b") -> Task:
        found: Task = self.tables.tasks[f"{batch}/{index}"]
        return found

    def batch(self, name: str = "b") -> Batch:
        found: Batch = self.tables.batches[name]
        return found

    def open_of(self, kind: str, index: int = 0) -> Any:
        owner = f"task:b/{index}"
        found = [e for e in self.tables.effects.values() if (e.kind, e.owner) == (kind, owner)]
        assert len(found) == 1, (kind, index, found)
        return found[0]

    def effects_of(self, kind: str, index: int = 0, batch: str = "b") -> Any:
        """Return the newest effect of a kind for a task, open or not."""
        owner = f"task:{batch}/{index}"
        named = [e for e in self.effects if getattr(e, "owner", "") == owner]
        return [e for e in named if e.kind == kind][-1]

    def run(self, index: int = 0) -> Any:
        """Bring a placed task to its start; return its create effect."""
        create = self.open_of("create", index)
        self.end(create, Done(f"e{index}"))
        self.end(self.open_of("send", index))
        self.end(self.open_of("start", index))
        assert self.task(index).state is S.RUNNING
        return create

    def exit(self, index: int, create: Any, code: int, **more: Any) -> None:
        facts = shown(create, f"e{index}", "exited", exit_code=code, **more)
        self.listed(create.node, facts)

    def finish(self, index: int) -> None:
        self.exit(index, self.run(index), 0)
        self.end(self.open_of("collect", index))
        assert self.task(index).state is S.DONE


def lender(*nodes: Any, **params: Any) -> Lender:
    specs = nodes or (lends("n"), lends("m"))
    bench = Lender(*specs, params=Params(**({"min_on": {}} | params)))
    for spec in specs:
        bench.connect(spec.name)
        bench.guard(spec.name)
    return bench
