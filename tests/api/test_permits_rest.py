"""What may be submitted by whom, asked over REST: containers, jobs and batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tenure.daemon.access.access import Access
from tenure.model.accesspolicy import AccessPolicy, Permits
from tenure.model.roles import Role
from tests.api.server import BATCH, CONTAINER, JOB, TOKEN, Answer, Server, tokens_of

Json = dict[str, Any]


def test_volumes_ports_and_digests_over_rest(server: Server) -> None:
    body = {"name": "ann", "role": "submit", "namespace": "team-a"}
    token = server.post("/v1/tokens", body).json["token"]
    usual = server.post("/v1/tokens", {"name": "usual", "role": "submit"}).json["token"]
    ports = {"PortBindings": {"80/tcp": [{"HostPort": "443"}]}}
    container = {**CONTAINER, "HostConfig": {"Binds": ["data:/x"], **ports}}
    refused = submitted(server, "/v1/containers", container, token)
    assert (refused.status, refused.json["code"]) == (403, "not_permitted")
    assert refused.fields == ["HostConfig.Binds.0", "HostConfig.PortBindings.80/tcp"]
    assert [fault["message"] for fault in refused.json["errors"]] == [
        "the volume data is not permitted; "
        "namespaces.team-a.policy.volumes with 'data' would allow it",
        "the port 443 is not permitted; namespaces.team-a.policy.ports with '443' would allow it",
    ]
    assert submitted(server, "/v1/containers", container, usual).status == 201
    for volume_, status in (("data", 403), ("team-a-data", 201)):
        job = {**JOB, "name": f"of-{volume_}", "volumes": [f"{volume_}:/data"]}
        answer = submitted(server, "/v1/jobs", job, token)
        assert answer.status == status, answer.body
    server.options.permits.by_role = {Role.SUBMIT: AccessPolicy(images_by_digest=True)}
    refused = submitted(server, "/v1/jobs", {**JOB, "name": "x"}, token)
    assert (refused.status, refused.fields) == (403, ["image"])
    assert "app:1@sha256:..." in refused.json["errors"][0]["message"]


@pytest.fixture
def texts() -> dict[Role, str]:
    return {}


@pytest.fixture
def ruled(folder: Any, texts: dict[Role, str]) -> Iterator[Server]:
    """A server on which operators may mount /srv/data and use priority 5 at most."""
    tokens = tokens_of(TOKEN)
    texts |= {role: tokens.build_in_new(f"of-{role}", role) for role in Role}
    permits = {
        Role.SUBMIT: AccessPolicy(images=("app:*",), generations=("nursery",)),
        Role.OPERATE: AccessPolicy(binds=("/srv/data",), max_priority=5, host_namespaces=("net",)),
    }
    server = Server(folder, access=Access(tokens), permits=Permits(permits))
    try:
        yield server
    finally:
        server.close()


def submitted(server: Server, path: str, body: Json, token: str) -> Answer:
    return server.send("POST", path, body, Authorization=f"Bearer {token}")


def test_containers_over_rest(ruled: Server, texts: dict[Role, str]) -> None:
    body = {**CONTAINER, "Image": "app:1", "HostConfig": {"Privileged": True, "PidMode": "host"}}
    before = ruled.on_loop(ruled.backend.sizes)
    refused = submitted(ruled, "/v1/containers", body, texts[Role.SUBMIT])
    assert (refused.status, refused.json["code"]) == (403, "not_permitted")
    assert refused.fields == ["HostConfig.Privileged", "HostConfig.PidMode"]
    assert refused.json["policy_keys"] == [
        "policy.submit.privileged",
        "policy.submit.host_namespaces",
    ]
    assert refused.json["detail"] == (
        "HostConfig.Privileged: a privileged container is not permitted; "
        "policy.submit.privileged would allow it"
    )
    assert ruled.on_loop(ruled.backend.sizes) == before
    assert submitted(ruled, "/v1/containers", body, TOKEN).status == 201  # an admin may
    plain = {**CONTAINER, "name": "web-2", "Image": "app:1"}
    assert submitted(ruled, "/v1/containers", plain, texts[Role.SUBMIT]).status == 201


def test_images_and_generations_over_rest(ruled: Server, texts: dict[Role, str]) -> None:
    body = {**CONTAINER, "tenure": {"generation": "tenured"}}
    refused = submitted(ruled, "/v1/containers", body, texts[Role.SUBMIT])
    assert refused.fields == ["Image", "tenure.generation"]
    assert (
        "policy.submit.images with 'web:1' would allow it" in refused.json["errors"][0]["message"]
    )


def test_jobs_over_rest(ruled: Server, texts: dict[Role, str]) -> None:
    mounting = {**JOB, "volumes": ["/srv/data:/data", "scratch:/tmp"]}
    for path in ("/v1/jobs", "/v1/jobs/plan"):
        refused = submitted(ruled, path, mounting, texts[Role.SUBMIT])
        assert (refused.status, refused.fields) == (403, ["volumes.0"])
        urgent = submitted(ruled, path, {**JOB, "priority": 6}, texts[Role.OPERATE])
        assert urgent.fields == ["priority"]
    assert submitted(ruled, "/v1/jobs", mounting, texts[Role.OPERATE]).status == 201
    for volume_ in ("/srv/data/x:/d", "/srv/data/..:/d", "/srv/../etc:/d", "/:/d"):
        refused = submitted(ruled, "/v1/jobs", {**JOB, "volumes": [volume_]}, texts[Role.OPERATE])
        assert (refused.status, refused.fields) == (403, ["volumes.0"]), volume_
    other = submitted(ruled, "/v1/jobs", {**JOB, "image": "web:1"}, texts[Role.SUBMIT])
    assert other.fields == ["image"]


def test_spark_needs_the_node_s_network(ruled: Server, texts: dict[Role, str]) -> None:
    spark: Json = {"kind": "spark", "memory": "1GiB", "spark": {"application": "/app.py"}}
    body = {key: value for key, value in {**JOB, **spark}.items() if key != "command"}
    refused = submitted(ruled, "/v1/jobs", body, texts[Role.SUBMIT])
    assert (refused.status, refused.fields) == (403, ["kind"])
    assert refused.json["policy_keys"] == ["policy.submit.host_namespaces"]
    assert submitted(ruled, "/v1/jobs", body, texts[Role.OPERATE]).status == 201


def test_batches_over_rest(ruled: Server, texts: dict[Role, str]) -> None:
    stage = {**BATCH["stages"][0], "image": "web:1"}
    for path in ("/v1/batches", "/v1/batches/plan"):
        body = {**BATCH, "image": "web:1", "stages": [stage]}
        refused = submitted(ruled, path, body, texts[Role.SUBMIT])
        assert (refused.status, refused.fields) == (403, ["image", "stages.0.image"])
    assert submitted(ruled, "/v1/batches", BATCH, texts[Role.SUBMIT]).status == 201


def test_a_batch_is_of_who_sends_it(ruled: Server, texts: dict[Role, str]) -> None:
    """Fair shares go by it: nobody takes another's, or a new one with each batch."""
    for number, role in enumerate((Role.SUBMIT, Role.OPERATE)):
        token = texts[role]
        own = submitted(ruled, "/v1/batches", {**BATCH, "name": f"b{number}"}, token)
        assert (own.status, own.json["submitter"]) == (201, f"of-{role}")
        same = {**BATCH, "name": f"c{number}", "submitter": f"of-{role}"}
        assert submitted(ruled, "/v1/batches", same, token).status == 201
        for path in ("/v1/batches", "/v1/batches/plan"):
            others = submitted(ruled, path, {**BATCH, "submitter": "ann"}, token)
            assert (others.status, others.fields) == (403, ["submitter"]), others.body
    for_ann = {**BATCH, "name": "d", "submitter": "ann"}
    by_admin = submitted(ruled, "/v1/batches", for_ann, texts[Role.ADMIN])
    assert by_admin.json["submitter"] == "ann"


def test_a_role_without_a_policy_has_the_strict_one(server: Server) -> None:
    made = server.post("/v1/tokens", {"name": "ci", "role": "submit"}).json["token"]
    body = {**CONTAINER, "HostConfig": {"Binds": ["/var/run/docker.sock:/s"]}}
    refused = submitted(server, "/v1/containers", body, made)
    assert (refused.status, refused.json["code"]) == (403, "not_permitted")
