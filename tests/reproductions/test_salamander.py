"""The Salamander paper's experiments on other traces: centres, batches, cells, and the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproductions.errors import StudyError
from reproductions.salamander import cells as parts
from reproductions.salamander import cli as salamander
from reproductions.salamander.cells import CENTRES, Cell, batch, filled, host, shapes
from reproductions.salamander.claims import NEW, OLD, verdicts
from reproductions.salamander.page import page, pictures
from tenure.harvest.forecast.grid import DAY_STEPS, Panel

Json = dict[str, Any]


@pytest.mark.parametrize("name", list(CENTRES))
def test_hosts_come_to_table_two(name: str) -> None:
    centre = CENTRES[name]
    found = shapes(centre)
    gflop_s = sum(r.cpu_m / 1000 * speed * parts.CORE_GFLOP_S for r, speed in found)
    assert len(found) == centre.hosts
    assert gflop_s == pytest.approx(centre.gflop_s, rel=1e-3)
    assert sum(r.memory_bytes for r, _ in found) == pytest.approx(centre.ram_bytes, rel=1e-6)
    assert len(set(found)) == min(centre.kinds, centre.hosts)


def test_a_map_of_128_mb_takes_a_third_of_a_minute_and_its_double_twice_that() -> None:
    small, large = batch(128), batch(256)
    assert (small.maps, small.reduces) == (640, 40)
    assert small.map_core_s == pytest.approx(33.3, abs=0.1)
    assert small.reduce_core_s == pytest.approx(67.8, abs=0.1)
    assert large.map_core_s == pytest.approx(2 * small.map_core_s)
    assert (small.task_memory_bytes, large.task_memory_bytes) == (3 * 10**9, 4 * 10**9)
    assert (batch(128, 2500).maps, batch(128, 2500).reduces) == (2353, 147)


def test_what_was_not_observed_holds_the_value_before_it() -> None:
    nan = float("nan")
    rows = filled(np.array([[nan, 0.5, nan, 1.5], [nan, nan, nan, nan]], np.float32))
    assert rows.tolist() == [[0.5, 0.5, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces that are made: eight machines, nine days, a wave a day and noise."""
    random = np.random.default_rng(1)
    at = np.arange(9 * DAY_STEPS)
    wave = 0.3 + 0.15 * np.sin(2 * np.pi * (at[None, :] / DAY_STEPS + np.arange(8)[:, None] / 8))
    noise = random.normal(0, 0.02, (2, 8, len(at)))
    names = tuple(f"m{n}" for n in range(8))
    both = [Panel(names, (wave + part).clip(0, 1).astype(np.float32), 0) for part in noise]
    monkeypatch.setattr(parts, "panels", lambda _data, _traces: tuple(both))


@pytest.mark.usefixtures("made")
def test_the_daemons_way_is_a_cell_of_its_own_with_the_same_plans(tmp_path: Path) -> None:
    cell = Cell("University", "google2011", 0, is_slow=False, margins=(0.05,))
    (mine, _) = parts.run(tmp_path, replace(cell, is_moved=True))
    theirs = next(row for row in parts.run(tmp_path, cell) if row["strategy"] == "cp")
    assert (mine["strategy"], mine["planned_s"]) == (parts.MOVED, theirs["planned_s"])
    assert mine["duration_s"]
    assert len({one.key for one in parts.cells()}) == len(list(parts.cells()))


@pytest.mark.usefixtures("made")
def test_a_cell_runs_every_strategy_on_the_same_hosts(tmp_path: Path) -> None:
    rows = parts.run(tmp_path, Cell("University", "google2011", 0, is_slow=False, margins=(0.05,)))
    assert {(row["chunk_mb"], row["strategy"]) for row in rows} == {
        (chunk, name) for chunk in (128, 256) for name in (OLD, NEW, "cp", parts.STREAMED)
    }
    assert all(row["tasks"] == 680 for row in rows)
    assert all(row["remote"] == 0 for row in rows if row["strategy"].startswith("cp"))
    assert all(row["duration_s"] for row in rows)
    hosts = parts.scene(tmp_path, Cell("PC-1", "google2011", 0, is_slow=False)).hosts
    assert len(hosts) == 9


def row(strategy: str, duration_s: float | None, kills: int = 0, **more: Any) -> Json:
    told = {"centre": "PC-1", "traces": "google2011", "draw": 0, "chunk_mb": 128, "margin": 0.05}
    told |= {"strategy": strategy, "duration_s": duration_s, "kills": kills, "tasks": 680}
    told |= {"remote": 0, "kills_for_cpu": kills, "moved": 0}
    return told | {"refused": "", "placing_s": 1.0} | more


def grown(tasks: int, solver: str, makespan_s: float) -> Json:
    told = {"tasks": tasks, "solver": solver, "solved_s": 1.0, "makespan_s": makespan_s}
    return told | {"refused": "", "is_proven": solver == "cp", "peak_mib": 80.0}


GROWTH = [grown(n, name, 500.0 + n) for n in (500, 1000) for name in ("cp", "ga", "ls")]


def test_claims_are_judged_by_pairs_of_the_same_hosts_set_by_set() -> None:
    rows = [
        row(OLD, 1000.0, 340, remote=68),
        row(NEW, 900.0, 170),
        row("cp", 800.0),
        row("ga", 804.0),
        row("ls", None),
        row(OLD, 100.0, 68, traces="bitbrains"),
        row(NEW, 100.0, 68, traces="bitbrains"),
        row("cp", 100.0, traces="bitbrains"),
    ]
    found = {verdict.claim: verdict for verdict in verdicts(rows, GROWTH)}

    def told(part: str) -> tuple[str, str]:
        (one,) = (verdict for claim, verdict in found.items() if part in claim)
        return one.found, one.word

    assert told("PC-1, 128 MB") == ("google2011 20.0 %; bitbrains 0.0 %", "in part")
    assert told("17.3") == (
        "google2011 50.0 % (1 pairs, more in 0); bitbrains 0.0 % (1 pairs, more in 0)",
        "in part",
    )
    assert told("less than 1 %") == ("median 0.50 %, at most 0.5 %", "reproduced")
    assert told("no task is remote") == (
        "google2011 0 in 3 runs, Cuckoo's mean 10.0 %; bitbrains 0 in 1 runs, Cuckoo's mean 0.0 %",
        "in part",
    )
    assert told("relaunched tasks: the median")[1] == "reproduced"


def test_plans_that_are_never_done_are_no_reproduction() -> None:
    """Those that were done may be the easy ones."""
    rows = [row(OLD, 100.0), row("cp", 50.0), row(OLD, 100.0, draw=1), row("cp", None, draw=1)]
    verdict = next(v for v in verdicts(rows, GROWTH) if v.claim.startswith("PC-1, 128 MB"))
    assert (verdict.found, verdict.word) == ("google2011 50.0 % (1 plans not done)", "in part")


def test_the_page_has_every_table_and_its_pictures_can_be_drawn() -> None:
    names = (OLD, NEW, "cp", "ga", "ls", parts.STREAMED, parts.MOVED)
    rows = [
        row(name, 1000.0 + n, n, centre=centre, chunk_mb=chunk, margin=margin, traces=traces)
        for n, name in enumerate(names)
        for centre in CENTRES
        for chunk in parts.CHUNKS
        for margin in (0.05, 0.1)
        for traces in parts.SETS
    ]
    text = page(rows, GROWTH)
    for part in ("Fig. 3", "Table III", "Table IV", "Fig. 4", "Fig. 5"):
        assert f"({part})" in text
    assert "| University | 256 MB | bitbrains | 1,000 [1,000, 1,000] |" in text
    assert "| 500 | 1.00 | 1,000 (proven) | 80 |" in text
    for draw in pictures(rows, GROWTH).values():
        assert draw().axes


def test_cells_are_kept_and_a_line_that_was_cut_is_run_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    cell = next(parts.cells())
    kept.write_text(json.dumps({"key": cell.key, "rows": [{"a": 1}]}) + "\n" + '{"key": "x')
    assert salamander._kept(kept) == {cell.key: [{"a": 1}]}
    assert len(kept.read_text().splitlines()) == 1
    kept.write_text(json.dumps({"key": "another", "rows": []}) + "\n")
    with pytest.raises(StudyError, match="no cell any more"):
        salamander._kept(kept)


def test_a_host_is_that_of_its_machine_scaled() -> None:
    shape = shapes(CENTRES["PC-2"])[0]
    made = host(shape, np.array([0.5, 0.0], np.float32), np.array([0.25, 1.0], np.float32))
    assert made.cpu_m == [round(0.5 * shape[0].cpu_m), 0]
    assert made.memory_bytes == [round(0.25 * shape[0].memory_bytes), shape[0].memory_bytes]


def test_without_traces_it_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", str(tmp_path), "--processes", "1", "--quick"]
    assert salamander.main(words) == 1
    assert "google2011_services_util" in capsys.readouterr().err
    assert salamander.main([*words, "--write"]) == 2
