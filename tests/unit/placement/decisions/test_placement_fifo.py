"""``fifo``, ``fifo_c`` and ``fifo_c_free`` (section 6.2 of the SLA paper)."""

from tenure.model.placing import Placed, Unplaceable
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

POLICIES = Policies()
#: Names in the order of the list: a small idle node, a large one in use, another idle one.
NODES = [
    N("a", 2, is_on=False),
    N("b", 8, free_cores=3, remaining_s=50, usd_per_h=9, is_cloud=True),
    N("c", 4, is_on=False),
]


def used(policy: str, executors: int, nodes: list[N] = NODES) -> dict[str, int]:
    view = view_of(nodes)
    answer = POLICIES.place(policy, view, ask_of(view, executors), 0)
    assert isinstance(answer, Placed)
    return dict(answer.counts)


def test_fifo_goes_round_and_round() -> None:
    # Passes: a b c, a b c, b c (a is full), c.
    assert used("fifo", 2) == {"a": 1, "b": 1}
    assert used("fifo", 4) == {"a": 2, "b": 1, "c": 1}
    assert used("fifo", 8) == {"a": 2, "b": 3, "c": 3}


def test_fifo_c_packs_nodes_in_use_first() -> None:
    assert used("fifo_c", 3) == {"b": 3}
    assert used("fifo_c", 6) == {"a": 2, "b": 3, "c": 1}


def test_fifo_c_free_packs_the_node_with_the_fewest_free_cores() -> None:
    # 2, 3 and 4 cores are free: the small idle node comes before the one in use.
    assert used("fifo_c_free", 3) == {"a": 2, "b": 1}
    assert used("fifo_c_free", 6) == {"a": 2, "b": 3, "c": 1}


def test_the_cloud_is_left_out_where_it_would_be_late() -> None:
    view, busy = view_of(NODES), view_of([*NODES[:2], N("c", 4, free_cores=1)])
    ask, more = (ask_of(view, k, local_s=100, hybrid_s=130, deadline_s=120) for k in (3, 4))
    for policy in ("fifo", "fifo_c", "fifo_c_free"):
        answer = POLICIES.place(policy, view, ask, 0)
        assert isinstance(answer, Placed)
        assert "b" not in dict(answer.counts)
        # There is room for four, but for three on local nodes.
        assert POLICIES.place(policy, busy, more, 0) == Unplaceable("too_late")


def test_all_or_nothing() -> None:
    view = view_of(NODES)
    for policy in ("fifo", "fifo_c", "fifo_c_free"):
        assert POLICIES.place(policy, view, ask_of(view, 10), 0) == Unplaceable("no_room")
