"""``tenure namespace``: who holds how much, and may."""

from __future__ import annotations

from collections.abc import Callable

import typer

from tenure.cli.output import columns, size
from tenure.cli.verb import Noun
from tenure.client.client import Client
from tenure.model.jsons import Json

app = typer.Typer(help="Namespaces: what they hold, and may hold.", no_args_is_help=True)


def _of(name: str, text: Callable[[int], str] = str) -> Callable[[Json], str]:
    """Return how an amount is shown: held / quota, held alone where there is none."""

    def shown(row: Json) -> str:
        held, quota = row["held"][name], row["quota"][name]
        return text(held) if quota is None else f"{text(held)} / {text(quota)}"

    return shown


COLUMNS = columns(
    "name",
    *((name.upper(), _of(name)) for name in ("jobs", "containers", "batches", "tasks", "services")),
    ("CPUS", _of("cpus", lambda cpus: f"{cpus:g}")),
    ("MEMORY", _of("memory_bytes", size)),
    ("DATASETS", _of("dataset_bytes", size)),
    ("OUTPUTS", _of("output_bytes", size)),
    ("UPLOADS", _of("upload_bytes", size)),
)
NAMESPACES = Noun(app, COLUMNS, key="name")
NAMESPACES.listing("ls", Client.namespaces, "List the namespaces: what is held / the quota.")
