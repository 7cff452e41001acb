"""What the daemon shows of the core: explanations, snapshots, dry runs. Reads only."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, fields
from typing import Any

from tenure.api.lazy import Rows
from tenure.core import board, jobs, offers, queue, room
from tenure.core import drain as drains
from tenure.core.context import Context
from tenure.model.container import ContainerState, Profile, Service
from tenure.model.drain import DrainReport
from tenure.model.errors import NotFound, Problem
from tenure.model.job import Admission, Job, JobSpec, JobState
from tenure.model.node import Node, Power
from tenure.model.resources import Resources
from tenure.model.units import iso
from tenure.placement.policies import Policies

GONE = (ContainerState.REMOVED, ContainerState.FAILED)
_DIMENSIONS = tuple(field.name for field in fields(Resources))
_PROFILE = tuple(field.name for field in fields(Profile))


def explain(ctx: Context, policies: Policies, job_id: str) -> dict[str, Any]:
    """Return why a job is where it is; for one that waits, node by node."""
    job = ctx.tables.jobs.get(job_id)
    if job is None:
        raise NotFound(f"no job {job_id}")
    base: dict[str, Any] = {
        "job": job.id,
        "state": job.state.value,
        "reason": job.reason or ctx.why.get(job.id, ""),
        "executors": [_executor(ctx, job, key) for key in _keys(ctx, job)],
    }
    if job.state in (JobState.ACCEPTED, JobState.WAITING):
        line = queue.waiting(ctx)
        base["position"] = next((i for i, j in enumerate(line) if j.id == job.id), None)
        base["ahead"] = [j.id for j in line[: base["position"] or 0]][:100]
        here = board.scene(ctx)
        ask = board.ask_now(ctx, job)
        drops = room.drops_for(ctx, job, here.nodes)
        found = policies.explain(job.spec.policy, here.view, ask, drops, here.running, ctx.now_us)
        base["placement"] = found.to_json()
    return base


def _keys(ctx: Context, job: Job) -> list[str]:
    return [executor.key for executor in ctx.executors_of(job.id)]


def _executor(ctx: Context, job: Job, key: str) -> dict[str, Any]:
    executor = ctx.tables.executors[key]
    node = ctx.tables.nodes.get(executor.node)
    shown: dict[str, Any] = {
        "index": executor.index,
        "state": executor.state.value,
        "node": executor.node or None,
        "attempt": executor.attempt,
        "note": executor.note,
    }
    if node is not None and not executor.is_over and node.unreachable_us is not None:
        shown["lost"] = lost(ctx, node)
    return shown


def lost(ctx: Context, node: Node) -> dict[str, Any]:
    """Say which of the three fences is missing before work on the node restarts elsewhere."""
    after = ctx.params.fence_after_us
    fence_us = None
    is_tenures = node.is_switchable and not node.is_in_maintenance
    if is_tenures and after is not None and node.unreachable_us is not None:
        fence_us = node.unreachable_us + after
    return {
        "node": node.name,
        "since": iso(node.unreachable_us),
        "power_driver": _driver(node, fence_us),
        "fenced_at": iso(fence_us),
        "agent_lease": "no agent on this node",
        "operator": f"tenure node fence {node.name} --yes, once nothing runs there for certain",
    }


def _driver(node: Node, fence_us: int | None) -> str:
    if node.is_in_maintenance:
        return "left alone: the node is in maintenance"
    return "will switch it off" if fence_us is not None else "none configured"


def plan_job(ctx: Context, job_id: str, spec: JobSpec) -> dict[str, Any]:
    """Return what a submission would be answered now, and what it would be of other policies.

    Nothing is kept.
    """
    job = jobs.new_job(ctx, job_id, spec)
    found = [
        {"policy": offer.policy, "site": offer.site, **_promised(offer.answer)}
        for offer in offers.offers(ctx, job)
    ]
    return {**_promised(jobs.appraise(ctx, job)), "offers": found}


def _promised(answer: Admission | Problem) -> dict[str, Any]:
    if isinstance(answer, Problem):
        return {
            "is_accepted": False,
            "code": answer.code,
            "detail": answer.detail,
            "errors": [{"field": f.path, "message": f.message} for f in answer.fields],
            **(answer.extra or {}),
        }
    return {
        "is_accepted": True,
        "class": answer.class_,
        "start": iso(answer.start_us),
        "end": iso(answer.end_us),
        "cost_nano_usd": answer.cost_nano,
    }


def drain(ctx: Context, name: str, *, is_dry: bool) -> DrainReport | None:
    """Return the latest drain of a known node (None: it never had one), or what one would do."""
    if is_dry:
        return drains.rehearse(ctx, ctx.tables.nodes[name])
    record = ctx.tables.drains.get(name)
    return None if record is None else drains.report(ctx, record)


def snapshot(ctx: Context) -> Generator[None, None, dict[str, Any]]:
    """Return what a worker plans from: nodes with their room, services with their profiles.

    All of it is of one moment, the last step's; the steps before have the loads of nodes computed,
    which the core keeps. What takes long is made later, row by row, of records that do not change
    any more: ``lazy.Rows``.
    """
    for node in list(ctx.tables.nodes.values()):
        if not node.is_removed:
            room.free_on(ctx, node)
            yield
    nodes = [node for node in ctx.tables.nodes.values() if not node.is_removed]
    rooms = [(node, room.free_on(ctx, node), ctx.now_us) for node in nodes]
    services = list(ctx.tables.services.values())
    profiles = list(ctx.profiles.values())
    return {
        "revision": ctx.meta.revision,
        "now_us": ctx.now_us,
        "cooldown_us": ctx.params.cooldown_us,
        "nodes": Rows(_node(*parts) for parts in rooms),
        "services": Rows(_service(s) for s in services if s.state not in GONE),
        "profiles": Rows(_profile(p) for p in profiles if p.container in ctx.tables.services),
        "cycles": [asdict(cycle) for cycle in ctx.cycles.values()],
    }


def _amount(amount: Resources) -> dict[str, int]:
    """Return an amount as ``dataclasses.asdict`` would, a tenth of its time."""
    return {name: getattr(amount, name) for name in _DIMENSIONS}


def _service(service: Service) -> dict[str, Any]:
    return {
        "id": service.id,
        "name": service.name,
        "app": service.app,
        "node": service.node,
        "generation": service.generation,
        "incarnation": service.incarnation,
        "since_us": service.since_us,
        "state": service.state.value,
        "migrate": service.migrate,
        "reserved": _amount(service.reserved),
        "min_age_us": service.min_age_us,
        "moved_us": service.moved_us,
        "image": str(service.body.get("Image", "")),
        "is_pullable": service.is_pullable,
    }


def _profile(profile: Profile) -> dict[str, Any]:
    plain = {name: getattr(profile, name) for name in _PROFILE}
    return {**plain, "p90": _amount(profile.p90), "observed": list(profile.observed)}


def _node(node: Node, free: Resources, now_us: int) -> dict[str, Any]:
    return {
        "name": node.name,
        "generation": node.spec.generation,
        "capacity": _amount(node.capacity),
        "free": _amount(free),
        "is_on": node.power is Power.ON,
        "is_schedulable": room.is_usable(node, now_us) == "",
        "is_switchable": node.is_switchable,
        "idle_w": node.spec.power.idle_w,
        "peak_w": node.spec.power.peak_w,
        "images": list(node.images),
    }
