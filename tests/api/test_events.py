"""The list and the stream of events."""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.client.sse import Sse, lines, parse
from tests.api.fleet import CoreBackend
from tests.api.server import JOB, WAIT_S, Server


@contextmanager
def stream(server: Server, query: str = "", **headers: str) -> Iterator[Iterator[Sse]]:
    connection = http.client.HTTPConnection("localhost", timeout=WAIT_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(WAIT_S)
    connection.sock.connect(str(server.socket))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(
            "GET", f"/v1/events{query}", headers={"Accept": "text/event-stream"} | named
        )
        response = connection.getresponse()
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/event-stream")
        yield parse(lines(iter(lambda: response.read1(1 << 16), b"")))
    finally:
        connection.close()


def shown(events: Iterator[Sse]) -> Iterator[Sse]:
    return (event for event in events if event.data is not None)


def test_list(server: Server) -> None:
    first = server.get("/v1/events?limit=2").json
    assert [event["seq"] for event in first["items"]] == [1, 2]
    assert (first["first_seq"], first["has_gap"]) == (1, False)
    rest = server.get("/v1/events?after=2&limit=1000").json
    seqs = [event["seq"] for event in rest["items"]]
    assert seqs == list(range(3, rest["last_seq"] + 1))
    typed = server.get("/v1/events?types=node.added").json["items"]
    assert {event["type"] for event in typed} == {"node.added"}


def test_stream_in_order_and_resumed(server: Server) -> None:
    with stream(server, "?after=0") as events:
        seen = [next(events).data for _ in range(3)]
    assert [event["seq"] for event in seen] == [1, 2, 3]
    assert server.post("/v1/jobs", JOB).status == 201
    last = server.get("/v1/events").json["last_seq"]
    with stream(server, Last_Event_ID="3") as events:
        rest = [next(shown(events)) for _ in range(last - 3)]
    assert [int(event.id) for event in rest] == list(range(4, last + 1))
    assert {"job.accepted", "job.running"} <= {event.type for event in rest}


def test_stream_begins_now_by_default_and_wakes_at_once(server: Server) -> None:
    with stream(server) as events:
        assert next(events).data is None  # a heartbeat: the stream is open
        posted = threading.Thread(target=server.post, args=("/v1/jobs", JOB))
        posted.start()
        event = next(shown(events))
        posted.join(WAIT_S)
    assert event.type == "job.accepted"


def test_heartbeats_carry_the_number_over_other_types(server: Server) -> None:
    with stream(server, "?types=job.accepted&after=0") as events:
        beat = next(events)
    assert beat.data is None
    assert int(beat.id) == server.get("/v1/events").json["last_seq"]


def test_types_are_filtered(server: Server) -> None:
    with stream(server, "?types=job.accepted,job.running") as events:
        assert next(events).data is None
        server.post("/v1/jobs", JOB)
        types = [next(shown(events)).type for _ in range(2)]
    assert types == ["job.accepted", "job.running"]


def test_gaps_are_announced(folder: Path) -> None:
    server = Server(folder, functools.partial(CoreBackend, keep=3))
    try:
        listed = server.get("/v1/events?after=1").json
        assert listed["has_gap"] is True
        first = listed["first_seq"]
        with stream(server, Last_Event_ID="1") as events:
            gap = next(events)
            event = next(events)
        assert (gap.type, gap.data) == ("gap", {"from": 2, "to": first - 1})
        assert int(event.id) == first
    finally:
        server.close()


def test_a_number_from_another_life_is_a_gap(server: Server) -> None:
    last = server.get("/v1/events").json["last_seq"]
    with stream(server, Last_Event_ID=str(last + 1000)) as events:
        gap = next(events)
        assert gap.type == "gap"
        assert int(gap.id) == last
        server.post("/v1/jobs", JOB)
        assert int(next(shown(events)).id) == last + 1


def test_bad_last_event_id(server: Server) -> None:
    for text in ("x", "-1", "1.5", "9" * 40, "²"):
        headers = {"Accept": "text/event-stream", "Last-Event-ID": text.encode().decode("latin-1")}
        answer = server.raw("GET", "/v1/events", headers=headers)
        assert (answer.status, answer.fields) == (422, ["Last-Event-ID"])


def test_streams_are_bounded(folder: Path) -> None:
    server = Server(folder, max_streams=2)
    try:
        with stream(server) as one, stream(server) as two:
            next(one)
            next(two)
            answer = server.get("/v1/events", Accept="text/event-stream")
            assert (answer.status, answer.json["code"]) == (429, "too_many_streams")
    finally:
        server.close()


def test_shutdown_ends_the_streams(folder: Path) -> None:
    server = Server(folder)
    with stream(server) as events:
        next(events)
        closer = threading.Thread(target=server.close)
        closer.start()
        with contextlib.suppress(http.client.IncompleteRead):  # a cut, not an end: worth a retry
            assert all(event.data is None for event in events)
        closer.join(WAIT_S)
        assert not closer.is_alive()
