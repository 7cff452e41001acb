"""Every example is accepted by the schema that the daemon checks it with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.api.schemas.batches import BatchRequest
from tenure.api.schemas.containers import ContainerRequest, container_options, docker_body
from tenure.api.schemas.jobs import JobRequest
from tenure.cli.files import documents
from tenure.cli.programs import with_program
from tenure.config.load import load, validate
from tenure.placement.constraints import parse

EXAMPLES = Path(__file__).parents[2] / "examples"


def below(folder: str) -> list[Path]:
    return sorted((EXAMPLES / folder).glob("*.yml"))


@pytest.mark.parametrize("path", [*below("jobs"), *below("spark")], ids=lambda p: p.name)
def test_jobs_are_accepted(path: Path) -> None:
    for document in documents(str(path)):
        job = JobRequest.model_validate(with_program(document, str(path)))
        assert [parse(text).key for text in job.constraints] == [
            text.partition("=")[0].partition(" ")[0] for text in job.constraints
        ]


@pytest.mark.parametrize("path", below("batches"), ids=lambda p: p.name)
def test_batches_are_accepted(path: Path) -> None:
    for document in documents(str(path)):
        batch = BatchRequest.model_validate(document)
        assert len(batch.stages) == 2  # what is mapped and what is reduced


@pytest.mark.parametrize("path", below("containers"), ids=lambda p: p.name)
def test_containers_are_accepted(path: Path) -> None:
    for document in documents(str(path)):
        request = ContainerRequest.model_validate(document)
        options = container_options(docker_body(document), getattr(request, "tenure", None))
        assert options.app == document["tenure"]["app"]


def test_configuration_is_accepted_with_its_cycles() -> None:
    path = EXAMPLES / "tenured.yml"
    assert validate(path, {}) == []
    settings = load(path, {})
    assert settings.cycles_file == EXAMPLES / "cycles.yml"
    moving = {cycle.source for cycle in settings.cycles if cycle.kind == "generation"}
    assert moving == {"nursery", "young"}
    assert {node.generation for node in settings.nodes} == set(settings.generations)


def test_the_fleet_that_lends_is_accepted() -> None:
    path = EXAMPLES / "lending.yml"
    assert validate(path, {}) == []
    settings = load(path, {})
    assert any(node.harvest is not None for node in settings.nodes)
    assert any(cycle.kind == "forecast" for cycle in settings.cycles)


def test_no_example_is_forgotten() -> None:
    checked = {*below("jobs"), *below("containers"), *below("spark"), EXAMPLES / "tenured.yml"}
    checked.add(EXAMPLES / "lending.yml")
    checked |= {path.with_suffix(".py") for path in below("spark")}  # the programs that they name
    checked |= {*below("batches"), EXAMPLES / "batches" / "generate.py"}
    checked.add(EXAMPLES / "cycles.yml")
    # beside what other tests import from there lies what Python compiled of it
    left_out = {"sla", "__pycache__"}
    files = {path for path in EXAMPLES.rglob("*") if path.is_file()}
    others = {path for path in files if not left_out & set(path.parts)}
    others -= {*EXAMPLES.glob("batches/*.txt")}  # inputs that somebody had generated
    assert others == checked
