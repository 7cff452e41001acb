"""ETags, If-Match and If-None-Match."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.api.endpoint import Endpoint
from tenure.api.requests.versions import NEVER, expected, is_known, tag_of
from tenure.api.routes import ENDPOINTS
from tenure.api.server.problems import HttpProblem
from tests.api.server import BATCH, CONTAINER, JOB, SERVICE, Server, dataset_of

#: Changes of records that have versions; a run is claimed and ended by its state instead, and a
#: chunk of an upload goes where its offset says. Of what lies in tiers unknown there is no record.
UNVERSIONED = ("cycles", "runs", "uploads", "access")
UNRECORDED = ("/v1/nodes/{name}/tiers/{tier}/accept", "/v1/orphans/{id}")
NAMED = [e for e in ENDPOINTS if e.method != "GET" and "{" in e.path and e.path not in UNRECORDED]
CHANGES = [endpoint for endpoint in NAMED if endpoint.tag not in UNVERSIONED]
BODIES: dict[str, dict[str, object]] = {
    "PATCH": {"scheduling": "cordoned"},
    "power": {"to": "on"},
    "fence": {"confirm": "n1"},
}
BODIES |= {"scale": {"replicas": 1}, "move": {"node": "n2"}}


def path_of(server: Server, endpoint: Endpoint) -> str:
    if endpoint.tag == "nodes":
        return endpoint.path.replace("{name}", "n1")
    bodies = {"jobs": JOB, "batches": BATCH, "containers": CONTAINER, "services": SERVICE}
    body = bodies.get(endpoint.tag) or dataset_of(server)
    made = server.post(f"/v1/{endpoint.tag}", body)
    named = endpoint.path.replace("{name}", str(made.json.get("name")))
    return named.replace("{id}", str(made.json.get("id")))


@pytest.mark.parametrize("endpoint", CHANGES, ids=lambda e: f"{e.method} {e.path}")
def test_every_change_can_be_conditional(server: Server, endpoint: Endpoint) -> None:
    path = path_of(server, endpoint)
    before = server.on_loop(server.backend.records)
    verb = path.rsplit("/", 1)[1]
    body = BODIES.get(endpoint.method) or BODIES.get(verb) or ({} if endpoint.body else None)
    answer = server.send(endpoint.method, path, body, If_Match='"0"')
    assert (answer.status, answer.json["code"]) == (412, "version_mismatch"), answer.body
    assert answer.fields == ["If-Match"]
    assert answer.json["version"] >= 1
    assert server.on_loop(server.backend.records) == before
    assert endpoint.is_conditional


def test_a_change_with_the_tag_of_the_last_answer(server: Server) -> None:
    made = server.post("/v1/containers", CONTAINER)
    path = f"/v1/containers/{made.json['id']}"
    tag = server.get(path).headers["ETag"]
    assert server.post(f"{path}/stop", {}, If_Match=f'"1-00000000", {tag}').status == 200
    assert server.post(f"{path}/start", None, If_Match=tag).status == 412
    assert server.post(f"{path}/start", None, If_Match="*").status == 200
    fresh = server.get(path).headers["ETag"]
    weak = server.send("DELETE", path, If_Match=f"W/{fresh}")
    assert weak.status == 412  # the standard's strong comparison
    assert server.send("DELETE", path, If_Match=fresh.split("-")[0].strip('"')).status == 200


def test_a_reader_is_told_that_nothing_changed(server: Server) -> None:
    tag = server.get("/v1/nodes/n1").headers["ETag"]
    same = server.send("GET", "/v1/nodes/n1", If_None_Match=f'"x", W/{tag}')
    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)
    # the node's own record is as before, but not what is on it
    server.post("/v1/containers", CONTAINER)
    other = server.send("GET", "/v1/nodes/n1", If_None_Match=tag)
    assert other.status == 200
    assert other.headers["ETag"] != tag
    assert server.send("GET", "/v1/nodes/n1", If_None_Match="*").status == 304


@pytest.mark.parametrize(
    "text", ['"', "abc", '"a" "b"', ",", '"a",b', "1-2", ",".join(['"1"'] * 21)]
)
def test_what_is_no_list_of_tags(server: Server, text: str) -> None:
    for header, method in (("If-Match", "DELETE"), ("If-None-Match", "GET")):
        made = server.post("/v1/jobs", {**JOB, "name": f"j-{method}"}).json["id"]
        answer = server.send(method, f"/v1/jobs/{made}", **{header.replace("-", "_"): text})
        assert (answer.status, answer.fields) == (422, [header])


def test_tags() -> None:
    tag = tag_of(7, b"x")
    assert expected(tag, 9) == expected("7", 9) == expected('"7"', 9) == 7
    assert expected(None, 9) is None
    assert expected("*", 9) is None
    assert expected(f'"3-00000000", {tag}', 7) == 7
    assert expected('"none-of-ours"', 7) == NEVER
    assert is_known(tag, tag)
    assert not is_known('"7-00000000"', tag)
    with pytest.raises(HttpProblem):
        expected("seven", 7)


def test_of_many_at_once_one_wins(server: Server) -> None:
    """Forty who all cordon the node that they saw uncordoned."""
    tag = server.get("/v1/nodes/n2").headers["ETag"]

    def one(_: int) -> int:
        body = {"scheduling": "cordoned"}
        return server.send("PATCH", "/v1/nodes/n2", body, If_Match=tag).status

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(one, range(40)))
    assert sorted(set(found)) == [200, 412]
    assert found.count(200) == 1
