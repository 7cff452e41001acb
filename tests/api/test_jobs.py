"""Jobs over HTTP, on the real core."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.model.job import Constraint
from tests.api.fleet import CoreBackend
from tests.api.server import JOB, Server


def test_submission_is_answered_with_a_promise(server: Server) -> None:
    answer = server.post("/v1/jobs", JOB)
    assert answer.status == 201
    job = answer.json
    assert answer.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert job["id"].startswith("j-")
    assert len(job["id"]) == 14
    assert job["admission"]["promise"] == "admitted"
    assert job["memory_bytes"] == 256 << 20
    assert [e["node"] for e in job["executor_states"]] == ["n2", "n2"]
    shown = server.get(f"/v1/jobs/{job['id']}")
    assert shown.json == job
    assert shown.headers["ETag"] == answer.headers["ETag"]


def test_every_field_reaches_the_core(server: Server) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    body = {
        **{k: v for k, v in JOB.items() if k != "deadline_s"},
        "deadline": at.isoformat(),
        "command": "work --text 'two words'",
        "memory": 1 << 28,
        "policy": "ff",
        "priority": 7,
        "env": {"A": "1", "B": ""},
        "labels": {"team": "x"},
        "volumes": ["/data:/data:ro", "named:/n"],
        "constraints": ["site==local", "generation in (young, tenured)"],
        "max_runtime_s": 1.5,
        "retries": 3,
        "on_unreachable": "wait",
    }
    answer = server.post("/v1/jobs", body)
    assert answer.status == 201, answer.body
    job = server.on_loop(lambda: server.backend.tables.jobs[answer.json["id"]])
    spec = job.spec
    assert spec.deadline_us == int(at.timestamp() * 1_000_000)
    assert spec.command == ("work", "--text", "two words")
    assert (spec.policy, spec.priority, spec.retries) == ("ff", 7, 3)
    assert spec.env == ("A=1", "B=")
    assert spec.volumes == ("/data:/data:ro", "named:/n")
    assert spec.constraints == (
        Constraint("site", "==", ("local",)),
        Constraint("generation", "in", ("young", "tenured")),
    )
    assert spec.max_runtime_us == 1_500_000
    assert (spec.estimate_local_us, spec.estimate_hybrid_us) == (20_000_000, 26_000_000)
    assert spec.on_unreachable == "wait"
    assert answer.json["env"] == ["A=1", "B="]


def test_defaults(server: Server) -> None:
    answer = server.post(
        "/v1/jobs", {"name": "a", "image": "app:1", "cpus": 1, "memory": "1GiB", "estimate": None}
    )
    job = answer.json
    assert (job["app"], job["executors"], job["deadline"]) == ("a", 1, None)
    assert job["policy"] == "tenure"
    body = {**JOB, "name": "b", "estimate": {"local_s": 10}}
    assert server.post("/v1/jobs", body).json["estimate"] == {
        "local_s": 10.0,
        "hybrid_s": 13.0,
        "source": "given",
        "runs": 0,
        "alike": 0,
        "safety": 1.0,
        "read_s": None,
    }


def test_refusal_offers_the_earliest_deadline(server: Server) -> None:
    answer = server.post("/v1/jobs", {**JOB, "deadline_s": 5})
    assert answer.status == 422
    assert answer.json["code"] == "deadline_unmeetable"
    assert answer.fields == ["deadline"]
    assert answer.json["earliest"]["deadline"]
    assert server.get("/v1/jobs").json["items"] == []


def test_dry_run_keeps_nothing(server: Server) -> None:
    answer = server.post("/v1/jobs/plan", JOB)
    assert answer.status == 200
    assert answer.json["is_accepted"] is True
    assert server.get("/v1/jobs").json["items"] == []


def test_duplicate_name_of_an_open_job(server: Server) -> None:
    assert server.post("/v1/jobs", JOB).status == 201
    answer = server.post("/v1/jobs", JOB)
    assert (answer.status, answer.json["code"], answer.fields) == (409, "name_taken", ["name"])


def test_idempotency_key(server: Server) -> None:
    first = server.post("/v1/jobs", JOB, Idempotency_Key="k1")
    again = server.post("/v1/jobs", JOB, Idempotency_Key="k1")
    assert again.status == 201
    assert again.json["id"] == first.json["id"]
    reordered = dict(reversed(JOB.items()))
    assert server.post("/v1/jobs", reordered, Idempotency_Key="k1").status == 201
    other = server.post("/v1/jobs", {**JOB, "retries": 1}, Idempotency_Key="k1")
    assert (other.status, other.json["code"]) == (409, "idempotency_conflict")
    container = server.post(
        "/v1/containers", {"name": "ab", "Image": "web:1"}, Idempotency_Key="k1"
    )
    assert container.status == 409
    assert len(server.get("/v1/jobs").json["items"]) == 1


def test_replay_after_the_deadline_gives_the_first_answer(server: Server) -> None:
    at = datetime.now(UTC) + timedelta(seconds=60)
    body = {k: v for k, v in JOB.items() if k != "deadline_s"} | {"deadline": at.isoformat()}
    first = server.post("/v1/jobs", body, Idempotency_Key="k")
    assert first.status == 201, first.body

    def an_hour_later() -> None:
        server.backend._clock += 3_600_000_000

    server.on_loop(an_hour_later)
    assert server.post("/v1/jobs", body).status == 422
    again = server.post("/v1/jobs", body, Idempotency_Key="k")
    assert (again.status, again.json["id"]) == (201, first.json["id"])


@pytest.mark.parametrize("key", ["x" * 256, "a\tb", "caf\xe9"])
def test_bad_idempotency_keys(server: Server, key: str) -> None:
    answer = server.post("/v1/jobs", JOB, Idempotency_Key=key)
    assert (answer.status, answer.fields) == (422, ["Idempotency-Key"])


def test_cancel_both_ways(server: Server) -> None:
    one = server.post("/v1/jobs", {**JOB, "name": "one"}).json["id"]
    two = server.post("/v1/jobs", {**JOB, "name": "two"}).json["id"]
    assert server.send("DELETE", f"/v1/jobs/{one}").json["state"] in ("running", "cancelled")
    assert server.post(f"/v1/jobs/{two}/cancel").status == 200
    states = {job["name"]: job["state"] for job in server.get("/v1/jobs").json["items"]}
    assert states == {"one": "cancelled", "two": "cancelled"}
    assert server.post(f"/v1/jobs/{one}/cancel").status == 200  # over as asked


def test_conditional_change(server: Server) -> None:
    made = server.post("/v1/jobs", JOB)
    path = f"/v1/jobs/{made.json['id']}"
    stale = server.send("DELETE", path, If_Match='"0"')
    assert (stale.status, stale.json["code"]) == (412, "version_mismatch")
    assert server.send("DELETE", path, If_Match=made.headers["ETag"]).status == 200


def test_a_job_that_is_over(folder: Path) -> None:
    server = Server(folder, functools.partial(CoreBackend, exit_code=0))
    try:
        made = server.post("/v1/jobs", JOB).json
        assert made["state"] == "succeeded"
        assert made["deadline_met"] is True
        assert (made["exit_code"], made["mode"]) == (0, "local")
        answer = server.send("DELETE", f"/v1/jobs/{made['id']}")
        assert (answer.status, answer.json["code"]) == (409, "job_over")
    finally:
        server.close()


def test_lookup_by_name_and_beginning(server: Server) -> None:
    made = server.post("/v1/jobs", JOB).json
    for ref in (made["id"], made["name"], made["id"][:8]):
        assert server.get(f"/v1/jobs/{ref}").json["id"] == made["id"]
    server.post("/v1/jobs", {**JOB, "name": "another"})
    assert server.get("/v1/jobs/j-").status == 404  # too short to be meant


def test_explain_a_waiting_job(server: Server) -> None:
    for i in range(4):
        body = {**JOB, "name": f"full-{i}", "executors": 4, "cpus": 1, "deadline_s": 6000}
        assert server.post("/v1/jobs", {**body, "constraints": ["name==n2"]}).status == 201
    waiting = server.get("/v1/jobs?state=waiting,accepted").json["items"]
    answer = server.get(f"/v1/jobs/{waiting[-1]['id']}/explain")
    assert answer.status == 200
    reasons = {row["node"]: row for row in answer.json["placement"]["nodes"]}
    assert reasons["n2"]["exhausted"][0]["dimension"] == "cpu_m"
    assert reasons["n4"]["dropped"] == "constraint"


def test_explain_a_planned_job(server: Server) -> None:
    body = {**JOB, "executors": 4, "cpus": 1, "deadline_s": 6000, "policy": "tenure"}
    body["constraints"] = ["name==n2"]
    for i in range(3):
        made = server.post("/v1/jobs", {**body, "name": f"p{i}"})
        assert (made.status, made.json["policy"]) == (201, "tenure"), made.json
    (last,) = server.get("/v1/jobs?state=waiting,accepted").json["items"][-1:]
    answer = server.get(f"/v1/jobs/{last['id']}/explain").json
    assert answer["reason"] == "planned"
    assert answer["plan"]["nodes"] == {"n2": 4}
    assert answer["plan"]["is_late"] is False
    assert answer["plan"]["summary"].startswith(f"planned to start at {answer['plan']['start']} on")
    offers = server.post("/v1/jobs/plan", {**body, "name": "p9"}).json["offers"]
    assert "tenure" in {offer["policy"] for offer in offers}


def test_list_filters_and_pages(server: Server) -> None:
    for i in range(7):
        app = "even" if i % 2 == 0 else "odd"
        body = {**JOB, "name": f"j{i}", "app": app, "executors": 1, "cpus": 0.1}
        assert server.post("/v1/jobs", body).status == 201
    assert len(server.get("/v1/jobs?app=even").json["items"]) == 4
    assert server.get("/v1/jobs?state=succeeded").json["items"] == []
    names, cursor = [], ""
    for part in _pages(server):
        names += [job["name"] for job in part["items"]]
        cursor = part["next_cursor"] or cursor
    assert names == [f"j{i}" for i in range(7)]
    foreign = server.get(f"/v1/nodes?cursor={cursor}")
    assert (foreign.status, foreign.fields) == (422, ["cursor"])


def _pages(server: Server) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = server.get(f"/v1/jobs?limit=3{cursor}").json
        yield page
        if page["next_cursor"] is None:
            return
        cursor = f"&cursor={page['next_cursor']}"


def test_logs(server: Server) -> None:
    job = server.post("/v1/jobs", JOB).json["id"]
    server.backend.logs[f"{job}/1"] = b"one\ntwo\nthree\n"
    server.backend.followed = [b"four\n", b"five\n"]
    assert server.get(f"/v1/jobs/{job}/logs").fields == ["executor"]
    assert server.get(f"/v1/jobs/{job}/logs?executor=2").status == 404
    assert server.get(f"/v1/jobs/{job}/logs?executor=0").json["code"] == "no_log"
    assert server.get(f"/v1/jobs/{job}/logs?executor=1").body == b"one\ntwo\nthree\n"
    assert server.get(f"/v1/jobs/{job}/logs?executor=1&tail=1").body == b"three\n"
    assert server.get(f"/v1/jobs/{job}/logs?executor=1&tail=0").body == b""
    followed = server.get(f"/v1/jobs/{job}/logs?executor=1&follow=true")
    assert followed.body == b"one\ntwo\nthree\nfour\nfive\n"
    assert followed.headers["Content-Type"].startswith("text/plain")


def test_pullable_image(server: Server) -> None:
    made = server.post("/v1/jobs", {**JOB, "image": "pullable/app:1"}).json
    job = server.on_loop(lambda: server.backend.tables.jobs[made["id"]])
    assert job.spec.is_pullable
    answer = server.post("/v1/jobs", {**JOB, "name": "x", "image": "absent:1"})
    assert (answer.json["code"], answer.fields) == ("unknown_image", ["image"])
    assert "the registry does not know it" in answer.json["detail"]


def test_the_dry_run_knows_that_a_name_is_taken(server: Server) -> None:
    assert server.post("/v1/jobs", JOB).status == 201
    refusal = server.post("/v1/jobs", JOB)
    planned = server.post("/v1/jobs/plan", JOB)
    assert (planned.status, planned.json["is_accepted"]) == (200, False)
    assert (planned.json["code"], planned.json["detail"]) == (
        refusal.json["code"],
        refusal.json["detail"],
    )
    assert planned.json["errors"] == refusal.json["errors"]


def test_an_unknown_image_is_explained_once(server: Server) -> None:
    detail = server.post("/v1/jobs", {**JOB, "image": "absent:1"}).json["detail"]
    assert detail.count("no node holds") == 1
    assert detail.count("absent:1") == 1


SPARK = {
    **{key: value for key, value in JOB.items() if key not in ("command", "executors")},
    "kind": "spark",
    "executors": 1,
    "memory": "1GiB",
    "spark": {"application": "/opt/app.py", "args": ["7"], "conf": {"spark.log.level": "INFO"}},
}


def test_a_spark_job_has_a_driver_and_a_secret_that_nobody_is_shown(server: Server) -> None:
    answer = server.post("/v1/jobs", SPARK)
    assert answer.status == 201, answer.body
    job = answer.json
    assert job["kind"] == "spark"
    assert job["spark"] == {**SPARK["spark"], "program": ""}
    assert (job["executors"], job["command"]) == (1, [])
    assert [state["role"] for state in job["executor_states"]] == ["driver", "executor"]
    stored = server.on_loop(lambda: server.backend.tables.jobs[job["id"]])
    assert stored.spec.spark is not None
    assert len(stored.spec.spark.secret) == 64
    assert stored.spec.spark.secret not in answer.body.decode()
    assert server.post("/v1/jobs/plan", {**SPARK, "name": "other"}).json["is_accepted"]


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"spark": None}, "spark", "which application"),
        ({"kind": "containers"}, "kind", "must be spark"),
        ({"command": ["ls"]}, "command", "spark.application"),
        ({"memory": "512MiB"}, "memory", "at least 1 GiB"),
        ({"spark": {}}, "spark.application", "either"),
        ({"spark": {"application": "a.py", "program": "x"}}, "spark.application", "either"),
        ({"spark": {"program": "\x00"}}, "spark.program", "NUL"),
        ({"spark": {"program": "é" * 60_000}}, "spark.program", "longer"),
        ({"spark": {"program": "\ud800"}}, "spark.program", "surrogate"),
        ({"spark": {"application": "--help"}}, "spark.application", "pattern"),
        (
            {"spark": {"application": "a.py", "conf": {"spark.master": "local"}}},
            "spark.conf.spark.master",
            "tenure's to set",
        ),
    ],
)
def test_faults_of_a_spark_job(
    server: Server, changes: dict[str, Any], path: str, says: str
) -> None:
    answer = server.post("/v1/jobs", {**SPARK, **changes})
    assert answer.status == 422, answer.body
    told = {fault["field"]: fault["message"] for fault in answer.json["errors"]}
    assert says in told[path], told
