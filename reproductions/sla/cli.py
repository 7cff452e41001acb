"""`python -m reproductions sla`: exit codes 0 done, 1 could not be run, 2 wrong use."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from reproductions import ROOT
from reproductions.errors import StudyError
from reproductions.sla import blocks, matrix, table, theirs
from tenure.model.errors import TenureError
from tenure.simulation.sla import plots
from testbed import host

NAME = "sla"
DOCUMENT = ROOT / "docs/reproduction-sla.md"
PICTURES = ROOT / "docs/reproduction-sla"
#: Of a picture, so that the document's folder stays small.
MAX_PICTURE_BYTES = 100_000
FAILED, USAGE = 1, 2
Json = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate everything and show or write the tables; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.write and options.quick:
        print("--write needs all of it: leave out --quick", file=sys.stderr)
        return USAGE
    begun_s = time.monotonic()
    try:
        known = theirs.read(options.theirs)
        if options.write:
            plots.require()
        runs = _run(options)
        taken = _taken(runs, known)
        page = blocks.replaced(DOCUMENT.read_text(), taken)
        if options.write:
            DOCUMENT.write_text(page)
            _draw(taken.studies)
    except (StudyError, TenureError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED
    if not options.write:
        print(page)
    print(f"{NAME}: {time.monotonic() - begun_s:,.0f} s", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m reproductions {NAME}", description=__doc__)
    data, runs = os.environ.get("TENURE_DATA"), os.environ.get("TENURE_BASELINES")
    parser.add_argument(
        "--data",
        type=Path,
        default=data,
        required=not data,
        help="folder with the authors' workloads, rm_*.csv.gz (TENURE_DATA)",
    )
    parser.add_argument(
        "--theirs",
        type=Path,
        default=runs,
        required=not runs,
        help="runs of the authors' simulator, a gzipped CSV (TENURE_BASELINES)",
    )
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="few jobs: shows that it works")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    parser.add_argument(
        "--only",
        default="",
        help="studies whose names begin so, parted by commas; blocks that need others stay",
    )
    parser.add_argument(
        "--keep", type=Path, help="keep every run in this file, and do not run again what it holds"
    )
    return parser


def _run(options: argparse.Namespace) -> Json:
    """Return all runs by study, with when and where they were made.

    With ``--keep`` each study is kept when it ends, and what is kept already is not run again.
    """
    chosen = matrix.studies(options.data, is_quick=options.quick)
    made: Json = {"at": datetime.now(UTC).isoformat(), "machine": host.machine(), "runs": {}}
    if options.keep and options.keep.exists():
        made = _kept(options.keep, {name: len(study.cells()) for name, study in chosen.items()})
    wanted = {name for name in chosen if name.startswith(tuple(options.only.split(",")))}
    missing = {name: chosen[name] for name in chosen if name in wanted - made["runs"].keys()}
    for study in missing.values():
        study.check()
    told = _Told(missing)
    for name, study in missing.items():
        made["runs"][name] = matrix.run(name, study, processes=options.processes, on_done=told)
        if options.keep:
            part = options.keep.with_suffix(".part")
            part.write_text(json.dumps(made))
            part.replace(options.keep)
    return made


def _kept(path: Path, wanted: Mapping[str, int]) -> Json:
    """Return what ``_run`` had kept; StudyError for a file that is not of these studies."""
    try:
        kept: Json = json.loads(path.read_text())
        held = {name: len(runs) for name, runs in kept["runs"].items()}
        is_ours = held.items() <= wanted.items() and {"at", "machine"} <= kept.keys()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StudyError(f"{path}: not the runs that --keep writes: {error!r}") from None
    if not is_ours:
        raise StudyError(
            f"{path}: runs of other studies than these; remove it, or --keep elsewhere"
        )
    return kept


class _Told:
    """Says on standard error how far each study is, once for each quarter of it."""

    def __init__(self, chosen: Mapping[str, Any]) -> None:
        self._total = {name: len(study.cells()) for name, study in chosen.items()}
        self._done: Counter[str] = Counter()
        self._begun_s = time.monotonic()

    def __call__(self, name: str) -> None:
        self._done[name] += 1
        done, total = self._done[name], self._total[name]
        if done * 4 // total != (done - 1) * 4 // total:
            passed_s = time.monotonic() - self._begun_s
            print(f"{passed_s:6,.0f} s  {name}: {done} of {total}", file=sys.stderr)


def _taken(runs: Json, known: theirs.Runs) -> blocks.Taken:
    means = {name: dict(table.means_of(found)) for name, found in runs["runs"].items()}
    for name in [name for name in means if name.endswith(matrix.MORE)]:
        means.setdefault(name.removesuffix(matrix.MORE), {}).update(means.pop(name))
    return blocks.Taken(means, known, datetime.fromisoformat(runs["at"]), runs["machine"])


def _draw(studies: Mapping[str, table.Means]) -> None:
    """Write the pictures; StudyError for one that is too large to keep."""
    PICTURES.mkdir(exist_ok=True)
    for name, (study, mode, measure, label) in PLOTS.items():
        if study not in studies:
            continue
        rows = [row for (shown, _, _), row in studies[study].items() if shown == mode]
        is_share = measure.endswith("_ratio")
        draw = partial(plots.bars, rows, measure, label, is_share=is_share)
        content = plots.picture(draw, "svg")
        if len(content) > MAX_PICTURE_BYTES:
            raise StudyError(f"{name}.svg takes {len(content)} bytes")
        (PICTURES / f"{name}.svg").write_bytes(content)


#: Pictures by file name: study, deadline mode, measure, label of its axis.
PLOTS: Mapping[str, tuple[str, str, str, str]] = {
    "figure-2": ("small-light", "off", "cost_usd", "Cost (dollars)"),
    "figure-3": ("small-high", "off", "cost_usd", "Cost (dollars)"),
    "figure-4a": ("small-light", "off", "deadline_met_ratio", "Jobs in time"),
    "figure-4b": ("small-high", "off", "deadline_met_ratio", "Jobs in time"),
    "figure-4c": ("small-light", "on", "deadline_met_ratio", "Jobs in time"),
    "figure-4d": ("small-high", "on", "deadline_met_ratio", "Jobs in time"),
    "figure-5-light": ("small-light", "off", "mean_duration_s", "Mean duration (s)"),
    "figure-5-high": ("small-high", "off", "mean_duration_s", "Mean duration (s)"),
    "figure-6-light": ("large-light", "off", "cost_usd", "Cost (dollars)"),
    "figure-6-high": ("large-high", "off", "cost_usd", "Cost (dollars)"),
}
