"""A bench whose engines do at once what they are asked for, with one service on it."""

from __future__ import annotations

from typing import Any

from tenure.model.deployment import Rollout, Template
from tenure.model.effects import DurableEffect, Reply
from tenure.model.events import (
    ApplyDeployment,
    ChangeDeployment,
    ChangeService,
    Tick,
)
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.roles import Owner
from tenure.model.units import US
from tests.unit.core.bench import IMAGE, SMALL, Bench, node, shown

#: A command that no engine can start.
BAD = ["bad"]


class Site(Bench):
    """A bench whose engines do at once what they are asked for."""

    def __init__(self, *names: str) -> None:
        self.made: dict[str, Any] = {}
        super().__init__(*(node(name, "nursery") for name in names or ("n", "m")))
        for name in names or ("n", "m"):
            self.connect(name)
        self.most_gone = 0

    def settle(self) -> None:
        """Have every effect end, and what follows."""
        while open_now := sorted(self.tables.effects.values(), key=lambda e: int(e.id[1:])):
            for effect in open_now:
                self.end(effect, self.outcome(effect))
                self.most_gone = max(self.most_gone, 3 - len(self.running()))

    def outcome(self, effect: DurableEffect) -> Outcome:
        if effect.kind == "create":
            self.made[f"c-{effect.id}"] = effect
            return Done(f"c-{effect.id}")
        if effect.kind == "start" and self.made[effect.engine_id].body.get("Cmd") == BAD:
            return Refused("start_failed", "no such file")
        return Done()

    def ask(self, command: Any) -> Any:
        replies = [effect for effect in self.say(command) if isinstance(effect, Reply)]
        self.settle()
        return replies[0].value

    def apply(self, replicas: int = 3, *, is_dry: bool = False, **more: Any) -> Any:
        """Have a service of so many; ``more`` are of its body or template."""
        rollout = more.pop("rollout", Rollout())
        owner = more.pop("owner", Owner())
        constraints = more.pop("constraints", ())
        template = Template("web", {"Image": IMAGE} | more, SMALL, constraints=constraints)
        fields: dict[str, Any] = {"template": template, "rollout": rollout, "is_dry": is_dry}
        return self.ask(
            ApplyDeployment(
                at_us=0, request="r", name="web", replicas=replicas, owner=owner, **fields
            )
        )

    def change(self, verb: str, replicas: int = 0) -> Any:
        return self.ask(
            ChangeDeployment(at_us=0, request="r", name="web", verb=verb, replicas=replicas)
        )

    def by_hand(self, number: int, verb: str) -> None:
        key = self.of(number).id
        self.ask(ChangeService(at_us=0, request="r", container=key, verb=verb))

    @property
    def row(self) -> Any:
        return self.tables.deployments["web"]

    def of(self, number: int) -> Any:
        (member,) = [member for member in self.row.members if member.number == number]
        return self.tables.services.get(member.container)

    def running(self) -> list[str]:
        rows = self.tables.services.values()
        return sorted(row.name for row in rows if row.state == "running" and not row.is_removing)

    def wait(self, seconds: float = 10) -> None:
        """Have time pass, in steps, and what is due then done."""
        for _ in range(max(1, int(seconds // 5))):
            self.say(Tick(at_us=0), after_us=5 * US)
            self.settle()

    def ends(self, number: int, code: int = 1) -> None:
        """Have a container end by itself; its engine shows it."""
        service = self.of(number)
        rows = [row for row in self.tables.services.values() if row.node == service.node]
        facts = []
        for row in rows:
            if row.engine_id in self.made:
                state = "exited" if row is service else "running"
                facts.append(shown(self.made[row.engine_id], row.engine_id, state, exit_code=code))
        self.listed(service.node, *facts)
        self.settle()

    def told(self, kind: str) -> list[Any]:
        return [event.data for event in self.public if event.type == f"service.{kind}"]


def names(*numbers: int) -> list[str]:
    return [f"web-{number}" for number in numbers]
