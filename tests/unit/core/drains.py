"""A bench with a node that is drained, for tests of the core."""

from __future__ import annotations

from typing import Any

from tenure.core.state.params import Params
from tenure.model.container import Step
from tenure.model.drain import Drain, DrainPlan
from tenure.model.events import (
    CancelDrain,
    DrainNode,
)
from tenure.model.outcome import Done
from tests.regression.acts import wait
from tests.unit.core.bench import Bench, node, shown

HOST = "a"


class Drained:
    """A bench of nursery nodes, on the first of which services run; the others come after."""

    def __init__(self, *others: Any, params: Params | None = None) -> None:
        self.bench = Bench(node(HOST, "nursery"), params=params or Params(min_on={}))
        self.others = others
        self.bench.connect(HOST)
        self.made: dict[str, Any] = {}

    def run(self, name: str, **body: Any) -> str:
        service = self.bench.create(name, **body)
        self.made[name] = self.bench.open("create")
        self.bench.end(self.made[name], Done(f"engine-{name}"))
        self.bench.end(self.bench.open("start"))
        return str(service.id)

    def open_others(self, *connected: str) -> None:
        self.bench.configure(node(HOST, "nursery"), *self.others)
        for other in connected or [spec.name for spec in self.others]:
            self.bench.connect(other)

    def ask(self, command: Any) -> Any:
        return self.bench._reply(self.bench.say(command))

    def plan(self, name: str = HOST) -> DrainPlan:
        found = self.ask(DrainNode(at_us=0, request="dry", node=name, is_dry=True))
        assert isinstance(found, DrainPlan)
        return found

    def drain(self, name: str = HOST, **words: Any) -> Drain:
        found = self.ask(DrainNode(at_us=0, request="drain", node=name, **words))
        assert isinstance(found, Drain)
        return found

    def cancel(self) -> Any:
        return self.ask(CancelDrain(at_us=0, request="cancel", node=HOST))

    @property
    def record(self) -> Drain:
        found: Drain = self.bench.tables.drains[HOST]
        return found

    @property
    def moves(self) -> list[Any]:
        return list(self.bench.tables.migrations.values())

    def codes(self) -> list[str]:
        return [blocker.code for blocker in self.record.blockers]

    def scheduling(self) -> str:
        return str(self.bench.tables.nodes[HOST].scheduling)

    def finish(self, move: Any) -> None:
        """Have the engines do everything that an open move asks for."""
        bench, name = self.bench, self.bench.tables.services[move.container].name
        key = f"migration:{move.id}"
        for _ in range(20):
            mine = [e for e in bench.tables.effects.values() if e.owner == key]
            tombstones = [e for e in bench.tables.effects.values() if move.container in e.owner]
            for effect in mine + tombstones:
                if effect.kind == "create":
                    self.made[name] = effect
                bench.end(effect, Done(f"{name}@{move.target}"))
            now = bench.tables.migrations[move.id]
            if now.step is Step.TRANSFER and now.is_unsure:
                bench.listed(move.source)  # of one at rest, it is looked whether it rested
            if now.step is Step.VERIFY:
                wait(bench, 10)
                running = shown(self.made[name], f"{name}@{move.target}", "running")
                bench.listed(move.target, running)
        assert bench.tables.migrations[move.id].step is Step.DONE


def with_two(**first: Any) -> Drained:
    """Two services on the node, and another node that has room for both."""
    drained = Drained(node("b", "nursery"))
    drained.run("one", **first)
    drained.run("two")
    drained.open_others()
    return drained
