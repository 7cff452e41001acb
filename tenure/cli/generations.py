"""``tenure simulate generations``: GENPACK's experiments."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tenure.cli.output import columns
from tenure.cli.verb import Session
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.jsons import Json

TRACE = "borg2011_tasks_12h.csv.gz"
#: A repetition at the highest load takes four of the hundred buckets.
MAX_REPETITIONS = 25

SCENARIO = columns(
    "strategy",
    ("HOSTS FOR 12", "twelve"),
    ("OF THEM ON 3", "twelve_on_three"),
    ("HOSTS FOR 20", "twenty"),
)
ROWS = columns(
    "used",
    ("LOAD", lambda r: f"x{r['load']}"),
    "strategy",
    ("KWH", lambda r: f"{r['kwh']:.2f}"),
    ("SAVED", lambda r: f"{r['saved_always_on']:.1%}"),
    ("VS SPREAD", lambda r: f"{r['saved_spread']:.1%}"),
    ("BOOTS", lambda r: f"{r['boots']:.0f}"),
    ("MOVES", lambda r: f"{r['moves']:.0f}"),
    ("MEAN S", lambda r: f"{r['completion_s']:.0f}"),
)
VARIANTS = columns(
    "parameter value",
    ("KWH X1", lambda r: f"{r['kwh_1']:.2f}"),
    ("KWH X4", lambda r: f"{r['kwh_4']:.2f}"),
)


def generations(  # noqa: PLR0913 - the options, one by one, are what typer reads
    session: Session,
    *,
    tasks: Annotated[
        str,
        typer.Option(help=f"CSV of the Borg trace's tasks; {TRACE} in TENURE_DATA by default."),
    ] = "",
    repetitions: Annotated[
        int, typer.Option(min=1, max=MAX_REPETITIONS, help="Disjoint samples of the trace.")
    ] = 3,
    hours: Annotated[float, typer.Option(min=0.1, max=12, help="Of the trace.")] = 12,
    is_sensitive: Annotated[
        bool, typer.Option("--sensitivity", help="Vary the parameters of ours too.")
    ] = False,
    plot: Annotated[str, typer.Option(help="Write plots into this folder, as PNG and SVG.")] = "",
    document: Annotated[str, typer.Option(help="Write the page with all tables here.")] = "",
) -> None:
    """Replay GENPACK's experiments: machines needed, energy, migrations, completion times.

    Without the trace only the experiments of its section 3 are run. `docs/reproduction-genpack.md`
    is written by this command.
    """
    from tenure.simulation.generations import scenario

    path = _trace(tasks)
    study: Json = {"scenario": scenario.table(), "rows": [], "idle": []}
    study |= {"sensitivity": [], "repetitions": repetitions, "hours": hours}
    if path is None:
        if plot or document:
            what = "is needed for plots and the document"
            raise InvalidInput(f"--tasks {what}", fields=(FieldError("--tasks", what),))
        session.out.note("no trace: --tasks or TENURE_DATA names it; section 3 alone was run")
    else:
        _replay(session, path, study, (is_sensitive, plot, document))
    session.out.data(study, lambda found: _render(session, found))


def _trace(stated: str) -> Path | None:
    if stated:
        return Path(stated)
    folder = os.environ.get("TENURE_DATA")
    found = Path(folder) / TRACE if folder else None
    return found if found is not None and found.is_file() else None


def _replay(session: Session, path: Path, study: Json, wanted: tuple[bool, str, str]) -> None:
    """Fill ``study`` with the replay of the trace, and write what is ``wanted`` of it."""
    from tenure.simulation.generations.study import Study, idle_shares

    is_sensitive, plot, document = wanted
    if plot:
        from tenure.simulation.sla.plots import require

        require()
    made = Study(path, study["repetitions"], study["hours"])
    study["rows"], outcomes = made.compare(session.out.note)
    study["idle"] = idle_shares(outcomes)
    if is_sensitive:
        study["sensitivity"] = made.sensitivity(session.out.note)
    pictures: list[str] = []
    if plot:
        from tenure.simulation.generations.plots import plots_of
        from tenure.simulation.sla import plots

        files = plots.write(plots_of(study["rows"], outcomes), Path(plot))
        pictures = [os.path.relpath(f, Path(document or ".").parent) for f in files]
    if document:
        from tenure.simulation.generations.document import written
        from tenure.simulation.sla.tables import unwritable

        svg = [name for name in pictures if name.endswith(".svg")]
        try:
            Path(document).write_text(written(study, _command(path), svg), encoding="utf-8")
        except OSError as error:
            raise unwritable(Path(document), error) from None


def _command(path: Path) -> str:
    """Return the command that was run, the trace by its name alone: folders differ."""
    words = [path.name if word == str(path) else word for word in sys.argv[1:]]
    words = [word for word in words if word not in ("--json", "--quiet", "-q")]
    return shlex.join(["tenure", *words])


def _render(session: Session, study: Json) -> None:
    session.out.table(study["scenario"], SCENARIO)
    if study["rows"]:
        session.out.table(study["rows"], ROWS)
    if study["sensitivity"]:
        session.out.table(study["sensitivity"], VARIANTS)
