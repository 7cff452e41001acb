"""Engines, daemon, workload and witnesses of one fault run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from testbed import NodeSpec, Testbed
from tests.faults import laws
from tests.faults.laws import Scene, Span, Window
from tests.faults.operator import Operator
from tests.faults.recorder import Recorder
from tests.faults.share import Share
from tests.faults.statedb import Watch, records, standing
from tests.faults.strikes import ANY, REPLY, Aim, Tally
from tests.faults.tenured import Tenured, until
from tests.faults.truth import Truth
from tests.faults.workload import NOWHERE, TERMINAL, Lean, Load

SPECS = (
    NodeSpec("n1", "nursery", price_per_hour=0.05),
    NodeSpec("y1", "young", price_per_hour=0.05),
    NodeSpec("c1", "young", "cloud", price_per_hour=0.12, initially_on=False, powered=True),
    NodeSpec("t1", "tenured", price_per_hour=0.05),
)
CLOUD = "c1"
CYCLES: dict[str, Any] = {
    "promote": {"interval_s": 3, "args": "nursery", "min_age_s": 1, "min_samples": 1},
    "settle": {"interval_s": 4, "args": "young", "min_age_s": 1, "min_samples": 1},
}
DRAIN_S = 150.0
#: So many services move in place of each kind's usual number while a move's step is aimed at.
BUSY = 3
#: What fills the cloud node, and what empties it: services would hold it on their way.
FULL, EMPTY = Lean(is_cloudy=True), Lean(is_cloudy=False, has_services=False)


def fast_config(bed: Testbed) -> dict[str, Any]:
    """Return a configuration in which everything happens within seconds."""
    return bed.config() | {
        "stats": {"interval_s": 1},
        "power": {"grace_s": 4, "fence_after_s": 6, "retry_s": 1},
        "budgets": {"verify_s": 1, "cooldown_s": 0},
        "defaults": {"grace_stop_s": 2},
        "relist_s": 5,
    }


@dataclass
class Rig:
    """One fault run; ``dead`` are the times in which no daemon ran."""

    bed: Testbed
    tenured: Tenured
    truth: Truth
    recorder: Recorder
    share: Share
    name: str
    load: Load
    dead: list[Span] = field(default_factory=list)
    since_us: int = 0

    def __post_init__(self) -> None:
        self.operator = Operator(self.bed, self.tenured.database)

    @property
    def scene(self) -> Scene:
        return Scene(self.tenured.database, self.truth, self.recorder, self.bed)

    def begin(self) -> None:
        """Start daemon and workload."""
        self.tenured.start()
        self.since_us = now_us()
        self.load.start()

    def draw(self) -> random.Random:
        """Return the source of this run's delays."""
        return self.share.draw(f"strikes {self.name}")

    def kill_daemon(self, pause_s: float) -> set[str]:
        """Kill the daemon, start it again after a pause; return the steps that it was in."""
        begun = now_us()
        self.tenured.kill()
        held = standing(self.tenured.database)
        time.sleep(pause_s)
        self.tenured.start()
        self.dead.append(Span(begun, now_us()))
        return held

    @contextmanager
    def aim(self, step: str, rng: random.Random) -> Iterator[Aim]:
        """Watch the daemon's state for the time of one strike.

        Meanwhile the operator works, and the workload makes more of what leads to ``step``.
        """
        self._steer(step)
        watch = Watch(self.tenured.database)
        try:
            yield Aim(watch, rng, self._act)
        finally:
            watch.close()
            self.load.lean = NOWHERE

    def await_step(self, step: str, rng: random.Random) -> bool:
        """Return once ``step`` was entered; False if it never was."""
        if step == ANY:
            time.sleep(rng.uniform(0.2, 3.0))
            return True
        if step == REPLY:
            if not self.load.is_sending.wait(90):
                return False
            time.sleep(rng.uniform(0, 0.006))
            return True
        with self.aim(step, rng) as aim:
            return aim.at(step)

    def _act(self) -> bool:
        """Do what the operator is asked for; raises what the workload ended by: no step comes."""
        if self.load.error is not None:
            raise self.load.error
        return self.operator.work()

    def _steer(self, step: str) -> None:
        """Have the workload make more of what leads to a step, which comes seldom by chance.

        The cloud node is switched so that a power step comes: it needs work, or none.
        """
        if step.startswith("migration."):
            self.load.lean = Lean(movers=BUSY, stubborn=BUSY if "undo" in step else 0)
        if step.startswith("node."):
            is_up = step in ("node.booting", "node.on")
            first, then = (EMPTY, FULL) if is_up else (FULL, EMPTY)
            power = "off" if is_up else "on"
            self.load.lean = first
            until(lambda: self.power_of(CLOUD) == power, 60, f"{CLOUD} to be {power}")
            self.load.lean = then

    def power_of(self, node: str) -> str:
        """Return the power of a node by the state on the disk."""
        return str(records(self.tenured.database, "nodes")[node]["power"])

    def drain(self) -> None:
        """Submit no more, and wait until everything submitted has ended and come to rest."""
        self.load.stop()
        until(self._is_quiet, DRAIN_S, "the fleet to come to rest", poll_s=0.3)

    def _is_quiet(self) -> bool:
        database = self.tenured.database
        self.operator.work()
        jobs = records(database, "jobs").values()
        moves = records(database, "migrations").values()
        busy = [job for job in jobs if job["state"] not in TERMINAL]
        moving = [m for m in moves if m["step"] not in ("done", "rolled_back", "refused")]
        services = records(database, "services")
        restless = [key for key in self.load.services.values() if not _rests(services[key])]
        return not (busy or moving or restless or records(database, "tombstones"))

    def verdict(self, *, did_engines_die: bool = False, apart: str = "") -> list[str]:
        """Return every breach of a law; the daemon is stopped for it, so that nothing moves.

        ``did_engines_die``: an exit code that died with its engine costs another run (never one
        beside the first), and events of that time are lost. ``apart`` is a node that the daemon
        was not told of all the time.
        """
        until_us = now_us()
        assert self.tenured.stop() == 0, self.tenured.tail()
        scene, load = self.scene, self.load
        found = laws.jobs_ended_once(scene, load.expected)
        found += laws.work_done(scene, load.expected, is_once=not did_engines_die)
        found += laws.nothing_twice(scene)
        if not did_engines_die:
            found += laws.engines_saw_nothing_twice(scene) + laws.deaths_have_causes(scene)
        found += laws.services_run_once(scene, load.services)
        found += laws.records_are_whole(scene.database)
        window = Window(self.since_us, until_us, tuple(self.dead))
        nodes = [name for name in self.bed.nodes if name != apart]
        found += laws.ledger_is_right(scene, nodes, window)
        for line in laws.story(scene, found, self.since_us):
            print(line)
        return found

    def report(self, tally: Tally) -> None:
        """Print what was struck, and the seed that replays it."""
        jobs = len(self.load.expected)
        moves = list(records(self.tenured.database, "migrations").values())
        done = sum(move["step"] == "done" for move in moves)
        back = sum(move["step"] == "rolled_back" for move in moves)
        print(f"\n{self.name}: --faults {self.share.part} --faults-seed {self.share.seed}")
        print(tally.table())
        print(f"{jobs} jobs, {self.load.cuts} cut requests, {done} moves done, {back} rolled back")
        print(f"{self.operator.cleared} copies that the operator had to clear")


def _rests(service: dict[str, Any]) -> bool:
    return service["state"] in ("running", "stopped", "exited", "failed", "removed")


def now_us() -> int:
    """Return the wall clock, which daemon and power wrapper use too."""
    return time.time_ns() // 1000


@contextmanager
def rigged(
    folder: Path,
    share: Share,
    name: str,
    *,
    live_restore: bool = True,
    change: Callable[[dict[str, Any]], None] = lambda config: None,
    **load: Any,
) -> Iterator[Rig]:
    """Set up one fault run on fresh engines and take everything away afterwards."""
    print(f"{name}: --faults {share.part} --faults-seed {share.seed}")
    with Testbed(SPECS, folder / "bed", live_restore=live_restore) as bed:
        truth = Truth(folder / "beats")
        config = fast_config(bed)
        change(config)
        tenured = Tenured(folder, config, {name: dict(row) for name, row in CYCLES.items()})
        recorder = Recorder(bed)
        work = Load(tenured, truth, share.draw(f"workload {name}"), **load)
        rig = Rig(bed, tenured, truth, recorder, share, name, work)
        try:
            yield rig
        except BaseException:
            print(f"end of the daemon's log:\n{tenured.tail()}")
            raise
        finally:
            _end(rig)


def _end(rig: Rig) -> None:
    """Stop what runs; a workload that cannot reach the daemon gives up by itself."""
    try:
        rig.load.abandon()
        rig.tenured.stop()
    finally:
        rig.recorder.close()
