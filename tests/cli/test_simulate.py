"""`tenure simulate` and `tenure simulate compare`; they need no daemon."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.simulation.sla.loops import SIMULATED
from testbed import bounded
from tests.cli.conftest import Ran

SMALL = str(Path(__file__).parents[2] / "examples" / "sla" / "small.yml")
RM = "job,cores_per_executor,mem_gb_per_executor,executors,arrival_s,est_run_s,deadline_s"


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    rows = [
        f"{k},{1 + k % 6},{4 + k % 9},{1 + k % 8},{40 * k},{50 + k},{40 * k + 400}"
        for k in range(40)
    ]
    path.write_text("\n".join([RM, *rows]))
    return str(path)


def tenure(*words: str) -> Ran:
    """Run the command; with --plain, so that no test compiles."""
    if words[:1] != ("generations",):
        words = (*words, "--plain")
    result = CliRunner().invoke(app, ["simulate", *words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def test_json_is_one_object_with_the_contracts_fields(jobs: str) -> None:
    ran = tenure(
        "--cluster", SMALL, "--workload", jobs, "--policy", "gio", "--pricing", "real",
        "--deadlines", "on", "--queue", "edf", "--tolerance-s", "100", "--seed", "3", "--json",
    )  # fmt: skip
    assert ran.code == 0
    assert ran.err == ""
    found = ran.json
    for key in (
        "cost_usd", "deadline_met_ratio", "jobs", "finished", "rejected",
        "mean_duration_s", "mean_wait_s", "decision_us_mean", "wall_s",
    ):  # fmt: skip
        assert isinstance(found[key], (int, float)), key
    assert (found["jobs"], found["pricing"], found["queue"]) == (40, "real", "edf")
    assert (found["deadlines"], found["tolerance_s"], found["seed"]) == ("on", 100, 3)


def test_patience_is_the_choice_of_policy_tenure(jobs: str) -> None:
    words = [
        "--cluster",
        SMALL,
        "--workload",
        jobs,
        "--policy",
        "tenure",
        "--pricing",
        "1",
        "--json",
    ]
    hasty = tenure(*words, "--patience", "0").json
    usual, patient = tenure(*words).json, tenure(*words, "--patience", "0.9").json
    assert [run["patience"] for run in (hasty, usual, patient)] == [0, 0.25, 0.9]
    assert hasty["mean_wait_s"] <= usual["mean_wait_s"] < patient["mean_wait_s"]
    # more patience need not save more: a plan for jobs unseen can turn out badly
    assert hasty["cost_usd"] > max(usual["cost_usd"], patient["cost_usd"])


def test_people_get_a_list_and_files(jobs: str, tmp_path: Path) -> None:
    words = ["--cluster", SMALL, "--workload", jobs, "--policy", "ff", "--jobs", "10"]
    files = [str(tmp_path / name) for name in ("j.csv", "n.csv", "r.html")]
    ran = tenure(
        *words, "--jobs-csv", files[0], "--nodes-csv", files[1], "--report", files[2],
        "--plot", str(tmp_path / "plots"),
    )  # fmt: skip
    assert ran.code == 0
    assert "deadlines met" in ran.out
    assert "pricing 2" in ran.out  # the file's default
    assert len(Path(files[0]).read_text().splitlines()) == 11
    assert Path(files[2]).read_text().startswith("<!doctype html>")
    assert (tmp_path / "plots" / "utilisation.png").exists()
    assert f"wrote {files[2]}" in ran.err


def test_compare(jobs: str, tmp_path: Path) -> None:
    words = ["compare", "--cluster", SMALL, "--workload", jobs, "--processes", "1"]
    words += ["--policies", "ff,gio", "--pricing", "1,3", "--deadlines", "off,on", "--queue", "edf"]
    ran = tenure(*words, "--csv", str(tmp_path / "runs.csv"), "--seeds", "2", "--json")
    assert ran.code == 0
    assert "leaves nothing to a seed" in ran.err
    assert len(ran.json["rows"]) == len(ran.json["runs"]) == 8
    assert {row["cost_usd_ci95"] for row in ran.json["rows"]} == {None}
    with (tmp_path / "runs.csv").open() as file:
        assert [row["policy"] for row in csv.DictReader(file)] == ["ff", "gio"] * 4
    shown = tenure(*words)
    assert len(shown.lines) == 9
    assert "COST" in shown.lines[0]


def test_compare_over_seeds_has_intervals() -> None:
    ran = tenure(
        "compare", "--cluster", SMALL, "--workload", "paper:light", "--jobs", "20",
        "--policies", "asq", "--seeds", "3", "--seed", "7", "--processes", "1", "--json",
    )  # fmt: skip
    (row,) = ran.json["rows"]
    assert row["seeds"] == 3
    assert row["cost_usd_ci95"] > 0
    assert [run["seed"] for run in ran.json["runs"]] == [7, 8, 9]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--cluster is required"),
        (("--cluster", SMALL), "--workload is required"),
        (("--cluster", SMALL, "--workload", "paper:light"), "--policy is required"),
        (("--cluster", "absent", "--workload", "paper:light", "--policy", "ff"), "No such file"),
        (("--cluster", SMALL, "--workload", "absent", "--policy", "ff"), "No such file"),
        (("--cluster", SMALL, "--workload", "paper:light", "--policy", "x"), "'x' is none of ff"),
        (
            ("--cluster", SMALL, "--workload", "paper:light", "--policy", "ff", "--pricing", "5"),
            "there is no pricing model '5'; known are 1, 2, 3, 4, real",
        ),
        (
            ("--cluster", SMALL, "--workload", "paper:light", "--policy", "ff", "--queue", "x"),
            "queue: 'x' is none of fcfs, edf",
        ),
        (
            ("--cluster", SMALL, "--workload", "paper:light", "--policy", "ff",
             "--jobs-csv", "/absent/x.csv"),
            "there is no folder /absent",
        ),
        (
            ("--cluster", SMALL, "--workload", "paper:light", "--policy", "ff",
             "--plot", f"{SMALL}/x"),
            "cannot be made a folder",
        ),
        (
            ("--cluster", SMALL, "--workload", "paper:light", "--policy", "tenure",
             "--patience", "2"),
            "patience: 2 is not within 0 to 1",
        ),
        (("--policy", "ff", "compare"), "--policy belongs after compare"),
        (("compare", "--cluster", SMALL, "--workload", "paper:light", "--policies", "x"), "'x' is"),
    ],
)  # fmt: skip
def test_usage_faults(words: tuple[str, ...], said: str) -> None:
    ran = tenure(*words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_a_bad_row_is_named_by_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(f"{RM}\n0,1,1,1,0,5,9\n1,1,1,zero,0,5,9\n")
    ran = tenure("--cluster", SMALL, "--workload", str(path), "--policy", "ff", "--json")
    assert ran.code == 2
    fault = json.loads(ran.err)
    assert fault["errors"][0]["field"] == f"{path}:3 column executors"


def test_without_matplotlib_plots_are_refused_before_the_work(
    jobs: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    words = ["--cluster", SMALL, "--workload", jobs, "--policy", "ff"]
    ran = tenure(*words, "--plot", str(tmp_path))
    assert ran.code == 1
    assert "pip install 'tenure[report]'" in ran.err


def test_other_commands_do_not_pay_for_the_simulator() -> None:
    code = (
        "import sys; from tenure.cli.main import app; "
        "sys.exit(bool({'numpy', 'numba', 'matplotlib'} & set(sys.modules)))"
    )
    assert bounded.run([sys.executable, "-c", code], timeout_s=60).returncode == 0


def test_generations_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_DATA", raising=False)
    found = tenure("generations", "--json")
    assert found.code == 0, found.err
    rows = {row["strategy"]: row["twelve"] for row in found.json["scenario"]}
    assert rows == {"spread": 4, "binpack": 4, "random": 4, "genpack": 3}
    refused = tenure("generations", "--document", "x.md")
    assert refused.code == 2
    assert "--tasks" in refused.err


def test_generations_replay_a_trace_and_write_the_page(tmp_path: Path) -> None:
    lines = ["job,task,submit_s,run_s,outcome,cpu_req,mem_req,bucket"]
    lines += [f"{n},0,{n * 9},{200 + n},finish,0.2,0.1,{n % 4}" for n in range(40)]
    trace = tmp_path / "borg.csv"
    trace.write_text("\n".join(lines))
    page, plots = tmp_path / "page.md", tmp_path / "plots"
    words = ("--repetitions", "1", "--hours", "0.5", "--tasks", str(trace))
    made = tenure(
        *("generations", *words, "--sensitivity"),
        *("--plot", str(plots), "--document", str(page), "--json"),
    )
    assert made.code == 0, made.err
    rows = {(r["load"], r["used"], r["strategy"]): r for r in made.json["rows"]}
    assert len(rows) == 3 * 2 * 6
    assert all(row["finished"] + row["killed"] + row["waiting"] > 0 for row in rows.values())
    assert {row["parameter"] for row in made.json["sensitivity"]} >= {"k", "sampling", "sizes"}
    text = page.read_text()
    assert "plots/genpack-energy.svg" in text
    assert (plots / "genpack-hosts.png").stat().st_size > 0
    assert "What it says" in text
    assert tenure("generations", "--tasks", str(tmp_path / "none")).code == 2


def test_help_names_every_policy() -> None:
    from tenure.cli.simulate import POLICY_HELP

    assert [word.partition(" ")[0] for word in POLICY_HELP.split(", ")] == list(SIMULATED)
