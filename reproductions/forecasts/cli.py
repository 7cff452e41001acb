"""`python -m reproductions forecasts`: exit codes 0 done, 1 could not be run, 2 wrong use.

A goal that is missed is no failure: it is said in the output and in the document.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from reproductions import ROOT
from reproductions.errors import StudyError
from reproductions.forecasts import page, plots, study, traces
from reproductions.forecasts.study import Study
from tenure.model.errors import TenureError
from testbed import host

NAME = "forecasts"
DOCUMENT = ROOT / "docs/forecasts.md"
PICTURES = DOCUMENT.parent / "forecasts"
MACHINES = "machines.csv"
HEADS = ("trace", "machine", "coverage", "loss_of_capacity", "harvest_ratio", "unused_ratio")
#: Days that are forecast of each trace, spread over the last fifth of it.
ORIGINS, ALL_ORIGINS = 3, 12
FAILED, USAGE = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Back-test on every trace and show or write the tables; returns the exit code."""
    options = _parser().parse_args(argv)
    begun_s = time.monotonic()
    try:
        if options.write:
            plots.require()
        found = list(_studies(options))
        if not found:
            raise StudyError(f"{options.data}: no trace could be used")
        if options.write and len(found) < len(traces.TRACES):
            raise StudyError("--write needs every trace")
        taken = page.Taken(found, options.side, datetime.now(UTC), host.machine())
        text = page.replaced(DOCUMENT.read_text(), taken)
        if options.write:
            _write(text, found)
    except (StudyError, TenureError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED
    if options.json:
        print(json.dumps([asdict(one) for one in found], indent=2))
    elif not options.write:
        print("\n".join(body for _, body in page.BEGIN.findall(text)))
    print(f"{NAME}: {time.monotonic() - begun_s:,.0f} s", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m reproductions {NAME}", description=__doc__)
    data = os.environ.get("TENURE_DATA")
    parser.add_argument(
        "--data", type=Path, default=data, required=not data, help="folder of traces (TENURE_DATA)"
    )
    parser.add_argument(
        "--side",
        choices=("validation", "tuning", "all"),
        default="validation",
        help="which machines: constants were chosen on tuning alone (default: validation)",
    )
    parser.add_argument("--only", default="", help="traces whose names begin so, parted by commas")
    parser.add_argument(
        "--full", action="store_true", help=f"up to {ALL_ORIGINS} days of each trace, for an hour"
    )
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="everything, on standard output")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    return parser


def _studies(options: argparse.Namespace) -> Iterator[Study]:
    """Yield the studies, one process for each; libraries use one thread in each of them."""
    names = [n for n in traces.TRACES if n.startswith(tuple(options.only.split(",")))]
    if not names:
        raise StudyError(f"no trace begins with {options.only!r}: {', '.join(traces.TRACES)}")
    origins = ALL_ORIGINS if options.full else ORIGINS
    work = partial(_study, folder=options.data, side=options.side, origins=origins)
    os.environ["OMP_NUM_THREADS"] = "1"
    # a fork of a process in which OpenMP has run waits for threads that it does not have
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, options.processes), context) as pool:
        for name, found in zip(names, pool.map(work, names), strict=True):
            if isinstance(found, str):
                print(f"{name}: left out: {found}", file=sys.stderr)
                continue
            print(f"{name}: {found.count} machines, {found.took_s:,.0f} s", file=sys.stderr)
            yield found


def _study(name: str, *, folder: Path, side: str, origins: int) -> Study | str:
    """Return the study of a trace, or why there is none; a trace that is torn is an error."""
    try:
        return study.run(name, folder, side=side, origins=origins)
    except traces.NoTrace as error:
        return str(error)


def _write(text: str, found: Sequence[Study]) -> None:
    DOCUMENT.write_text(text)
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "curve.svg").write_bytes(plots.curve(found))
    with (PICTURES / MACHINES).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(HEADS)
        for one in found:
            for name, *numbers in one.machines:
                rows.writerow((one.trace, name, *(f"{number:.6f}" for number in numbers)))
