"""Programs of Spark jobs are sent along as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenure.cli.files import documents
from tenure.cli.programs import with_program
from tenure.model.errors import InvalidInput
from tests.faults.tenured import ROOT

EXAMPLES = ROOT / "examples" / "spark"


@pytest.mark.parametrize("name", ["wordcount", "sort", "pagerank"])
def test_the_examples_carry_their_program(name: str) -> None:
    path = EXAMPLES / f"{name}.yml"
    (job,) = [with_program(found, str(path)) for found in documents(str(path))]
    assert job["kind"] == "spark"
    assert "program_file" not in job["spark"]
    assert job["spark"]["program"] == (EXAMPLES / f"{name}.py").read_text()


def test_other_jobs_stay_as_they_are() -> None:
    for job in ({"name": "a"}, {"spark": None}, {"spark": {"application": "x"}}):
        assert with_program(job, "-") is job


@pytest.mark.parametrize(
    ("spark", "says"),
    [
        ({"program_file": 3}, "must be a path"),
        ({"program_file": "a.py", "program": "x"}, "excludes program"),
        ({"program_file": "none.py"}, "cannot read"),
        ({"program_file": "a\x00"}, "cannot read"),
        ({"program_file": "latin.py"}, "not UTF-8 (byte 0)"),
        ({"program_file": "."}, "cannot read"),
    ],
)
def test_what_cannot_be_sent(tmp_path: Path, spark: dict[str, Any], says: str) -> None:
    (tmp_path / "latin.py").write_bytes(b"\xe9")
    with pytest.raises(InvalidInput) as caught:
        with_program({"spark": spark}, str(tmp_path / "job.yml"))
    assert says in str(caught.value)
    assert caught.value.fields[0].path == "spark.program_file"
