"""Schedules that go on from others are those that begin at the beginning."""

from __future__ import annotations

from random import Random

from tenure.model.placing import Forecast, Occupied, Queued
from tenure.model.units import US
from tenure.placement.arrays import Ends, fleet_of
from tenure.placement.foresight import KEPT, Foresight, Moment, Outlook, Pool
from tenure.placement.kernels import PLAIN
from tenure.placement.policies import CODES, Policies
from tests.unit.placement.build import GIB, N, ask_of, queued, view_of

NOW = 1_000 * US
NODES = [
    N(f"n{i}", 4, free_cores=0, usd_per_h=0.1 * (i % 3), is_cloud=i % 3 == 0) for i in range(5)
]
VIEW = view_of(NODES)
RUNNING = [Occupied(i, 4000, 4 * GIB, NOW + (40 + 7 * i) * US) for i in range(5)]
MOMENT = Moment(PLAIN, VIEW, RUNNING, NOW)


def job(random: Random, name: str) -> Queued:
    ask = ask_of(
        VIEW,
        random.randint(1, 8),
        id=name,
        local_s=random.randint(5, 90),
        deadline_s=random.choice((None, NOW / US + random.randint(60, 900))),
        only=random.choice((None, ["n0", "n1"], ["n2"])),
    )
    return queued(ask, random.choice(("ff", "gio", "exact")))


def forecasts(outlook: Outlook) -> list[Forecast | None]:
    return [outlook.at(k) for k in range(len(outlook.queue))]


def fresh(queue: list[Queued]) -> Outlook:
    return Foresight(MOMENT, CODES, Pool(len(NODES))).outlook(queue)


def test_a_changed_queue_is_foreseen_as_from_the_beginning() -> None:
    """Newcomers, departures and the queue of before, in any order; beyond what is remembered."""
    random = Random(5)
    kept = Foresight(MOMENT, CODES, Pool(len(NODES)))
    line: list[Queued] = []
    for turn in range(60):
        before = list(line)
        if line and random.random() < 0.3:
            line.pop(random.randrange(len(line)))
        else:
            line.insert(random.randint(0, len(line)), job(random, f"j{turn}"))
        for queue in (line, before, line):
            found, due = kept.outlook(queue), fresh(queue)
            assert forecasts(found) == forecasts(due)
            assert found.is_met.tolist() == due.is_met.tolist()


def test_only_what_follows_the_newcomer_is_simulated() -> None:
    began: list[int] = []

    def resume(fleet: object, ends: Ends, line: object, record: object, span: object) -> None:
        began.append(span[1] * span[2])  # type: ignore[index]
        PLAIN.resume(fleet, ends, line, record, span)

    random = Random(6)
    line = [job(random, f"j{k}") for k in range(40)]
    moment = MOMENT._replace(kernels=PLAIN._replace(resume=resume))
    kept = Foresight(moment, CODES, Pool(len(NODES)))
    kept.outlook(line)
    kept.outlook([*line[:30], job(random, "new"), *line[30:]])
    assert kept.outlook(line) is kept.outlook(line)
    assert began == [0, 28]


def test_no_more_is_remembered_than_said() -> None:
    random = Random(7)
    line = [job(random, f"j{k}") for k in range(4)]
    kept = Foresight(MOMENT, CODES, Pool(len(NODES)))
    first = kept.outlook(line)
    for k in range(KEPT):
        kept.outlook([job(random, f"x{k}"), *line])
    assert kept.outlook(line) is not first


def test_another_moment_is_foreseen_anew() -> None:
    policies, line = Policies(), [queued(ask_of(VIEW, 4, id="x", local_s=10))]
    ends = [
        policies.predict(view_of(NODES), RUNNING, line, at)["x"] for at in (NOW, NOW + 60 * US, NOW)
    ]
    assert ends[0] == ends[2] != ends[1]


def test_a_pool_that_grows_keeps_its_jobs() -> None:
    random = Random(8)
    pool = Pool(len(NODES))
    rows = [job(random, f"j{k}") for k in range(500)]
    order = pool.order(rows, CODES)
    assert [int(pool.jobs.executors[k]) for k in order] == [row.ask.executors for row in rows]
    assert pool.order(rows[:3], CODES).tolist() == [0, 1, 2]
    assert fleet_of(VIEW).free_cpu_m is VIEW.free_cpu_m
