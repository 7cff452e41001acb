"""The back-test: traces are read as they are, the tables are whole, a run takes small traces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from reproductions.forecasts import cli, page, study, traces
from tenure.harvest.forecast.grid import DAY_STEPS, STEP_S

DAY_SAMPLES = 288


def write(path: Path, rows: Iterable[Iterable[object]]) -> None:
    with gzip.open(path, "wt") as file:
        for row in rows:
            file.write(",".join(str(cell) for cell in row) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten days of eight services, as percentages of the largest machine, in Google's columns."""
    random = np.random.default_rng(2)
    times = np.arange(10 * DAY_SAMPLES) * 2 * np.pi / DAY_SAMPLES
    rows: list[list[object]] = [["service", "borg", "id", "day", "metric", *range(DAY_SAMPLES)]]
    for service in range(8):
        wave = 30 + 10 * np.sin(times + service) + random.normal(0, 2, len(times))
        for metric, values in (("cpu", wave), ("mem", wave / 2)):
            for day in range(10):
                cells = values[day * DAY_SAMPLES :][:DAY_SAMPLES].round(2).tolist()
                rows.append([f"s{service}", 1, 1, day + 1, metric, *cells])
    rows.append(["torn", 1, 1, 1, "cpu", *([5] * DAY_SAMPLES)])
    write(tmp_path / "google2011_services_util.csv.gz", rows)
    return tmp_path


def test_a_trace_is_read_as_shares_and_torn_machines_are_left_out(folder: Path) -> None:
    panel = traces.TRACES["google2011-cpu"].read(folder)
    assert len(panel.names) == 8
    assert panel.steps == 10 * DAY_STEPS
    assert 0.2 < panel.values.mean() < 0.4


def test_sides_part_every_machine_once_and_both_resources_alike(folder: Path) -> None:
    cpu, memory = (traces.sides(f"google2011-{what}", folder) for what in ("cpu", "mem"))
    assert sorted(cpu["tuning"].names + cpu["validation"].names) == sorted(cpu["all"].names)
    assert cpu["tuning"].names == memory["tuning"].names


def test_machines_that_move_together_are_on_one_side(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    one = random.uniform(0, 900, 600)
    rows: list[list[object]] = [["vm", *range(600)]]
    rows += [[str(k), *(one + k).round()] for k in range(30)]
    write(tmp_path / "bitbrains_rnd_cpu.csv.gz", rows)
    found = traces.sides("bitbrains-cpu", tmp_path)
    assert {len(found["tuning"].names), len(found["validation"].names)} == {0, 30}


def test_error_codes_and_holes_of_alibaba_are_gaps(tmp_path: Path) -> None:
    head: list[object] = ["machine", "t_s", "cpu_pct", "mem_pct"]
    rows: list[list[object]] = [head, ["m", 0, 50, 90], ["m", 60, 101, 90], ["m", 4000, 70, -1]]
    write(tmp_path / "alibaba2018_hosts.csv.gz", rows)
    panel = traces.TRACES["alibaba2018-cpu"].read(tmp_path)
    at = 4000 // STEP_S
    assert panel.values[0, 0] == pytest.approx(0.5)
    assert np.isnan(panel.values[0, at - 1])
    assert panel.values[0, at] == pytest.approx(0.7)


def test_a_missing_trace_is_named(tmp_path: Path) -> None:
    with pytest.raises(traces.NoTrace, match="bitbrains_rnd_mem"):
        traces.TRACES["bitbrains-mem"].read(tmp_path)


def test_a_study_holds_what_the_document_shows(folder: Path) -> None:
    found = study.run("google2011-cpu", folder, side="all", origins=2)
    assert (found.count, found.days, found.cold) == (8, (8.0, 9.0), 0)
    assert [row.method for row in found.rows[-2:]] == ["linear", "boosted"]
    ours = found.rows[-1]
    assert 0.97 < ours.coverage <= 1
    # the same hour of days before is all there is to know of these
    assert ours.loss < 0.8 * min(row.loss for row in found.rows if "rolling" in row.method)
    assert page.gain(found, ours) > -0.05
    assert all(0 <= share <= 1 for _, share, *_ in found.machines)
    covered = [row.coverage for row in found.curve]
    assert covered == sorted(covered)
    fixed = [row.harvest for row in found.margins]
    assert fixed == sorted(fixed, reverse=True)


def test_the_command_tells_everything_as_json(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(folder), "--only", "google2011-mem", "--side", "all", "--json"]
    assert cli.main([*words, "--processes", "1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["trace"] for one in told] == ["google2011-mem"]


def test_a_folder_without_traces_is_an_error_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--data", str(tmp_path), "--only", "google2011-mem"]) == cli.FAILED
    told = capsys.readouterr().err
    assert "left out" in told
    assert "google2011_services_util" in told


def test_a_torn_trace_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "google2011_services_util.csv.gz"
    path.write_bytes(path.read_bytes()[:-50])
    assert cli.main(["--data", str(folder), "--only", "google2011-mem"]) == cli.FAILED
    assert path.name in capsys.readouterr().err
