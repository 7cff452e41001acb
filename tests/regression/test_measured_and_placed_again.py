"""A measured container that lost its node was placed by what it had asked for, and then counted.

Room was looked for by the request, and taken by the measured use, so a node held more than it has.
"""

from __future__ import annotations

from tenure.core.capacity import room
from tenure.model.container import ContainerState, Profile
from tenure.model.events import UsageObserved
from tenure.model.resources import Resources
from tenure.model.units import MIB, US
from tests.regression.acts import fence, run_service, wait
from tests.unit.core.bench import SIZE, Bench, node


def lost_with_use(cpu_m: int, *names: str) -> tuple[Bench, list[str]]:
    """Return a bench whose services ran on ``a``, were measured, and look for room on ``b``."""
    bench = Bench(node("a", "nursery"), node("b", "nursery"))
    bench.connect("a")
    keys = [run_service(bench, name)[0] for name in names]
    bench.connect("b")
    use = Resources(cpu_m, 16 * MIB)
    profiles = tuple(Profile(key, use, 10, 60 * US) for key in keys)
    bench.say(UsageObserved(at_us=0, profiles=profiles))
    fence(bench, "a")
    wait(bench, 10)
    return bench, keys


def test_it_looks_for_the_room_that_it_will_count_for() -> None:
    # with headroom two take 1430 of 2000: what is left is enough for a request of 500 alone
    bench, keys = lost_with_use(650, "one", "two", "three")
    found = [bench.tables.services[key].state for key in keys]
    assert found == [ContainerState.CREATING, ContainerState.CREATING, ContainerState.WAITING]
    free = bench.read(room.free_on, bench.tables.nodes["b"])
    assert free.cpu_m >= 0


def test_more_than_any_node_has_is_given_a_whole_one() -> None:
    bench, keys = lost_with_use(SIZE.cpu_m, "one", "two")
    found = [bench.tables.services[key].state for key in keys]
    assert found == [ContainerState.CREATING, ContainerState.WAITING]
