"""A bench whose queue is planned, and on which jobs run as soon as they are placed."""

from __future__ import annotations

from typing import Any

from tenure.core.state.params import Params
from tenure.model.events import (
    Tick,
)
from tenure.model.job import JobState
from tenure.model.node import Site
from tenure.model.outcome import Done
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.unit.core.bench import SIZE, Bench, node, shown

WHOLE = Resources(SIZE.cpu_m, 64 * MIB)


class Planned:
    """A bench on which whole nodes are asked for; jobs run as soon as they are placed."""

    def __init__(self, *names: str, cloud: str = "", **params: Any) -> None:
        self.made: dict[str, Any] = {}
        specs = [node(name) for name in names]
        if cloud:
            price = 100_000_000_000
            specs.append(node(cloud, driver="command", site=Site.CLOUD, price_nano_per_h=price))
        self.bench = Bench(*specs, params=Params(min_on={}, **params))
        for name in names:
            self.bench.connect(name)
        if cloud:
            self.bench.end(self.bench.open("probe"), Done("off"))

    def submit(self, name: str, run_s: float, slack_s: float | None = None, **spec: Any) -> Any:
        """Submit a job that takes a whole node and may end ``slack_s`` later than at once."""
        due_us = None if slack_s is None else self.bench.now_us + round((1 + run_s + slack_s) * US)
        words: dict[str, Any] = {"request": WHOLE, "policy": "tenure", "deadline_us": due_us} | spec
        answer = self.bench.submit(name, estimate_local_us=round(run_s * US), **words)
        self.go()
        return answer

    def go(self) -> None:
        """Have engines do what they are asked, at once."""
        while found := [e for e in self.bench.tables.effects.values() if e.kind in DOABLE]:
            made = Done(f"c-{found[0].id}") if found[0].kind == "create" else None
            if found[0].kind == "create":
                self.made[found[0].owner.partition(":")[2]] = (found[0], f"c-{found[0].id}")
            self.bench.say(_ended(found[0], made), after_us=1)

    def finish(self, job: str, exit_code: int = 0) -> None:
        """Have the one executor of a job be seen to have ended, now."""
        effect, engine_id = self.made[f"{job}/0"]
        ended = shown(effect, engine_id, "exited", exit_code=exit_code)
        asked_us = self.bench.now_us
        self.bench.listed(effect.node, ended, asked_us=asked_us)
        self.go()

    def wait(self, until_us: int) -> None:
        """Let time pass, with a tick whenever the core wants one."""
        while (due_us := self.bench.state.wakeup_us()) is not None and due_us <= until_us:
            self.bench.say(Tick(at_us=0), after_us=max(due_us - self.bench.now_us, 0))
            self.go()
        self.bench.say(Tick(at_us=0), after_us=max(until_us - self.bench.now_us, 0))
        self.go()

    def state(self, job: str) -> JobState:
        state: JobState = self.bench.tables.jobs[job].state
        return state

    def start_us(self, job: str) -> int:
        return int(self.bench.tables.reservations[job].start_us)

    def nodes(self, job: str) -> dict[str, int]:
        return dict(self.bench.tables.reservations[job].counts)


DOABLE = ("create", "start", "retire")


def _ended(effect: Any, outcome: Any) -> Any:
    from tenure.model.events import EffectEnded

    return EffectEnded(at_us=0, effect=effect.id, outcome=outcome or Done())
