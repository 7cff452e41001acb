"""Algorithm 3: CPU is throttled benignly, memory is taken back by ending the latest tasks."""

from __future__ import annotations

from dataclasses import replace

from tenure.model.qos import QosParams
from tenure.qos.control import (
    Action,
    Decision,
    Limits,
    Observation,
    Reason,
    SetQuota,
    SetSoftMemory,
    State,
    limits_of,
)
from tenure.qos.reclaim import reclaim

#: Quotas are whole hundredths of a core: every write of one refills it, so noise is not written.
GRAIN_M = 10
#: A soft limit of memory moves in such parts of the node's.
SOFT_PARTS = 64


def salamander(seen: Observation, state: State, params: QosParams) -> Decision:
    """Return what to do in this period (Salamander, Algorithm 3).

    CPU (lines 3-6): the quota of all harvest together is capacity - regular use - margin, never
    below the floor. It falls in the period in which the limit falls, and rises to the least limit
    of the last ``calm_periods`` (ours). On a saturated node owners use only what harvest leaves, so
    the law alone would yield one margin a period: the quota goes to its floor at once (ours).
    Missing or stale readings of CPU are a limit of 0. Memory: see ``reclaim``.
    """
    limits = limits_of(seen, params)
    reason = _reason(seen, params, limits)
    known = 0 if reason == "stale" else limits.cpu_m or 0
    recent = (*state.limits, known)[-params.calm_periods :]
    actions: list[Action] = []
    # with harvest at its floor the next period shows what owners really want
    if (quota_m := _quota(seen, params, 0 if reason == "saturated" else min(recent))) is not None:
        actions.append(SetQuota(quota_m, reason))
    if params.has_soft_memory and (soft := _soft(seen, limits, params)) is not None:
        actions.append(SetSoftMemory(soft))
    kills, state = reclaim(seen, state, params, limits)
    return Decision((*actions, *kills), replace(state, limits=recent), limits)


def _reason(seen: Observation, params: QosParams, limits: Limits) -> Reason:
    """Return why the quota is what it will be.

    Saturated: owners and what harvest may take at present leave less than the part of the margin
    that owners may not enter; or owners alone leave so little that the rest is not worth a risk.
    Harvest counts with its quota at most, for one that was throttled midway through the period has
    used more than it can in the next.
    """
    if limits.cpu_m is None or seen.harvest_cpu_m is None:
        return "stale"
    harvest_m = seen.harvest_cpu_m
    if seen.quota_m is not None:
        harvest_m = min(harvest_m, seen.quota_m)
    borne_m = params.threshold * limits.cpu_margin_m
    is_full = harvest_m - limits.cpu_m > borne_m or limits.cpu_m < borne_m
    return "saturated" if is_full else "limit"


def _quota(seen: Observation, params: QosParams, limit_m: int) -> int | None:
    """Return the quota to write, None where the one that stands is right."""
    wanted = max(params.floor_m, limit_m // GRAIN_M * GRAIN_M)
    stands = seen.quota_m
    if stands is None or wanted < stands:
        return wanted
    return wanted if wanted - stands >= max(GRAIN_M, params.raise_m) else None


def _soft(seen: Observation, limits: Limits, params: QosParams) -> int | None:
    if limits.memory_bytes is None:
        return None
    grain = max(SOFT_PARTS, seen.capacity.memory_bytes, params.memory_bytes) // SOFT_PARTS
    wanted = max(0, limits.memory_bytes) // grain * grain
    stands = seen.soft_bytes
    if stands is None or wanted < stands or wanted - stands >= 2 * grain:
        return wanted
    return None
