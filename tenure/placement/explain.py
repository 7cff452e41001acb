"""Why a job does not start: per node the filter or dimension, and what would unblock it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

import numpy as np

from tenure.model.placing import Ask, ClusterView, Occupation
from tenure.model.units import FOREVER_US, MIB, US, iso
from tenure.placement.arrays import Fleet, Need, ends_of, fleet_of, need_of
from tenure.placement.decisions.cost import slots
from tenure.placement.decisions.decide import REASONS, decide

#: What a person can do about each filter; a code that is not listed speaks for itself.
REMEDIES = {
    "cordoned": "cordoned: uncordon it",
    "draining": "draining: uncordon it to take new work again",
    "unreachable": "unreachable: its engine does not answer",
    "off": "off, and without a power driver: start its engine",
    "power_stopping": "being switched off: it can be used again once it is off",
    "power_unknown": "its power state is not known yet: its driver is being asked",
    "power_retry_later": "its last power-on failed: it is tried again soon; look at its driver",
    "constraint": "excluded by a constraint of the job",
    "generation": "its generation takes no executors",
    "address": "how other nodes reach it is not known: set `address` of the node in tenured.yml",
    "tiers": "has no durable tier to read a dataset from: name one under `tiers` of the node",
    "image": "does not hold the image: load it there, or name one that a registry offers",
    "avoided": "turned out to be unable to run this job before",
    "removed": "no longer in the configuration",
}
PLACEABLE = "placeable"
SUMMARIES = {
    PLACEABLE: "it fits now; it starts when it is at the head of the queue",
    "no_room": "not enough room is free now",
    "too_late": "a start now would miss the deadline, one a little later may not",
    "no_node": "even with no other job running it would not fit",
}


@dataclass(frozen=True, slots=True)
class Shortage:
    """A dimension in which one executor does not fit: ``short`` = ``need`` - ``free``."""

    dimension: str
    need: int
    free: int
    short: int


@dataclass(frozen=True, slots=True)
class NodeReason:
    """One node as the job sees it.

    ``slots`` executors fit now. ``dropped`` is the filter that excludes it, or empty;
    ``exhausted`` what is short where it is not excluded; ``free_us`` when running executors will
    have left room for one, None where none is needed or none comes; ``unblock`` a sentence,
    empty if nothing is in the way.
    """

    node: str
    slots: int = 0
    dropped: str = ""
    exhausted: tuple[Shortage, ...] = ()
    free_us: int | None = None
    unblock: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits. ``reason`` is placeable, no_room, too_late or no_node; times absolute.

    Of ``executors`` needed, ``slots`` fit now, ``local_slots`` of them on local nodes. ``room_us``
    is when running executors will have left room for all, if they all end as estimated and
    nothing else starts; None where room is there or never comes.
    """

    reason: str
    summary: str
    executors: int
    slots: int
    local_slots: int
    room_us: int | None
    nodes: tuple[NodeReason, ...]

    def to_json(self) -> dict[str, object]:
        """Return the same as dictionaries, lists, numbers and strings."""
        nodes = [asdict(one) for one in self.nodes]
        for row in nodes:
            row["exhausted"] = list(row["exhausted"])
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return own | {"nodes": nodes}


def explain(  # noqa: PLR0913, PLR0917 - the job, its policy and what it meets
    policy: int,
    view: ClusterView,
    ask: Ask,
    drops: Mapping[str, str],
    running: Occupation,
    now_us: int,
) -> Explanation:
    """Say per node why ``ask`` does not start now by the policy of that number, and what would.

    ``drops`` maps the names of excluded nodes to a filter's code (a key of ``REMEDIES`` or the
    caller's own), or to ``"code: detail"``; the others must be eligible in ``ask``.
    """
    if not view.names:
        return Explanation("no_node", "there are no nodes", ask.executors, 0, 0, None, ())
    fleet, need = fleet_of(view), need_of(ask, now_us)
    room = slots(fleet.free_cpu_m, fleet.free_memory, need)
    verdict, _ = decide(policy, fleet, need)
    reason = REASONS.get(verdict, PLACEABLE)
    node_free_us, room_us = _room_times(fleet, need, running, now_us)
    rows = []
    for index, name in enumerate(view.names):
        if not need.eligible[index]:
            rows.append(_dropped(name, drops.get(name, "filtered")))
        elif room[index]:
            sentence = _open_sentence(fleet, need, index)
            rows.append(NodeReason(name, int(room[index]), unblock=sentence))
        else:
            rows.append(_full(name, fleet, need, index, free_us=node_free_us.get(index)))
    return Explanation(
        reason,
        SUMMARIES[reason],
        ask.executors,
        int(room.sum()),
        int(room[~fleet.is_cloud].sum()),
        room_us,
        tuple(rows),
    )


def _dropped(name: str, drop: str) -> NodeReason:
    code, _, detail = drop.partition(": ")
    sentence = REMEDIES.get(code, code)
    return NodeReason(name, dropped=code, unblock=f"{sentence} ({detail})" if detail else sentence)


def _open_sentence(fleet: Fleet, need: Need, index: int) -> str:
    """Return what stands in the way of a node that has room: the deadline, or its boot."""
    boot_us = int(fleet.boot_us[index])
    run_us = need.hybrid_us if fleet.is_cloud[index] else need.local_us
    if boot_us + run_us >= need.limit_us:
        takes, left = _seconds(boot_us + run_us), _seconds(max(need.limit_us, 0))
        return f"too late from here: it takes {takes}, {left} are left to the deadline"
    return f"is off: would be switched on, which takes {_seconds(boot_us)}" if boot_us else ""


def _full(name: str, fleet: Fleet, need: Need, index: int, *, free_us: int | None) -> NodeReason:
    rows = (
        ("cpu_m", need.cpu_m, fleet.free_cpu_m[index], fleet.capacity_cpu_m[index]),
        ("memory_bytes", need.memory_bytes, fleet.free_memory[index], fleet.capacity_memory[index]),
    )
    short = tuple(
        Shortage(dimension, want, int(free), want - int(free))
        for dimension, want, free, _ in rows
        if want > max(free, 0)
    )
    never = [
        f"{_amount(dimension, max(int(capacity), 0))} at most"
        for dimension, want, _, capacity in rows
        if want > max(capacity, 0)
    ]
    if never:
        sentence = f"an executor is larger than this node ever offers: {', '.join(never)}"
    else:
        more = " and ".join(_amount(one.dimension, one.short, "more ") for one in short)
        when = (
            f"free at {iso(free_us)} when executors end"
            if free_us
            else "no executor here gives that back"
        )
        sentence = f"needs {more}; {when}"
    return NodeReason(name, 0, "", short, None if never else free_us, sentence)


def _room_times(
    fleet: Fleet, need: Need, running: Occupation, now_us: int
) -> tuple[dict[int, int], int | None]:
    """Return when each full node has room for one executor, and when all nodes have for all."""
    free_cpu_m, free_memory = fleet.free_cpu_m.copy(), fleet.free_memory.copy()
    room = slots(free_cpu_m, free_memory, need)
    is_enough = int(room.sum()) >= need.executors
    first: dict[int, int] = {}
    room_us = None
    ends = ends_of(running, now_us)
    for node, cpu_m, memory, end_us in zip(*(column.tolist() for column in ends), strict=True):
        free_cpu_m[node] += cpu_m
        free_memory[node] += memory
        one = need._replace(eligible=need.eligible[node : node + 1])
        now_fit = slots(free_cpu_m[node : node + 1], free_memory[node : node + 1], one)[0]
        if now_fit > 0 and room[node] == 0:
            first[node] = end_us
        room[node] = now_fit
        if not is_enough and int(np.sum(room)) >= need.executors:
            is_enough, room_us = True, end_us
    return first, room_us


def _amount(dimension: str, amount: int, more: str = "") -> str:
    if dimension == "cpu_m":
        return f"{amount}m {more}CPU"
    return f"{-(-amount // MIB)} MiB {more}memory"


def _seconds(span_us: int) -> str:
    return "for ever" if span_us >= FOREVER_US else f"{span_us / US:g} s"
