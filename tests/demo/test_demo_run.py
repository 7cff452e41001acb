"""The whole demo on real engines: it holds, it can be interrupted, and nothing of it stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from demo.facts import load
from testbed import IMAGE, NodeSpec, Testbed, check, docker_api

ROOT = Path(__file__).parents[2]
RUN_S = 400.0
pytestmark = [pytest.mark.engines, pytest.mark.timeout(RUN_S + 60)]


@pytest.fixture(autouse=True)
def engines_possible() -> None:
    if missing := check():
        pytest.skip("; ".join(missing))


class Run:
    """A demo under way; its output is in ``log``."""

    def __init__(self, out: Path, *arguments: str) -> None:
        self.log = out / "log"
        out.mkdir(exist_ok=True)
        argv = [sys.executable, "-m", "demo", "--out", str(out), *arguments]
        with self.log.open("w") as log:
            self.child = subprocess.Popen(
                argv, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    @property
    def folder(self) -> Path:
        """The folder of its daemon's socket."""
        found = re.search(r"unix://(\S+)/tenured\.sock", self.said)
        assert found, self.said
        return Path(found[1])

    def wait_for(self, words: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while words not in self.said:
            assert self.child.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def processes_of(folder: Path) -> list[str]:
    """Return the command lines that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if str(folder) in line:
            found.append(line)
    return found


def await_gone(folder: Path) -> None:
    """Wait for what ends with the demo, and is killed with it where that is killed."""
    deadline = time.monotonic() + 60
    while folder.exists() or processes_of(folder):
        assert time.monotonic() < deadline, processes_of(folder)
        time.sleep(0.1)
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


def test_the_demo_holds_and_leaves_nothing(out: Path) -> None:
    run = Run(out)
    code = run.child.wait(RUN_S)
    # what failed comes first: the log is long
    assert code == 0, "\n".join([*re.findall(r"✗.*\n.*", run.said), run.said])
    facts = load(out / "facts.json")
    assert len([job for job in facts.jobs if job.is_met]) >= 10
    assert "11 of 11 hold" in (out / "report.txt").read_text()
    assert (out / "report.html").read_text().count("<svg") == 5
    assert {"redis", "cron", "worker"} <= set(facts.children)
    assert [pid for pid in facts.children.values() if Path(f"/proc/{pid}").exists()] == []
    await_gone(run.folder)


def test_an_interrupted_demo_stops_everything(out: Path) -> None:
    run = Run(out)
    run.wait_for("is switched on for", RUN_S)
    folder = run.folder
    run.child.send_signal(signal.SIGINT)
    assert run.child.wait(RUN_S) == 130, run.said
    await_gone(folder)


def test_a_killed_demo_leaves_nothing(out: Path) -> None:
    run = Run(out)
    run.wait_for("is placed on", RUN_S)
    folder = run.folder
    run.child.send_signal(signal.SIGKILL)
    run.child.wait(60)
    await_gone(folder)


def test_engines_of_the_operator_are_left_as_they_were(out: Path) -> None:
    specs = [
        NodeSpec("old1", "nursery", cpus=1.5),
        NodeSpec("old2", "young", cpus=2.0),
        NodeSpec("old3", "young", "cloud", cpus=2.0, powered=True),
    ]
    with Testbed(specs) as bed:
        before = bed.power_log()
        kept = {"Image": IMAGE, "Cmd": ["work", "9999"], "HostConfig": {"Init": True}}
        socket = bed.nodes["old2"].socket
        made = json.loads(docker_api.call(socket, "POST", "/containers/create", kept)[1])["Id"]
        docker_api.call(socket, "POST", f"/containers/{made}/start")
        config = bed.directory / "tenured.yml"
        run = Run(out, "--config", str(config), "--yes", "--image", IMAGE)
        assert run.child.wait(RUN_S) == 0, run.said
        assert bed.power_log() == before
        left = []
        for node in bed.nodes.values():
            rows = json.loads(docker_api.call(node.socket, "GET", "/containers/json?all=1")[1])
            left += [(row["Id"], row["State"]) for row in rows]
        assert left == [(made, "running")]
    assert os.listdir(out)
    assert not run.folder.exists()
