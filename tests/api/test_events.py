"""The list and the stream of events."""

from __future__ import annotations

import contextlib
import functools
import http.client
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from tenure.api.handlers.events import READING_AT_ONCE
from tenure.client.sse import Sse, lines, parse
from tenure.core.state.tables import PublicEvent
from tests.api.fleet import CoreBackend
from tests.api.server import JOB, TOKEN, WAIT_S, Server


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


def opened(
    server: Server, stack: contextlib.ExitStack, *, is_tcp: bool, token: str = TOKEN
) -> tuple[int, bytes]:
    """Open a stream for as long as the stack; return status and, where it is refused, the body."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
    if not is_tcp:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(WAIT_S)
        connection.sock.connect(str(server.socket))
    stack.callback(connection.close)
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
    connection.request("GET", "/v1/events", headers=headers)
    response = connection.getresponse()
    return response.status, response.read() if response.status != 200 else b""


def test_streams_are_bounded_for_each_client_and_in_all(folder: Path) -> None:
    server = Server(folder, max_streams=3)
    try:
        with contextlib.ExitStack() as stack:
            assert opened(server, stack, is_tcp=True)[0] == 200
            status, body = opened(server, stack, is_tcp=True)
            assert (status, b"streams of yours" in body) == (429, True)
            # from elsewhere, by the same token
            status, body = opened(server, stack, is_tcp=False)
            assert (status, b"streams of yours" in body) == (429, True)
            other = server.post("/v1/tokens", {"name": "ann", "role": "read"}).json["token"]
            assert opened(server, stack, is_tcp=False, token=other)[0] == 200
        server.restart_listeners()
        assert server.get("/livez").status == 200
    finally:
        server.close()
    server = Server(folder, max_streams=1)
    try:
        with contextlib.ExitStack() as stack:
            assert opened(server, stack, is_tcp=True)[0] == 200
            status, body = opened(server, stack, is_tcp=False)
            assert (status, b"streams are open, the limit;" in body) == (429, True)
    finally:
        server.close()


def test_filtered_streams_at_any_place_get_what_they_asked_for(server: Server) -> None:
    """Behind what is kept in memory, at its begin, in it, and at its end."""
    assert server.post("/v1/jobs", JOB).status == 201
    every = server.get("/v1/events?limit=1000").json["items"]
    types = sorted({event["type"] for event in every})
    for kind in (*types, "none.such"):
        wanted = [event for event in every if event["type"] == kind]
        for after in (0, 1, len(every) // 2, len(every) - 1, len(every)):
            left = [event for event in wanted if event["seq"] > after]
            with stream(server, f"?after={after}&types={kind}") as events:
                found = [next(shown(events)).data for _ in left]
                assert found == left
                assert next(events).data is None  # a heartbeat, and nothing more


def test_no_stream_is_read_on_the_loop(server: Server) -> None:
    """A store that is slow to search holds those who wait for it, and nobody else."""
    search = server.backend.events_after
    searched: set[int] = set()

    def slow(seq: int, limit: int, types: Collection[str]) -> list[PublicEvent]:
        searched.add(threading.get_ident())
        time.sleep(0.5)
        return search(seq, limit, types)

    server.backend.events_after = slow  # type: ignore[method-assign]
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            status, _ = opened(server, stack, is_tcp=True)
            assert status == 200
            begun = time.monotonic()
            assert server.get("/livez").status == 200
            assert time.monotonic() - begun < 0.4
        server.post("/v1/jobs", JOB)
    loop_thread = server.on_loop(threading.get_ident)
    assert searched
    assert loop_thread not in searched


def test_lists_leave_threads_to_others(server: Server) -> None:
    """Whoever may read could else have all of them search for what is not there."""
    search, counting = server.backend.events_after, threading.Lock()
    now = most = 0

    def slow(seq: int, limit: int, types: Collection[str]) -> list[PublicEvent]:
        nonlocal now, most
        with counting:
            now, most = now + 1, max(most, now + 1)
        time.sleep(0.1)
        with counting:
            now -= 1
        return search(seq, limit, types)

    server.backend.events_after = slow  # type: ignore[method-assign]
    asking = [
        threading.Thread(target=server.get, args=("/v1/events?types=none.such",)) for _ in range(12)
    ]
    for one in asking:
        one.start()
    for one in asking:
        one.join(WAIT_S)
    assert 1 <= most <= READING_AT_ONCE


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
