"""``tenured agent``: what the node and its containers use, served to the daemon.

It takes no configuration file, so that it needs none of the libraries that read one: it runs on
every node, and should not be noticed there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tenure.cli.logs import log_to_stderr
from tenure.model.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from tenure.agent.io.reader import NodeReader
    from tenure.model.access import TlsFiles
    from tenure.profiling.readings.sample import NodeReading, Reading

log = logging.getLogger(__name__)

SOCKET = "unix:///run/tenure-agent/agent.sock"
STATE_DIR = Path("/var/lib/tenure-agent")
TOKEN_FILE = STATE_DIR / "token"
#: Above a minute a meter of energy may wrap twice between two readings.
MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 60.0
#: The daemon holds one connection; the others are people's.
CONNECTIONS = 32
MIB = 1 << 20
#: Between two looks whether token and certificate were renewed.
LOOK_S = 2.0


def add_verb(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb with its options."""
    agent = verbs.add_parser(
        "agent",
        help="serve what this node and its containers use",
        description="Read cgroups (v1, v2), processors, memory, disks, cards and energy meters "
        "(RAPL) of this node, and serve them to tenured (nodes[].agent in its configuration). "
        "Where tenured lends idle capacity, protect the node's owners every 100 ms.",
    )
    option = agent.add_argument
    option(
        "--listen",
        action="append",
        metavar="URL",
        help=f"unix:///path, tcp:// on loopback, or https://address:port with --tls-cert; may be "
        f"given again (default: {SOCKET})",
    )
    option(
        "--token-file",
        type=Path,
        default=TOKEN_FILE,
        help=f"what TCP requests must show; made if absent (default: {TOKEN_FILE})",
    )
    option("--tls-cert", default="", metavar="FILE", help="the certificate of https:// listeners")
    option("--tls-key", default="", metavar="FILE", help="its key, without a passphrase")
    option(
        "--tls-client-ca",
        default="",
        metavar="FILE",
        help="clients must show a certificate of this authority as well",
    )
    _add_node(option)
    option("--interval-s", type=float, default=5.0, help="time between two readings (default: 5)")
    option("--once", action="store_true", help="print one reading and end")
    option("--json", action="store_true", help="with --once: as JSON")
    option("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    option("--log-json", action="store_true", help="log one JSON object per line")
    agent.set_defaults(work=work)


def _add_node(option: Callable[..., argparse.Action]) -> None:
    """Add what says which node it is, and how its controller keeps and runs."""
    option(
        "--root",
        type=Path,
        default=Path("/"),
        metavar="DIR",
        help="where the node's /proc and /sys are, in a container (default: /)",
    )
    option(
        "--node-cgroup",
        default="/",
        metavar="PATH",
        help="the cgroup that is the node, where it is not the whole machine (default: /)",
    )
    option(
        "--state-dir",
        type=Path,
        default=STATE_DIR,
        metavar="DIR",
        help=f"where the harvest controller keeps its state (default: {STATE_DIR})",
    )
    option(
        "--no-realtime",
        action="store_true",
        help="do not put the harvest controller's loop into a real-time class (SCHED_RR)",
    )


def work(options: argparse.Namespace) -> int:
    """Run the agent, or print one reading; returns the exit code."""
    from tenure.agent.io.reader import NodeReader
    from tenure.daemon.openfiles import affordable

    log_to_stderr(options.log_level, is_json=options.log_json)
    if not MIN_INTERVAL_S <= options.interval_s <= MAX_INTERVAL_S:
        _refuse("--interval-s", f"must be from {MIN_INTERVAL_S:g} to {MAX_INTERVAL_S:g} seconds")
    if options.json and not options.once:
        _refuse("--json", "is for --once")
    affordable(CONNECTIONS)  # files of cgroups are kept open: six for each container
    with contextlib.closing(NodeReader(options.root, options.node_cgroup)) as reader:
        return _run(options, reader)


def _run(options: argparse.Namespace, reader: NodeReader) -> int:
    if options.once:
        _show(reader.read(), is_json=options.json)
        return 0
    way = _Way(options)
    with contextlib.closing(_Harvest(options)) as harvest:
        return asyncio.run(_serve(reader, options.interval_s, way, harvest))


class _Harvest:
    """The controller with its thread; what it needs is loaded when the agent serves."""

    def __init__(self, options: argparse.Namespace) -> None:
        from tenure.agent.io.actions import ActionJournal
        from tenure.agent.io.control import Control
        from tenure.agent.io.controller import Controller
        from tenure.agent.io.orders import Orders
        from tenure.agent.io.parent import Parent
        from tenure.agent.io.reader import NodeReader
        from tenure.model.harvest import cgroup_parent

        # another thread's files are not ours to read
        self._reader = NodeReader(options.root, options.node_cgroup)
        self._journal = ActionJournal(options.state_dir)
        orders = Orders(options.state_dir)
        parent = Parent(options.root, self._reader.groups)
        self.controller = Controller(
            parent,
            orders,
            self._journal,
            self._reader.capacity,
            is_realtime=not options.no_realtime,
        )
        told = cgroup_parent("cgroupfs", options.node_cgroup)
        self.control = Control(self.controller, orders, self._journal, told)

    def close(self) -> None:
        """End the loop, and write what it did."""
        self.controller.stop()
        self._journal.close()
        self._reader.close()


class _Way:
    """Where and how it is served; token and certificate are those of their files by now."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.urls, self._files = _listeners(options)
        self._token_file: Path | None = None
        self.token = ""
        self.tls: ssl.SSLContext | None = None
        if any(not url.startswith("unix:") for url in self.urls):
            from tenure.config.token import ensure_token

            self._token_file = options.token_file
            self.token = ensure_token(options.token_file)
        if self._files is not None:
            from tenure.config.certificates import server_context

            self.tls = server_context(self._files)
        self._stamps = self._look()

    async def keep_fresh(self) -> None:
        """Take over what is renewed in the files, for ever; nobody has to tell of it."""
        while True:
            await asyncio.sleep(LOOK_S)
            stamps = self._look()
            if stamps != self._stamps:
                self._renew()
                self._stamps = stamps

    def _renew(self) -> None:
        """Read all files again; of those that are faulty by now what was read before counts."""
        from tenure.config.certificates import renew
        from tenure.config.token import ensure_token

        try:
            if self._token_file is not None and self._token_file.exists():
                self.token = ensure_token(self._token_file)
            if self.tls is not None and self._files is not None:
                renew(self.tls, self._files)
            log.info("token and certificate are those of their files again")
        except InvalidInput as error:
            log.warning("the old token or certificate stays in use: %s", error.detail)

    def _look(self) -> list[tuple[int, int, int]]:
        from tenure.engines.http.access import stamp_of

        paths = [] if self._token_file is None else [str(self._token_file)]
        if self._files is not None:
            paths += [self._files.cert, self._files.key]
        return [stamp_of(path) for path in paths]


def _listeners(options: argparse.Namespace) -> tuple[list[str], TlsFiles | None]:
    """Return checked URLs, and the files of those with TLS."""
    from tenure.config.urls import parse_listener
    from tenure.model.access import TlsFiles

    urls: list[str] = options.listen or [SOCKET]
    for url in urls:
        try:
            parse_listener(url)
        except ValueError as error:
            _refuse("--listen", f"{url}: {error}")
    is_secure = any(url.startswith("https:") for url in urls)
    files = TlsFiles(options.tls_client_ca, options.tls_cert, options.tls_key)
    if is_secure and not (files.cert and files.key):
        _refuse("--tls-cert", "and --tls-key are required by https:// in --listen")
    if not is_secure and files != TlsFiles():
        _refuse("--tls-cert", "is used by no listener: give --listen https://0.0.0.0:7481")
    return urls, files if is_secure else None


async def _serve(reader: NodeReader, interval_s: float, way: _Way, harvest: _Harvest) -> int:
    from tenure.agent.io.server import Sampling, build_app
    from tenure.agent.journal import Journal
    from tenure.api.server.acceptor import Terms
    from tenure.api.server.listeners import serve
    from tenure.daemon.notify import Notifier

    notifier = Notifier(os.environ)
    notifier.begin()
    sampling = Sampling(reader, Journal(), round(interval_s * 1e6))
    sampling.take()
    stopping = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stopping.set)
    app = build_app(sampling, lambda: way.token, harvest.control)
    listeners = await serve(app, way.urls, terms=Terms(CONNECTIONS), tls=way.tls)
    controlling = asyncio.ensure_future(asyncio.to_thread(harvest.controller.run))
    running = asyncio.create_task(sampling.run(), name="sampling")
    renewing = asyncio.create_task(way.keep_fresh(), name="renewing")
    for part in (controlling, running, renewing):
        part.add_done_callback(lambda _: stopping.set())
    where = ", ".join(listeners.addresses)
    log.info("reads cgroups v%d every %g s, serves at %s", reader.groups.version, interval_s, where)
    notifier.ready(f"serves at {where}")
    try:
        await stopping.wait()
    finally:
        running.cancel()
        renewing.cancel()
        harvest.controller.stop()
        ended = await asyncio.gather(running, renewing, controlling, return_exceptions=True)
        await listeners.close()
        await notifier.end()
    return _exit_code(*ended)


def _exit_code(*ended: BaseException | None) -> int:
    """Return 1 where the readings or the control loop ended by a defect: start it anew then."""
    defects = [error for error in ended if isinstance(error, Exception)]
    for error in defects:
        log.critical("a part of the agent ended by a defect", exc_info=error)
    return 1 if defects else 0


def _show(reading: NodeReading, *, is_json: bool) -> None:
    from tenure.profiling.readings.wire import encode_reading

    if is_json:
        print(json.dumps(encode_reading(reading)))
        return
    print(f"{'CONTAINER':<14}{'CPU s':>12}{'MEMORY MiB':>12}{'DISK MiB':>12}{'NET MiB':>12}")
    for key, row in sorted(reading.containers.items()):
        print(_line(key[:12], row))
    if reading.total is not None:
        print(_line("node", reading.total))
    if reading.energy is None:
        print("no energy meter (RAPL) can be read here")


def _line(name: str, row: Reading) -> str:
    disk, net = (("-" if n is None else f"{n / MIB:.1f}") for n in (row.disk_bytes, row.net_bytes))
    return f"{name:<14}{row.cpu_ns / 1e9:>12.1f}{row.memory_bytes / MIB:>12.1f}{disk:>12}{net:>12}"


def _refuse(path: str, message: str) -> None:
    raise InvalidInput(f"{path} {message}", fields=(FieldError(path, message),))
