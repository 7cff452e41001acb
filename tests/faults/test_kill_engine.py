"""Engines that die, freeze or are cut off in the middle of work, and come back."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed, TestbedError
from tests.faults.rig import CLOUD, Rig, rigged
from tests.faults.share import Share
from tests.faults.statedb import records
from tests.faults.strikes import Tally, limited
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

#: Fault, mending, and for how long at least and at most (s). No machine boots sooner than its
#: silence is noticed, by two pings, which are late where the daemon is.
Change = Callable[[Testbed, str], None]
FAULTS: dict[str, tuple[Change, Change, float, float]] = {
    "kill_engine": (Testbed.kill_engine, Testbed.restart_engine, 0.0, 3.0),
    "kill_node": (Testbed.kill_node, Testbed.power_on, 9.0, 12.0),
    "freeze": (Testbed.freeze, Testbed.thaw, 1.0, 9.0),
    "cut": (Testbed.cut, Testbed.heal, 1.0, 9.0),
}


@pytest.mark.strikes("kill_engine")
def test_kill_engine(folder: Path, share: Share, plan: list[str]) -> None:
    """With live restore, containers outlive their engine."""
    run(folder, share, plan, "kill_engine", restart=("unless-stopped",))


@pytest.mark.strikes("lose_containers")
def test_lose_containers(folder: Path, share: Share, plan: list[str]) -> None:
    """Without live restore, or with the whole machine, the containers die as well.

    An engine without live restore stops what it finds running at its start as a person would: only
    ``always`` brings that back.
    """
    run(folder, share, plan, "lose_containers", live_restore=False, restart=("always",))


def run(folder: Path, share: Share, plan: list[str], name: str, **options: Any) -> None:
    """Strike engines as planned, then judge."""
    tally = Tally(tuple(dict.fromkeys(plan)))
    with rigged(folder, share, name, **options) as rig:
        rig.begin()
        rng = rig.draw()
        for strike in tally.strikes(plan):
            fault, step = strike.split()
            with limited(strike):
                tally.note(strike, was_struck=_strike(rig, fault, step, rng))
                until(lambda: _all_answer(rig), 60, f"all engines after {strike}")
        rig.drain()
        rig.report(tally)
        assert not (found := rig.verdict(did_engines_die=True)), chr(10).join(found)
        assert tally.missing() == []


def _strike(rig: Rig, fault: str, step: str, rng: random.Random) -> bool:
    """Let an engine concerned by a step fail and mend it.

    False if the step never came, or the daemon has switched the cloud node off just then.
    """
    met: list[str] = []

    def is_wanted(nodes: list[str]) -> bool:
        met[:] = [node for node in nodes if rig.bed.is_on(node) and rig.bed.nodes[node].pid()]
        return bool(met)

    with rig.aim(step, rng) as aim:
        if not aim.at(step, is_wanted):
            return False
    node = rng.choice(met)
    begin, mend, least_s, most_s = FAULTS[fault]
    try:
        begin(rig.bed, node)
    except TestbedError:
        if node != CLOUD:
            raise
        return False
    time.sleep(rng.uniform(least_s, most_s))
    if fault == "kill_node":
        until(lambda: not _is_answering(rig, node), 30, f"the silence of {node} to be noticed")
    _mend(rig, mend, node)
    return True


def _mend(rig: Rig, mend: Change, node: str) -> None:
    """Mend a node; the cloud node may be switched off by the daemon meanwhile, which mends too."""
    try:
        mend(rig.bed, node)
    except TestbedError:
        if node != CLOUD:
            raise


def _is_answering(rig: Rig, node: str) -> bool:
    return bool(records(rig.tenured.database, "nodes")[node]["reach"] == "ok")


def _all_answer(rig: Rig) -> bool:
    rig.operator.work()
    nodes = records(rig.tenured.database, "nodes").values()
    return all(node["reach"] == "ok" or node["power"] == "off" for node in nodes)
