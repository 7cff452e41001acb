"""The API's backend over the core: commands through the inbox, reads from the records."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.api.requests.backend import CycleState, Health, Steps
from tenure.api.requests.fairness import charger
from tenure.api.server.problems import HttpProblem
from tenure.api.views.datasets import HoldingView, OrphanView, Shelved
from tenure.api.views.namespaces import NamespaceView
from tenure.api.views.nodes import TierView
from tenure.core.blocks import replicas
from tenure.core.capacity import ledger
from tenure.core.fleet import FleetState
from tenure.core.lifecycle import restore
from tenure.core.state.tables import PublicEvent, Tables
from tenure.cycles.schedule import next_due, timing_of
from tenure.daemon.answers import datasets, energy, readings, views
from tenure.daemon.answers.pasts import Pasts
from tenure.daemon.answers.uploads import Uploads
from tenure.daemon.effects import inputs, outputs
from tenure.daemon.effects.agents import Agents, AgentState
from tenure.daemon.effects.cuts import Cuts
from tenure.daemon.effects.hands import Hands
from tenure.daemon.effects.lending import Lent
from tenure.daemon.effects.reading_back import Reader
from tenure.daemon.effects.rhythm import Rhythm
from tenure.daemon.events.clock import Clock
from tenure.daemon.events.held import HeldTimes
from tenure.daemon.events.interpreter import Interpreter
from tenure.daemon.events.loop import CoreLoop
from tenure.daemon.stats import health_of
from tenure.model.batch import Batch, Chunk, InputFile, Task
from tenure.model.container import Profile, Service
from tenure.model.dataset import Block, Dataset, DatasetFile, DatasetSpec, Location
from tenure.model.drain import DrainReport
from tenure.model.energy import EnergyReport
from tenure.model.errors import NotFound, Problem, Unavailable
from tenure.model.events import ApplyDeployment, Command, CreateService, RequestRun, SubmitJob
from tenure.model.external import Look
from tenure.model.forecast import ForecastReport
from tenure.model.job import Executor, JobSpec
from tenure.model.load import Loads
from tenure.model.node import AgentTold, Reach
from tenure.model.resources import Resources
from tenure.model.roles import Owner
from tenure.profiling.io.sampler import Sampler
from tenure.profiling.io.store import StatsStore, StatsUnavailable
from tenure.profiling.io.uses import UseStore
from tenure.profiling.profiles.apps import app_of
from tenure.store.room import Room
from tenure.store.store import Store

if TYPE_CHECKING:
    from tenure.placement.policies import Policies


@dataclass(frozen=True, slots=True)
class BatchFolders:
    """Where inputs of batches may lie, and where what their tasks put out does."""

    input_dirs: tuple[Path, ...]
    outputs: Path


#: Quarantined records that ``/readyz`` names.
MAX_QUARANTINED = 10


@dataclass(frozen=True, slots=True)
class Body:
    """The parts of the running daemon that the API reaches."""

    loop: CoreLoop
    interpreter: Interpreter
    hands: Hands
    rhythm: Rhythm
    store: Store
    stats: StatsStore
    policies: Callable[[], Policies]
    clock: Clock
    warm: Callable[[], None]
    uses: UseStore
    price_nano_per_kwh: int | None
    batches: BatchFolders
    uploads: Uploads
    cuts: Cuts
    held: HeldTimes
    sampler: Sampler
    room: Room


class DaemonBackend:
    """Implements ``tenure.api.requests.backend.Backend``."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._reporting = asyncio.Lock()
        self._pasts = self._core.read(Pasts, body.stats)

    @property
    def _core(self) -> FleetState:
        return self._body.loop.state

    @property
    def tables(self) -> Tables:
        return self._core.tables

    def shows(self, key: str) -> bool:
        """Show all; ``api.access.reach`` narrows it."""
        return True

    def now_us(self) -> int:
        """Return the inbox's time."""
        return self._body.clock.now_us()

    async def ask(self, command: Command) -> object:
        """Hand a command to the core and return the record of its reply."""
        if self._body.loop.is_full:
            raise Unavailable("too many events are waiting; try again shortly", code="busy")
        self._body.loop.require_storing()
        if isinstance(command, RequestRun):
            await self._body.rhythm.require_worker()
        if isinstance(command, CreateService):
            command = await self._known(command)
        if isinstance(command, ApplyDeployment):
            known = await self._use_of(command.template.app)
            command = replace(command, template=replace(command.template, known=known))
        reply = self._body.interpreter.expect(command.request)
        try:
            with self._body.loop.metered(command.request, charger()):
                self._body.loop.put(lambda at_us: replace(command, at_us=at_us))
                value = await self._body.loop.answered(reply)
        finally:
            self._body.interpreter.forget(command.request)
        if isinstance(command, SubmitJob):
            self._body.warm()  # by now policies were asked, and know which kernels they want
        if isinstance(value, Problem):
            raise HttpProblem(value)
        return value

    async def _known(self, command: CreateService) -> CreateService:
        """Name the app, and say what it is known to use."""
        app = command.app or app_of(command.body)
        return replace(command, app=app, known=await self._use_of(app))

    async def _use_of(self, app: str) -> Resources | None:
        try:
            profile = await self._body.stats.app_profile(app)
        except StatsUnavailable:
            profile = None
        return None if profile is None else profile.p90

    def plan_job(self, spec: JobSpec, owner: Owner) -> Steps[dict[str, object]]:
        """Return what a submission would be answered now."""
        return self._core.read(views.plan_job, f"plan-{secrets.token_hex(4)}", spec, owner)

    async def offer(self, image: str) -> tuple[bool, bool, str]:
        """Return (some node holds the image, a registry offers it, why it cannot be pulled)."""
        from tenure.core.capacity.room import has_image

        nodes = list(self.tables.nodes.values())
        is_held = any(has_image(node, image) for node in nodes)
        offered = await self._body.hands.is_offered(image, is_urgent=not is_held)
        if is_held or offered:
            return is_held, bool(offered), ""
        if not any(node.reach is Reach.OK for node in nodes):
            return False, False, "no engine answers, so nobody can tell"
        why = "no registry offers it" if offered is False else "no registry could be asked"
        return False, False, why

    async def container_logs(
        self, ref: str, *, tail: int | None, follow: bool
    ) -> bytes | AsyncIterator[bytes]:
        """Return the log of a container or executor, from its engine or from what was kept."""
        node, engine_id, keys = self._whereabouts(ref)
        engine = self._body.hands.engine(node) if node else None
        is_alive = engine is not None and engine_id != ""
        if is_alive and engine is not None:
            if follow:
                return engine.follow_logs(engine_id, tail_lines=tail)
            facts = await engine.inspect(engine_id)
            if facts is not None:
                return _last_lines(await engine.logs(engine_id), tail)
        for key in keys:
            kept = await asyncio.to_thread(self._body.store.read_log, key)
            if kept is not None:
                return _last_lines(kept, tail)
        raise NotFound(f"there is no log of {ref} (yet, or any more)", code="no_log")

    def _whereabouts(self, ref: str) -> tuple[str, str, list[str]]:
        executor = self.tables.executors.get(ref)
        if executor is not None:
            turns = range(executor.attempt, 0, -1)
            keys = [f"{ref}/{turn}" for turn in turns]
            return executor.node, executor.engine_id, keys
        task = self.tables.tasks.get(ref)
        if task is not None:
            keys = [f"{ref}/{turn}" for turn in range(task.attempt, 0, -1)]
            return task.node, task.engine_id, keys
        service = self.tables.services.get(ref)
        if service is None:
            raise NotFound(f"no container {ref}")
        return service.node, service.engine_id, []

    async def cut(
        self, path: str, size_bytes: int | None, lines: int | None
    ) -> tuple[InputFile, tuple[Chunk, ...]]:
        """Return an input of batches and its chunks; Unavailable while it is being read."""
        return await self._body.cuts.cut(path, size_bytes, lines)

    async def batch_output(self, batch: Batch) -> tuple[int, AsyncIterator[bytes]]:
        """Return size and bytes of a batch's output."""
        files = await asyncio.to_thread(outputs.files_of, self._body.batches.outputs, batch)
        sizes = await asyncio.to_thread(lambda: [path.stat().st_size for path in files])
        return sum(sizes), outputs.read(files)

    async def dataset_files(self, path: str) -> tuple[str, tuple[DatasetFile, ...]]:
        """Return the root of a file or folder and its files as they are now."""
        return await asyncio.to_thread(inputs.listing, path, self._body.batches.input_dirs)

    async def cut_dataset(self, spec: DatasetSpec) -> DatasetSpec:
        """Return what is put with the ends of blocks that end with lines."""
        return await asyncio.to_thread(inputs.cut_dataset, spec, self._core.ctx.params.max_blocks)

    @property
    def uploads(self) -> Uploads:
        """Return what keeps uploads."""
        return self._body.uploads

    async def hdfs_files(self, uri: str) -> Look:
        """Return what lies at a path of an HDFS."""
        return await self._body.hands.sources.look(uri)

    def shelved(self, dataset: Dataset) -> Shelved:
        """Return how far the copies of a dataset are."""
        return self._core.read(datasets.shelved, dataset)

    def holdings(self, dataset: Dataset) -> Steps[tuple[list[HoldingView], int]]:
        """Return what tiers hold of a dataset, and how many blocks cannot be read now."""
        return self._core.read(datasets.holdings, dataset)

    def block_count(self, dataset: Dataset) -> int:
        """Return how many blocks of a dataset are known: made, or seen in HDFS."""
        return self._core.read(replicas.count_of, dataset)

    def block(self, dataset: Dataset, number: int) -> Block | None:
        """Return a block of a dataset, None if it is gone."""
        return self._core.read(replicas.block_of, dataset, number)

    def places(self, block: Block) -> Sequence[Location]:
        """Return the copies of a block that can be read now."""
        return self._core.read(replicas.offered, block)

    def tiers(self, node: str) -> list[TierView]:
        """Return the tiers of a node, and what is in them."""
        return self._core.read(datasets.tiers, node)

    def orphans(self) -> list[OrphanView]:
        """Return the blocks in tiers that no record knows, by dataset, node and tier."""
        return self._core.read(datasets.orphans)

    def dataset_content(self, dataset: Dataset, file: int) -> AsyncGenerator[bytes, None]:
        """Yield a file of a dataset."""
        body = self._body
        reader = self._core.read(Reader, body.hands, body.loop.put, body.batches.outputs.parent)
        return reader.read(dataset, file)

    def batch_waits(self, batch_id: str) -> Sequence[tuple[str, int, str]]:
        """Return what the tasks of a batch wait for."""
        return self._core.read(views.batch_waits, batch_id)

    def explain(self, job_id: str) -> dict[str, object]:
        """Return why a job is where it is."""
        return self._core.read(views.explain, self._body.policies(), job_id)

    def explain_task(self, task: Task) -> dict[str, object]:
        """Return what a task reads where, at which cost, and the alternatives."""
        return self._core.read(readings.explain, task)

    def explain_executor(self, executor: Executor) -> dict[str, object]:
        """Return which blocks an executor reads where, at which cost, and the alternatives."""
        return self._core.read(readings.explain_executor, executor)

    def drain(self, node: str, *, is_dry: bool = False) -> DrainReport | None:
        """Return the latest drain of a node, or what one would do now."""
        return self._core.read(views.drain, node, is_dry=is_dry)

    def harvest(self, node: str) -> Mapping[str, object] | None:
        """Return how a node's harvest controller is, as its agent told last."""
        lent = self._body.hands.lending.lent.get(node)
        return None if lent is None else {**lent.status, "fault": lent.fault}

    def forecast(self, node: str, *, is_whole: bool = False) -> ForecastReport:
        """Return what is forecast of a node; ``is_whole``: with what it lends by that."""
        return self._core.read(views.forecast, node, self.now_us() if is_whole else None)

    async def node_usage(self, node: str, since_us: int, until_us: int) -> Mapping[str, object]:
        """Return what owners of a node used."""
        return await self._pasts.usage_of(node, (since_us, until_us))

    def agent(self, node: str) -> AgentTold | None:
        """Return how a node's agent answers."""
        return self._body.hands.agents.told_of(node)

    def lending(self, node: str) -> tuple[Mapping[str, int], str]:
        """Return tasks of batches on a node by state, and why no more may begin there."""
        return self._core.read(views.lending_of, node)

    def aboard(self, node: str) -> tuple[Sequence[Executor], Sequence[Service]]:
        """Return the executors and containers that are on a node."""
        return self._core.read(views.aboard, node)

    def snapshot(self) -> Steps[Mapping[str, object]]:
        """Return what a worker plans from, in steps."""
        return self._core.read(views.snapshot)

    def cost(self, since_us: int, until_us: int) -> Steps[dict[str, object]]:
        """Return the ledger's report, in steps."""
        return self._core.read(ledger.reporting, since_us, until_us)

    async def energy(self, since_us: int, until_us: int) -> EnergyReport:
        """Return the energy of a window."""
        body = self._body
        async with self._reporting:  # a large fleet's takes seconds of a thread
            return await self._core.read(
                energy.report, body.uses, (since_us, until_us), body.price_nano_per_kwh
            )

    def loads(self) -> Loads:
        """Return what nodes and containers use now."""
        return self._body.sampler.loads()

    def usage(self) -> Mapping[str, Profile]:
        """Return the profile of each container that has one."""
        return self._core.ctx.learned.profiles

    def namespaces(self) -> list[NamespaceView]:
        """Return the namespaces of which something is, or that have a quota."""
        return self._core.read(views.namespaces, self._body.uploads.held())

    def cycles(self) -> Sequence[CycleState]:
        """Return the configured cycles with their next due time."""
        now, cycles = self.now_us(), self._core.ctx.learned.cycles
        return [CycleState(c, next_due(timing_of(c), now)) for c in cycles.values()]

    @property
    def first_seq(self) -> int:
        return self._body.store.first_seq() or self.last_seq + 1

    @property
    def last_seq(self) -> int:
        return self._body.store.last_seq()

    def events_after(self, seq: int, limit: int, types: Collection[str]) -> list[PublicEvent]:
        """Return kept events after ``seq``."""
        found = self._body.store.events_after(seq, limit, sorted(types) or None)
        return [PublicEvent(e.seq, e.at_us, e.type, e.subject, e.data) for e in found]

    async def wait_event(self, seq: int, timeout_s: float) -> None:
        """Return once an event after ``seq`` may exist or the time is over."""
        if self.last_seq <= seq:
            await self._body.loop.wait_commit(timeout_s)

    def health(self) -> Health:
        """Return whether the daemon serves, and what of it is degraded."""
        reasons, degraded = [], self._body.rhythm.degraded()
        error = self._body.loop.stats.commit_error
        if error:
            reasons.append(f"the state cannot be stored: {error}")
        lost = [
            node.name
            for node in self.tables.nodes.values()
            if node.power == "on" and node.reach is not Reach.OK and not node.is_removed
        ]
        if lost:
            degraded["nodes"] = "unreachable: " + ", ".join(sorted(lost))
        if self._body.room.alarm:
            degraded["disk"] = self._body.room.alarm
        if self._core.meta.is_restoring:
            degraded["restore"] = self._core.read(restore.explain)
        if self._core.quarantined:
            told = [f"{kind} {key}: {why}" for (kind, key), why in self._core.quarantined.items()]
            degraded["records"] = "left as they are: " + "; ".join(told[:MAX_QUARANTINED])
        influx = health_of(self._body.stats)
        if influx is not None and influx.error:
            degraded["stats"] = influx.error
        # of a node that is off or unreachable nobody asks the agent
        away = [name for name in sorted(self._body.hands.agents.away) if self._answers(name)]
        if away:
            degraded["agents"] = "away: " + ", ".join(away)
        ailing = [f"{name}: {one.fault}" for name, one in self._lent() if one.fault]
        if ailing:
            degraded["harvest"] = "; ".join(ailing)
        parts = {"children": self._body.rhythm.children()}
        return Health(is_ready=not reasons, reasons=reasons, degraded=degraded, parts=parts)

    def _lent(self) -> list[tuple[str, Lent]]:
        lent = sorted(self._body.hands.lending.lent.items())
        return [(name, one) for name, one in lent if self._answers(name)]

    def _answers(self, name: str) -> bool:
        node = self.tables.nodes.get(name)
        return node is not None and node.power == "on" and node.reach is Reach.OK

    def metrics(self) -> Steps[Callable[[], str]]:
        """Gather the metrics, in steps."""
        from tenure.daemon.metrics import metrics  # with its library, for those who ask

        body = self._body
        parts = metrics.Parts(
            redis_up=body.rhythm.is_redis_up,
            workers=body.rhythm.workers,
            inbox=body.loop.backlog,
            open_effects=body.interpreter.open,
            effect_counts=dict(body.interpreter.counts),
            store_failing=bool(body.loop.stats.commit_error),
            free_bytes=body.room.free_bytes,
            influx=health_of(body.stats),
            agents=_agents(body.hands.agents),
            lent=dict(body.hands.lending.lent),
            held=body.held.copy(),
        )
        stats = replace(body.loop.stats)
        facts = yield from self._core.read(metrics.gather)
        return partial(metrics.text_of, facts, stats, parts)


def _agents(agents: Agents) -> dict[str, AgentState]:
    return {name: agents.state_of(name) for name in agents.names}


def _last_lines(text: bytes, tail: int | None) -> bytes:
    if tail is None:
        return text
    lines = text.splitlines(keepends=True)
    return b"".join(lines[-tail:]) if tail > 0 else b""
