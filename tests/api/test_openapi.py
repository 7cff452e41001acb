"""The document, the routes and the answers say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from tenure.api.endpoint import Endpoint
from tenure.api.links import LINKS
from tenure.api.openapi import document
from tenure.api.routes import ENDPOINTS
from tenure.api.server.problems import ProblemView
from tenure.daemon.answers.uploads import UploadParams, Uploads
from tests.api.server import BATCH, CONTAINER, JOB, SERVICE, Server, dataset_of


def test_every_endpoint_is_described(server: Server) -> None:
    api = server.get("/openapi.json").json
    assert api["openapi"] == "3.1.0"
    described = {(m.upper(), p) for p, ops in api["paths"].items() for m in ops}
    assert described == {(e.method, e.path) for e in ENDPOINTS}
    names = [op["operationId"] for ops in api["paths"].values() for op in ops.values()]
    assert len(names) == len(set(names))
    assert all(op["summary"].endswith(".") for ops in api["paths"].values() for op in ops.values())


def test_every_reference_is_there() -> None:
    api = document(ENDPOINTS)
    text = json.dumps(api)
    for part in text.split('"$ref": "')[1:]:
        ref = part.split('"')[0]
        assert ref.startswith("#/components/schemas/")
        assert ref.rsplit("/", 1)[1] in api["components"]["schemas"]


@pytest.mark.parametrize("endpoint", [e for e in ENDPOINTS if e.body], ids=lambda e: e.name)
def test_examples_are_valid(endpoint: Endpoint) -> None:
    model = endpoint.body
    assert model is not None
    for example in model.model_json_schema().get("examples", []):
        assert model.model_validate_json(json.dumps(example))
    if endpoint.needs_body:
        assert model.model_json_schema().get("examples")


def _fitting(shape: Any, answer: Any) -> None:
    """An answer has exactly the members that its shape declares (pydantic drops others)."""
    assert TypeAdapter(shape).validate_python(answer) == answer


def test_answers_have_their_shapes(server: Server) -> None:
    job = server.post("/v1/jobs", JOB).json["id"]
    server.post("/v1/containers", CONTAINER)
    server.post("/v1/services", {**SERVICE, "name": "n1"})
    run = server.post("/v1/cycles/promote/run", {}).json["id"]
    batch = server.post("/v1/batches", BATCH).json["id"]
    dataset = server.post("/v1/datasets", dataset_of(server)).json["id"]
    words = ("", "/tasks", "/explain", "/tasks/{index}/explain")
    parts = {f"/v1/batches/{{id}}{word}": batch for word in words}
    parts |= {f"/v1/datasets/{{id}}{part}": dataset for part in ("", "/files", "/blocks")}
    server.backend._uploads = Uploads(UploadParams(server.folder / "u"), server.backend.now_us)
    upload = server.post("/v1/uploads", {"name": "sent", "files": [{"size": 1}]}).json["id"]
    parts |= {"/v1/uploads/{id}": upload}
    parts |= {"/v1/jobs/{id}": job, "/v1/containers/{id}": "web-1", "/v1/runs/{id}": run}
    checked = 0
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or endpoint.answer is None:
            continue
        path = endpoint.path.replace("{name}", "n1").replace("{index}", "0")
        path = path.replace("{id}", parts.get(endpoint.path, job))
        answer = server.get(path)
        assert answer.status == 200, (path, answer.body)
        _fitting(endpoint.answer, answer.json)
        checked += 1
    assert checked > 12


def test_problems_have_their_shape(server: Server) -> None:
    for answer in (
        server.get("/nowhere"),
        server.post("/v1/jobs", b"{"),
        server.raw("GET", "/v1/jobs", is_tcp=True),
    ):
        _fitting(ProblemView, answer.json)


def test_refusals_are_declared(server: Server) -> None:
    """A sample of real refusals, each with a status that the document names."""
    api = server.get("/openapi.json").json
    server.post("/v1/jobs", JOB)
    for method, path, real, body in (
        ("post", "/v1/jobs", "/v1/jobs", JOB),
        ("post", "/v1/jobs", "/v1/jobs", {}),
        ("get", "/v1/jobs/{id}", "/v1/jobs/nope", None),
        ("get", "/v1/jobs", "/v1/jobs?limit=0", None),
        ("post", "/v1/nodes/{name}/power", "/v1/nodes/n1/power", {"to": "off"}),
        ("post", "/v1/cycles/{name}/claim", "/v1/cycles/promote/claim", {}),
    ):
        status = server.send(method.upper(), real, body).status
        assert status >= 400
        assert str(status) in api["paths"][path][method]["responses"]


def test_links_lead_to_operations_that_take_their_parameter() -> None:
    by_name = {endpoint.name: endpoint for endpoint in ENDPOINTS}
    for source, (parameter, _, targets) in LINKS.items():
        assert source in by_name
        for target in targets:
            assert f"{{{parameter}}}" in by_name[target].path
