"""The sampler: one sweep over every running container at an interval (GENPACK section 5.1).

A sweep asks all nodes, a few begun at a time; one that fails or is slow costs its own samples,
nobody else's.
Rates need two readings, so a container has its first sample in the second sweep that sees it. An
engine answers one-shot statistics in about a second however many containers are asked for at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tenure.model.container import Profile
from tenure.model.document import Document
from tenure.model.energy import Metered, Use
from tenure.model.errors import TenureError
from tenure.model.events import UsageObserved
from tenure.model.load import Loads
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, US
from tenure.profiling.intake.intake import Intake, Target, regular_use
from tenure.profiling.intake.latest import Latest
from tenure.profiling.intake.telling import observations
from tenure.profiling.io.gate import Gate
from tenure.profiling.io.store import StatsStore, StatsUnavailable
from tenure.profiling.readings.decode import decode_stats
from tenure.profiling.readings.sample import Measured, NodeReading

log = logging.getLogger(__name__)

#: So many nodes are begun to be asked at once, and the next ones after so long.
AT_ONCE, PAUSE_S = 8, 0.01
#: Nodes of which it is kept up to where their agents were heard: more than a fleet has.
MOST_HEARD = 10_000
#: Between two events of a sweep: time in which the core takes in the first, and what else waits.
APART_S = 0.05


@dataclass(frozen=True, slots=True)
class Told:
    """What a node's agent answered: its readings, oldest first, and the containers it sees."""

    readings: tuple[NodeReading, ...]
    present: frozenset[str]


@dataclass(frozen=True, slots=True)
class SamplerParams:
    """``interval_us`` between sweeps; ``window_us`` the longest profile; fewer than
    ``min_samples`` give no profile. ``timeout_us`` bounds one node's answer. At most
    ``profiles_per_sweep`` profiles are made per sweep, the stalest first, so that a large fleet
    costs a bounded time; ``apps_us`` is the time between two profiles of one app. At most
    ``asked_at_once`` containers are asked for at a time, each over a connection of its own: an
    engine takes a second for its answer, and 20,000 connections at once are more than a process
    may have. One node's containers are always asked together. Of what agents kept while the daemon
    was away, the first sweep takes some ``backlog_rows`` containers' readings, thinned evenly, and
    asks ``backlog_nodes`` agents at a time.
    """

    interval_us: int = 30 * US
    window_us: int = 6 * HOUR_US
    min_samples: int = 3
    timeout_us: int = 20 * US
    profiles_per_sweep: int = 1_000
    apps_us: int = 60 * US
    prune_us: int = 60 * US
    asked_at_once: int = 1_000
    backlog_rows: int = 100_000
    backlog_nodes: int = 32

    def __post_init__(self) -> None:
        if min(self.interval_us, self.window_us, self.timeout_us) <= 0:
            raise ValueError("interval, window and time-out must be positive")
        if min(self.min_samples, self.profiles_per_sweep, self.asked_at_once) < 1:
            raise ValueError("min_samples, profiles_per_sweep, asked_at_once must be at least 1")


@dataclass(frozen=True, slots=True)
class SamplerPorts:
    """What the daemon gives: ``stats(node, engine_ids)`` returns raw answers by engine id (those
    that answered; raises a TenureError where the engine does not); ``targets()`` yields the
    running containers node by node, with pauses in which these may change; ``emit`` takes the
    observation; ``now_us`` the time. ``agent(node, after)``
    returns what the node's agent read after its reading number ``after`` (0: its latest), None
    where it has none or that does not answer: then the engine is asked. ``reserve(node)`` is what
    the node's capacity was lessened by. ``account`` keeps who used how much CPU and what nodes
    drew, for energy (None: nobody asks); raises StatsUnavailable.
    """

    stats: Callable[[str, Sequence[str]], Awaitable[Mapping[str, Document]]]
    targets: Callable[[], Iterable[tuple[str, Sequence[Target]]]]
    emit: Callable[[UsageObserved], None]
    now_us: Callable[[], int]
    agent: Callable[[str, int], Awaitable[Told | None]] | None = None
    reserve: Callable[[str], Resources] = lambda _: Resources()
    account: Callable[[Sequence[Use], Sequence[Metered]], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one sweep did; ``failed`` maps nodes that gave nothing to the reason."""

    containers: int = 0
    samples: int = 0
    profiles: int = 0
    took_us: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    store_error: str = ""


@dataclass(frozen=True, slots=True)
class _Visit:
    """One node's part of a sweep; ``why`` is empty where it answered."""

    node: str
    measured: list[Measured]
    why: str = ""


class Sampler:
    """Sample, keep, profile, tell. ``last`` is the latest finished sweep (None before it)."""

    def __init__(self, store: StatsStore, ports: SamplerPorts, params: SamplerParams) -> None:
        self._store = store
        self._ports = ports
        self._params = params
        self._intake = Intake()
        # kept while a node is lost too: its agent goes on, and is asked for what was missed
        self._agent_seqs: dict[str, int] = {}
        #: Of a life before; those that have not been asked since.
        self._behind: dict[str, int] | None = None
        self._heard: dict[str, int] = {}
        self._backlog = asyncio.Semaphore(params.backlog_nodes)
        self._most_readings = 2
        self._gate = Gate(params.asked_at_once)
        self._profiled_us: dict[str, int] = {}
        self._learned_us: dict[str, int] = {}
        self._pruned_us = 0
        self._latest = Latest()
        self.last: Sweep | None = None

    def loads(self) -> Loads:
        """Return what is used now, as the last samples say."""
        return Loads(self._params.interval_us, self._latest.nodes)

    async def run(self) -> None:
        """Sweep at the interval until cancelled; a sweep that takes longer delays the next."""
        interval_s = self._params.interval_us / US
        due_s = time.monotonic()
        while True:
            await self.sweep()
            due_s = max(due_s + interval_s, time.monotonic())
            await asyncio.sleep(due_s - time.monotonic())

    async def sweep(self) -> Sweep:
        """Sample every running container once. Failures are told in the answer, not raised."""
        begin_s = time.monotonic()
        targets = await self._targets()
        await self._recall(targets)
        visits = await self._visits(targets)
        self._latest.keep(targets)
        failed = {visit.node: visit.why for visit in visits if visit.why}
        measured = [row for visit in visits for row in visit.measured]
        foreign = {
            v.node: self._intake.foreign_use(v.node, self._ports.reserve(v.node))
            for v in visits
            if not v.why
        }
        rests = self._intake.rests(self._ports.reserve)
        self._forget(targets)
        profiles, error = await self._keep(targets, measured, rests)
        unaccounted = await self._account()  # whatever the store does: else they pile up
        error = error or unaccounted
        await self._tell(targets, profiles, foreign, regular_use(targets, measured, rests))
        self._log_failures(failed, error)
        self.last = Sweep(
            containers=sum(len(rows) for rows in targets.values()),
            samples=len(measured),
            profiles=len(profiles),
            took_us=round((time.monotonic() - begin_s) * US),
            failed=failed,
            store_error=error,
        )
        return self.last

    async def _tell(
        self,
        targets: Mapping[str, Sequence[Target]],
        profiles: Sequence[Profile],
        foreign: Mapping[str, Resources],
        regular: Mapping[str, Resources],
    ) -> None:
        """Tell the core some nodes at a time; others have their turn in between."""
        for number, event in enumerate(observations(targets, profiles, foreign, regular)):
            if number:
                await asyncio.sleep(APART_S)
            self._ports.emit(replace(event, at_us=self._ports.now_us()))

    async def _targets(self) -> dict[str, Sequence[Target]]:
        """Return what runs where now, gathered some nodes at a time."""
        found: dict[str, Sequence[Target]] = {}
        for node, rows in self._ports.targets():
            found[node] = tuple(rows)
            if len(found) % AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def _visits(self, targets: Mapping[str, Sequence[Target]]) -> list[_Visit]:
        """Visit all nodes; some begin at a time, lest all that is asked holds the loop at once."""
        visits: list[asyncio.Task[_Visit]] = []
        async with asyncio.TaskGroup() as visiting:
            for node, rows in targets.items():
                visits.append(visiting.create_task(self._visit(node, rows)))
                if len(visits) % AT_ONCE == 0:
                    await asyncio.sleep(PAUSE_S)
        return [visit.result() for visit in visits]

    async def _visit(self, node: str, rows: Sequence[Target]) -> _Visit:
        """Sample one node; what came is taken at once, so that no step holds the loop long."""
        self._intake.keep(node, rows)
        told = await self._ask_agent(node)
        measured = []
        for reading in told.readings:
            measured += self._intake.take_whole(node, rows, reading)
            await asyncio.sleep(0)  # there are many after a while apart
        ids = [row.engine_id for row in rows if row.engine_id not in told.present]
        try:
            async with self._gate.hold(len(ids)), asyncio.timeout(self._params.timeout_us / US):
                raw = await self._ports.stats(node, ids) if ids else {}
        except TimeoutError:
            return _Visit(node, measured, "no answer in time")
        except TenureError as error:
            return _Visit(node, measured, error.detail)
        decoded = {key: found for key, row in raw.items() if (found := decode_stats(row))}
        if decoded and not told.present:
            # the engine told of this time: what the agent says of it later would count twice
            self._agent_seqs.pop(node, None)
            (self._behind or {}).pop(node, None)
        measured += self._intake.take(node, rows, decoded)
        now_us = self._ports.now_us()
        if not told.readings:
            self._intake.note_foreign(node, now_us)
        if told.readings or not told.present:
            beside = self._intake.beside(node, self._ports.reserve(node))
            self._latest.note(node, rows, measured, beside=beside, taken_us=now_us)
        return _Visit(node, measured)

    async def _ask_agent(self, node: str) -> Told:
        """Return what the node's agent tells; nothing where it has none, or that is away."""
        ask = self._ports.agent
        if ask is None:
            told = None
        elif self._behind and node in self._behind:
            told = await self._caught_up(ask, node, self._behind[node])
        else:
            told = await ask(node, self._agent_seqs.get(node, 0))
        if told is None:
            self._intake.forget_whole(node)
            return Told((), frozenset())
        if told.readings:
            self._agent_seqs[node] = told.readings[-1].seq
        return told

    async def _recall(self, targets: Mapping[str, Sequence[Target]]) -> None:
        """Learn, once, up to where agents were heard in the life before."""
        rows = sum(map(len, targets.values()))
        self._most_readings = max(2, self._params.backlog_rows // max(1, rows))
        if self._behind is not None:
            return
        try:
            self._heard = await self._store.heard()
        except StatsUnavailable:
            self._heard = {}  # the agents' newest readings have to do
        self._behind = dict(self._heard)

    async def _caught_up(
        self, ask: Callable[[str, int], Awaitable[Told | None]], node: str, seq: int
    ) -> Told | None:
        """Return what an agent kept since its reading ``seq``, that one included if it is there.

        It was taken, and is what the next one is compared with.
        """
        async with self._backlog:
            told = await ask(node, max(1, seq - 1))
        assert self._behind is not None
        if told is None:
            return None
        del self._behind[node]
        return Told(_thinned(told.readings, self._most_readings), told.present)

    def _forget(self, targets: Mapping[str, Sequence[Target]]) -> None:
        """Drop what is remembered of containers and nodes that are no longer there."""
        self._intake.forget(targets)
        known = {row.container for rows in targets.values() for row in rows}
        self._profiled_us = {key: at for key, at in self._profiled_us.items() if key in known}
        apps = {row.app for rows in targets.values() for row in rows}
        self._learned_us = {app: at for app, at in self._learned_us.items() if app in apps}

    async def _keep(
        self,
        targets: Mapping[str, Sequence[Target]],
        measured: Sequence[Measured],
        rests: Sequence[Measured],
    ) -> tuple[list[Profile], str]:
        """Write the samples and return the profiles that are due, and what failed."""
        now_us = self._ports.now_us()
        try:
            heard = _newest({**(self._behind or {}), **self._agent_seqs})
            news = None if heard == self._heard else heard
            await self._store.write([*measured, *rests], news)
            self._heard = heard
            profiles = await self._profiles(targets, now_us)
            await self._learn(targets, {row.app for row in measured}, now_us)
            if now_us - self._pruned_us >= self._params.prune_us:
                self._pruned_us = now_us
                await self._store.prune(now_us)
        except StatsUnavailable as error:
            return [], error.detail
        return profiles, ""

    async def _account(self) -> str:
        """Hand on what energy is worked out from; return what failed."""
        uses, metered = self._intake.spent()
        self._latest.meter(metered)
        try:
            if self._ports.account is not None:
                await self._ports.account(uses, metered)
        except StatsUnavailable as error:
            return error.detail
        return ""

    async def _profiles(
        self, targets: Mapping[str, Sequence[Target]], now_us: int
    ) -> list[Profile]:
        services = [row for rows in targets.values() for row in rows if row.kind == "service"]
        services.sort(key=lambda row: (self._profiled_us.get(row.container, 0), row.container))
        begin_us = now_us - self._params.window_us
        since_us = {
            row.container: max(row.since_us, begin_us)
            for row in services[: self._params.profiles_per_sweep]
        }
        # An engine's clock may be ahead of ours; its newest sample still counts.
        made = await self._store.profiles(
            since_us, now_us + HOUR_US, min_samples=self._params.min_samples
        )
        self._profiled_us.update(dict.fromkeys(since_us, now_us))
        return [made[key] for key in sorted(made)]

    async def _learn(
        self, targets: Mapping[str, Sequence[Target]], seen: set[str], now_us: int
    ) -> None:
        """Refresh the profiles of the apps of services that were sampled, each at its interval."""
        apps = {row.app for rows in targets.values() for row in rows if row.kind == "service"}
        due = [
            app
            for app in sorted(apps & seen)
            if app and now_us - self._learned_us.get(app, 0) >= self._params.apps_us
        ]
        due.sort(key=lambda app: (self._learned_us.get(app, 0), app))
        due = due[: self._params.profiles_per_sweep]
        await self._store.learn_apps(due, now_us, min_samples=self._params.min_samples)
        self._learned_us.update(dict.fromkeys(due, now_us))

    def _log_failures(self, failed: Mapping[str, str], error: str) -> None:
        """Log a failure once, when it is new, not at every sweep."""
        before = self.last.failed if self.last else {}
        for node in sorted(failed.keys() - before.keys()):
            log.warning("no statistics from node %s: %s", node, failed[node])
        if error and not (self.last and self.last.store_error):
            log.error("statistics are not kept: %s", error)


def _newest(heard: dict[str, int]) -> dict[str, int]:
    """Return what was heard last of at most MOST_HEARD nodes: names come and never come back."""
    if len(heard) <= MOST_HEARD:
        return heard
    return {node: heard[node] for node in sorted(heard, key=heard.__getitem__)[-MOST_HEARD:]}


def _thinned(readings: tuple[NodeReading, ...], most: int) -> tuple[NodeReading, ...]:
    """Return at most ``most`` readings (2 or more), the first and last among them, as even apart as
    they come.
    """
    if len(readings) <= most:
        return readings
    step = (len(readings) - 1) / (most - 1)
    return tuple(readings[round(number * step)] for number in range(most))
