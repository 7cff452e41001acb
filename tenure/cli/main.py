"""``tenure``: the command for people and scripts.

Thin: every command is a call of the REST API; ``simulate`` and ``config`` need no daemon.
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tenure import __version__
from tenure.cli.verb import (
    CaOption,
    Flags,
    HostOption,
    JsonFlag,
    NamespaceOption,
    QuietFlag,
    TokenOption,
    verb,
)

#: Which module has each command: as its ``app``, with verbs of its own, or as the function named.
COMMANDS = {
    "run": "run:run",
    "ps": "fleet:ps",
    "why": "fleet:why",
    "job": "jobs",
    "container": "containers",
    "service": "services",
    "batch": "batches",
    "dataset": "datasets",
    "node": "nodes",
    "cycle": "cycles",
    "top": "top:top",
    "events": "fleet:events",
    "cost": "fleet:cost",
    "energy": "energy:energy",
    "forecast": "forecasts:forecast",
    "audit": "audit:audit",
    "token": "tokens",
    "namespace": "namespaces",
    "tls": "tls",
    "config": "config",
    "simulate": "simulate",
    "version": "fleet:version",
}
#: Of these what follows the first argument is a command with options of its own.
TAKE_COMMANDS = ("run",)


class _Commands(UserDict[str, Any]):
    """The commands, each loaded when it is asked for: to load all takes longer than most calls."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _loaded(name)
        return self.data[name]


def _loaded(name: str) -> Any:
    """Return a command of the table, of typer's kind."""
    module, _, leaf = COMMANDS[name].partition(":")
    found = import_module(f"tenure.cli.{module}")
    if leaf:
        one = typer.Typer(add_completion=False)
        verb(one, name, takes_command=name in TAKE_COMMANDS)(getattr(found, leaf))
        return typer.main.get_command(one)
    group = typer.main.get_group(found.app)
    group.name = name
    return group


class _Root(TyperGroup):
    """``tenure``, with the commands of the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()


app = typer.Typer(
    name="tenure",
    cls=_Root,
    help="Orchestrate fleets of Docker hosts: deadlines, generations, costs.\n\n"
    "Exit codes: 0 done, 1 failed, 2 usage or invalid input; for plans 0 no change, 1 changes, "
    "255 error.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tenure {__version__}")
        raise typer.Exit


@app.callback()
def root(  # noqa: PLR0913 - the common options, one by one, are what typer reads
    ctx: typer.Context,
    *,
    is_json: JsonFlag = False,
    is_quiet: QuietFlag = False,
    host: HostOption = "",
    token_file: TokenOption = "",
    ca: CaOption = "",
    namespace: NamespaceOption = "",
    _is_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show this command's version."
        ),
    ] = False,
) -> None:
    """Take the common options before the verb as well as after it."""
    ctx.obj = Flags(is_json, is_quiet, host, token_file, ca, namespace)


def main() -> None:
    """Run the command line and exit with its code."""
    app()
