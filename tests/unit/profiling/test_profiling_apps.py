"""Which containers are the same app, and what foreign containers use."""

from tenure.model.resources import Resources
from tenure.profiling.intake.foreign import MEMORY, ForeignUse
from tenure.profiling.profiles.apps import app_of
from tenure.profiling.readings.sample import Reading, Sample


def test_the_label_names_the_app() -> None:
    assert app_of({"Image": "a", "Labels": {"tenure.app": "shop"}}) == "shop"


def test_without_a_label_image_and_command_do() -> None:
    sleep = app_of({"Image": "busybox", "Cmd": ["sleep", "9"]})
    assert sleep == app_of({"Image": "busybox", "Cmd": ["sleep", "9"], "Labels": None})
    assert sleep.startswith("busybox#")
    assert sleep != app_of({"Image": "busybox", "Cmd": ["sleep", "8"]})
    assert sleep != app_of({"Image": "busybox", "Entrypoint": ["sleep", "9"]})
    assert sleep != app_of({"Image": "busybox", "Cmd": ["sleep 9"]})
    assert app_of({"Image": "busybox", "Cmd": None}) == "busybox"
    assert app_of({"Image": "busybox", "Cmd": "sleep"}) != "busybox"


def use(cpu_m: int, memory: int) -> Sample:
    return Sample(1, 1, Resources(cpu_m, memory))


def test_foreign_use_sums_what_is_typical() -> None:
    foreign = ForeignUse()
    foreign.keep("n", ["a", "b"])
    foreign.add("n", "a", Reading(0, 0, 50))
    assert foreign.use_of("n") == Resources(0, 50)  # one reading tells memory alone
    for cpu_m in range(1, MEMORY + 1):
        foreign.add("n", "a", use(cpu_m, 40))
    foreign.add("n", "b", use(100, 1))
    assert foreign.use_of("n") == Resources(18 + 100, 41)


def test_foreign_containers_that_are_gone_count_no_more() -> None:
    foreign = ForeignUse()
    foreign.add("n", "a", use(10, 1))
    foreign.add("m", "a", use(10, 1))
    foreign.keep("n", [])
    foreign.forget_nodes(["n"])
    assert foreign.use_of("n") == foreign.use_of("m") == Resources()
