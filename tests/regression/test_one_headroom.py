"""Plans used the headroom of their cycle, and the core another.

With 1 in the cycle moves were refused one by one; what 1.5 had left free was given to the next.
"""

from __future__ import annotations

from tenure.core.capacity import room
from tenure.core.fleet import FleetState
from tenure.core.state.params import Params
from tenure.locality.localizer import Tiers
from tenure.model.container import Profile, Service, Step
from tenure.model.events import ClaimRun, Configured, CycleDue, SubmitPlan, UsageObserved
from tenure.model.plan import CycleSpec, Move, Plan
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tenure.placement.policies import Policies
from tests.regression.acts import run_service
from tests.unit.core.bench import SIZE, Bench, node


def planned(headroom: float, *uses_m: int) -> tuple[Bench, list[str]]:
    """Return a bench after a plan that moves containers of these uses, and its verdicts."""
    nodes = (node("n", "nursery"), node("y", "young"))
    bench = Bench(params=Params(min_on={}, cooldown_us=0))
    cycles = (CycleSpec("up", "nursery", "young", headroom=headroom),)
    bench.say(Configured(at_us=0, nodes=nodes, cycles=cycles))
    for name in ("n", "y"):
        bench.connect(name)
    keys = [run_service(bench, f"s{i}")[0] for i in range(len(uses_m))]
    uses = (Resources(cpu_m, 16 * MIB) for cpu_m in uses_m)
    profiles = tuple(Profile(key, use, 10, 60 * US) for key, use in zip(keys, uses, strict=True))
    bench.say(UsageObserved(at_us=0, profiles=profiles))
    bench.say(CycleDue(at_us=0, cycle="up", due_us=1))
    bench.say(ClaimRun(at_us=0, request="c", cycle="up"))
    moves = tuple(Move(key, 1, "n", "y", "") for key in keys)
    plan = Plan("up@1", "nursery", 0, bench.now_us + 60 * US, moves)
    run = bench._reply(bench.say(SubmitPlan(at_us=0, request="p", plan=plan)))
    return bench, [verdict.code for verdict in run.verdicts]


def test_what_the_cycle_finds_room_for_the_core_does_too() -> None:
    half = SIZE.cpu_m // 2
    bench, codes = planned(1.0, half, half)
    assert codes == ["accepted", "accepted"]
    assert [move.step for move in bench.open_moves()] == [Step.CREATE, Step.CREATE]


def test_what_the_cycle_leaves_free_stays_free() -> None:
    bench, codes = planned(1.5, SIZE.cpu_m // 2, SIZE.cpu_m // 5)
    assert codes == ["accepted", "no_room_cpu_m"]
    (move,) = bench.open_moves()
    assert move.request.cpu_m == SIZE.cpu_m * 3 // 4
    assert bench.read(room.free_on, bench.tables.nodes["y"]).cpu_m == SIZE.cpu_m // 4


def test_another_headroom_counts_as_soon_as_it_is_configured() -> None:
    bench, _ = planned(1.0, 1000)
    service = next(iter(bench.tables.services.values()))
    assert bench.read(room.need_of, service, "young").cpu_m == 1000
    cycles = (CycleSpec("in", "tenured", "nursery", headroom=1.9),)
    nodes = (node("n", "nursery"), node("y", "young"))
    assert bench.read(room.free_on, bench.tables.nodes["n"]).cpu_m == SIZE.cpu_m - 1100
    bench.say(Configured(at_us=0, nodes=nodes, cycles=cycles))
    assert bench.read(room.free_on, bench.tables.nodes["n"]).cpu_m == SIZE.cpu_m - 1900


def test_the_headroom_is_known_before_the_configuration_is_taken_in() -> None:
    """The first event places what waits: with the usual headroom a node held more than it has."""
    cycles = (CycleSpec("up", "nursery", "young", headroom=1.4),)
    state = FleetState(Params(), Policies, localizer=Tiers(), cycles=cycles)
    used = Resources(100, 16 * MIB)
    asked = Service("s", "s", "s", {}, "young", request=Resources(), created_us=0, known=used)
    assert state.read(room.need_of, asked).cpu_m == 140
