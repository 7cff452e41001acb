"""Random worlds: fleets, jobs, services, cycles and parameters, all drawn from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tenure.core.state.params import Params
from tenure.model.batch import BatchSpec
from tenure.model.job import Constraint, JobSpec, SparkSpec
from tenure.model.node import AgentSpec, NodeSpec, PowerSpec, Site
from tenure.model.plan import CycleSpec
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.roles import Owner
from tenure.model.units import MIB, US
from tenure.placement.names import MILP, POLICIES, TENURE
from tests.fleet import lent
from tests.fleet.behaviour import WORKER_ENDS

IMAGES = ("base:latest", "tool:latest")
ABSENT = "absent:latest"
CYCLES = (
    CycleSpec("promote", "nursery", "young", interval_us=40 * US, headroom=1.4, relief_after=1),
    CycleSpec(
        "settle", "young", "tenured", interval_us=70 * US, max_moves=2, headroom=1.0, relief_after=1
    ),
)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a client asks for at ``at_us``: a job, a batch, or a service by its create body."""

    at_us: int
    name: str
    job: JobSpec | None = None
    body: dict[str, Any] | None = None
    request: Resources = Resources()
    migrate: str = ""
    overlap: bool = False
    batch: BatchSpec | None = None


def owner_of(name: str) -> Owner:
    """Return whose a submission of this name is: of one of three namespaces."""
    return Owner(("default", "a", "b")[sum(name.encode()) % 3], "somebody")


def limits_of(name: str, nodes: Sequence[str]) -> tuple[tuple[Constraint, ...], str]:
    """Return the constraints of a container of this name, and over what it is to be spread."""
    kind = sum(name.encode())
    barred = (Constraint("name", "!=", (nodes[kind % len(nodes)],)),) if kind % 3 == 0 else ()
    return barred, ("", "", "name", "rack")[kind % 4]


def batches(dice: Random, start_us: int, span_us: int, *, is_calm: bool) -> list[Wish]:
    """Return the batches that people ask for within ``span_us``."""
    return [
        Wish(start_us + dice.randrange(0, span_us // US) * US, spec.name, batch=spec)
        for spec in lent.draw_batches(dice, IMAGES, is_calm=is_calm)
    ]


def with_replicas(dice: Random, wishes: list[Wish]) -> list[Wish]:
    """Return batches, of which some have their input kept as replicas."""
    return [
        wish if wish.batch is None else replace(wish, batch=lent.with_replicas(dice, wish.batch))
        for wish in wishes
    ]


def draw_cycles(dice: Random) -> tuple[CycleSpec, ...]:
    """Return the cycles, which consolidate in two runs of three, and escape always or to save."""
    return tuple(
        replace(
            spec,
            is_consolidating=dice.random() < 0.67,
            escape=dice.choice(("always", "saving")),
            min_age_us=dice.choice((0, 0, 30 * US)),
        )
        for spec in CYCLES
    )


def with_checkpoints(dice: Random, specs: tuple[NodeSpec, ...]) -> tuple[NodeSpec, ...]:
    """Return the nodes, of which none, some or all can checkpoint."""
    share = dice.choice((0.0, 0.7, 1.0, 1.0))
    return tuple(replace(spec, checkpoint=dice.random() < share) for spec in specs)


def with_agents(dice: Random, specs: tuple[NodeSpec, ...]) -> tuple[NodeSpec, ...]:
    """Return the nodes, most of which have an agent and lend; in some runs all do."""
    share = dice.choice((0.7, 1.0, 1.0))
    agent = AgentSpec("unix:///agent")
    return tuple(
        replace(spec, agent=agent, harvest=QosParams()) if dice.random() < share else spec
        for spec in specs
    )


def with_kinds(dice: Random, params: Params) -> Params:
    """Return the parameters with a best kind of move for containers that name none."""
    return replace(params, best_kind=dice.choice(("live", "live", "snapshot", "restart")))


def with_nursery(dice: Random, params: Params) -> Params:
    """Return the parameters with what becomes of containers when the first generation is full."""
    return replace(params, nursery_full=dice.choice(("next", "wait")))


def with_slices(dice: Random, params: Params) -> Params:
    """Return the parameters with how much work on batches one transaction does: little, mostly."""
    return replace(params, slice_work=dice.choice((1, 8, 40, 200)))


def movers(dice: Random, start_us: int, span_us: int) -> list[Wish]:
    """Return some more services, in every third run: small ones, so that many of them move."""
    found = []
    for index in range(dice.choice((0, 0, 8))):
        at_us = start_us + dice.randrange(0, span_us // (2 * US)) * US
        wish = _service_wish(dice, f"mover{index}", at_us)
        found.append(replace(wish, request=Resources(50, 16 * MIB), migrate=""))
    return found


def settlers(dice: Random, start_us: int) -> list[Wish]:
    """Return small services that come early and stay: what a planner has to do with."""
    return [
        Wish(
            start_us + dice.randrange(20) * US,
            f"settler{index}",
            body={"Image": IMAGES[0], "Cmd": ["serve", "-1"], "HostConfig": {}},
            request=Resources(dice.choice((100, 200, 400)), dice.choice((16, 48)) * MIB),
            migrate=dice.choice(("", "", "restart")),
        )
        for index in range(dice.choice((0, 4, 8)))
    ]


def dressed(dice: Random, wish: Wish) -> Wish:
    """Return a wish for a service with a kind of move, volumes, and what bars live moves."""
    if wish.body is None:
        return wish
    body, host = dict(wish.body), dict(wish.body["HostConfig"])
    if "Binds" in host and dice.random() < 0.8:
        body["Labels"] = {"tenure.binds": "shared"}
    if dice.random() < 0.2:
        host["Binds"] = [*host.get("Binds", ()), f"{wish.name}:/kept"]
    if dice.random() < 0.1:
        host["Devices"] = [{"PathOnHost": "/dev/null"}]
    if body["Cmd"][0] == "serve" and dice.random() < 0.2:
        body["Cmd"] = [*body["Cmd"], "tcp"]
    migrate = dice.choice(("", "live", "snapshot")) if not wish.migrate else wish.migrate
    return replace(wish, body=body | {"HostConfig": host}, migrate=migrate)


def draw_params(random: Random) -> Params:
    """Return parameters with times short enough to matter in a run of minutes."""
    params = Params(
        service_policy=random.choice(("spread", "binpack", "random")),
        grace_us=random.choice((1, 10, 30, 60)) * US,
        min_on={"nursery": random.choice((0, 1))},
        fence_after_us=60 * US,
        power_retry_us=20 * US,
        runtime_us=40 * US,
        cooldown_us=random.choice((0, 30)) * US,
        verify_us=random.choice((0, 3, 6)) * US,
        healthy_us=30 * US,
        claim_us=30 * US,
        moves_per_node=random.choice((1, 2)),
        moves_total=random.choice((1, 4)),
        mishaps=random.choice((0, 5, 5)),
        harvest_window_us=2 * 3600 * US,
        plan_solver="first_fit",
    )
    # a quarter of the fleets plans a short head of its queue, without a draw that shifts all others
    return replace(params, max_planned=2) if params.grace_us == 10 * US else params


def draw_nodes(random: Random, *, is_calm: bool) -> tuple[NodeSpec, ...]:
    """Return two to six nodes of all generations and sites."""
    specs = [_node(random, "n0", "nursery", is_calm=is_calm)]
    if random.random() < 0.3:
        specs.append(_node(random, "n1", "nursery", is_calm=is_calm))
    for index in range(random.choice((1, 2, 2, 3))):
        specs.append(_node(random, f"y{index}", "young", is_calm=is_calm))
    if random.random() < 0.5:
        specs.append(_node(random, "t0", "tenured", is_calm=is_calm))
    return tuple(specs)


def _node(random: Random, name: str, generation: str, *, is_calm: bool) -> NodeSpec:
    site = Site.CLOUD if generation == "young" and random.random() < 0.4 else Site.LOCAL
    is_switchable = site is Site.CLOUD or random.random() < 0.5
    boot_us = random.choice((5, 20)) * US
    billing_us = random.choice((0, 0, 90)) * US
    power = (
        PowerSpec("command", boot_us=boot_us, min_billing_us=billing_us, timeout_us=60 * US)
        if is_switchable
        else None
    )
    return NodeSpec(
        name,
        f"tcp://{name}:2375",
        generation,
        site=site,
        price_nano_per_h=random.choice((0, 36_000_000, 100_000_007)),
        capacity=draw_capacity(random) if is_calm or random.random() < 0.5 else None,
        power=power or PowerSpec(),
        labels={"disk": random.choice(("ssd", "hdd"))},
    )


def draw_capacity(random: Random) -> Resources:
    """Return the size of a host."""
    return Resources(random.choice((1000, 2000, 4000)), random.choice((512, 1024)) * MIB)


def draw_wishes(random: Random, start_us: int, span_us: int, *, is_calm: bool) -> list[Wish]:
    """Return the jobs and services that clients ask for within ``span_us``, in order."""
    wishes: list[Wish] = []
    for index in range(random.choice((1, 2, 4, 8))):
        at_us = start_us + random.randrange(0, span_us // US) * US
        wishes.append(_job_wish(random, f"job{index}", at_us, is_calm=is_calm))
    if not is_calm:
        for index in range(random.choice((0, 1, 3, 5))):
            at_us = start_us + random.randrange(0, span_us // (2 * US)) * US
            wishes.append(_service_wish(random, f"svc{index}", at_us))
    return sorted(wishes, key=lambda wish: (wish.at_us, wish.name))


def with_planning(wishes: list[Wish], dice: Random) -> list[Wish]:
    """Return the wishes with none, some or all jobs of the policy that plans the queue."""
    share = dice.choice((0.0, 0.0, 0.5, 1.0))
    return [
        replace(wish, job=replace(wish.job, policy=TENURE))
        if wish.job is not None and dice.random() < share
        else wish
        for wish in wishes
    ]


def with_solving(wishes: list[Wish], dice: Random) -> list[Wish]:
    """Return the wishes with none, some or all jobs of the policy that a solver decides."""
    share = dice.choice((0.0, 0.0, 0.3, 1.0))
    return [
        replace(wish, job=replace(wish.job, policy=MILP))
        if wish.job is not None and dice.random() < share
        else wish
        for wish in wishes
    ]


def _job_wish(random: Random, name: str, at_us: int, *, is_calm: bool) -> Wish:
    run_s = random.choice((1, 5, 20, 60))
    command: tuple[str, ...] = ("work", str(run_s), "0", "0")
    if not is_calm:
        failing, code = random.choice(((0, 0), (0, 0), (1, 3), (2, 137), (9, 1)))
        command = ("work", str(run_s), str(failing), str(code))
        command = ("bad",) if random.random() < 0.05 else command
    slack_s = random.choice((2, 25, 45, 90, 130, 600))
    spec = JobSpec(
        name=name,
        app="app",
        image=random.choice(IMAGES),
        command=command,
        executors=random.choice((1, 1, 2, 3, 4, 6)),
        request=Resources(random.choice((250, 500, 1000)), random.choice((64, 256)) * MIB),
        deadline_us=at_us + (run_s + slack_s) * US if random.random() < 0.8 else None,
        estimate_local_us=run_s * US,
        estimate_hybrid_us=run_s * US,
        policy=random.choice(POLICIES),
        priority=random.choice((0, 0, 0, 1)),
        retries=random.choice((0, 1, 2)),
    )
    spec = _as_spark(random, spec, is_calm=is_calm)
    return Wish(at_us, name, job=spec if is_calm else _twist(random, spec, run_s))


def _as_spark(random: Random, spec: JobSpec, *, is_calm: bool) -> JobSpec:
    """Make a share of the jobs Spark jobs; the command is the driver's, which ends the job."""
    if random.random() >= 0.25 or len(spec.command) == 1:
        return spec
    labels = {}
    if not is_calm and random.random() < 0.3:
        code = random.choice(("0", "1", "137"))
        labels = {WORKER_ENDS: f"{random.choice((1, 5, 20))} {random.choice((1, 2))} {code}"}
    spark = SparkSpec(spec.command[0], args=spec.command[1:], secret="of the run")
    return replace(
        spec,
        command=(),
        spark=spark,
        executors=max(1, spec.executors // 2),
        labels=labels,
        request=replace(spec.request, memory_bytes=256 * MIB),
    )


def _twist(random: Random, spec: JobSpec, run_s: int) -> JobSpec:
    """Give a job the odd features that only runs with faults have."""
    if random.random() < 0.2:
        spec = replace(spec, estimate_local_us=None, estimate_hybrid_us=None)
    if random.random() < 0.2:
        spec = replace(spec, max_runtime_us=random.choice((run_s // 2 + 1, run_s * 3)) * US)
    if random.random() < 0.1:
        constraint = Constraint("label.disk", random.choice(("==", "!=")), ("ssd",))
        spec = replace(spec, constraints=(constraint,))
    if random.random() < 0.1:
        spec = replace(spec, image=ABSENT, is_pullable=random.random() < 0.5)
    return spec


def _service_wish(random: Random, name: str, at_us: int) -> Wish:
    policy = random.choice(("no", "always", "unless-stopped", "on-failure"))
    host: dict[str, Any] = {"RestartPolicy": {"Name": policy}}
    if random.random() < 0.3:
        host["PortBindings"] = {"80/tcp": [{"HostPort": random.choice(("80", "81"))}]}
    if random.random() < 0.3:
        host["Binds"] = ["/data:/data"]
    verb: list[str] = ["serve", random.choice(("-1", "-1", "2", "60"))]
    kind = random.random()
    if kind < 0.2:
        verb = ["burst", "45", random.choice(("0", "1"))]
    elif kind > 0.97:
        verb = ["bad"]
    image = ABSENT if random.random() < 0.05 else random.choice(IMAGES)
    return Wish(
        at_us,
        name,
        body={"Image": image, "Cmd": verb, "HostConfig": host},
        request=Resources(random.choice((250, 500)), 64 * MIB),
        migrate=random.choice(("", "", "restart", "never")),
        overlap=random.random() < 0.2,
    )
