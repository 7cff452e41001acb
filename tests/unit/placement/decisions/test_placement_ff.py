"""Algorithm 1."""

from tenure.model.placing import Placed, Unplaceable
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

POLICIES = Policies()


def place(nodes: list[N], executors: int, **ask: object) -> Placed | Unplaceable:
    view = view_of(nodes)
    return POLICIES.place("ff", view, ask_of(view, executors, **ask), 0)  # type: ignore[arg-type]


def counts(answer: Placed | Unplaceable) -> dict[str, int]:
    assert isinstance(answer, Placed)
    return dict(answer.counts)


def test_active_nodes_come_before_cheaper_unused_ones() -> None:
    nodes = [N("a", usd_per_h=0.1, is_on=False), N("b", usd_per_h=5.0)]
    assert counts(place(nodes, 4)) == {"b": 4}
    assert counts(place(nodes, 5)) == {"a": 1, "b": 4}


def test_then_the_cheapest() -> None:
    nodes = [N("a", usd_per_h=0.3), N("b", usd_per_h=0.2), N("c", usd_per_h=0.1, is_on=False)]
    assert counts(place(nodes, 9)) == {"b": 4, "a": 4, "c": 1}


def test_then_the_least_free_by_weights() -> None:
    # a: 0.8 * 3 + 0.2 * 4 = 3.2; b: 0.8 * 2 + 0.2 * 9 = 3.4; unweighted b would come first.
    nodes = [N("a", free_cores=3, free_gib=4), N("b", free_cores=2, free_gib=9)]
    assert counts(place(nodes, 1)) == {"a": 1}
    # a: 0.8 * 3 + 0.2 * 4 = 3.2; b: 0.8 * 2 + 0.2 * 7 = 3.0.
    nodes = [N("a", free_cores=3, free_gib=4), N("b", free_cores=2, free_gib=7)]
    assert counts(place(nodes, 1)) == {"b": 1}


def test_then_the_name() -> None:
    assert counts(place([N("b"), N("a")], 1)) == {"a": 1}


def test_undone_as_a_whole_and_ends_when_no_unused_node_fits() -> None:
    nodes = [N("a"), N("b", cores=0.5, is_on=False)]
    assert place(nodes, 5) == Unplaceable("no_node")
    nodes = [N("a", free_cores=1), N("b", cores=0.5, is_on=False)]
    assert place(nodes, 2) == Unplaceable("no_room")


def test_the_unused_node_that_fits_is_chosen_not_the_cheapest_of_all() -> None:
    nodes = [
        N("a", free_cores=0),
        N("b", cores=1, usd_per_h=0.1, is_on=False),
        N("c", usd_per_h=0.2, is_on=False),
    ]
    assert counts(place(nodes, 2, cores=2)) == {"c": 2}


def test_a_cloud_node_makes_it_hybrid_and_t_c_longer() -> None:
    nodes = [N("a", free_cores=2), N("z", is_cloud=True, usd_per_h=0.36)]
    answer = place(nodes, 3, local_s=100, hybrid_s=130)
    # Eq. 8 and 11: 130 s at $0.36/h.
    assert answer == Placed((("a", 2), ("z", 1)), "hybrid", 13_000_000, 130 * US, 0)


def test_local_nodes_alone_when_cloud_would_be_too_late() -> None:
    nodes = [N("a", usd_per_h=2.0), N("z", is_cloud=True, usd_per_h=0.36)]
    relaxed = place(nodes, 3, local_s=100, hybrid_s=130, deadline_s=131)
    tight = place(nodes, 3, local_s=100, hybrid_s=130, deadline_s=130)
    assert counts(relaxed) == {"z": 3}
    assert counts(tight) == {"a": 3}
    assert isinstance(tight, Placed)
    assert (tight.mode, tight.run_us) == ("local", 100 * US)
