"""``tenure batch``: every verb, against the API over the real core."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure.cli.batches import promise_word
from tests.api.fleet import CoreBackend
from tests.api.server import JOB, Server
from tests.cli.conftest import Ran, Tenure
from tests.cli.test_drain_terminal import terminal

STAGE = {"name": "s", "memory": "64MiB", "tasks": 2, "estimate": {"task_s": 5}}
BATCH = {"name": "many", "image": "app:1", "stages": [STAGE]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(BATCH))
    return path


class Ending(Server):
    """A server whose tasks end well at once, each with an output."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, lambda: CoreBackend(exit_code=0))
        self.backend.outputs = folder / "outputs"

    def put_out(self, batch: str, *texts: bytes) -> None:
        for index, text in enumerate(texts):
            here = self.backend.outputs / batch / f"{index:05d}"
            here.mkdir(parents=True)
            (here / "o").write_bytes(text)


@pytest.fixture
def ending(folder: Path) -> Iterator[Ending]:
    running = Ending(folder)
    try:
        yield running
    finally:
        running.close()


def test_run_shows_the_batch_and_list_and_show_do(tenure: Tenure, file: Path) -> None:
    ran = tenure("batch", "run", str(file))
    assert ran.code == 0
    assert "many: 2 tasks, to end" in ran.err
    assert "0/2" in ran.lines[1]
    (batch,) = tenure("batch", "ls", "-q").lines
    assert tenure("batch", "ls", "--state", "failed", "-q").lines == []
    shown = tenure("batch", "inspect", "many", "--tasks")
    assert "running=2" in shown.out
    assert shown.out.count("running") >= 3
    found = tenure("batch", "inspect", batch[:8], "--json", "--tasks").json
    assert (found["id"], len(found["task_states"])) == (batch, 2)
    timed = tenure("batch", "wait", batch, "--timeout", "0")
    assert timed.code == 1
    assert "not over in time" in timed.err
    gone = tenure("batch", "cancel", batch)
    assert "cancelled" in gone.out
    assert tenure("batch", "ls", "--all", "-q").lines == [batch]
    assert tenure("batch", "wait", batch).code == 1


def test_plan_has_the_exit_codes_of_plans(tenure: Tenure, file: Path, tmp_path: Path) -> None:
    planned = tenure("batch", "plan", str(file), "--json")
    assert (planned.code, planned.json["is_accepted"]) == (1, True)
    huge = tmp_path / "huge.json"
    huge.write_text(json.dumps(BATCH | {"stages": [STAGE | {"memory": "1TiB"}]}))
    refused = tenure("batch", "plan", str(huge))
    assert refused.code == 255
    assert "memory" in refused.err
    assert tenure("batch", "ls", "--all", "-q").lines == []


def test_a_plan_is_shown_before_and_after(tenure: Tenure, file: Path, tmp_path: Path) -> None:
    planned = tenure("batch", "plan", str(file))
    assert planned.code == 1
    assert "BEGIN BY PLAN" in planned.out
    assert "at once" in planned.out  # nothing was begun: so nothing was begun a moment ago
    assert " ago" not in planned.out
    assert ["end", "after", "5.0s"] in [line.split()[:3] for line in planned.lines]
    many = tmp_path / "many.json"
    many.write_text(json.dumps(BATCH | {"stages": [STAGE | {"tasks": 40}]}))
    (batch,) = tenure("batch", "run", str(many), "-q").lines
    found = tenure("batch", "explain", batch, "--json").json
    assert sum(start["tasks"] for start in found["plan"]["starts"]) == 40
    assert found["plan"]["end_at"] > found["plan"]["planned_at"]
    (waits,) = found["waiting"]
    assert 0 < waits["waiting"] < 40
    assert "the next begins on" in waits["why"]
    assert "the next begins on" in tenure("batch", "explain", batch).out
    assert tenure("batch", "explain", "nobody").code == 1


def test_the_words_of_docker_do_the_same(tenure: Tenure, file: Path) -> None:
    (batch,) = tenure("batch", "run", str(file), "-q").lines
    assert tenure("batch", "ls", "-q").lines == [batch]
    assert tenure("batch", "inspect", batch, "--json").json["id"] == batch
    assert "cancelled" in tenure("batch", "stop", batch).out
    (other,) = tenure("batch", "run", str(file), "-q").lines
    assert "cancelled" in tenure("batch", "rm", other).out
    assert tenure("batch", "ls", "-q").lines == []


def test_a_promise_is_told_of_as_kept_or_late_once_it_is_over() -> None:
    def told(state: str, ended: str | None) -> str | None:
        promised = "2030-01-01T00:01:00.000000Z"
        return promise_word({"state": state, "promised_end_at": promised, "finished_at": ended})

    assert told("succeeded", "2030-01-01T00:00:59.000000Z") == "kept"
    assert told("succeeded", "2030-01-01T00:03:05.000000Z") == "2m5s late"
    assert told("cancelled", "2030-01-01T00:00:01.000000Z") is None
    assert str(told("running", None)).startswith("in ")


def test_logs_of_a_task(tenure: Tenure, server: Server, file: Path) -> None:
    (batch,) = tenure("batch", "run", str(file), "-q").lines
    server.backend.logs[f"{batch}/1"] = b"one\ntwo\n"
    assert tenure("batch", "logs", batch, "--task", "1").out == "one\ntwo\n"
    assert tenure("batch", "logs", batch, "--task", "1", "--tail", "1").out == "two\n"
    unsaid = tenure("batch", "logs", batch)
    assert unsaid.code == 2
    assert "say which: 0 to 1" in unsaid.err


def test_output_is_printed_or_written_whole(ending: Ending, file: Path, tmp_path: Path) -> None:
    def tenure(*words: str) -> Ran:
        return _run(ending, *words)

    (batch,) = tenure("batch", "run", str(file), "-q").lines
    assert tenure("batch", "wait", batch).code == 0
    early = tenure("batch", "output", batch)
    assert early.code == 1
    assert "no longer kept" in early.err
    ending.put_out(batch, b"one\n", b"two\n")
    assert tenure("batch", "output", batch).out == "one\ntwo\n"
    target = tmp_path / "result"
    assert tenure("batch", "output", batch, "-o", str(target)).code == 0
    assert target.read_bytes() == b"one\ntwo\n"
    assert [path.name for path in tmp_path.glob(".*")] == []
    nowhere = tenure("batch", "output", batch, "-o", str(tmp_path / "no" / "where"))
    assert nowhere.code == 2
    unrun = tenure("batch", "run", str(file), "--output", str(tmp_path))
    assert unrun.code == 2
    assert len(tenure("batch", "ls", "--all", "-q").lines) == 1


def _run(server: Server, *words: str) -> Ran:
    from typer.testing import CliRunner

    from tenure.cli.main import app

    given = {"TENURE_HOST": f"unix://{server.socket}", "TENURE_TOKEN": ""}
    result = CliRunner().invoke(app, list(words), env=given)
    return Ran(result.exit_code, result.stdout, result.stderr)


def test_inputs_count_from_where_the_file_lies(ending: Ending, tmp_path: Path) -> None:
    ending.backend.outputs = tmp_path
    (tmp_path / "in.txt").write_text("a\nb\n")
    stage: dict[str, Any] = {k: v for k, v in STAGE.items() if k != "tasks"}
    stage["input"] = {"file": "in.txt", "split": {"lines": 1}}
    file = tmp_path / "b.json"
    file.write_text(json.dumps(BATCH | {"stages": [stage]}))
    ran = _run(ending, "batch", "run", str(file), "--json")
    assert ran.code == 0, ran.err
    assert ran.json[0]["tasks"] == 2
    two = tmp_path / "two.json"
    two.write_text(json.dumps([BATCH, BATCH]))
    assert _run(ending, "batch", "run", str(two)).code == 2


@pytest.mark.parametrize(
    ("kind", "items", "body"), [("batch", "batches", BATCH), ("job", "jobs", JOB)]
)
def test_ctrl_c_ends_the_waiting_and_says_what_goes_on(
    server: Server, file: Path, kind: str, items: str, body: dict[str, Any]
) -> None:
    file.write_text(json.dumps(body))
    with terminal(server, kind, "run", str(file), "--wait") as person:
        person.read_until(f"{body['name']} ")
        person.process.send_signal(signal.SIGINT)
        assert person.end() == 130
    (found,) = server.get(f"/v1/{items}").json["items"]
    assert f"tenure {kind} cancel {found['id']} ends it" in person.text
    assert found["state"] not in ("cancelled", "failed")
