"""InfluxDB, then Redis, is killed for two minutes under load; what is lost is counted.

Load: real containers sampled every second into InfluxDB, cycles that fall due all the time, jobs
with deadlines one after the other. The truth comes from the other side: samples from InfluxDB by
plain HTTP (each says over which span it measured, so that a lost one leaves a hole), runs and jobs
from the API.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report, figure
from benchmarks.losses import Cover, Run, caught_up, cover, fate
from benchmarks.rig import TENURED, Daemon, folder, running, say, until
from tenure.client.client import Client
from tenure.client.target import parse
from tenure.cycles.io.redis_server import RedisServer
from tenure.model.errors import TenureError
from tenure.model.units import US
from testbed import IMAGE, NodeSpec, Testbed, bounded, tied
from testbed.servers import Influx

SPECS = (
    NodeSpec("node1", "nursery", cpus=2.0),
    NodeSpec("node2", "young", cpus=2.0),
    NodeSpec("node3", "tenured", cpus=2.0),
)
#: Containers whose samples are checked one by one, and containers that cycles may move.
FIXED, MOVABLE = 8, 2
INTERVAL_S = 1.0
JOB_EVERY_S, JOB_S, DEADLINE_S = 1.0, 2, 120
DATABASE = "tenure"
BACK_S = 120.0
CYCLE = "promote"
#: A run that fell due so shortly before Redis went may have been triggered.
CLAIM_US = US
NONE = Goal("most", 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds: before and after each cut, of a cut, and between two due times of a cycle."""

    around_s: float = 15.0
    cut_s: float = 120.0
    cycle_s: int = 60


FULL = Plan()
QUICK = Plan(around_s=4.0, cut_s=20.0, cycle_s=5)


@dataclass
class Jobs:
    """A client that submits jobs until told to end; ``accepted`` are the ids it was given."""

    client: Client
    accepted: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Submit a job a second."""
        for number in itertools.count():
            if self._stop.wait(JOB_EVERY_S):
                return
            try:
                self.accepted.append(self.client.submit_job(_job(number))["id"])
            except TenureError as error:
                self.failed.append(error.detail)

    def stop(self) -> None:
        """Submit no more."""
        self._stop.set()


def _job(number: int) -> dict[str, Any]:
    return {
        "name": f"job-{number}",
        "app": "cuts",
        "image": IMAGE,
        "command": ["sleep", str(JOB_S)],
        "cpus": 0.1,
        "memory": "16MiB",
        "deadline_s": DEADLINE_S,
        "estimate": {"local_s": JOB_S + 3},
    }


@dataclass
class Scene:
    """Everything of one run."""

    daemon: Daemon
    client: Client
    influx: Influx
    redis: RedisServer
    plan: Plan
    fixed: list[str] = field(default_factory=list)

    def create(self) -> None:
        """Have the containers run, in the nursery."""
        ids = [self._create(f"fixed-{n}", "never") for n in range(FIXED)]
        for number in range(MOVABLE):
            self._create(f"movable-{number}", "restart")
        until(lambda: len(self.client.containers(state="running")) == FIXED + MOVABLE, 60, "start")
        self.fixed = ids

    def _create(self, name: str, migrate: str) -> str:
        body = {
            "name": name,
            "Image": IMAGE,
            "Cmd": ["sleep", "100000"],
            "HostConfig": {"Init": True},
            "tenure": {"migrate": migrate},
        }
        return str(self.client.create_container(body)["id"])

    def cut_influx(self) -> None:
        """Kill InfluxDB, and start it again after a while; return when all that waited is in it."""
        self.influx.kill()
        self._endure("InfluxDB")
        self.influx.start()
        until(self.is_drained, BACK_S, "waiting samples to be in InfluxDB", poll_s=0.5)

    def cut_redis(self) -> tuple[int, int]:
        """Kill Redis, and start it again after a while; return when a cycle ran again.

        Gives the span in which no run that fell due could have been triggered in time.
        """
        if self.redis.pid is None:
            raise BenchError("Redis does not run")
        os.kill(self.redis.pid, signal.SIGKILL)
        gone_us = _now_us()
        self._endure("Redis")
        self.redis.start()
        back_us = _now_us()
        limit_s = self.plan.cycle_s + BACK_S
        until(lambda: self._was_filled(back_us), limit_s, "a cycle after Redis is back", poll_s=0.5)
        return gone_us + CLAIM_US, back_us

    def _endure(self, what: str) -> None:
        say(f"cuts: {what} is away for {self.plan.cut_s:.0f} s")
        end_s = time.monotonic() + self.plan.cut_s
        while time.monotonic() < end_s:
            self.daemon.process.require_alive()
            time.sleep(0.5)

    def is_drained(self) -> bool:
        """Whether InfluxDB takes samples and none waits for it."""
        metrics = self.metrics()
        return metrics["tenure_stats_up"] == 1 and not metrics["tenure_stats_spooled_samples"]

    def _was_filled(self, since_us: int) -> bool:
        return any(run.is_filled and run.due_us > since_us for run in self.runs())

    def runs(self) -> list[Run]:
        """Return the rows of the table of due runs."""
        rows = self.client.runs(cycle=CYCLE, limit=1000)
        return [Run(_us(r["due_at"]), r["state"]) for r in rows]

    def metrics(self) -> dict[str, float]:
        """Return the metrics, those of one name with different labels added up."""
        found: dict[str, float] = {}
        for row in self.client.metrics().splitlines():
            if row and not row.startswith("#"):
                labelled, _, value = row.rpartition(" ")
                name = labelled.partition("{")[0]
                found[name] = found.get(name, 0.0) + float(value)
        return found

    def covers(self) -> list[Cover]:
        """Return how the samples in InfluxDB cover the time of each fixed container."""
        return [cover(self._samples(key)) for key in self.fixed]

    def _samples(self, key: str) -> list[tuple[int, int]]:
        statement = f"""SELECT "span_us" FROM "tenure_usage" WHERE "tenure.container" = '{key}'"""
        found = self.influx.ask(statement, DATABASE)
        return [(int(at), int(span)) for at, span in found[0]["values"]] if found else []


def _us(moment: str | None) -> int:
    """Return UTC microseconds of a time of the API; 0 for none."""
    return round(datetime.fromisoformat(moment).timestamp() * US) if moment else 0


def _now_us() -> int:
    return time.time_ns() // 1000


@contextmanager
def _scene(path: Path, plan: Plan) -> Iterator[Scene]:
    """Start engines, InfluxDB, Redis, the daemon and a worker, and stop them all."""
    influx = Influx(path / "influx")
    redis = RedisServer(path / "redis", transport="tcp")
    with Testbed(SPECS, path / "bed") as bed, ExitStack() as stack:
        stack.callback(influx.stop)
        influx.start()
        stack.callback(redis.stop)
        redis.start()
        stats = {"driver": "influx", "url": influx.url, "interval_s": INTERVAL_S}
        config = {"nodes": bed.config()["nodes"], "stats": stats, "redis": {"url": redis.url}}
        daemon = Daemon(path / "d", config)
        cycles = {CYCLE: {"interval_s": plan.cycle_s, "args": "nursery"}}
        (path / "d" / "cycles.yml").write_text(json.dumps(cycles))
        stack.enter_context(running(daemon))
        stack.enter_context(_worker(daemon, path / "worker.log"))
        yield Scene(daemon, Client(parse(daemon.socket)), influx, redis, plan)


@contextmanager
def _worker(daemon: Daemon, log: Path) -> Iterator[None]:
    """Run one `tenured worker` for the block."""
    words = [str(TENURED), "worker", "--config", str(daemon.file)]
    with log.open("ab") as output:
        process = tied.start(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            bounded.wait(process)


def measure(*, is_quick: bool = False) -> Report:
    """Cut both for a while, one after the other, and count what is lost."""
    plan = QUICK if is_quick else FULL
    with folder() as path, _scene(path, plan) as scene:
        say("cuts: containers, jobs and cycles on three real engines")
        scene.create()
        until(scene.runs, plan.cycle_s + 60, "a first cycle to fall due")
        until(lambda: all(c.samples for c in scene.covers()), 60, "samples of all containers")
        jobs = Jobs(Client(parse(scene.daemon.socket)))
        thread = threading.Thread(target=jobs.run)
        thread.start()
        try:
            begin_us = _now_us()
            time.sleep(plan.around_s)
            scene.cut_influx()
            time.sleep(plan.around_s)
            redis_away = scene.cut_redis()
            time.sleep(plan.around_s)
            end_us = _now_us()
        finally:
            jobs.stop()
            bounded.join(thread)
        until(lambda: not _open_jobs(scene.client), DEADLINE_S, "all jobs to end", poll_s=0.5)
        until(lambda: not _is_any_due(scene), BACK_S, "all runs to be decided", poll_s=0.5)
        until(scene.is_drained, BACK_S, "all samples to be in InfluxDB", poll_s=0.5)
        figures = (
            *_samples_lost(scene, begin_us, end_us),
            *_runs_lost(scene, begin_us, end_us, redis_away),
            *_jobs_lost(scene, jobs),
        )
    return Report("cuts", figures, _notes(plan))


def _open_jobs(client: Client) -> list[dict[str, Any]]:
    return client.jobs(state="accepted,waiting,starting,running")


def _is_any_due(scene: Scene) -> bool:
    """Whether a run that fell due some time ago is still undecided."""
    late_us = _now_us() - 2 * scene.plan.cycle_s * US
    return any(run.state in ("due", "claimed") and run.due_us < late_us for run in scene.runs())


def _samples_lost(scene: Scene, begin_us: int, end_us: int) -> Iterator[Figure]:
    covers = scene.covers()
    for key, one in zip(scene.fixed, covers, strict=True):
        if one.from_us > begin_us or one.to_us < end_us:
            late_s, early_s = (one.from_us - begin_us) / US, (end_us - one.to_us) / US
            raise BenchError(
                f"the samples of {key} do not span the measurement: they begin {late_s:.1f} s "
                f"after it and end {early_s:.1f} s before its end"
            )
    counted = scene.metrics().get("tenure_stats_dropped_total", 0)
    lost = sum(one.lost(int(INTERVAL_S * US)) for one in covers)
    twice = sum(one.twice_us for one in covers) / US
    kept = sum(one.samples for one in covers)
    yield figure("samples", f"samples of {FIXED} containers in InfluxDB", "", kept)
    yield figure("samples_lost", "samples lost (holes)", "", lost)
    yield figure("samples_counted", "samples that the daemon counts as dropped", "", counted)
    uncounted = max(0.0, lost - counted)
    yield figure("samples_uncounted", "samples lost and not counted", "", uncounted, NONE)
    yield figure("samples_twice_s", "time that two samples tell of", "s", twice, NONE)


def _runs_lost(scene: Scene, begin_us: int, end_us: int, away: tuple[int, int]) -> Iterator[Figure]:
    runs = scene.runs()
    found = fate(runs, begin_us, end_us - scene.plan.cycle_s * US, scene.plan.cycle_s)
    late = caught_up(runs, *away)
    yield figure("runs_due", "runs of a cycle that fell due", "", found.due)
    yield figure("runs_filled", "of these filled by a worker", "", found.filled)
    yield figure("runs_missed", "missed, and said so", "", found.missed)
    yield figure("runs_skipped", "skipped, and said so", "", found.skipped)
    yield figure(
        "runs_lost", "without a row, or never decided", "", found.absent + found.unfilled, NONE
    )
    yield figure(
        "runs_caught_up", "of those due without Redis, caught up", "", late, Goal("most", 1)
    )


def _jobs_lost(scene: Scene, jobs: Jobs) -> Iterator[Figure]:
    states = {job["id"]: job["state"] for job in scene.client.jobs()}
    lost = [key for key in jobs.accepted if states.get(key) != "succeeded"]
    yield figure("jobs", "jobs accepted", "", len(jobs.accepted))
    yield figure(
        "jobs_refused", "submissions that were not answered by a promise", "", len(jobs.failed)
    )
    yield figure("jobs_lost", "accepted jobs that did not succeed", "", len(lost), NONE)


def _notes(plan: Plan) -> tuple[str, ...]:
    return (
        f"InfluxDB 1.6 and then Redis are killed (SIGKILL) and stay away for {plan.cut_s:.0f} s "
        f"each, under load: {FIXED + MOVABLE} containers on {len(SPECS)} real engines, sampled "
        f"every {INTERVAL_S:g} s, a cycle due every {plan.cycle_s} s, a job with a deadline every "
        f"{JOB_EVERY_S:g} s.",
        "Every sample says over which span it measured; read from InfluxDB afterwards, those of a "
        "container must lie end to end. What waits is bounded by `spool_mib` and `spool_h`.",
        "While Redis is away no cycle is filled: of what falls due then the latest alone is caught "
        "up, the others are `missed`.",
    )
