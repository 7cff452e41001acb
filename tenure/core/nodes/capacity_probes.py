"""Nodes whose capacity nobody knows: one is switched on to learn it where others do not do.

Theory of operation. What a node has is stated by its configuration or told by its engine. A node
that is off, of which nothing is stated and whose engine never answered, may hold anything or
nothing, and policies take it for full. So whoever finds no place on the nodes that are known is
heard here, and at the end of a pass one such node is switched on that no filter keeps from one of
them. Its engine tells what it has, which stays in its record; if that is of no use it idles off as
any node. One is learned at a time, so that one job does not have a whole fleet of new nodes
switched on, and one that does not boot is tried again ever more rarely. Owns ``Seekers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from tenure.core.capacity import candidates, room
from tenure.core.nodes import power
from tenure.core.state.context import Context
from tenure.core.state.indexes import UNPLACED_SERVICE
from tenure.core.state.owned import Owned
from tenure.model.container import Service
from tenure.model.job import Job
from tenure.model.node import Node, Power, Scheduling
from tenure.model.units import US

MACHINE = "scout"
#: Those who wait that are looked at in one pass; the others have their turn in the next ones.
MOST_HEARD = 16
#: The next pass is at most this far off while some were not looked at.
NEXT_US = US
#: A node that was switched on and did not tell is tried again after this long, which doubles.
AGAIN_US = 60 * US
MAX_DOUBLINGS = 4
#: In whose name a node is switched on, and whether it may do for him.
Wish = tuple[str, Callable[[Node], bool]]


@dataclass(slots=True)
class Seekers(Owned):
    """Who found no place on nodes that are known, and which others were switched on for that.

    ``heard`` are a kind (job, service, refused) and an id, in the order in which they are looked
    at; of a job that was refused the job itself, for there is no record of it.
    ``tries`` says of a node how often it was switched on to be learned, and until when it is not
    again. Nothing of it is durable: whoever waits is heard again.
    """

    heard: dict[tuple[str, str], Job | None] = field(default_factory=dict)
    tries: dict[str, tuple[int, int]] = field(default_factory=dict)


def hear_job(ctx: Context, job: Job) -> None:
    """Note that no node that is known will do for a job, or for an executor of it."""
    if ctx.index.unsized:
        ctx.own(Seekers).heard["job", job.id] = None


def hear_refused(ctx: Context, job: Job) -> None:
    """Note a job that was turned away only because nobody knows what some nodes have."""
    ctx.own(Seekers).heard["refused", job.id] = job
    ctx.serve_again(job.id)


def may_do(ctx: Context, job: Job) -> list[Node]:
    """Return the nodes of unknown capacity that may do for a job and can be learned, by name."""
    unsized = [ctx.tables.nodes[name] for name in sorted(ctx.index.unsized)]
    return [node for node in unsized if _is_learnable(node) and _suits(ctx, job, node)]


def hear_service(ctx: Context, service: Service) -> None:
    """Note that a container found no node with room, or none to go to from one that is drained."""
    if ctx.index.unsized:
        ctx.own(Seekers).heard["service", service.id] = None


def serve(ctx: Context) -> None:
    """Switch on the cheapest node that may do for one of those who were heard, if none is booting.

    O(those looked at in a pass x nodes of unknown capacity).
    """
    heard = ctx.own(Seekers).heard
    nodes = _candidates(ctx) if heard else []
    if not nodes:
        heard.clear()  # whoever waits still is heard again in the next pass
        return
    for kind, key in list(islice(heard, MOST_HEARD)):
        job = heard.pop((kind, key))
        found = _for_service(ctx, key) if kind == "service" else _for_job(ctx, key, job)
        node = None if found is None else next(filter(found[1], nodes), None)
        if found is not None and node is not None:
            _switch_on(ctx, node, found[0])
            heard.clear()
            return
    if heard:
        ctx.arm(ctx.now_us + NEXT_US, MACHINE, "next")


def _candidates(ctx: Context) -> list[Node]:
    """Return the nodes that could be learned now, the cheapest first; none while one is."""
    unsized = [ctx.tables.nodes[name] for name in sorted(ctx.index.unsized)]
    if any(node.power is Power.BOOTING for node in unsized):
        return []
    ready, later_us = [], []
    for node in unsized:
        if not _is_learnable(node) or room.is_usable(node, ctx.now_us):
            continue
        _, until_us = ctx.own(Seekers).tries.get(node.name, (0, 0))
        if until_us <= ctx.now_us:
            ready.append(node)
        else:
            later_us.append(until_us)
    if later_us:
        ctx.arm(min(later_us), MACHINE, "again")
    return sorted(ready, key=lambda n: (n.spec.price_nano_per_h, n.spec.power.boot_us, n.name))


def _is_learnable(node: Node) -> bool:
    """Whether a node may be switched on, by tenure itself, to learn what it has."""
    is_asleep = node.power in (Power.OFF, Power.FAILED, Power.BOOTING) and node.is_switchable
    return is_asleep and room.is_welcome(node) and not node.is_in_maintenance


def _suits(ctx: Context, job: Job, node: Node) -> bool:
    return not room.never_for(job, node, ctx.params.job_generations())


def _for_job(ctx: Context, key: str, job: Job | None) -> Wish | None:
    """Return what a job asks of a node; None: it waits no more. ``job`` is one turned away."""
    job = job or ctx.tables.jobs.get(key)
    if job is None:
        return None
    is_turned_away = key not in ctx.tables.jobs
    if not (is_turned_away or key in ctx.index.waiting_jobs or key in ctx.index.homeless):
        return None
    return f"job {job.spec.name}", partial(_suits, ctx, job)


def _for_service(ctx: Context, key: str) -> Wish | None:
    """Return what a container asks of a node; None: it neither waits nor is to leave its own."""
    service = ctx.tables.services.get(key)
    if service is None or service.is_removing:
        return None
    here = ctx.tables.nodes.get(service.node)
    is_leaving = here is not None and here.scheduling is Scheduling.DRAINING
    if service.state not in UNPLACED_SERVICE and not is_leaving:
        return None
    homes, ports = candidates.homes(ctx, service), room.host_ports(service)

    def suits(node: Node) -> bool:
        return node.spec.generation in homes and not room.bar_for(ctx, service, node, ports)

    return f"container {service.name}", suits


def _switch_on(ctx: Context, node: Node, who: str) -> None:
    tries = ctx.own(Seekers).tries
    for name in [name for name in tries if name not in ctx.index.unsized]:
        del tries[name]  # its engine has told, or it was forgotten
    count, _ = tries.get(node.name, (0, 0))
    pause_us = node.spec.power.timeout_us + (AGAIN_US << min(count, MAX_DOUBLINGS))
    tries[node.name] = count + 1, ctx.now_us + pause_us
    power.want_on(ctx, node.name, f"{who} finds no room, and what this node has is not known")
