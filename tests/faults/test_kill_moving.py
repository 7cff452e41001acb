"""kill -9 of ``tenured``, source or target engine at each step of live and snapshot moves.

Whatever dies, within a minute of its recovery exactly one copy runs, and the daemon says where. Of
a stopped container exactly one copy is there, with its files, and none runs.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from testbed import docker_api
from tests.faults.drained import IMAGE, NODES, Pair, paired
from tests.faults.operator import Operator
from tests.faults.share import Share
from tests.faults.statedb import Watch, records, standing
from tests.faults.strikes import Aim, Tally, limited
from tests.faults.tenured import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1200)]

HOME, AWAY = NODES
AT_REST = "at-rest"
ONE_COPY_S = 60.0
#: Memory of some size, so that a checkpoint and its way take a moment.
SCRIPT = (
    "x=$(head -c 4000000 /dev/zero | tr '\\0' y); "
    "i=0; while :; do i=$((i+1)); echo $i >/n; usleep 50000; done"
)


def of(who: str) -> object:
    """Return the part of the plan that kills the daemon, a source or a target, as a test."""
    return pytest.param(who, marks=pytest.mark.strikes("kill_moving", who))


@pytest.mark.parametrize("who", [of("daemon"), of("source"), of("target")])
def test_kill_moving(folder: Path, share: Share, plan: list[str], who: str) -> None:
    tally = Tally(tuple(dict.fromkeys(plan)))
    rng = share.draw(f"strikes kill_moving {who}")
    ends: Counter[str] = Counter()
    with paired(folder, checkpoint=True) as pair:
        operator = Operator(pair.bed, pair.tenured.database)
        for number, strike in enumerate(tally.strikes(plan)):
            _, kind, step = strike.split()
            name = f"{kind}-{number}"
            with limited(strike):
                key = _begin(pair, name, kind)
                tally.note(strike, was_struck=_strike(pair, operator, who, step, rng))
                is_once = partial(_rests_once if kind == AT_REST else _runs_once, pair, operator)
                until(partial(is_once, name), ONE_COPY_S, f"one copy after {strike}")
                ends[_end_of(pair, key)] += 1
                assert pair.tenured.client.container(key)["name"] == name  # by the first id
                _clear(pair, key)
        print(f"\nkill_moving {who}: --faults {share.part} --faults-seed {share.seed}")
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
            # an engine that comes back starts what is stopped with the other
            "RestartPolicy": {"Name": "unless-stopped" if kind == AT_REST else "always"},
        },
        "tenure": {"migrate": kind if kind == "snapshot" else None},
    }
    key = str(pair.tenured.client.create_container(body)["id"])
    until(lambda: pair.where(name) == (HOME, "running"), 40, f"{name} to run")
    if kind == AT_REST:
        until(lambda: _has_counted(pair, HOME, name), 40, f"{name} to count")
        pair.tenured.client.stop_container(key)
        until(lambda: pair.where(name) == (HOME, "stopped"), 40, f"{name} to be stopped")
    pair.tenured.client.schedule_node(AWAY, "yes")
    return key


def _strike(pair: Pair, operator: Operator, who: str, step: str, rng: random.Random) -> bool:
    """Kill at a step and bring it back; return whether the step was met."""
    with closing(Watch(pair.tenured.database)) as watch:
        pair.tenured.client.drain_node(HOME, reason=step)
        ended = partial(pair.has_drain_ended, HOME)
        was_met = Aim(watch, rng, operator.work, is_over=ended).at(step)
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


def _is_moving(pair: Pair) -> bool:
    rows = records(pair.tenured.database, "migrations").values()
    return any(row["step"] not in OVER for row in rows)


def _rests_once(pair: Pair, operator: Operator, name: str) -> bool:
    """Whether one copy is there, where the daemon says, with its files, and does not run."""
    operator.work()
    if _is_moving(pair):
        return False
    copies = [(node, pair.copies(node).get(name)) for node in NODES if name in pair.copies(node)]
    node, state = pair.where(name)
    if state != "stopped" or [(at, said == "running") for at, said in copies] != [(node, False)]:
        return False
    return _has_counted(pair, node, name)


def _has_counted(pair: Pair, node: str, name: str) -> bool:
    path = f"/containers/{name}/archive?path=/n"
    return docker_api.call(pair.bed.nodes[node].socket, "HEAD", path)[0] == 200


def _runs_once(pair: Pair, operator: Operator, name: str) -> bool:
    """Whether one copy runs, where the daemon says, and no move of it is under way."""
    operator.work()
    if _is_moving(pair):
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
        pair.end_drain(node)
        pair.tenured.client.schedule_node(node, "yes")
    pair.tenured.client.remove_container(key)
    until(lambda: not [n for node in NODES for n in pair.copies(node)], 60, "it to be gone")
