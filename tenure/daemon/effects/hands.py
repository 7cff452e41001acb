"""The hands of the daemon: one engine, watcher and power driver for each node."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tenure.config.certificates import client_context
from tenure.core.attempts.tasks import stage_of
from tenure.core.capacity.room import is_busy
from tenure.core.state.context import Context
from tenure.cycles.io.tether import Tethered
from tenure.daemon.children.planner import Planner
from tenure.daemon.children.solver import Solver
from tenure.daemon.effects.agents import Agents
from tenure.daemon.effects.lending import Lending
from tenure.daemon.effects.sources import Sources
from tenure.daemon.ending import end
from tenure.daemon.events.loop import EventMaker
from tenure.engines.containers.logs import SaveLog
from tenure.engines.engine import Engine
from tenure.engines.http.access import Access
from tenure.engines.tiers.helper import Crew
from tenure.engines.watch import Watcher, WatchParams
from tenure.model.effects import (
    AskJournal,
    CarryImage,
    CollectOutput,
    CopyBlock,
    Decide,
    EngineEffect,
    LocateBlocks,
    PlanBatches,
    ProbePower,
    SendInput,
    SwitchPower,
    TierEffect,
    TransferState,
    Trigger,
)
from tenure.model.errors import EngineError
from tenure.model.events import ContainerSeen, Event, NodeListed, NodeLost
from tenure.model.external import HdfsSpec
from tenure.model.facts import (
    LABEL_CONTAINER,
    LABEL_EXECUTOR,
    LABEL_FLEET,
    LABEL_JOB,
    ContainerFacts,
)
from tenure.model.node import NodeSpec, Power
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.resources import Resources
from tenure.power.drivers import driver_for
from tenure.profiling.intake.intake import Target

log = logging.getLogger(__name__)

#: How long a registry's answer about an image is believed.
OFFER_S = 300.0
#: Registries are asked through at most this many engines, for at most this long.
OFFER_ENGINES = 2
MAX_OFFERS = 1000
OFFER_TIMEOUT_S = 5.0


@dataclass(slots=True)
class Limb:
    """What reaches one node."""

    spec: NodeSpec
    engine: Engine
    watcher: Watcher
    task: asyncio.Task[None]


@dataclass(frozen=True, slots=True)
class Ports:
    """What the hands are given: the inbox, the clock, where logs are kept, and cycle triggers.

    ``outputs`` is the folder of what tasks of batches put out, ``hdfs`` where data lies elsewhere.
    """

    put: Callable[[EventMaker], None]
    now_us: Callable[[], int]
    save_log: SaveLog
    trigger: Callable[[Trigger], None]
    relist_s: float = 15.0
    ssh_folder: Path | None = None
    sample_us: int = 30_000_000
    outputs: Path = Path("outputs")
    hdfs: tuple[HdfsSpec, ...] = ()


class Hands:
    """Reaches every node; knows what was last seen running there, for the sampler."""

    def __init__(self, ctx: Context, ports: Ports) -> None:
        self._ctx = ctx
        self._ports = ports
        self._limbs: dict[str, Limb] = {}
        self._helpers: set[str] = set()
        self._wanted: frozenset[str] = frozenset()
        self._closing: set[asyncio.Task[None]] = set()
        self._running: dict[str, dict[str, ContainerFacts]] = {}
        self._offers: dict[str, tuple[float, bool | None]] = {}
        self._asking: dict[str, asyncio.Task[bool | None]] = {}
        self.agents = Agents(ports.sample_us)
        self.lending = Lending(self.agents.client_of, self._published, ports.put)
        self._solver = Solver()
        self._planner = Planner()
        self.sources = Sources(ports.hdfs)

    # nodes

    def configure(self, specs: Sequence[NodeSpec]) -> None:
        """Have a limb for each node; one whose way changed or that is gone is let go.

        A node that is no longer named keeps its limb until nothing of ours is on it.
        """
        wanted = {spec.name: spec for spec in specs}
        self._wanted = frozenset(wanted)
        self.prune()
        for node in self._ctx.tables.nodes.values():
            if is_busy(self._ctx, node.name):
                wanted.setdefault(node.name, node.spec)  # after a restart it has no limb yet
        for name, limb in list(self._limbs.items()):
            spec = wanted.get(name)
            if spec is None:
                continue  # kept until nothing of ours is on it
            if _way(spec) != _way(limb.spec):
                self._drop(name)
            else:
                limb.spec = spec
        for name, spec in wanted.items():
            if name not in self._limbs:
                self._limbs[name] = self._grow(spec)
        self.agents.configure([limb.spec for limb in self._limbs.values()])
        self.lending.configure([limb.spec for limb in self._limbs.values()])

    def prune(self) -> None:
        """Let go of the nodes that are named no longer, once nothing of ours is on them.

        Those that the core has forgotten go as well: named again, they must be met anew.
        """
        for name in list(self._limbs):
            is_known = name in self._ctx.tables.nodes
            is_kept = name in self._wanted or is_busy(self._ctx, name)
            if not (is_known and is_kept):
                self._drop(name)

    def _grow(self, spec: NodeSpec) -> Limb:
        access, crew = self._access(spec), Crew(self._ctx.meta.fleet, self._helpers)
        engine = Engine(spec.url, self._ports.save_log, access=access, crew=crew)
        watcher = Watcher(
            spec.name,
            engine,
            emit=self._emit,
            now_us=self._ports.now_us,
            params=WatchParams(list_every_s=self._ports.relist_s),
        )
        node = self._ctx.tables.nodes.get(spec.name)
        watcher.set_expected(node is None or node.power is not Power.OFF)
        task = asyncio.create_task(watcher.run(), name=f"watch-{spec.name}")
        task.add_done_callback(_report_end)
        return Limb(spec, engine, watcher, task)

    def _access(self, spec: NodeSpec) -> Access:
        return Access(
            tls=spec.tls,
            make_context=client_context,
            ssh=spec.ssh,
            folder=self._ports.ssh_folder,
            spawn=_spawn,
        )

    def _drop(self, name: str) -> None:
        limb = self._limbs.pop(name)
        self._running.pop(name, None)
        closing = asyncio.create_task(_let_go(limb))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Let go of every node."""
        for task in list(self._asking.values()):
            task.cancel()
        await self._solver.close()
        await self._planner.close()
        await self.sources.close()
        await asyncio.gather(*(_let_go(limb) for limb in self._limbs.values()))
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.agents.close()

    def _published(self, node: str) -> int:
        mark = self._ctx.tables.harvests.get(node)
        return 0 if mark is None else mark.seq

    # facts on their way to the core

    async def _emit(self, make: Callable[[int], Event]) -> None:
        def remember(at_us: int) -> Event:
            event = make(at_us)
            self._remember(event)
            return event

        self._ports.put(remember)

    def _remember(self, event: Event) -> None:
        if isinstance(event, NodeListed):
            self._running[event.node] = {c.engine_id: c for c in event.containers if c.is_running}
        elif isinstance(event, ContainerSeen):
            here = self._running.setdefault(event.node, {})
            if event.facts.is_running:
                here[event.facts.engine_id] = event.facts
            else:
                here.pop(event.facts.engine_id, None)
        elif isinstance(event, NodeLost):
            self._running.pop(event.node, None)

    def targets(self) -> Iterator[tuple[str, Sequence[Target]]]:
        """Yield what the sampler should measure: every container seen running, node by node."""
        for node in list(self._running):
            if node in self._limbs and node in self._running:
                yield node, [target_of(self._ctx, one) for one in self._running[node].values()]

    async def stats(
        self, node: str, engine_ids: Sequence[str]
    ) -> Mapping[str, Mapping[str, object]]:
        """Return raw statistics by engine id; raises EngineError."""
        limb = self._limbs.get(node)
        return {} if limb is None else await limb.engine.stats_once(engine_ids)

    def reserve(self, node: str) -> Resources:
        """Return what is kept of a node: for the machine itself, and for its memory tiers."""
        limb = self._limbs.get(node)
        return Resources() if limb is None else limb.spec.kept

    # effects

    async def perform(self, effect: EngineEffect) -> Outcome:
        """Carry out an engine effect."""
        limb = self._limbs.get(effect.node)
        if limb is None:
            return Refused("unreachable", "the node is not configured any more")
        if isinstance(effect, CarryImage | TransferState):
            origin = self._limbs.get(effect.source)
            if origin is None:
                return Refused("unreachable", "the source is not configured any more")
            return await limb.engine.receive(origin.engine, effect)
        if isinstance(effect, TierEffect):
            source = effect.source if isinstance(effect, CopyBlock) else ""
            other = self._limbs.get(source)
            return await limb.engine.shelve(effect, None if other is None else other.engine)
        if isinstance(effect, SendInput | CollectOutput):
            return await limb.engine.carry(effect, self._ports.outputs)
        return await limb.engine.perform(effect)

    async def switch(self, effect: SwitchPower) -> Outcome:
        """Switch a node by its driver, and tell its watcher what to expect."""
        limb = self._limbs.get(effect.node)
        if limb is None:
            return Refused("power_failed", "the node is not configured any more")
        limb.watcher.set_expected(effect.to == "on")
        outcome = await driver_for(limb.spec.power).switch(limb.spec.power, effect.to)
        if effect.to == "off" and not isinstance(outcome, Done):
            limb.watcher.set_expected(True)
        return outcome

    async def probe(self, effect: ProbePower) -> Outcome:
        """Ask a node's driver."""
        limb = self._limbs.get(effect.node)
        if limb is None:
            return Refused("power_failed", "the node is not configured any more")
        outcome = await driver_for(limb.spec.power).probe(limb.spec.power)
        if isinstance(outcome, Done):
            limb.watcher.set_expected(outcome.value == "on")
        return outcome

    async def decide(self, effect: Decide) -> Outcome:
        """Have a slow policy choose a place."""
        return await self._solver.decide(effect)

    async def plan(self, effect: PlanBatches) -> Outcome:
        """Have the holistic planner plan batches."""
        return await self._planner.plan(effect)

    async def locate(self, effect: LocateBlocks) -> Outcome:
        """Look where blocks lie in HDFS."""
        return await self.sources.locate(effect)

    async def ask_journal(self, effect: AskJournal) -> Outcome:
        """Have the journal of a node's agent read up to now."""
        return await self.lending.cover(effect.node)

    def relist(self, node: str) -> None:
        """Have a node listed soon."""
        limb = self._limbs.get(node)
        if limb is not None:
            limb.watcher.relist()

    def trigger(self, effect: Trigger) -> None:
        """Have a worker run a cycle."""
        self._ports.trigger(effect)

    def engine(self, node: str) -> Engine | None:
        """Return a node's engine."""
        limb = self._limbs.get(node)
        return None if limb is None else limb.engine

    # images

    async def is_offered(self, image: str, *, is_urgent: bool) -> bool | None:
        """Return whether a registry offers an image; None if none of our engines can tell.

        Not urgent (a node holds it already): answer what is known now, and ask in the background.
        """
        known = self._offers.get(image)
        if known is not None and time.monotonic() - known[0] < OFFER_S:
            return known[1]
        asking = self._asking.get(image)
        if asking is None:
            asking = asyncio.create_task(self._ask_registries(image))
            self._asking[image] = asking
            asking.add_done_callback(lambda _: self._asking.pop(image, None))
        if is_urgent:
            return await asyncio.shield(asking)
        return known[1] if known is not None else None

    async def _ask_registries(self, image: str) -> bool | None:
        alive = [limb.engine for name, limb in self._limbs.items() if name in self._running]
        answers = await asyncio.gather(
            *(_ask_registry(engine, image) for engine in alive[:OFFER_ENGINES])
        )
        told = [answer for answer in answers if answer is not None]
        offer = any(told) if told else None
        if len(self._offers) >= MAX_OFFERS:
            self._offers.clear()
        self._offers[image] = (time.monotonic(), offer)
        return offer


async def _ask_registry(engine: Engine, image: str) -> bool | None:
    try:
        async with asyncio.timeout(OFFER_TIMEOUT_S):
            return await engine.has_registry_image(image)
    except (TimeoutError, EngineError):
        return None


def target_of(ctx: Context, facts: ContainerFacts) -> Target:
    """Return as what a container that runs is sampled."""
    labels, tables = facts.labels, ctx.tables
    if labels.get(LABEL_FLEET) != ctx.meta.fleet:
        return Target(facts.engine_id, "foreign")
    work = labels.get(LABEL_JOB, "")
    key = f"{work}/{labels.get(LABEL_EXECUTOR, '')}"
    job, batch = tables.jobs.get(work), tables.batches.get(work)
    if job is not None:
        reserved_m = job.spec.request.cpu_m
        return Target(facts.engine_id, "executor", key, job.spec.app, reserved_m=reserved_m)
    if batch is not None:  # ours, so that it does not count as used by others
        task = tables.tasks.get(key)
        reserved_m = 0 if task is None else stage_of(ctx, task).request.cpu_m
        return Target(facts.engine_id, "executor", key, batch.spec.name, reserved_m=reserved_m)
    service = tables.services.get(labels.get(LABEL_CONTAINER, ""))
    if service is None:
        return Target(facts.engine_id, "foreign")
    since_us, reserved_m = service.since_us, service.request.cpu_m
    return Target(facts.engine_id, "service", service.id, service.app, since_us, reserved_m)


def _way(spec: NodeSpec) -> tuple[object, ...]:
    """Return what a connection to the engine is made from."""
    return spec.url, spec.tls, spec.ssh


def _spawn(argv: Sequence[str], log_file: Path) -> Tethered:
    return Tethered(argv, log=log_file)


async def _let_go(limb: Limb) -> None:
    await end([limb.task])
    await limb.engine.close()


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("%s ended by a defect", task.get_name(), exc_info=task.exception())
