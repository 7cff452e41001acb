"""What most benchmarks share: a daemon as users start it, simulated engines, a folder for both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.http import Door
from testbed import bounded, tied
from testbed.daemon import DaemonProcess
from testbed.host import CpuMeter, cores

TENURED = Path(sys.executable).with_name("tenured")
ENGINES_S = 60.0
#: A daemon that uses less of a core than this over a second has come to rest.
REST_SHARE = 0.35
#: A minute or so where nothing else runs.
COMPILED_S = 300.0
REST_S = 60.0


def say(text: str) -> None:
    """Tell people what is going on; standard output is for figures."""
    print(text, file=sys.stderr, flush=True)


def pinned_to(core: int | None) -> list[str]:
    """Return the words before a command that keep it on a core; None: none."""
    return [] if core is None else ["taskset", "-c", str(core)]


@contextmanager
def kept_to(core: int) -> Iterator[None]:
    """Keep this process, and those that it starts in the block, on a core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder with a path short enough for unix sockets, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="tnb-")).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def until(condition: Callable[[], Any], timeout_s: float, what: str, *, poll_s: float = 0.1) -> Any:
    """Wait for a true value and return it; raise BenchError saying what did not come."""
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise BenchError(f"{what}: not within {timeout_s:g} s")
        time.sleep(poll_s)
    return found


def _environment() -> dict[str, str]:
    """Return what a user's daemon finds: no settings of ours, and code that is compiled.

    What pip copies it compiles. Code that is run from where it was written is compiled by its first
    start, but for where the environment forbids to keep that: then each start compiles it anew.
    """
    named = {key: text for key, text in os.environ.items() if not key.startswith("TENURE_")}
    named.pop("PYTHONDONTWRITEBYTECODE", None)
    return named


class Daemon:
    """A `tenured run` with everything at defaults but what ``config`` says.

    ``core``: the only core that it may use, with its children; None: all. ``is_new``: statistics
    are there before it, and no state.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        *,
        core: int | None = None,
        is_new: bool = False,
    ) -> None:
        path.mkdir(exist_ok=True)
        self.config = {
            "state_dir": str(path / "state"),
            "listen": [f"unix://{path}/d.sock", "tcp://127.0.0.1:0"],
            **config,
        }
        self.file = path / "tenured.yml"
        self.file.write_text(json.dumps(self.config))  # JSON is YAML
        pinned, words = pinned_to(core), ["--new"] if is_new else []
        self.process = DaemonProcess(
            [*pinned, str(TENURED), "run", *words, "--config", str(self.file)],
            path / "state",
            path / "tenured.log",
            env=_environment(),
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def door(self) -> Door:
        """Return its TCP listener with the token from its file."""
        address = next(a for a in self.process.addresses if a.startswith("tcp://"))
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        token = (Path(self.config["state_dir"]) / "token").read_text().strip()
        return Door(host, int(port), token)

    @property
    def socket(self) -> str:
        """Return the URL of its unix socket."""
        return str(self.config["listen"][0])

    def rest(self, timeout_s: float = REST_S) -> None:
        """Wait until it has little to do: kernels are compiled, listings are made."""
        meter = CpuMeter(self.pid)

        def is_at_rest() -> bool:
            self.process.require_alive()
            return meter.share() < REST_SHARE

        time.sleep(1.0)
        until(is_at_rest, timeout_s, "the daemon to come to rest", poll_s=1.0)

    def compiled(self, timeout_s: float = COMPILED_S) -> None:
        """Wait until planning runs compiled, and no child compiles what is needed later."""

        def is_compiled() -> bool:
            self.process.require_alive()
            told = self.process.log.read_text(errors="replace")
            return "planning runs compiled" in told and "all kernels are compiled" in told

        until(is_compiled, timeout_s, "placement to run compiled", poll_s=0.5)


@contextmanager
def running(daemon: Daemon, timeout_s: float = 60.0) -> Iterator[float]:
    """Run a daemon for the block; gives after how many seconds it was ready."""
    try:
        yield daemon.process.start(timeout_s)
    except BaseException:
        say(f"the end of the daemon's log:\n{daemon.process.tail()}")
        raise
    finally:
        daemon.process.stop()


class Engines:
    """A process with simulated engines; ``nodes`` is their part of a configuration."""

    def __init__(self, process: subprocess.Popen[str], nodes: list[dict[str, Any]]) -> None:
        self.pid = process.pid
        self.nodes = nodes


@contextmanager
def engines(path: Path, **options: object) -> Iterator[Engines]:
    """Start simulated engines (options as of ``python -m tests.fleet.engines``)."""
    path.mkdir(exist_ok=True)
    words = [w for name, value in options.items() for w in (f"--{name.replace('_', '-')}", value)]
    pinned = pinned_to(cores().load)
    module = [sys.executable, "-m", "tests.fleet.engines", "--dir", str(path)]
    process = tied.start(
        [*pinned, *module, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        line = bounded.line(process)
        if not line:
            raise BenchError(f"the simulated engines ended with {process.wait(ENGINES_S)}")
        yield Engines(process, json.loads(line))
    finally:
        process.send_signal(signal.SIGTERM)
        bounded.output(process, ENGINES_S)
