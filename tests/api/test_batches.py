"""Batches over HTTP, on the real core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.fleet import CoreBackend
from tests.api.server import BATCH, Server, dataset_of

STAGE = BATCH["stages"][0]


@pytest.fixture
def ending(folder: Path) -> Iterator[Server]:
    """A server whose containers end well at once."""
    running = Server(folder, lambda: CoreBackend(exit_code=0))
    running.backend.outputs = folder
    try:
        yield running
    finally:
        running.close()


def stages(*changes: dict[str, Any]) -> dict[str, Any]:
    return BATCH | {"stages": [STAGE | change for change in changes]}


def test_a_batch_is_answered_with_its_end_and_shown(server: Server) -> None:
    answer = server.post("/v1/batches", BATCH)
    assert answer.status == 201, answer.body
    batch = answer.json
    assert answer.headers["Location"] == f"/v1/batches/{batch['id']}"
    assert (batch["state"], batch["tasks"], batch["active"]) == ("running", 3, 3)
    assert batch["promised_end_at"] > batch["submitted_at"]
    assert batch["stages"][0]["states"] == {"running": 3}
    tasks = server.get(f"/v1/batches/{batch['id']}/tasks").json["items"]
    assert [task["index"] for task in tasks] == [0, 1, 2]
    assert len({task["node"] for task in tasks}) == 3  # those that are on
    assert server.get("/v1/batches?state=running").json["items"][0]["id"] == batch["id"]
    assert server.get("/v1/batches?state=failed").json["items"] == []
    shown = server.get(f"/v1/nodes/{tasks[0]['node']}").json
    assert (shown["tasks"], shown["objection"]) == ({"running": 1}, "")
    rows = server.get("/metrics").body.decode().splitlines()
    assert 'tenure_batch_tasks{state="running"} 3.0' in rows
    assert 'tenure_batches{state="running"} 1.0' in rows
    cancelled = server.post(f"/v1/batches/{batch['id']}/cancel", {})
    assert cancelled.json["state"] == "cancelled"


def test_a_key_means_one_batch(server: Server) -> None:
    first = server.post("/v1/batches", BATCH, Idempotency_Key="k")
    again = server.post("/v1/batches", BATCH, Idempotency_Key="k")
    assert first.json["id"] == again.json["id"]
    other = server.post("/v1/batches", BATCH | {"name": "x"}, Idempotency_Key="k")
    assert other.status == 409


def test_a_key_is_answered_though_the_input_is_gone(ending: Server) -> None:
    source = Path(ending.backend.outputs) / "input"
    source.write_bytes(b"a\n")
    body = stages({"tasks": None, "input": {"file": str(source), "split": {"lines": 1}}})
    first = ending.post("/v1/batches", body, Idempotency_Key="k")
    source.unlink()
    again = ending.post("/v1/batches", body, Idempotency_Key="k")
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    assert ending.post("/v1/batches", body).json["code"] == "no_input"


def test_an_input_in_too_many_chunks_names_its_split(ending: Server) -> None:
    source = Path(ending.backend.outputs) / "input"
    source.write_bytes(b"\n" * 20_001)
    answer = ending.post(
        "/v1/batches",
        stages({"tasks": None, "input": {"file": str(source), "split": {"lines": 1}}}),
    )
    assert (answer.status, answer.json["code"]) == (422, "too_many_tasks")
    assert [fault["field"] for fault in answer.json["errors"]] == ["stages.0.input.split"]


def test_stages_come_one_behind_the_other_and_the_output_is_served(ending: Server) -> None:
    source = Path(ending.backend.outputs) / "input"
    source.write_bytes(b"a\nb\nc\n")
    given = {"file": str(source), "split": {"lines": 2}}
    estimate = {"task_s": 1, "output_ratio": 0.5}
    first = {"name": "m", "input": given, "tasks": None, "estimate": estimate}
    second = {"name": "r", "shuffle": "m", "tasks": 2}
    answer = ending.post("/v1/batches", stages(second, first))
    assert answer.status == 201, answer.body
    batch = answer.json
    assert [stage["name"] for stage in batch["stages"]] == ["m", "r"]
    assert (batch["state"], batch["done"]) == ("succeeded", 4)
    assert batch["stages"][0]["partitions"] == 2
    assert [stage["output_ratio"] for stage in batch["stages"]] == [0.5, 1.0]
    assert batch["stages"][0]["input"]["chunk_bytes"] == 4
    for index, text in ((2, b"x\n"), (3, b"y\n")):
        folder = Path(ending.backend.outputs) / batch["id"] / f"{index:05d}"
        folder.mkdir(parents=True)
        (folder / "o").write_bytes(text)
    assert ending.get(f"/v1/batches/{batch['id']}/output").body == b"x\ny\n"


def test_an_estimate_may_be_left_out(ending: Server) -> None:
    answer = ending.post("/v1/batches", stages({"estimate": None}))
    assert answer.status == 201, answer.body
    assert answer.json["stages"][0]["source"] == "unknown"
    assert answer.json["stages"][0]["task_s"] > 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tasks": 0}, "stages.0.tasks"),
        ({"tasks": None}, "stages.0.tasks"),
        ({"after": ["nobody"]}, "stages.0.after.0"),
        ({"shuffle": "nobody"}, "stages.0.shuffle"),
        ({"estimate": {"task_s": 1, "bytes_per_s": 5.0}}, "stages.0.estimate"),
        ({"estimate": {"bytes_per_s": 5.0}}, "stages.0.estimate.bytes_per_s"),
        (
            {"estimate": {"task_s": 1, "output_ratio": 0.5}},
            "stages.0.estimate.output_ratio",
        ),
        ({"estimate": {"task_s": 1, "output_ratio": -1}}, "stages.0.estimate.output_ratio"),
        ({"input": {"file": "/x", "split": {"lines": 1}}}, "stages.0.tasks"),
        ({"tasks": None, "input": {"file": "/x"}}, "stages.0.input.split"),
        ({"tasks": None, "input": {"dataset": "d"}}, "stages.0.input.dataset"),
        ({"after": ["s"]}, "stages"),
        ({"env": ["=x"]}, "stages.0.env.0"),
    ],
)
def test_a_faulty_batch_is_refused_with_the_field(
    server: Server, change: dict[str, Any], field: str
) -> None:
    before = server.on_loop(server.backend.sizes)
    answer = server.post("/v1/batches", stages(change))
    assert answer.status == 422, answer.body
    assert field in [error["field"] for error in answer.json["errors"]]
    assert server.on_loop(server.backend.sizes) == before


def test_a_stage_over_an_empty_dataset_is_refused_with_the_field(server: Server) -> None:
    """Beside a stage with tasks it ended the daemon."""
    assert server.post("/v1/datasets", dataset_of(server, 0)).status == 201
    over = {"name": "over", "tasks": None, "input": {"dataset": "data"}}
    answer = server.post("/v1/batches", stages({}, over))
    assert (answer.status, answer.json["code"]) == (422, "zero_tasks")
    (error,) = answer.json["errors"]
    assert error["field"] == "stages.1.input.dataset"
    assert error["message"] == "the dataset data is empty: there are zero tasks"


def test_a_dry_run_keeps_nothing(server: Server) -> None:
    before = server.on_loop(server.backend.sizes)
    answer = server.post("/v1/batches/plan", BATCH)
    assert answer.json["is_accepted"]
    assert answer.json["tasks"] == 3
    huge = server.post("/v1/batches/plan", stages({"memory": "1TiB"}))
    assert (huge.status, huge.json["code"]) == (422, "no_room")
    assert server.on_loop(server.backend.sizes) == before


def test_a_time_limit_and_a_submitter_are_kept_and_shown(server: Server) -> None:
    body = stages({"max_runtime_s": 90}) | {"submitter": "ann"}
    batch = server.post("/v1/batches", body).json
    assert (batch["submitter"], batch["stages"][0]["max_runtime_s"]) == ("ann", 90)
    assert batch["remote"] == 0
    told = server.post("/v1/batches", stages({"max_runtime_s": 0}))
    assert told.json["errors"][0]["field"] == "stages.0.max_runtime_s"
    rows = server.get("/metrics").body.decode().splitlines()
    assert "tenure_batch_remote_tasks 0.0" in rows


def test_logs_and_output_that_are_not_there(server: Server) -> None:
    batch = server.post("/v1/batches", BATCH).json
    assert server.get(f"/v1/batches/{batch['id']}/output").status == 409
    assert server.get(f"/v1/batches/{batch['id']}/logs").status == 422
    assert server.get(f"/v1/batches/{batch['id']}/logs?task=9").status == 404
    server.backend.logs[f"{batch['id']}/1"] = b"said\n"
    assert server.get(f"/v1/batches/{batch['id']}/logs?task=1").body == b"said\n"
