"""Schedules that go on from others are those that begin at the beginning."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from tenure.model.placing import ClusterView, Forecast, Occupied, Queued
from tenure.model.units import FOREVER_US, US
from tenure.placement.arrays import Ends, fleet_of
from tenure.placement.kernels import PLAIN
from tenure.placement.lookahead import KEPT, Lookahead, Moment, Outlook, Pool
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
    return Lookahead(MOMENT, CODES, Pool(len(NODES))).outlook(queue)


def test_a_changed_queue_is_foreseen_as_from_the_beginning() -> None:
    """Newcomers, leavers and the queue of before, in any order; beyond what is remembered."""
    random = Random(5)
    kept = Lookahead(MOMENT, CODES, Pool(len(NODES)))
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


def counted() -> tuple[Moment, list[int]]:
    """Return the moment with kernels that note behind how many jobs each simulation begins."""
    began: list[int] = []

    def resume(fleet: object, ends: Ends, line: object, record: object, span: object) -> None:
        began.append(span[1] * span[2])  # type: ignore[index]
        PLAIN.resume(fleet, ends, line, record, span)

    return MOMENT._replace(kernels=PLAIN._replace(resume=resume)), began


def test_only_what_follows_the_newcomer_is_simulated() -> None:
    moment, began = counted()
    random = Random(6)
    line = [job(random, f"j{k}") for k in range(40)]
    kept = Lookahead(moment, CODES, Pool(len(NODES)))
    kept.outlook(line)
    kept.outlook([*line[:30], job(random, "new"), *line[30:]])
    assert kept.outlook(line) is kept.outlook(line)
    assert began == [0, 28]


def test_no_more_is_remembered_than_said() -> None:
    random = Random(7)
    line = [job(random, f"j{k}") for k in range(4)]
    kept = Lookahead(MOMENT, CODES, Pool(len(NODES)))
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


def test_a_schedule_that_time_did_not_touch_is_foreseen_as_from_the_beginning() -> None:
    """Time passes by wake-ups, paid time and ends of executors, on nodes that are on, off or up."""
    random, taken_along = Random(9), 0
    for turn in range(150):
        view, running, end_us = fleet(random)
        pool, line = Pool(len(view.names)), [job(random, f"j{turn}-{k}") for k in range(12)]
        moment = Moment(PLAIN, view, running, NOW)
        kept = Lookahead(moment, CODES, pool)
        kept.outlook(line)
        for passed_us in sorted(random.sample(range(1, end_us - NOW + 2 * US), 3)):
            moment = Moment(PLAIN, later(view, passed_us), running, NOW + passed_us)
            kept = kept.moved_to(moment)
            taken_along += bool(kept._known)
            line.insert(random.randint(0, len(line)), job(random, f"j{turn}+{passed_us}"))
            for queue in (line, line[1:], line):
                due = Lookahead(moment, CODES, Pool(len(view.names))).outlook(queue)
                assert forecasts(kept.outlook(queue)) == forecasts(due)
    assert taken_along > 100


def fleet(random: Random) -> tuple[ClusterView, list[Occupied], int]:
    """Return nodes with little room, what runs on them, and when the first of that ends."""
    nodes = [
        N(
            f"n{i}",
            4,
            free_cores=random.choice((0, 0, 1)),
            usd_per_h=0.1 * (i % 3),
            remaining_s=random.choice((None, 0, 20, 200)),
            is_on=is_on,
            boot_s=0 if is_on else 30,
            reboot_s=30 if i % 2 else None,
            is_cloud=i % 3 == 0,
        )
        for i, is_on in enumerate((True, True, True, True, random.random() < 0.7))
    ]
    ends_us = [NOW + random.randint(20, 90) * US for _ in nodes]
    running = [Occupied(i, 3000, 4 * GIB, at_us) for i, at_us in enumerate(ends_us)]
    return view_of(nodes), running, min(ends_us)


def later(view: ClusterView, passed_us: int) -> ClusterView:
    """Return what the view becomes as time passes and nothing else."""
    left_us = np.maximum(view.remaining_us - passed_us, 0)
    is_kept_on = view.remaining_us >= FOREVER_US
    return replace(view, remaining_us=np.where(is_kept_on, FOREVER_US, left_us))


def test_while_time_passes_only_what_follows_a_newcomer_is_simulated() -> None:
    moment, began = counted()
    random = Random(6)
    line = [job(random, f"j{k}") for k in range(40)]
    kept = Lookahead(moment, CODES, Pool(len(NODES)))
    kept.outlook(line)
    kept = kept.moved_to(moment._replace(view=view_of(NODES), now_us=NOW + 39 * US))
    kept.outlook([*line[:30], job(random, "new"), *line[30:]])
    kept = kept.moved_to(moment._replace(now_us=NOW + 40 * US))
    kept.outlook(line)
    assert began == [0, 28, 0]


def test_a_pool_that_grows_keeps_its_jobs() -> None:
    random = Random(8)
    pool = Pool(len(NODES))
    rows = [job(random, f"j{k}") for k in range(500)]
    order = pool.order(rows, CODES)
    assert [int(pool.jobs.executors[k]) for k in order] == [row.ask.executors for row in rows]
    assert pool.order(rows[:3], CODES).tolist() == [0, 1, 2]
    assert fleet_of(VIEW).free_cpu_m is VIEW.free_cpu_m


def test_an_empty_queue_leaves_nothing_to_keep() -> None:
    kept = Lookahead(MOMENT, CODES, Pool(len(NODES)))
    kept.outlook(())
    later = kept.moved_to(MOMENT._replace(now_us=NOW + US))
    assert later.outlook(()).queue == ()
