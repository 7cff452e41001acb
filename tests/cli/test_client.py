"""The REST client: where it looks, what it raises, when it tries again."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenure.client import sse
from tenure.client.client import Client
from tenure.client.errors import DaemonUnreachable, error_from
from tenure.client.gateway import Gateway, wire_plan
from tenure.client.target import Target, discover, parse
from tenure.cycles.snapshot import plan_to_json
from tenure.model.errors import (
    Conflict,
    EngineError,
    InvalidInput,
    NotFound,
    TenureError,
    Unauthorized,
    Unavailable,
)
from tenure.model.plan import Kept, Move, NodeNote, Plan
from tests.api.server import CONTAINER, JOB, TOKEN, Server


def test_discovery(folder: Path) -> None:
    home = {"HOME": str(folder)}
    assert discover(env=home).socket_path in (
        "/run/tenure/tenured.sock",
        f"{folder}/.local/state/tenure/tenured.sock",
    )
    assert discover("unix:///a", env={**home, "TENURE_HOST": "unix:///b"}).socket_path == "/a"
    assert discover(env={**home, "TENURE_HOST": "unix:///b"}).socket_path == "/b"
    given = {**home, "TENURE_HOST": "tcp://h:1", "TENURE_TOKEN": "t"}
    assert discover(env=given) == Target(host="h", port=1, token="t")
    (folder / "token").write_text(" from-file \n")
    named = discover("h:2", str(folder / "token"), env=given)
    assert named == Target(host="h", port=2, token="from-file")
    by_env = discover("h", env={**home, "TENURE_TOKEN_FILE": str(folder / "token")})
    assert (by_env.port, by_env.token) == (7480, "from-file")
    assert "from-file" not in repr(by_env)


@pytest.mark.parametrize("url", ["tcp://192.0.2.1:1", "http://tenure.example", "192.0.2.1"])
def test_a_token_goes_over_no_network_in_clear(url: str, folder: Path) -> None:
    env = {"HOME": str(folder), "TENURE_TOKEN": "t0k3n"}
    with pytest.raises(InvalidInput, match="use https://") as refused:
        Client(discover(url, env=env), timeout_s=1).readyz()
    assert refused.value.code == "token_in_clear"
    assert "TENURE_TOKEN_IN_CLEAR=1" in refused.value.detail
    assert "t0k3n" not in refused.value.detail
    assert discover(url, env={**env, "TENURE_TOKEN_IN_CLEAR": "1"}).may_be_clear
    # nothing to hide, nobody on the way, or TLS
    for target in (
        discover(url, env={"HOME": str(folder)}),
        discover("tcp://127.0.0.3:1", env=env),
        discover("tcp://[::1]:1", env=env),
        discover("https://192.0.2.1", env=env),
        discover(url, env={**env, "TENURE_TOKEN_IN_CLEAR": "1"}),
    ):
        target.require_covered()


def test_a_large_body_may_take_longer_than_each_of_its_parts(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "slow.sock"))
        listener.listen()
        got = bytearray()

        def read_slowly() -> None:
            connection, _ = listener.accept()
            with connection:
                while len(got.partition(b"\r\n\r\n")[2]) < 2 << 20:
                    got.extend(connection.recv(1 << 17))
                    time.sleep(0.15)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
                connection.sendall(b'{"taken": 1}')

        reader = threading.Thread(target=read_slowly, daemon=True)
        reader.start()
        client = Client(Target(socket_path=str(folder / "slow.sock")), timeout_s=1.2)
        assert client.send_chunk("u-1", 0, 0, bytes(2 << 20)) == {"taken": 1}
        reader.join(60)
    head, _, body = bytes(got).partition(b"\r\n\r\n")
    assert b"Content-Length: 2097152\r\n" in head + b"\r\n"
    assert b"Transfer-Encoding" not in head
    assert body == bytes(2 << 20)


def test_the_user_s_own_socket_is_found(folder: Path) -> None:
    own = folder / ".local/state/tenure"
    own.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(own / "tenured.sock"))
        found = discover(env={"HOME": str(folder)}).socket_path
    assert found in (str(own / "tenured.sock"), "/run/tenure/tenured.sock")


@pytest.mark.parametrize("url", ["ftp://x", "unix://", "tcp://", "tcp://h:x", "http://h/path"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidInput, match="no address"):
        parse(url)


def test_a_token_file_that_is_none(folder: Path) -> None:
    (folder / "empty").write_text("\n")
    for name in ("empty", "absent"):
        with pytest.raises(InvalidInput):
            discover("tcp://h:1", str(folder / name), env={})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidInput),
        (401, Unauthorized),
        (404, NotFound),
        (409, Conflict),
        (412, Conflict),
        (422, InvalidInput),
        (500, TenureError),
        (502, EngineError),
        (503, Unavailable),
    ],
)
def test_problems_become_errors(status: int, kind: type[TenureError]) -> None:
    body = {"code": "c", "detail": "d", "errors": [{"field": "f", "message": "m"}], "more": 1}
    error = error_from(status, json.dumps(body).encode())
    assert type(error) is kind
    assert (error.code, error.detail, error.http_status) == ("c", "d", status)
    assert [(f.path, f.message) for f in error.fields] == [("f", "m")]
    assert error.extra == {"more": 1}
    for junk in (b"", b"<html>", b"[1]", b'{"errors": 5}', b'{"errors": [5]}'):
        assert type(error_from(status, junk)) is kind


def test_errors_arrive_whole(client: Client) -> None:
    with pytest.raises(InvalidInput) as caught:
        client.submit_job({**JOB, "deadline_s": 1})
    assert caught.value.code == "deadline_unmeetable"
    assert caught.value.extra is not None
    assert caught.value.extra["earliest"]
    with pytest.raises(NotFound):
        client.job("nope")
    with pytest.raises(Conflict, match="no run of cycle promote"):
        client.claim_run("promote")
    with pytest.raises(NotFound):
        client.node("../nodes")
    with pytest.raises(NotFound):
        client.node("")


def test_every_page_is_read(
    client: Client, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(5):
        server.post("/v1/jobs", {**JOB, "name": f"j{i}", "executors": 1, "cpus": 0.1})
    monkeypatch.setattr("tenure.client.client.PAGE", 2)
    assert [job["name"] for job in client.jobs()] == [f"j{i}" for i in range(5)]


def test_the_same_key_submits_once(client: Client) -> None:
    first = client.submit_job(JOB, key="k")
    assert client.submit_job(JOB, key="k")["id"] == first["id"]
    with pytest.raises(Conflict):
        client.submit_job(JOB)  # another key is another submission, and the name is taken


def test_over_tcp(server: Server) -> None:
    assert Client(Target(host="127.0.0.1", port=server.port, token=TOKEN)).nodes()
    with pytest.raises(Unauthorized):
        Client(Target(host="127.0.0.1", port=server.port, token="x")).nodes()


@contextmanager
def flaky(*answers: Callable[[socket.socket], None]) -> Iterator[tuple[int, list[bytes]]]:
    """A TCP server that treats each connection in turn as told; yields its port and requests."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def work() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    heard.append(connection.recv(65536))
                    answer(connection)

        thread = threading.Thread(target=work)
        thread.start()
        yield listener.getsockname()[1], heard
        thread.join(60)


def cut(connection: socket.socket) -> None:
    """Break off without an answer."""


def say(status: int, body: bytes) -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return lambda connection: connection.sendall(head + body)


def test_reads_and_keyed_submissions_are_tried_again() -> None:
    with flaky(cut, say(503, b"{}"), say(200, b'{"items": [], "next_cursor": null}')) as (port, _):
        assert Client(Target(host="127.0.0.1", port=port), patience_s=60).nodes() == []
    with flaky(cut, say(201, b'{"id": "j-1"}')) as (port, heard):
        client = Client(Target(host="127.0.0.1", port=port), patience_s=60)
        assert client.submit_job(JOB)["id"] == "j-1"
    keys = {line for text in heard for line in text.split(b"\r\n") if b"Idempotency" in line}
    assert len(heard) == 2
    assert len(keys) == 1  # the same submission, not a second one


def test_commands_that_may_have_happened_are_not_repeated() -> None:
    with flaky(cut) as (port, heard):
        client = Client(Target(host="127.0.0.1", port=port), patience_s=60)
        with pytest.raises(DaemonUnreachable) as caught:
            client.power_node("n1", "off")
    assert caught.value.was_sent
    assert len(heard) == 1


def test_patience_ends() -> None:
    begun = time.monotonic()
    with pytest.raises(DaemonUnreachable, match="no daemon answers"):
        Client(Target(host="127.0.0.1", port=1), patience_s=0.5).nodes()
    assert 0.17 < time.monotonic() - begun < 30  # three waits, each of half its time at least


def test_patience_bridges_a_restart(server: Server) -> None:
    client = Client(Target(host="127.0.0.1", port=server.port, token=TOKEN), patience_s=60)
    found: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            found.append(len(client.nodes()))

    thread = threading.Thread(target=ask)
    thread.start()
    for _ in range(3):
        server.restart_listeners()
    stop.set()
    thread.join(60)
    assert set(found) == {4}


def test_an_answer_that_is_none() -> None:
    for junk in (b"<html>", b"[]"):
        with flaky(say(200, junk)) as (port, _), pytest.raises(TenureError, match="no tenure"):
            Client(Target(host="127.0.0.1", port=port)).version()


def test_events_are_followed_over_a_restart(client: Client, server: Server) -> None:
    patient = Client(client.target, patience_s=20)
    events = patient.follow_events(0, types="job.accepted")
    server.post("/v1/jobs", JOB)
    assert next(events)["data"]["name"] == "wc-1"
    server.restart_listeners()
    server.post("/v1/jobs", {**JOB, "name": "second"})
    assert next(events)["data"]["name"] == "second"


def test_sse_in_parts() -> None:
    text = b': hi\nid: 1\nevent: a\ndata: {"x":\ndata: 1}\n\nid: 2\n\nid: 3\ndata: 9'
    for size in (1, 2, 7, 1000):
        parts = [text[i : i + size] for i in range(0, len(text), size)]
        found = list(sse.parse(sse.lines(parts)))
        assert found == [sse.Sse("1", "a", {"x": 1}), sse.Sse("2", "", None)]
    with pytest.raises(ValueError, match="no end"):
        list(sse.lines([b"x" * (2 << 20)]))


def test_the_worker_s_gateway(client: Client, server: Server) -> None:
    container = server.post("/v1/containers", CONTAINER).json["id"]
    gateway = Gateway(client)
    asked = client.run_cycle("promote")
    run = gateway.claim("promote", asked["id"])
    snapshot = gateway.snapshot()
    plan = Plan(
        run_id=run["id"],
        generation="young",
        revision=snapshot["revision"],
        expires_us=snapshot["now_us"] + 60_000_000,
        moves=(Move(container, 1, "n1", "n2", "fits"),),
        kept=(Kept("x", "too_young", "10 s old"),),
        nodes=(NodeNote("n1", "freed", "is emptied", 90.0, 7),),
    )
    answer = gateway.submit_plan(plan_to_json(plan))
    assert [v["code"] for v in answer["verdicts"]] == ["accepted"]
    stored = server.on_loop(lambda: server.backend.tables.runs[run["id"]])
    assert stored.moves == plan.moves
    assert stored.kept == plan.kept
    assert stored.nodes == plan.nodes
    assert stored.expires_us == plan.expires_us
    assert wire_plan(plan_to_json(plan))["moves"][0]["from"] == "n1"


def test_the_gateway_gives_up(client: Client) -> None:
    asked = client.run_cycle("settle")
    assert Gateway(client).fail_run(asked["id"], "no stats")["state"] == "failed"
    with pytest.raises(Conflict) as caught:
        Gateway(client).claim("settle")
    assert caught.value.code == "nothing_due"


def test_health_and_texts(client: Client, server: Server) -> None:
    assert client.readyz()["status"] == "ok"
    assert "tenure_jobs" in client.metrics()
    server.backend.reasons = ["full disk"]
    with pytest.raises(Unavailable, match=r"^full disk$"):
        client.readyz()
