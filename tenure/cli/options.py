"""Options and arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

#: A waiting command outlives a restart of the daemon.
WAIT_PATIENCE_S = 120.0
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Wait for at most so many seconds.")
]
States = Annotated[str, typer.Option(help="Only these states, separated by commas.")]
AlsoOver = Annotated[bool, typer.Option("--all", "-a", help="Also those over.")]
Following = Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows.")]
Tail = Annotated[int | None, typer.Option(min=0, help="Only the last lines.")]
File = Annotated[str, typer.Argument(help="YAML or JSON, - for stdin; several documents allowed.")]
