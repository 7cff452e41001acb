"""``tenure config``: check a configuration, or make one of GENPACK's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.verb import Session, verb
from tenure.model.errors import FieldError, InvalidInput

app = typer.Typer(help="The daemon's configuration.", no_args_is_help=True)


@verb(app, "validate")
def validate(
    session: Session,
    file: Annotated[
        Path | None, typer.Argument(help="tenured.yml; the defaults without one.", metavar="FILE")
    ] = None,
) -> int:
    """Check a configuration and list every fault with its path."""
    from tenure.config.load import validate as faults_of

    faults = faults_of(file, os.environ)
    if not faults:
        session.out.data({"faults": []}, lambda _: session.out.note("the configuration is valid"))
        return 0
    rows = [{"field": fault.path, "message": fault.message} for fault in faults]
    if session.out.is_json:
        session.out.data({"faults": rows}, lambda _: None)
        return InvalidInput.exit_code
    raise InvalidInput(_count(faults, file), fields=tuple(faults))


def _count(faults: Sequence[FieldError], file: Path | None) -> str:
    where = file.name if file is not None else "the configuration"
    if len(faults) == 1:
        return f"{where}: {faults[0].path}: {faults[0].message}"
    return f"{where} has {len(faults)} faults"


@verb(app, "import-genpack")
def import_genpack(
    session: Session,
    files: Annotated[
        list[Path],
        typer.Argument(help="GENPACK's config.yml, of one or both tools.", metavar="FILE"),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write it here, and what ssh needs beside it.")
    ] = None,
) -> None:
    """Turn GENPACK's configuration (Listings 8.1 and 8.2) into a tenured.yml."""
    from tenure.config.genpack import SSH_CONFIG
    from tenure.config.genpack import import_genpack as imported

    made = imported(files)
    if made.ssh_config and out is None:
        what = "is needed: the hosts are behind a proxy, which takes an ssh_config beside the file"
        raise InvalidInput(f"--out {what}", fields=(FieldError("--out", what),))
    answer = {"tenured_yml": made.text, "ssh_config": made.ssh_config, "notes": list(made.notes)}
    if out is not None:
        _write_new(out, made.text)
        if made.ssh_config:
            _write_new(out.with_name(SSH_CONFIG), made.ssh_config)
    session.out.data(answer, lambda _: None if out else session.out.write(made.text.rstrip("\n")))
    for note in made.notes:
        session.out.note(note)


def _write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet: nobody's configuration is overwritten."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        what = f"{path} exists; name another file"
        raise InvalidInput(what, fields=(FieldError("--out", what),)) from None
    except OSError as error:
        what = f"{path}: {error.strerror}"
        raise InvalidInput(what, fields=(FieldError("--out", what),)) from error
