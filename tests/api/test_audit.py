"""Who changed what and who was refused, as it is recorded and read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.api.server import CONTAINER, JOB, TOKEN, Answer, Server

UID = f"uid {os.geteuid()}"


def told(server: Server, query: str = "") -> list[dict[str, Any]]:
    answer = server.get(f"/v1/audit{query}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["items"]
    return found


def over_tcp(server: Server, method: str, path: str, token: str) -> Answer:
    headers = {"Authorization": f"Bearer {token}"}
    return server.raw(method, path, headers=headers, is_tcp=True)


def test_changes_are_recorded_and_reads_are_not(server: Server) -> None:
    made = server.post("/v1/jobs", JOB).json["id"]
    server.get("/v1/jobs")
    server.post("/v1/jobs/plan", JOB)  # changes nothing
    server.post("/v1/jobs", {"name": "?"})
    server.send("PATCH", "/v1/nodes/n1", {"scheduling": "cordoned"})
    over_tcp(server, "DELETE", f"/v1/jobs/{made}", TOKEN)
    rows = told(server)
    assert [(r["method"], r["path"], r["subject"], r["status"], r["code"]) for r in rows] == [
        ("POST", "/v1/jobs", made, 201, ""),
        ("POST", "/v1/jobs", "", 422, "invalid_input"),
        ("PATCH", "/v1/nodes/n1", "n1", 200, ""),
        ("DELETE", f"/v1/jobs/{made}", made, 200, ""),
    ]
    first, last = rows[0], rows[-1]
    assert (first["kind"], first["who"], first["role"], first["origin"]) == (
        *("peer", UID, "admin"),
        UID,
    )
    assert (last["kind"], last["who"], last["origin"]) == ("token", "root-token", "127.0.0.1")
    assert [row["seq"] for row in rows] == [1, 2, 3, 4]


def test_refusals_are_recorded_with_who_was_refused(server: Server) -> None:
    token = server.post("/v1/tokens", {"name": "ann", "role": "read"}).json["token"]
    over_tcp(server, "GET", "/v1/nodes", "wrong")
    over_tcp(server, "GET", "/v1/audit", token)
    over_tcp(server, "POST", "/v1/nodes/n1/fence", token)
    made, *rows = told(server)
    assert (made["path"], made["subject"]) == ("/v1/tokens", "ann")
    assert [(r["who"], r["role"], r["method"], r["path"], r["code"]) for r in rows] == [
        ("", "", "GET", "/v1/nodes", "unauthorized"),
        ("ann", "read", "GET", "/v1/audit", "forbidden"),
        ("ann", "read", "POST", "/v1/nodes/n1/fence", "forbidden"),
    ]
    assert token not in str(server.get("/v1/audit").body)


def test_what_a_policy_refuses_is_recorded(server: Server) -> None:
    token = server.post("/v1/tokens", {"name": "ci", "role": "submit"}).json["token"]
    body = {**CONTAINER, "HostConfig": {"Privileged": True}}
    server.send("POST", "/v1/containers", body, Authorization=f"Bearer {token}")
    assert told(server)[-1]["code"] == "not_permitted"


def test_a_guesser_does_not_push_everything_else_out(folder: Path) -> None:
    server = Server(folder, wrong_tokens_per_s=1e6)
    try:
        server.post("/v1/jobs", JOB)
        for _ in range(300):
            assert over_tcp(server, "POST", "/v1/jobs", "wrong").status == 401
        assert 2 <= len(told(server)) < 200
    finally:
        server.close()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/livez", {}, 405),  # asked by anybody, and never paced
        ("POST", "/openapi.json", {}, 405),
        ("DELETE", "/v1/jobs/j", {"Host": "elsewhere.example"}, 421),  # refused before its token
        ("POST", "/v1/no-such", {"Authorization": "Bearer {ann}"}, 404),
        ("PATCH", "/v1/jobs", {"Authorization": "Bearer {ann}"}, 405),
    ],
)
def test_who_may_change_nothing_pushes_nothing_out(
    server: Server, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    ann = server.post("/v1/tokens", {"name": "ann", "role": "read"}).json["token"]
    filled = {name: value.replace("{ann}", ann) for name, value in headers.items()}
    for _ in range(100):
        assert server.raw(method, path, headers=filled, is_tcp=True).status == status
    assert 2 <= len(told(server)) < 90


def test_a_guesser_hides_nothing_that_others_are_refused(folder: Path) -> None:
    """Nor does noise under one's own name hide what one may not."""
    server = Server(folder, wrong_tokens_per_s=1e6)
    try:
        ann = server.post("/v1/tokens", {"name": "ann", "role": "read"}).json["token"]
        for _ in range(50):
            over_tcp(server, "POST", "/v1/jobs", "wrong")
            over_tcp(server, "POST", "/v1/no-such", ann)
        over_tcp(server, "POST", "/v1/nodes/n1/fence", ann)
        last = told(server)[-1]
        assert (last["who"], last["code"]) == ("ann", "forbidden")
    finally:
        server.close()


def test_rows_are_found_by_who_time_and_number(server: Server) -> None:
    server.post("/v1/jobs", JOB)
    over_tcp(server, "DELETE", "/v1/jobs/no-such", TOKEN)
    assert [row["status"] for row in told(server, "?who=root-token")] == [404]
    assert [row["seq"] for row in told(server, "?after=1")] == [2]
    assert [row["seq"] for row in told(server, "?limit=1")] == [1]
    assert told(server, "?since=2099-01-01T00:00:00Z") == []
    assert server.get("/v1/audit?since=yesterday").status == 422
    assert server.get("/v1/audit?after=9").json == {"items": [], "last_seq": 9}


@pytest.mark.parametrize("path", ["/v1/jobs/%1b%5b31m%0a", "/v1/jobs/" + "x" * 4000])
def test_rows_are_bounded_and_drive_no_terminal(server: Server, path: str) -> None:
    server.send("DELETE", path)
    (row,) = told(server)
    assert row["path"].isprintable()
    assert row["subject"].isprintable()
    assert len(row["path"]) <= 200
    assert len(row["subject"]) <= 128


def test_the_audit_outlives_the_daemon(server: Server) -> None:
    server.post("/v1/jobs", JOB)
    server.restart_listeners()
    assert len(told(server)) == 1
