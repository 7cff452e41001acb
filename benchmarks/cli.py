"""`python -m benchmarks NAME`: exit codes 0 taken, 1 could not be taken, 2 wrong use.

A goal that is missed is no failure: it is said in the output and in the document.
"""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import document
from benchmarks.errors import BenchError
from benchmarks.figures import Figure, Report, shown
from benchmarks.rig import say
from testbed import TestbedError, host

#: Every benchmark is a module of its name with ``measure(*, is_quick)``.
NAMES = (
    "submissions",
    "start",
    "attack",
    "footprint",
    "agent",
    "harvest",
    "reclaim",
    "scale",
    "lookahead",
    "cuts",
    "decisions",
    "locality",
    "simulations",
    "cycle",
    "planner",
    "batches",
    "migration",
    "spark",
    "tiers",
)
DOCUMENT = Path(__file__).resolve().parents[1] / "docs/benchmarks.md"
FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Take figures and show them; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.write and options.quick:
        print("--write needs full measurements: leave out --quick", file=sys.stderr)
        return USAGE
    signal.signal(signal.SIGTERM, _interrupt)  # so that everything is stopped and removed
    names = NAMES if options.name == "all" else (options.name,)
    taken, status = [], 0
    for name in names:
        try:
            taken.append(_take(name, options))
        except (BenchError, TestbedError, OSError) as error:
            say(f"{name}: {error}")
            status = FAILED
        except KeyboardInterrupt:
            say("interrupted; everything is stopped")
            return INTERRUPTED
    if options.json:
        print(json.dumps(taken, indent=2))
    return status


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=("all", *NAMES), help="what to measure")
    parser.add_argument("--quick", action="store_true", help="seconds each: shows that it works")
    parser.add_argument("--json", action="store_true", help="figures as JSON on standard output")
    parser.add_argument("--write", action="store_true", help="put them into docs/benchmarks.md")
    return parser


def _take(name: str, options: argparse.Namespace) -> dict[str, object]:
    report: Report = importlib.import_module(f"benchmarks.{name}").measure(is_quick=options.quick)
    made = document.Taken(
        report=report,
        command=f"python -m benchmarks {name}",
        at=datetime.now(UTC),
        machine=host.machine(),
    )
    if options.write:
        DOCUMENT.write_text(document.replaced(DOCUMENT.read_text(), made))
        say(f"{name}: written into {DOCUMENT.name}")
    if not options.json:
        _print(report)
    return made.as_json()


def _print(report: Report) -> None:
    table = Table(title=report.name, title_justify="left")
    for column in ("figure", "median", "min", "max", "goal", ""):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for figure in report.figures:
        table.add_row(*_cells(figure))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _cells(figure: Figure) -> tuple[str, ...]:
    spread = ("", "")
    if len(figure.values) > 1:
        spread = (shown(min(figure.values)), shown(max(figure.values)))
    goal = "" if figure.goal is None else f"{figure.goal} {figure.unit}".strip()
    mark = {None: "", True: "[green]met[/]", False: "[red]not met[/]"}[figure.is_met]
    return figure.what, f"{shown(figure.median)} {figure.unit}".strip(), *spread, goal, mark
