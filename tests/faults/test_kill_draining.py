"""kill -9 of ``tenured`` amid a drain: it goes on after the restart, one copy of everything."""

from __future__ import annotations

import random
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.faults.drained import NODES, Pair, paired
from tests.faults.share import Share
from tests.faults.statedb import Watch, standing
from tests.faults.strikes import Aim, Tally, limited
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.strikes("kill_draining"), pytest.mark.timeout(600)]


def test_kill_draining(folder: Path, share: Share, plan: list[str]) -> None:
    tally = Tally(tuple(dict.fromkeys(plan)))
    rng = share.draw("strikes kill_draining")
    with paired(folder) as pair:
        home = NODES[0]
        for number, step in enumerate(tally.strikes(plan)):
            with limited(step):
                # fresh ones each time: a start that was cut keeps a container from moving for long
                names = {f"first-{number}": "", f"stop-{number}": "8080"}
                ids = {name: pair.run(name, on=home, port=port) for name, port in names.items()}
                _strike(pair, home, step, rng, tally)
                time.sleep(rng.choice((0.0, 0.5, 1.5)))
                pair.tenured.start()
                _settles(pair, home, names)
                for key in ids.values():
                    pair.tenured.client.remove_container(key)
                until(lambda: not _left(pair), 40, "removed services to be gone")
        print(f"\nkill_draining: --faults {share.part} --faults-seed {share.seed}")
        print(tally.table())
        assert tally.missing() == []
        assert pair.tenured.stop() == 0


def _strike(pair: Pair, home: str, step: str, rng: random.Random, tally: Tally) -> None:
    with closing(Watch(pair.tenured.database)) as watch:
        pair.tenured.client.drain_node(home, reason=step)
        was_met = Aim(watch, rng, is_over=partial(pair.has_drain_ended, home)).at(step)
    pair.tenured.kill()
    tally.note(step, was_struck=was_met, standing=standing(pair.tenured.database))


def _settles(pair: Pair, home: str, names: dict[str, str]) -> None:
    """The drain ends, or waits for a start that was cut; either way each runs exactly once."""
    until(
        lambda: _is_over_or_unsure(pair, home), 90, "the drain to end or to say what it waits for"
    )
    until(lambda: _each_runs_once(pair, names), 40, "one copy of each")
    for name in (name for name, port in names.items() if port):
        assert pair.truth.doubles(f"service.{name}") == []
    if pair.is_drained(home):
        assert pair.copies(home) == {}
        assert pair.node(home)["scheduling"] == "cordoned"
    else:
        pair.end_drain(home)
    pair.tenured.client.schedule_node(home, "yes")


def _is_over_or_unsure(pair: Pair, home: str) -> bool:
    drain = pair.node(home)["drain"]
    blockers = {blocker["code"] for blocker in drain["blockers"]}
    is_waiting = blockers == {"unsure"} and not drain["under_way"]
    return drain["state"] == "drained" or is_waiting


def _each_runs_once(pair: Pair, names: dict[str, str]) -> bool:
    running = [name for node in NODES for name in pair.copies(node, is_all=False)]
    return sorted(running) == sorted(names)


def _left(pair: Pair) -> list[str]:
    return [name for node in NODES for name in pair.copies(node)]
