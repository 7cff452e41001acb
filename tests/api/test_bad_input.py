"""Bad input is a 4xx that names the field, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.server import CONTAINER, JOB, Server

HUGE = 10**30
JOB_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": "../etc"}, "name"),
    ({"name": "a/b"}, "name"),
    ({"name": ""}, "name"),
    ({"name": "x" * 64}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": "\ud800"}, "name"),
    ({"name": 5}, "name"),
    ({"app": "-x"}, "app"),
    ({"image": "no such"}, "image"),
    ({"image": "Upper/Case"}, "image"),
    ({"image": "absent:1"}, "image"),
    ({"image": ""}, "image"),
    ({"executors": 0}, "executors"),
    ({"executors": -1}, "executors"),
    ({"executors": 1.5}, "executors"),
    ({"executors": True}, "executors"),
    ({"executors": "2"}, "executors"),
    ({"executors": 1001}, "executors"),
    ({"executors": HUGE}, "executors"),
    ({"cpus": 0}, "cpus"),
    ({"cpus": -0.5}, "cpus"),
    ({"cpus": 1e300}, "cpus"),
    ({"cpus": None}, "cpus"),
    ({"memory": 0}, "memory"),
    ({"memory": -1}, "memory"),
    ({"memory": "12 parsecs"}, "memory"),
    ({"memory": "9" * 400}, "memory"),
    ({"memory": 1.5}, "memory"),
    ({"memory": HUGE}, "memory"),
    ({"deadline_s": 0}, "deadline_s"),
    ({"deadline_s": -3}, "deadline_s"),
    ({"deadline_s": 1e12}, "deadline_s"),
    ({"deadline_s": None, "deadline": "2001-01-01T00:00:00Z"}, "deadline"),
    ({"deadline_s": None, "deadline": "0001-01-01T00:00:00+12:00"}, "deadline"),
    ({"deadline_s": None, "deadline": "9999-12-31T23:59:59Z"}, "deadline"),
    ({"deadline_s": None, "deadline": "2040-01-01T00:00:00"}, "deadline"),
    ({"deadline_s": None, "deadline": "4102444800"}, "deadline"),
    ({"deadline_s": None, "deadline": 4102444800}, "deadline"),
    ({"deadline": "2040-01-01T00:00:00Z"}, "deadline"),
    ({"estimate": {"local_s": 10, "hybrid_s": 9}}, "estimate.hybrid_s"),
    ({"estimate": {"local_s": -1}}, "estimate.local_s"),
    ({"estimate": {"hybrid_s": 9}}, "estimate.local_s"),
    ({"estimate": {"locals": 9}}, "estimate.locals"),
    ({"estimate": []}, "estimate"),
    ({"policy": "no-such"}, "policy"),
    ({"priority": HUGE}, "priority"),
    ({"env": {"A": 1}}, "env"),
    ({"env": ["=x"]}, "env.0"),
    ({"labels": {"tenure.job": "x"}}, "labels.tenure.job"),
    ({"labels": {"": "x"}}, "labels."),
    ({"volumes": ["data"]}, "volumes.0"),
    ({"constraints": ["site==local", "colour==red"]}, "constraints.1"),
    ({"constraints": [""]}, "constraints.0"),
    ({"max_runtime_s": 0}, "max_runtime_s"),
    ({"retries": -1}, "retries"),
    ({"on_unreachable": "panic"}, "on_unreachable"),
    ({"command": "echo 'x"}, "command"),
    ({"command": [1]}, "command.0"),
    ({"surprise": 1}, "surprise"),
    ({"executors": 1000, "cpus": 4}, "executors"),
]


@pytest.mark.parametrize(("change", "field"), JOB_FAULTS)
def test_job_faults(server: Server, change: dict[str, Any], field: str) -> None:
    before = server.on_loop(server.backend.sizes)
    for path in ("/v1/jobs", "/v1/jobs/plan"):
        answer = server.post(path, {**JOB, **change})
        if path == "/v1/jobs/plan" and answer.status == 200:
            assert answer.json["is_accepted"] is False  # the core's refusals are its answer
            continue
        assert answer.status == 422, answer.body
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert field in answer.fields
    assert server.on_loop(server.backend.sizes) == before


CONTAINER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": "a/b"}, "name"),
    ({"name": "x"}, "name"),
    ({"name": "tenure-j-0123456789ab-0-1"}, "name"),  # an executor's, with an image's labels
    ({"name": "tenured-agent"}, "name"),
    ({"Image": None}, "Image"),
    ({"Image": "absent:1"}, "Image"),
    ({"Imgae": "web:1"}, "Imgae"),
    ({"Cmd": 5}, "Cmd"),
    ({"Cmd": ["a", 1]}, "Cmd"),
    ({"Entrypoint": {}}, "Entrypoint"),
    ({"User": 1}, "User"),
    ({"Volumes": []}, "Volumes"),
    ({"Healthcheck": "yes"}, "Healthcheck"),
    ({"HostConfig": {"Binds": "/a:/b"}}, "HostConfig.Binds"),
    ({"HostConfig": {"Privileged": 1}}, "HostConfig.Privileged"),
    ({"HostConfig": {"PortBindings": {"80/tcp": "80"}}}, "HostConfig.PortBindings.80/tcp"),
    ({"Env": ["=1"]}, "Env.0"),
    ({"Labels": {"tenure.fleet": "x"}}, "Labels.tenure.fleet"),
    ({"Labels": {"tenure.migrate": "teleport"}}, "Labels.tenure.migrate"),
    ({"Labels": {"tenure.overlap": "maybe"}}, "Labels.tenure.overlap"),
    ({"Labels": {"tenure.binds": "maybe"}}, "Labels.tenure.binds"),
    ({"Labels": {"a": 1}}, "Labels.a"),
    ({"HostConfig": {"Memory": -1}}, "HostConfig.Memory"),
    ({"HostConfig": {"Memory": 1024}}, "HostConfig.Memory"),
    ({"HostConfig": {"Memory": HUGE}}, "HostConfig.Memory"),
    ({"HostConfig": {"MemoryReservation": 2**30, "Memory": 2**29}}, "HostConfig.MemoryReservation"),
    ({"HostConfig": {"NanoCpus": -5}}, "HostConfig.NanoCpus"),
    ({"HostConfig": {"NanoCpus": 10**9, "CpuQuota": 1000}}, "HostConfig.NanoCpus"),
    ({"HostConfig": {"NanoCpus": 64 * 10**9}}, "HostConfig"),
    ({"HostConfig": {"RestartPolicy": {"Name": "often"}}}, "HostConfig.RestartPolicy.Name"),
    ({"HostConfig": {"AutoRemove": True}}, "HostConfig.AutoRemove"),
    ({"HostConfig": {"Memroy": 1}}, "HostConfig.Memroy"),
    ({"HostConfig": "big"}, "HostConfig"),
    ({"tenure": {"generation": "no-such"}}, "tenure.generation"),
    ({"tenure": {"migrate": "alive"}}, "tenure.migrate"),
    ({"tenure": {"min_age_s": -1}}, "tenure.min_age_s"),
    ({"tenure": {"appp": "x"}}, "tenure.appp"),
    ({"Volumes": {"/x": {"deep": float("nan")}}}, "Volumes./x.deep"),
]


@pytest.mark.parametrize(("change", "field"), CONTAINER_FAULTS)
def test_container_faults(server: Server, change: dict[str, Any], field: str) -> None:
    before = server.on_loop(server.backend.sizes)
    answer = server.post("/v1/containers", {**CONTAINER, **change})
    assert answer.status == 422, answer.body
    assert field in answer.fields
    assert server.on_loop(server.backend.sizes) == before


def test_all_faults_at_once(server: Server) -> None:
    answer = server.post("/v1/jobs", {**JOB, "name": "/", "cpus": -1, "memory": "x", "more": 1})
    assert set(answer.fields) == {"name", "cpus", "memory", "more"}
    late = {"deadline": "2001-01-01T00:00:00Z", "constraints": ["x"], "labels": {"tenure.a": ""}}
    answer = server.post("/v1/jobs", {**JOB, **late})
    assert set(answer.fields) == {"deadline", "constraints.0", "labels.tenure.a"}


RAW: list[tuple[bytes, int, str]] = [
    (b"{", 400, "body"),
    (b"", 400, "body"),
    (b"   ", 400, "body"),
    (b"nonsense", 400, "body"),
    (b"\xff\xfe{}", 400, "body"),
    (b"[" * 9_000, 400, "body"),
    (b'{"a":' * 50 + b"1" + b"}" * 50, 422, "a"),
    (b'{"name":"a","name":"b"}', 422, "name"),
    (b'{"estimate":{"local_s":1,"local_s":2}}', 422, "estimate.local_s"),
    (b'{"cpus": NaN}', 422, "cpus"),
    (b'{"cpus": -Infinity}', 422, "cpus"),
    (b'{"cpus": 1e400}', 422, "cpus"),
    (b'{"cpus": ' + b"9" * 5000 + b"}", 422, "cpus"),
    (b'{"name": "\\u0000"}', 422, "name"),
    (b'{"\\u0000": 1}', 422, "\0"),
    (b"null", 422, "body"),
    (b"[]", 422, "body"),
    (b'"x"', 422, "body"),
    (b"5", 422, "body"),
    (b"\xef\xbb\xbf{}", 400, "body"),
]


@pytest.mark.parametrize(("raw", "status", "field"), RAW)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/containers", "/v1/plans"])
def test_raw_bodies(server: Server, path: str, raw: bytes, status: int, field: str) -> None:
    answer = server.post(path, raw)
    assert answer.status == status, answer.body
    assert any(name == field or name.startswith(f"{field}.") for name in answer.fields)


QUERIES = [
    ("/v1/jobs?limit=0", "limit"),
    ("/v1/jobs?limit=1001", "limit"),
    ("/v1/jobs?limit=x", "limit"),
    ("/v1/jobs?limit=" + "9" * 5000, "limit"),
    ("/v1/jobs?limit=1&limit=2", "limit"),
    ("/v1/jobs?cursor=%00", "cursor"),
    ("/v1/jobs?cursor=W10", "cursor"),
    ("/v1/jobs?state=sleeping", "state"),
    ("/v1/jobs?state=a%20b", "state"),
    ("/v1/jobs?colour=red", "colour"),
    ("/v1/cost?since=yesterday", "since"),
    ("/v1/cost?since=2030-01-01T00:00:00Z&until=2029-01-01T00:00:00Z", "since"),
    ("/v1/cost?until=9999-12-31T23:59:59-12:00", "until"),
    ("/v1/energy?until=soon", "until"),
    ("/v1/energy?until=9999-12-31T23:59:59-12:00", "until"),
    ("/v1/energy?since=0001-01-01T00:00:00%2B14:00", "since"),
    ("/v1/energy?since=2030-01-01T00:00:00Z&until=2029-01-01T00:00:00Z", "since"),
    ("/v1/events?after=-1", "after"),
    ("/v1/events?after=" + "9" * 30, "after"),
    ("/v1/containers?generation=", "generation"),
]


@pytest.mark.parametrize(("path", "field"), QUERIES)
def test_query_faults(server: Server, path: str, field: str) -> None:
    server.post("/v1/jobs", JOB)  # a cursor is compared with real keys
    answer = server.get(path)
    assert answer.status == 422, answer.body
    assert answer.fields == [field]


def test_names_in_paths_find_nothing(server: Server) -> None:
    for name in ("%2e%2e%2fetc", "a%00b", "%ff", "x" * 3000, "%F0%9F%92%A9"):
        for path in (f"/v1/jobs/{name}", f"/v1/nodes/{name}", f"/v1/containers/{name}"):
            assert server.get(path).status == 404
        assert server.post(f"/v1/cycles/{name}/run", {}).status == 404
        assert server.post(f"/v1/runs/{name}/fail", {"reason": "x"}).status == 404


def test_fence_needs_the_name_again(server: Server) -> None:
    answer = server.post("/v1/nodes/n1/fence", {"confirm": "n2"})
    assert (answer.status, answer.fields) == (422, ["confirm"])


def test_what_is_wrong_is_told_with_its_name(server: Server) -> None:
    twice = server.get("/v1/top?sort=cpu&sort=net").json
    assert twice["detail"] == "sort is given twice"
    stage = {"name": "s", "memory": "64MiB", "estimate": {"task_s": 1}, "command": ["x"] * 2000}
    long = server.post("/v1/batches", {"name": "b", "image": "app:1", "stages": [stage]}).json
    assert long["detail"] == "stages.0.command: must have at most 1024 items, not 2000"
