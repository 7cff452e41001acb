"""A cycle worker: claims due runs and submits plans, some late, stale, double or rubbish.

In some runs it asks the planner, over the snapshot that the daemon gives its workers; in some it
draws its moves, for what is wrong with a plan is the core's to find; in some it does either. A plan
of the planner that nothing came before is to be accepted whole (L24).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tenure.api.views.lazy import Rows
from tenure.core.fleet import FleetState
from tenure.cycles.planner import plan as ask_planner
from tenure.cycles.snapshot import Snapshot, snapshot_from_json
from tenure.daemon.answers import views
from tenure.model.container import ContainerState, Service
from tenure.model.effects import Reply
from tenure.model.events import (
    ClaimRun,
    Command,
    CycleDue,
    FailRun,
    RequestRun,
    SubmitPlan,
)
from tenure.model.node import Node
from tenure.model.plan import STRAINED, CycleSpec, Move, Plan, Run
from tenure.model.resources import Resources, exhausted, larger
from tenure.model.units import US
from tests.fleet.shell import SimShell
from tests.fleet.story import LawBroken

Ask = Callable[[Callable[[int, str], Command], Callable[[Reply], None]], bool]
#: Refusals of what a snapshot does not tell: it may pass before the move would begin.
PASSING = frozenset(("moving", "not_running", "source_unreachable", "unsure"))


class Worker:
    """Plans, well or at random, and submits."""

    def __init__(self, shell: SimShell, ask: Ask, random: Random, *, seed: int) -> None:
        self._shell = shell
        self._ask = ask
        self._random = random
        # dice of its own, so that runs with drawn moves stay what they were
        self._dice = Random(f"planner {seed}")
        self._planned = self._dice.choice((0.0, 0.7, 1.0))

    @property
    def is_planning(self) -> bool:
        """Whether it asks the planner at all."""
        return self._planned > 0

    def due(self, spec: CycleSpec, *, until_us: int) -> None:
        """Have a cycle fall due now, and again at its interval."""
        timeline = self._shell.around.timeline
        if timeline.now_us >= until_us:
            return
        due_us = self._shell.around.clocks.now_us
        self._shell.put(lambda at_us: CycleDue(at_us=at_us, cycle=spec.name, due_us=due_us))
        if self._random.random() < 0.9:
            timeline.after(self._delay_us(2), lambda: self.run(spec.name, ""))
        timeline.after(spec.interval_us, lambda: self.due(spec, until_us=until_us))

    def request(self, cycle: str) -> None:
        """A person asks for a run now."""
        is_dry = self._random.random() < 0.3
        self._ask(
            lambda at_us, request: RequestRun(
                at_us=at_us, request=request, cycle=cycle, is_dry=is_dry
            ),
            lambda reply: None,
        )

    def run(self, cycle: str, run_id: str) -> None:
        """Claim a run, plan, and submit after a while."""
        self._ask(
            lambda at_us, request: ClaimRun(
                at_us=at_us, request=request, cycle=cycle, run_id=run_id
            ),
            self._claimed,
        )

    def _claimed(self, reply: Reply) -> None:
        run = reply.value
        if not isinstance(run, Run):
            return
        fate = self._random.random()
        if fate < 0.05:
            self._shell.around.story.strike("worker_died")
            return
        timeline = self._shell.around.timeline
        if fate < 0.1:
            self._shell.around.story.strike("worker_failed")
            timeline.after(self._delay_us(3), lambda: self._fail(run.id))
            return
        if self._dice.random() < self._planned:
            self._plan_well(run)
            return
        plan = self._drawn(run)
        timeline.after(self._delay_us(10), lambda: self._submit(plan))
        if fate < 0.3:
            self._shell.around.story.strike("plan_twice")
            timeline.after(self._delay_us(60), lambda: self._submit(plan))

    def _delay_us(self, most_s: float) -> int:
        return int(self._random.uniform(0, most_s) * US)

    def _fail(self, run_id: str) -> None:
        self._ask(
            lambda at_us, request: FailRun(
                at_us=at_us, request=request, run_id=run_id, reason="no stats"
            ),
            lambda reply: None,
        )

    def _submit(self, plan: Plan, heard: Callable[[Reply], None] = lambda reply: None) -> None:
        self._ask(lambda at_us, request: SubmitPlan(at_us=at_us, request=request, plan=plan), heard)

    def _plan_well(self, run: Run) -> None:
        """Have the planner plan, and submit it at once or when the fleet may be another."""
        state, story = self._shell.state, self._shell.around.story
        if state is None:
            return
        snapshot = snapshot_of(state)
        (spec,) = (cycle for cycle in snapshot.cycles if cycle.name == run.cycle)
        plan = ask_planner(snapshot, spec, run.id)
        for move in plan.moves:
            why = move.reason.partition(":")[0]
            story.strike(f"planned_{why}" if why in ("consolidation", "relief") else "planned")
        _judge(snapshot, spec, plan)
        if self._dice.random() < 0.5:
            at_once = (self._shell.handled[0] + 1, 1)
            self._submit(plan, lambda reply: self._compare(reply, at_once))
            return
        delay_us = round(self._dice.uniform(0, 10) * US)
        self._shell.around.timeline.after(delay_us, lambda: self._submit(plan))

    def _compare(self, reply: Reply, at_once: tuple[int, int]) -> None:
        """L24: the core accepts all moves of a plan if nothing happened since its snapshot."""
        run = reply.value
        if not isinstance(run, Run) or self._shell.handled != at_once:
            return
        self._shell.around.story.strike("plan_compared")
        for verdict in run.verdicts:
            if verdict.code != "accepted" and verdict.code not in PASSING:
                raise LawBroken("L24", f"{run.id}: the core refuses {verdict}, planned from now")

    def _drawn(self, run: Run) -> Plan:
        around = self._shell.around
        cycles = {cycle.name: cycle for cycle in self._shell.configured.cycles}
        spec = cycles[run.cycle]
        services: list[Service] = sorted(around.store.table("services").values(), key=_id)
        nodes: list[Node] = sorted(around.store.table("nodes").values(), key=_name)
        targets = [n.name for n in nodes if n.spec.generation == spec.target]
        moves = []
        for service in services:
            is_rubbish = self._random.random() < 0.1
            is_fit = service.state is ContainerState.RUNNING and service.generation == spec.source
            if (is_fit or is_rubbish) and targets:
                names = [n.name for n in nodes] if is_rubbish else targets
                moves.append(self._move(service, self._random.choice(names), is_rubbish))
        expires_us = around.clocks.now_us + self._random.choice((1, 60, 60, 120)) * US
        return Plan(run.id, spec.source, 0, expires_us, tuple(moves))

    def _move(self, service: Service, target: str, is_rubbish: bool) -> Move:
        incarnation = service.incarnation
        if is_rubbish:
            self._shell.around.story.strike("plan_rubbish")
            incarnation += self._random.choice((-1, 0, 1))
        return Move(service.id, incarnation, service.node, target, "drawn")


def snapshot_of(core: FleetState) -> Snapshot:
    """Return what ``GET /v1/snapshot`` would tell a worker now."""
    steps = core.read(views.snapshot)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            told = end.value
            break
    rows = {key: list(v.values) if isinstance(v, Rows) else v for key, v in told.items()}
    return snapshot_from_json(rows)


def _judge(snapshot: Snapshot, spec: CycleSpec, plan: Plan) -> None:
    """L32: relief moves off overloaded nodes alone, never soon again, and overloads no other."""
    nodes = {node.name: node for node in snapshot.nodes}
    services = {service.id: service for service in snapshot.services}
    profiles = {profile.container: profile for profile in snapshot.profiles}
    notes = {note.node for note in plan.nodes if note.code in STRAINED}
    taken: dict[str, Resources] = {}
    for move in plan.moves:
        if not move.reason.startswith("relief:"):
            continue
        service = services[move.container]
        need = larger(profiles[service.id].p90.scaled(spec.headroom), service.reserved)
        taken[move.target] = taken.get(move.target, Resources()) + need
        is_soon = snapshot.now_us < (service.moved_us or -(1 << 60)) + snapshot.cooldown_us
        if is_soon or move.source not in notes or move.target in notes:
            raise LawBroken("L32", f"{move}: moved at {service.moved_us}, overloaded are {notes}")
    for name, need in taken.items():
        node = nodes[name]
        if exhausted(need, node.free, node.capacity):
            raise LawBroken("L32", f"{plan.run_id} overloads {name}: {need} to {node.free}")


def _id(service: Service) -> str:
    return service.id


def _name(node: Node) -> str:
    return node.name
