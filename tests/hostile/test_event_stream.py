"""The event stream of a daemon that is restarted, pruned and busy; and readers that lag behind."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.client.sse import Sse, lines, parse
from tenure.client.target import parse as target_of
from tenure.client.wire import Request, stream
from tenure.model.errors import TenureError
from tests.faults.tenured import Tenured, until

pytestmark = pytest.mark.redis
JOBS = 150


@pytest.fixture
def tenured() -> Iterator[Tenured]:
    """A daemon whose only engine never answers: events come of what people ask."""
    folder = Path(tempfile.mkdtemp(prefix="tne-")).resolve()
    config: dict[str, Any] = {
        "state_dir": str(folder / "state"),
        "listen": [f"unix://{folder}/d.sock"],
        "generations": ["nursery"],
        "nodes": [{"name": "n1", "url": f"unix://{folder}/none.sock", "generation": "nursery"}],
    }
    made = Tenured(folder, config, {})
    made.start()
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def churn(tenured: Tenured, count: int) -> None:
    """Make ``2 * count`` events."""
    client = tenured.make_client(patience_s=30)
    for _ in range(count):
        client.schedule_node("n1", "cordoned")
        client.schedule_node("n1", "yes")


def events(tenured: Tenured, last: str) -> Iterator[Sse]:
    """Yield the events after ``last`` until the stream is cut."""
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
    target = target_of(tenured.config["listen"][0])
    return parse(lines(stream(target, Request("GET", "/v1/events", headers=headers), 20.0)))


def read_until(tenured: Tenured, last: str, goal: int) -> list[Sse]:
    """Return what comes until the event numbered ``goal``, which is among it."""
    found = []
    for event in events(tenured, last):
        found.append(event)
        if int(event.id) >= goal:
            break
    return found


def numbers(found: list[Sse]) -> list[int]:
    return [event.data["seq"] for event in found if event.data and event.type != "gap"]


def test_order_under_load_with_many_readers(tenured: Tenured) -> None:
    start = tenured.client.events()["last_seq"]
    goal = start + 2 * JOBS
    results: list[list[int]] = []

    def read() -> None:
        results.append(numbers(read_until(tenured, str(start), goal)))

    readers = [threading.Thread(target=read) for _ in range(20)]
    for thread in readers:
        thread.start()
    churn(tenured, JOBS)
    for thread in readers:
        thread.join(60)
    assert len(results) == len(readers)
    assert all(result == list(range(start + 1, goal + 1)) for result in results)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_stream_is_resumed_over_a_restart(tenured: Tenured, is_killed: bool) -> None:
    start = tenured.client.events()["last_seq"]
    churn(tenured, 5)
    seen: list[Sse] = []
    open_stream = events(tenured, str(start))
    for _ in range(6):
        seen.append(next(open_stream))
    if is_killed:
        tenured.kill()
    else:
        tenured.stop()
    with contextlib.suppress(TenureError):
        seen += list(open_stream)  # what was on its way; then the cut
    last = [event for event in seen if event.data][-1].id
    tenured.start()
    churn(tenured, 5)
    goal = tenured.client.events()["last_seq"]
    after = read_until(tenured, last, goal)
    assert numbers(seen) + numbers(after) == list(range(start + 1, goal + 1))
    assert not any(event.type == "gap" for event in after)


def test_a_gap_is_told_after_pruning(tenured: Tenured) -> None:
    churn(tenured, 20)
    last = tenured.client.events()["last_seq"]
    tenured.stop()
    # what the daemon does with events beyond its bound, done to all but the last five
    with contextlib.closing(sqlite3.connect(tenured.database)) as db:
        db.execute("DELETE FROM events WHERE seq <= ?", (last - 5,))
        db.commit()
    tenured.start()
    goal = tenured.client.events()["last_seq"]
    found = read_until(tenured, "2", goal)
    gap = found[0]
    assert (gap.type, gap.data) == ("gap", {"from": 3, "to": last - 5})
    assert numbers(found) == list(range(last - 4, goal + 1))
    assert tenured.client.events(after=2)["has_gap"] is True


def test_a_slow_reader_falls_behind_and_is_served_in_order(tenured: Tenured) -> None:
    """It takes one event at a time while hundreds are made: late, in order, none missing."""
    start = tenured.client.events()["last_seq"]
    slow = events(tenured, str(start))
    seen = [next(slow).id]
    churn(tenured, JOBS)
    goal = tenured.client.events()["last_seq"]
    while int(seen[-1]) < goal:
        seen.append(next(slow).id)
    told = [int(number) for number in dict.fromkeys(seen)]
    assert told == sorted(told)
    assert told[-1] >= goal
    until(lambda: tenured.client.readyz()["is_ready"], 10, "the daemon to be well")
