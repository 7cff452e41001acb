"""The document of the benchmarks: its blocks parse and name commands that exist; no figure is
judged.
"""

from __future__ import annotations

import importlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.cli import DOCUMENT, NAMES, main
from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Goal, Report

REPORT = Report(
    "start",
    (Figure("a", "added", "ms", (3.0, 1.0, 2.0), Goal("most", 2)), Figure("b", "bare", "", (7.0,))),
    ("A note.",),
)
MACHINE = {"cpu": "Some CPU", "cores": 2, "memory_gib": 4.0, "kernel": "6.1", "python": "3.11"}
TAKEN = document.Taken(
    REPORT, "python -m benchmarks start", datetime(2030, 1, 2, tzinfo=UTC), MACHINE
)


def test_every_benchmark_has_a_block_and_every_block_a_command() -> None:
    found = document.blocks(DOCUMENT.read_text())
    assert sorted(block.name for block in found) == sorted(NAMES)
    for block in found:
        assert callable(importlib.import_module(f"benchmarks.{block.name}").measure)
        if block.command:
            assert block.command == f"python -m benchmarks {block.name}"


def test_a_written_block_parses_and_replaces_only_itself() -> None:
    text = "top\n<!-- begin start -->\nNot measured yet.\n<!-- end start -->\nrest\n"
    once = document.replaced(text, TAKEN)
    assert document.replaced(once, TAKEN) == once
    assert once.startswith("top\n")
    assert once.endswith("\nrest\n")
    (block,) = document.blocks(once)
    assert block.command == TAKEN.command
    assert block.rows == (
        ("added", "2 ms", "1 to 3 (3)", "≤ 2 ms", "met"),
        ("bare", "7", "", "", ""),
    )


@pytest.mark.parametrize(
    "text",
    [
        "<!-- begin start -->\nNot measured yet.\n",
        "<!-- begin start -->\nsome words\n<!-- end start -->\n",
        "<!-- begin start -->\n`x`, 2030-01-02 00:00 UTC, on 2 cores of y.\n<!-- end start -->\n",
    ],
)
def test_a_broken_block_is_noticed(text: str) -> None:
    with pytest.raises(BenchError):
        document.blocks(text)


def test_a_report_without_a_block_is_refused() -> None:
    with pytest.raises(BenchError, match="begin start"):
        document.replaced("no block", TAKEN)


def test_quick_figures_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    before = DOCUMENT.read_text()
    assert main(["submissions", "--quick", "--write"]) == 2
    assert "--quick" in capsys.readouterr().err
    assert Path(DOCUMENT).read_text() == before
