"""Live and snapshot moves of the core: what is asked of the engines, and every way back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.core.services.migration.admission import queue
from tenure.core.services.migration.eligibility import as_of, stays
from tenure.core.services.migration.move_records import choice_of
from tenure.daemon.answers.views import snapshot
from tenure.model.container import STEP_OVER, ContainerState, Step
from tenure.model.effects import CheckpointContainer
from tenure.model.events import NodeLost, Tick
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tenure.model.units import US
from tests.unit.core.bench import Bench, finished, node, shown

FORWARD = {
    "live": ["carry", "restart_policy", "checkpoint", "carry", "create", "transfer", "start"],
    "snapshot": ["carry", "restart_policy", "stop", "carry", "create", "transfer", "start"],
}
GONE = Refused("no_such_container")


class Moving:
    """A service on a that begins to move to b."""

    def __init__(self, kind: str = "live", **body: Any) -> None:
        nodes = (node("a", "nursery", checkpoint=True), node("b", "nursery", checkpoint=True))
        self.bench = Bench(*nodes, best_kind=kind)
        for spec in nodes:
            self.bench.connect(spec.name)
        body.setdefault("HostConfig", {"RestartPolicy": {"Name": "always"}})
        key = self.bench.create("web", **body).id
        self.made = self.bench.open("create")
        self.bench.end(self.made, Done("first"))
        self.bench.end(self.bench.open("start"))
        self.source = self.service_of(key).node
        self.target = "b" if self.source == "a" else "a"
        self.key, self.name = key, "move"
        self.queue("move")

    def queue(self, name: str) -> None:
        """Have a move accepted, and begun."""
        self.bench.act(
            queue,
            self.service,
            key=name,
            run_id="run",
            target=self.target,
            generation="nursery",
            expires_us=self.bench.now_us + 3600 * US,
        )
        self.bench.say(Tick(at_us=0))

    def service_of(self, key: str) -> Any:
        return self.bench.tables.services[key]

    @property
    def service(self) -> Any:
        return self.service_of(self.key)

    @property
    def move(self) -> Any:
        return self.bench.tables.migrations[self.name]

    @property
    def effect(self) -> Any:
        """The first effect that is under way; there are two only from the commit on."""
        return next(iter(self.bench.tables.effects.values()))

    def to(self, step: Step) -> Any:
        """Have everything succeed until ``step`` is asked for; return its effect."""
        while self.move.step is not step:
            self.end()
        return self.effect

    def end(self, outcome: Outcome | None = None) -> Any:
        """End what is under way; return it."""
        effect = self.effect
        values = {"create": "second", "carry": "image"}
        done = Done(values.get(effect.kind, ""), moved_bytes=7)
        if effect.kind == "create":
            self.arriving = effect
        self.bench.end(effect, outcome or done)
        return effect

    def verified(self) -> None:
        """Let the target be seen to run for long enough."""
        self.bench.say(Tick(at_us=0), after_us=60 * US)
        self.bench.listed(self.target, shown(self.arriving, "second", "running"))

    def finish(self) -> list[str]:
        """Have everything succeed to the end; return the kinds of what was asked."""
        asked = []
        while self.move.step not in STEP_OVER:
            if self.move.step is Step.VERIFY:
                self.verified()
            else:
                asked.append(self.end().kind)
        return asked


@pytest.mark.parametrize("kind", ["live", "snapshot"])
def test_the_way_there(kind: str) -> None:
    moving = Moving(kind)
    asked = moving.finish()
    assert asked[:7] == FORWARD[kind]
    assert sorted(asked[7:]) == ["restart_policy", "retire"]
    service = moving.service
    assert (service.node, service.engine_id) == (moving.target, "second")
    assert service.state is ContainerState.RUNNING
    assert (moving.move.step, moving.move.moved_bytes) == (Step.DONE, 21)
    assert moving.arriving.body["Image"] == "image"
    assert moving.arriving.body["HostConfig"]["RestartPolicy"] == {"Name": "no"}


def test_the_target_goes_on_from_the_checkpoint_of_the_source() -> None:
    moving = Moving()
    taken = moving.to(Step.CHECKPOINT)
    moving.end()
    assert moving.to(Step.TRANSFER).checkpoint == taken.checkpoint
    assert moving.to(Step.START).checkpoint == taken.checkpoint


def test_the_downtime_is_told_from_the_moment_the_checkpoint_was_asked_for() -> None:
    moving = Moving()
    moving.to(Step.CHECKPOINT)
    asked_us = moving.bench.now_us
    moving.finish()
    assert moving.move.down_us == asked_us
    assert moving.move.up_us > asked_us


def test_cycles_see_where_a_move_that_has_begun_arrives() -> None:
    moving = Moving("snapshot")
    assert moving.move.step is not Step.QUEUED
    made = finished(moving.bench.read(snapshot))
    assert [(row["node"], row["arriving"]) for row in made["services"].values] == [
        (moving.source, moving.target)
    ]


def test_what_cannot_be_checkpointed_goes_on_as_a_snapshot() -> None:
    moving = Moving()
    moving.to(Step.CHECKPOINT)
    moving.end(Refused("checkpoint_failed", "it has 1 open TCP connection"))
    assert (moving.move.method, moving.effect.kind) == ("snapshot", "stop")
    assert "1 open TCP connection" in moving.move.why
    moving.finish()
    assert moving.move.step is Step.DONE
    assert moving.service.no_live == ""  # elsewhere, it may be tried again


def test_who_insists_on_live_is_not_interrupted() -> None:
    moving = Moving(Labels={})
    moving.bench.store(replace(moving.service, migrate="live"))
    moving.to(Step.CHECKPOINT)
    moving.end(Refused("checkpoint_failed", "it has 1 open TCP connection"))
    assert moving.finish() == ["restart_policy"]
    assert (moving.move.step, moving.service.node) == (Step.ROLLED_BACK, moving.source)
    assert not moving.move.is_source_stopped


def refused_live(moving: Moving, key: str) -> None:
    """Have the engine refuse the checkpoint of a container that may move live alone."""
    moving.name = key
    moving.to(Step.CHECKPOINT)
    moving.end(Refused("checkpoint_failed", "it has 1 open TCP connection"))
    moving.finish()
    assert moving.move.step is Step.ROLLED_BACK


def test_who_insists_on_live_is_not_tried_again_until_a_while_has_passed() -> None:
    moving = Moving()
    bench = moving.bench
    moving.bench.store(replace(moving.service, migrate="live"))
    refused_live(moving, "move")
    source = moving.bench.tables.nodes[moving.source]
    waits = []
    for turn in range(8):
        refusal = bench.now_us
        code, why = stays(as_of(moving.service, bench.now_us), source) or ("", "")
        assert code == "live_refused"
        assert "it has 1 open TCP connection; it is tried again from" in why
        assert moving.bench.read(choice_of, moving.service, moving.target).kind == ""
        bench.say(Tick(at_us=0), after_us=moving.service.live_retry_us - bench.now_us - 1)
        assert moving.bench.read(choice_of, moving.service, moving.target).kind == ""
        bench.say(Tick(at_us=0), after_us=1)
        assert moving.bench.read(choice_of, moving.service, moving.target).kind == "live"
        assert stays(as_of(moving.service, bench.now_us), source) is None
        waits.append(round((bench.now_us - refusal) / (600 * US), 1))
        moving.queue(f"again{turn}")
        refused_live(moving, f"again{turn}")
    assert waits == [1, 2, 4, 8, 12, 12, 12, 12]
    bench.say(Tick(at_us=0), after_us=7200 * US)
    moving.queue("last")
    moving.name = "last"
    moving.finish()
    assert (moving.service.no_live, moving.service.live_refusals) == ("", 0)


def test_a_restore_that_fails_goes_back_to_the_memory_at_the_source() -> None:
    moving = Moving()
    taken = moving.to(Step.CHECKPOINT)
    moving.to(Step.START)
    moving.end(Refused("start_failed", "criu failed"))
    assert moving.end().kind == "retire"
    back = moving.effect
    assert (back.kind, back.node, back.engine_id) == ("start", moving.source, "first")
    assert back.checkpoint == taken.checkpoint
    assert moving.finish() == ["start", "restart_policy"]
    assert moving.move.step is Step.ROLLED_BACK
    assert "could not be restored" in moving.service.no_live


def test_memory_that_cannot_be_brought_back_costs_no_more_than_itself() -> None:
    moving = Moving()
    moving.to(Step.CARRY)
    moving.end(Refused("engine_error", "no space left"))
    assert moving.effect.checkpoint
    moving.end(Refused("start_failed", "criu failed"))
    moving.bench.say(Tick(at_us=0), after_us=10 * US)
    assert (moving.effect.kind, moving.effect.checkpoint) == ("start", "")
    moving.finish()
    assert moving.move.step is Step.ROLLED_BACK
    assert "its memory could not be brought back" in moving.move.reason


@pytest.mark.parametrize("step", [Step.CARRY, Step.CREATE, Step.TRANSFER, Step.START])
def test_a_target_that_is_lost_is_not_waited_for_while_nothing_runs(step: Step) -> None:
    before = {
        Step.CARRY: Step.CHECKPOINT,
        Step.CREATE: Step.CARRY,
        Step.TRANSFER: Step.CREATE,
        Step.START: Step.TRANSFER,
    }
    moving = Moving()
    moving.to(before[step])
    effect = moving.effect
    if effect.kind == "create":
        moving.arriving = effect
    moving.bench.say(NodeLost(at_us=0, node=moving.target))
    moving.bench.end(effect, Done("second" if effect.kind == "create" else "image"))
    assert (moving.effect.kind, moving.effect.node) == ("start", moving.source)
    moving.finish()
    assert moving.move.step is Step.ROLLED_BACK


@pytest.mark.parametrize("step", [Step.PREPARE, Step.CARRY, Step.TRANSFER])
def test_what_carries_is_done_again_a_few_times_and_then_given_up(step: Step) -> None:
    moving = Moving()
    first = moving.to(step)
    for _ in range(2):
        moving.end(Unknown("cut"))
        moving.bench.say(Tick(at_us=0), after_us=10 * US)
        assert moving.move.step is step
        assert moving.effect.id != first.id
    moving.end(Unknown("cut"))
    moving.finish()
    assert moving.move.step is Step.ROLLED_BACK
    assert moving.service.node == moving.source


@pytest.mark.parametrize(("state", "goes_on"), [("running", False), ("exited", True)])
def test_a_checkpoint_of_which_nothing_is_known(state: str, *, goes_on: bool) -> None:
    moving = Moving()
    moving.to(Step.CHECKPOINT)
    moving.end(Unknown("timed out"))
    moving.bench.listed(moving.source, shown(moving.made, "first", state, exit_code=137))
    if goes_on:
        assert moving.move.step is Step.CARRY
    else:  # a checkpoint that comes late is undone: the source is guarded
        assert moving.finish() == ["start", "restart_policy"]
        assert moving.service.guard_us > moving.bench.now_us
    moving.finish()
    assert moving.move.step is (Step.DONE if goes_on else Step.ROLLED_BACK)


@pytest.mark.parametrize("kind", ["live", "snapshot"])
@pytest.mark.parametrize("dies_at", range(9))
def test_a_daemon_that_dies_at_any_step_ends_with_one_copy(kind: str, dies_at: int) -> None:
    """Open effects end unknown; listings then show what the engines truly have."""
    moving = Moving(kind)
    truth = Truth(moving)
    for _ in range(dies_at):
        truth.go_on()
    truth.happens()
    moving.bench.restart()
    for name in ("a", "b"):
        moving.bench.connect_again(name)
    for _ in range(60):
        if moving.move.step in STEP_OVER:
            break
        truth.show()
        truth.go_on()
    assert moving.move.step in (Step.DONE, Step.ROLLED_BACK)
    truth.show()
    running = [name for name, copies in truth.running.items() if copies]
    assert running == [moving.service.node]


class Truth:
    """What the engines truly have: effects are carried out here, and listings tell of it."""

    def __init__(self, moving: Moving) -> None:
        self.moving = moving
        self.copies = {moving.source: {"first": (moving.made, "running")}, moving.target: {}}

    @property
    def running(self) -> dict[str, list[str]]:
        return {
            name: [key for key, (_, state) in rows.items() if state == "running"]
            for name, rows in self.copies.items()
        }

    def go_on(self) -> None:
        """Carry out what is under way and tell of its end, or let time pass."""
        if list(self.moving.bench.tables.effects.values()):
            effect = self.happens()
            if effect is not None and effect.id in self.moving.bench.tables.effects:
                value = {"create": "second", "carry": "image"}.get(effect.kind, "")
                self.moving.bench.end(effect, Done(value))
        else:
            self.moving.bench.say(Tick(at_us=0), after_us=30 * US)
            self.show()

    def happens(self) -> Any:
        """Carry out what is under way, and tell nobody."""
        effects = list(self.moving.bench.tables.effects.values())
        if not effects:
            return None
        effect, rows = effects[0], self.copies[effects[0].node]
        if effect.kind == "create":
            rows["second"] = (effect, "created")
        elif effect.kind == "start":
            rows[effect.engine_id] = (rows[effect.engine_id][0], "running")
        elif effect.kind in ("stop", "checkpoint"):
            assert isinstance(effect, CheckpointContainer) == (effect.kind == "checkpoint")
            rows[effect.engine_id] = (rows[effect.engine_id][0], "exited")
        elif effect.kind == "retire":
            rows.pop(effect.target, None)
        assert sum(map(len, self.running.values())) <= 1, "two copies run"
        return effect

    def show(self) -> None:
        """Have both engines listed."""
        for name, rows in self.copies.items():
            facts = [shown(made, key, state) for key, (made, state) in rows.items()]
            self.moving.bench.listed(name, *facts)
