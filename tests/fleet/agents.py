"""The agents of simulated nodes: they end tasks for owners, keep a journal, and go away at times.

L23: a task that its node's agent ended costs no retry.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tenure.model.batch import Task, TaskState
from tenure.model.effects import AskJournal
from tenure.model.events import Event, GuardSeen, HarvestReported
from tenure.model.facts import LABEL_BATCH
from tenure.model.harvest import Guard, HarvestAction, guarded_parent
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.units import US
from tests.fleet.machine import Machine
from tests.fleet.story import LawBroken
from tests.fleet.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.fleet.faults import Faults

Put = Callable[[Callable[[int], Event]], object]
KILLED = 137
#: A question is given up after this long.
TIMEOUT_US = 10 * US


class SimAgents:
    """One agent for each machine whose node lends; they outlive the daemon."""

    def __init__(self, timeline: Timeline, faults: Faults, machines: Mapping[str, Machine]) -> None:
        self._timeline, self._faults, self._machines = timeline, faults, machines
        self._journals: dict[str, list[HarvestAction]] = {}
        self._away: set[str] = set()
        self._put: Put = lambda _: None
        self._specs: tuple[NodeSpec, ...] = ()

    # the daemon's side

    def begin(self, put: Put, specs: tuple[NodeSpec, ...]) -> None:
        """Tell a daemon that starts, or that reads its configuration, how they are."""
        self._put, self._specs = put, specs
        for spec in specs:
            self._tell(spec.name)

    def _tell(self, name: str) -> None:
        spec = next((spec for spec in self._specs if spec.name == name), None)
        if spec is None or spec.harvest is None:
            return
        fault = "no answer" if name in self._away else ""
        guard = Guard(spec.harvest.mode, guarded_parent("cgroupfs", spec.cgroup), fault)
        self._put(lambda at_us: GuardSeen(at_us=at_us, node=name, guard=guard))

    def ask(self, effect: AskJournal, answer: Callable[[Outcome], None]) -> None:
        """Have a journal read; the question may be lost."""
        fault = self._faults.one_of(("lost",))
        if fault:
            self._faults.count("lost:ask_journal")
            self._timeline.after(TIMEOUT_US, lambda: answer(Unknown("timed out")))
        else:
            delay_us = self._faults.delay_us(1, 300)
            self._timeline.after(delay_us, lambda: self._read(effect.node, answer))

    def _read(self, name: str, answer: Callable[[Outcome], None]) -> None:
        if name in self._away:
            answer(Refused("agent_away", "no answer"))
            return
        actions = tuple(self._journals.get(name, ()))
        if actions:
            self._put(lambda at_us: HarvestReported(at_us=at_us, node=name, actions=actions))
        answer(Done())

    # the node's side

    def strike(self, dice: Random) -> None:
        """Have an agent end the latest task of its node, if there is any."""
        name = dice.choice(sorted(self._machines))
        machine = self._machines[name]
        tasks = [c for c in machine.containers.values() if LABEL_BATCH in c.labels and c.is_alive]
        if not tasks or name in self._away:
            return
        self._faults.count("agent_kills")
        latest = tasks[-1]
        machine.end(latest, KILLED)
        journal = self._journals.setdefault(name, [])
        seq = len(journal) + 1
        at_us = self._timeline.now_us + machine.apart_us
        journal.append(HarvestAction(seq, at_us, "kill", "limit", is_done=True, task=latest.id))

    def leave(self, dice: Random) -> None:
        """Have an agent be away for a while."""
        name = dice.choice(sorted(self._machines))
        self._faults.count("agent_away")
        self._away.add(name)
        self._tell(name)
        self._timeline.after(dice.randrange(1, 150) * US, lambda: self.come_back(name))

    def come_back(self, name: str) -> None:
        """Have an agent answer again."""
        self._away.discard(name)
        self._tell(name)

    # L23

    def look_at(self, task: Task) -> None:
        """Look at a task that is about to be called failed."""
        if task.state is not TaskState.FAILED:
            return
        journal = self._journals.get(task.node, ())
        if any(action.task == task.engine_id for action in journal):
            raise LawBroken("L23", f"task {task.key} failed, and its agent ended {task.engine_id}")
