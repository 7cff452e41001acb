"""`python -m reproductions trident`: section 7 of the Trident paper, simulated again."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from reproductions import ROOT
from reproductions.trident.page import page
from reproductions.trident.runs import SEEDS, study
from reproductions.trident.words import NAME
from reproductions.trident.workload import JOBS
from tenure.model.errors import TenureError

DOCUMENT = ROOT / "docs/reproduction-trident.md"
FAILED, USAGE = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate everything and show or write the page; returns the exit code."""
    options = _parser().parse_args(argv)
    if options.write and options.quick:
        print("--write needs all of it: leave out --quick", file=sys.stderr)
        return USAGE
    seeds, jobs = (SEEDS[:1], 60) if options.quick else (SEEDS, JOBS)
    try:
        text = page(study(options.data, seeds, jobs))
        if options.write:
            DOCUMENT.write_text(text)
    except (TenureError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED
    if not options.write:
        print(text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m reproductions {NAME}", description=__doc__)
    data = os.environ.get("TENURE_DATA")
    words = "folder with fb2009_0.csv.gz and fb2010_paths_0.csv.gz (TENURE_DATA)"
    parser.add_argument("--data", type=Path, default=data, required=not data, help=words)
    parser.add_argument("--quick", action="store_true", help="few jobs: shows that it works")
    parser.add_argument("--write", action="store_true", help=f"into docs/{DOCUMENT.name}")
    return parser
