"""How much room each node has, and what a policy is shown of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tenure.core.context import Context
from tenure.model.container import ContainerState, Migration, Service, Step
from tenure.model.job import Executor, Job
from tenure.model.matching import satisfies
from tenure.model.node import Node, Power, Reach, Scheduling
from tenure.model.placing import NEVER, Ask, Bools, ClusterView, Occupied
from tenure.model.resources import Resources, larger, total
from tenure.model.units import FOREVER_US

IDLE_SERVICE = frozenset(
    (ContainerState.STOPPED, ContainerState.EXITED, ContainerState.REMOVED, ContainerState.FAILED)
)


def need_of(ctx: Context, service: Service) -> Resources:
    """Return what a service takes: its profile with headroom, or its hard reservation if larger.

    Until it has a profile it counts with what it asked for, its limits.
    """
    profile = ctx.profiles.get(service.id)
    if profile is None:
        return service.request
    return larger(service.reserved, profile.p90.scaled(ctx.params.headroom))


@dataclass(frozen=True, slots=True)
class Load:
    """What takes room on a node: executors that are not over, and everything else."""

    executors: Resources
    rest: Resources
    has_services: bool


def load_on(ctx: Context, node: str) -> Load:
    """Return the load of a node: executors; services, arriving moves, graves, foreign use.

    Kept until something on the node changes (``Context.forget_loads``): an event touches one node,
    a scheduling pass looks at all.
    """
    kept: Load | None = ctx.loads.get(node)
    if kept is None:
        kept = ctx.loads[node] = _load_on(ctx, node)
    return kept


def _load_on(ctx: Context, node: str) -> Load:
    executors = total(ctx.tables.jobs[e.job].spec.request for e in ctx.executors_on(node))
    services = [s for s in ctx.services_on(node) if s.state not in IDLE_SERVICE]
    parts = [need_of(ctx, service) for service in services]
    parts += [grave.request for grave in ctx.graves_on(node) if grave.may_run]
    parts += [move.request for move in ctx.open_moves() if _reserves(ctx, move, node)]
    parts.append(ctx.foreign.get(node, Resources()))
    return Load(executors, total(parts), bool(services))


def _reserves(ctx: Context, move: Migration, node: str) -> bool:
    """Whether an open move holds room on ``node`` beside what its service is counted for."""
    has_begun = move.target == node and move.step is not Step.QUEUED
    return has_begun and ctx.tables.services[move.container].node != node


def free_on(ctx: Context, node: Node) -> Resources:
    """Return what is free on a node; negative where it is overcommitted."""
    load = load_on(ctx, node.name)
    return node.capacity - load.executors - load.rest


def is_busy(ctx: Context, node: str) -> bool:
    """Whether anything of ours is, will be or may still be running on the node."""
    if ctx.index.executors.get(node) or ctx.index.graves.get(node):
        return True
    if any(s.state is not ContainerState.REMOVED for s in ctx.services_on(node)):
        return True
    return any(node in (move.source, move.target) for move in ctx.open_moves())


def end_estimate_us(ctx: Context, executor: Executor) -> int:
    """Return when an executor should end: start plus T_C; boots come before it while it starts.

    All executors of a job start together, so the job's own estimate, made for its slowest node,
    counts for those that have not started.
    """
    job = ctx.tables.jobs[executor.job]
    run_us = run_estimate_us(ctx, job)
    if executor.started_us is not None:
        return executor.started_us + run_us
    ready_us = ctx.now_us + _boot_us(ctx, ctx.tables.nodes[executor.node])
    return max(job.end_estimate_us or 0, max(ready_us, executor.retry_us) + run_us)


def run_estimate_us(ctx: Context, job: Job) -> int:
    """Return T_C of a job for its mode; without an estimate its maximum or assumed run time."""
    local, hybrid = estimates_us(ctx, job)
    return hybrid if job.mode == "hybrid" else local


def estimates_us(ctx: Context, job: Job) -> tuple[int, int]:
    """Return (T_C^L, T_C^H) with the assumption for jobs that state none; T_C^H >= T_C^L."""
    assumed = job.spec.max_runtime_us or ctx.params.runtime_us
    local = job.spec.estimate_local_us or assumed
    return local, max(local, job.spec.estimate_hybrid_us or local)


def remaining_us(ctx: Context, node: Node, load: Load) -> int:
    """Return t_j: the time until the node's scheduled switch-off (0 when off or idle)."""
    if not node.is_switchable or load.has_services:
        return FOREVER_US
    ends = [end_estimate_us(ctx, executor) for executor in ctx.executors_on(node.name)]
    return max(0, max(ends) - ctx.now_us) if ends else 0


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
    return "power_retry_later" if node.retry_us > now_us else ""


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
    if node.name in job.avoid:
        return "avoided"
    if not all(satisfies(node.spec, constraint) for constraint in spec.constraints):
        return "constraint"
    if not spec.is_pullable and node.images and not has_image(node, spec.image):
        return "image"
    return ""


def has_image(node: Node, image: str) -> bool:
    """Whether the node was seen to hold the image (a name without tag means ``latest``)."""
    last = image.rsplit("/", 1)[-1]
    wanted = image if ":" in last or "@" in image else f"{image}:latest"
    return wanted in node.images or image in node.images


def host_ports(service: Service) -> frozenset[tuple[str, str]]:
    """Return the (protocol, port) pairs of the host that a service binds."""
    host = service.body.get("HostConfig") or {}
    found = set()
    for port, bindings in (host.get("PortBindings") or {}).items():
        protocol = port.partition("/")[2] or "tcp"
        for binding in bindings or ():
            if binding.get("HostPort"):
                found.add((protocol, str(binding["HostPort"])))
    return frozenset(found)


def drop_for(ctx: Context, service: Service, node: Node) -> str:
    """Return the code of the filter that keeps a service from a node, or ""."""
    code = is_usable(node, ctx.now_us)
    if code:
        return code
    image = str(service.body.get("Image", ""))
    if not service.is_pullable and node.images and not has_image(node, image):
        return "image"
    wanted = host_ports(service)
    if wanted and any(wanted & host_ports(o) for o in _beside(ctx, service, node.name)):
        return "port"
    return ""


def _beside(ctx: Context, service: Service, node: str) -> list[Service]:
    """Return the other services that are on a node or arrive there by a move that has begun."""
    arriving = [
        ctx.tables.services[move.container]
        for move in ctx.open_moves()
        if move.target == node and move.step is not Step.QUEUED
    ]
    return [other for other in (*ctx.services_on(node), *arriving) if other.id != service.id]


def home(ctx: Context, generation: str) -> str:
    """Return the generation or, where it has no nodes, the next one that has any."""
    having = {n.spec.generation for n in ctx.tables.nodes.values() if not n.is_removed}
    names = ctx.params.generations
    if generation not in names:
        return generation  # of a container from before the configuration lost it
    later = names[names.index(generation) :]
    return next((name for name in later if name in having), generation)


@dataclass(frozen=True, slots=True)
class Scene:
    """All nodes at this moment, as arrays and as records, in the same order."""

    nodes: tuple[Node, ...]
    view: ClusterView
    position: dict[str, int]


def scene(ctx: Context) -> Scene:
    """Build what policies see from the records; O(nodes + what is on them)."""
    nodes = tuple(sorted(ctx.tables.nodes.values(), key=lambda node: node.name))
    loads = [load_on(ctx, node.name) for node in nodes]
    free = [n.capacity - x.executors - x.rest for n, x in zip(nodes, loads, strict=True)]
    most = [n.capacity - x.rest for n, x in zip(nodes, loads, strict=True)]
    is_on = [node.power in (Power.ON, Power.BOOTING) for node in nodes]
    view = ClusterView(
        names=tuple(node.name for node in nodes),
        free_cpu_m=_ints(max(0, f.cpu_m) for f in free),
        free_memory=_ints(max(0, f.memory_bytes) for f in free),
        capacity_cpu_m=_ints(max(0, f.cpu_m) for f in most),
        capacity_memory=_ints(max(0, f.memory_bytes) for f in most),
        price=_ints(node.spec.price_nano_per_h for node in nodes),
        remaining_us=_ints(remaining_us(ctx, n, x) for n, x in zip(nodes, loads, strict=True)),
        is_on=np.array(is_on, dtype=np.bool_),
        is_cloud=np.array([node.spec.site == "cloud" for node in nodes], dtype=np.bool_),
        boot_us=_ints(_boot_us(ctx, node) for node in nodes),
        reboot_us=_ints(n.spec.power.boot_us if n.is_switchable else NEVER for n in nodes),
        min_billing_us=_ints(n.spec.power.min_billing_us for n in nodes),
    )
    return Scene(nodes, view, {node.name: i for i, node in enumerate(nodes)})


def _boot_us(ctx: Context, node: Node) -> int:
    if node.power is Power.ON:
        return 0
    if node.power is Power.BOOTING:
        return max(0, node.power_since_us + node.spec.power.boot_us - ctx.now_us)
    return node.spec.power.boot_us


def _ints(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), dtype=np.int64)


def mask_of(values: list[bool]) -> Bools:
    """Return a mask over nodes as policies take it."""
    return np.array(values, dtype=np.bool_)


def ask_for(ctx: Context, job: Job, nodes: tuple[Node, ...], executors: int = 0) -> Ask:
    """Return a job as a policy sees it now; ``executors`` 0 means all of them."""
    drops = drops_for(ctx, job, nodes)
    return _ask(ctx, job, [node.name not in drops for node in nodes], executors)


def future_ask(ctx: Context, job: Job, nodes: tuple[Node, ...]) -> Ask:
    """Return a job as the admission test sees it: nodes that are busy switching count."""
    fit = [_will_serve(ctx, job, n) and not _is_away(n) for n in nodes]
    return _ask(ctx, job, fit, 0)


def missing_for(ctx: Context, job: Job, nodes: tuple[Node, ...]) -> list[str]:
    """Return the names of nodes that would serve the job if only they answered."""
    return [n.name for n in nodes if _will_serve(ctx, job, n) and _is_away(n)]


def _will_serve(ctx: Context, job: Job, node: Node) -> bool:
    is_welcome = not node.is_removed and node.scheduling is Scheduling.YES
    return is_welcome and not never_for(job, node, ctx.params.job_generations())


def _is_away(node: Node) -> bool:
    return not node.is_switchable and node.reach is not Reach.OK


def _ask(ctx: Context, job: Job, eligible: list[bool], executors: int) -> Ask:
    local, hybrid = estimates_us(ctx, job)
    return Ask(
        id=job.id,
        executors=executors or job.spec.executors,
        cpu_m=job.spec.request.cpu_m,
        memory_bytes=job.spec.request.memory_bytes,
        local_us=local,
        hybrid_us=hybrid,
        deadline_us=job.spec.deadline_us,
        eligible=mask_of(eligible),
    )


def occupied(ctx: Context, here: Scene) -> list[Occupied]:
    """Return the room that running executors give back, with their estimated ends."""
    found = []
    for i, node in enumerate(here.nodes):
        for executor in ctx.executors_on(node.name):
            need = ctx.tables.jobs[executor.job].spec.request
            end = max(end_estimate_us(ctx, executor), ctx.now_us)
            found.append(Occupied(i, need.cpu_m, need.memory_bytes, end))
    return found
