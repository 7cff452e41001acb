"""A state put back on real engines: what ran meanwhile runs on, and nothing runs twice."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from testbed import NodeSpec, Testbed, bounded, docker_api
from tests.faults.rig import fast_config
from tests.faults.tenured import ROOT, Tenured, until
from tests.faults.truth import Truth
from tests.faults.workload import IMAGE, MIB, TERMINAL

pytestmark = [pytest.mark.faults]
SPECS = (
    NodeSpec("n1", "nursery", price_per_hour=0.05),
    NodeSpec("y1", "young", price_per_hour=0.05),
    NodeSpec("y2", "young", price_per_hour=0.05),
)
TENTHS = 10


class Fleet:
    """Engines, a daemon over its lives, and what the containers tell."""

    def __init__(self, folder: Path, bed: Testbed) -> None:
        self.bed = bed
        self.backup = folder / "backup"
        self.truth = Truth(folder / "beats")
        self.tenured = Tenured(folder, fast_config(bed), {})
        self.client = self.tenured.make_client(patience_s=30)

    def command(self, *words: str) -> Any:
        """Run a verb of ``tenured`` and return its answer."""
        argv = [sys.executable, "-m", "tenure.cli.daemon", *words, "--json"]
        argv += ["--config", str(self.tenured.config_file)]
        done = bounded.run(argv, cwd=ROOT, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def job(self, name: str, node: str) -> str:
        """Submit a job of one executor that fills a node until it is let go; return its id."""
        self.truth.hold(name)
        body = {
            "name": name,
            "image": IMAGE,
            "command": self.truth.command("job", str(TENTHS), "0", "0", name),
            "executors": 1,
            "cpus": 0.6,
            "memory": 32 * MIB,
            "volumes": [self.truth.volume],
            "constraints": [f"name=={node}"],
            "estimate": {"local_s": 30},
        }
        return str(self.client.submit_job(body)["id"])

    def service(self, name: str) -> None:
        """Have a container run for ever."""
        body = {
            "name": name,
            "Image": IMAGE,
            "Cmd": self.truth.command("service", name),
            "HostConfig": {"Binds": [self.truth.volume], "Init": True},
            "Labels": {"tenure.binds": "shared"},
        }
        self.client.create_container(body)
        self.beats(f"service.{name}")

    def beats(self, name: str, word: str = "BEAT", *, after: int = 0) -> int:
        """Wait for another line with a word; return how many lines there are."""

        def found() -> int:
            lines = self.truth.lines(name)
            return len(lines) if any(line.word == word for line in lines[after:]) else 0

        return int(until(found, 60, f"{name} to write {word}"))

    def tellers(self) -> list[str]:
        """Return the names of everything that ever ran."""
        return [*self.truth.files("job."), *self.truth.files("service.")]

    def is_cleared(self, job: str, node: str) -> bool:
        """Whether a node's engine has no container of a job any more."""
        label = json.dumps({"label": [f"tenure.job={job}"]})
        path = f"/containers/json?all=1&filters={quote(label)}"
        status, answer = docker_api.call(self.bed.nodes[node].socket, "GET", path)
        return status == 200 and json.loads(answer) == []

    def state_of(self, job: str) -> str:
        return str(self.client.job(job)["state"])

    def health(self) -> dict[str, Any]:
        """Return what is degraded, by part."""
        found: dict[str, Any] = self.client.readyz()["degraded"]
        return found

    def last_event(self) -> int:
        return int(self.client.events(limit=1)["last_seq"])


@pytest.fixture
def fleet(folder: Path) -> Iterator[Fleet]:
    with Testbed(SPECS, folder / "bed") as bed:
        made = Fleet(folder, bed)
        made.tenured.start()
        try:
            yield made
        except BaseException:
            print(made.tenured.tail())
            raise
        finally:
            made.tenured.stop()


def test_a_restored_daemon_takes_up_what_went_on_without_it(fleet: Fleet) -> None:
    truth, client = fleet.truth, fleet.client
    fleet.service("web")
    short = fleet.job("short", "y1")
    fleet.beats(f"job.{short}.0")
    waits = fleet.job("waits", "y1")
    until(lambda: fleet.state_of(waits) == "waiting", 30, "the second job to wait")
    taken = fleet.command("backup", str(fleet.backup))
    assert taken["records"]["jobs"] == 2

    # what the backup knows nothing of
    truth.let_go("short")
    fleet.beats(f"job.{short}.0", "END0")
    fleet.beats(f"job.{waits}.0")
    until(lambda: fleet.is_cleared(short, "y1"), 30, "nothing to be left that tells of its end")
    unknown = fleet.job("unknown", "y2")
    fleet.beats(f"job.{unknown}.0")
    fleet.service("later")
    last = fleet.last_event()
    fleet.tenured.kill()

    assert fleet.command("restore", str(fleet.backup), "--dry-run")["last_event"] < last
    assert fleet.command("check")["last_event"] == last, "the dry run has changed nothing"
    fleet.command("restore", str(fleet.backup))
    assert fleet.command("check")["is_restoring"]
    marks = {name: len(truth.lines(name)) for name in fleet.tellers()}
    fleet.tenured.start()
    until(lambda: not fleet.health().get("restore"), 30, "the nodes to be looked at")

    # readers of events are told of the gap
    events = client.follow_events(last)
    gap = next(events)
    assert gap["type"] == "gap"
    assert gap["from"] == last + 1
    assert next(events)["seq"] == gap["to"] + 1

    # what runs is adopted, what ended since runs again, what is unknown is left alone
    assert fleet.state_of(waits) == "running"
    for name in (f"job.{waits}.0", f"job.{unknown}.0", "service.web", "service.later"):
        fleet.beats(name, after=marks[name])
    for job in ("waits", "unknown"):
        truth.let_go(job)
    until(lambda: fleet.state_of(waits) in TERMINAL, 90, "the adopted job to end")
    until(lambda: fleet.state_of(short) in TERMINAL, 90, "the forgotten end to come again")
    fleet.beats(f"job.{unknown}.0", "END0")
    assert [fleet.state_of(job) for job in (waits, short)] == ["succeeded", "succeeded"]
    for name in truth.files("job."):
        assert truth.doubles(name) == []
        assert truth.restarts(name) == []
        assert [line.word for line in truth.lines(name) if line.word == "TERM"] == []
    starts = {
        name: [line.attempt for line in truth.lines(name) if line.word == "START"]
        for name in fleet.tellers()
    }
    assert starts[f"job.{waits}.0"] == [1]
    assert starts[f"job.{unknown}.0"] == [1]
    assert len(starts[f"job.{short}.0"]) == 2
    assert starts["service.web"] == starts["service.later"] == [0]
    names = [row["name"] for row in client.containers()]
    assert names == ["web"]
