"""The simulated fleet behind the real API: requests, faults, kills and time in any order.

What serves is the application as users have it; behind it are the real core and the fleet of the
simulator with its faults and its laws. So whatever a request does later, to a node that is gone by
then or after a restart, is judged as well as its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from tenure.api.openapi import document
from tenure.api.requests.backend import CycleState
from tenure.api.routes import ENDPOINTS
from tenure.api.server.problems import HttpProblem
from tenure.core.fleet import FleetState
from tenure.core.state.tables import KINDS, Changes, PublicEvent
from tenure.model.dataset import Dataset
from tenure.model.effects import Reply
from tenure.model.errors import Problem, Unavailable
from tenure.model.events import (
    Command,
    CreateService,
    Event,
    PutDataset,
    SubmitBatch,
    SubmitJob,
)
from tenure.model.node import AgentSpec, NodeSpec
from tenure.model.plan import CycleSpec
from tenure.model.qos import QosParams
from tenure.model.tier import DURABLE
from tenure.model.units import US
from tenure.placement.policies import Policies
from tenure.store.codec import Codec
from tests.api.fleet import CoreBackend
from tests.api.server import Answer
from tests.fleet import remembered, workload
from tests.fleet.kept import TIERS, Kept
from tests.fleet.restored import RestoredWorld
from tests.fleet.shell import SimShell
from tests.fleet.story import LawBroken
from tests.fleet.world import World

#: So long a request may wait for its answer: questions to the planner are lost at times.
PATIENCE_US = 200 * US
PAUSE_US = US // 100
FORECAST = CycleSpec("foresee", "", "", interval_us=3600 * US, kind="forecast")
#: An answer of a daemon that died before it could give one.
AWAY = 503
STATUSES = {
    (path, method.upper()): {int(status) for status in operation["responses"]}
    for path, operations in document(ENDPOINTS)["paths"].items()
    for method, operation in operations.items()
}


class Judged(Kept):
    """Datasets of people who may ask for copies in memory alone, which go with their nodes."""

    def __init__(self, shell: SimShell, world: AskedWorld) -> None:
        super().__init__(shell, world.clients, Random(world.seed), is_calm=False)

    def _ready_blocks(self) -> Any:
        datasets: dict[str, Dataset] = self._table("datasets")
        for block in super()._ready_blocks():
            if _is_lasting(datasets[block.dataset]):
                yield block

    def unrest(self) -> Any:
        """Yield the datasets that are neither as they are to be nor going."""
        yield from (f"dataset {d.id} is {d.state}" for d in self._open())

    def call_off(self) -> None:
        """Have people remove what finds no room."""
        for dataset in self._open():
            if not dataset.spec.batch:
                self.change(dataset.id, "remove")


def _is_lasting(dataset: Dataset) -> bool:
    kinds, count = dataset.spec.tiers, dataset.spec.replicas
    return not kinds or any(kinds[i % len(kinds)] in DURABLE for i in range(count))


def _able(specs: tuple[NodeSpec, ...], dice: Random) -> tuple[NodeSpec, ...]:
    """Return the nodes, most of which have tiers and lend: what people ask for is mostly there."""
    agent = AgentSpec("unix:///agent")
    return tuple(
        replace(spec, tiers=TIERS, agent=agent, harvest=QosParams())
        if dice.random() < 0.9
        else spec
        for spec in specs
    )


class AskedWorld(RestoredWorld):
    """A world in which nothing happens but what its tester has happen, and what follows of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Policies())
        self.is_calm = False  # whoever kills a daemon is late for its deadlines
        self.around.laws.is_size_known = True
        self.is_restored = False
        self.kept = Judged(self.shell, self)
        self.around.laws.look_at_blocks = self.kept.going_off
        self._codec = Codec(KINDS)
        self._ids = 0
        self.around.store.watcher = self._stored
        #: What ended the daemon, or which law was broken.
        self.broken: Exception | None = None
        self.specs = _able(self.specs, Random(f"able {seed}"))
        cycles = (*self.shell.configured.cycles, FORECAST)
        configured = replace(self.shell.configured, nodes=self.specs, cycles=cycles)
        self.shell.configured = configured
        self.shell.start()
        self.state: FleetState = self._alive()
        self.wait(60 * US)

    # time

    def wait(self, span_us: int) -> None:
        """Let time pass."""
        until_us = self.timeline.now_us + span_us
        while self._step(until_us):
            pass

    def _step(self, until_us: int) -> bool:
        try:
            return self.timeline.step(until_us)
        except Exception as error:
            self.broken = error
            raise

    def pause(self) -> None:
        """Let some time pass: no two things are done in the same microsecond."""
        self.wait(PAUSE_US)
        self._alive()

    def _alive(self) -> FleetState:
        """Return the core, of the next life where this one is over."""
        while self.shell.state is None:
            self.wait(US)
        return self.shell.state

    # requests

    def answer(self, command: Command) -> Any:
        """Return what the core replies; raises Unavailable where it dies before or waits long."""
        self.pause()
        heard: list[Reply] = []

        named = self._named(command)

        def make(at_us: int, request: str) -> Command:
            return replace(named, at_us=at_us, request=request)

        self.clients.ask(make, heard.append)
        until_us = self.timeline.now_us + PATIENCE_US
        while not heard and self.shell.is_alive and self._step(until_us):
            pass
        if not heard:
            raise Unavailable("the daemon died or is busy", code="away")
        return heard[0].value

    def _named(self, command: Command) -> Command:
        """Return a submission with the next id in place of a random one: runs can be repeated."""
        self._ids += 1
        if isinstance(command, SubmitJob):
            return replace(command, job=f"j-{self._ids}")
        if isinstance(command, SubmitBatch) and not command.is_dry:
            return replace(command, batch=f"b-{self._ids}")
        if isinstance(command, PutDataset):
            return replace(command, dataset=f"d-{self._ids}")
        if isinstance(command, CreateService):
            return replace(command, container=f"{self._ids:064x}")
        return command

    def put(self, event: Event) -> None:
        """Have an event come that no request brings."""
        self.pause()
        self.shell.put(lambda at_us: replace(event, at_us=at_us))

    def restart(self) -> None:
        """Kill the daemon; it is back soon."""
        self.shell.die("by its tester")

    def take_backup(self) -> None:
        """Keep the state as it is."""
        self._take()

    def put_back(self) -> None:
        """Kill the daemon and have the next one begin from the backup, if there is one."""
        self._alive()
        if self._backup:
            self.is_restored = True
            self.around.laws.is_size_known = False
            self._put_back()

    def reconfigure(self, specs: tuple[NodeSpec, ...]) -> None:
        """Have the configuration changed and read, as SIGHUP does."""
        self.pause()
        gone = {s.name for s in self.shell.configured.nodes} - {s.name for s in specs}
        self.dropped |= gone
        self.shell.configure(specs)

    # what is looked at

    def _stored(self, changes: Changes) -> None:
        """Whatever is stored reads back equal, or the next start would find something else."""
        for kind, rows in changes.records.items():
            for key, row in rows.items():
                if row is not None:
                    self._codec.encode(kind, key, row)
        if self.is_restored:
            self._settled(changes)

    def _put_back(self) -> None:
        super()._put_back()
        self.around.store.watcher = self._stored

    def check(self) -> None:
        """What is known is what is stored; what is kept between events is what both say."""
        if self.broken is not None:
            raise self.broken
        self.kept.check()
        state = self.shell.state
        if state is None:
            return
        for kind in KINDS:
            known = dict(getattr(state.tables, kind).items())
            if known != self.around.store.table(kind):
                raise LawBroken("stored", f"{kind} are known otherwise than they are stored")
        remembered.check(state)

    def end(self) -> None:
        """Faults stop; whatever was asked for comes to an end."""
        self._alive()
        self._mend()
        self._rest()
        self._check_ends()

    def _unrest(self) -> list[str]:
        if self.is_restored:
            return super()._unrest()
        return World._unrest(self)

    def _make_way(self) -> None:
        super()._make_way()
        if self.timeline.now_us <= self._patient_until_us:
            return
        for job in self.around.store.table("jobs").values():
            if not job.is_over:
                self.clients.cancel(job.id)
        for service in self.around.store.table("services").values():
            self.clients.change(service.id, "remove")

    def _check_ends(self) -> None:
        if self.is_restored:
            super()._check_ends()
        else:
            World._check_ends(self)


class AskedBackend(CoreBackend):
    """What the API asks, answered by the world of the moment."""

    world: AskedWorld

    def _boot(self) -> None:
        """Nothing is there before the first world."""

    @property
    def state(self) -> FleetState:
        """The core, also for a moment after its death."""
        if self.world.shell.state is not None:
            self.world.state = self.world.shell.state
        return self.world.state

    @state.setter
    def state(self, _: FleetState) -> None:
        """The world's is asked."""

    @property
    def events(self) -> list[PublicEvent]:
        """All that were published."""
        return self.world.around.store.events

    @events.setter
    def events(self, _: list[PublicEvent]) -> None:
        """The world's are told."""

    def now_us(self) -> int:
        return self.world.timeline.now_us

    async def ask(self, command: Command) -> Any:
        reply = self.world.answer(command)
        if isinstance(reply, Problem):
            raise HttpProblem(reply)
        return reply

    def cycles(self) -> Sequence[CycleState]:
        due_us = self.now_us() + 60 * US
        return [CycleState(spec, due_us) for spec in self.world.shell.configured.cycles]

    async def offer(self, image: str) -> tuple[bool, bool, str]:
        return image in workload.IMAGES, image == workload.ABSENT, "the registry does not know it"


def judge(method: str, path: str, pattern: str, answer: Answer) -> None:
    """An answer is one that is documented; a refusal says what of, and which field where one is."""
    shown = f"{method} {path}: {answer.status} {answer.body[:2000]!r}"
    assert answer.status in STATUSES[pattern, method] or answer.status == AWAY, shown
    assert answer.status < 500 or answer.status == AWAY, shown
    if answer.status < 400 or path == "/readyz":
        return
    assert answer.headers["Content-Type"] == "application/problem+json", shown
    problem = answer.json
    assert problem["detail"], shown
    if problem["code"] == "invalid_input":
        assert all([fault["field"] for fault in problem["errors"]] or [False]), shown
