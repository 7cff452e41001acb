"""Replicated services in the simulated fleet: people apply, scale, update and remove them.

Laws. L33: no two containers of one number run at once, but what an engine revives. L34, at the end:
every number that is wanted runs, unless a person stopped it, its policy ended it, or there is no
room. L35: an update takes nothing down that runs where fewer than wanted less ``max_unavailable``
would be left. L36: a revision never changes, and at the end what runs is of the one in force, so a
rollback is to exactly what was.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from tenure.core.services.services import NO_ROOM
from tenure.core.state.tables import Changes
from tenure.model.container import ContainerState, Service
from tenure.model.deployment import Deployment, Phase, Rollout, Template
from tenure.model.effects import Reply
from tenure.model.errors import Problem
from tenure.model.events import ApplyDeployment, ChangeDeployment, ChangeService, Command
from tenure.model.facts import LABEL_SERVICE
from tenure.model.job import Constraint
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.fleet.clients import Clients
from tests.fleet.laws import copy_of
from tests.fleet.machine import SimContainer
from tests.fleet.shell import SimShell
from tests.fleet.story import LawBroken
from tests.fleet.workload import IMAGES, owner_of

S = ContainerState
BAD = ["bad"]
COMMANDS = (["serve", "-1"], ["serve", "2"], ["serve", "20"], ["burst", "45", "1"])
ROLLOUTS = (
    Rollout(min_healthy_us=US),
    Rollout(0, 1, 5 * US),
    Rollout(2, 1, 5 * US),
    Rollout(1, 0, 20 * US),
)
NAMES = ("repl", "twin")
ACTS = ("apply", "apply", "apply", "scale", "rollback", "pause", "resume", "own")
#: Why a number does not run that nobody starts.
AT_REST = ("has ended", "was stopped")


class Replicated:
    """The replicated services of one run; ``by_hand`` are containers that people removed."""

    def __init__(self, shell: SimShell, clients: Clients, seed: int) -> None:
        self._shell, self._clients = shell, clients
        self._dice = Random(f"replicated {seed}")
        self._rollouts = {name: self._dice.choice(ROLLOUTS) for name in NAMES}
        self._seen: dict[tuple[str, int, int], Template] = {}
        self.by_hand: set[str] = set()

    def plan(self, start_us: int, span_us: int) -> None:
        """Have people ask for services in every second run, and do things with them."""
        timeline, dice = self._shell.around.timeline, self._dice
        if dice.random() < 0.5:
            return
        for name in NAMES[: dice.choice((1, 1, 2))]:
            at_us = start_us + dice.randrange(2 * US, span_us // 2)
            timeline.at(at_us, partial(self._apply, name))
        for _ in range(dice.choice((2, 6, 12))):
            timeline.at(start_us + dice.randrange(5 * US, span_us), self._meddle)

    def plan_between(self, begin_us: int, end_us: int) -> None:
        """Have people replace containers from a backup until it is put back."""
        dice = Random(f"between {begin_us} {end_us}")
        for _ in range(dice.choice((2, 6, 12))):
            at_us = dice.randrange(begin_us, end_us + 1)
            self._shell.around.timeline.at(at_us, partial(self._meddle, ("apply", "own", "own")))

    def _table(self, kind: str) -> dict[str, Any]:
        return self._shell.around.store.table(kind)

    # people

    def _apply(self, name: str) -> None:
        dice = self._dice
        is_bad = dice.random() < 0.25
        host: dict[str, Any] = {
            "RestartPolicy": {"Name": dice.choice(("always", "unless-stopped", "on-failure", "no"))}
        }
        if dice.random() < 0.15:
            host["Binds"] = ["/data:/data"]
        body = {"Image": dice.choice(IMAGES), "HostConfig": host}
        body["Cmd"] = BAD if is_bad else dice.choice(COMMANDS)
        small = Resources(dice.choice((100, 250)), 32 * MIB)
        where = dice.choice(sorted(self._shell.around.machines))
        limits = dice.choice(((), (), (Constraint("name", "!=", (where,)),)))
        migrate = dice.choice(("", "", "restart", "never"))
        template = Template(name, body, small, migrate=migrate, constraints=limits)
        replicas, is_dry = dice.choice((0, 1, 2, 3, 5)), dice.random() < 0.1

        def make(at_us: int, request: str) -> Command:
            return ApplyDeployment(
                at_us=at_us,
                request=request,
                owner=owner_of(name),
                name=name,
                replicas=replicas,
                template=template,
                rollout=self._rollouts[name],
                is_dry=is_dry,
            )

        self._clients.ask(make, self._heard)

    def _heard(self, reply: Reply) -> None:
        word = reply.value.code if isinstance(reply.value, Problem) else "done"
        self._shell.around.story.strike(f"service_{word}")

    def _meddle(self, acts: tuple[str, ...] = ACTS) -> None:
        dice = self._dice
        name = dice.choice(NAMES)
        row: Deployment | None = self._table("deployments").get(name)
        if row is None:
            return
        act = dice.choice(acts)
        if act == "apply":
            self._apply(name)
        elif act == "own":
            self._touch(row)
        else:
            verb = "remove" if dice.random() < 0.05 else act
            self._change(name, verb, dice.choice((0, 1, 3, 4)))

    def _change(self, name: str, verb: str, replicas: int = 0) -> None:
        def make(at_us: int, request: str) -> Command:
            return ChangeDeployment(
                at_us=at_us, request=request, name=name, verb=verb, replicas=replicas
            )

        self._clients.ask(make, self._heard)

    def _touch(self, row: Deployment) -> None:
        """Have somebody remove, stop or start one of its containers."""
        keys = sorted(member.container for member in row.members if member.container)
        if keys:
            key, verb = self._dice.choice(keys), self._dice.choice(("remove", "stop", "start"))
            self.by_hand |= {key} if verb == "remove" else set()

            def make(at_us: int, request: str) -> Command:
                return ChangeService(at_us=at_us, request=request, container=key, verb=verb)

            self._clients.ask(make, lambda reply: None)

    def make_way(self) -> None:
        """Have people resume what is paused, and remove what cannot run."""
        for row in list(self._table("deployments").values()):
            if row.is_paused:
                self._change(row.name, "resume")
            elif row.phase is not Phase.STEADY and NO_ROOM in row.reason:
                self._change(row.name, "scale", max(0, row.replicas - 1))
            elif row.revision.template.body["Cmd"] == BAD and row.phase is not Phase.UPDATING:
                self._change(row.name, "remove")
            elif row.phase is not Phase.STEADY and row.reason.partition(": ")[2].startswith(
                AT_REST
            ):
                self._change(row.name, "remove")  # fewer run than may, so none is taken down

    def clear(self) -> None:
        """Have people remove all of them: a job waits for their room."""
        for row in list(self._table("deployments").values()):
            self._change(row.name, "remove")

    # laws

    def restored(self) -> None:
        """Forget what was seen: a backup was put back."""
        self._seen.clear()

    def started(self, container: SimContainer) -> None:
        """L33, when a process begins."""
        laws, (key, _) = self._shell.around.laws, copy_of(container)
        if LABEL_SERVICE not in container.labels:
            return
        for owner, copies in laws.alive.items():
            for copy in copies if owner != key else ():
                is_twin = (copy.name, LABEL_SERVICE in copy.labels) == (container.name, True)
                if is_twin and copy.is_alive and not laws.is_revived(container, copy):
                    text = f"{container.id} begins while {copy.id} runs, both {container.name}"
                    raise LawBroken("L33", text)

    def on_commit(self, changes: Changes) -> None:
        """L35 and L36 on what a transaction is about to change."""
        for event in changes.events:
            if event.type == "container.adopted" and "name" in event.data:
                self._shell.around.story.strike("number_adopted")
        for row in changes.records.get("deployments", {}).values():
            for one in row.revisions if row is not None else ():
                seen = self._seen.setdefault((row.name, row.created_us, one.number), one.template)
                if one.template != seen:
                    raise LawBroken("L36", f"revision {one.number} of {row.name} has changed")
        for key, new in changes.records.get("services", {}).items():
            old: Service | None = self._table("services").get(key)
            is_taken = new is not None and new.is_removing and key not in self.by_hand
            # seen to have ended, or asked by a person to stop, at this moment
            is_taken = is_taken and new.state not in (S.EXITED, S.STOPPING)
            is_taken = is_taken and self._is_told_right(changes, key)
            if is_taken and old is not None and _is_up(old) and not old.is_removing:
                self._may_be_taken(changes, old)

    def _is_told_right(self, changes: Changes, key: str) -> bool:
        """Whether what a record says of what runs is true: after a restore another may run."""
        if not any(event.type == "state.settled" for event in changes.events):
            return True
        alive = self._shell.around.laws.alive
        mine = {copy.name for copy in alive.get(key, ()) if copy.is_alive}
        others = (copy for owner in alive if owner != key for copy in alive[owner])
        return bool(mine) and not any(copy.is_alive and copy.name in mine for copy in others)

    def _may_be_taken(self, changes: Changes, old: Service) -> None:
        rows, services = changes.records.get("deployments", {}), changes.records.get("services", {})
        row: Deployment | None = rows.get(
            old.deployment, self._table("deployments").get(old.deployment)
        )
        if row is None or row.phase is Phase.STEADY or row.is_removing:
            return
        keys = [member.container for member in row.members]
        numbers = [m.number for m in row.members if m.container == old.id]
        if not numbers or numbers[0] > row.replicas:
            return
        left = [services.get(key) or self._table("services").get(key) for key in keys]
        up = sum(one is not None and _is_up(one) and not one.is_removing for one in left)
        if up < row.replicas - row.rollout.max_unavailable:
            raise LawBroken("L35", f"{old.name} is taken down, {up} of {row.replicas} are left")
        self._shell.around.story.strike("service_replaced_one")

    def unrest(self) -> Iterator[str]:
        """L34 and L36: yield what is not as it is wanted."""
        for row in self._table("deployments").values():
            if row.is_removing or row.phase is not Phase.STEADY:
                yield f"service {row.name} is {row.state}: {row.reason}"
                continue
            if len(row.members) != row.replicas:
                yield f"service {row.name} has {len(row.members)} numbers of {row.replicas}"
            for member in row.members:
                service: Service | None = self._table("services").get(member.container)
                if service is None or not _may_stay(service):
                    state = "gone" if service is None else service.state
                    yield f"service {row.name}: number {member.number} is {state}: {member.note}"
                elif service.body != row.revision.template.body:
                    yield f"service {row.name}: number {member.number} is of another revision"


def _is_up(service: Service) -> bool:
    return service.state is S.RUNNING and service.health not in ("starting", "unhealthy")


def _may_stay(service: Service) -> bool:
    """Whether a container may be as it is at the end."""
    if service.state is S.EXITED:
        return not service.is_kept_up(service.exit_code, service.restarts)
    is_without_room = service.state is S.WAITING and service.reason == NO_ROOM
    return service.state in (S.RUNNING, S.STOPPED) or is_without_room
