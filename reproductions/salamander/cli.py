"""`python -m reproductions salamander`: section IV of the Salamander paper, simulated.

What is done is kept (`--keep`), so that it can be taken in pieces (`--for-s`).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from reproductions import ROOT
from reproductions.errors import StudyError
from reproductions.salamander import cells as parts
from reproductions.salamander import page as salamander_page
from reproductions.salamander.cells import Cell
from tenure.model.errors import TenureError
from tenure.simulation.sla import plots

NAME = "salamander"
DOCUMENT = ROOT / "docs/reproduction-salamander.md"
PICTURES = ROOT / "docs/reproduction-salamander"
KEPT = ROOT / "out/reproduction-salamander.jsonl"
FAILED, USAGE, UNFINISHED = 1, 2, 3
GROWTH = "growth"
#: What `--quick` runs: seconds.
QUICK = Cell("PC-1", "google2011", 0, is_slow=False, margins=(0.05,))
QUICK_SIZES = (500,)
Json = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is not kept yet, then show or write the page; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.write and options.quick:
        print("--write needs all of it: leave out --quick", file=sys.stderr)
        return USAGE
    try:
        if options.write:
            plots.require()
        kept = {} if options.quick else _kept(options.keep)
        left = _run(options, kept)
        if left:
            print(f"{NAME}: {left} cells are left: the same command goes on", file=sys.stderr)
            return UNFINISHED
        _publish(kept, is_written=options.write)
    except (StudyError, TenureError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m reproductions {NAME}", description=__doc__)
    data = os.environ.get("TENURE_DATA")
    words = f"folder with the traces {', '.join(parts.SETS)} (TENURE_DATA)"
    parser.add_argument("--data", type=Path, default=data, required=not data, help=words)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="one cell: shows that it works")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    parser.add_argument(
        "--keep", type=Path, default=KEPT, help="keep each cell here, and do not run it again"
    )
    parser.add_argument(
        "--for-s", type=float, default=float("inf"), help="begin no cell after so many seconds"
    )
    return parser


def _run(options: argparse.Namespace, kept: dict[str, list[Json]]) -> int:
    """Run the cells that are not kept, and keep each; returns how many are left."""
    cells = [QUICK] if options.quick else list(parts.cells())
    missing = [cell for cell in cells if cell.key not in kept]
    begun_s = time.monotonic()
    left = len(missing)
    with ProcessPoolExecutor(max(1, options.processes)) as pool:
        todo = iter(missing)
        running: dict[Future[list[Json]], str] = {}
        while True:
            while len(running) < options.processes and time.monotonic() - begun_s < options.for_s:
                cell = next(todo, None)
                if cell is None:
                    break
                running[pool.submit(parts.run, options.data, cell)] = cell.key
            if not running:
                break
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                key = running.pop(done)
                left -= 1
                _keep(options, kept, key, done.result())
                print(f"{time.monotonic() - begun_s:6,.0f} s  {key}", file=sys.stderr)
    if GROWTH not in kept and not left:
        if time.monotonic() - begun_s >= options.for_s:
            return 1
        sizes = QUICK_SIZES if options.quick else parts.GROWTH_TASKS
        _keep(options, kept, GROWTH, parts.growth(options.data, sizes))
    return left


def _keep(
    options: argparse.Namespace, kept: dict[str, list[Json]], key: str, rows: list[Json]
) -> None:
    kept[key] = rows
    if options.quick:
        return
    options.keep.parent.mkdir(parents=True, exist_ok=True)
    with options.keep.open("a") as file:
        file.write(json.dumps({"key": key, "rows": rows}) + "\n")


def _kept(path: Path) -> dict[str, list[Json]]:
    """Return the cells kept before; a line that a kill cut short is run again."""
    wanted = {cell.key for cell in parts.cells()} | {GROWTH}
    found: dict[str, list[Json]] = {}
    if not path.exists():
        return found
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            key, rows = row["key"], row["rows"]
        except (ValueError, KeyError, TypeError):
            if number < len(lines):
                raise StudyError(f"{path}, line {number}: not what --keep writes") from None
            path.write_text("".join(f"{kept}\n" for kept in lines[:-1]))
            continue
        if key not in wanted:
            raise StudyError(f"{path}: {key!r} is no cell any more; remove it, or --keep elsewhere")
        found[key] = rows
    return found


def _publish(kept: dict[str, list[Json]], *, is_written: bool) -> None:
    rows = list(_flat(rows for key, rows in kept.items() if key != GROWTH))
    text = salamander_page.page(rows, kept[GROWTH])
    if not is_written:
        print(text)
        return
    DOCUMENT.write_text(text)
    PICTURES.mkdir(exist_ok=True)
    for name, draw in salamander_page.pictures(rows, kept[GROWTH]).items():
        (PICTURES / f"{name}.svg").write_bytes(plots.picture(draw, "svg"))


def _flat(groups: Iterable[list[Json]]) -> Iterable[Json]:
    for group in groups:
        yield from group
