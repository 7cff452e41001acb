"""What the demo submits, as data: the fleet, six containers, two waves of jobs.

The sizes are chosen so that what happens does not hang on exact times. The young local node holds
1.8 cores. The small jobs take 1.2 of them at once, so executors of 0.8 go to a cloud node; a job of
three such executors never fits locally. What stays free there is enough for the containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.spec import NodeSpec

_GENERATORS = Path(__file__).resolve().parent.parent / "testbed" / "generators"
MIB = 1 << 20
MEMORY = "32MiB"
YOUNG = "generation==young"

FLEET = (
    NodeSpec("nursery1", "nursery", cpus=1.5, memory_bytes=768 * MIB, price_per_hour=0.05),
    NodeSpec("young1", "young", cpus=1.8, memory_bytes=1024 * MIB, price_per_hour=0.06),
    NodeSpec("cloud1", "young", "cloud", 2.4, 1024 * MIB, 0.24, initially_on=False, powered=True),
    NodeSpec("cloud2", "young", "cloud", 2.4, 1024 * MIB, 0.36, initially_on=False, powered=True),
    NodeSpec(
        "tenured1", "tenured", "local", 1.5, 768 * MIB, 0.04, initially_on=False, powered=True
    ),
)

#: The first cycle counts by our interval, the second by a true cron line, so that both are shown.
CYCLES: dict[str, dict[str, Any]] = {
    "generation_nursery_cycle": {
        "interval_s": 15,
        "class": "GenerationCycle",
        "description": "Run a cycle on generation nursery",
        "args": "nursery",
        "min_age_s": 8,
    },
    "generation_young_cycle": {
        "cron": "* * * * *",
        "class": "GenerationCycle",
        "description": "Run a cycle on generation young",
        "args": "young",
        "min_age_s": 5,
    },
}

#: Everything that is minutes in real use is seconds here; what is not named keeps its default.
PACE: dict[str, Any] = {
    "stats": {"interval_s": 2},
    "power": {"grace_s": 5},
    "budgets": {"verify_s": 2, "cooldown_s": 3, "moves_per_node": 3},
    "defaults": {"runtime_s": 30},
    "relist_s": 5,
}


#: Traffic to the bridge's own address and back: neighbours on the bridge receive none of it.
_PINGS = "exec ping -q -i 0.1 -s 8000 $(ip route | awk '/default/ { print $3 }')"


@dataclass(frozen=True)
class Job:
    """One submission: REST's body, when, what is expected of it and what it shows.

    ``expects``: met, done (no deadline), cancelled, or ``refused CODE [REASON]``. ``shows`` is for
    people.
    """

    body: Mapping[str, Any]
    wave: int
    expects: str
    shows: str

    @property
    def name(self) -> str:
        """Return the job's name."""
        return str(self.body["name"])


@dataclass(frozen=True)
class Container:
    """One long-running container: REST's body, and its kind for people."""

    body: Mapping[str, Any]
    kind: str

    @property
    def name(self) -> str:
        """Return the container's name."""
        return str(self.body["name"])


@dataclass(frozen=True)
class Terms:
    """What the work depends on.

    ``is_testbed``: the image has the load generators and the fleet is ``FLEET``; else their scripts
    are passed to the image's shell, no job asks for a place, and only what any fleet can show is
    expected. ``giant_cpus`` is more than any node has.
    """

    image: str
    prefix: str = ""
    is_testbed: bool = True
    giant_cpus: float = 64.0
    last: str = "tenured"


@dataclass(frozen=True)
class Work:
    """Everything that is submitted. ``least_cloud``: so many jobs must use a cloud node."""

    jobs: tuple[Job, ...]
    containers: tuple[Container, ...]
    explained: str
    """The name of the job whose wait is explained."""
    urgent: str
    """The name of the job that overtakes it by priority."""
    retried: str
    """The name of the job whose first attempt fails."""
    last: str
    """The generation that the containers are to reach."""
    least_cloud: int = 0
    waves: tuple[int, ...] = (1, 2)


def work(terms: Terms) -> Work:
    """Return the work for these terms."""
    jobs = [*_first_wave(terms), *_second_wave(terms)]
    if not terms.is_testbed:
        jobs = [_anywhere(job) for job in jobs if "would_delay_others" not in job.expects]
    return Work(
        jobs=tuple(jobs),
        containers=_containers(terms),
        explained=f"{terms.prefix}ledger",
        urgent=f"{terms.prefix}audit",
        retried=f"{terms.prefix}flaky",
        last=terms.last,
        least_cloud=4 if terms.is_testbed else 0,
    )


def _anywhere(job: Job) -> Job:
    """Return the job for a fleet of unknown sizes, where it shows less."""
    is_sure = job.expects != "met" or "retries" in job.body
    return job if is_sure else replace(job, shows="runs where there is room")


def command(terms: Terms, name: str, *arguments: str) -> list[str]:
    """Return the command line of a load generator.

    An image of somebody else lacks the script, so its shell is given the text.
    """
    if terms.is_testbed:
        return [name, *arguments]
    return ["sh", "-c", (_GENERATORS / name).read_text(), name, *arguments]


def _body(terms: Terms, name: str, seconds: int, size: tuple[int, float], deadline_s: int) -> Any:
    """Return a job of ``size`` (executors, cpus) with an estimate of twice what it should take."""
    executors, cpus = size
    return {
        "name": terms.prefix + name,
        "image": terms.image,
        "command": command(terms, "work", str(seconds)),
        "executors": executors,
        "cpus": cpus,
        "memory": MEMORY,
        "deadline_s": deadline_s,
        "estimate": {"local_s": 2 * seconds + 6},
        # what lives long has the tenured node for itself
        "constraints": [YOUNG] if terms.is_testbed else [],
    }


def _at_home(body: dict[str, Any], terms: Terms) -> dict[str, Any]:
    """Return the job with its data bound to the local site."""
    places = [YOUNG, "site==local"] if terms.is_testbed else []
    return {**body, "constraints": places}


def _first_wave(terms: Terms) -> list[Job]:
    def job(name: str, seconds: int, size: tuple[int, float], deadline_s: int) -> dict[str, Any]:
        made: dict[str, Any] = _body(terms, name, seconds, size, deadline_s)
        return made

    flaky = 'sleep 3; [ "$TENURE_ATTEMPT" -ge 2 ] || { echo "fails at first"; exit 7; }'
    # it would be in time right after those that run, and not behind those that wait for them
    greedy = {**job("greedy", 150, (1, 1.7), 345), "priority": 20}
    return [
        Job(job("wordcount", 10, (3, 0.2), 120), 1, "met", "fits the local node"),
        Job(job("index", 12, (2, 0.2), 120), 1, "met", "fits the local node"),
        Job(
            {**job("flaky", 6, (1, 0.2), 120), "command": ["sh", "-c", flaky], "retries": 2},
            1,
            "met",
            "its executor fails at its first attempt",
        ),
        Job(job("matrix", 12, (3, 0.8), 120), 1, "met", "larger than the local node"),
        Job(job("render", 14, (2, 0.8), 120), 1, "met", "the local node has too little room"),
        Job(job("video", 60, (1, 0.8), 180), 1, "cancelled", "cancelled while it runs"),
        Job(
            _at_home(job("ledger", 12, (1, 0.65), 150), terms), 1, "met", "local only, so it waits"
        ),
        Job(
            {**_at_home(job("audit", 12, (1, 0.65), 150), terms), "priority": 10},
            1,
            "met",
            "priority 10: submitted later, started earlier",
        ),
        Job(job("rush", 20, (1, 0.2), 10), 1, "refused deadline_unmeetable", "a deadline too near"),
        Job(
            {**job("giant", 6, (12, 0.8), 120), **_never(terms)},
            1,
            "refused never_fits",
            "larger than the fleet",
        ),
        Job(
            _at_home(greedy, terms),
            1,
            "refused deadline_unmeetable would_delay_others",
            "would make an admitted job late",
        ),
    ]


def _never(terms: Terms) -> dict[str, Any]:
    return {} if terms.is_testbed else {"executors": 1, "cpus": terms.giant_cpus}


def _second_wave(terms: Terms) -> list[Job]:
    best_effort = _body(terms, "adhoc", 4, (1, 0.2), 100)
    best_effort = {k: v for k, v in best_effort.items() if k not in ("estimate", "deadline_s")}
    first_fit = {**_body(terms, "simulate", 8, (2, 0.8), 100), "policy": "ff"}
    return [
        Job(_body(terms, "digest", 6, (2, 0.2), 100), 2, "met", "fits the local node"),
        Job(_body(terms, "train", 8, (3, 0.8), 100), 2, "met", "a cloud node comes back for it"),
        Job(first_fit, 2, "met", "placed by policy ff"),
        Job(best_effort, 2, "done", "no estimate, no deadline: best effort"),
    ]


def _containers(terms: Terms) -> tuple[Container, ...]:
    web = ["httpd", "-f", "-p", "8080", "-h", "/tmp"]
    fixed = {"PortBindings": {"8080/tcp": [{"HostPort": "18080"}]}}

    def made(name: str, line: list[str], *, mib: int = 0, cpus: float = 0.0) -> dict[str, Any]:
        host: dict[str, Any] = {"Init": True, "RestartPolicy": {"Name": "unless-stopped"}}
        host |= {"Memory": mib * MIB} if mib else {}
        host |= {"NanoCpus": round(cpus * 1e9)} if cpus else {}
        return {"name": terms.prefix + name, "Image": terms.image, "Cmd": line, "HostConfig": host}

    encoder = made("encoder", command(terms, "burn", "0.15"), mib=32, cpus=0.2)
    site = made("web", web, mib=32, cpus=0.02)
    if terms.is_testbed:  # a port of somebody's host might be taken
        site = {**site, "ExposedPorts": {"8080/tcp": {}}, "HostConfig": site["HostConfig"] | fixed}
    return (
        Container(encoder, "CPU-heavy"),
        Container(made("trainer", command(terms, "burn", "0.06"), mib=32), "CPU, no CPU limit"),
        Container(made("cache", command(terms, "hold", "48"), mib=96), "memory-heavy"),
        Container(made("journal", command(terms, "churn", "1"), mib=32), "disk"),
        Container(made("beacon", ["sh", "-c", _PINGS], mib=32), "network"),
        Container(site, "idle, fixed port" if terms.is_testbed else "idle"),
    )
