"""Those who ask the daemon: clients with jobs and services, an operator, a cycle worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tenure.model.batch import Batch
from tenure.model.container import Service
from tenure.model.effects import Reply, Trigger
from tenure.model.events import (
    CancelBatch,
    CancelDrain,
    CancelJob,
    ChangeService,
    Command,
    CreateService,
    DrainNode,
    FenceNode,
    MoveService,
    PowerNode,
    ScheduleNode,
    SubmitBatch,
    SubmitJob,
)
from tenure.model.job import Job
from tenure.model.units import US
from tests.fleet.lent import chunks_of
from tests.fleet.shell import SimShell
from tests.fleet.statistics import Statistics
from tests.fleet.worker import Worker
from tests.fleet.workload import Wish, limits_of, owner_of

#: A client that gets no reply asks again after this long, with the same idempotency key.
PATIENCE_US = 15 * US
MakeCommand = Callable[[int, str], Command]


class Clients:
    """All askers of a run. ``jobs`` maps a wish's name to the job it became."""

    def __init__(self, shell: SimShell, random: Random, *, is_calm: bool, seed: int = 0) -> None:
        self._shell = shell
        self._random = random
        self._is_calm = is_calm
        self._asked = 0
        self._waiting: dict[str, Callable[[Reply], None]] = {}
        self._ids = 0
        self.worker = Worker(shell, self.ask, random, seed=seed)
        self.statistics = Statistics(shell, seed)
        self.jobs: dict[str, Job] = {}
        self.services: dict[str, str] = {}
        self.batches: dict[str, str] = {}
        self.open_wishes = 0

    # asking

    def ask(self, make: MakeCommand, heard: Callable[[Reply], None]) -> bool:
        """Send a command; ``heard`` gets the reply unless the daemon dies before."""
        self._asked += 1
        request = f"q{self._asked}"
        self._waiting[request] = heard
        return self._shell.put(lambda at_us: make(at_us, request))

    def on_reply(self, reply: Reply) -> None:
        """Hand a reply to the one who asked."""
        heard = self._waiting.pop(reply.request, None)
        if heard is not None:
            heard(reply)

    def on_trigger(self, trigger: Trigger) -> None:
        """Have the worker run a cycle."""
        self.worker.run(trigger.cycle, trigger.run_id)

    def _later(self, delay_us: int, act: Callable[[], None]) -> None:
        self._shell.around.timeline.after(delay_us, act)

    # wishes

    def wish(self, wish: Wish) -> None:
        """Ask for a job or service until there is an answer."""
        self.open_wishes += 1
        self._press(wish, f"key-{wish.name}", [])

    def _press(self, wish: Wish, key: str, answers: list[Reply]) -> None:
        if answers:
            return
        asks = self._submit if wish.job is not None else self._create
        make = (self._lend if wish.batch is not None else asks)(wish, key)

        def heard(reply: Reply) -> None:
            if not answers:
                self.open_wishes -= 1
            answers.append(reply)
            self._answered(wish, key, reply)

        self.ask(make, heard)
        if not self._is_calm and self._random.random() < 0.1:
            self._shell.around.story.strike("submitted_twice")
            self.ask(make, heard)
        self._later(PATIENCE_US, lambda: self._press(wish, key, answers))

    def _submit(self, wish: Wish, key: str) -> MakeCommand:
        def make(at_us: int, request: str) -> Command:
            assert wish.job is not None
            self._ids += 1
            spec = wish.job
            if spec.deadline_us is not None:  # people say in how long
                apart_us = self._shell.around.clocks.apart_us
                spec = replace(spec, deadline_us=spec.deadline_us + apart_us)
            return SubmitJob(
                at_us=at_us,
                request=request,
                idempotency_key=key,
                fingerprint=wish.name,
                owner=owner_of(wish.name),
                job=f"j{self._ids}",
                spec=spec,
            )

        return make

    def _lend(self, wish: Wish, key: str) -> MakeCommand:
        def make(at_us: int, request: str) -> Command:
            assert wish.batch is not None
            self._ids += 1
            return SubmitBatch(
                at_us=at_us,
                request=request,
                idempotency_key=key,
                fingerprint=wish.name,
                owner=owner_of(wish.name),
                batch=f"b{self._ids}",
                spec=wish.batch,
                chunks=chunks_of(wish.batch),
            )

        return make

    def _create(self, wish: Wish, key: str) -> MakeCommand:
        def make(at_us: int, request: str) -> Command:
            self._ids += 1
            app = self.statistics.app_of(wish.name)
            constraints, spread = limits_of(wish.name, sorted(self._shell.around.machines))
            return CreateService(
                at_us=at_us,
                request=request,
                idempotency_key=key,
                fingerprint=wish.name,
                owner=owner_of(wish.name),
                container=f"{self._ids:08x}{'0' * 56}",
                name=wish.name,
                app=app,
                known=self.statistics.known(app),
                body=wish.body or {},
                request_resources=wish.request,
                migrate=wish.migrate,
                overlap=wish.overlap,
                constraints=constraints,
                spread=spread,
            )

        return make

    def _answered(self, wish: Wish, key: str, reply: Reply) -> None:
        if isinstance(reply.value, Job):
            self._shell.around.laws.accepted(key, reply.value.id)
            self._shell.around.story.strike(f"job_{reply.value.admission.class_}")
            self.jobs[wish.name] = reply.value
        elif isinstance(reply.value, Batch):
            self._shell.around.laws.accepted(key, reply.value.id)
            self._shell.around.story.strike("batch_accepted")
            self.batches[wish.name] = reply.value.id
        elif isinstance(reply.value, Service):
            self.services[wish.name] = reply.value.id
            if reply.value.known and reply.value.generation != self._shell.params.generations[0]:
                self._shell.around.story.strike("skipped_nursery")
        else:
            self._shell.around.laws.turned_down(key, wish.name)
            self._shell.around.story.strike(f"turned_down_{reply.value.code}")

    # people

    def meddle(self) -> None:
        """Do one of the things that people do."""
        acts = (self._cancel, self._change, self._change, self._schedule, self._power, self._cycle)
        self._random.choice(acts)()

    def _cancel(self) -> None:
        if not self.jobs:
            return
        self.cancel(self._random.choice(sorted(job.id for job in self.jobs.values())))

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._order(lambda at_us, request: CancelJob(at_us=at_us, request=request, job=job))

    def call_off(self, batch: str) -> None:
        """Cancel a batch."""
        self._order(lambda at_us, request: CancelBatch(at_us=at_us, request=request, batch=batch))

    def call_off_one(self, dice: Random) -> None:
        """Cancel any batch."""
        if self.batches:
            self.call_off(dice.choice(sorted(self.batches.values())))

    def _change(self) -> None:
        if not self.services:
            return
        key = self._random.choice(sorted(self.services.values()))
        verb = self._random.choice(("stop", "start", "start", "remove"))
        self.change(key, verb)

    def change(self, key: str, verb: str) -> None:
        """Start, stop or remove a service."""
        self._order(
            lambda at_us, request: ChangeService(
                at_us=at_us, request=request, container=key, verb=verb
            )
        )

    def move_one(self, dice: Random) -> None:
        """Move any container to any node, or ask how that would be."""
        if self.services:
            key, node = dice.choice(sorted(self.services.values())), self._any_node(dice)
            is_dry = dice.random() < 0.2
            self._order(
                lambda at_us, request: MoveService(
                    at_us=at_us, request=request, container=key, node=node, is_dry=is_dry
                )
            )

    def _any_node(self, dice: Random) -> str:
        return dice.choice(sorted(self._shell.around.machines))

    def _node(self) -> str:
        return self._any_node(self._random)

    def _schedule(self) -> None:
        self.schedule(self._node(), self._random.choice(("yes", "yes", "cordoned")))

    def schedule(self, node: str, to: str) -> None:
        """Cordon or uncordon a node."""
        self._order(
            lambda at_us, request: ScheduleNode(at_us=at_us, request=request, node=node, to=to)
        )

    def empty(self, random: Random) -> None:
        """Drain a node, look what a drain would do, cancel one, or begin or end a maintenance."""
        node = self._any_node(random)
        act = random.choice(("drain", "drain", "drain", "dry", "cancel", "maintenance"))
        if act == "cancel":
            self.cancel_drain(node)
        elif act == "maintenance":
            self.maintain(node, is_on=random.random() < 0.6)
        else:
            timeout_us = random.choice((None, None, 5 * US, 60 * US))
            self._order(
                lambda at_us, request: DrainNode(
                    at_us=at_us,
                    request=request,
                    node=node,
                    is_dry=act == "dry",
                    timeout_us=timeout_us,
                )
            )

    def cancel_drain(self, node: str) -> None:
        """Cancel the drain of a node, if there is one."""
        self._order(lambda at_us, request: CancelDrain(at_us=at_us, request=request, node=node))

    def maintain(self, node: str, *, is_on: bool) -> None:
        """Begin or end the maintenance of a node."""
        self._order(
            lambda at_us, request: ScheduleNode(
                at_us=at_us, request=request, node=node, is_in_maintenance=is_on
            )
        )

    def _power(self) -> None:
        self.switch(self._node(), self._random.choice(("on", "off")))

    def switch(self, node: str, to: str) -> None:
        """Switch a node on or off."""
        self._order(
            lambda at_us, request: PowerNode(at_us=at_us, request=request, node=node, to=to)
        )

    def _cycle(self) -> None:
        self.worker.request(self._random.choice(("promote", "settle")))

    def fence(self, node: str) -> None:
        """Declare a dead node dead."""
        self._shell.around.story.strike("fenced_by_word")
        self._order(lambda at_us, request: FenceNode(at_us=at_us, request=request, node=node))

    def _order(self, make: MakeCommand) -> None:
        self.ask(make, self._shrug)

    def _shrug(self, reply: Reply) -> None:
        """People who give orders look at the outcome, not at the reply."""
