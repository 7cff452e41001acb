"""``exact``: the optimum of Eq. 16 by hand. That it is least of all covers is in tests/property."""

from tenure.model.placing import Placed, Unplaceable
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

POLICIES = Policies()


def place(nodes: list[N], executors: int, **ask: object) -> Placed | Unplaceable:
    view = view_of(nodes)
    return POLICIES.place("exact", view, ask_of(view, executors, **ask), 0)  # type: ignore[arg-type]


def used(nodes: list[N], executors: int, **ask: object) -> tuple[tuple[str, int], ...]:
    answer = place(nodes, executors, **{"local_s": 100, "hybrid_s": 100, **ask})
    assert isinstance(answer, Placed)
    return answer.counts


def test_worked_example_where_greedy_pays_twice() -> None:
    # 100 s: a and b cost $0.01 each for 2 slots, c $0.015 for 4. E = 4: Algorithm 2 takes a, then
    # b, for $0.02; the optimum is c alone.
    nodes = [N("a", 2, usd_per_h=0.36), N("b", 2, usd_per_h=0.36), N("c", 4, usd_per_h=0.54)]
    assert place(nodes, 4) == Placed((("c", 4),), "local", 15_000_000, 100 * US, 0)
    view = view_of(nodes)
    greedy = POLICIES.place("gio", view, ask_of(view, 4), 0)
    assert greedy == Placed((("a", 2), ("b", 2)), "local", 20_000_000, 100 * US, 0)


def test_worked_example_of_both_sites() -> None:
    # Local with T_C^L = 100 s: a for $0.02 and b for $0.04. Both with T_C^H = 130 s: a $0.026, and
    # the hole on z, which is on for 130 s anyway, for nothing.
    nodes = [
        N("a", 2, usd_per_h=0.72),
        N("b", 2, usd_per_h=1.44),
        N("z", free_cores=2, usd_per_h=9, remaining_s=130, is_cloud=True),
    ]
    answer = place(nodes, 4, local_s=100, hybrid_s=130)
    assert answer == Placed((("a", 2), ("z", 2)), "hybrid", 26_000_000, 130 * US, 0)
    # In time is the local run alone (Eq. 15): $0.06.
    answer = place(nodes, 4, local_s=100, hybrid_s=130, deadline_s=130)
    assert answer == Placed((("a", 2), ("b", 2)), "local", 60_000_000, 100 * US, 0)


def test_a_boot_is_only_waited_for_where_that_pays() -> None:
    # With b: all start at 60 s and a, which is on until 100 s, stays for 60 s more.
    def nodes(usd_per_h: float) -> list[N]:
        b = N("b", 2, usd_per_h=0.72, is_on=False, boot_s=60)
        return [N("a", 2, usd_per_h=0.36, remaining_s=100), b, N("c", 2, usd_per_h=usd_per_h)]

    cheap = place(nodes(1.0), 4)
    assert isinstance(cheap, Placed)
    assert (cheap.counts, cheap.delay_us) == ((("a", 2), ("c", 2)), 0)
    dear = place(nodes(1.5), 4)
    assert dear == Placed((("a", 2), ("b", 2)), "local", 6_000_000 + 32_000_000, 100 * US, 60 * US)


def test_what_is_paid_for_anyway_counts() -> None:
    nodes = [
        N("a", 2, usd_per_h=0.36, is_on=False, min_billing_s=600),
        N("b", 2, usd_per_h=1.8, is_on=False),
    ]
    assert used(nodes, 2) == (("b", 2),)


def test_ties_core_time_then_cores_left_over_then_name() -> None:
    # All free of charge. a would be kept on for 100 s more, b for 50 s, on 4 cores each.
    assert used([N("a"), N("b", remaining_s=50)], 1) == (("b", 1),)
    # 100 s on 8 cores against 100 s on 4.
    assert used([N("a", 8), N("b", 4)], 2) == (("b", 2),)
    # Nothing is kept on for longer: one core left over on b, three on a.
    holes = [N("a", 8, free_cores=5, remaining_s=200), N("b", 8, free_cores=3, remaining_s=200)]
    assert used(holes, 2) == (("b", 2),)
    assert used([N("b"), N("a")], 2) == (("a", 2),)


def test_room_is_left_where_it_lasts() -> None:
    # Both are needed; b is on for longer, so its hole stays useful for longer.
    nodes = [N("a", 4, remaining_s=200), N("b", 4, remaining_s=500)]
    assert used(nodes, 5) == (("a", 4), ("b", 1))


def test_reasons() -> None:
    nodes = [N("a", free_cores=0), N("z", is_cloud=True)]
    assert place(nodes, 1, local_s=100, hybrid_s=130, deadline_s=130) == Unplaceable("too_late")
    assert place([N("a", free_cores=3)], 4) == Unplaceable("no_room")
    assert place([N("a")], 5) == Unplaceable("no_node")
