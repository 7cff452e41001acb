"""The daemon's shell in the simulation: what ``tenure.daemon`` does, one batch after the other.

A batch of events is handled, its changes are committed in one transaction, and only then its
effects and replies go out. The daemon may die before the commit, before, amid or after the effects;
what was not committed is lost, what an engine was already asked may still happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tenure.core.fleet import FleetState
from tenure.core.lifecycle.clock_steps import at_start, at_step
from tenure.core.state.learned import Learned
from tenure.core.state.params import Params
from tenure.harvest.admission import answer
from tenure.harvest.progress import Watch
from tenure.locality.localizer import Tiers
from tenure.model.effects import (
    Abort,
    AskJournal,
    Decide,
    Effect,
    LocateBlocks,
    ProbePower,
    Question,
    Relist,
    Reply,
    SwitchPower,
    Trigger,
)
from tenure.model.events import Configured, EffectEnded, Event, NodeListed, Tick
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Outcome, Refused
from tenure.model.placing import Placer
from tenure.placement.decisions.milp import outcome_of
from tests.fleet import remembered
from tests.fleet.agents import SimAgents
from tests.fleet.clocks import SimClocks
from tests.fleet.faults import DEATHS, Faults
from tests.fleet.laws import Laws
from tests.fleet.machine import Machine
from tests.fleet.power import SimPower
from tests.fleet.states import state_of
from tests.fleet.store import SimStore
from tests.fleet.story import Story
from tests.fleet.tale import told_effect, told_event
from tests.fleet.timeline import Timeline
from tests.fleet.watch import Watchers
from tests.fleet.wire import Wire

Make = Callable[[int], Event]
#: A dead daemon is back after this long (milliseconds).
DOWN_MS = (100, 40_000)
#: The real solver may take so long for a question, of the time outside of the simulation.
SOLVE_S = 60.0
#: L17 works everything out anew, which takes longer than the batch; what is stale stays stale.
REMEMBERED_EVERY = 11


def _told_data(data: dict[str, object]) -> str:
    shown = ("node", "source", "target", "reason", "note", "why", "exit_code")
    return " ".join(f"{key}={data[key]}" for key in shown if data.get(key))


class Askers(Protocol):
    """Who sends commands and gets replies."""

    def on_reply(self, reply: Reply) -> None:
        """Take in an answer."""

    def on_trigger(self, trigger: Trigger) -> None:
        """Run a cycle because the daemon asks."""


class Surroundings:
    """Everything around the daemon that outlives it."""

    def __init__(self, timeline: Timeline, faults: Faults, story: Story, *, relist_us: int) -> None:
        self.timeline = timeline
        self.faults = faults
        self.story = story
        self.store = SimStore()
        self.machines: dict[str, Machine] = {}
        self.power = SimPower(timeline, faults)
        self.wire = Wire(timeline, faults, self.machines)
        self.agents = SimAgents(timeline, faults, self.machines)
        self.clocks = SimClocks(timeline)
        self.watchers = Watchers(timeline, faults, self.clocks, relist_us=relist_us)
        self.laws = Laws(self.store, self.machines, timeline)
        self.laws.look_at_end = self.agents.look_at
        self.laws.ours_us = lambda: self.clocks.now_us
        self.power.going_off = self.laws.going_off


class SimShell:
    """One daemon, life after life."""

    def __init__(
        self, around: Surroundings, params: Params, placer: Placer, *, configured: Configured
    ) -> None:
        self.around = around
        self.params = params
        self.placer = placer
        self.configured = configured
        self.askers: Askers | None = None
        self.state: FleetState | None = None
        self.dead_us = 0
        self._died_us = around.timeline.now_us
        self._inbox: list[Make] = []
        self._batches = 0
        self._epoch = 0
        self._is_woken = self._is_begun = False
        self._tick_us: int | None = None
        self._shown: dict[str, str] = {}
        #: Number of the latest batch, and how many events it had.
        self.handled = (0, 0)

    @property
    def is_alive(self) -> bool:
        return self.state is not None

    # life and death

    def start(self) -> None:
        """Begin a life: load, resolve the outbox, configure, watch."""
        if self.state is not None:
            return
        timeline = self.around.timeline
        timeline_us = timeline.now_us - self._died_us
        self.dead_us += timeline_us
        self.tell("daemon starts")
        self.state = FleetState(
            self.params,
            lambda: self.placer,
            localizer=Tiers(),
            fleet="sim",
            cycles=self.configured.cycles,
        )
        self.state.load(self.around.store.load())
        self.around.laws.needs.cycles = self.configured.cycles
        self.around.laws.params = self.params
        self.around.laws.on_restart()
        self._is_begun = False
        self._wake()
        self.reload()
        if self.state is not None:
            self.around.watchers.begin(self.around.machines, self.put)
            self.around.agents.begin(self.put, self.configured.nodes)

    def configure(self, nodes: tuple[NodeSpec, ...]) -> None:
        """Change the configuration and have it read."""
        before = {spec.name for spec in self.configured.nodes}
        self.configured = replace(self.configured, nodes=nodes)
        self.reload()
        self.around.agents.begin(self.put, nodes)
        for spec in nodes:
            if spec.name not in before:
                self.around.watchers.renew(self.around.machines[spec.name])

    def reload(self) -> None:
        """Have the configuration read."""
        nodes, cycles = self.configured.nodes, self.configured.cycles
        self.put(lambda at_us: Configured(at_us=at_us, nodes=nodes, cycles=cycles))

    def die(self, why: str) -> None:
        """End this life at once, by kill -9; another begins later."""
        if self.state is None:
            return
        self.tell(f"daemon dies: {why}")
        for move in self.around.store.table("migrations").values():
            if not move.is_over:
                self.around.story.strike(f"death:{move.step.value}")
        self._epoch += 1
        self.state = None
        self._inbox.clear()
        self._is_woken = False
        self._tick_us = None
        self._died_us = self.around.timeline.now_us
        self.around.watchers.end()
        self.around.power.daemon_died()
        self.around.timeline.after(self.around.faults.delay_us(*DOWN_MS), self.start)

    # the inbox

    def put(self, make: Make) -> bool:
        """Queue an event; False when there is no daemon."""
        if self.state is None:
            return False
        self._inbox.append(make)
        self._wake()
        return True

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._later(self.around.faults.delay_us(0, 5), self._batch)

    def beat(self) -> None:
        """Have the loop's heartbeat come now."""
        self.put(lambda at_us: Tick(at_us=at_us))

    def _later(self, delay_us: int, act: Callable[[], None]) -> None:
        epoch = self._epoch
        self.around.timeline.after(delay_us, lambda: act() if epoch == self._epoch else None)

    def _batch(self) -> None:
        assert self.state is not None
        self._is_woken = False
        makers, self._inbox = self._inbox, []
        events = self._first()
        now_us = self.around.clocks.now_us
        events += [make(now_us) for make in makers]
        for event in events:
            self._tell_event(event)
        self.handled = (self._batches + 1, len(events))
        needs, known = self.around.laws.needs, state_of(self.state, Learned).profiles
        needs.before = dict(known)
        effects = self.state.handle_all(events)
        needs.after = known
        self._batches += 1
        if self._batches % REMEMBERED_EVERY == 0:
            remembered.check(self.state)
        death = self.around.faults.one_of(DEATHS)
        if death == "death_before_commit":
            self.die(death)
            return
        changes = self.state.take_changes()
        self.around.laws.on_commit(changes)
        self.around.store.commit(changes)
        self.around.laws.after_commit()
        for public in changes.events:
            self.around.story.strike(public.type)
            if public.type == "node.stopping" and "fence" in str(public.data.get("why")):
                self.around.story.strike("fenced_by_power")
            if "has no room" in str(public.data.get("reason")):
                self.around.story.strike("nursery_full")
            self.tell(f"  * {public.type} {public.subject[:20]} {_told_data(public.data)}")
        self._carry_out(effects, death)
        self._arm()

    def _first(self) -> list[Event]:
        """Return what the daemon's loop has the core hear before all else: a start, or a step."""
        assert self.state is not None
        clocks = self.around.clocks
        if not self._is_begun:
            self._is_begun = True
            meta = self.state.meta
            return at_start(clocks.begin(meta.clock, meta.clock_us))
        was_us = clocks.now_us
        after, step_us = clocks.check()
        if after is None:
            return []
        self._tick_us = None  # it is due by another time
        return at_step(was_us, clocks.now_us, after, step_us)

    def _carry_out(self, effects: list[Effect], death: str) -> None:
        last = len(effects)
        if death == "death_before_effects":
            last = 0
        elif death == "death_amid_effects":
            last = self.around.faults.random.randint(0, len(effects))
        for effect in effects[:last]:
            self._dispatch(effect)
        if death:
            self.die(death)

    def _arm(self) -> None:
        """Have a tick come when the core wants one."""
        due_us = self.state.wakeup_us() if self.state is not None else None
        if due_us is None or (self._tick_us is not None and self._tick_us <= due_us):
            return
        self._tick_us = due_us
        self._later(max(0, due_us - self.around.clocks.now_us), lambda: self._tick(due_us))

    def _tick(self, due_us: int) -> None:
        if self._tick_us == due_us:
            self._tick_us = None
            self.put(lambda at_us: Tick(at_us=at_us))

    # effects

    def _dispatch(self, effect: Effect) -> None:
        self.tell(f"  < {told_effect(effect)}")
        self.around.laws.on_dispatch(effect)
        if isinstance(effect, Reply | Trigger):
            self._answer(effect)
        elif isinstance(effect, Abort):
            pass  # as if it came too late: the copy ends as it would have
        elif isinstance(effect, Relist):
            self.around.watchers.relist(effect.node)
        elif isinstance(effect, SwitchPower):
            self.around.power.switch(effect, self._ender(effect.id))
        elif isinstance(effect, ProbePower):
            self.around.power.probe(effect, self._ender(effect.id))
        elif isinstance(effect, Question):
            self._think(effect)
        elif isinstance(effect, AskJournal):
            self.around.agents.ask(effect, self._ender(effect.id))
        else:
            self.around.wire.send(effect, self._ender(effect.id))

    def _answer(self, effect: Reply | Trigger) -> None:
        if self.askers is None:
            return
        if isinstance(effect, Reply):
            self.askers.on_reply(effect)
        else:
            self.askers.on_trigger(effect)

    def _think(self, effect: Question) -> None:
        """Have the real solver or planner think; the daemon may hear of it late, or not at all."""
        fault = self.around.faults.one_of(("slow", "lost"))
        if fault:
            self.around.faults.count(f"{fault}:{effect.kind}")
        if fault == "lost":
            return
        delay_us = self.around.faults.delay_us(10, 60_000 if fault else 2_000)
        found: Outcome
        if isinstance(effect, Decide):
            found = outcome_of(effect.policy, effect.view, effect.ask, effect.now_us, SOLVE_S)
        elif isinstance(effect, LocateBlocks):
            found = Refused("unreachable", "the simulated fleet has no HDFS")
        else:
            found = Done(plan=answer(effect.question, Watch(lambda: 0.0, effect.limit_s)))
        end = self._ender(effect.id)
        self.around.timeline.after(delay_us, lambda: end(found))

    def _ender(self, key: str) -> Callable[[Outcome], None]:
        epoch = self._epoch

        def end(outcome: Outcome) -> None:
            if epoch == self._epoch:
                self.put(lambda at_us: EffectEnded(at_us=at_us, effect=key, outcome=outcome))

        return end

    def _tell_event(self, event: Event) -> None:
        text = told_event(event)
        if isinstance(event, NodeListed):
            shown = text.partition(": ")[2]
            if self._shown.get(event.node) == shown:
                return  # the same as the listing before: not worth a line
            self._shown[event.node] = shown
        self.tell(f"  > {text}")

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.around.story.tell(self.around.timeline.now_us, text)
