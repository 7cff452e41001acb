"""What is submitted is valid, and its sizes do what the page about them says."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from demo.cli import main
from demo.follow import told_of
from demo.own import OwnStage, cycles_of, left_of
from demo.work import FLEET, Terms, work
from tenure.api.schemas.containers import ContainerRequest, container_options, docker_body
from tenure.api.schemas.jobs import JobRequest
from tenure.config.load import load
from tenure.model.errors import NotFound

TERMS = {
    "testbed": Terms("tenure-testbed/busybox:1"),
    "own": Terms("busybox:1.36", "demo-", is_testbed=False, giant_cpus=5000.0),
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=TERMS.keys())
def test_every_submission_is_valid(terms: Terms) -> None:
    made = work(terms)
    for job in made.jobs:
        assert JobRequest.model_validate(dict(job.body)).name.startswith(terms.prefix)
    for box in made.containers:
        ContainerRequest.model_validate(dict(box.body))
        container_options(docker_body(dict(box.body)), None)
    names = [job.name for job in made.jobs]
    assert len(names) == len(set(names))
    assert {made.explained, made.urgent, made.retried} <= set(names)


def test_there_is_enough_to_see() -> None:
    made = work(TERMS["testbed"])
    assert sum("deadline_s" in job.body for job in made.jobs) >= 12
    assert sum(job.expects.startswith("refused") for job in made.jobs) >= 1
    assert len(made.containers) >= 6
    assert len(FLEET) >= 4
    assert {"nursery", "young", "tenured"} == {node.generation for node in FLEET}
    assert any(node.site == "cloud" and not node.initially_on for node in FLEET)


def test_sizes_send_large_executors_to_the_cloud() -> None:
    made = {job.name: job.body for job in work(TERMS["testbed"]).jobs}
    young = next(node for node in FLEET if node.name == "young1")
    small = sum(made[n]["executors"] * made[n]["cpus"] for n in ("wordcount", "index", "flaky"))
    free = young.cpus - small
    assert free < made["ledger"]["cpus"] < made["render"]["cpus"]
    assert made["matrix"]["executors"] * made["matrix"]["cpus"] > young.cpus
    cloud = [node.cpus for node in FLEET if node.site == "cloud"]
    executors = [made[name]["executors"] for name in ("matrix", "render", "video")]
    slots = [round(cpus * 1000) // round(made["matrix"]["cpus"] * 1000) for cpus in cloud]
    assert sum(slots) >= sum(executors)


CONFIG = """
generations: [first, second]
state_dir: /nowhere
nodes:
  - {name: a, url: "tcp://192.0.2.1:2375", generation: first}
  - name: b
    url: tcp://192.0.2.2:2375
    generation: second
    site: cloud
    capacity: {cpus: 8, memory: 1GiB}
    power: {driver: command, "on": [up], "off": [down], status: [is-up]}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tenured.yml"
    path.write_text(CONFIG)
    return path


def test_own_engines_are_never_switched(config: Path, tmp_path: Path) -> None:
    stage = OwnStage(config, tmp_path, "busybox:1.36")
    stage._folder = tmp_path / "own"
    stage._folder.mkdir()
    written = tmp_path / "own" / "tenured.yml"
    written.write_text(yaml.safe_dump(stage._stripped()))
    (tmp_path / "own" / "cycles.yml").write_text(yaml.safe_dump(cycles_of(stage._settings)))
    settings = load(written, {})
    assert [node.power.driver for node in settings.nodes] == ["none", "none"]
    assert settings.state_dir == tmp_path / "own" / "state"
    assert [cycle.source for cycle in settings.cycles] == ["first"]
    assert stage.terms.giant_cpus > 8


def test_nothing_is_done_without_consent(
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["--config", str(config), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().out
    assert "tcp://192.0.2.2:2375" in said
    assert "demo-web" in said
    assert "busybox:1.36" in said
    assert "No node is switched on or off" in said
    assert list((tmp_path / "out").iterdir()) == []


def test_a_faulty_configuration_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tenured.yml"
    path.write_text("nodes: [{name: a}]\n")
    assert main(["--config", str(path), "--out", str(tmp_path)]) == 2
    assert "nodes[0].url" in capsys.readouterr().out.replace("nodes.0.", "nodes[0].")


def test_what_is_missing_is_said_with_the_offer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.cli.check", lambda: ["real engines need root"])
    assert main(["--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().out
    assert "real engines need root" in said
    assert "--config tenured.yml" in said
    assert not (tmp_path / "out").exists()


def event(kind: str, subject: str, **data: object) -> dict[str, object]:
    return {"type": kind, "subject": subject, "data": data}


def test_events_are_told_by_name() -> None:
    names: dict[str, str] = {}
    told = told_of(event("job.accepted", "j-1", name="sort", admission="best_effort"), names)
    assert told == ("job", "sort is accepted (best effort)")
    told = told_of(event("executor.exited", "j-1/0", exit_code=7, node="n"), names)
    assert told == ("job", "sort, executor 0 ended with exit code 7")
    assert told_of(event("executor.exited", "j-1/0", exit_code=0, node="n"), names) is None
    assert told_of(event("something.new", "x"), names) is None


def test_silence_of_a_node_that_is_switched_off_is_not_told() -> None:
    names: dict[str, str] = {}
    gone = event("node.unreachable", "n", why="refused")
    assert told_of(gone, names) == ("node", "n does not answer: refused")
    told_of(event("node.stopping", "n", why="empty"), names)
    assert told_of(gone, names) is None
    told_of(event("node.booting", "n", why="job sort"), names)
    assert told_of(gone, names) is not None


class Removing:
    """A fleet whose one container is gone between its listing and the question for its end."""

    def __init__(self) -> None:
        self.boxes = [{"id": "b" * 64, "name": "demo-web", "state": "removing"}]

    def jobs(self) -> list[dict[str, str]]:
        return []

    def containers(self) -> list[dict[str, str]]:
        return self.boxes

    def nodes(self) -> list[dict[str, object]]:
        return [{"name": "n1", "executors": 0, "containers": len(self.boxes)}]

    def remove_container(self, ref: str) -> None:
        self.boxes = []
        raise NotFound(f"no container {ref}")


def test_what_is_gone_since_it_was_listed_is_no_fault() -> None:
    fleet = Removing()
    assert left_of(fleet) == ["demo-web"]  # looked at once more
    assert left_of(fleet) == []
