"""What `python -m demo` does with its arguments; exit codes 0 held, 1 not, 2 cannot start."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console

from demo import facts as recorded
from demo.checks import checks
from demo.collect import Collector
from demo.errors import DemoError
from demo.facts import Facts
from demo.follow import Follower
from demo.own import IMAGE, OwnStage
from demo.page import page
from demo.play import Play
from demo.report import print_report
from demo.stage import Stage, TestbedStage
from demo.work import work
from tenure.model.errors import TenureError
from testbed import TestbedError, check

FAILED, CANNOT, INTERRUPTED = 1, 2, 130
#: Wide enough for the tables of the report, where no terminal says how wide it is.
REPORT_COLUMNS = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _options(argv)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=REPORT_COLUMNS)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if options.facts:
            return _finish(recorded.load(options.facts), options.out, console)
        if options.config:
            return _on_own_engines(options, console)
        return _on_testbed(options, console)
    except (DemoError, TestbedError) as error:
        console.print(f"[red]The demo failed:[/] {error}", soft_wrap=True)
    except TenureError as error:
        console.print(f"[red]The demo failed:[/] {error.detail}", soft_wrap=True)
        for fault in error.fields:
            console.print(f"  {fault.path}: {fault.message}", soft_wrap=True)
        return error.exit_code
    except KeyboardInterrupt:
        console.print("Interrupted; everything is stopped.")
        return INTERRUPTED
    return FAILED


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="Run the main job of tenure on real engines."
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder of the report")
    parser.add_argument("--keep", action="store_true", help="keep everything running until Ctrl-C")
    parser.add_argument("--config", type=Path, help="a tenured.yml: run on its engines instead")
    parser.add_argument("--yes", action="store_true", help="with --config: do not ask")
    parser.add_argument("--image", default=IMAGE, help="with --config: an image with a busybox")
    parser.add_argument("--facts", type=Path, help="only write the report of an earlier facts.json")
    return parser.parse_args(argv)


def _on_testbed(options: argparse.Namespace, console: Console) -> int:
    missing = check()
    if missing:
        console.print("The demo starts Docker engines on this machine. What is missing:")
        for sentence in missing:
            console.print(f"  - {sentence}")
        console.print(
            "\nThe same run is possible on engines that you have. It asks first, switches nothing\n"
            "off, and removes what it made:\n\n  python -m demo --config tenured.yml"
        )
        return CANNOT
    options.out.mkdir(parents=True, exist_ok=True)
    console.print("Starting five Docker engines, Redis, tenured and a worker ...")
    return _play(TestbedStage(options.out), options, console)


def _on_own_engines(options: argparse.Namespace, console: Console) -> int:
    options.out.mkdir(parents=True, exist_ok=True)
    stage = OwnStage(options.config, options.out, options.image)
    console.print(stage.announcement(), soft_wrap=True, markup=False)
    if not options.yes and not _agrees():
        console.print("Nothing was done.")
        return CANNOT
    return _play(stage, options, console)


def _agrees() -> bool:
    if not sys.stdin.isatty():
        print("Say --yes to agree without a terminal.")
        return False
    return input("Go on? [y/N] ").strip().lower() in ("y", "yes")


def _play(
    context: AbstractContextManager[Stage], options: argparse.Namespace, console: Console
) -> int:
    begun = time.monotonic()
    with context as stage:
        setup_s = time.monotonic() - begun
        console.print(f"Ready after {setup_s:.1f} s: {stage.tenured.url}\n", soft_wrap=True)
        tasks = work(stage.terms)
        with Follower(stage.tenured.client, console) as follower:
            played = Play(stage, tasks, follower).run()
        found = Collector(stage, tasks, played).facts(setup_s=setup_s)
        recorded.save(found, options.out / "facts.json")
        status = _finish(found, options.out, console)
        if options.keep:
            _keep(stage, console)
    console.print(f"Everything is stopped, {time.monotonic() - begun:.0f} s after the begin.")
    return status


def _finish(found: Facts, out: Path, console: Console) -> int:
    """Print the report, write it as text and page; returns the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    held = checks(found)
    console.print()
    print_report(found, held, console)
    with (out / "report.txt").open("w") as file:
        print_report(found, held, Console(file=file, width=REPORT_COLUMNS, highlight=False))
    (out / "report.html").write_text(page(found, held))
    console.print(f"The report is in {out / 'report.html'} and {out / 'report.txt'}.")
    return 0 if all(one.is_held for one in held) else FAILED


def _keep(stage: Stage, console: Console) -> None:
    console.print(
        f"\nEverything keeps running. In another terminal:\n\n"
        f"  export TENURE_HOST={stage.tenured.url}\n"
        f"  .venv/bin/tenure node ls\n\n"
        f"Ctrl-C stops everything.",
        soft_wrap=True,
    )
    try:
        while True:
            stage.tenured.require_alive()
            time.sleep(1.0)
    except KeyboardInterrupt:
        console.print("Stopping.")
