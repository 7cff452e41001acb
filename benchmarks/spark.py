"""The real experiment of the SLA paper (section 7) in small: Spark applications on real engines.

WordCount, Sort and PageRank are profiled first, on local nodes and on the cloud node, by the daemon
that learns from its runs. Then each policy serves the same mixed workload on a daemon of its own,
all nodes off at its start. Jobs come as in one hour of a cluster at Facebook, scaled: Poisson
arrivals, or with ``TENURE_DATA`` those of the trace (fb2010_0.csv.gz, its first hour).
"""

from __future__ import annotations

import csv
import gzip
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Report, figure
from benchmarks.rig import Daemon, folder, running, say, until
from tenure.cli.files import documents
from tenure.cli.programs import with_program
from tenure.client.client import Client
from tenure.client.target import parse
from tenure.model.errors import TenureError
from testbed import NodeSpec, Testbed, sparkimage

EXAMPLES = Path(__file__).resolve().parents[1] / "examples/spark"
APPS = ("wordcount", "sort", "pagerank")
SEED = 7
HOUR_S = 3600.0
#: Two containers fit a local node, four the cloud node; a job has a driver and one executor.
LOCAL_BYTES, CLOUD_BYTES = 2304 << 20, 4608 << 20
SPECS = (
    NodeSpec("l1", "all", "local", 2, LOCAL_BYTES, price_per_hour=0.05, powered=True),
    NodeSpec("l2", "all", "local", 2, LOCAL_BYTES, price_per_hour=0.05, powered=True),
    NodeSpec("c1", "all", "cloud", 4, CLOUD_BYTES, price_per_hour=0.12, powered=True),
)
#: JVMs that live for seconds compile little.
SWIFT = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUICK_JVM = {f"spark.{who}.extraJavaOptions": SWIFT for who in ("driver", "executor")}
OVER_S = 300.0
#: Moments of a run at which the cost so far is told.
MOMENTS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class Plan:
    """``jobs`` in ``window_s`` for each policy; slack of deadlines is uniform in ``slack_s``."""

    policies: tuple[str, ...] = ("ff", "gio", "exact", "fifo_c")
    jobs: int = 5
    window_s: float = 40.0
    slack_s: tuple[int, int] = (60, 150)
    apps: tuple[str, ...] = APPS


FULL = Plan()
QUICK = Plan(policies=("exact",), jobs=1, window_s=1.0, apps=("wordcount",))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of the workload: when it comes, whose run it is, and how long it may take too long."""

    at_s: float
    app: str
    slack_s: int


@dataclass(slots=True)
class Outcome:
    """What became of one policy's run; ``costs`` are (seconds, dollars so far)."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0
    costs: list[tuple[float, float]] = field(default_factory=list)
    total_usd: float = 0.0
    cloud_usd: float = 0.0


def measure(*, is_quick: bool) -> Report:
    """Profile the applications, run the workload under each policy, and say what it cost."""
    plan = QUICK if is_quick else FULL
    figures: list[Figure] = []
    with folder() as path, Testbed(SPECS, path / "bed") as bed:
        say("spark: giving the image to the nodes")
        with ThreadPoolExecutor() as pool:
            list(pool.map(sparkimage.load, (node.socket for node in bed.nodes.values())))
        with _fleet(bed, path / "profile") as client:
            estimates = {app: _profiled(client, app) for app in plan.apps}
        figures += [one for app in plan.apps for one in _learned(app, estimates[app])]
        work = workload(plan)
        for policy in plan.policies:
            with _fleet(bed, path / policy) as client:
                found = _served(client, policy, work, estimates)
            figures += _figures(policy, found, plan)
    return Report("spark", tuple(figures), _notes(plan))


@contextmanager
def _fleet(bed: Testbed, path: Path) -> Iterator[Client]:
    """Run a daemon that has seen the nodes and then switched them off, for nothing runs there."""
    for spec in SPECS:
        if not bed.is_on(spec.name):
            bed.power_on(spec.name)
    config = {
        "generations": ["all"],
        "nodes": bed.config()["nodes"],
        "power": {"grace_s": 5, "min_on": {"all": 0}},
        "defaults": {"grace_stop_s": 2},
    }
    daemon = Daemon(path, config)
    with running(daemon):
        client = Client(parse(daemon.socket), timeout_s=30, patience_s=30)
        until(partial(_all_off, client), 90, "all nodes to be off")
        yield client


def _all_off(client: Client) -> bool:
    return all(node["state"] == "off" for node in client.nodes())


def _job(app: str, name: str, **more: Any) -> dict[str, Any]:
    path = EXAMPLES / f"{app}.yml"
    (job,) = [with_program(found, str(path)) for found in documents(str(path))]
    job["spark"] = job["spark"] | {"conf": QUICK_JVM}
    kept = {key: job[key] for key in ("app", "kind", "spark", "cpus", "memory")}
    return {**kept, "name": name, "image": sparkimage.IMAGE, "executors": 1, **more}


def _ended(client: Client, job: str) -> dict[str, Any] | None:
    found = client.job(job)
    return found if found["finished_at"] else None


# profiles


def _profiled(client: Client, app: str) -> dict[str, float]:
    """Run an application on each site; return what the daemon has learned: local_s, hybrid_s."""
    for site in ("local", "cloud"):
        say(f"spark: profiling {app}, {site}")
        job = _job(app, f"{app}-{site}", constraints=[f"site=={site}"], max_runtime_s=300)
        made = client.submit_job(job)["id"]
        found = until(partial(_ended, client, made), OVER_S, f"{app} to end", poll_s=0.2)
        if found["state"] != "succeeded":
            raise BenchError(f"{app} {found['state']}: {found['reason']}")
    probe = client.submit_job(_job(app, f"{app}-probe", constraints=["site==local"]))
    client.cancel_job(probe["id"])
    until(partial(_ended, client, probe["id"]), 60, "the probe to end")
    learned = probe["estimate"]
    if learned["source"] != "learned":
        raise BenchError(f"nothing was learned of {app}: {learned}")
    return {"local_s": learned["local_s"], "hybrid_s": learned["hybrid_s"]}


def _learned(app: str, estimate: dict[str, float]) -> list[Figure]:
    return [
        figure(f"{app}.local", f"{app}: T_C^L learned", "s", estimate["local_s"]),
        figure(f"{app}.hybrid", f"{app}: T_C^H learned", "s", estimate["hybrid_s"]),
    ]


# the workload


def workload(plan: Plan) -> list[Arrival]:
    """Return the jobs in the order of their arrival, the same for every policy."""
    random = Random(SEED)
    times = _traced(plan, random) or _drawn(plan, random)
    return [
        Arrival(at_s, random.choice(plan.apps), random.randint(*plan.slack_s)) for at_s in times
    ]


def _drawn(plan: Plan, random: Random) -> list[float]:
    """Return Poisson arrivals: uniform ones in order, as their number is given."""
    return sorted(random.uniform(0, plan.window_s) for _ in range(plan.jobs))


def _traced(plan: Plan, random: Random) -> list[float]:
    """Return arrivals drawn from the first hour of the trace, scaled; none without the trace."""
    path = Path(os.environ.get("TENURE_DATA", "")) / "fb2010_0.csv.gz"
    if "TENURE_DATA" not in os.environ or not path.is_file():
        return []
    with gzip.open(path, "rt", newline="") as file:
        seconds = [float(row["submit_s"]) for row in csv.DictReader(file)]
    hour = [at_s for at_s in seconds if at_s < HOUR_S]
    chosen = sorted(random.sample(hour, min(plan.jobs, len(hour))))
    return [at_s / HOUR_S * plan.window_s for at_s in chosen]


def _served(
    client: Client, policy: str, work: list[Arrival], estimates: dict[str, dict[str, float]]
) -> Outcome:
    """Submit the workload in its time and wait until all nodes are off again."""
    found, begun_s = Outcome(), time.monotonic()
    made: list[str] = []
    before = client.cost()
    todo = list(enumerate(work))
    say(f"spark: {policy}")
    while todo or not _is_over(client, made):
        now_s = time.monotonic() - begun_s
        if now_s > OVER_S:
            raise BenchError(f"{policy}: the workload does not end: {_standing(client)}")
        while todo and todo[0][1].at_s <= now_s:
            number, one = todo.pop(0)
            estimate = estimates[one.app]
            deadline_s = round(estimate["hybrid_s"] + one.slack_s)
            more = {"policy": policy, "estimate": estimate, "deadline_s": deadline_s}
            try:
                made.append(client.submit_job(_job(one.app, f"job{number}", **more))["id"])
            except TenureError as error:
                if error.code != "deadline_unmeetable":
                    raise
                found.refused += 1
        found.costs.append((time.monotonic() - begun_s, _since(client, before)[0]))
        time.sleep(0.5)
    found.total_usd, found.cloud_usd = _since(client, before)
    found.costs.append((time.monotonic() - begun_s, found.total_usd))
    found.jobs = [client.job(job) for job in made]
    return found


def _standing(client: Client) -> list[str]:
    """Return what every job and node is doing."""
    jobs = [f"{job['name']} {job['state']} {job['reason']}" for job in client.jobs()]
    return [*jobs, *(f"{node['name']} {node['state']}" for node in client.nodes())]


def _since(client: Client, before: dict[str, Any]) -> tuple[float, float]:
    """Return the dollars since an earlier report of the ledger: in all, and of cloud nodes."""
    rows = [(report["total"], report["by_site"].get("cloud")) for report in (before, client.cost())]
    (all_before, cloud_before), (all_now, cloud_now) = [
        tuple(0.0 if part is None else part["cost_usd"] for part in row) for row in rows
    ]
    return all_now - all_before, cloud_now - cloud_before


def _is_over(client: Client, jobs: list[str]) -> bool:
    return all(_ended(client, job) for job in jobs) and _all_off(client)


# the report


def _figures(policy: str, found: Outcome, plan: Plan) -> list[Figure]:
    good = [job for job in found.jobs if job["state"] == "succeeded"]
    met = sum(bool(job["deadline_met"]) for job in found.jobs)
    figures = [
        figure(f"{policy}.cost", f"{policy}: total cost", "µ$", found.total_usd * 1e6),
        figure(f"{policy}.cloud", f"{policy}: of this on cloud nodes", "µ$", found.cloud_usd * 1e6),
        figure(f"{policy}.met", f"{policy}: deadlines met, of {plan.jobs}", "", met),
        figure(f"{policy}.refused", f"{policy}: jobs refused", "", found.refused),
        figure(
            f"{policy}.hybrid",
            f"{policy}: jobs with containers on the cloud node",
            "",
            sum(job["mode"] == "hybrid" for job in found.jobs),
        ),
    ]
    span_s = found.costs[-1][0]
    for share in MOMENTS:
        so_far = [usd for at_s, usd in found.costs if at_s <= share * span_s] or [0.0]
        what = f"{policy}: cost after {share * span_s:.0f} of {span_s:.0f} s"
        figures.append(figure(f"{policy}.cost{share:g}", what, "µ$", so_far[-1] * 1e6))
    for app in plan.apps:
        times = [_took_s(job) for job in good if job["app"] == f"spark-{app}"]
        if times:
            figures.append(figure(f"{policy}.{app}", f"{policy}: {app} took", "s", times))
    return figures


def _took_s(job: dict[str, Any]) -> float:
    """Return T_C as measured: from all containers running to the driver's end."""
    began, ended = (_seconds(job[name]) for name in ("started_at", "finished_at"))
    return ended - began


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _notes(plan: Plan) -> tuple[str, ...]:
    source = "drawn (Poisson)"
    if _traced(plan, Random(SEED)):
        source = "those of the first hour of a Facebook day in 2010, sampled"
    return (
        f"{plan.jobs} jobs within {plan.window_s:g} s for each policy, a mix of "
        f"{', '.join(plan.apps)}, arrivals {source} and scaled; each a driver and one executor "
        "of 1 core and 1 GiB. Deadlines: T_C^H and a slack of "
        f"{plan.slack_s[0]} to {plan.slack_s[1]} s.",
        "Two local nodes of two places ($0.05 an hour) and a cloud node of four ($0.12), all off "
        "at first and switched off after 5 idle seconds; each policy has a daemon of its own. T_C "
        "as the daemon learned it from one run on each site, its safety factor of 1.2 within.",
        "All nodes share the cores of one machine, and the cloud is no farther away than the local "
        "nodes: durations say how many applications ran at once more than where. One run for each "
        "policy; the paper's has 100 jobs in an hour on 76 cores.",
    )
