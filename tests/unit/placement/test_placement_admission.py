"""Admission at submission, through ``Policies.admit``."""

from dataclasses import replace

from tenure.model.placing import Admitted, Ask, ClusterView, Queued, RefusedJob
from tenure.model.units import US
from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, queued, view_of

NOW = 1_000 * US


def admit(
    view: ClusterView,
    queue: list[Ask],
    new: Ask,
    position: int,
    peers: tuple[int, int] | None = None,
) -> Admitted | RefusedJob:
    rows = [queued(ask) for ask in queue]
    return Policies().admit(view, (), rows, Queued(new, "gio"), position, NOW, peers=peers)


def test_admitted_with_its_forecast() -> None:
    view = view_of([N("a", usd_per_h=0.36)])
    answer = admit(view, [], ask_of(view, 4, local_s=100, deadline_s=1_101), 0)
    assert isinstance(answer, Admitted)
    assert answer.forecast.end_us == NOW + 100 * US
    assert answer.forecast.cost_nano == 10_000_000
    assert answer.forecast.mode == "local"


def test_ending_exactly_at_the_deadline_is_late() -> None:
    view = view_of([N("a", usd_per_h=0.36)])
    answer = admit(view, [], ask_of(view, 4, local_s=100, deadline_s=1_100), 0)
    assert isinstance(answer, RefusedJob)
    assert answer.reason == "deadline_unmeetable"
    assert answer.earliest_deadline_us == NOW + 100 * US + 1
    assert answer.earliest is not None
    assert answer.earliest.cost_nano == 10_000_000


def test_refused_when_it_would_make_an_admitted_job_late() -> None:
    view = view_of([N("a", 4)])
    waiting = ask_of(view, 4, id="w", local_s=100, deadline_s=1_150)
    new = ask_of(view, 4, id="n", local_s=100, deadline_s=1_120)
    answer = admit(view, [waiting], new, 0)
    assert isinstance(answer, RefusedJob)
    assert (answer.reason, answer.victims) == ("would_delay_others", ("w",))
    # Behind w it ends at 200 s.
    assert answer.earliest_deadline_us == NOW + 200 * US + 1
    assert answer.earliest is not None
    assert answer.earliest.start_us == NOW + 100 * US


def test_a_job_that_is_late_anyway_is_no_victim() -> None:
    view = view_of([N("a", 4)])
    late = ask_of(view, 4, id="w", local_s=100, deadline_s=1_050)
    new = ask_of(view, 4, id="n", local_s=20, deadline_s=1_030)
    assert isinstance(admit(view, [late], new, 0), Admitted)


def test_the_earliest_deadline_may_need_the_cloud() -> None:
    view = view_of([N("a", 4), N("z", 4, usd_per_h=0.36, is_cloud=True, is_on=False, boot_s=30)])
    waiting = ask_of(view, 4, id="w", local_s=500, deadline_s=1_600)
    new = ask_of(view, 4, id="n", local_s=100, hybrid_s=120, deadline_s=1_110)
    answer = admit(view, [waiting], new, 0)
    assert isinstance(answer, RefusedJob)
    # n would be in time on the local node, the only one on which w is in time. Only a deadline
    # not before w's puts it behind, and then it runs on the cloud node.
    assert answer.reason == "would_delay_others"
    assert answer.earliest_deadline_us == NOW + 600 * US
    assert answer.earliest is not None
    assert (answer.earliest.mode, answer.earliest.end_us) == ("hybrid", NOW + 150 * US)
    again = replace(new, deadline_us=answer.earliest_deadline_us)
    assert isinstance(admit(view, [waiting], again, 1), Admitted)


def test_larger_than_the_fleet() -> None:
    view = view_of([N("a", 4)])
    for deadline_s in (None, 5_000):
        answer = admit(view, [], ask_of(view, 5, deadline_s=deadline_s), 0)
        assert answer == RefusedJob("never_fits")


def test_no_deadline_is_admitted_last_and_refused_only_for_others() -> None:
    view = view_of([N("a", 4)])
    waiting = ask_of(view, 4, id="w", local_s=100, deadline_s=1_150)
    new = ask_of(view, 4, id="n", local_s=100)
    assert isinstance(admit(view, [waiting], new, 1), Admitted)
    ahead = admit(view, [waiting], new, 0, peers=(0, 0))
    assert ahead == RefusedJob("would_delay_others", victims=("w",))


def test_a_higher_priority_stays_ahead_with_any_deadline() -> None:
    view = view_of([N("a", 4)])
    waiting = ask_of(view, 4, id="w", local_s=100, deadline_s=1_150)
    urgent = ask_of(view, 4, id="n", local_s=100, deadline_s=1_050)
    answer = admit(view, [waiting], urgent, 0, peers=(0, 0))
    # Its own earliest deadline would hurt w, and no later one moves it behind w.
    assert answer == RefusedJob("deadline_unmeetable", victims=("w",))
    moved = admit(view, [waiting], urgent, 0, peers=(0, 1))
    assert isinstance(moved, RefusedJob)
    assert moved.earliest_deadline_us == NOW + 200 * US + 1
