"""Readers see no secret that somebody submitted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenure.model.roles import NEEDS, Role
from tests.api.server import BATCH, CONTAINER, JOB, Server

SECRET = "hunter2-in-clear"
BODY: dict[str, Any] = {
    **CONTAINER,
    "Env": [f"PASSWORD={SECRET}", "EMPTY=", "UNSET"],
    "HostConfig": {
        "LogConfig": {"Type": "splunk", "Config": {"splunk-token": SECRET}},
        "Mounts": [
            {
                "Type": "volume",
                "Source": "v",
                "Target": "/v",
                "volumeoptions": {"driverconfig": {"OPTIONS": {"o": f"password={SECRET}"}}},
            }
        ],
    },
    "NetworkingConfig": {"EndpointsConfig": {"bridge": {"DriverOpts": {"key": SECRET}}}},
}
SPARK: dict[str, Any] = {
    **JOB,
    "name": "spark",
    "kind": "spark",
    "memory": "1GiB",
    "env": {"KEY": SECRET},
    "spark": {
        "application": "/app.py",
        "conf": {
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.executorEnv.DATABASE": SECRET,
            "spark.executor.extraJavaOptions": f"-Ddb.password={SECRET}",
            "spark.ui.enabled": "false",
        },
    },
}


def asked(server: Server, path: str, token: str) -> Any:
    return server.raw("GET", path, headers={"Authorization": f"Bearer {token}"}, is_tcp=True)


@pytest.fixture
def texts(server: Server) -> dict[Role, str]:
    made = {}
    for role in Role:
        body = {"name": f"of-{role}", "role": role.value}
        made[role] = server.post("/v1/tokens", body).json["token"]
    return made


@pytest.fixture
def submitted(server: Server) -> dict[str, str]:
    """Return the ids of what holds secrets, by kind."""
    stages = [{**BATCH["stages"][0], "env": {"KEY": SECRET}}]
    spark = {key: value for key, value in SPARK.items() if key != "command"}
    answers = {
        "jobs": server.post("/v1/jobs", {**JOB, "env": [f"KEY={SECRET}", "UNSET"]}),
        "spark": server.post("/v1/jobs", spark),
        "containers": server.post("/v1/containers", BODY),
        "batches": server.post("/v1/batches", {**BATCH, "stages": stages}),
    }
    for answer in answers.values():
        assert answer.status == 201, answer.body
    return {kind: answer.json["id"] for kind, answer in answers.items()}


def test_no_read_of_a_reader_shows_a_secret(
    server: Server, texts: dict[Role, str], submitted: dict[str, str]
) -> None:
    """Through every route that a reader may ask, and everything that was submitted."""
    for route, need in NEEDS.items():
        method, path = route.split(" ")
        if method != "GET" or not need.allows(Role.READ):
            continue
        for key in submitted.values():
            filled = path.replace("{id}", key).replace("{name}", "n1").replace("{index}", "0")
            for role in (Role.READ, Role.METRICS, Role.WORKER):
                answer = asked(server, filled, texts[role])
                assert SECRET.encode() not in answer.body, (route, role)


def test_names_stay_and_submitters_see_all(
    server: Server, texts: dict[Role, str], submitted: dict[str, str]
) -> None:
    job = f"/v1/jobs/{submitted['jobs']}"
    assert asked(server, job, texts[Role.READ]).json["env"] == ["KEY=***", "UNSET"]
    assert asked(server, job, texts[Role.SUBMIT]).json["env"] == [f"KEY={SECRET}", "UNSET"]
    listed = asked(server, "/v1/jobs", texts[Role.READ]).json["items"]
    assert listed[0]["env"] == ["KEY=***", "UNSET"]
    conf = asked(server, f"/v1/jobs/{submitted['spark']}", texts[Role.READ]).json["spark"]["conf"]
    hidden = dict.fromkeys(SPARK["spark"]["conf"], "***")
    assert conf == {**hidden, "spark.ui.enabled": "false"}
    path = f"/v1/containers/{submitted['containers']}"
    body = asked(server, path, texts[Role.READ]).json["body"]
    assert body["Env"] == ["PASSWORD=***", "EMPTY=***", "UNSET"]
    assert body["HostConfig"]["LogConfig"]["Config"] == {"splunk-token": "***"}
    whole = asked(server, path, texts[Role.OPERATE]).json["body"]
    assert whole == {key: value for key, value in BODY.items() if key not in ("name", "tenure")}


def test_who_sees_less_has_a_tag_of_its_own(
    server: Server, texts: dict[Role, str], submitted: dict[str, str]
) -> None:
    """So that a cache between them never gives the one answer for the other."""
    path = f"/v1/jobs/{submitted['jobs']}"
    tags = {
        role: asked(server, path, texts[role]).headers["ETag"] for role in (Role.READ, Role.SUBMIT)
    }
    assert tags[Role.READ] != tags[Role.SUBMIT]
    change = {"Authorization": f"Bearer {texts[Role.SUBMIT]}", "If-Match": tags[Role.READ]}
    assert server.raw("DELETE", path, headers=change, is_tcp=True).status == 200


def test_the_record_itself_is_whole(server: Server, submitted: dict[str, str]) -> None:
    records = json.dumps(server.on_loop(server.backend.records), default=str)
    assert records.count(SECRET) >= 6
