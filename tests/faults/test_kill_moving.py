"""kill -9 of ``tenured``, source or target engine at each step of live and snapshot moves.

Whatever dies, within a minute of its recovery exactly one copy runs, and the daemon says where.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.faults.drained import IMAGE, NODES, Pair, paired
from tests.faults.operator import Operator
from tests.faults.share import Share
from tests.faults.statedb import Watch, records, standing
from tests.faults.strikes import Aim, Tally
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.strikes("kill_moving"), pytest.mark.timeout(3000)]

HOME, AWAY = NODES
ONE_COPY_S = 60.0
#: Memory of some size, so that a checkpoint and its way take a moment.
SCRIPT = (
    "x=$(head -c 4000000 /dev/zero | tr '\\0' y); "
    "i=0; while :; do i=$((i+1)); echo $i >/n; usleep 50000; done"
)


def test_kill_moving(folder: Path, share: Share, plan: list[str]) -> None:
    tally = Tally(tuple(dict.fromkeys(plan)))
    rng = share.draw("strikes kill_moving")
    ends: Counter[str] = Counter()
    with paired(folder, checkpoint=True) as pair:
        operator = Operator(pair.bed, pair.tenured.database)
        for number, strike in enumerate(plan):
            who, kind, step = strike.split()
            name = f"{kind}-{number}"
            key = _begin(pair, name, kind)
            tally.note(strike, was_struck=_strike(pair, who, step, rng))
            until(partial(_runs_once, pair, operator, name), ONE_COPY_S, f"one copy after {strike}")
            ends[_end_of(pair, key)] += 1
            assert pair.tenured.client.container(key)["name"] == name  # by the first id
            _clear(pair, key)
        print(f"\nkill_moving: --faults {share.part} --faults-seed {share.seed}")
        print(tally.table())
        print("ends:", dict(ends), "cleared by the operator:", operator.cleared)
        assert tally.missing() == []
        assert pair.tenured.stop() == 0


def _begin(pair: Pair, name: str, kind: str) -> str:
    pair.tenured.client.schedule_node(AWAY, "cordoned")
    body = {
        "name": name,
        "Image": IMAGE,
        "Cmd": ["sh", "-c", SCRIPT],
        "HostConfig": {
            "Init": True,
            "NanoCpus": 200_000_000,
            "Memory": 64 << 20,
            "RestartPolicy": {"Name": "always"},
        },
        "tenure": {"migrate": kind if kind == "snapshot" else None},
    }
    key = str(pair.tenured.client.create_container(body)["id"])
    until(lambda: pair.where(name) == (HOME, "running"), 40, f"{name} to run")
    pair.tenured.client.schedule_node(AWAY, "yes")
    return key


def _strike(pair: Pair, who: str, step: str, rng: random.Random) -> bool:
    """Kill at a step and bring it back; return whether the step was met."""
    with closing(Watch(pair.tenured.database)) as watch:
        pair.tenured.client.drain_node(HOME, reason=step)
        was_met = Aim(watch, rng).at(step)
    pause_s = rng.choice((0.0, 0.5, 3.0))
    if who == "daemon":
        pair.tenured.kill()
        standing(pair.tenured.database)  # it can be read whenever it was cut
        time.sleep(pause_s)
        pair.tenured.start()
    else:
        node = HOME if who == "source" else AWAY
        pair.bed.kill_engine(node)
        time.sleep(pause_s)
        pair.bed.restart_engine(node)
    return was_met


def _runs_once(pair: Pair, operator: Operator, name: str) -> bool:
    """Whether one copy runs, where the daemon says, and no move of it is under way."""
    operator.work()
    if any(
        row["step"] not in OVER for row in records(pair.tenured.database, "migrations").values()
    ):
        return False
    running = [node for node in NODES if name in pair.copies(node, is_all=False)]
    node, state = pair.where(name)
    return running == [node] and state == "running"


OVER = ("done", "rolled_back", "refused")


def _end_of(pair: Pair, key: str) -> str:
    moves = pair.tenured.client.container(key)["moves"]
    return " then ".join(f"{move['kind']} {move['step']}" for move in moves) or "no move"


def _clear(pair: Pair, key: str) -> None:
    for node in NODES:
        drain = pair.node(node)["drain"]
        if drain and not drain["finished_at"]:
            pair.tenured.client.cancel_drain(node)
        pair.tenured.client.schedule_node(node, "yes")
    pair.tenured.client.remove_container(key)
    until(lambda: not [n for node in NODES for n in pair.copies(node)], 60, "it to be gone")
