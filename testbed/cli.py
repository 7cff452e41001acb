"""The command line: up, down, power, status, check."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

EXIT_OFF = 3
"""What `power status` and `status` exit with for a node that is off, as `systemctl status`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 usage, 3 the node is off."""
    from testbed.errors import TestbedError

    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m testbed", description="Real Docker engines.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start engines, print tenured.yml, wait for SIGINT")
    up.add_argument("--nodes", type=int, default=4, help="how many of the default nodes")
    up.add_argument("--spec", type=Path, help="JSON list of nodes instead of the default ones")
    up.add_argument("--dir", type=Path, help="folder to keep; without it a temporary one")
    up.add_argument(
        "--no-live-restore", action="store_true", help="an engine's end ends containers"
    )
    up.add_argument(
        "--lend",
        type=Path,
        nargs="+",
        metavar="INPUTS",
        help="nodes that lend to batches, with agents and tiers; folders of their inputs",
    )
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="take a testbed away, whoever owns it")
    which = down.add_mutually_exclusive_group(required=True)
    which.add_argument("--dir", type=Path, help="the testbed's folder")
    which.add_argument("--all", action="store_true", help="all testbeds whose owner is dead")
    down.set_defaults(run=_down)
    power = commands.add_parser("power", help="switch a node; status: exit 0 on, 3 off")
    power.add_argument("action", choices=("on", "off", "status"))
    power.add_argument("node")
    power.add_argument("--dir", type=Path, required=True, help="the testbed's folder")
    power.set_defaults(run=_power)
    status = commands.add_parser("status", help="print each node's power and engine URL")
    status.add_argument("--dir", type=Path, required=True, help="the testbed's folder")
    status.set_defaults(run=_status)
    check = commands.add_parser("check", help="print what this machine lacks; exit 1 if anything")
    check.set_defaults(run=_check)
    watch = commands.add_parser("watch")  # internal: the watchdog process
    watch.add_argument("fd", type=int)
    watch.add_argument("owner", type=int)
    watch.add_argument("--dir", type=Path, required=True)
    watch.set_defaults(run=_watch)
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _up(arguments: argparse.Namespace) -> int:
    from testbed import config, lend
    from testbed.bed import Testbed
    from testbed.spec import default_specs, load_specs

    if arguments.lend:
        lend.require()
    usual = lend.specs if arguments.lend else default_specs
    specs = load_specs(arguments.spec) if arguments.spec else usual(arguments.nodes)
    bed = Testbed(specs, arguments.dir, live_restore=not arguments.no_live_restore)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    _say(f"starting {len(specs)} nodes (the first start fetches the engine's packages)")
    began = time.monotonic()
    with bed:
        given = config.config(bed.layout)
        if arguments.lend:
            lend.begin(bed.layout)
            given = lend.config(bed.layout, given, arguments.lend)
            config.write(bed.layout, given)
        _say(f"ready after {time.monotonic() - began:.1f} s in {bed.directory}")
        print(config.to_yaml(given), end="", flush=True)
        ended.wait()
        _say("stopping")
    return 0


def _down(arguments: argparse.Namespace) -> int:
    from testbed import registry
    from testbed.cleanup import clean, clean_unowned

    if arguments.all:
        for index, folder in registry.unowned():
            clean_unowned(index, folder)
            _say(f"{folder}: clean")
        return 0
    clean(arguments.dir)
    _say(f"{arguments.dir}: clean")
    return 0


def _power(arguments: argparse.Namespace) -> int:
    from testbed.layout import load

    layout = load(arguments.dir)
    if arguments.action == "status":
        is_on = layout.is_on(arguments.node)
        print("on" if is_on else "off")
        return 0 if is_on else EXIT_OFF
    from testbed import power

    if arguments.action == "on":
        power.on(layout, arguments.node, issued_us=power.process_begun_us())
    else:
        power.off(layout, arguments.node)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from testbed.layout import load

    layout = load(arguments.dir)
    for spec in layout.specs:
        state = "on" if layout.is_on(spec.name) else "off"
        print(spec.name, state, layout.url(spec.name), sep="\t")
    return 0


def _check(_arguments: argparse.Namespace) -> int:
    from testbed.prerequisites import check

    missing = check()
    for sentence in missing:
        print(sentence)
    return 1 if missing else 0


def _watch(arguments: argparse.Namespace) -> int:
    from testbed.watchdog import watch

    watch(arguments.dir, arguments.fd, arguments.owner)
    return 0
