"""How much room each node has, which filters drop it for a job, and how long things take.

Owns ``Loads``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tenure.core.capacity.run_times import estimate_of
from tenure.core.state.context import Context
from tenure.core.state.owned import ByNode, Change
from tenure.model.container import ContainerState, Migration, Service, Step
from tenure.model.job import Executor, Job, JobSpec
from tenure.model.matching import satisfies_all
from tenure.model.node import Node, Power, Reach, Scheduling
from tenure.model.placing import Ask, Bools
from tenure.model.resources import Resources, larger, total
from tenure.model.tier import DURABLE
from tenure.model.units import US

IDLE_SERVICE = frozenset(
    (ContainerState.STOPPED, ContainerState.EXITED, ContainerState.REMOVED, ContainerState.FAILED)
)


#: What was measured counts as present use for so long.
FRESH_US = 300 * US
#: Protocol and port of the host.
Port = tuple[str, str]


def need_of(ctx: Context, service: Service, generation: str = "") -> Resources:
    """Return what a service takes: its profile with headroom, or its hard reservation if larger.

    Until it has a profile it counts with what it asked for, its limits, or with what its app is
    known to use if that is more. The headroom is that of ``generation``; "": the one it is in.
    """
    profile = ctx.learned.profiles.get(service.id)
    least, use = service.request, service.known
    if profile is not None:
        least, use = service.reserved, profile.p90
    if use is None:
        return least
    return larger(least, use.scaled(ctx.learned.headroom(generation or service.generation)))


def kind_of(ctx: Context, service: Service) -> tuple[object, ...]:
    """Return what decides where a waiting service may go: alike ones fit the same nodes."""
    image = "" if service.is_pullable else str(service.body.get("Image", ""))
    kind = service.generation, service.is_at_home, need_of(ctx, service)
    return *kind, image, service.constraints, host_ports(service)


def seed_of(service: Service) -> int:
    """Return the seed of a random choice for the service: the same for the same container."""
    return int(service.id[:8], 16) if service.id[:8].isalnum() else 0


def drop_for(ctx: Context, service: Service, node: Node) -> str:
    """Return the code of the filter that keeps a service from a node, or ""."""
    return is_usable(node, ctx.now_us) or bar_for(ctx, service, node, host_ports(service))


def bar_for(ctx: Context, service: Service, node: Node, ports: frozenset[Port]) -> str:
    """Return what keeps a service that binds ``ports`` from a node that takes new work, or ""."""
    if bar := never_on(service, node):
        return bar
    if ports and any(ports & host_ports(other) for other in _beside(ctx, service, node.name)):
        return "port"
    return ""


def never_on(service: Service, node: Node) -> str:
    """Return what keeps a service from a node whatever runs there, or ""."""
    if not satisfies_all(node.spec, service.constraints):
        return "constraint"
    is_known = not service.is_pullable and bool(node.images)
    return "image" if is_known and not has_image(node, image_of(service)) else ""


def image_of(service: Service) -> str:
    """Return the name of a service's image as it was asked for."""
    return str(service.body.get("Image", ""))


def ports_on(ctx: Context, node: str) -> set[Port]:
    """Return the ports that services bind which are on a node or arrive there by a begun move."""
    return {port for service in _there(ctx, node) for port in host_ports(service)}


def _beside(ctx: Context, service: Service, node: str) -> list[Service]:
    return [other for other in _there(ctx, node) if other.id != service.id]


def arriving(ctx: Context) -> dict[str, str]:
    """Return the nodes to which moves that have begun bring services, by the service's id."""
    moves = (ctx.move_of(key) for key in ctx.index.move_of)
    return {m.container: m.target for m in moves if m is not None and m.step is not Step.QUEUED}


def _there(ctx: Context, node: str) -> list[Service]:
    arriving = [
        ctx.tables.services[move.container]
        for move in ctx.moves_at(node)
        if move.target == node and move.step is not Step.QUEUED
    ]
    return [*ctx.services_on(node), *arriving]


@dataclass(frozen=True, slots=True)
class Load:
    """What takes room on a node: executors that are not over, and everything else.

    ``leaving`` is what of the rest gives its room back in a moment: copies that are being removed.
    Those that somebody has to clear are none of these.
    """

    executors: Resources
    rest: Resources
    leaving: Resources
    has_services: bool


class Loads(ByNode[Load]):
    """The load of each node, kept until something on it changes."""

    hears = frozenset((Change.LOAD, Change.GONE))
    is_derived = True


def load_on(ctx: Context, node: str) -> Load:
    """Return the load of a node: executors; services, arriving moves, tombstones, foreign use.

    Kept until something on the node changes (``Context.forget_loads``): an event touches one node,
    a scheduling pass looks at all.
    """
    loads = ctx.own(Loads).by_node
    kept = loads.get(node)
    if kept is None:
        kept = loads[node] = _load_on(ctx, node)
    return kept


def _load_on(ctx: Context, node: str) -> Load:
    executors = total(ctx.tables.jobs[e.job].spec.request for e in ctx.executors_on(node))
    services = [s for s in ctx.services_on(node) if s.state not in IDLE_SERVICE]
    parts = [need_of(ctx, service) for service in services]
    tombstones = [tombstone for tombstone in ctx.tombstones_on(node) if tombstone.may_run]
    parts += [tombstone.request for tombstone in tombstones]
    parts += [move.request for move in ctx.moves_at(node) if _reserves(ctx, move, node)]
    parts.append(ctx.learned.foreign.get(node, Resources()))
    leaving = total(tombstone.request for tombstone in tombstones if not tombstone.reason)
    return Load(executors, total(parts), leaving, bool(services))


def _reserves(ctx: Context, move: Migration, node: str) -> bool:
    """Whether an open move holds room on ``node`` beside what its service is counted for."""
    has_begun = move.target == node and move.step is not Step.QUEUED
    return has_begun and ctx.tables.services[move.container].node != node


def free_on(ctx: Context, node: Node) -> Resources:
    """Return what is free on a node; negative where it is overcommitted."""
    load = load_on(ctx, node.name)
    return node.capacity - load.executors - load.rest


def used_now(ctx: Context, node: Node) -> Resources:
    """Return what owners use of a node beyond its reserve, and executors ask.

    What was measured too long ago is left out.
    """
    at_us, used = ctx.learned.regular.get(node.name, (0, Resources()))
    known = used if ctx.now_us < at_us + FRESH_US else Resources()
    return (known - node.spec.kept).clamped() + load_on(ctx, node.name).executors


def is_busy(ctx: Context, node: str) -> bool:
    """Whether anything of ours is, will be or may still be running on the node."""
    has_copies = bool(ctx.index.tombstones.get(node) or ctx.index.tasks.get(node))
    return has_copies or _is_used(ctx, node)


def is_needed(ctx: Context, node: str) -> bool:
    """Whether anything of ours but tasks of batches is there: those never keep a node on."""
    owned = (tombstone.owner not in ctx.tables.tasks for tombstone in ctx.tombstones_on(node))
    return _is_used(ctx, node) or any(owned)


def has_only_dead(ctx: Context, node: str) -> bool:
    """Whether all that is left of ours there are copies that cannot run, none being removed now."""
    is_dead = all(
        not (tombstone.may_run or tombstone.effect) for tombstone in ctx.tombstones_on(node)
    )
    return is_dead and not (_is_used(ctx, node) or ctx.index.tasks.get(node))


def _is_used(ctx: Context, node: str) -> bool:
    if ctx.index.executors.get(node) or ctx.index.moves_at.get(node):
        return True
    return any(s.state is not ContainerState.REMOVED for s in ctx.services_on(node))


def end_estimate_us(ctx: Context, executor: Executor) -> int:
    """Return when an executor should end: start plus T_C; boots come before it while it starts.

    All executors of a job start together, so the job's own estimate, made for its slowest node,
    counts for those that have not started.
    """
    job = ctx.tables.jobs[executor.job]
    run_us = run_estimate_us(ctx, job)
    if executor.started_us is not None:
        return executor.started_us + run_us
    ready_us = ctx.now_us + boot_us(ctx, ctx.tables.nodes[executor.node])
    return max(job.end_estimate_us or 0, max(ready_us, executor.retry_us) + run_us)


def run_estimate_us(ctx: Context, job: Job) -> int:
    """Return T_C of a job for its mode; without an estimate its maximum or assumed run time."""
    local, hybrid = estimates_us(ctx, job)
    return hybrid if job.mode == "hybrid" else local


def estimates_us(ctx: Context, job: Job) -> tuple[int, int]:
    """Return (T_C^L, T_C^H) that a job counts with."""
    estimate = estimate_of(ctx, job)
    return estimate.local_us, estimate.hybrid_us


def boot_us(ctx: Context, node: Node) -> int:
    """Return how long a node takes from now until it can work, 0 where it is on."""
    if node.power is Power.ON:
        return 0
    if node.power is Power.BOOTING:
        return max(0, node.power_since_us + node.spec.power.boot_us - ctx.now_us)
    return node.spec.power.boot_us


def is_usable(node: Node, now_us: int) -> str:
    """Return "" when new work may go to the node, else the stable code of the filter."""
    if node.is_removed:
        return "removed"
    if node.scheduling is not Scheduling.YES:
        return node.scheduling.value
    if node.power is Power.ON:
        return "" if node.reach is Reach.OK else "unreachable"
    if node.power in (Power.STOPPING, Power.UNKNOWN):
        return f"power_{node.power.value}"
    if not node.is_switchable:
        return "off"
    return "power_retry_later" if retry_us(node) > now_us else ""


def retry_us(node: Node) -> int:
    """Return the moment before which a node takes no new work, 0 where time is no matter."""
    return 0 if node.power is Power.ON else node.retry_us


def drops_for(ctx: Context, job: Job, nodes: Iterable[Node]) -> dict[str, str]:
    """Return node name -> code for every node that a filter drops for this job."""
    drops = {}
    allowed = ctx.params.job_generations()
    for node in nodes:
        code = is_usable(node, ctx.now_us) or never_for(job, node, allowed)
        if code:
            drops[node.name] = code
    return drops


def never_for(job: Job, node: Node, generations: tuple[str, ...]) -> str:
    """Return the code of a filter that only a change of job or configuration lifts, or ""."""
    spec = job.spec
    if node.spec.generation not in generations:
        return "generation"
    return "avoided" if node.name in job.avoid else _lacks(spec, node)


def _lacks(spec: JobSpec, node: Node) -> str:
    """Return the code of what a node lacks for a job, or ""."""
    if not satisfies_all(node.spec, spec.constraints):
        return "constraint"
    if not spec.is_pullable and node.images and not has_image(node, spec.image):
        return "image"
    if spec.spark is not None and not node.spec.host:
        return "address"
    if spec.dataset is not None and not can_read(node):
        return "tiers"
    return ""


def can_read(node: Node) -> bool:
    """Whether blocks can be brought to a node, to be read there: it has a durable tier."""
    return any(tier.kind in DURABLE for tier in node.spec.tiers)


def has_image(node: Node, image: str) -> bool:
    """Whether the node was seen to hold the image (a name without tag means ``latest``).

    Beside a digest the tag means nothing, and engines list such names without it.
    """
    name, at, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    wanted = f"{folder}{slash}{last.partition(':')[0]}@{digest}" if at else image
    wanted = wanted if at or ":" in last else f"{image}:latest"
    return wanted in node.images or image in node.images


def host_ports(service: Service) -> frozenset[Port]:
    """Return the (protocol, port) pairs of the host that a service binds."""
    host = service.body.get("HostConfig") or {}
    found = set()
    for port, bindings in (host.get("PortBindings") or {}).items():
        protocol = port.partition("/")[2] or "tcp"
        for binding in bindings or ():
            if binding.get("HostPort"):
                found.add((protocol, str(binding["HostPort"])))
    return frozenset(found)


def home(ctx: Context, generation: str) -> str:
    """Return the generation or, where it has no nodes, the next one that has any."""
    having = {n.spec.generation for n in ctx.tables.nodes.values() if not n.is_removed}
    names = ctx.params.generations
    if generation not in names:
        return generation  # of a container from before the configuration lost it
    later = names[names.index(generation) :]
    return next((name for name in later if name in having), generation)


def missing_for(ctx: Context, job: Job, nodes: Iterable[Node]) -> list[str]:
    """Return the names of nodes that would serve the job if only they answered."""
    allowed = ctx.params.job_generations()
    return [
        n.name for n in nodes if is_welcome(n) and is_away(n) and not never_for(job, n, allowed)
    ]


def is_welcome(node: Node) -> bool:
    """Whether configuration and operators let new work go there."""
    return not node.is_removed and node.scheduling is Scheduling.YES


def is_away(node: Node) -> bool:
    """Whether nothing tenure can do makes the node answer."""
    return not node.is_switchable and node.reach is not Reach.OK


def ask_of(ctx: Context, job: Job, eligible: Bools, executors: int = 0) -> Ask:
    """Return a job as policies see it on ``eligible`` nodes; ``executors`` 0 means all of them."""
    local, hybrid = estimates_us(ctx, job)
    return Ask(
        id=job.id,
        executors=executors or job.spec.containers,
        cpu_m=job.spec.request.cpu_m,
        memory_bytes=job.spec.request.memory_bytes,
        local_us=local,
        hybrid_us=hybrid,
        deadline_us=job.spec.deadline_us,
        eligible=eligible,
    )
