"""A promised job was passed by another while the room that it needed was being given back.

Seed 97701030 of the fleet: L9. Room of containers that are being removed counted as room that is
not there, so that the head of the line could "never fit" for a moment and held nobody back.
"""

from __future__ import annotations

from tenure.core.jobs.start import Reasons
from tenure.model.events import CancelJob
from tenure.model.outcome import Done, Refused
from tests.unit.core.bench import SIZE, SMALL, Bench, node


def _ending() -> Bench:
    """Two nodes: the second is full with a job whose end is under way; "wide" needs both."""
    bench = Bench(node("a"), node("b"))
    for name in "ab":
        bench.connect(name)
    for job in ("j1", "j2"):
        bench.submit(job, request=SIZE)
        bench.end(bench.open("create"), Done(job))
        bench.end(bench.open("start"))
    bench.submit("wide", request=SIZE, executors=2)
    for job, node_name in (("j1", "a"), ("j2", "b")):
        assert bench.tables.executors[f"{job}/0"].node == node_name
        bench.say(CancelJob(at_us=0, request=f"cancel {job}", job=job))
    return bench


def test_what_is_behind_waits_until_it_is_given_back() -> None:
    bench = _ending()
    first, second = sorted(
        (e for e in bench.tables.effects.values() if e.kind == "retire"), key=lambda e: e.node
    )
    bench.end(first)
    bench.submit("late", request=SMALL)
    assert bench.tables.jobs["late"].state.value == "waiting"
    assert bench.state_of(Reasons).by_job == {"wide": "no_room", "late": "behind_others"}
    bench.end(second)
    nodes = sorted(e.node for e in bench.tables.executors.values() if e.job == "wide")
    assert nodes == ["a", "b"]


def test_what_somebody_has_to_clear_holds_up_nobody() -> None:
    bench = _ending()
    first, second = sorted(
        (e for e in bench.tables.effects.values() if e.kind == "retire"), key=lambda e: e.node
    )
    bench.end(first)
    bench.end(second, Refused("start_blocked", "held"))
    bench.submit("late", request=SMALL)
    assert bench.tables.executors["late/0"].node == "a"
