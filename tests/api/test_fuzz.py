"""Whatever is sent, the answer is no 5xx, and a refusal leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenure.api.endpoint import Endpoint
from tenure.api.routes import ENDPOINTS
from tests.api.server import CONTAINER, JOB, Server

WRITES = [e for e in ENDPOINTS if e.method in ("POST", "PATCH", "DELETE")]
QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["n1", "app:1", "256MiB", "on", "yes", "2040-01-01T00:00:00Z", "../x", "\0"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tn-") as folder:
        server = Server(Path(folder))
        try:
            yield server
        finally:
            server.close()


def _path(endpoint: Endpoint) -> str:
    return endpoint.path.replace("{name}", "n1" if "nodes" in endpoint.path else "promote").replace(
        "{id}", "nothing"
    )


def _check(server: Server, endpoint: Endpoint, raw: bytes) -> None:
    before = server.on_loop(server.backend.sizes)
    answer = server.send(endpoint.method, _path(endpoint), raw)
    assert answer.status < 500, (raw, answer.body)
    if answer.status >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json["code"]
        assert server.on_loop(server.backend.sizes) == before


@pytest.mark.parametrize("endpoint", WRITES, ids=lambda e: e.name)
@given(raw=st.binary(max_size=200))
@QUICK
def test_raw_bytes(shared: Server, endpoint: Endpoint, raw: bytes) -> None:
    _check(shared, endpoint, raw)


@pytest.mark.parametrize("endpoint", WRITES, ids=lambda e: e.name)
@given(document=JSON)
@QUICK
def test_any_json(shared: Server, endpoint: Endpoint, document: Any) -> None:
    _check(shared, endpoint, json.dumps(document).encode())


def _fields(endpoint: Endpoint) -> list[str]:
    model = endpoint.body
    return list(model.model_json_schema()["properties"]) if model is not None else []


@pytest.mark.parametrize("endpoint", [e for e in WRITES if e.body], ids=lambda e: e.name)
@given(data=st.data())
@QUICK
def test_known_fields_with_any_values(
    shared: Server, endpoint: Endpoint, data: st.DataObject
) -> None:
    document = data.draw(st.dictionaries(st.sampled_from(_fields(endpoint)), JSON, max_size=6))
    _check(shared, endpoint, json.dumps(document).encode())


@pytest.mark.parametrize(("path", "valid"), [("/v1/jobs", JOB), ("/v1/containers", CONTAINER)])
@given(data=st.data())
@settings(QUICK, max_examples=150)
def test_a_valid_body_with_one_change(
    shared: Server, path: str, valid: dict[str, Any], data: st.DataObject
) -> None:
    endpoint = next(e for e in WRITES if e.path == path)
    name = data.draw(st.sampled_from([*_fields(endpoint), "extra"]))
    _check(shared, endpoint, json.dumps({**valid, name: data.draw(JSON)}).encode())


@given(data=st.data())
@QUICK
def test_any_query(shared: Server, data: st.DataObject) -> None:
    from urllib.parse import urlencode

    endpoint = data.draw(st.sampled_from([e for e in ENDPOINTS if e.method == "GET"]))
    names = [*endpoint.query.model_fields, "other"]
    names = [name for name in names if name != "follow"]
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    values = st.integers().map(str) | text | st.sampled_from(["true", "", "1e9", "a,b", "W10"])
    query = data.draw(st.dictionaries(st.sampled_from(names), values, max_size=3))
    answer = shared.get(f"{_path(endpoint)}?{urlencode(query)}")
    assert answer.status < 500, (endpoint.path, query, answer.body)
