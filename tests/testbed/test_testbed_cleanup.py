"""Nothing is left: after stop, after the owner's death, after a death at any moment of a start."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import NodeSpec, Testbed, TestbedError, engine, network, tied
from testbed.cli import main
from testbed.layout import load
from testbed.traces import namespaces, traces, used_namespaces

pytestmark = [pytest.mark.engines, pytest.mark.usefixtures("engines_possible")]
Call = Any
ROOT = Path(__file__).resolve().parents[2]


class Owner:
    """`python -m testbed up` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        env = {**os.environ, "TMPDIR": str(folder)}
        self.process = tied.start(
            [sys.executable, "-m", "testbed", "up", "--nodes", "2", *options],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def await_ready(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.lstrip().startswith('- name: "node2"'):
                return
        pytest.fail("the testbed did not start")

    def end(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(timeout=20)


def watchdog_pid(folder: Path) -> int:
    """Find the watching process by its command line, which names the testbed's folder."""
    found = [line for line in traces(folder) if " watch " in line]
    return int(found[0].split()[1].rstrip(":"))


@pytest.fixture
def busy(folder: Path, run: Call) -> Iterator[tuple[Owner, Path, int, set[str]]]:
    """An owner, its testbed's folder, index and namespaces; one container runs, one is paused."""
    owner = Owner(folder)
    owner.await_ready()
    (home,) = folder.iterdir()
    layout = load(home)
    with_pids = [engine.pid(layout, "node1"), network.node_holder(layout, "node1")]
    seen = set().union(*(namespaces(pid) for pid in with_pids if pid))
    bed_node = _node(layout, "node1")
    for _ in range(2):
        container = run(bed_node, "sleep", "1000")
    from testbed import docker_api

    docker_api.call(bed_node.socket, "POST", f"/containers/{container}/pause")
    seen -= namespaces(os.getpid())
    assert len(seen) >= 3
    yield owner, home, layout.index, seen
    owner.end(signal.SIGKILL)


def _node(layout: Any, name: str) -> Any:
    from testbed import Node

    return Node(layout, layout.spec(name))


def nothing_left(home: Path, index: int, seen: set[str]) -> bool:
    return not (traces(home, index) or home.exists() or seen & used_namespaces())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["TERM", "KILL"])
def test_nothing_is_left_of_an_ended_owner(busy: Any, wait: Call, number: signal.Signals) -> None:
    owner, home, index, seen = busy
    assert traces(home, index)
    owner.end(number)
    wait(lambda: nothing_left(home, index, seen), 10)


def kill_both(owner: Owner, home: Path, wait: Call) -> None:
    """Kill the watchdog and the owner; return once both have ended and their lock is free."""
    watchdog = os.pidfd_open(watchdog_pid(home))
    signal.pidfd_send_signal(watchdog, signal.SIGKILL)
    wait(lambda: select.select([watchdog], [], [], 0)[0], 10)
    os.close(watchdog)
    owner.end(signal.SIGKILL)


@pytest.mark.parametrize("is_folder_there", [True, False], ids=["folder", "no folder"])
def test_down_all_finds_what_neither_owner_nor_watchdog_cleaned(
    busy: Any, wait: Call, is_folder_there: bool
) -> None:
    owner, home, index, seen = busy
    kill_both(owner, home, wait)
    if not is_folder_there:
        shutil.rmtree(home)
    assert main(["down", "--all"]) == 0
    wait(lambda: nothing_left(home, index, seen), 20)


def test_an_index_of_which_something_is_left_is_not_taken(
    busy: Any, folder: Path, wait: Call
) -> None:
    owner, home, index, _ = busy
    kill_both(owner, home, wait)
    shutil.rmtree(home)
    with Testbed([NodeSpec("node1", "young", initially_on=False)], folder / "next") as bed:
        assert bed.layout.index != index
    assert main(["down", "--all"]) == 0


def test_a_testbed_taken_down_by_another_can_still_be_stopped(folder: Path) -> None:
    home = folder / "kept"
    bed = Testbed([NodeSpec("node1", "young")], home)
    bed.start()
    index = bed.layout.index
    assert main(["down", "--dir", str(home)]) == 0
    assert main(["down", "--dir", str(home)]) == 0
    bed.stop()
    bed.stop()
    assert not traces(home, index)
    assert (home / "power.log").exists()  # a folder that was given is kept, with its logs
    assert not list(home.glob("nodes/*/data"))


@pytest.mark.parametrize("delay_s", [0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.7, 1.4])
def test_death_while_starting(folder: Path, wait: Call, delay_s: float) -> None:
    owner = Owner(folder)
    time.sleep(delay_s)  # the moment of death is the parameter
    homes = list(folder.glob("*/testbed.json"))
    indexes = [load(path.parent).index for path in homes]
    owner.end(signal.SIGKILL)
    wait(lambda: not (list(folder.iterdir()) or traces(folder, *indexes)), 10)


def test_a_failed_start_cleans_up_and_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_flags", lambda *_: ["--no-such-flag"])
    with pytest.raises(TestbedError, match="no-such-flag"):
        Testbed([NodeSpec("node1", "young")], folder / "kept").start()
    assert not traces(folder)


def test_a_folder_that_holds_a_testbed_is_refused(folder: Path) -> None:
    with Testbed([NodeSpec("node1", "young", initially_on=False)], folder) as bed:
        with pytest.raises(TestbedError, match="holds a testbed"):
            Testbed([NodeSpec("node1", "young")], folder).start()
        assert bed.nodes["node1"].pid() is None
