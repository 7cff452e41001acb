"""Bodies of very many values: refused by their bytes, before anything is made of them."""

from __future__ import annotations

import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.api.requests.body import MAX_MEMBERS
from tenure.api.requests.bulk import (
    CLIENT_BYTES,
    MAX_MANY_VALUES,
    MAX_VALUES,
    Bulk,
    has_more_values,
)
from tenure.api.requests.call import checked_body
from tenure.api.routes import ENDPOINTS
from tenure.api.schemas.jobs import JobRequest
from tenure.api.server.problems import HttpProblem
from tenure.model.units import MIB
from tests.api.server import JOB, Server

TYPED = {"Content-Type": "application/json"}


def values(document: Any) -> int:
    """Return how many values a document has, itself among them."""
    if isinstance(document, dict):
        return 1 + sum(map(values, document.values()))
    return 1 + sum(map(values, document)) if isinstance(document, list) else 1


DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\:\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,["\\'), inner),
)


@given(DOCUMENTS, st.booleans())
def test_values_are_counted_exactly_whatever_texts_hold(document: Any, is_spaced: bool) -> None:
    raw = json.dumps(document, indent=1 if is_spaced else None).encode()
    # an empty list or object counts as one more: what might be in it
    count = values(document) + raw.count(b"[]") + raw.count(b"{}")
    assert not has_more_values(raw, count)
    assert has_more_values(raw, count - 1)


ATTACKS: dict[str, tuple[str, bytes]] = {
    "lists for moves": ("/v1/plans", b'{"moves":[' + b"[]," * 5_592_000 + b"[]]}"),
    "objects for moves": ("/v1/plans", b'{"moves":[' + b"{}," * 5_592_000 + b"{}]}"),
    "deeper": ("/v1/plans", b'{"moves":[' + b"[[[[]]]]," * 1_860_000 + b"[]]}"),
    "numbers": ("/v1/forecasts", b'{"forecasts":[' + b"1," * 8_000_000 + b"1]}"),
    "numbers for env": ("/v1/jobs", b'{"env":[' + b"1," * 500_000 + b"1]}"),
    "texts for env": ("/v1/jobs", b'{"env":[' + b'"",' * 340_000 + b'""]}'),
    "unknown fields": ("/v1/jobs", b"{" + b'"%d":1,' % 10**7 * 90_000 + b'"a":1}'),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_body_of_very_many_values_is_refused_by_its_bytes(server: Server, name: str) -> None:
    path, body = ATTACKS[name]
    tracemalloc.start()
    begun = time.monotonic()
    answer = server.raw("POST", path, body, headers=TYPED)
    took = time.monotonic() - begun
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (answer.status, answer.json["code"]) == (413, "too_large"), answer.body[:500]
    # the body itself, as it came and in one piece
    assert peak < 4 * len(body) + 8 * MIB
    assert took < 10  # half a minute and gigabytes before


def test_as_many_wrong_values_as_there_may_be_cost_little(server: Server) -> None:
    """One that is wrong in each place: the most errors that anybody can ask for."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("/v1/jobs", {**JOB, "env": [1] * (MAX_VALUES - 100)}),
        ("/v1/jobs", {**JOB, "command": [[]] * (MAX_VALUES // 3)}),
        ("/v1/jobs", {**JOB, "labels": dict.fromkeys(map(str, range(MAX_MEMBERS)), 1)}),
        ("/v1/jobs", dict.fromkeys(map(str, range(MAX_MEMBERS)), 1)),
        ("/v1/containers", {"HostConfig": {"Binds": [1] * (MAX_VALUES - 100)}}),
        ("/v1/plans", {"moves": [[]] * (MAX_MANY_VALUES // 2 - 100)}),
        ("/v1/forecasts", {"forecasts": [{"cpu_m": ["x"] * 1000}] * 300}),
    ]
    for path, body in wrong:
        begun = time.process_time()
        answer = server.post(path, body)
        assert answer.status == 422, answer.body[:300]
        assert 1 <= len(answer.json["errors"]) <= 50
        assert time.process_time() - begun < 5


def test_a_list_that_is_too_long_is_not_checked_to_its_end() -> None:
    for field in ("env", "command", "volumes", "constraints"):
        raw = json.dumps({**JOB, field: [1] * 100_000}).encode()
        with pytest.raises(HttpProblem) as refused:
            checked_body(JobRequest, raw)
        assert [fault.path for fault in refused.value.fields] == [field]
        assert "at most" in refused.value.fields[0].message


def _open_lists(schema: Any, path: str) -> Iterator[str]:
    """Find lists and mappings of a pydantic schema that may be of any length."""
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "set", "dict") and "max_length" not in schema:
            yield path
        for key, inner in schema.items():
            if key not in ("serialization", "metadata"):
                yield from _open_lists(inner, f"{path}.{key}")
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _open_lists(inner, path)


def test_every_list_of_every_body_has_a_length_that_is_checked_first() -> None:
    """A length that is stated after a validator in Python is looked at after all elements."""
    for endpoint in ENDPOINTS:
        if endpoint.body is not None:
            endpoint.body.model_rebuild()
            found = list(_open_lists(endpoint.body.__pydantic_core_schema__, endpoint.path))
            assert not found, found


def test_an_object_may_have_so_many_members(server: Server) -> None:
    most = dict.fromkeys((f"k{i}" for i in range(MAX_MEMBERS + 1)), "v")
    answer = server.post("/v1/jobs", {**JOB, "labels": most})
    assert answer.status == 422
    assert "an object may have" in answer.json["detail"]


def test_one_client_s_large_bodies_are_bounded() -> None:
    bulk = Bulk()
    with bulk.room("a", "ann", CLIENT_BYTES - 1), bulk.room("b", "bob", CLIENT_BYTES):
        for client, caller in (("a", "eve"), ("c", "ann")):  # another token, another address
            with (
                pytest.raises(HttpProblem, match="of this client") as refused,
                bulk.room(client, caller, 2),
            ):
                pass
            assert (refused.value.http_status, refused.value.retryable) == (503, True)
        with (
            pytest.raises(HttpProblem, match="large bodies are being read"),
            bulk.room("c", "eve", 2),
        ):
            pass
        with bulk.room("a", "ann", 1):
            pass
    with bulk.room("a", "ann", CLIENT_BYTES):
        pass


def test_others_are_answered_while_large_bodies_are_checked(server: Server) -> None:
    """Bodies as large and as wrong as they may be, one after another, and a bystander."""
    body = json.dumps({"moves": [{}] * (MAX_MANY_VALUES // 2 - 100)}).encode()
    ended = threading.Event()

    def attack() -> None:
        while not ended.is_set():
            server.raw("POST", "/v1/plans", body, headers=TYPED)

    attacker = threading.Thread(target=attack)
    attacker.start()
    took = []
    try:
        for _ in range(50):
            begun = time.monotonic()
            assert server.get("/livez").status == 200
            took.append(time.monotonic() - begun)
    finally:
        ended.set()
        attacker.join(60)
    assert sorted(took)[len(took) // 2] < 1, took  # test and server share one interpreter
