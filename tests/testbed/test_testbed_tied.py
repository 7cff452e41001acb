"""What a test starts ends with it: when it is killed outright, and whichever thread asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed import TestbedError, bounded, tied
from testbed.daemon import DaemonProcess
from testbed.traces import traces
from tests.faults.tenured import is_alive, until

ROOT = Path(__file__).resolve().parents[2]
#: Starts a process from its main thread and one each from threads that end, says their pids, waits.
STARTER = """
import signal, threading
from pathlib import Path
from testbed import tied

found = []

def begin():
    child = tied.start(["sleep", "600"])
    while not Path(f"/proc/{child.pid}/cmdline").read_bytes().startswith(b"sleep"):
        pass  # by then the kernel knows whose end is its own
    found.append(child.pid)

begin()
for _ in "ab":
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
print(*found, flush=True)
signal.pause()
"""
#: Starts a daemon with Redis, cron and a worker, and a second worker; says so and waits.
DAEMONS = """
import signal, sys
from pathlib import Path
from tests.faults.tenured import Tenured, spawn_module

folder = Path(sys.argv[1])
config = {"state_dir": str(folder / "state"), "listen": [f"unix://{folder}/d.sock"]}
config |= {"nodes": [{"name": "away", "url": f"unix://{folder}/no", "generation": "nursery"}]}
tenured = Tenured(folder, config | {"generations": ["nursery"]}, {})
tenured.start()
words = ("worker", "--config", str(tenured.config_file))
worker = spawn_module("tenure.cli.daemon", *words, log=folder / "worker.log")
print(tenured.pid, tenured.child("redis"), tenured.child("worker"), worker.pid, flush=True)
signal.pause()
"""


@contextmanager
def started(script: str, *words: str) -> Iterator[tuple[list[int], Callable[[], None]]]:
    """Run a script that starts processes: their pids, and what kills it as the OOM killer would."""
    argv = [sys.executable, "-c", script, *words]
    starter = tied.start(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with bounded.ending(starter):
        pids = [int(pid) for pid in bounded.line(starter).split()]
        assert all(is_alive(pid) for pid in pids)
        yield pids, starter.kill


def test_nothing_outlives_a_starter_that_is_killed() -> None:
    with started(STARTER) as (pids, strike):
        assert len(pids) == 3  # two of them without the thread that asked
        strike()
        until(lambda: not any(is_alive(pid) for pid in pids), 10, "the end of all")


@pytest.mark.redis
def test_a_daemon_with_its_children_and_a_worker_end_with_the_test(folder: Path) -> None:
    with started(DAEMONS, str(folder)) as (pids, strike):
        assert len(pids) == 4
        strike()
        until(lambda: not any(is_alive(pid) for pid in pids), 15, "the end of all")
        until(lambda: not traces(folder), 15, "nothing to be left")


def test_without_its_starter_a_command_does_not_begin(tmp_path: Path) -> None:
    """The starter may have died before the kernel knew whom to tell."""
    made = tmp_path / "made"
    for starter, code in ((os.getpid(), 0), (os.getppid(), 1)):
        argv = [*tied.words(starter), "touch", str(made)]
        assert bounded.run(argv).returncode == code
        assert made.exists() == (code == 0)
        made.unlink(missing_ok=True)


def test_arguments_streams_and_exit_codes_are_the_commands_own(tmp_path: Path) -> None:
    code = "import json, os, sys; print(json.dumps([os.getpid(), os.getcwd(), sys.argv[1:]]))"
    words = ["two words", "$HOME", "'", ""]
    argv = [sys.executable, "-c", f"{code}; sys.exit(7)", *words]
    child = tied.start(argv, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    said, _ = bounded.output(child)
    assert json.loads(said) == [child.pid, str(tmp_path), words]
    assert child.returncode == 7


def test_a_daemon_that_is_not_ready_in_time_does_not_stay(tmp_path: Path) -> None:
    """Nobody would stop it: it would speak to the engines that get its engines' addresses."""
    made = DaemonProcess(["sleep", "600"], tmp_path, tmp_path / "log")
    with pytest.raises(TestbedError, match=r"not ready after 0\.2 s"):
        made.start(0.2)
    assert not made.is_running
    assert not is_alive(made.pid)
