"""What a node uses beyond our containers, where its agent tells the whole; who counted what."""

from dataclasses import replace

from tenure.model.energy import Metered, NodePast
from tenure.model.ledger import Interval
from tenure.model.node import Site
from tenure.model.resources import Resources
from tenure.model.units import US
from tenure.profiling.energy import account
from tenure.profiling.intake.foreign import MEMORY
from tenure.profiling.intake.intake import Intake, Target
from tenure.profiling.readings.sample import EnergyReading, NodeReading, Reading

ROWS = [Target("e1", "service", "c1", "app"), Target("e2", "foreign")]
NONE = Resources()


def whole(second: int, *, ids: tuple[str, ...] = ("e1", "e2"), cpu_m: int = 900) -> NodeReading:
    """A node of ``cpu_m`` whose containers use 200 each; at 1,000 ns a microsecond a core is."""
    at_us = second * US
    rows = {key: Reading(at_us, at_us * 200, 10, source="agent") for key in ids}
    return NodeReading(at_us, at_us, rows, Reading(at_us, at_us * cpu_m, 50, source="agent"))


def test_the_rest_of_the_node_counts_as_foreign() -> None:
    intake = Intake()
    assert intake.take_whole("n", ROWS, whole(1)) == []
    (row,) = intake.take_whole("n", ROWS, whole(31))
    assert (row.container, row.sample.use.cpu_m, row.sample.span_us) == ("c1", 200, 30 * US)
    assert intake.foreign_use("n", NONE) == Resources(700, 40)
    # what the machine's reserve covers was taken off its capacity already
    assert intake.foreign_use("n", Resources(100, 10)) == Resources(600, 30)
    assert intake.foreign_use("n", Resources(5000, 5000)) == Resources(200, 10)
    intake.forget_whole("n")
    assert intake.foreign_use("n", NONE) == Resources(200, 10)


def test_nobody_knows_the_rest_while_containers_come_and_go() -> None:
    intake = Intake()
    intake.take_whole("n", ROWS, whole(1))
    intake.take_whole("n", ROWS, whole(31, ids=("e1", "e2", "new")))
    assert intake.foreign_use("n", NONE) == Resources(200, 10)
    intake.take_whole("n", ROWS, whole(61, ids=("e1", "e2", "new")))
    assert intake.foreign_use("n", NONE) == Resources(700, 40)


def test_harvest_tasks_come_and_go_and_the_rest_is_known_all_the_same() -> None:
    """Else nothing would be forecast, and so lent, of a node that lends all the time."""
    intake = Intake()
    told = []
    for k in range(4):
        second = 1 + 30 * k
        ids = ("e1", "e2", f"task{k}")
        lent = Reading(second * US, second * US * 300, 20, source="agent")
        tasks = frozenset({f"task{k}"})
        reading = replace(whole(second, ids=ids, cpu_m=1200), lent=lent, tasks=tasks)
        rows = [*ROWS, Target(f"task{k}", "executor", f"b/{k}", "b")]
        intake.take_whole("n", rows, reading)
        told += intake.rests(lambda _: NONE)
    assert [row.sample.use for row in told] == [Resources(700, 20)] * 3
    assert intake.foreign_use("n", NONE) == Resources(700, 20)
    intake.take_whole("n", ROWS, replace(whole(121), lent=None))
    intake.rests(lambda _: NONE)
    intake.take_whole("n", ROWS, replace(whole(151), lent=whole(151).total))
    assert intake.rests(lambda _: NONE) == [], "what began to be lent in between is not known"


def test_what_was_beyond_the_containers_fades_while_nobody_knows() -> None:
    """On a node where jobs come and go, a busy minute of long ago holds no room for ever."""
    intake = Intake()
    intake.take_whole("n", ROWS, whole(1))
    for k in range(1, MEMORY + 1):
        intake.take_whole("n", ROWS, whole(1 + 30 * k))
    told = []
    for k in range(MEMORY + 1, 2 * MEMORY + 2):
        intake.take_whole("n", ROWS, whole(1 + 30 * k, ids=("e1", "e2", f"job{k}")))
        told.append(intake.foreign_use("n", NONE).cpu_m)
    assert told[: MEMORY // 2] == [700] * (MEMORY // 2)
    assert told[-1] == 200, "what the foreign container itself uses"


def test_counters_of_two_sources_make_no_sample() -> None:
    intake = Intake()
    intake.take_whole("n", ROWS, whole(1))
    engine = {"e1": replace(whole(31).containers["e1"], source="engine")}
    assert intake.take("n", ROWS, engine) == []
    later = {"e1": replace(whole(61).containers["e1"], source="engine")}
    assert len(intake.take("n", ROWS, later)) == 1


def test_what_is_gone_is_forgotten() -> None:
    intake = Intake()
    for second in (1, 31):
        intake.take_whole("n", ROWS, whole(second))
    intake.forget({})
    assert intake.foreign_use("n", NONE) == NONE
    assert intake.take_whole("n", ROWS, whole(61)) == []


def metered(second: int, energy_uj: int, since_us: int = 7) -> NodeReading:
    return replace(whole(second), energy=EnergyReading(second * US, since_us, energy_uj))


def test_what_meters_counted_between_two_readings_is_handed_on_once() -> None:
    intake = Intake()
    intake.take_whole("n", ROWS, metered(1, 1000))
    intake.take_whole("n", ROWS, metered(31, 5000))
    uses, counted = intake.spent()
    assert counted == [Metered("n", US, 31 * US, 4000)]
    assert {use.container for use in uses} == {"c1", ""}
    assert intake.spent() == ([], [])
    intake.take_whole("n", ROWS, whole(61))  # its meters could not be read
    intake.take_whole("n", ROWS, metered(91, 9000))
    intake.take_whole("n", ROWS, metered(121, 50, since_us=8))  # a count that began anew
    intake.take_whole("n", ROWS, metered(151, 90, since_us=8))
    assert intake.spent()[1] == [Metered("n", 121 * US, 151 * US, 40)]


def test_what_was_metered_is_what_the_node_drew() -> None:
    intake = Intake()
    intake.take_whole("n", ROWS, metered(1, 0))
    intake.take_whole("n", ROWS, metered(31, 900 * US))
    uses, counted = intake.spent()
    row = Interval("n@0", "n", Site.LOCAL, "young", 0, 0, idle_w=100.0, peak_w=200.0, cpu_m=4000)
    found = account(NodePast("n", "young", [row]), uses, counted, (US, 31 * US))
    assert (found.source, found.total_uj) == ("measured", 900 * US)
    assert found.shares["c1"].total_uj > found.foreign_uj > 0


def test_a_clock_that_is_set_by_years_makes_no_sample() -> None:
    """A node without a clock of its own begins in 1970; its span would fill a day's record."""
    intake = Intake()
    intake.take_whole("n", ROWS, metered(1, 1000))
    begin_s = 1_800_000_000
    assert intake.take_whole("n", ROWS, metered(begin_s, 5000)) == []
    assert intake.spent() == ([], [])
    assert len(intake.take_whole("n", ROWS, metered(begin_s + 30, 6000))) == 1
    assert intake.spent()[1] == [Metered("n", begin_s * US, (begin_s + 30) * US, 1000)]


def test_a_meter_that_tells_nonsense_is_not_believed() -> None:
    intake = Intake()
    intake.take_whole("n", ROWS, metered(1, 0))
    intake.take_whole("n", ROWS, metered(31, 1 << 61))
    intake.take_whole("n", ROWS, metered(61, (1 << 61) + 7))
    assert intake.spent()[1] == [Metered("n", 31 * US, 61 * US, 7)]
