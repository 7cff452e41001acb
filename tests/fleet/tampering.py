"""Who steps clocks in a run: the daemon's wall, and those of engines.

The daemon's wall is stepped by seconds to days, forward and back, while it runs, while it is down,
and while its machine is started anew, whereupon the time since boot begins anew too; small
differences are no steps. Clocks of engines are minutes off from the start, and are stepped as well.
In runs without faults no clock is stepped: there deadlines are kept to the moment, and a step
forward brings them nearer.

Half of the runs with faults have none of it, by dice of its own: they stay what they were.
"""

from __future__ import annotations

from functools import partial
from random import Random

from tenure.model.units import US
from tests.fleet.clocks import SimClocks
from tests.fleet.machine import Machine
from tests.fleet.shell import SimShell

#: Clocks of engines are off by at most so much.
APART_US = 600 * US
#: A step is one of these, half as much or half as much again (seconds).
STEPS_S = (1, 3, 30, 600, 3_600, 86_400, 3 * 86_400)
#: When a wall is stepped: at any moment, while no daemon runs, while its machine is started anew.
OCCASIONS = ("", "", "down", "reboot")
#: A step is seen by the heartbeat of the daemon's loop, if by nothing else.
HEARTBEAT_US = 10 * US


class Tampering:
    """Who steps clocks in a run, by dice of its own."""

    def __init__(self, seed: int, clocks: SimClocks, *, is_calm: bool) -> None:
        self._dice = Random(f"clocks {seed}")
        self._clocks = clocks
        kind = "" if is_calm else self._dice.choice(("", "", "", "engines", "wall", "both"))
        self._is_wall, self._is_engines = kind in ("wall", "both"), kind in ("engines", "both")

    def begin(self, shell: SimShell, *, start_us: int, span_us: int) -> None:
        """Have clocks stepped at some moments of a run."""
        machines = shell.around.machines
        dice, at = self._dice, shell.around.timeline.at
        if self._is_engines:
            for name in sorted(machines):
                machines[name].apart_us = dice.randint(-APART_US, APART_US)
            for _ in range(dice.choice((0, 1, 3))):
                machine = machines[dice.choice(sorted(machines))]
                by_us, at_us = self._step_us(), start_us + dice.randrange(span_us)
                at(at_us, partial(_step_engine, shell, machine, by_us))
        for _ in range(dice.choice((1, 2, 5)) if self._is_wall else 0):
            by_us, at_us = self._step_us(), start_us + dice.randrange(span_us)
            how = dice.choice(OCCASIONS)
            at(at_us, partial(self._step_wall, shell, by_us, how))

    def _step_us(self) -> int:
        most_s = self._dice.choice(STEPS_S)
        return self._dice.choice((-1, 1)) * int(self._dice.uniform(0.5, 1.5) * most_s * US)

    def _step_wall(self, shell: SimShell, by_us: int, how: str) -> None:
        if how:
            shell.die(f"clock, {how}")
        if how == "reboot" and not shell.is_alive:
            self._clocks.reboot()
        shell.around.story.strike(f"clock_{how or 'running'}_{'back' if by_us < 0 else 'forward'}")
        shell.tell(f"    the wall is stepped by {by_us / US:.1f} s ({how or 'running'})")
        self._clocks.step(by_us)
        shell.around.timeline.after(self._dice.randrange(HEARTBEAT_US), shell.beat)


def _step_engine(shell: SimShell, machine: Machine, by_us: int) -> None:
    shell.around.story.strike("clock_of_engine")
    shell.tell(f"    the clock of {machine.name} is stepped by {by_us / US:.1f} s")
    machine.apart_us += by_us
