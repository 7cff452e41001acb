"""Fig. 5 on other traces: hosts of Table II, batches of section IV, and the page's rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.reproduction import salamander
from benchmarks.reproduction.salamander import (
    CHUNKS,
    HOSTS,
    RAM_BYTES,
    Run,
    batch,
    filled,
    host,
    page,
)
from tenure.simulation.harvest.controllers import Replayed


def test_hosts_are_table_two_by_nine() -> None:
    made = host(np.array([0.5, 0.0], np.float32), np.array([0.25, 1.0], np.float32))
    # 2208 GFLOP/s by nine hosts and 11.9 of a core
    assert made.capacity.cpu_m == 20_616
    assert made.capacity.memory_bytes == round(RAM_BYTES / HOSTS)
    assert made.cpu_m == [10_308, 0]
    assert made.memory_bytes == [round(RAM_BYTES / HOSTS / 4), round(RAM_BYTES / HOSTS)]


def test_a_map_of_128_mb_takes_a_third_of_a_minute_and_its_double_twice_that() -> None:
    small, large = (batch(*chunk) for chunk in CHUNKS)
    assert small.map_core_s == pytest.approx(33.3, abs=0.1)
    assert small.reduce_core_s == pytest.approx(67.8, abs=0.1)
    assert large.map_core_s == pytest.approx(2 * small.map_core_s)
    assert (small.task_memory_bytes, large.task_memory_bytes) == (3 * 10**9, 4 * 10**9)


def test_what_was_not_observed_holds_the_value_before_it() -> None:
    nan = float("nan")
    rows = filled(np.array([[nan, 0.5, nan, 1.5], [nan, nan, nan, nan]], np.float32))
    assert rows.tolist() == [[0.5, 0.5, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]


def test_a_row_has_medians_and_what_was_not_done() -> None:
    runs = [
        Run(128, 0.1, Replayed(200.0, 680, 100, 100), Replayed(150.0, 680, 50, 0)),
        Run(128, 0.2, Replayed(None, 680, 10, 10), Replayed(300.0, 680, 0, 0)),
    ]
    text = page({"made": runs})
    (row,) = [line for line in text.splitlines() if line.startswith("| made | 128")]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:] == [
        "55 [10 to 100]",
        "25 [0 to 50]",
        "75.0% [50.0% to 100.0%] (2 of 2)",
        "200 [200 to 200]",
        "150 [150 to 150]",
        "25.0% [25.0% to 25.0%]",
        "1 / 0",
    ]


def test_without_traces_it_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--data", str(tmp_path), "--processes", "1"]
    assert salamander.main([*words, "--quick"]) == 1
    assert "alibaba2018_hosts" in capsys.readouterr().err
    assert salamander.main([*words, "--quick", "--write"]) == 2
