"""The real ``tenured`` as a process that tests start, kill, signal and ask."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenure.client.client import Client
from tenure.client.target import parse
from tenure.model.errors import Unavailable
from testbed import tied
from testbed.daemon import READY_S, DaemonProcess

ROOT = Path(__file__).resolve().parents[2]


#: Who waits says how long that takes on two busy cores; others may be slower, and busier.
PATIENCE = 3.0


def until(
    condition: Callable[[], Any], timeout_s: float, what: str, *, poll_s: float = 0.05
) -> Any:
    """Wait for a true value and return it; fail saying what did not come."""
    limit_s = PATIENCE * timeout_s
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {limit_s:g} s"
        time.sleep(poll_s)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def kill(pid: int) -> None:
    """Kill a process by its pid and wait until it runs no more."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), 10, f"end of {pid}", poll_s=0.005)


class Tenured(DaemonProcess):
    """One daemon over all its lives, on one configuration."""

    def __init__(
        self,
        folder: Path,
        config: dict[str, Any],
        cycles: dict[str, Any],
        *,
        is_new: bool = False,
    ) -> None:
        """``is_new``: statistics are there before its first start."""
        self.folder = folder
        self.config_file = folder / "tenured.yml"
        self.state_dir = Path(config["state_dir"])
        argv = [sys.executable, "-m", "tenure.cli.daemon", "run", "--config", str(self.config_file)]
        argv += ["--new"] if is_new else []
        super().__init__(argv, self.state_dir, folder / "tenured.log", cwd=ROOT)
        self.config, self.cycles = config, cycles
        self.starts = 0
        self.write_config()
        self.client = self.make_client(patience_s=60)

    def make_client(self, *, patience_s: float = 0.0, timeout_s: float = 20.0) -> Client:
        """Return a client over the daemon's unix socket."""
        target = parse(self.config["listen"][0])
        return Client(target, timeout_s=timeout_s, patience_s=patience_s)

    def write_config(self) -> None:
        """Write ``config`` and ``cycles``; JSON is YAML."""
        self.config_file.write_text(json.dumps(self.config))
        (self.folder / "cycles.yml").write_text(json.dumps(self.cycles))

    @property
    def database(self) -> Path:
        return self.state_dir / "state.db"

    def start(self, timeout_s: float = READY_S) -> float:
        """Start it and return once it says that it is ready."""
        assert not self.is_running
        self.starts += 1
        return super().start(timeout_s)

    def health(self) -> dict[str, Any]:
        """Return what /readyz says; {"away": ...} while it does not serve."""
        try:
            return self.make_client(timeout_s=5).readyz()
        except Unavailable as error:
            return {"away": error.detail, "extra": error.extra}

    def child(self, name: str) -> int:
        """Return the pid of a child, once it runs: redis, cron or worker."""

        def pid() -> int | None:
            children = self.health().get("parts", {}).get("children", {})
            found = children.get(name)
            return found if found is not None and is_alive(found) else None

        return int(until(pid, 30, f"child {name}"))


def spawn_module(module: str, *words: str, log: Path) -> subprocess.Popen[bytes]:
    """Start ``python -m module words`` with this interpreter, its output appended to a file."""
    with log.open("ab") as output:
        return tied.start(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
