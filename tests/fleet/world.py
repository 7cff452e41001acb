"""One run of the simulator: a world from a seed, its faults, and the road back to rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random

from tenure.model.container import ContainerState, Profile
from tenure.model.events import Configured, UsageObserved
from tenure.model.job import ExecutorState, Job, JobState
from tenure.model.node import NodeSpec, Power
from tenure.model.placing import Placer
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.fleet import healed, lent, workload
from tests.fleet.clients import Clients
from tests.fleet.faults import BLOWS, Faults
from tests.fleet.kept import Kept, with_tiers
from tests.fleet.machine import Machine, SimContainer
from tests.fleet.replicated import Replicated
from tests.fleet.shell import SimShell, Surroundings
from tests.fleet.store import SimStore
from tests.fleet.story import LawBroken, Story
from tests.fleet.tampering import Tampering
from tests.fleet.timeline import Timeline

START_US = 1_700_000_000 * US
#: Every so many seeds one has no faults: there deadlines and ledger must be exact.
CALM_EVERY = 5
#: Late effects of faults have all happened this long after the faults stopped.
AFTERMATH_US = 150 * US
#: A fleet that is not at rest this long after has a defect.
REST_US = 3000 * US
LOOK_US = 5 * US
#: Batches wait for idle nodes, which nothing keeps on for them; so long people wait with them.
PATIENCE_US = 900 * US
#: Faults that keep the daemon from knowing whether a node is on.
UNCLEAR = ("power_", "probe_")
UNPLACED = (JobState.WAITING, JobState.STARTING)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run that kept all laws was like."""

    seed: int
    digest: int
    struck: dict[str, int]
    events: int
    ended_us: int


class World:
    """Everything of one run; a witness of the machines."""

    def __init__(self, seed: int, placer: Placer, *, is_loud: bool = False) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.is_calm = seed % CALM_EVERY == 0
        self.timeline = Timeline(START_US)
        self.story = Story(START_US, is_loud=is_loud)
        self.faults = Faults(self.random, self.story, is_calm=self.is_calm, seed=seed)
        relist_us = self.random.choice((10, 15, 30)) * US
        self.around = Surroundings(self.timeline, self.faults, self.story, relist_us=relist_us)
        self.kinds = Random(f"kinds {seed}")
        drawn = workload.draw_nodes(self.random, is_calm=self.is_calm)
        drawn = workload.with_checkpoints(self.kinds, drawn)
        # by dice of its own, so that the rest of a seed stays what it was
        drawn = workload.with_agents(Random(f"agents {seed}"), drawn)
        self.specs = with_tiers(Random(f"tiers {seed}"), drawn)
        cycles = workload.draw_cycles(Random(f"cycles {seed}"))
        configured = Configured(at_us=START_US, nodes=self.specs, cycles=cycles)
        params = workload.with_kinds(self.kinds, workload.draw_params(self.random))
        params = workload.with_nursery(Random(f"nursery {seed}"), params)
        params = workload.with_slices(Random(f"slices {seed}"), params)
        self.shell = SimShell(self.around, params, placer, configured=configured)
        self.clients = Clients(self.shell, self.random, is_calm=self.is_calm, seed=seed)
        self.shell.askers = self.clients
        dice = Random(f"datasets {seed}")
        self.kept = Kept(self.shell, self.clients, dice, is_calm=self.is_calm)
        self.around.laws.look_at_blocks = self.kept.going_off
        self.replicated = Replicated(self.shell, self.clients, seed)
        self.around.laws.look_at_services = self.replicated.on_commit
        self.span_us = self.random.choice((60, 120, 240, 480)) * US
        self.tampering = Tampering(seed, self.around.clocks, is_calm=self.is_calm)
        self.dropped: set[str] = set()
        self._patient_until_us = 0
        for spec in self.specs:
            self._add_machine(spec)

    def _add_machine(self, spec: NodeSpec) -> None:
        size = spec.capacity or workload.draw_capacity(self.random)
        machine = Machine(spec.name, self.timeline, self, size)
        machine.images = workload.IMAGES
        if spec.power.driver != "none" and self.random.random() < 0.6:
            machine.is_powered = machine.is_up = False
        self.around.machines[spec.name] = machine
        if spec.power.driver != "none":
            self.around.power.add(machine, spec)

    # witness

    def started(self, container: SimContainer, *, how: str) -> None:
        """Have the laws look at a new process."""
        self._tell(f"    {container.id} ({container.name}) runs, {how}")
        self.around.laws.started(container, how=how)
        self.kept.begins(container)
        self.replicated.started(container)

    def changed(self, container: SimContainer, what: str) -> None:
        """Let the watchers have a hint."""
        if what == "die":
            self._tell(f"    {container.id} ({container.name}) ends with {container.exit_code}")
        self.around.watchers.hint(container, what)

    def reach_changed(self, machine: Machine) -> None:
        """Let the watchers notice."""
        self._tell(f"    {machine.name} answers: {machine.answers}")
        self.around.watchers.reach_changed(machine)

    def _tell(self, text: str) -> None:
        self.story.tell(self.timeline.now_us, text)

    # the run

    def run(self) -> Report:
        """Run to the end; raises LawBroken."""
        self._plan()
        self.tampering.begin(self.shell, start_us=START_US, span_us=self.span_us)
        self.shell.start()
        until_us = START_US + self.span_us
        while self.timeline.step(until_us):
            pass
        self._mend()
        self._rest()
        self._check_ends()
        events = len(self.around.store.events)
        struck = dict(self.story.struck)
        return Report(self.seed, self.story.digest, struck, events, self.timeline.now_us)

    def _plan(self) -> None:
        wishes = workload.draw_wishes(
            self.random, START_US + US, self.span_us * 3 // 4, is_calm=self.is_calm
        )
        if not self.is_calm:
            wishes += workload.movers(self.kinds, START_US + US, self.span_us * 3 // 4)
        wishes = [workload.dressed(self.kinds, wish) for wish in wishes]
        # by dice of its own, so that the rest of a seed stays what it was
        wishes = workload.with_planning(wishes, Random(f"planning {self.seed}"))
        for wish in workload.with_solving(wishes, Random(f"solving {self.seed}")):
            self.timeline.at(wish.at_us, partial(self.clients.wish, wish))
        self._plan_batches()
        self.kept.plan(START_US, self.span_us)
        if self.is_calm:  # what comes beside jobs takes room that no promise (L9) foresaw
            return
        self.replicated.plan(START_US, self.span_us)
        self._plan_cycles()
        self._plan_settlers()
        for _ in range(self.random.choice((0, 3, 10))):
            self.timeline.at(self._sometime_us(), self.clients.meddle)
        for _ in range(self.random.choice((0, 0, 1))):
            self.timeline.at(self._sometime_us(), lambda: self.shell.die("idle"))
        for _ in range(self.random.choice((0, 0, 1, 3))):
            self.timeline.at(self._sometime_us(), self._reconfigure)
        if self.random.random() < 0.2:
            self.around.laws.is_size_known = False
            for _ in range(5):
                self.timeline.at(self._sometime_us(), self._measure)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self.timeline.at(self._sometime_us(), self._stranger)
        self._plan_drains()
        self._plan_moves()
        self._plan_blows()
        self._plan_shutdowns()

    def _plan_settlers(self) -> None:
        """Give the planner, where it is asked at all, something to do."""
        if self.clients.worker.is_planning:
            for wish in workload.settlers(Random(f"settlers {self.seed}"), START_US + US):
                self.timeline.at(wish.at_us, partial(self.clients.wish, wish))

    def _plan_drains(self) -> None:
        """In every third run somebody drains nodes, by dice of its own."""
        dice = Random(f"drains {self.seed}")
        for _ in range(dice.choice((0, 0, 0, 0, 3, 8))):
            at_us = START_US + dice.randrange(2 * US, self.span_us)
            self.timeline.at(at_us, partial(self.clients.empty, dice))

    def _plan_moves(self) -> None:
        """In every third run somebody moves containers by hand, by dice of its own."""
        dice = Random(f"moves by hand {self.seed}")
        for _ in range(dice.choice((0, 0, 0, 0, 4, 12))):
            at_us = START_US + dice.randrange(2 * US, self.span_us)
            self.timeline.at(at_us, partial(self.clients.move_one, dice))

    def _plan_batches(self) -> None:
        """In every second run people submit batches, by dice of its own, and cancel some."""
        dice = Random(f"batches {self.seed}")
        span_us = self.span_us * 3 // 4
        wishes = workload.batches(dice, START_US + US, span_us, is_calm=self.is_calm)
        if any(spec.tiers for spec in self.specs):
            wishes = workload.with_replicas(Random(f"replicas {self.seed}"), wishes)
        for wish in wishes:
            self.timeline.at(wish.at_us, partial(self.clients.wish, wish))
        for _ in range(0 if self.is_calm else dice.choice((0, 0, 1))):
            at_us = START_US + dice.randrange(2 * US, self.span_us)
            self.timeline.at(at_us, partial(self.clients.call_off_one, dice))
        self._plan_agents()

    def _plan_agents(self) -> None:
        dice, agents = Random(f"agents' deeds {self.seed}"), self.around.agents
        for deed, count in ((agents.strike, 10), (agents.leave, dice.choice((0, 1, 2)))):
            for _ in range(0 if self.is_calm else count):
                at_us = START_US + dice.randrange(2 * US, self.span_us)
                self.timeline.at(at_us, partial(deed, dice))

    def _plan_cycles(self) -> None:
        end_us = START_US + self.span_us
        self.clients.statistics.begin(until_us=end_us)
        for spec in self.shell.configured.cycles:
            due = partial(self.clients.worker.due, spec, until_us=end_us)
            self.timeline.at(START_US + self.random.randrange(5, 60) * US, due)

    def _sometime_us(self) -> int:
        return START_US + self.random.randrange(2 * US, self.span_us)

    def _plan_blows(self) -> None:
        for blow in BLOWS:
            if not self.faults.has(blow):
                continue
            for _ in range(self.random.choice((1, 2, 4))):
                self.timeline.at(self._sometime_us(), partial(self._strike, blow))

    def _strike(self, blow: str) -> None:
        machine = self.random.choice(sorted(self.around.machines.values(), key=_name))
        if not machine.answers:
            return
        self._tell(f"    {blow} on {machine.name}")
        self.story.strike(blow)
        lasts_us = int(self.random.uniform(1, 120) * US)
        self.timeline.after(lasts_us, lambda: self._restore(machine))
        if blow in ("crash_kill", "crash_live"):
            machine.crash(keeps_alive=blow == "crash_live")
        elif blow == "freeze":
            machine.freeze()
        elif blow == "cut":
            machine.cut(is_cut=True)
        else:
            machine.die()
            if self.random.random() < 0.5:
                self.timeline.after(lasts_us // 2, lambda: self._fence(machine))

    def _plan_shutdowns(self) -> None:
        """In every second run somebody shuts hosts down in order, by dice of its own."""
        dice = Random(f"shutdowns {self.seed}")
        for _ in range(dice.choice((0, 0, 1, 3))):
            at_us = START_US + dice.randrange(2 * US, self.span_us)
            self.timeline.at(at_us, partial(self._shut_down, dice))

    def _shut_down(self, dice: Random) -> None:
        machine = dice.choice(sorted(self.around.machines.values(), key=_name))
        if not machine.answers:
            return
        self._tell(f"    {machine.name} is shut down")
        self.story.strike("shutdown")
        machine.shut_down(dice.choice((0, 137, 143)))
        off_us, back_us = dice.randrange(5 * US), dice.randrange(10 * US, 200 * US)
        self.timeline.after(off_us, lambda: self._go_off(machine))
        if dice.random() < 0.5:
            self.timeline.after(back_us // 2, lambda: self._fence(machine))
        self.timeline.after(back_us, lambda: self._restore(machine))

    def _go_off(self, machine: Machine) -> None:
        if machine.is_powered and machine.is_up:
            self.around.power.off(machine)

    def _fence(self, machine: Machine) -> None:
        if machine.is_dead:
            self.clients.fence(machine.name)

    def _restore(self, machine: Machine) -> None:
        if machine.is_frozen:
            machine.thaw()
        if machine.is_cut:
            machine.cut(is_cut=False)
        machine.come_up()

    def _stranger(self) -> None:
        """Somebody runs a container of their own."""
        machine = self.random.choice(sorted(self.around.machines.values(), key=_name))
        if machine.answers:
            self.story.strike("stranger")
            name = f"stranger-{self.timeline.now_us}"
            body = {"Image": workload.IMAGES[0], "Cmd": ["burst", "40", "0"]}
            machine.start(getattr(machine.create(name, body, pull=False), "value", ""))

    def _reconfigure(self) -> None:
        """The operator changes a price, or drops a node, and reloads."""
        specs = list(self.specs)
        index = self.random.randrange(len(specs))
        if self.random.random() < 0.5:
            self.story.strike("repriced")
            price = specs[index].price_nano_per_h + 7_000_001
            specs[index] = replace(specs[index], price_nano_per_h=price)
            self.specs = tuple(specs)
        else:
            self.story.strike("node_dropped")
            self.dropped.add(specs.pop(index).name)
        self.shell.configure(tuple(specs))

    def _measure(self) -> None:
        """Somebody measured what containers use."""
        self.story.strike("measured")
        use = Resources(self.random.randrange(800), self.random.randrange(200) * MIB)
        services = sorted(self.clients.services.values())
        profiles = tuple(Profile(key, use, 10, 60 * US) for key in services)
        foreign = {self.random.choice(self.specs).name: use}
        self.shell.put(lambda at_us: UsageObserved(at_us=at_us, profiles=profiles, foreign=foreign))

    # the road back to rest

    def _mend(self) -> None:
        self._tell("faults stop")
        self.faults.stop()
        for machine in self.around.machines.values():
            self._restore(machine)
            machine.clear()
        self.shell.configure(self.specs)
        nothing = {spec.name: Resources() for spec in self.specs}
        self.shell.put(lambda at_us: UsageObserved(at_us=at_us, foreign=nothing))
        self.timeline.after(AFTERMATH_US, self._open_doors)

    def _open_doors(self) -> None:
        """Let the operator lift every cordon and switch on what still has something to clear."""
        if not self.shell.is_alive:
            self.timeline.after(LOOK_US, self._open_doors)
            return
        for spec in self.specs:
            self.clients.cancel_drain(spec.name)
            self.clients.maintain(spec.name, is_on=False)
            self.clients.schedule(spec.name, "yes")

    def _rest(self) -> None:
        until_us = self.timeline.now_us + AFTERMATH_US + LOOK_US
        self._patient_until_us = until_us + PATIENCE_US
        limit_us = until_us + REST_US
        while True:
            while self.timeline.step(until_us):
                pass
            unrest = self._unrest()
            if not unrest:
                return
            if until_us > limit_us:
                raise LawBroken("L5", "; ".join(unrest[:6]))
            self._clear_tombstones()
            self._make_way()
            until_us += LOOK_US

    def _unrest(self) -> list[str]:
        if not self.shell.is_alive or self.clients.open_wishes:
            return ["clients or daemon are not ready"]
        found = healed.unrest(self.around.store, self.around.machines)
        return [*found, *self.kept.unrest(), *self.replicated.unrest()]

    def _clear_tombstones(self) -> None:
        """Have the operator switch on nodes that are off, and have tombstones or are waited for."""
        store = self.around.store
        named = {tombstone.node for tombstone in store.table("tombstones").values()}
        services = store.table("services").values()
        named |= {s.node for s in services if s.state is ContainerState.STARTING}
        for name in sorted(named):
            if store.table("nodes")[name].power is Power.OFF:
                self.clients.switch(name, "on")

    def _make_way(self) -> None:
        """Have people cancel jobs whose image no node holds, and remove services for the others."""
        store = self.around.store
        waiting = waiting_for_room(store)
        for job in waiting:
            if job.spec.image == workload.ABSENT or self.dropped:
                self.clients.cancel(job.id)
        if self.timeline.now_us > self._patient_until_us:
            self._call_off()
            self.kept.call_off()
        self.replicated.make_way()
        if waiting:
            for key in sorted(self.clients.services.values()):
                self.clients.change(key, "remove")
            self.replicated.clear()

    def _call_off(self) -> None:
        """Have people cancel the batches that find nothing idle any more."""
        for batch in list(self.around.store.table("batches").values()):
            if not (batch.is_over or batch.is_ending):
                self.story.strike("batch_without_room")
                self.clients.call_off(batch.id)

    def _check_ends(self) -> None:
        store, power = self.around.store, self.around.power
        self.kept.is_over = True
        self.kept.check()
        self.around.laws.on_restart()
        healed.jobs_ended_right(store)
        lent.ended_right(store)
        self.kept.ended_right()
        if self.is_calm:
            healed.deadlines_met(store)
        slack_us = 10_000 if self.is_calm else self._slack_us()
        times = {n: t for n, t in power.times.items() if n not in self.dropped}
        clocks = self.around.clocks
        slack_us += clocks.slewed_us + clocks.doubtful_us
        now = (self.timeline.now_us, clocks.now_us)
        healed.times_agree(store, times, now, tolerance_us=slack_us)

    def _slack_us(self) -> int:
        """Return by how much a node's ledger may differ where drivers and daemon failed."""
        failed = sum(self.story.struck[f] for f in self.story.struck if f.startswith(UNCLEAR))
        return self.shell.dead_us + (20 + 90 * failed) * US


def waiting_for_room(store: SimStore) -> list[Job]:
    """Return the jobs that wait for room: as a whole, or, while they run, with a lost executor."""
    executors = store.table("executors").values()
    short = {e.job for e in executors if e.state is ExecutorState.PLACED and not e.node}
    jobs: list[Job] = list(store.table("jobs").values())
    return [job for job in jobs if job.state in UNPLACED or (job.id in short and not job.is_over)]


def _name(machine: Machine) -> str:
    return machine.name
