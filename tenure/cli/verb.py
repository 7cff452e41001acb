"""What all commands share: the common options, the daemon's client, errors and exit codes."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, get_type_hints

import typer

from tenure.cli.output import Column, Output
from tenure.client.client import Client
from tenure.client.target import discover
from tenure.config.certificates import client_context
from tenure.model.errors import FieldError, InvalidInput, TenureError, Unavailable
from tenure.model.jsons import Json

#: Bridges the moment in which a daemon restarts; longer, and a person would wonder.
PATIENCE_S = 0.5
INTERRUPTED = 130
PANEL = "Common options"

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=PANEL)]
QuietFlag = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print only ids, no messages.", rich_help_panel=PANEL),
]
HostOption = Annotated[
    str,
    typer.Option(
        help="The daemon: unix:///path, tcp://host:port or https://host:port (else TENURE_HOST, "
        "else its socket).",
        rich_help_panel=PANEL,
    ),
]
TokenOption = Annotated[
    str,
    typer.Option(
        help="File that holds the token for TCP (else TENURE_TOKEN).", rich_help_panel=PANEL
    ),
]

CaOption = Annotated[
    str,
    typer.Option(
        help="File of the authority behind https:// (else TENURE_CA, else the system's).",
        rich_help_panel=PANEL,
    ),
]
NamespaceOption = Annotated[
    str,
    typer.Option(
        help="Whose it is that is submitted, or listed alone (else TENURE_NAMESPACE).",
        rich_help_panel=PANEL,
    ),
]


@dataclass(frozen=True, slots=True)
class Flags:
    """The common options, given before or after the verb."""

    is_json: bool = False
    is_quiet: bool = False
    host: str = ""
    token_file: str = ""
    ca: str = ""
    namespace: str = ""

    def merged(self, other: Flags) -> Flags:
        """Return these flags with what ``other`` states on top."""
        return Flags(
            self.is_json or other.is_json,
            self.is_quiet or other.is_quiet,
            other.host or self.host,
            other.token_file or self.token_file,
            other.ca or self.ca,
            other.namespace or self.namespace,
        )


class Session:
    """One invocation: its output and, when needed, the daemon."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        self.out = Output(is_json=flags.is_json, is_quiet=flags.is_quiet)

    @cached_property
    def client(self) -> Client:
        """Return the client of the daemon that the flags and the environment name."""
        return self.client_with(PATIENCE_S)

    def client_with(self, patience_s: float) -> Client:
        """Return a client that bears the daemon's absence for ``patience_s``."""
        target = discover(
            self.flags.host,
            self.flags.token_file,
            env=os.environ,
            ca_file=self.flags.ca,
            make_context=client_context,
        )
        namespace = self.flags.namespace or os.environ.get("TENURE_NAMESPACE", "")
        return Client(target, patience_s=patience_s, namespace=namespace)

    def each(
        self,
        refs: Sequence[str],
        call: Callable[[str], Json],
        columns: Sequence[Column],
        *,
        key: str = "id",
    ) -> int:
        """Print what a call says of each of several; return the exit code, the worst of them.

        One that is refused is told on stderr, and the others are done all the same. Not so where
        there is no answer: the others would have none either.
        """
        rows: list[Json] = []
        code = 0
        for ref in refs:
            try:
                rows.append(call(ref))
            except Unavailable as error:
                self.out.error(error)
                code = max(code, error.exit_code)
                break
            except TenureError as error:
                self.out.error(error)
                code = max(code, error.exit_code)
        if rows:
            self.out.rows(rows, columns, key=key)
        return code


Verb = Callable[..., int | None]
_COMMON = {
    "is_json": (JsonFlag, False),
    "is_quiet": (QuietFlag, False),
    "host": (HostOption, ""),
    "token_file": (TokenOption, ""),
    "ca": (CaOption, ""),
    "namespace": (NamespaceOption, ""),
}


def verb(
    app: typer.Typer,
    name: str,
    *,
    error_code: int | None = None,
    was: str = "",
    takes_command: bool = False,
) -> Callable[[Verb], Verb]:
    """Register a command: its function takes a Session and its own options, returns an exit code.

    The common options are added. A TenureError becomes a message and its exit code, or
    ``error_code`` where a command's codes mean something of their own. ``was`` is the name that it
    had one version before, which does the same and is not shown. ``takes_command``: what stands
    behind its first argument is a command with options of its own.
    """
    settings = {"allow_interspersed_args": not takes_command}

    def register(function: Verb) -> Verb:
        app.command(name, context_settings=settings)(_with_common(function, error_code))
        if was:
            app.command(was, hidden=True)(_with_common(function, error_code))
        return function

    return register


@dataclass(frozen=True, slots=True)
class Noun:
    """Records of one kind: how a table shows them, and what its commands take.

    ``key`` names them in scripts; ``word`` and ``help`` are those of the argument.
    """

    app: typer.Typer
    columns: Sequence[Column]
    word: str = ""
    help: str = "Ids or names."
    key: str = "id"

    def listing(
        self, names: str, call: Callable[[Client], list[Json]], text: str, *, was: str = ""
    ) -> None:
        """Register a command that lists them, under one or several names, and as it ``was``."""

        def ls(session: Session) -> None:
            session.out.rows(call(session.client), self.columns, key=self.key)

        self._add(names, ls, text, was)

    def each(self, names: str, call: Callable[[Client, str], Json], text: str) -> None:
        """Register a command that does something with each of several."""

        def change(session: Session, refs: list[str]) -> int:
            return session.each(
                refs, functools.partial(call, session.client), self.columns, key=self.key
            )

        argument = typer.Argument(help=self.help, metavar=f"{self.word}...")
        change.__annotations__["refs"] = Annotated[list[str], argument]
        self._add(names, change, text)

    def _add(self, names: str, function: Verb, text: str, was: str = "") -> None:
        function.__doc__ = text
        for name in names.split():
            verb(self.app, name, was=was)(function)


def group_verb(app: typer.Typer) -> Callable[[Verb], Verb]:
    """Register what a group of commands does when it is called without one of them.

    Its own options are refused before a command of the group; the common ones are handed on.
    """

    def register(function: Verb) -> Verb:
        app.callback(invoke_without_command=True)(_with_common(function, None))
        return function

    return register


def _with_common(function: Verb, error_code: int | None) -> Callable[..., None]:
    @functools.wraps(function)
    def run(ctx: typer.Context, **given: Any) -> None:
        flags = Flags(**{option: given.pop(option) for option in _COMMON})
        outer = ctx.obj if isinstance(ctx.obj, Flags) else Flags()
        ctx.obj = outer.merged(flags)
        session = Session(ctx.obj)
        if ctx.invoked_subcommand is not None:
            code = _guarded(_refuse_early, session, {"ctx": ctx, "names": list(given)}, None)
        else:
            code = _guarded(function, session, given, error_code)
        if code:
            raise typer.Exit(code)

    signature = _signature(function)
    vars(run)["__signature__"] = signature
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return run


def _refuse_early(session: Session, *, ctx: typer.Context, names: list[str]) -> None:
    """Refuse options of a group that stand before one of its commands, which would not see them."""
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = next(p.opts[0] for p in ctx.command.params if p.name == name)
            words = f"belongs after {ctx.invoked_subcommand}"
            raise InvalidInput(f"{option} {words}", fields=(FieldError(option, words),))


def _guarded(function: Verb, session: Session, given: Json, error_code: int | None) -> int:
    try:
        return function(session, **given) or 0
    except TenureError as error:
        session.out.error(error)
        return error.exit_code if error_code is None else error_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _signature(function: Verb) -> inspect.Signature:
    """Return the signature of a verb with the session taken off and the common options added."""
    hints = get_type_hints(function, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("ctx", kind, annotation=typer.Context)]
    parameters += [p.replace(kind=kind, annotation=hints[p.name]) for p in own]
    parameters += [
        inspect.Parameter(name, kind, annotation=annotation, default=default)
        for name, (annotation, default) in _COMMON.items()
    ]
    return inspect.Signature(parameters)
