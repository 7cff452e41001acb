"""``tenure node``: the machines of the fleet."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tenure.cli.output import Column, ago, size, usd
from tenure.cli.verb import Session, verb
from tenure.model.errors import InvalidInput

app = typer.Typer(help="Nodes: list, inspect, cordon, switch, fence.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The node's name.", metavar="NODE")]
Names = Annotated[list[str], typer.Argument(help="Names of nodes.", metavar="NODE...")]


def _use(node: dict[str, Any]) -> str:
    return f"{node['requested']['cpus']:g}/{node['capacity']['cpus']:g}"


def _memory(node: dict[str, Any]) -> str:
    return f"{size(node['requested']['memory_bytes'])}/{size(node['capacity']['memory_bytes'])}"


COLUMNS: list[Column] = [
    ("NAME", lambda n: n["name"]),
    ("STATE", lambda n: n["state"]),
    ("GENERATION", lambda n: n["generation"]),
    ("SITE", lambda n: n["site"]),
    ("CPUS", _use),
    ("MEMORY", _memory),
    ("EXECUTORS", lambda n: n["executors"]),
    ("CONTAINERS", lambda n: n["containers"]),
    ("PRICE/H", lambda n: usd(n["price_usd_per_h"])),
]
LINES: list[Column] = [
    ("name", lambda n: n["name"]),
    ("state", lambda n: n["state"]),
    ("power", lambda n: n["power"]),
    ("reach", lambda n: n["reach"]),
    ("scheduling", lambda n: n["scheduling"]),
    ("note", lambda n: n["note"]),
    ("engine", lambda n: n["url"]),
    ("generation", lambda n: n["generation"]),
    ("site", lambda n: n["site"]),
    ("rack", lambda n: n["rack"]),
    ("labels", lambda n: n["labels"]),
    ("cpus", lambda n: f"{_use(n)} requested"),
    ("memory", lambda n: f"{_memory(n)} requested"),
    ("executors", lambda n: n["executors"]),
    ("containers", lambda n: n["containers"]),
    ("foreign", lambda n: f"{n['foreign_containers']} containers that are not tenure's"),
    ("price per hour", lambda n: usd(n["price_usd_per_h"])),
    ("power driver", lambda n: n["power_driver"]),
    ("idle", lambda n: ago(n["idle_since"]) if n["idle_since"] else None),
    ("unreachable", lambda n: ago(n["unreachable_since"]) if n["unreachable_since"] else None),
]


@verb(app, "ls")
def ls(session: Session) -> None:
    """List the nodes: what is requested of each, and its state."""
    session.out.rows(session.client.nodes(), COLUMNS, key="name")


@verb(app, "inspect")
def inspect(session: Session, node: Name) -> None:
    """Show one node."""
    session.out.record(session.client.node(node), LINES, key="name")


@verb(app, "cordon")
def cordon(session: Session, nodes: Names) -> None:
    """Place no new work on nodes; what runs there goes on."""
    _schedule(session, nodes, "cordoned")


@verb(app, "uncordon")
def uncordon(session: Session, nodes: Names) -> None:
    """Place new work on nodes again."""
    _schedule(session, nodes, "yes")


def _schedule(session: Session, nodes: list[str], to: str) -> None:
    changed = [session.client.schedule_node(node, to) for node in nodes]
    session.out.rows(changed, COLUMNS, key="name")


@verb(app, "power")
def power(
    session: Session,
    node: Name,
    to: Annotated[str, typer.Argument(help="on or off.", metavar="on|off")],
) -> None:
    """Switch a node on or off; off is refused unless it is empty."""
    if to not in ("on", "off"):
        raise InvalidInput(f"say on or off, not {to!r}")
    session.out.rows([session.client.power_node(node, to)], COLUMNS, key="name")


@verb(app, "fence")
def fence(
    session: Session,
    node: Name,
    *,
    is_sure: Annotated[
        bool, typer.Option("--yes", help="Yes, nothing runs there any more.")
    ] = False,
) -> None:
    """Declare that nothing runs on an unreachable node any more.

    Its executors are then started elsewhere. If it still runs, they run twice.
    """
    if not is_sure:
        raise InvalidInput(
            f"fencing says that nothing runs on {node} any more; make sure, then add --yes"
        )
    session.out.rows([session.client.fence_node(node)], COLUMNS, key="name")
