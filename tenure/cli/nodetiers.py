"""``tenure node tier``: the storage tiers of a node."""

from __future__ import annotations

from typing import Annotated

import typer

from tenure.cli.output import ago, columns, size
from tenure.cli.verb import Session, verb

app = typer.Typer(
    help="The storage tiers of a node: list them, accept a disk that was replaced.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The node's name.", metavar="NODE")]
COLUMNS = columns(
    "name kind",
    ("USED", lambda t: f"{size(t['used_bytes'])}/{size(t['capacity_bytes'])}"),
    "blocks",
    ("READS", lambda t: f"{size(t['bytes_per_s'])}/s" if t["bytes_per_s"] else ""),
    ("LOOKED AT", lambda t: ago(t["surveyed_at"]) if t["surveyed_at"] else ""),
    "path fault",
)


@verb(app, "ls")
def ls(session: Session, node: Name) -> None:
    """List the tiers of a node: what is kept there, how fast they are read, what ails them."""
    session.out.rows(session.client.node(node)["tiers"], COLUMNS, key="name")


@verb(app, "accept")
def accept(
    session: Session,
    node: Name,
    tier: Annotated[str, typer.Argument(help="The tier's name.", metavar="TIER")],
    *,
    gives_up: Annotated[
        bool, typer.Option("--give-up", help="Also where blocks can be read nowhere else now.")
    ] = False,
) -> None:
    """Say that the disk of a tier was replaced for good: what it lacks is copied anew.

    Not needed where the old disk comes back: it is found by the next look, twice a minute.
    """
    found = session.client.accept_tier(node, tier, gives_up=gives_up)
    session.out.rows([found], COLUMNS, key="name")
