from tenure.placement.policies import Policies
from tests.unit.placement.build import N, ask_of, view_of


def choose(nodes: list[N], seed: int = 1, cores: float = 1, gib: float = 1) -> str | None:
    view = view_of(nodes)
    return Policies().spread("spread", view, ask_of(view, cores=cores, gib=gib), seed)


def test_the_least_loaded_afterwards() -> None:
    assert choose([N("a", free_cores=2), N("b", free_cores=3), N("c", free_cores=1)]) == "b"
    # a: 1/2 + 1/16 after; b: 3/8 + 5/32: the larger node is emptier with one more.
    assert choose([N("a", 2, 16), N("b", 8, 32, free_cores=6, free_gib=28)]) == "b"


def test_memory_counts_as_much_as_cpu() -> None:
    assert choose([N("a", free_gib=4), N("b", free_cores=2)]) == "b"


def test_only_nodes_that_fit_and_on_before_off() -> None:
    assert choose([N("a", free_cores=0.5), N("b", free_cores=1)]) == "b"
    assert choose([N("a", 64, 256, is_on=False, boot_s=60), N("b", free_cores=1)]) == "b"
    assert choose([N("a", is_on=False, boot_s=60), N("b", free_cores=0)]) == "a"
    assert choose([N("a", free_cores=0)]) is None
    assert choose([]) is None


def test_services_that_request_nothing_are_spread_by_seed() -> None:
    nodes = [N("a"), N("b"), N("c")]
    assert {choose(nodes, seed, 0, 0) for seed in range(30)} == {"a", "b", "c"}
    assert choose(nodes, 7, 0, 0) == choose(nodes, 7, 0, 0)
