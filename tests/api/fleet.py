"""The real core with engines that do everything at once: what the API and CLI tests serve."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tenure.api.requests.backend import CycleState, Health, Steps
from tenure.api.server.problems import HttpProblem
from tenure.api.views.datasets import HoldingView, OrphanView, Shelved
from tenure.api.views.namespaces import NamespaceView
from tenure.api.views.nodes import TierView
from tenure.core.blocks import replicas
from tenure.core.capacity import ledger
from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.core.state.tables import PublicEvent, Tables
from tenure.daemon.answers import datasets, energy, readings, views
from tenure.daemon.answers.uploads import UploadParams, Uploads
from tenure.daemon.effects import inputs, outputs
from tenure.daemon.effects.cuts import Cuts
from tenure.daemon.effects.sources import Sources
from tenure.daemon.events.loop import LoopStats
from tenure.daemon.metrics import metrics
from tenure.harvest.admission import answer
from tenure.harvest.io.solve import watch_for
from tenure.locality.localizer import Tiers
from tenure.model.batch import Batch, Chunk, InputFile, Task
from tenure.model.container import Profile, Service
from tenure.model.dataset import Block, Dataset, DatasetFile, DatasetSpec, Location
from tenure.model.drain import DrainReport
from tenure.model.effects import (
    AskJournal,
    CheckBlocks,
    CollectOutput,
    CopyBlock,
    CreateContainer,
    DropBlocks,
    Effect,
    MeasureTiers,
    PlanBatches,
    ProbePower,
    Reply,
    RetireContainer,
    SendInput,
    SetRestartPolicy,
    StartContainer,
    StopContainer,
    SurveyTiers,
    SwitchPower,
)
from tenure.model.energy import EnergyReport, Metered, Use
from tenure.model.errors import NotFound, Problem
from tenure.model.events import (
    Command,
    Configured,
    ContainerSeen,
    EffectEnded,
    Event,
    GuardSeen,
    NodeConnected,
    NodeListed,
    Started,
    Tick,
)
from tenure.model.external import Look
from tenure.model.facts import LABEL_JOB, ContainerFacts, EngineFacts
from tenure.model.forecast import ForecastReport
from tenure.model.harvest import Guard
from tenure.model.job import Executor, JobSpec
from tenure.model.load import Loads
from tenure.model.node import AgentSpec, AgentTold, NodeSpec, Power, PowerSpec, Site
from tenure.model.outcome import Done
from tenure.model.plan import CycleSpec
from tenure.model.qos import QosParams
from tenure.model.quota import Quota
from tenure.model.resources import Resources
from tenure.model.roles import Owner
from tenure.model.tier import TierKind, TierSpec
from tenure.model.units import MIB, US, usd_to_nano
from tenure.placement.policies import Policies
from tenure.profiling.io.sqlite.embedded import EmbeddedStats
from tenure.profiling.io.uses import UseStore
from tenure.profiling.readings.sample import Measured

IMAGES = ("app:1", "web:1")
SIZE = Resources(cpu_m=4000, memory_bytes=8192 * MIB)
CLOUD_POWER = PowerSpec("command", ("on",), ("off",), idle_w=100, peak_w=200, off_w=5)
TIERS = (TierSpec("ssd", TierKind.SSD, "/mnt/ssd", 64 * MIB),)
NODES = tuple(
    NodeSpec(
        name=f"n{i}",
        url=f"tcp://10.0.0.{i}:2375",
        generation=generation,
        site=site,
        price_nano_per_h=price,
        capacity=SIZE if site is Site.CLOUD else None,  # nobody sees it before it is on
        power=power,
        agent=AgentSpec("unix:///run/agent.sock"),
        harvest=QosParams(),
        tiers=TIERS if site is Site.LOCAL else (),
    )
    for i, (generation, site, price, power) in enumerate(
        (
            ("nursery", Site.LOCAL, 10_000_000, PowerSpec(idle_w=100, peak_w=200)),
            ("young", Site.LOCAL, 20_000_000, PowerSpec(idle_w=50, peak_w=150)),
            ("young", Site.CLOUD, 90_000_000, CLOUD_POWER),
            ("tenured", Site.LOCAL, 20_000_000, PowerSpec()),
        ),
        start=1,
    )
)
CYCLES = (
    CycleSpec("promote", "nursery", "young", interval_us=300 * US),
    CycleSpec("settle", "young", "tenured", cron="*/10 * * * *"),
)


def _sum_of(effect: CopyBlock) -> str:
    """Return the SHA-256 of what is copied: a file here, or a copy that is right."""
    if effect.origin is None:
        return effect.sha256
    with Path(effect.origin.path).open("rb") as file:
        file.seek(effect.offset)
        return hashlib.sha256(file.read(effect.length)).hexdigest()


class CoreBackend:
    """Implements ``tenure.api.requests.backend.Backend`` over the real core.

    Engines are replaced by "everything succeeds at once"; jobs end with ``exit_code`` as soon as
    they run, or stay running while it is None. ``keep`` bounds the events kept.
    """

    def __init__(
        self,
        *,
        exit_code: int | None = None,
        keep: int = 100_000,
        quotas: dict[str, Quota] | None = None,
    ) -> None:
        self.exit_code = exit_code
        self.quotas = quotas or {}
        self.keep = keep
        self.params = Params()
        self.state = FleetState(self.params, Policies, localizer=Tiers())
        self.events: list[PublicEvent] = []
        self.logs: dict[str, bytes] = {}
        self.followed: list[bytes] = []
        self.lent: dict[str, dict[str, Any]] = {}
        self.agents: dict[str, AgentTold] = {}
        self.broken: Exception | None = None
        self.degraded: dict[str, str] = {}
        self.reasons: list[str] = []
        self.profiles: dict[str, Profile] = {}
        self.outputs = Path(tempfile.gettempdir()) / "tenure-tests-no-outputs"
        self.cuts: Cuts | None = None
        self.used: list[Use] = []
        self.metered: list[Metered] = []
        self.measured: list[Measured] = []
        self.loaded = Loads(30 * US)
        self.sources = Sources(())
        self.uploads_at = Path(tempfile.gettempdir()) / "tenure-tests-no-uploads"
        self._uploads = Uploads(UploadParams(self.uploads_at, capacity_bytes=0), self.now_us)
        self._bodies: dict[str, dict[str, Any]] = {}
        self.kept: dict[tuple[str, str], int] = {}
        self._news = asyncio.Event()
        self._clock = 0
        self._boot()

    def _boot(self) -> None:
        self.handle(Started(at_us=self.now_us()))
        self.handle(Configured(at_us=self.now_us(), nodes=NODES, cycles=CYCLES, quotas=self.quotas))
        for node in NODES:
            if node.power.driver == "none":
                self.connect(node.name)

    def connect(self, node: str) -> None:
        facts = EngineFacts(f"engine-{node}", SIZE, "1.41", IMAGES)
        self.handle(NodeConnected(at_us=self.now_us(), node=node, facts=facts))
        now = self.now_us()
        self.handle(NodeListed(at_us=now, node=node, started_us=now, containers=(), images=IMAGES))
        self.handle(GuardSeen(at_us=now, node=node, guard=Guard("act", "/tenure-harvest")))

    def handle(self, event: Event) -> Any:
        """Take in an event and all that follows from it; return the reply, if there is one."""
        pending, reply = [event], None
        while pending:
            effects = self.state.handle(pending.pop(0))
            for effect in effects:
                if isinstance(effect, Reply):
                    reply = effect.value
                else:
                    pending += self._carry_out(effect)
        changes = self.state.take_changes()
        self.events = [*self.events, *changes.events][-self.keep :]
        if changes.events:
            self._news.set()
            self._news = asyncio.Event()
        return reply

    def _carry_out(self, effect: Effect) -> list[Event]:
        ended = (
            StopContainer,
            RetireContainer,
            SetRestartPolicy,
            StartContainer,
        )
        if isinstance(effect, CreateContainer):
            engine_id = f"e{len(self._bodies):063d}"
            self._bodies[engine_id] = {"name": effect.name, **effect.body}
            return [self._end(effect.id, engine_id)]
        if isinstance(effect, ended):
            return [self._end(effect.id, ""), *self._seen(effect)]
        if isinstance(effect, SwitchPower | SendInput | CollectOutput | AskJournal):
            return [self._end(effect.id, "")]
        on_tiers = CopyBlock | DropBlocks | SurveyTiers | CheckBlocks | MeasureTiers
        if isinstance(effect, on_tiers | PlanBatches):
            is_plan = isinstance(effect, PlanBatches)
            outcome = self._planned(effect) if is_plan else self._shelve(effect)
            return [EffectEnded(at_us=self.now_us(), effect=effect.id, outcome=outcome)]
        if isinstance(effect, ProbePower):
            node = self.tables.nodes[effect.node]
            return [self._end(effect.id, "on" if node.power is Power.ON else "off")]
        return []

    def _shelve(self, effect: Any) -> Done:
        """Do with the tiers of a node what is asked for."""
        if isinstance(effect, CopyBlock):
            self.kept[effect.node, effect.name] = effect.length
            return Done(_sum_of(effect), moved_bytes=effect.length)
        if isinstance(effect, DropBlocks):
            for node, name in list(self.kept):
                if node == effect.node and any(name.startswith(gone) for gone in effect.names):
                    del self.kept[node, name]
        if isinstance(effect, SurveyTiers):
            here = [
                (f"ssd/{name}", size) for (n, name), size in self.kept.items() if n == effect.node
            ]
            return Done(counts=(("ssd/tenure-fleet/.tier", 0), *here))
        if isinstance(effect, CheckBlocks):
            return Done(counts=tuple((name, 1) for name, _ in effect.sums))
        if isinstance(effect, MeasureTiers):
            return Done(counts=tuple((tier.name, 400_000_000) for tier in effect.tiers))
        return Done()

    def _planned(self, effect: Any) -> Done:
        return Done(plan=answer(effect.question, watch_for(effect.limit_s)))

    def _end(self, effect: str, value: str) -> Event:
        return EffectEnded(at_us=self.now_us(), effect=effect, outcome=Done(value))

    def _seen(self, effect: Any) -> list[Event]:
        """What an inspection says after a start or stop."""
        engine_id = getattr(effect, "engine_id", "")
        body = self._bodies.get(engine_id)
        if body is None or isinstance(effect, SetRestartPolicy):
            return []
        is_job = LABEL_JOB in body["Labels"]
        is_over = isinstance(effect, StopContainer) or (is_job and self.exit_code is not None)
        now = self.now_us()
        facts = ContainerFacts(
            engine_id=engine_id,
            name=body["name"],
            image=body["Image"],
            state="exited" if is_over else "running",
            labels=dict(body["Labels"]),
            exit_code=(self.exit_code or 0) if is_over else None,
            started_us=now,
            finished_us=now if is_over else None,
        )
        return [ContainerSeen(at_us=now, node=effect.node, started_us=now, facts=facts)]

    # the protocol

    @property
    def tables(self) -> Tables:
        return self.state.tables

    def now_us(self) -> int:
        self._clock = max(self._clock + 1, time.time_ns() // 1000)
        return self._clock

    async def ask(self, command: Command) -> Any:
        if self.broken is not None:
            raise self.broken
        reply = self.handle(replace(command, at_us=self.now_us()))
        if isinstance(reply, Problem):
            raise HttpProblem(reply)
        assert reply is not None
        return reply

    def plan_job(self, spec: JobSpec, owner: Owner) -> Steps[dict[str, Any]]:
        return self.state.read(views.plan_job, "plan", spec, owner)

    async def offer(self, image: str) -> tuple[bool, bool, str]:
        if image in IMAGES:
            return True, False, ""
        return False, image.startswith("pullable"), "the registry does not know it"

    async def container_logs(
        self, ref: str, *, tail: int | None, follow: bool
    ) -> bytes | AsyncIterator[bytes]:
        if ref not in self.logs:
            raise NotFound(f"there is no log of {ref}", code="no_log")
        if follow:
            return self._follow(self.logs[ref])
        return self.logs[ref]

    async def _follow(self, text: bytes) -> AsyncIterator[bytes]:
        yield text
        for part in self.followed:
            await asyncio.sleep(0.05)
            yield part

    async def cut(
        self, path: str, size_bytes: int | None, lines: int | None
    ) -> tuple[InputFile, tuple[Chunk, ...]]:
        if self.cuts is None or self.cuts.folders != (self.outputs,):
            self.cuts = Cuts((self.outputs,))
        return await self.cuts.cut(path, size_bytes, lines)

    def explain_task(self, task: Task) -> dict[str, Any]:
        return self.state.read(readings.explain, task)

    def explain_executor(self, executor: Executor) -> dict[str, Any]:
        return self.state.read(readings.explain_executor, executor)

    async def batch_output(self, batch: Batch) -> tuple[int, AsyncIterator[bytes]]:
        files = outputs.files_of(self.outputs, batch)
        return sum(path.stat().st_size for path in files), outputs.read(files)

    async def dataset_files(self, path: str) -> tuple[str, tuple[DatasetFile, ...]]:
        return inputs.listing(path, (self.outputs,))

    async def cut_dataset(self, spec: DatasetSpec) -> DatasetSpec:
        return inputs.cut_dataset(spec, self.params.max_blocks)

    @property
    def uploads(self) -> Uploads:
        return self._uploads

    async def hdfs_files(self, uri: str) -> Look:
        return await self.sources.look(uri)

    def shelved(self, dataset: Dataset) -> Shelved:
        return self.state.read(datasets.shelved, dataset)

    def holdings(self, dataset: Dataset) -> Steps[tuple[list[HoldingView], int]]:
        return self.state.read(datasets.holdings, dataset)

    def block_count(self, dataset: Dataset) -> int:
        return self.state.read(replicas.count_of, dataset)

    def block(self, dataset: Dataset, number: int) -> Block | None:
        return self.state.read(replicas.block_of, dataset, number)

    def places(self, block: Block) -> Sequence[Location]:
        return self.state.read(replicas.offered, block)

    def tiers(self, node: str) -> list[TierView]:
        return self.state.read(datasets.tiers, node)

    def orphans(self) -> list[OrphanView]:
        return self.state.read(datasets.orphans)

    async def dataset_content(self, dataset: Dataset, file: int) -> AsyncGenerator[bytes, None]:
        path = Path(dataset.spec.root, dataset.spec.files[file].name)
        yield await asyncio.to_thread(path.read_bytes)

    def batch_waits(self, batch_id: str) -> Sequence[tuple[str, int, str]]:
        return self.state.read(views.batch_waits, batch_id)

    def explain(self, job_id: str) -> dict[str, Any]:
        return self.state.read(views.explain, Policies(), job_id)

    def drain(self, node: str, *, is_dry: bool = False) -> DrainReport | None:
        return self.state.read(views.drain, node, is_dry=is_dry)

    def harvest(self, node: str) -> Mapping[str, Any] | None:
        return self.lent.get(node)

    def agent(self, node: str) -> AgentTold | None:
        return self.agents.get(node)

    def lending(self, node: str) -> tuple[Mapping[str, int], str]:
        return self.state.read(views.lending_of, node)

    def aboard(self, node: str) -> tuple[Sequence[Executor], Sequence[Service]]:
        return self.state.read(views.aboard, node)

    def snapshot(self) -> Steps[Mapping[str, Any]]:
        return self.state.read(views.snapshot)

    def cost(self, since_us: int, until_us: int) -> Steps[dict[str, Any]]:
        return self.state.read(ledger.reporting, since_us, until_us)

    async def energy(self, since_us: int, until_us: int) -> EnergyReport:
        self.handle(Tick(at_us=self.now_us()))
        with tempfile.TemporaryDirectory(prefix="tn-") as folder:
            store = await UseStore.open(Path(folder) / "uses.db")
            try:
                await store.add(self.used, self.metered)
                window = (since_us, until_us)
                return await self.state.read(energy.report, store, window, usd_to_nano(0.3))
            finally:
                await store.close()

    def forecast(self, node: str, *, is_whole: bool = False) -> ForecastReport:
        return self.state.read(views.forecast, node, self.now_us() if is_whole else None)

    async def node_usage(self, node: str, since_us: int, until_us: int) -> Mapping[str, Any]:
        from tenure.daemon.answers.pasts import Pasts

        with tempfile.TemporaryDirectory(prefix="tn-") as folder:
            store = await EmbeddedStats.open(Path(folder) / "stats.db")
            try:
                await store.write(self.measured)
                await store.prune(self.now_us())
                return await self.state.read(Pasts, store).usage_of(node, (since_us, until_us))
            finally:
                await store.close()

    def loads(self) -> Loads:
        return self.loaded

    def usage(self) -> Mapping[str, Profile]:
        return self.profiles

    def namespaces(self) -> list[NamespaceView]:
        return self.state.read(views.namespaces, self._uploads.held())

    def cycles(self) -> Sequence[CycleState]:
        return [CycleState(spec, self.now_us() + 60 * US) for spec in CYCLES]

    @property
    def first_seq(self) -> int:
        return self.events[0].seq if self.events else self.last_seq + 1

    @property
    def last_seq(self) -> int:
        return self.state.meta.next_event - 1

    def shows(self, key: str) -> bool:
        return True

    def events_after(self, seq: int, limit: int, types: Collection[str]) -> list[PublicEvent]:
        found = [e for e in self.events if e.seq > seq and (not types or e.type in types)]
        return found[:limit]

    async def wait_event(self, seq: int, timeout_s: float) -> None:
        if self.last_seq > seq:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            pass

    def health(self) -> Health:
        return Health(is_ready=not self.reasons, reasons=self.reasons, degraded=self.degraded)

    def metrics(self) -> Steps[Callable[[], str]]:
        parts = metrics.Parts(True, 1, 0, 0, {}, store_failing=False)
        facts = yield from self.state.read(metrics.gather)
        return partial(metrics.text_of, facts, LoopStats(), parts)

    # for tests

    def switch_on(self, node: str) -> None:
        """Have a node that was told to boot answer."""
        assert self.tables.nodes[node].power is Power.BOOTING
        self.connect(node)

    def sizes(self) -> dict[str, int]:
        """Return how many records of each kind there are: nothing half created."""
        works = "batches tasks jobs executors services deployments"
        counted = f"{works} migrations runs effects answers".split()
        return {kind: len(getattr(self.tables, kind)) for kind in counted}

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """Return the submitted records as plain data."""
        return {
            "jobs": [asdict(job) for job in self.tables.jobs.values()],
            "batches": [asdict(batch) for batch in self.tables.batches.values()],
            "services": [asdict(service) for service in self.tables.services.values()],
        }
