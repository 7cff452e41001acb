"""``asq``: all executors on one site (section 6.2 of the SLA paper)."""

from tenure.model.placing import Placed, Unplaceable
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of

POLICIES = Policies()
#: 2 free local cores, 4 free ones in the cloud.
NODES = [N("a", free_cores=2, remaining_s=50), N("z", usd_per_h=0.72, is_cloud=True)]


def place(nodes: list[N], executors: int, **ask: object) -> Placed | Unplaceable:
    view = view_of(nodes)
    return POLICIES.place("asq", view, ask_of(view, executors, **ask), 0)  # type: ignore[arg-type]


def test_worked_example() -> None:
    # Two fit the local node. Three do not: all go to the cloud, for T_C^H = 130 s.
    assert place(NODES, 2) == Placed((("a", 2),), "local", 0, 100 * US, 0)
    assert place(NODES, 3) == Placed((("z", 3),), "hybrid", 26_000_000, 130 * US, 0)


def test_it_waits_although_both_sites_together_have_room() -> None:
    assert place([NODES[0], N("z", free_cores=3, is_cloud=True)], 4) == Unplaceable("no_room")


def test_a_job_that_neither_site_can_hold_never_runs() -> None:
    nodes = [N("a"), N("z", is_cloud=True)]
    assert place(nodes, 5) == Unplaceable("no_node")
    view = view_of(nodes)
    assert not POLICIES.could_hold("asq", view, ask_of(view, 5))
    assert POLICIES.could_hold("gio", view, ask_of(view, 5))


def test_cloud_only_if_in_time() -> None:
    full = [N("a", free_cores=0), N("z", is_cloud=True)]
    assert place(full, 1, deadline_s=130) == Unplaceable("too_late")
    assert isinstance(place(full, 1, deadline_s=131), Placed)
