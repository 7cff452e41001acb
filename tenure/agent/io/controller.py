"""The control loop: looks at the node every period, asks the law, and does what it says.

A thread of its own, so that who asks for samples delays no protection. It needs neither the engine
nor the daemon.
"""

from __future__ import annotations

import logging
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from tenure.agent.gauges import Counters, observe
from tenure.agent.io.actions import ActionJournal
from tenure.agent.io.oom import OomWatch
from tenure.agent.io.orders import Orders
from tenure.agent.io.parent import Parent
from tenure.agent.io.priority import Priority, hurry, lock_memory
from tenure.agent.lateness import BOUNDS_US, Lateness, next_due_us
from tenure.agent.layout import container_of
from tenure.model.harvest import HarvestAction
from tenure.model.qos import QosParams
from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.qos.control import (
    Action,
    Decision,
    Kill,
    Observation,
    SetQuota,
    State,
    limits_of,
)
from tenure.qos.laws import LAWS
from tenure.qos.reclaim import wants_tasks

log = logging.getLogger(__name__)

#: The parent is prepared, and capacity read, at the start and every so often.
PREPARE_US = US
#: An action that fails is tried in every period and recorded as often as this.
FAILURE_US = 10 * US


class LatenessStatus(TypedDict):
    """How late the loop came: a histogram (``counts`` has one more than ``bounds_us``)."""

    bounds_us: list[int]
    counts: list[int]
    sum_us: int
    p50_us: int
    p99_us: int
    max_us: int


class OwnStatus(TypedDict):
    """What the agent itself takes, and how the kernel treats it."""

    loop_cpu_us: int
    cpu_us: int
    rss_bytes: int
    scheduling: str
    scheduling_fault: str
    is_locked: bool
    releases: bool


class Status(TypedDict):
    """How the controller is, as JSON data; ``numbers`` are what its last decision followed from."""

    mode: str
    controller: str
    revision: str
    cgroup_parent: str
    period_us: int
    looks: int
    missed: int
    kills: int
    fault: str
    quota_m: int | None
    numbers: dict[str, int]
    lateness: LatenessStatus
    own: OwnStatus


class Controller:
    """Protects a node's owners; ``run`` in a thread until ``stop``."""

    def __init__(
        self,
        parent: Parent,
        orders: Orders,
        journal: ActionJournal,
        capacity: Callable[[], Resources],
        *,
        is_realtime: bool = True,
    ) -> None:
        self._is_realtime = is_realtime
        self._parent, self._orders, self._journal = parent, orders, journal
        self._oom = OomWatch(parent)
        self._read_capacity = capacity
        self._capacity = Resources()
        self._state = State()
        self._before: Counters | None = None
        self._seen: Observation | None = None
        self._decision: Decision | None = None
        self._lateness = Lateness()
        self._count: Counter[str] = Counter()
        self._prepared_us = -PREPARE_US
        self._fault = ""
        self._failures: dict[tuple[str, str], int] = {}
        self._advised_m: int | None = None
        self._priority = Priority()
        self._is_locked = False
        self._stopping = threading.Event()
        self._seq = journal.newest_seq

    def run(self) -> None:
        """Look every period until ``stop``; ends with harvest at its floor."""
        self._hurry()
        try:
            due_us = _now_us()
            while not self._stopping.is_set():
                self._lateness.add(_now_us() - due_us)
                self.look()
                period_us = self._orders.current.params.period_us
                now_us = _now_us()
                after_us = next_due_us(due_us, now_us, period_us)
                self._count["missed"] += (after_us - due_us) // period_us - 1
                due_us = after_us
                self._stopping.wait((due_us - _now_us()) / US)
        finally:
            self._let_go()

    def stop(self) -> None:
        """Ask the loop to end."""
        self._stopping.set()

    def look(self) -> None:
        """Look once, decide, and enact; what the node does not let us do is told, not raised."""
        params = self._orders.current.params
        if params.mode == "off":
            self._before, self._state, self._seen, self._decision = None, State(), None, None
            self._oom.close()
            return
        self._prepare()
        now, seen = self._observe(params)
        decision = LAWS[params.controller](seen, self._state, params)
        for action in decision.actions:
            self._enact(action, seen, decision, params)
        if params.mode == "act":
            for key in self._state.killing.keys() & decision.state.killing.keys():
                self._parent.kill(key)  # what it forked while it was killed
        self._note_starved(seen, decision)
        self._before, self._state = now, decision.state
        self._seen, self._decision = seen, decision
        self._count["looks"] += 1
        self._count["cpu_us"] = time.thread_time_ns() // 1000

    def status(self, cgroup_parent: str) -> Status:
        """Return how it is, for people, metrics and the daemon; from any thread."""
        order, late, count = self._orders.current, self._lateness.view(), self._count
        seen, decision = self._seen, self._decision
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "mode": order.params.mode,
            "controller": order.params.controller,
            "revision": order.revision,
            "cgroup_parent": cgroup_parent,
            "period_us": order.params.period_us,
            "looks": count["looks"],
            "missed": count["missed"],
            "kills": count["kills"],
            "fault": self._fault,
            "quota_m": seen.quota_m if seen else None,
            "numbers": _numbers(seen, decision) if seen and decision else {},
            "lateness": {
                "bounds_us": list(BOUNDS_US),
                "counts": list(late.counts),
                "sum_us": late.total_us,
                "p50_us": late.p50_us,
                "p99_us": late.p99_us,
                "max_us": late.max_us,
            },
            "own": {
                "loop_cpu_us": count["cpu_us"],
                "cpu_us": round((usage.ru_utime + usage.ru_stime) * US),
                "rss_bytes": _rss_bytes(),
                "scheduling": self._priority.scheduling,
                "scheduling_fault": self._priority.fault,
                "is_locked": self._is_locked,
                "releases": self._parent.releases,
            },
        }

    def _prepare(self) -> None:
        now_us = _now_us()
        if now_us - self._prepared_us < PREPARE_US:
            return
        self._prepared_us = now_us
        self._capacity = self._read_capacity()
        faults = self._parent.prepare()
        self._parent.end_round()
        self._note("; ".join(faults))

    def _observe(self, params: QosParams) -> tuple[Counters, Observation]:
        """Look at single tasks only where the decision depends on them."""
        needs_all = params.controller != "salamander"
        now = self._parent.counters(self._capacity, with_tasks=needs_all, with_cpu=needs_all)
        seen = self._as_advised(observe(self._before, now, params.period_us), params)
        if needs_all or not wants_tasks(seen, self._state, params, limits_of(seen, params)):
            return now, seen
        now = self._parent.counters(self._capacity, with_tasks=True, with_cpu=False)
        return now, self._as_advised(observe(self._before, now, params.period_us), params)

    def _as_advised(self, seen: Observation, params: QosParams) -> Observation:
        """Return what would be seen if advice had been followed."""
        if params.mode == "act":
            return seen
        return replace(seen, quota_m=self._advised_m)

    def _enact(
        self, action: Action, seen: Observation, decision: Decision, params: QosParams
    ) -> None:
        faults: list[str] = []
        if params.mode == "act":
            faults = self._do(action)
        elif isinstance(action, SetQuota):
            self._advised_m = action.quota_m
        if faults and self._is_told(action, faults[0], seen.at_us):
            return
        is_done = params.mode == "act" and not faults
        self._count["kills"] += is_done and isinstance(action, Kill)
        self._record(action, seen, decision, "; ".join(faults), is_done=is_done)

    def _do(self, action: Action) -> list[str]:
        if isinstance(action, SetQuota):
            return self._parent.set_quota(action.quota_m)
        if isinstance(action, Kill):
            return self._parent.kill(action.task.key)
        return self._parent.set_soft(action.soft_bytes)

    def _is_told(self, action: Action, fault: str, at_us: int) -> bool:
        key = (type(action).__name__, fault)
        last_us = self._failures.get(key)
        if last_us is not None and at_us - last_us < FAILURE_US:
            return True
        if len(self._failures) > 100:
            self._failures.clear()
        self._failures[key] = at_us
        self._note(fault)
        return False

    def _note_starved(self, seen: Observation, decision: Decision) -> None:
        """Record the tasks that the kernel ended because the node was short of memory."""
        killing = {*self._state.killing, *decision.state.killing}
        for task in self._oom.look(killing):
            numbers = _numbers(seen, decision) | {"is_certain": int(task.is_certain)}
            key = container_of(task.key) or task.key
            self._journal_action("oom", "short", numbers, task=key, resource="memory")

    def _record(
        self, action: Action, seen: Observation, decision: Decision, error: str, *, is_done: bool
    ) -> None:
        numbers = _numbers(seen, decision)
        kind, task, resource_ = "quota", "", "cpu"
        if isinstance(action, SetQuota):
            numbers["quota_m"] = action.quota_m
        elif isinstance(action, Kill):
            kind, resource_ = "kill", action.resource
            task = container_of(action.task.key) or action.task.key
            numbers["task_memory_bytes"] = action.task.memory_bytes
        else:
            kind, resource_ = "soft_memory", "memory"
            numbers["soft_bytes"] = action.soft_bytes
        words = {"task": task, "resource": resource_, "error": error}
        self._journal_action(kind, action.reason, numbers, is_done=is_done, **words)

    def _journal_action(
        self,
        kind: str,
        reason: str,
        numbers: dict[str, int],
        *,
        is_done: bool = True,
        **words: str,
    ) -> None:
        at_us = time.time_ns() // 1000
        self._seq = max(self._seq + 1, at_us)
        numbers = numbers | {"look": self._count["looks"]}
        made = HarvestAction(self._seq, at_us, kind, reason, is_done, numbers=numbers, **words)
        self._journal.add(made)

    def _note(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.error("harvest is not held as it should be: %s", fault)
        self._fault = fault

    def _hurry(self) -> None:
        self._priority = hurry(is_realtime=self._is_realtime)
        self._is_locked = lock_memory()
        if self._priority.fault:
            log.warning(
                "the control loop runs at %s priority: %s",
                self._priority.scheduling,
                self._priority.fault,
            )

    def _let_go(self) -> None:
        """Leave harvest at its floor: nobody looks after the owners from now on."""
        params = self._orders.current.params
        if params.mode == "act":
            self._note("; ".join(self._parent.set_quota(params.floor_m)))
        self._oom.close()
        self._parent.close()


def _numbers(seen: Observation, decision: Decision) -> dict[str, int]:
    """Return what a decision followed from; what is not known is left out."""
    limits = decision.limits
    found = {
        "cpu_limit_m": limits.cpu_m,
        "regular_cpu_m": seen.regular_cpu_m,
        "harvest_cpu_m": seen.harvest_cpu_m,
        "memory_limit_bytes": limits.memory_bytes,
        "regular_memory_bytes": seen.regular_memory_bytes,
        "harvest_memory_bytes": seen.harvest_memory_bytes,
        "before_m": seen.quota_m,
    }
    return {name: number for name, number in found.items() if number is not None}


def _rss_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _now_us() -> int:
    return time.monotonic_ns() // 1000
