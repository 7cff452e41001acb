"""The power drivers of simulated hosts, and the true times at which hosts were on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tenure.model.effects import ProbePower, SwitchPower
from tenure.model.node import NodeSpec
from tenure.model.outcome import Done, Outcome, Refused, Unknown
from tests.fleet.faults import POWER_FAULTS, Faults
from tests.fleet.machine import Machine
from tests.fleet.timeline import Timeline

#: A power command that hangs is given up after this long.
TIMEOUT_MS = 20_000
#: A command that was given up acts within this time or never: the core waits for as long
#: (``Params.power_retry_us``) before it believes a node that it told to go off.
LATE_MS = 19_000
Answer = Callable[[Outcome], None]


@dataclass(slots=True)
class OnTimes:
    """When one host was truly on: closed spans, and since when the open one."""

    since_us: int | None = None
    spans: list[tuple[int, int]] = field(default_factory=list)

    def total_us(self, until_us: int) -> int:
        """Return the time on until then."""
        closed = sum(end - start for start, end in self.spans)
        return closed + (until_us - self.since_us if self.since_us is not None else 0)


class SimPower:
    """Switches hosts on and off, with the faults of real drivers."""

    def __init__(self, timeline: Timeline, faults: Faults) -> None:
        self._timeline = timeline
        self._faults = faults
        self._machines: dict[str, Machine] = {}
        self._boot_us: dict[str, int] = {}
        self.times: dict[str, OnTimes] = {}
        self._deaths_us: list[int] = []
        self.going_off: Callable[[Machine], None] = lambda machine: None

    def add(self, machine: Machine, spec: NodeSpec) -> None:
        """Put a host under control."""
        self._machines[machine.name] = machine
        self._boot_us[machine.name] = spec.power.boot_us
        now_us = self._timeline.now_us
        self.times[machine.name] = OnTimes(now_us if machine.is_powered else None)

    def switch(self, effect: SwitchPower, answer: Answer) -> None:
        """Carry out a power command."""
        fault = self._faults.one_of(POWER_FAULTS[:-1])
        delay_us = self._faults.delay_us(100, 3000)
        late_us = self._faults.delay_us(TIMEOUT_MS, TIMEOUT_MS)
        after = self._timeline.after
        if fault not in ("power_fails", "power_lost"):
            act_us = late_us + self._faults.delay_us(1, LATE_MS) if fault == "power_late" else 0
            given_us = self._timeline.now_us
            after(act_us + delay_us // 2, lambda: self._act_by_then(effect, given_us))
        if fault in ("power_lost", "power_late"):
            after(late_us, lambda: answer(Unknown("the power command did not end in time")))
        elif fault in ("power_fails", "power_lies"):
            after(delay_us, lambda: answer(Refused("power_failed", fault)))
        else:
            after(delay_us, lambda: answer(Done()))

    def daemon_died(self) -> None:
        """Note that every command under way is given up now."""
        self._deaths_us.append(self._timeline.now_us)

    def _act_by_then(self, effect: SwitchPower, given_us: int) -> None:
        """Act, if that is not too long after the daemon that gave the command has died.

        Deaths of later daemons give the command no more time.
        """
        died_us = next((at_us for at_us in self._deaths_us if at_us >= given_us), None)
        if died_us is None or self._timeline.now_us < died_us + LATE_MS * 1000:
            self._act(effect)

    def _act(self, effect: SwitchPower) -> None:
        machine, times = self._machines[effect.node], self.times[effect.node]
        if effect.to == "on" and not machine.is_powered:
            machine.is_powered = True
            times.since_us = self._timeline.now_us
            jitter_us = self._faults.delay_us(0, 5000)
            self._timeline.after(self._boot_us[effect.node] + jitter_us, machine.come_up)
        elif effect.to == "off" and machine.is_powered:
            self.going_off(machine)
            self.off(machine)

    def off(self, machine: Machine) -> None:
        """Have a host go off, whoever wants it; one without a driver is dead until restored."""
        times = self.times.get(machine.name)
        if times is None:
            machine.die()
            return
        machine.power_off()
        assert times.since_us is not None
        times.spans.append((times.since_us, self._timeline.now_us))
        times.since_us = None

    def probe(self, effect: ProbePower, answer: Answer) -> None:
        """Answer whether the host is on."""
        delay_us = self._faults.delay_us(10, 500)
        if self._faults.strikes("probe_unclear"):
            self._timeline.after(delay_us, lambda: answer(Unknown("no clear answer")))
            return
        machine = self._machines[effect.node]

        def tell() -> None:
            answer(Done("on" if machine.is_powered else "off"))

        self._timeline.after(delay_us, tell)
