"""A node with 2.8 cores too many beside one with 5 free gave no move: cycles could not repair."""

from __future__ import annotations

import pytest

from tenure.core.capacity import room
from tenure.core.state.params import Params
from tenure.cycles.planner import plan
from tenure.model.container import Profile
from tenure.model.events import (
    ClaimRun,
    Configured,
    CreateService,
    CycleDue,
    SubmitPlan,
    UsageObserved,
)
from tenure.model.outcome import Done
from tenure.model.plan import CycleSpec, Run
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.fleet.worker import snapshot_of
from tests.regression.acts import wait
from tests.unit.core.bench import IMAGE, SIZE, SMALL, Bench, node

NODES = (node("n", "nursery"), node("y", "young"), node("z", "young"))
CYCLE = CycleSpec("up", "nursery", "young", headroom=1.0, is_consolidating=False)


class Grown:
    """A bench whose node ``y`` holds four containers that fit it by what they asked for."""

    def __init__(self) -> None:
        self.bench = Bench(params=Params(min_on={}, cooldown_us=0))
        self.bench.say(Configured(at_us=0, nodes=NODES, cycles=(CYCLE,)))
        self.bench.connect("y")
        self.keys = [self._run(f"s{i}") for i in range(4)]
        self.bench.connect("z")
        self.due = 0

    def _run(self, name: str) -> str:
        bench, key = self.bench, f"{name:0>64}"
        command = CreateService(
            at_us=0,
            request=name,
            container=key,
            name=name,
            app=name,
            body={"Image": IMAGE},
            request_resources=SMALL,
            generation="young",
        )
        bench.say(command)
        bench.end(bench.open("create"), Done(name))
        bench.end(bench.open("start"))
        return key

    def use(self, *cores_m: int, now_m: int = 0) -> None:
        """Have the containers measured, and what owners use of ``y`` at the moment."""
        rows = zip(self.keys, cores_m, strict=True)
        profiles = (Profile(key, Resources(cpu_m, 16 * MIB), 10, 60 * US) for key, cpu_m in rows)
        regular = {"y": Resources(now_m, 64 * MIB), "z": Resources()}
        self.bench.say(UsageObserved(at_us=0, profiles=tuple(profiles), regular=regular))

    def cycle(self) -> Run:
        """Have the cycle due, planned and enacted."""
        self.due += 1
        bench, run_id = self.bench, f"up@{self.due}"
        bench.say(CycleDue(at_us=0, cycle="up", due_us=self.due))
        bench.say(ClaimRun(at_us=0, request="c", cycle="up"))
        made = plan(snapshot_of(bench.state), CYCLE, run_id)
        run = bench._reply(bench.say(SubmitPlan(at_us=0, request="p", plan=made)))
        assert isinstance(run, Run)
        return run


@pytest.mark.parametrize("now_m", [0, SIZE.cpu_m])
def test_what_grew_beyond_its_node_moves_to_another_that_has_room(now_m: int) -> None:
    grown = Grown()
    if now_m:  # their profiles do not tell yet, but next to nothing of the node is left
        grown.use(400, 400, 300, 300, now_m=now_m)
    else:
        grown.use(1000, 700, 400, 400)
        assert grown.bench.read(room.free_on, grown.bench.tables.nodes["y"]).cpu_m < 0
    first = grown.cycle()
    assert (first.verdicts, [note.code for note in first.nodes]) == ((), ["overloaded"])
    second = grown.cycle()
    assert [note.code for note in second.nodes] == ["relieved"]
    assert {verdict.code for verdict in second.verdicts} == {"accepted"}
    moves = grown.bench.open_moves()
    assert moves
    assert {(move.source, move.target) for move in moves} == {("y", "z")}


def test_what_was_measured_long_ago_is_no_present_use() -> None:
    grown = Grown()
    grown.use(400, 400, 300, 300, now_m=SIZE.cpu_m)
    assert [note.code for note in grown.cycle().nodes] == ["overloaded"]
    wait(grown.bench, room.FRESH_US // US)
    assert grown.cycle().nodes == ()


def test_what_fits_stays() -> None:
    grown = Grown()
    grown.use(800, 600, 300, 300, now_m=SIZE.cpu_m * 9 // 10)
    assert [grown.cycle().nodes for _ in range(3)] == [(), (), ()]
    assert grown.bench.open_moves() == []
