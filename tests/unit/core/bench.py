"""A core on a bench: events by hand, effects to look at. No engine, no store, no clock."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.core.state.tables import Meta, PublicEvent
from tenure.daemon.metrics.readmetrics import facts_of
from tenure.harvest.admission import answer
from tenure.harvest.progress import Watch
from tenure.locality.localizer import Tiers
from tenure.model.container import Migration
from tenure.model.effects import DurableEffect, Effect, PlanBatches, Reply
from tenure.model.events import (
    Configured,
    CreateService,
    EffectEnded,
    Event,
    NodeConnected,
    NodeListed,
    Started,
    SubmitJob,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.job import Executor, JobSpec
from tenure.model.node import NodeSpec, PowerSpec
from tenure.model.outcome import Done, Outcome
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.placement.policies import Policies
from tests.fleet import states

P = ParamSpec("P")
T = TypeVar("T")
SIZE = Resources(2000, 1024 * MIB)
SMALL = Resources(500, 64 * MIB)
IMAGE = "base:latest"


def node(name: str, generation: str = "young", *, driver: str = "none", **more: Any) -> NodeSpec:
    power = PowerSpec(driver, boot_us=5 * US)
    return NodeSpec(name, f"tcp://{name}", generation, capacity=SIZE, power=power, **more)


class Bench:
    """Feeds events a second apart unless told otherwise; keeps all effects.

    Services that name no kind of move are recreated, unless ``best_kind`` says otherwise. The
    planner answers at once while ``is_planning``.
    """

    is_planning = True
    #: A test that breaks a record on purpose says so; everywhere else none may be quarantined.
    is_broken = False
    #: A test that notes what policies and localizer are asked has others made.
    make_placer = Policies
    make_localizer = Tiers

    def __init__(
        self, *nodes: NodeSpec, params: Params | None = None, best_kind: str = "restart"
    ) -> None:
        self.params = dataclasses.replace(params or Params(min_on={}), best_kind=best_kind)
        self.state = self._fresh()
        self.now_us = 1000 * US
        self.effects: list[Effect] = []
        self.public: list[PublicEvent] = []
        self.records: dict[str, dict[str, Any]] = {}
        self._requests = 0
        self.say(Started(at_us=0))
        self.configure(*nodes)

    def _fresh(self) -> FleetState:
        self.placer, self.localizer = self.make_placer(), self.make_localizer()
        return FleetState(self.params, lambda: self.placer, fleet="bench", localizer=self.localizer)

    @property
    def tables(self) -> Any:
        return self.state.tables

    @property
    def meta(self) -> Meta:
        """What the core keeps of itself."""
        return self.state.meta

    # the machine under test

    def read(self, query: Callable[Concatenate[Any, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Return what a query of the machine under test tells."""
        return self.state.read(query, *args, **named)

    def act(self, step: Callable[Concatenate[Any, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Have the machine under test take a step by itself, as within an event."""
        return self.state.read(step, *args, **named)

    def state_of(self, kind: type[T]) -> T:
        """Return the state object of the machine under test, by its class."""
        return states.state_of(self.state, kind)

    def store(self, record: T) -> T:
        """Have a record be this one before the test begins; return what is stored."""
        return states.store(self.state, record)

    # what happens

    def say(self, event: Event, *, after_us: int = US) -> list[Effect]:
        """Have an event happen ``after_us`` from the last; return its effects."""
        self.now_us += after_us
        changed = {f: getattr(event, f) for f in _fields(event)} | {"at_us": self.now_us}
        found = self.state.handle(type(event)(**changed))
        if self.is_planning:
            for effect in found:  # which grows: an answer may bring the next question
                if isinstance(effect, PlanBatches):
                    found += self.planned(effect)
        self.effects += found
        changes = self.state.take_changes()
        self.public += changes.events
        assert self.is_broken or not self.state.quarantined
        for kind, rows in changes.records.items():
            table = self.records.setdefault(kind, {})
            for key, row in rows.items():
                if row is None:
                    table.pop(key, None)
                else:
                    table[key] = row
        return found

    def planned(self, effect: PlanBatches) -> list[Effect]:
        """Have the planner answer at once."""
        plan = answer(effect.question, Watch(lambda: 0.0, effect.limit_s))
        end = EffectEnded(at_us=self.now_us, effect=effect.id, outcome=Done(plan=plan))
        return self.state.handle(end)

    def restart(self, **clock: Any) -> list[Effect]:
        """Begin anew from what was committed; ``clock`` is what ``Started`` says of the clock."""
        self.state = self._fresh()
        self.state.load({kind: dict(rows) for kind, rows in self.records.items()})
        return self.say(Started(at_us=0, **clock))

    def configure(self, *nodes: NodeSpec) -> list[Effect]:
        return self.say(Configured(at_us=0, nodes=nodes))

    def connect(self, name: str) -> list[Effect]:
        """Have an engine answer and show that it is empty."""
        facts = EngineFacts(f"id-{name}", SIZE, images=(IMAGE,))
        found = self.say(NodeConnected(at_us=0, node=name, facts=facts))
        return found + self.listed(name)

    def connect_again(self, name: str) -> list[Effect]:
        """Have an engine answer that is known and not empty."""
        facts = EngineFacts(f"id-{name}", SIZE, images=(IMAGE,))
        return self.say(NodeConnected(at_us=0, node=name, facts=facts))

    def listed(
        self, name: str, *shown: ContainerFacts, asked_us: int | None = None
    ) -> list[Effect]:
        """Have a listing arrive that was asked for just now, or at ``asked_us``."""
        asked = self.now_us + US if asked_us is None else asked_us
        listing = NodeListed(
            at_us=0, node=name, started_us=asked, containers=shown, images=(IMAGE,)
        )
        return self.say(listing, after_us=2 * US)

    def end(self, effect: DurableEffect, outcome: Outcome | None = None) -> list[Effect]:
        """End an effect; by default it is done."""
        return self.say(EffectEnded(at_us=0, effect=effect.id, outcome=outcome or Done()))

    def submit(self, job: str, *, key: str = "", fingerprint: str = "", **spec: Any) -> Any:
        """Submit a job and return the value of the reply."""
        self._requests += 1
        words: dict[str, Any] = {
            "name": job,
            "app": "app",
            "image": IMAGE,
            "command": ("run",),
            "executors": 1,
            "request": SMALL,
            "estimate_local_us": 10 * US,
            "policy": "ff",
        }
        command = SubmitJob(
            at_us=0,
            request=f"r{self._requests}",
            idempotency_key=key,
            fingerprint=fingerprint,
            job=job,
            spec=JobSpec(**(words | spec)),
        )
        return self._reply(self.say(command))

    def create(self, name: str, *, options: Mapping[str, Any] | None = None, **body: Any) -> Any:
        """Create a service in the nursery and return the value of the reply."""
        self._requests += 1
        words: dict[str, Any] = {"app": name, "request_resources": SMALL} | dict(options or {})
        command = CreateService(
            at_us=0,
            request=f"r{self._requests}",
            container=f"{self._requests:064x}",
            name=name,
            body={"Image": IMAGE} | body,
            **words,
        )
        return self._reply(self.say(command))

    @staticmethod
    def _reply(effects: list[Effect]) -> Any:
        (reply,) = [effect for effect in effects if isinstance(effect, Reply)]
        return reply.value

    def crew(self, job: str = "j") -> list[Executor]:
        """Return a job's executors in the order of their index."""
        found = [one for one in self.tables.executors.values() if one.job == job]
        return sorted(found, key=lambda executor: executor.index)

    def open_moves(self) -> list[Migration]:
        """Return the migrations that are not over, in the order of their acceptance."""
        found = [move for move in self.tables.migrations.values() if not move.is_over]
        return sorted(found, key=lambda move: (move.created_us, move.id))

    def read_counts(self) -> dict[str, int]:
        """Return how many reads of each kind ``/metrics`` tells."""
        return {word: count for word, count in self.read(facts_of).reads.items() if count}

    def open(self, kind: str) -> Any:
        """Return the one open effect of a kind."""
        (effect,) = [e for e in self.tables.effects.values() if e.kind == kind]
        return effect

    def has_open(self, kind: str) -> bool:
        """Whether any effect of a kind is open."""
        return any(e.kind == kind for e in self.tables.effects.values())


def shown(effect: Any, engine_id: str, state: str = "created", **more: Any) -> ContainerFacts:
    """Return what an engine shows of the container that a create effect made."""
    labels = dict(effect.body["Labels"])
    return ContainerFacts(engine_id, effect.name, IMAGE, state, labels, **more)


def finished(work: Generator[None, None, T]) -> T:
    """Return what is worked out in steps."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


def _fields(event: Event) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(event))
