"""The ``tenured`` command: run (default), worker, agent, ready, backup, restore, check."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tenure import __version__
from tenure.cli import agent, state
from tenure.cli.configured import settings_of
from tenure.cli.logs import log_to_stderr
from tenure.model.errors import TenureError

if TYPE_CHECKING:
    from tenure.config.settings import Settings


CONFIG_HELP = "tenured.yml (else TENURE_CONFIG, else /etc/tenure/tenured.yml if it is there)"
#: A daemon that does not answer a health check for so long is not well.
READY_S = 4.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the daemon or a worker; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        return int(options.work(options))
    except TenureError as error:
        for field in error.fields:
            print(f"{field.path}: {field.message}", file=sys.stderr)
        print(f"tenured: {error.detail}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tenured", description="The tenure daemon: holds the state, drives the engines."
    )
    parser.add_argument("--version", action="version", version=f"tenured {__version__}")
    parser.set_defaults(work=_run, config=None, is_new=False)
    verbs = parser.add_subparsers(metavar="run|worker|agent|ready|backup|restore|check")
    run = verbs.add_parser("run", help="start the daemon (the default)")
    run.add_argument("--config", type=Path, help=CONFIG_HELP)
    run.add_argument(
        "--new",
        action="store_true",
        dest="is_new",
        help="begin anew where state.db is missing beside other files of a daemon",
    )
    run.set_defaults(work=_run)
    worker = verbs.add_parser("worker", help="take cycles from Redis and plan them")
    worker.add_argument("--config", type=Path, help=CONFIG_HELP)
    worker.add_argument("--host", help="the daemon's address (default: the configured listener)")
    worker.add_argument(
        "--token-file",
        type=Path,
        help="a token of role worker (default: the configured token_file)",
    )
    worker.set_defaults(work=_worker)
    agent.add_verb(verbs)
    ready = verbs.add_parser("ready", help="exit 0 if the daemon serves, for health checks")
    ready.add_argument("--config", type=Path, help="tenured.yml, for the address in it")
    ready.add_argument("--host", help="the daemon's address (else TENURE_HOST, else its socket)")
    ready.set_defaults(work=_ready)
    state.add_verbs(verbs)
    parser.add_argument("--config", type=Path, help=argparse.SUPPRESS)
    return parser


def _run(options: argparse.Namespace) -> int:
    from tenure.daemon.events.garbage import undisturbed

    with undisturbed():
        from tenure.daemon.app import Daemon
        from tenure.daemon.events.held import HeldTimes, timed_loop

        settings = settings_of(options.config)
    log_to_stderr(settings.log.level, is_json=settings.log.is_json)
    held = HeldTimes()
    with asyncio.Runner(loop_factory=partial(timed_loop, held)) as runner:
        return runner.run(Daemon(settings, held, is_new=options.is_new).run())


def _worker(options: argparse.Namespace) -> int:
    from tenure.cli.worker import work
    from tenure.client.target import read_token
    from tenure.config.token import ensure_token
    from tenure.model.errors import InvalidInput

    settings = settings_of(options.config)
    log_to_stderr(settings.log.level, is_json=settings.log.is_json)
    if not settings.redis.url:
        raise InvalidInput(
            "redis.url is not set: the embedded Redis has an embedded worker of its own; "
            "set redis.url in the configuration of daemon and worker to share one"
        )
    host = options.host or _own_address(settings)
    # a socket tells who asks, and the file is the daemon's to make
    if options.token_file is not None:
        token = read_token(options.token_file)
    else:
        token = "" if host.startswith("unix:") else ensure_token(settings.token_file)
    return work(settings.redis.url, host, token)


def _ready(options: argparse.Namespace) -> int:
    from tenure.client.client import Client
    from tenure.client.target import discover
    from tenure.config.certificates import client_context

    host = options.host or ""
    if options.config is not None and not host:
        host = _own_address(settings_of(options.config))
    target = discover(host, env=os.environ, make_context=client_context)
    health = Client(target, timeout_s=READY_S).readyz()
    for part, why in health.get("degraded", {}).items():
        print(f"degraded: {part}: {why}")
    print("ready")
    return 0


def _own_address(settings: Settings) -> str:
    """Return where this machine reaches its daemon: plain listeners before those with TLS."""
    return sorted(settings.listen, key=lambda listener: listener.is_tls)[0].url


if __name__ == "__main__":
    sys.exit(main())
