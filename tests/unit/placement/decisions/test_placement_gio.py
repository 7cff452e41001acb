"""Algorithm 2, Eq. 17 and 18."""

from tenure.model.placing import Placed, Unplaceable
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

POLICIES = Policies()


def place(nodes: list[N], executors: int, **ask: object) -> Placed | Unplaceable:
    view = view_of(nodes)
    return POLICIES.place("gio", view, ask_of(view, executors, **ask), 0)  # type: ignore[arg-type]


def test_worked_example_local() -> None:
    # T_C^L = 100 s. Eq. 18: a (100 - 80) s at $0.90/h = $0.005; b 100 s at $0.36/h = $0.01;
    # c is kept on for 500 s anyway: 0. Order c, a, b; E = 7 with 2 + 4 + 4 slots.
    nodes = [
        N("a", usd_per_h=0.90, remaining_s=80),
        N("b", usd_per_h=0.36),
        N("c", free_cores=2, usd_per_h=1.80, remaining_s=500),
        N("z", usd_per_h=0.0, is_cloud=True),
    ]
    answer = place(nodes, 7, local_s=100, hybrid_s=130)
    assert answer == Placed((("a", 4), ("b", 1), ("c", 2)), "local", 15_000_000, 100 * US, 0)


def test_worked_example_hybrid() -> None:
    # Local holds 2 of 5, so T_C = T_C^H = 130 s for every node (Eq. 5).
    # a: (130 - 30) s at $0.36/h = $0.01; y: 130 s at $0.72/h = $0.026; z: 20 s at $0.90/h = $0.005.
    # Order z (2 slots), a (2), y (1): $0.005 + $0.01 + $0.026.
    nodes = [
        N("a", free_cores=2, usd_per_h=0.36, remaining_s=30),
        N("y", usd_per_h=0.72, is_cloud=True),
        N("z", free_cores=2, usd_per_h=0.90, remaining_s=110, is_cloud=True),
    ]
    answer = place(nodes, 5, local_s=100, hybrid_s=130)
    assert answer == Placed((("a", 2), ("y", 1), ("z", 2)), "hybrid", 41_000_000, 130 * US, 0)


def test_boot_is_waited_for_and_paid() -> None:
    nodes = [N("z", usd_per_h=0.36, is_on=False, is_cloud=True, boot_s=60)]
    answer = place(nodes, 1, local_s=100, hybrid_s=140)
    assert answer == Placed((("z", 1),), "hybrid", 20_000_000, 140 * US, 60 * US)


def test_one_booting_node_delays_and_extends_the_others() -> None:
    # Start at 60 s, end at 160 s: a is on for 160 s instead of 100 s.
    nodes = [
        N("a", usd_per_h=0.36, remaining_s=100),
        N("b", usd_per_h=0.72, is_on=False, boot_s=60),
    ]
    answer = place(nodes, 5, local_s=100)
    assert answer == Placed(
        (("a", 4), ("b", 1)), "local", 6_000_000 + 32_000_000, 100 * US, 60 * US
    )


def test_ties_core_time_then_site_then_free_cores_then_name() -> None:
    def used(nodes: list[N], executors: int = 1) -> tuple[tuple[str, int], ...]:
        answer = place(nodes, executors, local_s=100, hybrid_s=100)
        assert isinstance(answer, Placed)
        return answer.counts

    assert used([N("a"), N("b", remaining_s=50)]) == (("b", 1),)
    # A large node that is switched on for a little would leave more cores idle.
    assert used([N("a", 8), N("b", 2)], 2) == (("b", 2),)
    assert used([N("a", 8, free_cores=3), N("b", 8, free_cores=2)]) == (("b", 1),)
    assert used([N("b"), N("a")]) == (("a", 1),)
    # Local cannot hold all five; at equal cost and size it is still filled before the cloud.
    assert used([N("m", 4), N("a", 4, is_cloud=True)], 5) == (("a", 1), ("m", 4))


def test_cloud_only_if_in_time() -> None:
    nodes = [N("a", free_cores=0), N("z", is_cloud=True)]
    relaxed = place(nodes, 1, local_s=100, hybrid_s=130, deadline_s=131)
    assert isinstance(relaxed, Placed)
    assert relaxed.mode == "hybrid"
    # In 130 s only a local run is in time and local is full: it waits, room or not.
    assert place(nodes, 1, local_s=100, hybrid_s=130, deadline_s=130) == Unplaceable("too_late")


def test_waits_for_want_of_room() -> None:
    nodes = [N("a", free_cores=0), N("z", is_cloud=True, free_cores=0)]
    assert place(nodes, 1, deadline_s=1000) == Unplaceable("no_room")


def test_a_hopelessly_late_job_still_runs() -> None:
    nodes = [N("a", free_cores=0), N("z", is_cloud=True)]
    # Not even an empty local node could make 100 s: the deadline is ignored.
    answer = place(nodes, 1, local_s=100, hybrid_s=130, deadline_s=100)
    assert isinstance(answer, Placed)
    assert (answer.mode, answer.run_us) == ("hybrid", 130 * US)
    assert isinstance(place(nodes, 1, local_s=100, hybrid_s=130, deadline_s=-50), Placed)


def test_a_node_that_boots_too_long_is_left_out() -> None:
    nodes = [N("a", usd_per_h=0.1, is_on=False, boot_s=60), N("b", usd_per_h=9.0)]
    answer = place(nodes, 2, local_s=100, deadline_s=150)
    assert isinstance(answer, Placed)
    assert answer.counts == (("b", 2),)


def test_no_node() -> None:
    assert place([N("a")], 5) == Unplaceable("no_node")
    assert place([N("a")], 1, only=[]) == Unplaceable("no_node")
    assert place([], 1) == Unplaceable("no_node")


def test_learned_means_that_invert_are_mended() -> None:
    answer = place([N("z", is_cloud=True)], 1, local_s=100, hybrid_s=80)
    assert isinstance(answer, Placed)
    assert answer.run_us == 100 * US
