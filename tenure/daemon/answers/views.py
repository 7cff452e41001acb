"""What the daemon shows of the core: explanations, snapshots, dry runs. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator
from dataclasses import asdict, fields, replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from tenure.api.views.lazy import Rows
from tenure.api.views.namespaces import NamespaceView, namespace_view
from tenure.core.attempts import tombstones
from tenure.core.batches import planning
from tenure.core.capacity import forecasts, room, snapshots
from tenure.core.datasets import prefetch_inputs
from tenure.core.dispatch import dispatch_list, task_inputs
from tenure.core.jobs import jobs, offers, plan_head, queue, queue_plan, start
from tenure.core.lifecycle import cycle_runs
from tenure.core.lifecycle import drain as drains
from tenure.core.nodes import harvestable, off_vetoes
from tenure.core.services.migration import eligibility
from tenure.core.state import quotas, reservations
from tenure.core.state.context import Context
from tenure.daemon.answers import readings
from tenure.model.batch import StageSpec
from tenure.model.container import ContainerState, Profile, Service
from tenure.model.drain import DrainReport
from tenure.model.errors import NotFound, Problem
from tenure.model.forecast import ForecastReport
from tenure.model.job import Admission, Constraint, Executor, Job, JobSpec, JobState
from tenure.model.matching import satisfies_all
from tenure.model.node import Node, Power, Reach, Scheduling
from tenure.model.placing import Forecast
from tenure.model.quota import NOTHING, Quota
from tenure.model.reservation import Reservation
from tenure.model.resources import Resources
from tenure.model.roles import Owner
from tenure.model.units import HOUR_US, US, iso

if TYPE_CHECKING:
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
        "reason": job.reason or start.reason_of(ctx, job.id),
        "decision": job.decision,
        "executors": [_executor(ctx, job, key) for key in _keys(ctx, job)],
    }
    if job.state in (JobState.ACCEPTED, JobState.WAITING):
        line = queue.waiting(ctx)
        base["position"] = next((i for i, j in enumerate(line) if j.id == job.id), None)
        base["ahead"] = [j.id for j in line[: base["position"] or 0]][:100]
        here = snapshots.scene(ctx)
        ask = snapshots.ask_now(ctx, job)
        drops = room.drops_for(ctx, job, here.nodes)
        found = policies.explain(job.spec.policy, here.view, ask, drops, here.running, ctx.now_us)
        base["placement"] = found.to_json()
        base["plan"] = _plan(ctx, job)
        if base["plan"] is not None:
            # where one executor would fit now is no reason to start now
            base["placement"]["summary"] = base["plan"]["summary"]
        elif reservations.is_planned(ctx) and plan_head.is_held(ctx, job):
            told = f"waits behind the {ctx.params.max_planned} jobs that are planned, and joins "
            base["placement"]["summary"] = told + "them in its turn as others start"
    return base


def _plan(ctx: Context, job: Job) -> dict[str, Any] | None:
    """Return where and when a job is planned and what an earlier end would cost, None if nowhere.

    ``cost_nano_usd`` is what was promised at its admission.
    """
    reservation = ctx.tables.reservations.get(job.id)
    if reservation is None:
        return None
    soon, promised_nano = queue_plan.at_once(ctx, job), job.admission.cost_nano
    at_once = None
    if soon is not None and soon.end_us < reservation.end_us:
        end = {"start": iso(soon.start_us), "end": iso(soon.end_us), "mode": soon.mode}
        at_once = {**end, "cost_nano_usd": soon.cost_nano}
    return {
        "start": iso(reservation.start_us),
        "end": iso(reservation.end_us),
        "mode": reservation.mode,
        "nodes": dict(reservation.counts),
        "is_late": reservation.is_late,
        "cost_nano_usd": promised_nano,
        "at_once": at_once,
        "summary": _why_then(ctx, reservation, soon if at_once else None, promised_nano),
    }


def _why_then(
    ctx: Context, reservation: Reservation, soon: Forecast | None, promised_nano: int | None
) -> str:
    where = ", ".join(f"{name} ({count})" for name, count in reservation.counts)
    text = f"planned to start at {iso(reservation.start_us)} on {where}"
    if reservation.is_late:
        return f"{text}: it will miss its deadline, no place in time is left"
    if soon is None:
        return f"{text}: no place lets it end earlier"
    earlier = f"to end earlier, at {iso(soon.end_us)}, would cost {_usd(soon.cost_nano)}"
    planned = "" if promised_nano is None else f" instead of {_usd(promised_nano)}"
    return (
        f"{text}, because room that is cheaper or better used comes free then; {earlier}{planned}"
    )


def _usd(nano: int) -> str:
    return f"${nano / 1e9:.6g}"


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
    if job.spec.dataset is not None:
        shown["input"] = readings.summary(ctx, job, executor)
    if node is not None and not executor.is_over and node.unreachable_us is not None:
        shown["lost"] = lost(ctx, node)
    blocking = next((tombstone for tombstone in ctx.tombstones_of(key) if tombstone.reason), None)
    if blocking is not None and not executor.is_over:
        shown["blocked"] = {
            "node": blocking.node,
            "engine_id": blocking.engine_id,
            "reason": blocking.reason,
            "remedy": tombstones.REMEDY,
        }
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


def plan_job(
    ctx: Context, job_id: str, spec: JobSpec, owner: Owner
) -> Generator[None, None, dict[str, Any]]:
    """Return what a submission would be answered now, and what it would be of other policies.

    Nothing is kept. Each step is one admission test.
    """
    job = jobs.new_job(ctx, job_id, spec, owner)
    promise = _promised(jobs.appraise(ctx, job))
    yield
    found = [
        {"policy": offer.policy, "site": offer.site, **_promised(offer.answer)}
        for offer in (yield from offers.offers(ctx, job))
    ]
    answer = {**promise, "offers": found}
    given = spec.dataset
    if given is not None:
        share = -(-given.blocks // spec.executors)
        read_s = job.estimate.read_us / US
        answer["input"] = {"dataset": given.name, "blocks": given.blocks}
        answer["input"] |= {"blocks_each": share, "read_s": read_s}
    return answer


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
    awaited = off_vetoes.awaited(ctx, nodes)
    rooms = [
        (node, room.free_on(ctx, node), room.used_now(ctx, node), _held(ctx, node, awaited))
        for node in nodes
    ]
    known = dict(ctx.tables.nodes.items())
    services = [s for s in ctx.tables.services.values() if s.state not in GONE]
    profiles, now_us = list(ctx.learned.profiles.values()), ctx.now_us
    coming = room.arriving(ctx)

    @cache
    def allowed(limits: tuple[Constraint, ...]) -> list[str] | None:
        return [n.name for n in nodes if satisfies_all(n.spec, limits)] if limits else None

    return {
        "revision": ctx.meta.revision,
        "now_us": ctx.now_us,
        "cooldown_us": ctx.params.cooldown_us,
        "nodes": Rows(_node(*parts, now_us) for parts in rooms),
        "services": Rows(
            _service(s, known.get(s.node), coming.get(s.id, ""), allowed(s.constraints), now_us)
            for s in services
        ),
        "profiles": Rows(_profile(p) for p in profiles if p.container in ctx.tables.services),
        "cycles": [asdict(cycle) for cycle in ctx.learned.cycles.values()],
        "min_on": dict(ctx.params.min_on),
        "spare_cpu_m": ctx.params.spare_cpu_m,
        "strains": cycle_runs.strains(ctx),
        "forecast": asdict(ctx.params.forecast),
    }


def _held(ctx: Context, node: Node, awaited: Collection[str]) -> str:
    """Return what beside services would keep a node on if these left it, "" for nothing."""
    if ctx.executors_on(node.name):
        return "executors of jobs"
    if node.power is Power.ON and node.reach is not Reach.OK:
        return "its engine, which does not answer"
    if node.foreign_running:
        return "containers that are not ours"
    if ctx.index.tombstones.get(node.name) or ctx.index.moves_at.get(node.name):
        return "moves and removals under way"
    if node.name in awaited:
        return "jobs that wait and count on it"
    return "a person's maintenance" if node.is_in_maintenance else ""


def _amount(amount: Resources) -> dict[str, int]:
    """Return an amount as ``dataclasses.asdict`` would, a tenth of its time."""
    return {name: getattr(amount, name) for name in _DIMENSIONS}


def _service(
    service: Service, source: Node | None, arriving: str, allowed: list[str] | None, now_us: int
) -> dict[str, Any]:
    code, why = eligibility.stays(eligibility.as_of(service, now_us), source) or ("", "")
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
        "barred_code": code,
        "barred": why,
        "ports": sorted("/".join(port) for port in room.host_ports(service)),
        "arriving": arriving,
        "allowed": allowed,
    }


def _profile(profile: Profile) -> dict[str, Any]:
    plain = {name: getattr(profile, name) for name in _PROFILE}
    return {**plain, "p90": _amount(profile.p90), "observed": list(profile.observed)}


def _node(node: Node, free: Resources, used: Resources, held: str, now_us: int) -> dict[str, Any]:
    return {
        "name": node.name,
        "generation": node.spec.generation,
        "capacity": _amount(node.capacity),
        "free": _amount(free),
        "used": _amount(used),
        "is_on": node.power is Power.ON,
        "is_schedulable": room.is_usable(node, now_us) == "",
        "is_switchable": node.is_switchable,
        "idle_w": node.spec.power.idle_w,
        "peak_w": node.spec.power.peak_w,
        "images": list(node.images),
        "price_nano_per_h": node.spec.price_nano_per_h,
        "site": node.spec.site.value,
        "held": held,
        "checkpoint": node.spec.checkpoint,
        "is_draining": node.scheduling is Scheduling.DRAINING,
    }


def forecast(ctx: Context, name: str, from_us: int | None) -> ForecastReport:
    """Return what is forecast of a known node, with what it lends in the day from ``from_us`` on.

    None: without that.
    """
    node = ctx.tables.nodes[name]
    found = forecasts.report(ctx, node)
    if from_us is None:
        return found
    return replace(found, spare=harvestable.spare_over(ctx, node, from_us, from_us + 24 * HOUR_US))


def batch_waits(ctx: Context, key: str) -> list[tuple[str, int, str]]:
    """Return the stages of a batch with tasks that wait: how many, and for what.

    For a node, or for the one that they are on, where it does not answer.
    """
    batch, found = ctx.tables.batches[key], []
    silent = _silences(ctx, key)
    for stage in batch.spec.stages:
        stage_tasks = ctx.index.tasks_by_stage[key, stage.name]
        told = sorted((why, count) for (name, why), count in silent.items() if name == stage.name)
        found += [(stage.name, count, why) for why, count in told]
        if not stage_tasks.pending or batch.is_over:
            continue
        before = [name for name in stage.after if ctx.index.tasks_by_stage[key, name].undone]
        planned = ctx.own(dispatch_list.DispatchList).left.get((key, stage.name), 0)
        if before:
            why = f"for the end of {', '.join(before)}"
        elif stage.dataset is not None:
            why = _blocks_awaited(ctx, key, stage)
            if not why:
                why = f"for their turn: {dispatch_list.next_start(ctx, key, stage.name)}"
        elif not planning.is_planned(ctx, key):
            why = "for room: no plan holds the batch, so its tasks begin where there is room"
        elif planned < len(stage_tasks.pending):
            why = f"for a plan: {len(stage_tasks.pending) - planned} have to begin anew"
        else:
            why = f"for their turn: {dispatch_list.next_start(ctx, key, stage.name)}"
        found.append((stage.name, len(stage_tasks.pending), why))
    return found


def _silences(ctx: Context, key: str) -> Counter[tuple[str, str]]:
    """Count the tasks of a batch on nodes that do not answer, by stage and what they wait for."""
    lost = [n.name for n in ctx.tables.nodes.values() if n.unreachable_us is not None]
    here = [task for name in lost for task in ctx.tasks_on(name) if task.batch == key]
    return Counter((task.stage, readings.silence(ctx, task)) for task in here)


def _blocks_awaited(ctx: Context, key: str, stage: StageSpec) -> str:
    """Return what the tasks of a stage over a dataset wait for, "" if for their turn alone.

    Some of them are looked at: it is done on the loop.
    """
    some = islice(ctx.index.tasks_by_stage[key, stage.name].pending, prefetch_inputs.MOST)
    tasks_ = [ctx.tables.tasks[f"{key}/{index}"] for index in some]
    looks = [task_inputs.look_at(ctx, stage, task) for task in tasks_]
    missing = sum(look is None or not look.is_readable for look in looks)
    if not missing:
        if planning.is_planned(ctx, key) and not dispatch_list.is_matched(stage):
            return ""
        return "for room on a node that holds their block, or to which it may be brought"
    notes = sorted({look.block.note for look in looks if look is not None and look.block.note})
    told = f"for a copy of their block that can be read, {missing} of {len(looks)}"
    return "; ".join((told, *notes[:3]))


def lending_of(ctx: Context, node: str) -> tuple[dict[str, int], str]:
    """Return the tasks of batches on a node by state, and why no more may begin there."""
    states = Counter(task.state.value for task in ctx.tasks_on(node))
    return dict(sorted(states.items())), harvestable.objection(ctx, ctx.tables.nodes[node])


def aboard(ctx: Context, node: str) -> tuple[list[Executor], list[Service]]:
    """Return the executors and containers that are on a node."""
    return ctx.executors_on(node), ctx.services_on(node)


def namespaces(ctx: Context, uploads: Counter[str]) -> list[NamespaceView]:
    """Return the namespaces of which something is, or that have a quota.

    ``uploads`` are the bytes of open uploads, by namespace.
    """
    held, bounds, kept = ctx.index.usage, ctx.learned.quotas, quotas.put_out(ctx)
    return [
        namespace_view(
            name,
            held.get(name, NOTHING)._replace(output_bytes=kept[name], upload_bytes=uploads[name]),
            bounds.get(name, Quota()),
        )
        for name in sorted(held.keys() | bounds.keys() | (+kept).keys() | uploads.keys())
    ]
