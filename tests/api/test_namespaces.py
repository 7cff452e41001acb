"""What is submitted is of its submitter's namespace: others cannot change it (``test_reads``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tenure.core.state.quotas import upload_objection
from tenure.daemon.answers.uploads import UploadParams, Uploads
from tenure.model.accesspolicy import AccessPolicy, Permits
from tenure.model.quota import Quota
from tenure.model.roles import NEEDS, SUBMIT
from tests.api.fleet import CoreBackend
from tests.api.server import BATCH, CONTAINER, JOB, Answer, Server, dataset_of

#: Routes that change one thing that somebody submitted.
CHANGES = [
    route
    for route, need in NEEDS.items()
    if need == SUBMIT and "{id}" in route and "/uploads/" not in route
]
KINDS = ("jobs", "containers", "batches", "datasets")


@pytest.fixture
def texts(server: Server) -> dict[str, str]:
    """Tokens of submitters: of two namespaces, and of none; of an operator and a reader."""
    wanted = [
        ("ann", "submit", "team-a"),
        ("bob", "submit", "team-b"),
        ("dora", "submit", "default"),
        ("olga", "operate", "default"),
        ("rita", "read", "team-a"),
    ]
    return {
        name: server.post("/v1/tokens", {"name": name, "role": role, "namespace": namespace}).json[
            "token"
        ]
        for name, role, namespace in wanted
    }


def ask(
    server: Server,
    route: str,
    token: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    method, path = route.split(" ")
    shown = {"Authorization": f"Bearer {token}", **(headers or {})}
    data = None
    if method == "POST":
        shown["Content-Type"] = "application/json"
        data = json.dumps({} if body is None else body).encode()
    return server.raw(method, path, data, headers=shown, is_tcp=True)


def submitted(server: Server, token: str) -> dict[str, Any]:
    """Submit one of each kind, and return them as they were answered."""
    bodies = {
        "jobs": JOB,
        "containers": CONTAINER,
        "batches": BATCH,
        "datasets": dataset_of(server),
    }
    made = {}
    for kind, body in bodies.items():
        answer = ask(server, f"POST /v1/{kind}", token, body)
        assert answer.status == 201, answer.body
        made[kind] = answer.json
    return made


def test_what_is_submitted_is_of_its_submitters_namespace(
    server: Server, texts: dict[str, str]
) -> None:
    for kind, made in submitted(server, texts["ann"]).items():
        assert (made["namespace"], made["submitter"]) == ("team-a", "ann"), kind
        found = server.get(f"/v1/{kind}?namespace=team-a").json["items"]
        assert made["id"] in [one["id"] for one in found]
        assert server.get(f"/v1/{kind}?namespace=team-b").json["items"] == []
    own = server.post("/v1/jobs", JOB | {"name": "own"}).json
    assert own["namespace"] == "default"


@pytest.mark.parametrize("route", CHANGES)
def test_others_change_nothing_of_it(server: Server, texts: dict[str, str], route: str) -> None:
    kind = route.split("/")[2]
    made = submitted(server, texts["ann"])[kind]
    before = server.get(f"/v1/{kind}/{made['id']}").json
    here = route.replace("{id}", made["id"])
    refused = ask(server, here, texts["dora"])
    assert (refused.status, refused.json["code"]) == (403, "not_yours"), refused.body
    assert (refused.json["namespace"], refused.json["namespace_held"]) == ("team-a", "default")
    assert ask(server, here, texts["bob"]).status == 404
    assert server.get(f"/v1/{kind}/{made['id']}").json == before
    for name in ("ann", "olga"):
        assert ask(server, here, texts[name]).json.get("code") != "not_yours"


def test_there_are_changes_of_every_kind() -> None:
    assert {route.split("/")[2] for route in CHANGES} == set(KINDS)


def test_operators_submit_for_others_and_submitters_for_themselves(
    server: Server, texts: dict[str, str]
) -> None:
    for_b = {"Tenure-Namespace": "team-b"}
    made = ask(server, "POST /v1/jobs", texts["olga"], JOB, for_b)
    assert (made.json["namespace"], made.json["submitter"]) == ("team-b", "olga")
    own = ask(server, "POST /v1/jobs", texts["bob"], JOB | {"name": "own"}, for_b)
    assert (own.status, own.json["namespace"]) == (201, "team-b")
    refused = ask(server, "POST /v1/jobs", texts["ann"], JOB | {"name": "other"}, for_b)
    assert (refused.status, refused.json["code"]) == (403, "not_yours")
    for name in ("", "Team", "a b", "x" * 64):
        wrong = ask(server, "POST /v1/jobs", texts["olga"], JOB, {"Tenure-Namespace": name})
        assert (wrong.status, wrong.fields) == (422, ["Tenure-Namespace"])
    assert len(server.get("/v1/jobs").json["items"]) == 2


def test_a_dataset_of_others_is_not_put_again(server: Server, texts: dict[str, str]) -> None:
    body = dataset_of(server)
    assert ask(server, "POST /v1/datasets", texts["ann"], body).status == 201
    taken = ask(server, "POST /v1/datasets", texts["bob"], body)
    assert (taken.status, taken.json["code"], taken.fields) == (409, "name_taken", ["name"])
    assert b"team-a" not in taken.body
    assert ask(server, "POST /v1/datasets", texts["ann"], body).status == 201


def test_a_change_names_the_namespace_that_it_means(server: Server, texts: dict[str, str]) -> None:
    job = ask(server, "POST /v1/jobs", texts["ann"], JOB).json
    route = f"POST /v1/jobs/{job['id']}/cancel"
    wrong = ask(server, route, texts["olga"], headers={"Tenure-Namespace": "team-b"})
    assert (wrong.status, wrong.json["namespace"]) == (404, "team-a")
    right = ask(server, route, texts["olga"], headers={"Tenure-Namespace": "team-a"})
    assert right.json["state"] == "cancelled"


def test_a_key_means_one_submission_of_its_namespace(server: Server, texts: dict[str, str]) -> None:
    key = {"Idempotency-Key": "nightly"}
    hers = ask(server, "POST /v1/jobs", texts["ann"], JOB, key)
    his = ask(server, "POST /v1/jobs", texts["bob"], JOB | {"name": "other"}, key)
    assert (hers.status, his.status) == (201, 201)
    again = ask(server, "POST /v1/jobs", texts["ann"], JOB, key)
    assert again.json["id"] == hers.json["id"]


def test_an_upload_is_of_its_namespace_too(server: Server, texts: dict[str, str]) -> None:
    body = {"name": "data", "files": [{"name": "a", "size": 3}]}
    params = UploadParams(server.folder / "uploads")
    server.backend._uploads = Uploads(params, server.backend.now_us)
    made = ask(server, "POST /v1/uploads", texts["ann"], body)
    assert made.status == 201, made.body
    here = f"/v1/uploads/{made.json['id']}"
    assert ask(server, "GET /v1/uploads", texts["bob"]).json["items"] == []
    for route in (f"GET {here}", f"DELETE {here}"):
        assert ask(server, route, texts["bob"]).status == 404
    assert ask(server, f"DELETE {here}", texts["ann"]).status == 200


def test_secrets_are_shown_within_their_namespace(server: Server, texts: dict[str, str]) -> None:
    job = ask(server, "POST /v1/jobs", texts["ann"], JOB | {"env": {"KEY": "hunter2"}}).json
    seen = {
        name: ask(server, f"GET /v1/jobs/{job['id']}", token).json["env"]
        for name, token in texts.items()
        if name != "bob"
    }
    open_, hidden = ["KEY=hunter2"], ["KEY=***"]
    assert seen == {"ann": open_, "dora": hidden, "olga": open_, "rita": hidden}


@pytest.fixture
def bounded(folder: Path) -> Iterator[Server]:
    """A server on which team-a may hold one job, and mount a folder."""
    make = partial(
        CoreBackend, quotas={"team-a": Quota(jobs=1, memory_bytes=1 << 30, upload_bytes=12_000)}
    )
    within = {"team-a": AccessPolicy(binds=("/srv/a",))}
    running = Server(folder, make, permits=Permits(within=within))
    try:
        yield running
    finally:
        running.close()


def token_of(server: Server, namespace: str) -> str:
    body = {"name": f"of-{namespace}", "role": "submit", "namespace": namespace}
    made: str = server.post("/v1/tokens", body).json["token"]
    return made


def test_what_is_more_than_the_quota_is_refused_and_told(bounded: Server) -> None:
    ann, bob = token_of(bounded, "team-a"), token_of(bounded, "team-b")
    assert ask(bounded, "POST /v1/jobs", ann, JOB).status == 201
    other = JOB | {"name": "other"}
    for route in ("POST /v1/jobs", "POST /v1/jobs/plan"):
        said = ask(bounded, route, ann, other).json
        assert said["code"] == "quota_exceeded", said
        assert (said["quota"], said["limit"], said["held"], said["wanted"]) == ("jobs", 1, 1, 1)
    assert ask(bounded, "POST /v1/jobs", bob, other).status == 201
    rows = {row["name"]: row for row in bounded.get("/v1/namespaces").json["items"]}
    assert set(rows) == {"team-a", "team-b"}
    assert (rows["team-a"]["held"]["jobs"], rows["team-a"]["quota"]["jobs"]) == (1, 1)
    assert rows["team-a"]["held"]["cpus"] == JOB["executors"] * JOB["cpus"]
    assert rows["team-b"]["quota"]["jobs"] is None


def test_open_uploads_count_in_their_namespace(bounded: Server) -> None:
    ann, bob = token_of(bounded, "team-a"), token_of(bounded, "team-b")
    backend = bounded.backend
    params = UploadParams(bounded.folder / "uploads")
    backend._uploads = Uploads(
        params, backend.now_us, lambda *asked: backend.state.read(upload_objection, *asked)
    )

    def begin(token: str, name: str, size: int) -> Answer:
        files = [{"name": "a", "size": size}]
        return ask(bounded, "POST /v1/uploads", token, {"name": name, "files": files})

    made = begin(ann, "data", 10)
    assert begin(ann, "data", 10).json["id"] == made.json["id"]
    held = bounded.get("/v1/namespaces").json["items"][0]["held"]["upload_bytes"]
    assert held > 10, "files take room beside their bytes"
    refused = begin(ann, "more", 12_000 - held)
    assert (refused.status, refused.json["code"]) == (403, "quota_exceeded")
    assert (refused.json["quota"], refused.json["held"]) == ("upload_bytes", held)
    assert "namespaces.team-a.uploads raised" in refused.json["detail"]
    assert begin(bob, "more", 12_000).status == 201
    assert ask(bounded, f"DELETE /v1/uploads/{made.json['id']}", ann).status == 200
    assert begin(ann, "other", 10).status == 201


def test_a_namespace_has_a_policy_of_its_own(bounded: Server) -> None:
    ann, bob = token_of(bounded, "team-a"), token_of(bounded, "team-b")
    binds = {"HostConfig": {**CONTAINER["HostConfig"], "Binds": ["/srv/a:/a"]}}
    assert ask(bounded, "POST /v1/containers", ann, CONTAINER | binds).status == 201
    refused = ask(bounded, "POST /v1/containers", bob, CONTAINER | binds | {"name": "web-2"})
    assert refused.json["policy_keys"] == ["namespaces.team-b.policy.binds"]
    unstated = ask(bounded, "POST /v1/containers", ann, {"name": "web-4", "Image": "web:1"})
    assert (unstated.json["code"], unstated.fields) == ("unstated", ["HostConfig.Memory"])
    wider = {"HostConfig": {"Binds": ["/etc:/a"]}}
    refused = ask(bounded, "POST /v1/containers", ann, CONTAINER | wider | {"name": "web-3"})
    assert refused.json["policy_keys"] == ["namespaces.team-a.policy.binds"]
