"""What nodes and containers use now: of what was told last, and of nothing that was not."""

from __future__ import annotations

from tenure.model.energy import Metered
from tenure.model.load import Loads, NodeLoad
from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.profiling.intake.intake import Beside, Intake, Target
from tenure.profiling.intake.latest import Latest
from tenure.profiling.readings.sample import Measured, NodeReading, Reading, Sample

ROWS = [Target("e1", "service", "c1", "app"), Target("e2", "executor", "job/0", "jobapp")]
NONE = Resources()


def measured(container: str, cpu_m: int, memory: int = 10) -> Measured:
    sample = Sample(US, US, Resources(cpu_m, memory), ("cpu_m", "memory_bytes"))
    return Measured(container, "n", "app", sample)


def note(
    latest: Latest, rows: list[Target], found: list[Measured], beside: Beside, at_us: int = US
) -> NodeLoad:
    latest.note("n", rows, found, beside=beside, taken_us=at_us)
    return latest.nodes["n"]


def test_a_node_uses_what_ours_and_others_use() -> None:
    found = [measured("c1", 100), measured("job/0", 200)]
    load = note(Latest(), ROWS, found, Beside(foreign=Resources(50, 5)))
    assert load.used == Resources(350, 25)
    assert load.containers["job/0"].use.cpu_m == 200
    assert load.containers["c1"].observed == ("cpu_m", "memory_bytes")
    assert load.unsampled == 0


def test_the_whole_counts_where_it_is_more_than_its_parts() -> None:
    beside = Beside(foreign=NONE, whole=Resources(1000, 4))
    assert note(Latest(), ROWS[:1], [measured("c1", 100)], beside).used == Resources(1000, 10)


def test_nothing_is_made_up_before_the_first_samples() -> None:
    latest = Latest()
    load = note(latest, ROWS, [], Beside(foreign=Resources(7, 7)))
    assert (load.used, load.unsampled) == (None, 2)
    load = note(latest, ROWS, [measured("c1", 100)], Beside(foreign=NONE), 2 * US)
    assert (load.used, load.unsampled) == (Resources(100, 10), 1)
    assert note(latest, [], [], Beside(foreign=NONE)).used == NONE
    assert note(latest, [], [], Beside()).used is None


def test_a_sample_is_kept_until_a_newer_one_and_goes_with_its_container() -> None:
    latest = Latest()
    note(latest, ROWS, [measured("c1", 100), measured("c1", 150)], Beside(foreign=NONE))
    load = note(latest, ROWS, [measured("job/0", 1)], Beside(foreign=NONE), 2 * US)
    assert load.containers["c1"].use.cpu_m == 150  # the newest of several
    assert (load.containers["c1"].taken_us, load.containers["job/0"].taken_us) == (US, 2 * US)
    left = note(latest, ROWS[1:], [measured("c1", 100)], Beside(foreign=NONE), 3 * US)
    assert left.containers.keys() == {"job/0"}
    latest.keep([])
    assert latest.nodes == {}


def test_watts_are_those_of_the_last_sample_alone() -> None:
    latest = Latest()
    note(latest, [], [], Beside(foreign=NONE))
    latest.meter([Metered("n", 0, US, 30 * US), Metered("n", US, 3 * US, 80 * US)])
    latest.meter([Metered("gone", 0, US, 1)])
    assert latest.nodes["n"].measured_w == 40
    assert note(latest, [], [], Beside(foreign=NONE)).measured_w is None
    assert latest.nodes.keys() == {"n"}


def test_a_figure_of_long_ago_is_stale() -> None:
    loads = Loads(10 * US)
    assert not loads.is_stale(US, 31 * US)
    assert loads.is_stale(US, 31 * US + 1)


# what the intake tells beside samples


def reading(second: float, cpu_s: float, memory: int = 100) -> Reading:
    return Reading(int(second * US), int(cpu_s * 1e9), memory)


def test_foreign_containers_have_no_rate_in_their_first_sweep() -> None:
    intake, rows = Intake(), [Target("f", "foreign")]
    assert intake.beside("n", NONE) == Beside()
    intake.take("n", rows, {"f": reading(1, 5)})
    assert intake.beside("n", NONE) == Beside()
    intake.take("n", rows, {"f": reading(11, 10)})
    assert intake.beside("n", NONE).foreign == Resources(500, 100)
    intake.forget({})
    assert intake.beside("n", NONE) == Beside()


def test_the_whole_of_a_node_is_told_less_its_reserve_whoever_comes_and_goes() -> None:
    intake = Intake()
    for number, (key, cpu_s) in enumerate((("e1", 0.0), ("e9", 8.0)), start=1):
        readings = {key: reading(10 * number, 1)}
        whole = NodeReading(number, 10 * number * US, readings, reading(10 * number, cpu_s, 500))
        intake.take_whole("n", [], whole)
    beside = intake.beside("n", Resources(300, 100))
    assert beside.whole is not None
    assert (beside.whole.cpu_m, beside.whole.memory_bytes) == (500, 400)
    intake.forget_whole("n")
    assert intake.beside("n", NONE).whole is None
