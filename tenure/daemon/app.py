"""tenured: everything wired together, started in order and stopped in reverse.

Start: store and clock, core with its outbox resolved as unknown, engines, sampler, the API, and
last Redis and cycles. Stop: the API first, moves in flight get up to 30 s, then everything else; no
container is stopped.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

from tenure.api.requests.options import Options
from tenure.api.server.acceptor import Terms
from tenure.api.server.listeners import Listeners, serve
from tenure.config.certificates import server_context
from tenure.config.reach import SSH_FOLDER
from tenure.config.settings import Settings
from tenure.core.fleet import FleetState
from tenure.core.state.quotas import upload_objection
from tenure.core.state.set_aside import spread
from tenure.core.state.tables import KINDS
from tenure.daemon.access.access import Access
from tenure.daemon.answers import uploads
from tenure.daemon.answers.backend import BatchFolders, Body, DaemonBackend
from tenure.daemon.children import kernels
from tenure.daemon.effects.cuts import Cuts
from tenure.daemon.effects.hands import Hands, Ports
from tenure.daemon.effects.keptlogs import KeptLogs
from tenure.daemon.effects.rhythm import Rhythm, RhythmPorts, python_argv
from tenure.daemon.ending import end
from tenure.daemon.events.clock import Clock
from tenure.daemon.events.garbage import spare_records, undisturbed
from tenure.daemon.events.held import HeldTimes
from tenure.daemon.events.interpreter import Interpreter
from tenure.daemon.events.loop import CoreLoop, EventMaker
from tenure.daemon.firststart import STATE, open_tokens, require_root, require_usable
from tenure.daemon.notify import Notifier
from tenure.daemon.openfiles import affordable
from tenure.daemon.reloading import Reload, loaded
from tenure.daemon.settings import params_of
from tenure.daemon.stats import open_stats
from tenure.daemon.upkeep import Upkeep, acts_of, follow
from tenure.engines.http.access import prepare_folder
from tenure.locality.localizer import Tiers
from tenure.model.audit import act_row
from tenure.model.effects import Effect, Trigger
from tenure.model.errors import TenureError
from tenure.model.events import Closing, Configured
from tenure.model.node import Power, Reach
from tenure.placement.constraints import parse as parse_constraint
from tenure.placement.late import LatePolicies
from tenure.placement.late import load as load_policies
from tenure.placement.names import EVERY, TENURE
from tenure.profiling.io.sampler import Sampler, SamplerParams, SamplerPorts
from tenure.profiling.io.uses import UseStore
from tenure.store.audit import FILE as AUDIT
from tenure.store.audit import Audit
from tenure.store.pruning import Bounds
from tenure.store.room import Room
from tenure.store.store import Store

log = logging.getLogger(__name__)

#: Moves in flight get this long to end when the daemon is asked to stop (docs/operations.md).
MOVES_S = 30.0
EFFECTS_S = 5.0
UPKEEP_S = 60.0
#: Between two looks for uploads that were put, or have rested too long.
SWEEP_S = 5.0
CONTACT_S = 0.7
WARM_NODES = 20
#: The routes with their schemas: a twentieth of a second to import.
API_MODULE = "tenure.api.app"
#: A thread that wrote to the disk waits at most this long for the busy event loop, each time that
#: it goes on: Python's 5 ms would be a commit's largest part.
SWITCH_S = 0.001
WARM_QUEUE = 8
#: Written to the state folder once the API answers: its addresses, for clients and people.
READY_FILE = "tenured.json"


class Daemon:
    """One running tenured."""

    def __init__(self, settings: Settings, held: HeldTimes, *, is_new: bool = False) -> None:
        """Make a daemon; ``is_new``: a state that is missing beside other files is meant."""
        self._settings = settings
        self._is_new = is_new
        self._held = held
        self._tasks: list[asyncio.Task[object]] = []
        self._stopping = asyncio.Event()
        self._failure: BaseException | None = None
        self._is_begun = self._is_warm = self._plans_fast = self._matches_fast = False
        self._notifier = Notifier(os.environ)

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; returns the exit code."""
        begun = time.monotonic()
        sys.setswitchinterval(SWITCH_S)
        self._notifier.begin()
        # while databases are opened and the engines think
        loop = asyncio.get_running_loop()
        importing = loop.run_in_executor(None, import_module, API_MODULE)
        try:
            await self._open()
            await self._serve(begun, importing)
        finally:
            await self._notifier.end()
        return 1 if self._failure is not None else 0

    async def _serve(self, begun: float, importing: Awaitable[object]) -> None:
        try:
            await self._start(importing)
            ready_s, addresses = time.monotonic() - begun, ", ".join(self._addresses())
            log.info("ready after %.2f s: %s", ready_s, addresses)
            for told in self._settings.advice:
                log.warning("%s", told)
            self._notifier.ready(self._status())
            await self._stopping.wait()
        finally:
            self._notifier.stopping("letting moves end; no container is stopped")
            await self._close()

    def _status(self) -> str:
        return f"serves at {', '.join(self._addresses())}; {len(self._settings.nodes)} nodes"

    async def _open(self) -> None:
        settings = self._settings
        require_usable(settings.state_dir, is_new=self._is_new)
        self.room = Room(settings.state_dir, settings.limits.low_disk_bytes)
        self.room.make()
        bounds = Bounds(events=settings.limits.events, logs_bytes=settings.limits.logs_bytes)
        self.store = Store.open(settings.state_dir / STATE, KINDS, bounds=bounds)
        self.policies = LatePolicies(settings.placement.patience)
        fleet = f"f-{os.urandom(6).hex()}"
        self.localizer = Tiers()
        self.state = FleetState(
            params_of(settings),
            self.policies,
            fleet=fleet,
            localizer=self.localizer,
            cycles=settings.cycles,
        )
        with undisturbed():
            records = await asyncio.to_thread(self.store.load, spread)
            self.state.load(records, self.store.set_aside())
        spare_records()
        meta = self.state.meta
        self.clock = Clock(meta.clock, meta.clock_us)
        self.tokens, self._worker_token = open_tokens(settings, self.store, self.clock.now_us)
        acts = acts_of(self.store)
        self.audit = await asyncio.to_thread(
            Audit.open, settings.state_dir / AUDIT, settings.api.audit_keep_us, acts
        )
        self._require_root()
        self.stats = await open_stats(settings)
        self.uses = await UseStore.open(settings.state_dir / "uses.db")
        self.loop = CoreLoop(self.state, self.store, self.clock, self._carry_out)
        ctx, put = self.state.ctx, self.loop.put
        ssh_folder = settings.state_dir / SSH_FOLDER
        prepare_folder(ssh_folder)
        ports = Ports(
            put,
            self.clock.now_us,
            KeptLogs(lambda logs: self.store.save_logs(logs, self.clock.now_us())).save,
            self._trigger,
            settings.relist_us / 1e6,
            ssh_folder,
            settings.stats.interval_us,
            self._outputs,
            tuple(one.spec for one in settings.datasets.hdfs),
        )
        self.hands = Hands(ctx, ports)
        self.interpreter = Interpreter(self.hands, put)
        self._cuts = Cuts(settings.batches.input_dirs)
        room = settings.datasets.upload_bytes, settings.datasets.upload_expire_us
        self._uploads = uploads.Uploads(
            uploads.UploadParams(settings.state_dir / "uploads", *room),
            self.clock.now_us,
            lambda *asked: self.state.read(upload_objection, *asked),
        )
        self.sampler = self._sampler()
        self.rhythm = Rhythm(ctx, self._rhythm_ports(put))
        self.listeners: Listeners | None = None

    def _rhythm_ports(self, put: Callable[[EventMaker], None]) -> RhythmPorts:
        settings = self._settings
        return RhythmPorts(
            put=put,
            now_us=self.clock.now_us,
            directory=settings.state_dir / "redis",
            redis_url=settings.redis.url or "",
            worker_argv=python_argv("tenure.cli.worker"),
            worker_order=self._worker_order,
        )

    def _worker_order(self, redis_url: str) -> str:
        plain = [address for address in self._addresses() if not address.startswith("https:")]
        host = next(iter(plain or self._addresses()), "")
        token = self._worker_token
        order = {"parent": os.getpid(), "redis_url": redis_url, "host": host, "token": token}
        return json.dumps(order)

    async def _start(self, importing: Awaitable[object]) -> None:
        settings = self._settings
        self._spawn(self._decide(), "core")
        self.hands.configure(settings.nodes)
        self.loop.put(_configured(settings))
        self.rhythm.configure(settings.cycles)
        self._spawn(self.sampler.run(), "sampler")
        self._spawn(self.hands.lending.run(), "lending")
        self._spawn(self._upkeep(), "upkeep")
        self._spawn(follow(self.audit, self.loop), "acts")
        uploading = uploads.serve(self._uploads, lambda: self.state.tables, SWEEP_S)
        self._spawn(uploading, "uploads")
        await asyncio.gather(self._first_contact(), importing)
        await self._listen()
        self._spawn(_catch_up(), "imports", is_finite=True)
        if len(settings.nodes) >= WARM_NODES:
            work = kernels.ahead(self._kernels, self._bundles())
            self._spawn(work, "kernels ahead", is_finite=True)
        self._spawn(self.rhythm.run(), "rhythm")

    def _require_root(self) -> None:
        require_root(self.store, self.audit, self._settings.token_file, self.clock.now_us())

    async def _decide(self) -> None:
        """Take in the restart, then all else; on a full disk that waits, and the API serves."""
        await self.loop.start()
        self._is_begun = True
        await self.loop.run()

    async def _first_contact(self) -> None:
        """Wait a moment for engines, so that the first request is not told of an empty fleet."""
        deadline = time.monotonic() + CONTACT_S
        while time.monotonic() < deadline:
            nodes = self.state.tables.nodes
            is_met = all(n.reach is Reach.OK or n.power is Power.OFF for n in nodes.values())
            if self._is_begun and is_met and len(nodes):
                return
            await self.loop.wait_commit(0.05)

    async def _listen(self) -> None:
        from tenure.api.app import build_app  # a thread has imported it by now
        from tenure.api.requests.streams import end_streams_of

        settings = self._settings
        permits = settings.permits
        access = Access(self.tokens, settings.tls.grants, settings.api.grants)
        options = Options(
            parse_constraint=parse_constraint,
            access=access,
            audit=self.audit,
            permits=permits,
            hosts=settings.host_names,
            policy=settings.placement.policy,
            policies=EVERY,
            retries=settings.defaults.retries,
            max_executors=settings.limits.executors,
            max_body_bytes=settings.limits.body_bytes,
            max_streams=settings.limits.streams,
            requests_per_s=settings.limits.requests_per_s,
            wrong_tokens_per_s=settings.limits.wrong_tokens_per_s,
        )
        body = Body(
            self.loop,
            self.interpreter,
            self.hands,
            self.rhythm,
            self.store,
            self.stats,
            self.policies,
            self.clock,
            self._warm,
            self.uses,
            settings.power.price_nano_per_kwh,
            BatchFolders(settings.batches.input_dirs, self._outputs),
            self._uploads,
            self._cuts,
            self._held,
            self.sampler,
            self.room,
        )
        app = build_app(DaemonBackend(body), options)
        urls = [listener.url for listener in settings.listen]
        tls = server_context(settings.tls.files) if settings.tls.files else None
        terms = Terms(affordable(settings.limits.connections))
        groups = [*settings.api.socket_roles] or [""]  # none: for the daemon's user alone
        group = groups[0] if len(groups) == 1 else None
        self.listeners = await serve(app, urls, group=group, terms=terms, tls=tls)
        self._reloading = Reload(
            settings.token_file,
            settings.tls.files,
            self.tokens,
            access,
            permits,
            self.listeners,
            partial(end_streams_of, app),
            self._require_root,
        )
        self._signals()  # who reads that we are ready may end us in order
        self._tell_ready(settings.state_dir / READY_FILE)

    def _tell_ready(self, file: Path) -> None:
        try:
            file.write_text(json.dumps({"pid": os.getpid(), "addresses": self._addresses()}))
        except OSError as error:
            if error.errno != errno.ENOSPC:  # who knows the address needs no file
                raise TenureError(f"cannot write {file}: {error.strerror}") from None
            log.error("cannot write %s: %s", file, error.strerror)

    def _addresses(self) -> list[str]:
        return self.listeners.addresses if self.listeners else []

    def _sampler(self) -> Sampler:
        stats = self._settings.stats
        ports = SamplerPorts(
            stats=self.hands.stats,
            targets=self.hands.targets,
            emit=lambda event: self.loop.put(lambda at_us: replace(event, at_us=at_us)),
            now_us=self.clock.now_us,
            account=self.uses.add,
            agent=self.hands.agents.read,
            reserve=self.hands.reserve,
        )
        params = SamplerParams(interval_us=stats.interval_us, window_us=stats.window_us)
        return Sampler(self.stats, ports, params)

    async def _upkeep(self) -> None:
        parts = (self.store, self.uses, self.audit, self.tokens, self.state, self._outputs)
        upkeep = Upkeep(*parts, self.clock, self.state.ctx.meta.clock_us)
        while True:
            if self.state.ctx.index.waiting_jobs or self.localizer.has_matched:
                self._warm()  # what waits may have been accepted before this start
            await asyncio.to_thread(self.room.look)
            await asyncio.sleep(UPKEEP_S)
            self.hands.configure(self._settings.nodes)  # lets go of removed nodes that are empty
            await upkeep.prune()

    # what the parts ask of each other

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        self.interpreter.carry_out(effects)

    def _trigger(self, effect: Trigger) -> None:
        self.rhythm.trigger(effect)

    def _warm(self) -> None:
        """Load compiled kernels once a job comes to, or waits in, a fleet that is worth it.

        By then those of a large fleet are compiled, ahead of need.

        A small fleet is placed as fast by the plain functions, and the compiler takes memory; only
        where more tasks over datasets wait than these match at once are they compiled for it. A
        queue is planned fast only as long as it is short. Where all jobs are planned, what places
        them one by one is not loaded.
        """
        is_large = len(self.state.tables.nodes) >= WARM_NODES
        policies = self.policies.made
        if policies and not self._is_warm and policies.has_placed and is_large:
            self._is_warm = True
            work = kernels.load(policies.compile, self._kernels, kernels.PLACEMENT)
            self._spawn(work, "kernels", is_finite=True)
        is_long = len(self.state.ctx.index.waiting_jobs) >= WARM_QUEUE
        if policies and not self._plans_fast and policies.has_planned and (is_large or is_long):
            self._plans_fast = True
            work = kernels.load(policies.compile_planning, self._kernels, kernels.PLANNING)
            self._spawn(work, "planning", is_finite=True)
        is_short = self.localizer.was_short
        if not self._matches_fast and self.localizer.has_matched and (is_large or is_short):
            self._matches_fast = True
            work = kernels.load(self.localizer.compile, self._kernels, kernels.LOCALITY)
            self._spawn(work, "matching", is_finite=True)

    def _bundles(self) -> list[str]:
        """Return the kernels that this fleet will need, what the policy of jobs needs first."""
        found = [kernels.PLANNING, kernels.PLACEMENT]
        if self._settings.placement.policy != TENURE:
            found = [kernels.PLACEMENT]
        has_tiers = any(node.tiers for node in self._settings.nodes)
        return [*found, kernels.LOCALITY] if has_tiers else found

    @property
    def _outputs(self) -> Path:
        return self._settings.state_dir / "outputs"

    @property
    def _kernels(self) -> Path:
        return self._settings.state_dir / "kernels"

    # life

    def _spawn(
        self, work: Coroutine[object, object, object], name: str, *, is_finite: bool = False
    ) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.append(task)
        task.add_done_callback(lambda done: self._on_end(done, is_finite=is_finite))

    def _on_end(self, task: asyncio.Task[object], *, is_finite: bool) -> None:
        """A part that ends by a defect ends the daemon: what is stored is whole."""
        if task.cancelled() or self._stopping.is_set():
            return
        error = task.exception()
        if error is not None:
            log.critical("%s ended by a defect", task.get_name(), exc_info=error)
            self._failure = error
            self._stopping.set()
        elif not is_finite:
            log.critical("%s ended", task.get_name())
            self._stopping.set()

    def _signals(self) -> None:
        loop = asyncio.get_running_loop()
        for sign in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sign, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        """Read token, certificates and configuration again; a faulty one changes nothing."""
        self._notifier.reloading()
        self._take_over()
        self._notifier.ready(self._status())

    def _take_over(self) -> None:
        faults = [self._reloading.certificates(), self._reloading.token()]
        fresh = loaded(self._settings.path)
        faults += [] if fresh else ["the configuration is faulty"]
        told = {"faults": [fault for fault in faults if fault]}
        self.audit.note(act_row(self.clock.now_us(), "configuration.reloaded", "tenured", told))
        if fresh is None:
            return
        self._reloading.rights(fresh)
        self._settings = self._settings.model_copy(
            update={"nodes": fresh.nodes, "cycles": fresh.cycles}
        )
        self.hands.configure(fresh.nodes)
        self.rhythm.configure(fresh.cycles)
        self.loop.put(_configured(fresh))
        log.info("configuration taken over: %d nodes", len(fresh.nodes))

    async def _close(self) -> None:
        """Stop in reverse order; safe to call after a start that failed half-way."""
        self._cuts.close()
        if self.listeners is not None:
            await self.listeners.close()
        with suppress(OSError):
            (self._settings.state_dir / READY_FILE).unlink()
        if self._failure is None:
            await self._finish_moves()
        await self.rhythm.close()
        await self.interpreter.close(EFFECTS_S)
        await end(self._tasks)
        await self.hands.close()
        await self.stats.close()
        await self.uses.close()
        await self.audit.close()
        await asyncio.to_thread(self.store.close)
        self.loop.close()
        log.info("stopped; no container was touched")

    async def _finish_moves(self) -> None:
        """Let moves in flight end or roll back, for at most ``MOVES_S``."""
        self.loop.put(lambda at_us: Closing(at_us=at_us))
        deadline = time.monotonic() + MOVES_S
        while self.state.ctx.is_mid_move() and time.monotonic() < deadline:
            await self.loop.wait_commit(0.5)


async def _catch_up() -> None:
    """Have ready what the first requests need, and nobody before: policies, checks of bodies."""
    from tenure.api.app import complete

    await asyncio.to_thread(load_policies)
    await complete()


def _configured(settings: Settings) -> EventMaker:
    return lambda at_us: Configured(
        at_us=at_us, nodes=settings.nodes, cycles=settings.cycles, quotas=settings.quotas
    )
