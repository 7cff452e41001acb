"""Aiming a fault at a step, and the count of how often each step was struck."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from testbed import bounded
from tests.faults.statedb import Watch

#: Steps of a job and its executors, in the words of public events and of stored records.
JOB_STEPS = (
    "job.accepted",
    "job.starting",
    "job.running",
    "job.cancelling",
    "executor.creating",
    "executor.created",
    "executor.starting",
    "executor.running",
    "executor.exited",
    "grave.open",
)
POWER_STEPS = ("node.booting", "node.on", "node.stopping", "node.off")
MOVE_STEPS = (
    "migration.create",
    "migration.disarm",
    "migration.stop",
    "migration.start",
    "migration.verify",
    "migration.commit",
    "migration.sweep",
    "migration.undo_target",
    "migration.undo_source",
    "migration.undo_arm",
)
RUN_STEPS = ("run.due", "run.claimed", "run.enacting")
#: A request is under way and its answer is not sent; any moment at all.
REPLY, ANY = "reply.pending", "any.moment"
#: The fault comes up to this long after the step was stored.
DELAY_S = 0.15
AIM_S = 180.0
#: So often are steps that were never struck aimed at again when all others were.
ROUNDS = 3
#: A strike takes some seconds with all that leads to it and must hold after it, ``AIM_S`` and some
#: where its step does not come.
STRIKE_S = 600.0
#: While an aim waits, whoever is to act meanwhile is asked to so often (s).
ACT_S = 0.5


@contextmanager
def limited(strike: str, limit_s: float = STRIKE_S) -> Iterator[None]:
    """Break off whatever a strike hangs in, saying which it was; for the main thread alone."""

    def break_off(*_: object) -> None:
        raise AssertionError(f"the strike {strike!r} is not over after {limit_s:g} s")

    before = signal.signal(signal.SIGUSR2, break_off)
    ring = (threading.get_ident(), signal.SIGUSR2)
    timer = threading.Timer(limit_s, signal.pthread_kill, ring)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        bounded.join(timer)  # what rings rings before the handler goes
        signal.signal(signal.SIGUSR2, before)


@dataclass
class Tally:
    """How often each step was aimed at, struck, and still held when the fault came."""

    required: tuple[str, ...]
    aimed: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)

    def note(self, step: str, *, was_struck: bool, standing: Iterable[str] = ()) -> None:
        """Count one strike; ``standing`` are the steps that the durable state was in."""
        self.aimed[step] += 1
        self.struck[step] += was_struck
        self.held.update(set(standing))

    def table(self) -> str:
        """Return the counts as text; ``held`` counts strikes of any aim that met the step."""
        rows = [f"{'step':<34}{'aimed':>6}{'struck':>7}{'held':>6}"]
        for step in sorted(set(self.required) | set(self.aimed)):
            numbers = f"{self.aimed[step]:>6}{self.struck[step]:>7}{self.held[step]:>6}"
            rows.append(f"{step:<34}{numbers}")
        return "\n".join([*rows, f"{'all':<34}{self.aimed.total():>6}{self.struck.total():>7}"])

    def strikes(self, plan: Iterable[str]) -> Iterator[str]:
        """Return a plan's strikes, one after the other, then those not struck by then again.

        A step may not come in the time of one aim without anything being wrong: a live move that
        the machine was too busy for goes on as a snapshot.
        """
        yield from plan
        for _ in range(ROUNDS):
            yield from self.missing()

    def missing(self) -> list[str]:
        """Return the required steps that were never struck."""
        return [step for step in self.required if not self.struck[step]]


class Aim:
    """Waits until something enters a step, by the daemon's own database.

    What waits for a person would wait as long as the aim does, so ``act`` is called meanwhile; it
    returns whether it did anything. Where all is over (``is_over``) that could lead to a step,
    nothing is waited for.
    """

    def __init__(
        self,
        watch: Watch,
        rng: random.Random,
        act: Callable[[], bool] = lambda: False,
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._watch = watch
        self._rng = rng
        self._act = act
        self._is_over = is_over

    def at(self, step: str, is_wanted: Callable[[list[str]], bool] = lambda nodes: True) -> bool:
        """Return once ``step`` was entered and a random delay is over; False if it never was.

        ``is_wanted`` is asked with the nodes concerned, those of all that entered it together.
        """
        now_s = time.monotonic()
        deadline, act_s = now_s + AIM_S, now_s
        while now_s < deadline:
            if self._is_entered(step, is_wanted):
                self.delay()
                return True
            if now_s >= act_s:
                if self._is_over():
                    return self._is_entered(step, is_wanted)
                if self._act():
                    self._watch.look()  # a step entered meanwhile was not seen in time
                act_s = time.monotonic() + ACT_S
            time.sleep(0.002)
            now_s = time.monotonic()
        return False

    def _is_entered(self, step: str, is_wanted: Callable[[list[str]], bool]) -> bool:
        nodes = self._watch.look().steps.get(step)
        return nodes is not None and is_wanted(nodes)

    def delay(self) -> None:
        """Wait for a random part of ``DELAY_S``; every third time for none at all."""
        if self._rng.random() > 1 / 3:
            time.sleep(self._rng.uniform(0, DELAY_S))
