"""kill -9 of Redis and of the worker: jobs go on, each due run is filled once or told missed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rig import CYCLES, Rig, now_us, rigged
from tests.faults.share import Share
from tests.faults.statedb import records
from tests.faults.strikes import Tally, limited
from tests.faults.tenured import is_alive, kill, until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
US = 1_000_000


@pytest.mark.strikes("kill_redis")
def test_kill_redis(folder: Path, share: Share, plan: list[str]) -> None:
    run(folder, share, plan, "redis")


@pytest.mark.strikes("kill_worker")
def test_kill_worker(folder: Path, share: Share, plan: list[str]) -> None:
    run(folder, share, plan, "worker")


def run(folder: Path, share: Share, plan: list[str], child: str) -> None:
    tally = Tally(tuple(dict.fromkeys(plan)))
    with rigged(folder, share, f"kill_{child}") as rig:
        rig.begin()
        rng = rig.draw()
        for step in tally.strikes(plan):
            with limited(step):
                tally.note(step, was_struck=_strike(rig, child, step, rng))
        rig.drain()
        rig.report(tally)
        assert rig.tenured.starts == 1
        assert not (found := rig.verdict() + due_runs_are_told(rig)), chr(10).join(found)
        assert tally.missing() == []


def _strike(rig: Rig, child: str, step: str, rng: random.Random) -> bool:
    """Kill a child at a step; another takes its place and cycles go on."""
    pid = rig.tenured.child(child)
    was_met = rig.await_step(step, rng)
    if not is_alive(pid):
        return False
    at_us = now_us()
    kill(pid)
    assert until(lambda: rig.tenured.child(child), 40, f"another {child}") != pid
    until(lambda: _done_since(rig, at_us), 60, f"a cycle after the kill of {child}")
    return was_met


def _done_since(rig: Rig, at_us: int) -> bool:
    runs = records(rig.tenured.database, "runs").values()
    return any(run["state"] == "done" and run["due_us"] > at_us for run in runs)


def due_runs_are_told(rig: Rig) -> list[str]:
    """Every moment at which a cycle fell due has its row, and all but the last one are over.

    Those that fell due beside the last one are skipped.
    """
    found: list[str] = []
    rows = list(records(rig.tenured.database, "runs").values())
    for name, cycle in CYCLES.items():
        mine = sorted((row for row in rows if row["cycle"] == name), key=_due_us)
        step_us = cycle["interval_s"] * US
        moments = [_due_us(row) for row in mine]
        if moments != list(range(moments[0], moments[-1] + 1, step_us)):
            found.append(f"{name} fell due at moments that nobody noted: {moments}")
        open_ones = [row for row in _before_last(mine) if not _is_over(row)]
        found += [f"{row['id']} is still {row['state']}" for row in open_ones]
    return found


def _before_last(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows before the last one that was not skipped, and those after it."""
    last = max((i for i, row in enumerate(rows) if row["state"] != "skipped"), default=0)
    return rows[:last] + rows[last + 1 :]


def _due_us(row: dict[str, Any]) -> int:
    return int(row["due_us"])


def _is_over(row: dict[str, Any]) -> bool:
    return row["finished_us"] is not None
