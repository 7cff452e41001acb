"""Memory back from harvest: which tasks end, latest-started first (Algorithm 3, lines 7-14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenure.model.qos import QosParams
from tenure.qos.control import Kill, Limits, Observation, Reason, State, Task


def wants_tasks(seen: Observation, state: State, params: QosParams, limits: Limits) -> bool:
    """Return whether a decision on memory depends on single tasks; else none of them is killed.

    Looking at every task in every period would be most of the cost of a controller.
    """
    if state.killing or limits.memory_bytes is None or seen.harvest_memory_bytes is None:
        return True
    if limits.memory_bytes < 0 or _is_pressed(seen, state, params):
        return True
    return seen.harvest_memory_bytes > bound_bytes(limits, params)


def bound_bytes(limits: Limits, params: QosParams) -> int:
    """Return the memory that harvest may hold before tasks end: limit + threshold x margin."""
    return (limits.memory_bytes or 0) + int(params.threshold * limits.memory_margin_bytes)


def reclaim(
    seen: Observation, state: State, params: QosParams, limits: Limits
) -> tuple[list[Kill], State]:
    """Return the tasks that end now for memory, and the state after it.

    Tasks that are being killed are not killed again and do not count, until they have taken
    ``kill_timeout_us``: one that the kernel cannot end holds its memory, so another must go.
    The pseudo-code tests ``ramLimit >= sm`` in line 7, which contradicts line 9 (it would kill all
    while a whole margin is free) and the text (all end when less than the margin is free): since
    the margin is already off the limit, all end when the limit is below 0. Missing readings end all
    tasks after ``stale_us``; before that the kernel's own order (OOM score) protects owners.
    """
    state = _forget(seen, state, params)
    known_us = seen.at_us if state.known_us is None else state.known_us
    limit, used = limits.memory_bytes, seen.harvest_memory_bytes
    alive = [task for task in seen.tasks if task.key not in state.killing]
    if limit is None or used is None:
        state = replace(state, known_us=known_us)
        is_stale = seen.at_us - known_us >= params.stale_us
        return _kill(alive if is_stale else [], "stale", seen, state)
    state = replace(state, known_us=seen.at_us)
    if limit < 0:
        return _kill(alive, "margin", seen, state)
    dying = sum(task.memory_bytes for task in seen.tasks if task.key in state.killing)
    # one file of the kernel's is read after the other: neither sum may hide what the other shows
    counted = max(used - dying, sum(task.memory_bytes for task in alive))
    chosen = latest(alive, counted - bound_bytes(limits, params))
    if not chosen and not state.killing and _is_pressed(seen, state, params):
        state = replace(state, pressed_us=seen.at_us)
        return _kill(in_order(alive)[:1], "pressure", seen, state)
    return _kill(chosen, "limit", seen, state)


def latest(tasks: Sequence[Task], over_bytes: int) -> list[Task]:
    """Return the fewest latest-started tasks that hold ``over_bytes``, all where these do not."""
    chosen: list[Task] = []
    for task in in_order(tasks):
        if over_bytes <= 0:
            break
        chosen.append(task)
        over_bytes -= task.memory_bytes
    return chosen


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Return tasks in the order in which they end: latest-started first, then by key."""
    return sorted(tasks, key=lambda task: (-task.started, task.key))


def _forget(seen: Observation, state: State, params: QosParams) -> State:
    present = {task.key for task in seen.tasks}
    oldest_us = seen.at_us - params.kill_timeout_us
    left = {k: at for k, at in state.killing.items() if k in present and at > oldest_us}
    return replace(state, killing=left)


def _kill(
    tasks: Sequence[Task], reason: Reason, seen: Observation, state: State
) -> tuple[list[Kill], State]:
    killing = {**state.killing, **{task.key: seen.at_us for task in tasks}}
    return [Kill(task, reason) for task in in_order(tasks)], replace(state, killing=killing)


def _is_pressed(seen: Observation, state: State, params: QosParams) -> bool:
    if not params.pressure or (seen.memory_pressure or 0.0) < params.pressure:
        return False
    return state.pressed_us is None or seen.at_us - state.pressed_us >= params.pressure_hold_us
