"""The reproduction's tables and verdicts, on means made up for the purpose."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reproductions.errors import StudyError
from reproductions.sla import blocks, claims, cli, matrix, table, theirs
from reproductions.sla.table import Means

MACHINE = {"cpu": "Some CPU", "cores": 2, "memory_gib": 4.0, "kernel": "6.1", "python": "3.11"}
HEADER = "build,policy,workload,pricing,deadline_constraint,queue,cost,dl_met_pct,avg_dur_true,rc"


def made_up(**costs: float) -> dict[str, Means]:
    """Return means for every cell of every study: 100 dollars but for the policies named."""
    found: dict[str, Means] = {}
    for name, study in matrix.studies(Path()).items():
        runs = [
            {
                "deadlines": cell.deadlines,
                "pricing": cell.pricing,
                "policy": cell.policy,
                "cost_usd": costs.get(cell.policy, 100.0) + cell.seed / 1000,
                "cost_local_usd": 1.0,
                "cost_cloud_usd": 1.0,
                "deadline_met_ratio": 0.9 if cell.policy == "asq" else 0.95,
                "mean_duration_s": 100.0 + cell.seed,
                "mean_wait_s": 1.0,
                "rejected": 0,
                "decision_us_mean": 1.5,
            }
            for cell in study.cells()
        ]
        found[name] = table.means_of(runs)
    return found


def word_of(studies: dict[str, Means], start: str) -> str:
    (found,) = (v for v in claims.verdicts(studies) if v.claim.startswith(start))
    return found.word


def test_every_block_is_made_and_whole() -> None:
    text = "".join(f"<!-- begin {name} -->\n<!-- end {name} -->\n" for name in blocks.names())
    taken = blocks.Taken(made_up(), {}, datetime(2030, 1, 2, tzinfo=UTC), MACHINE)
    page = blocks.replaced(text, taken)
    assert blocks.replaced(page, taken) == page
    found = dict(blocks.BEGIN.findall(page))
    assert sorted(found) == sorted(blocks.names())
    for body in found.values():
        assert "2030-01-02 00:00 UTC, on 2 cores of Some CPU" in body
        assert blocks.rows_of(body)


def test_a_document_with_other_blocks_is_refused() -> None:
    taken = blocks.Taken(made_up(), {}, datetime(2030, 1, 2, tzinfo=UTC), MACHINE)
    with pytest.raises(StudyError, match="figure-2"):
        blocks.replaced("<!-- begin claims -->\n<!-- end claims -->\n", taken)


@pytest.mark.parametrize(
    "body",
    [
        "Not measured yet.\n",
        "`x`, 2030-01-02 00:00 UTC, on 2 cores of y, Python 3.11.\n\n| a | b |\n| --- | --- |\n",
        "`x`, 2030-01-02 00:00 UTC, on 2 cores of y, Python 3.11.\n\n"
        "| a | b |\n| --- | --- |\n| 1 |\n",
    ],
)
def test_a_torn_block_is_noticed(body: str) -> None:
    with pytest.raises(StudyError):
        blocks.rows_of(body)


def test_verdicts_follow_the_figures() -> None:
    cheap = made_up(gio=70.0, ff=80.0, exact=65.0, milp=65.0)
    start = "GIO (`gio`) is up to 25 % cheaper than FIFO (`fifo`)"
    assert word_of(cheap, start) == claims.HOLDS
    assert word_of(made_up(gio=80.0), start) == claims.PARTLY
    assert word_of(made_up(gio=99.0), start) == claims.FAILS
    assert word_of(cheap, "GIO (`gio`) is always slightly cheaper") == claims.HOLDS
    assert word_of(made_up(gio=101.0), "GIO (`gio`) is always slightly cheaper") == claims.FAILS
    assert word_of(cheap, "GIO (`gio`) costs 8 to 10 % more than MILP") == claims.HOLDS
    assert word_of(cheap, "FF (`ff`) costs 8 to 10 % more than MILP") == claims.FAILS


def test_policies_that_all_meet_the_same_are_not_ranked() -> None:
    assert word_of(made_up(), "deadlines met, light load, every job runs") == claims.PARTLY


def test_a_cell_has_cost_deadlines_and_duration_and_says_who_was_rejected() -> None:
    row: dict[str, Any] = {
        "cost_usd": 1234.56,
        "cost_usd_ci95": 7.0,
        "deadline_met_ratio": 0.914,
        "mean_duration_s": 1339.6,
        "rejected": 0,
    }
    assert table.cell(row) == "1,234.6 ± 7.0 (91.4 %; 1,340 s)"
    assert table.cell({**row, "rejected": 86.4}) == "1,234.6 ± 7.0 (91.4 %; 1,340 s; 86 rejected)"
    alone = {**row, "cost_usd_ci95": None, "mean_duration_s": None}
    assert table.cell(alone) == "1,234.6 (91.4 %; -)"
    assert table.cell(None) == "-"


def test_their_runs_are_read_by_build_and_queue(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv.gz"
    rows = (
        "p155,RR,small-low,1,0,FCFS,10.5,99.9,275.7,0",
        "p155,RR,small-low,1,1,FCFS,9.5,99.9,275.7,0",
        "p155,RR,small-low,2,0,EDF,1,1,1,0",
        "p155,FF,small-low,1,0,FCFS,1,1,1,1",
        "elsewhere,FF,small-low,1,0,FCFS,1,1,1,0",
    )
    with gzip.open(path, "wt") as file:
        file.write("\n".join((HEADER, *rows)))
    found = theirs.read(path)
    assert set(found) == {("FIFO", "small-low", "1", "off"), ("FIFO", "small-low", "1", "on")}
    assert table.their_cell(found["FIFO", "small-low", "1", "off"]) == "10.5 (99.9 %; 276 s)"


@pytest.mark.parametrize(
    "content", [b"not gzip", gzip.compress(b"a,b\n1,2\n", mtime=0)], ids=["plain", "other columns"]
)
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv.gz"
    path.write_bytes(content)
    with pytest.raises(StudyError, match="not the authors' runs"):
        theirs.read(path)


def test_runs_of_something_else_are_not_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs.csv.gz"
    runs.write_bytes(gzip.compress(f"{HEADER}\n".encode()))
    keep = tmp_path / "kept.json"
    words = ["--data", str(tmp_path), "--theirs", str(runs), "--keep", str(keep)]
    other = json.dumps({"at": "", "machine": {}, "runs": {"small-light": [{}]}})
    for content in ("{", "[]", other):
        keep.write_text(content)
        assert cli.main(words) == cli.FAILED
        assert "--keep" in capsys.readouterr().err
        assert keep.read_text() == content


def test_quick_figures_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    before = cli.DOCUMENT.read_text()
    words = ["--data", "x", "--theirs", "y", "--quick", "--write"]
    assert cli.main(words) == cli.USAGE
    assert "--quick" in capsys.readouterr().err
    assert cli.DOCUMENT.read_text() == before
