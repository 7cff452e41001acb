"""A stateful machine over the core: any facts in any order, and never a crash or a step back.

The fleet simulator keeps to what engines really do; this machine does not. Engines show what was
never created, forget what they showed, answer for effects of long ago, and restarts come between
any two events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tenure.core.fleet import FleetState
from tenure.core.services.services import VANISHED
from tenure.core.state.indexes import Index, StageTasks
from tenure.core.state.params import Params
from tenure.core.state.tables import Tables
from tenure.locality.localizer import Tiers
from tenure.model.batch import BatchSpec, StageSpec
from tenure.model.container import ContainerState, Service
from tenure.model.effects import CreateContainer, Effect, Reply
from tenure.model.events import (
    CancelBatch,
    CancelDrain,
    CancelJob,
    ChangeService,
    ClaimRun,
    Configured,
    CreateService,
    CycleDue,
    DrainNode,
    EffectEnded,
    Event,
    FenceNode,
    GuardSeen,
    HarvestReported,
    NodeConnected,
    NodeListed,
    NodeLost,
    PowerNode,
    ScheduleNode,
    SubmitBatch,
    SubmitJob,
    SubmitPlan,
    Tick,
)
from tenure.model.facts import ContainerFacts, EngineFacts
from tenure.model.harvest import Guard, HarvestAction
from tenure.model.job import JobSpec
from tenure.model.node import AgentSpec
from tenure.model.outcome import REFUSALS, Done, Outcome, Refused, Unknown
from tenure.model.plan import CycleSpec, Move, Plan
from tenure.model.qos import QosParams
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.fleet import remembered
from tests.fleet.progress import CHECKS, restored_service
from tests.fleet.states import state_of
from tests.unit.core.bench import IMAGE, SIZE, SMALL, Bench, node

NODES = (
    node("n", "nursery", agent=AgentSpec("unix:///agent"), harvest=QosParams()),
    node("m", "nursery", driver="command"),
    node("y", driver="command"),
    node("z"),
)
CYCLE = CycleSpec("up", "nursery", "young")
NAMES = st.sampled_from(["n", "m", "y", "z"])
STATES = st.sampled_from(
    ["created", "running", "exited", "restarting", "paused", "dead", "removing"]
)
PICK = st.integers(0, 10**6)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.sampled_from(["", "on", "off", "c1", "c2"]).map(Done),
    st.sampled_from(REFUSALS).map(Refused),
    st.just(Unknown("")),
)


class CoreMachine(RuleBasedStateMachine):
    """Feeds a core with anything; ``made`` are the containers that it ever asked for."""

    def __init__(self) -> None:
        super().__init__()
        # a plan over a day in ticks of a second would take most of the time
        params = Params(grace_us=5 * US, fence_after_us=10 * US, harvest_window_us=1800 * US)
        self.bench = Bench(params=params)
        self.made: list[CreateContainer] = []
        self.sent: list[str] = []
        self.count = 0
        self.say(Configured(at_us=0, nodes=NODES, cycles=(CYCLE,)))

    def say(self, event: Event, after_us: int = US) -> None:
        before = {kind: dict(rows) for kind, rows in self.bench.records.items()}
        self.take(self.bench.say(event, after_us=after_us))
        for kind, check in (CHECKS | {"services": _service}).items():
            for key, row in self.bench.records.get(kind, {}).items():
                check(before.get(kind, {}).get(key), row)

    def take(self, effects: list[Effect]) -> None:
        self.made += [effect for effect in effects if isinstance(effect, CreateContainer)]
        self.sent += [effect.id for effect in effects if hasattr(effect, "id")]

    def ask(self, kind: Any, **words: Any) -> None:
        self.count += 1
        before = len(self.bench.effects)
        self.say(kind(at_us=0, request=f"q{self.count}", **words))
        replies = [e for e in self.bench.effects[before:] if isinstance(e, Reply)]
        assert [reply.request for reply in replies] == [f"q{self.count}"]

    @rule(executors=st.integers(1, 4), retries=st.integers(0, 2), due=st.booleans())
    def submit(self, executors: int, retries: int, due: bool) -> None:
        spec = JobSpec(
            name=f"job{self.count}",
            app="app",
            image=IMAGE,
            command=(),
            executors=executors,
            request=SMALL,
            deadline_us=self.bench.now_us + 60 * US if due else None,
            estimate_local_us=10 * US,
            retries=retries,
            max_runtime_us=20 * US,
        )
        self.ask(SubmitJob, job=f"j{self.count}", spec=spec)

    @rule(
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=2),
        retries=st.integers(0, 1),
        is_dry=st.sampled_from([False, False, False, True]),
    )
    def lend(self, counts: list[int], retries: int, is_dry: bool) -> None:
        """On a node that answers and is empty, for else nothing is lent in most runs."""
        self.connect("n")
        listing = NodeListed(
            at_us=0, node="n", started_us=self.bench.now_us + US, containers=(), images=(IMAGE,)
        )
        self.say(listing, 2 * US)
        self.guard(True)
        names = ("map", "reduce")[: len(counts)]
        stages = tuple(
            StageSpec(
                name=name,
                image=IMAGE,
                command=(),
                count=count,
                request=SMALL,
                run_us=US,
                after=names[:number],
                shuffle="".join(names[:number]),
            )
            for number, (name, count) in enumerate(zip(names, counts, strict=True))
        )
        spec = BatchSpec(f"batch{self.count}", stages, retries)
        self.ask(SubmitBatch, batch=f"b{self.count}", spec=spec, is_dry=is_dry)

    @rule(is_sound=st.booleans())
    def guard(self, is_sound: bool) -> None:
        guard = Guard("act", "/tenure-harvest", "" if is_sound else "no answer")
        self.say(GuardSeen(at_us=0, node="n", guard=guard))

    @rule(seq=st.integers(1, 9), is_done=st.booleans(), engine_id=st.sampled_from(["c1", "c2"]))
    def kill(self, seq: int, is_done: bool, engine_id: str) -> None:
        action = HarvestAction(seq, 1, "kill", "limit", is_done=is_done, task=engine_id)
        self.say(HarvestReported(at_us=0, node="n", actions=(action,)))

    @rule(pick=PICK)
    def call_off(self, pick: int) -> None:
        self.ask(CancelBatch, batch=self.any_key("batches", pick))

    @rule(policy=st.sampled_from(["no", "always"]))
    def create(self, policy: str) -> None:
        self.ask(
            CreateService,
            container=f"{self.count:064x}",
            name=f"web{self.count}",
            app="web",
            body={"Image": IMAGE, "HostConfig": {"RestartPolicy": {"Name": policy}}},
            request_resources=SMALL,
        )

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        self.ask(CancelJob, job=self.any_key("jobs", pick))

    @rule(pick=PICK, verb=st.sampled_from(["stop", "start", "remove"]))
    def change(self, pick: int, verb: str) -> None:
        self.ask(ChangeService, container=self.any_key("services", pick), verb=verb)

    @rule(name=NAMES, to=st.sampled_from(["yes", "cordoned"]))
    def schedule(self, name: str, to: str) -> None:
        self.ask(ScheduleNode, node=name, to=to)

    @rule(name=NAMES, is_on=st.booleans())
    def maintain(self, name: str, is_on: bool) -> None:
        self.ask(ScheduleNode, node=name, is_in_maintenance=is_on)

    @rule(name=NAMES, is_dry=st.booleans(), limit_s=st.sampled_from([None, 1, 60]))
    def drain(self, name: str, is_dry: bool, limit_s: int | None) -> None:
        """A plan is what is enacted: the moves of a dry run, and no others, are queued by a run."""
        timeout_us = None if limit_s is None else limit_s * US
        before = set(self.bench.records.get("migrations", {}))
        self.ask(DrainNode, node=name, is_dry=True)
        reply = next(e for e in reversed(self.bench.effects) if isinstance(e, Reply))
        if is_dry:
            assert set(self.bench.records.get("migrations", {})) == before
            return
        planned = [(m.container, m.target) for m in getattr(reply.value, "moves", ())]
        self.ask(DrainNode, node=name, timeout_us=timeout_us)
        rows = self.bench.records.get("migrations", {})
        new = [(m.container, m.target) for key, m in rows.items() if key not in before]
        assert sorted(new) == sorted(planned)

    @rule(name=NAMES)
    def cancel_drain(self, name: str) -> None:
        self.ask(CancelDrain, node=name)

    @rule(names=st.sets(NAMES))
    def configure(self, names: set[str]) -> None:
        """Some nodes are named and some are not any more."""
        named = tuple(spec for spec in NODES if spec.name in names)
        self.say(Configured(at_us=0, nodes=named, cycles=(CYCLE,)))

    @rule(name=NAMES, to=st.sampled_from(["on", "off"]))
    def power(self, name: str, to: str) -> None:
        self.ask(PowerNode, node=name, to=to)

    @rule(name=NAMES)
    def fence(self, name: str) -> None:
        self.ask(FenceNode, node=name)

    @rule(pick=PICK, goal=NAMES, wrong=st.sampled_from([0, 0, 0, 1]))
    def plan(self, pick: int, goal: str, wrong: int) -> None:
        self.count += 1
        due_us = self.count
        self.say(CycleDue(at_us=0, cycle="up", due_us=due_us))
        self.ask(ClaimRun, cycle="up")
        service = self.bench.tables.services.get(self.any_key("services", pick))
        turn, source = (service.incarnation, service.node) if service else (1, "n")
        move = Move(self.any_key("services", pick), turn + wrong, source, goal, "")
        expires_us = self.bench.now_us + 60 * US
        plan = Plan(f"up@{due_us}", "nursery", 0, expires_us, (move, move))
        self.ask(SubmitPlan, plan=plan)

    @rule(name=NAMES)
    def connect(self, name: str) -> None:
        facts = EngineFacts(f"id-{name}", SIZE, images=(IMAGE,))
        self.say(NodeConnected(at_us=0, node=name, facts=facts))

    @rule(name=NAMES)
    def lose(self, name: str) -> None:
        self.say(NodeLost(at_us=0, node=name))

    @rule(name=NAMES, shown=st.lists(st.tuples(PICK, STATES, st.integers(0, 255)), max_size=6))
    def show(self, name: str, shown: list[tuple[int, str, int]]) -> None:
        """Any copies that were ever asked for, wherever, in any state."""
        found = {}
        for pick, state, code in shown if self.made else ():
            effect = self.made[pick % len(self.made)]
            over = code if state in ("exited", "dead") else None
            key = f"{name}-{effect.id}"
            labels = dict(effect.body["Labels"])
            found[key] = ContainerFacts(key, effect.name, IMAGE, state, labels, exit_code=over)
        self.say(
            NodeListed(
                at_us=0,
                node=name,
                started_us=self.bench.now_us + US,
                containers=tuple(found.values()),
                images=(IMAGE,),
            ),
            2 * US,
        )

    @rule(pick=PICK, outcome=OUTCOMES)
    def end(self, pick: int, outcome: Outcome) -> None:
        """Any effect ends, or one that ended long ago ends once more."""
        if self.sent:
            key = self.sent[-1 - pick % min(8, len(self.sent))]
            self.say(EffectEnded(at_us=0, effect=key, outcome=outcome))

    @rule(pick=PICK)
    def end_well(self, pick: int) -> None:
        """An open effect is done."""
        open_now = list(self.bench.tables.effects.values())
        if open_now:
            effect = open_now[pick % len(open_now)]
            value = f"{effect.node}-{effect.id}" if effect.kind == "create" else ""
            value = "on" if effect.kind == "probe" else value
            self.say(EffectEnded(at_us=0, effect=effect.id, outcome=Done(value)))

    @rule(after_s=st.sampled_from([1, 5, 30, 200]))
    def wait(self, after_s: int) -> None:
        self.say(Tick(at_us=0), after_s * US)

    @rule()
    def restart(self) -> None:
        self.take(self.bench.restart())

    def any_key(self, kind: str, pick: int) -> str:
        keys = list(self.bench.records.get(kind, {}))
        return keys[pick % len(keys)] if keys else "nobody"

    @invariant()
    def what_is_stored_is_what_is_known(self) -> None:
        for kind in Tables.__dataclass_fields__:
            known = dict(getattr(self.bench.tables, kind).items())
            assert known == self.bench.records.get(kind, {}), kind

    @invariant()
    def indexes_are_what_a_restart_would_build(self) -> None:
        fresh = FleetState(self.bench.params, Policies, localizer=Tiers())
        fresh.load(self.bench.records)
        kept = self.bench.state_of(Index)
        assert _filled(state_of(fresh, Index)) == _filled(kept)

    @invariant()
    def what_is_remembered_is_what_the_records_say(self) -> None:
        remembered.check(self.bench.state)


def _service(old: Service | None, new: Service | None) -> None:
    """L3, and of L1 what holds where engines forget what they showed."""
    restored_service(old, new)
    if new is not None and new.state is ContainerState.REMOVED:
        assert new.is_removing or new.reason == VANISHED


def _filled(index: Any) -> dict[str, Any]:
    """Return an index without the empty sets that are left where something was."""
    found = {}
    for name in type(index).__dataclass_fields__:
        value = getattr(index, name)
        is_map = isinstance(value, dict)
        found[name] = {k: v for k, v in value.items() if v} if is_map else value
    found["tasks_by_stage"] = {
        key: _looked_through(stage_tasks) for key, stage_tasks in index.tasks_by_stage.items()
    }
    return found


def _looked_through(stage_tasks: StageTasks) -> tuple[StageTasks, list[int]]:
    """Return a copy as nobody has looked at it yet, whose ``first``, which a look moves, has moved.

    What was found held back is in its place again.
    """
    copy = replace(
        stage_tasks, tried=sorted([*stage_tasks.tried, *stage_tasks.held.values()]), held={}
    )
    return copy, list(copy.fresh())


CoreMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None, derandomize=True
)
#: A failure is made smaller for up to five minutes; its time-out must not hide it.
test_core_machine = pytest.mark.timeout(900)(CoreMachine.TestCase)
