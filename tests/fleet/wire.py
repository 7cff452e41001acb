"""The wire between the daemon and the engines: delays, losses, lies, late and double answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tenure.model.effects import (
    CarryImage,
    CheckpointContainer,
    CollectOutput,
    CopyBlock,
    CreateContainer,
    EngineEffect,
    RetireContainer,
    SendInput,
    StartContainer,
    StopContainer,
    SurveyTiers,
    TierEffect,
    TransferState,
    TwoEngineEffect,
)
from tenure.model.outcome import Outcome, Refused, Unknown
from tests.fleet.faults import CALL_FAULTS, Faults
from tests.fleet.machine import Machine
from tests.fleet.timeline import Timeline

TIMEOUT_MS = 15_000
#: A call that was given up may still happen this long after.
LATE_MS = 60_000
Answer = Callable[[Outcome], None]


def perform(  # noqa: PLR0911 - one for each effect
    machines: Mapping[str, Machine], effect: EngineEffect, *, how: str = "asked"
) -> Outcome:
    """Do on an engine what an effect asks for; ``how`` late: the daemon gave it up before."""
    machine = machines[effect.node]
    if isinstance(effect, CarryImage | TransferState):
        return _receive(machine, machines[effect.source], effect)
    if isinstance(effect, TierEffect):
        source = effect.source if isinstance(effect, CopyBlock) else ""
        return machine.disks.perform(effect, machines.get(source, machine).disks)
    if isinstance(effect, SendInput):
        return machine.take_input(effect.engine_id)
    if isinstance(effect, CollectOutput):
        return machine.give_output(effect.engine_id)
    if isinstance(effect, CheckpointContainer):
        return machine.checkpoint(effect.engine_id, effect.checkpoint)
    if isinstance(effect, CreateContainer):
        return machine.create(effect.name, effect.body, pull=effect.pull)
    if isinstance(effect, StartContainer):
        return machine.start(effect.engine_id, how=how, checkpoint=effect.checkpoint)
    if isinstance(effect, StopContainer):
        return machine.stop(effect.engine_id)
    if isinstance(effect, RetireContainer):
        return machine.retire(effect.target)
    return machine.set_policy(effect.engine_id, effect.policy)


def _receive(machine: Machine, origin: Machine, effect: TwoEngineEffect) -> Outcome:
    if isinstance(effect, CarryImage):
        return machine.carry(origin, effect.source_id)
    return machine.transfer(effect.engine_id, origin, effect.source_id, effect.checkpoint)


class Wire:
    """Carries effects to engines and brings outcomes back."""

    def __init__(self, timeline: Timeline, faults: Faults, machines: dict[str, Machine]) -> None:
        self._timeline = timeline
        self._faults = faults
        self._machines = machines

    def send(self, effect: EngineEffect, answer: Answer) -> None:
        """Send an effect; ``answer`` is called once, or twice where an answer is doubled."""
        machine = self._machines[effect.node]
        if isinstance(effect, TierEffect):
            machine.disks.expect(effect)
        self._timeline.after(
            self._faults.delay_us(1, 300), lambda: self._arrive(machine, effect, answer)
        )

    def _arrive(self, machine: Machine, effect: EngineEffect, answer: Answer) -> None:
        if not machine.answers:
            self._unanswered(machine, effect, answer)
            return
        if not self._has_origin(effect):
            self._give_up(answer)
            return
        if isinstance(effect, StartContainer) and (left := self._faults.tear()):
            self._tear(machine, effect, left)
            self._give_up(answer)
            return
        fault = self._faults.one_of(CALL_FAULTS)
        if fault:
            self._faults.count(f"{fault}:{effect.kind}")
        if fault in ("lost", "late"):
            if fault == "late":
                late_ms = TIMEOUT_MS + self._faults.random.uniform(0, LATE_MS)
                late = partial(self._late, machine, effect, machine.boots)
                self._timeline.after(int(late_ms * 1000), late)
            self._give_up(answer)
        elif fault == "refused":
            answer(Refused("engine_error", "refused at random"))
        elif fault == "slow":
            delay_us = self._faults.delay_us(1000, TIMEOUT_MS * 0.9)
            self._timeline.after(delay_us, lambda: self._serve(machine, effect, answer, ""))
        else:
            self._serve(machine, effect, answer, fault)

    def _tear(self, machine: Machine, effect: StartContainer, left: str) -> None:
        """Have the engine die amid a start, come back, and somebody clear what it left."""
        machine.tear(effect.engine_id, left)
        self._timeline.after(self._faults.tear_us(0.5, 20), machine.come_up)
        self._timeline.after(self._faults.tear_us(30, 200), machine.clear)

    def _has_origin(self, effect: EngineEffect) -> bool:
        """Whether the other engine answers, of an effect that takes two."""
        if isinstance(effect, CarryImage | TransferState):
            return self._machines[effect.source].answers
        if isinstance(effect, CopyBlock) and effect.source:
            return self._machines[effect.source].answers
        return True

    def _unanswered(self, machine: Machine, effect: EngineEffect, answer: Answer) -> None:
        """Fail as real links do: refused at once where nobody listens, else only a time-out."""
        if machine.is_powered and not machine.is_up and not machine.is_cut and not machine.is_dead:
            answer(Refused("unreachable", "connection refused"))
            return
        if machine.is_frozen and not machine.is_cut:
            machine.held.append(partial(self._late, machine, effect, machine.boots))
        self._give_up(answer)

    def _give_up(self, answer: Answer) -> None:
        self._timeline.after(
            self._faults.delay_us(TIMEOUT_MS, TIMEOUT_MS), lambda: answer(Unknown("timed out"))
        )

    def _late(self, machine: Machine, effect: EngineEffect, boots: int) -> None:
        """Let a call that was given up happen after all, unless the engine that had it has ended.

        Its connection and what it took in ended with it: one that began since knows of neither.
        """
        if (
            machine.boots == boots
            and machine.is_powered
            and machine.is_up
            and self._has_origin(effect)
        ):
            perform(self._machines, effect, how="late")

    def _serve(self, machine: Machine, effect: EngineEffect, answer: Answer, fault: str) -> None:
        if not machine.answers:
            self._unanswered(machine, effect, answer)
            return
        if not self._has_origin(effect):
            self._give_up(answer)
            return
        if isinstance(effect, SurveyTiers):
            machine.disks.end_helpers()
        outcome = perform(self._machines, effect)
        if fault == "lie":
            outcome = Refused("engine_error", "an error after success")
        if fault == "deaf":
            self._give_up(answer)
            return
        self._return(machine, answer, outcome)
        if fault == "twice":
            self._return(machine, answer, outcome)

    def _return(self, machine: Machine, answer: Answer, outcome: Outcome) -> None:
        def arrive() -> None:
            if machine.is_cut or machine.is_frozen:
                self._give_up(answer)
            else:
                answer(outcome)

        self._timeline.after(self._faults.delay_us(1, 300), arrive)
