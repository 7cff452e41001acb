"""Jobs over datasets over HTTP, on the real core."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.server import JOB, Server, dataset_of

OVER = {**JOB, "name": "scan", "executors": 2, "input": {"dataset": "data"}}


@pytest.fixture
def put(server: Server) -> str:
    """A dataset of three blocks."""
    answer = server.post("/v1/datasets", dataset_of(server))
    assert answer.status == 201, answer.body
    return str(answer.json["id"])


def test_executors_are_shown_with_what_they_read(server: Server, put: str) -> None:
    answer = server.post("/v1/jobs", OVER)
    assert answer.status == 201, answer.body
    job = server.get("/v1/jobs/scan").json
    assert job["input"] == {"dataset": put, "name": "data", "blocks": 3, "block_bytes": 4096}
    assert job["estimate"]["read_s"] > 0
    crew = job["executor_states"]
    assert sorted(n for e in crew for n in e["blocks"]) == [0, 1, 2]
    for executor in crew:
        assert [r["kind"] for r in executor["readings"]] == ["ssd"] * len(executor["blocks"])
        assert all(r["path"].startswith("/mnt/ssd/tenure-") for r in executor["readings"])
    metrics = server.get("/metrics").body.decode().splitlines()
    brought = sum(r["is_brought"] for e in crew for r in e["readings"])
    assert f'tenure_block_reads_total{{tier="ssd"}} {float(3 - brought)}' in metrics
    assert f'tenure_block_hit_ratio{{tier="ssd"}} {(3 - brought) / 3}' in metrics


def test_the_choice_is_explained_with_costs_and_alternatives(server: Server, put: str) -> None:
    server.post("/v1/jobs", OVER)
    told = server.get("/v1/jobs/scan/explain").json
    for executor in told["executors"]:
        assert executor["input"]["blocks"] in (1, 2)
        assert executor["input"]["cost"] > 0
        assert executor["input"]["waits_for"] == ""
    one = server.get("/v1/jobs/scan/executors/0/explain").json
    assert (one["executor"], one["waits_for"]) == (0, "")
    assert "data" in one["reason"]
    for block in one["blocks"]:
        assert block["file"] == f"/tenure/in/chunk-{block['number']:05d}"
        assert block["reading"]["cost"] > 0
        assert len(block["copies"]) >= 2
        costs = [choice["cost"] for choice in block["choices"]]
        assert costs == sorted(costs)
    assert one["scores"]["memory"] == 1.0
    plain = {**JOB, "name": "plain"}
    server.post("/v1/jobs", plain)
    assert "reads no dataset" in server.get("/v1/jobs/plain/executors/0/explain").json["reason"]
    assert server.get("/v1/jobs/plain/executors/9/explain").status == 404
    assert server.get("/v1/jobs/plain/executors/x/explain").status == 404


def test_a_dry_run_says_what_is_read(server: Server, put: str) -> None:
    would = server.post("/v1/jobs/plan", OVER).json
    assert would["is_accepted"]
    assert would["input"]["dataset"] == "data"
    assert (would["input"]["blocks"], would["input"]["blocks_each"]) == (3, 2)
    assert would["input"]["read_s"] > 0


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"input": {"dataset": "none"}}, "no_dataset", "input.dataset"),
        ({"input": {}}, "invalid_input", "input.dataset"),
        ({"input": {"dataset": "data", "file": "/x"}}, "invalid_input", "input.file"),
        ({"executors": 4}, "too_few_blocks", "executors"),
        ({"volumes": ["/x:/ok", "/x:/tenure/in"]}, "invalid_input", "volumes.1"),
        ({"volumes": ["/x:/tenure//in/./deep"]}, "invalid_input", "volumes.0"),
        ({"volumes": ["/x:/tenure"]}, "invalid_input", "volumes.0"),
        (
            {"kind": "spark", "command": [], "memory": "2GiB", "spark": {"application": "/a.py"}},
            "invalid_input",
            "input",
        ),
    ],
)
def test_bad_input_names_its_field(
    server: Server, put: str, change: dict[str, Any], code: str, field: str
) -> None:
    for path in ("/v1/jobs", "/v1/jobs/plan"):
        answer = server.post(path, {**OVER, **change})
        if path.endswith("plan") and answer.status == 200:
            assert answer.json["code"] == code
            assert answer.json["errors"][0]["field"] == field
            continue
        assert answer.status == 422, answer.body
        assert answer.json["code"] == code
        assert field in [fault["field"] for fault in answer.json["errors"]]


def test_a_volume_beside_the_input_is_no_fault(server: Server, put: str) -> None:
    assert server.post("/v1/jobs", {**OVER, "volumes": ["/x:/tenure/out"]}).status == 201


def test_a_key_gives_the_first_answer_whatever_became_of_the_dataset(
    server: Server, put: str
) -> None:
    first = server.post("/v1/jobs", OVER, Idempotency_Key="k")
    assert first.status == 201
    server.send("DELETE", "/v1/datasets/data")
    again = server.post("/v1/jobs", OVER, Idempotency_Key="k")
    assert again.json["id"] == first.json["id"]
