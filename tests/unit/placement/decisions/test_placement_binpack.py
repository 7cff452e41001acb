from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of


def choose(nodes: list[N], cores: float = 1, gib: float = 1) -> str | None:
    view = view_of(nodes)
    return Policies().spread("binpack", view, ask_of(view, cores=cores, gib=gib), 1)


def test_the_fullest_that_still_has_room() -> None:
    assert choose([N("a", free_cores=2), N("b", free_cores=1), N("c", free_cores=0.5)]) == "b"


def test_on_before_off_and_name_on_ties() -> None:
    assert choose([N("a", free_cores=1, is_on=False, boot_s=60), N("b")]) == "b"
    assert choose([N("b"), N("a")]) == "a"
    assert choose([N("a", free_cores=0)]) is None
