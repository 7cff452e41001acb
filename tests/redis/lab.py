"""A daemon made of files, and processes that a test starts and stops by their pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenure.cycles.io.jobs import Gateway
from tenure.cycles.io.worker import run_worker
from tenure.cycles.snapshot import Snapshot, snapshot_to_json
from tenure.model.errors import Conflict
from tenure.model.plan import CycleSpec
from tenure.model.units import US
from testbed import bounded, tied

SPEC = CycleSpec("promote", "nursery", "young", interval_us=US)


class Files:
    """The daemon's part in a folder: every claim gets a run, plans and failures become files.

    A file ``slow`` there holds the seconds that a snapshot takes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def claim(self, cycle: str, run_id: str = "") -> Mapping[str, Any]:
        if cycle != SPEC.name:
            raise Conflict("no such cycle", code="nothing_due")
        return {"id": run_id or f"{cycle}@{time.time_ns()}"}

    def snapshot(self) -> Mapping[str, Any]:
        slow = self.folder / "slow"
        if slow.exists():
            (self.folder / "began").touch()
            time.sleep(float(slow.read_text()))
        return snapshot_to_json(Snapshot(1, time.time_ns() // 1000, cycles=(SPEC,)))

    def submit_plan(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        self._write("plan", plan)
        return {}

    def fail_run(self, run_id: str, reason: str) -> Mapping[str, Any]:
        self._write("failed", {"run_id": run_id, "reason": reason})
        return {}

    def _write(self, kind: str, data: Mapping[str, Any]) -> None:
        name = f"{kind}-{time.time_ns()}-{os.getpid()}"
        (self.folder / f".{name}").write_text(json.dumps(data))
        (self.folder / f".{name}").rename(self.folder / name)

    def all(self, kind: str) -> list[dict[str, Any]]:
        """Return what was written, oldest first, with the pid that wrote it."""
        found = []
        for path in sorted(self.folder.glob(f"{kind}-*")):
            found.append({**json.loads(path.read_text()), "pid": int(path.name.split("-")[2])})
        return found


def start(*words: str, log: Path | None = None) -> subprocess.Popen[bytes]:
    """Start this module as a process with ``words``; ``log`` takes what it says."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, "-m", "tests.redis.lab", *words]
    if log is None:
        return tied.start(argv, env=env)
    with log.open("ab") as output:
        return tied.start(argv, env=env, stdout=output, stderr=output)


def stop(process: subprocess.Popen[bytes]) -> int:
    """Stop a process of ours and return its exit code."""
    process.terminate()
    return bounded.wait(process)


def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    """Wait until ``condition`` is true; fails after ``timeout_s``."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _host(folder: Path) -> None:
    """Be a daemon's main process: a Redis and a cron child, their pids told in a file."""
    from tenure.cycles.io.cron import cron_child
    from tenure.cycles.io.redis_server import RedisServer

    server = RedisServer(folder / "redis")
    server.start()
    cron = cron_child(server.url, [SPEC], log_file=folder / "cron.log")
    cron.start()
    (folder / ".pids").write_text(json.dumps([server.pid, cron.pid]))
    (folder / ".pids").rename(folder / "pids")
    signal.pause()


def main() -> int:
    """Run as ``worker URL FOLDER`` or ``host FOLDER``."""
    if sys.argv[1] == "worker":
        folder = Path(sys.argv[3])

        def factory() -> Gateway:
            return Files(folder)

        return run_worker(sys.argv[2], factory)
    _host(Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
