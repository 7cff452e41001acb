"""The controller before Algorithm 3: tasks are killed for either resource (section II-C)."""

from __future__ import annotations

from dataclasses import replace

from tenure.model.qos import QosParams
from tenure.qos.control import Decision, Kill, Limits, Observation, State, limits_of
from tenure.qos.reclaim import in_order, reclaim


def cuckoo(seen: Observation, state: State, params: QosParams) -> Decision:
    """Return the tasks that end in this period: latest-started first, for memory or for CPU.

    The paper describes Cuckoo's controller by its difference to Algorithm 3 only ("relaunches tasks
    for any resource violation"), so CPU here follows the same lines as memory does there: tasks end
    while harvest uses more than its limit and the threshold's part of the margin, all end when the
    limit is below 0. Nothing is throttled. Missing readings of CPU do nothing by themselves; those
    of memory end all tasks after ``stale_us``.
    """
    limits = limits_of(seen, params)
    kills, state = reclaim(seen, state, params, limits)
    for_cpu = _for_cpu(seen, state, limits, params)
    killing = {**state.killing, **{kill.task.key: seen.at_us for kill in for_cpu}}
    return Decision((*kills, *for_cpu), replace(state, killing=killing), limits)


def _for_cpu(seen: Observation, state: State, limits: Limits, params: QosParams) -> list[Kill]:
    if limits.cpu_m is None or seen.harvest_cpu_m is None:
        return []
    alive = [task for task in seen.tasks if task.key not in state.killing]
    if limits.cpu_m < 0:
        return [Kill(task, "margin", "cpu") for task in in_order(alive)]
    dying = sum(task.cpu_m for task in seen.tasks if task.key in state.killing)
    used = max(seen.harvest_cpu_m - dying, sum(task.cpu_m for task in alive))
    over = used - limits.cpu_m - int(params.threshold * limits.cpu_margin_m)
    kills: list[Kill] = []
    for task in in_order(alive):
        if over <= 0:
            break
        kills.append(Kill(task, "limit", "cpu"))
        over -= task.cpu_m
    return kills
