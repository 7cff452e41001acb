"""``tenure node``: the machines of the fleet."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from tenure.cli import draining, nodeagent, nodetiers
from tenure.cli.output import ago, columns, lines, size, usd
from tenure.cli.verb import Noun, Session, verb
from tenure.client.client import Client
from tenure.model.errors import InvalidInput
from tenure.model.jsons import Json

app = typer.Typer(
    help="Nodes: list, inspect, cordon, drain, maintain, switch, fence; their agents and tiers.",
    no_args_is_help=True,
)
app.add_typer(nodeagent.app, name="agent")
app.add_typer(nodetiers.app, name="tier")

Name = Annotated[str, typer.Argument(help="The node's name.", metavar="NODE")]
Why = Annotated[str, typer.Option("--reason", help="Why; shown with the node.")]
Names = Annotated[list[str], typer.Argument(help="Names of nodes.", metavar="NODE...")]
Version = Annotated[
    int | None,
    typer.Option("--if-version", min=0, help="Only if the node has this version (see inspect)."),
]


def _use(node: Json) -> str:
    return f"{node['requested']['cpus']:g}/{node['capacity']['cpus']:g}"


def _memory(node: Json) -> str:
    return f"{size(node['requested']['memory_bytes'])}/{size(node['capacity']['memory_bytes'])}"


def _why(node: Json) -> str:
    """Return why a node takes no new work, and what its state hides of that."""
    is_hidden = node["is_in_maintenance"] and node["state"] != "maintenance"
    words = ["maintenance"] if is_hidden else []
    return ": ".join([*words, node["reason"]] if node["reason"] else words)


COLUMNS = columns(
    "name state generation site",
    ("CPUS", _use),
    ("MEMORY", _memory),
    "executors containers",
    ("PRICE/H", "price_usd_per_h", usd),
    ("REASON", _why),
)
LINES = lines(
    "name state power reach scheduling",
    ("maintenance", lambda n: "yes" if n["is_in_maintenance"] else None),
    "reason note",
    ("engine", "url"),
    "generation site rack labels",
    ("cpus", lambda n: f"{_use(n)} requested"),
    ("memory", lambda n: f"{_memory(n)} requested"),
    "executors containers",
    ("foreign", lambda n: f"{n['foreign_containers']} containers that are not tenure's"),
    ("price per hour", "price_usd_per_h", usd),
    "power_driver",
    ("agent", lambda n: _agent(n.get("agent"))),
    ("harvest", lambda n: _harvest(n.get("harvest"))),
    ("tasks", lambda n: " ".join(f"{k}={v}" for k, v in n.get("tasks", {}).items()) or None),
    ("lends nothing", lambda n: n["objection"] if n.get("harvest") else None),
    "version",
    ("idle", lambda n: ago(n["idle_since"]) if n["idle_since"] else None),
    ("unreachable", lambda n: ago(n["unreachable_since"]) if n["unreachable_since"] else None),
)


def _agent(told: Json | None) -> str | None:
    """Say in a line whether the node's agent answers."""
    if not told:
        return None
    word = "not asked for samples yet" if told["state"] == "unheard" else told["state"]
    return f"{word}: {told['detail']}" if told["detail"] else word


def _harvest(told: Json | None) -> str | None:
    """Say in a line what is lent, and how its controller does."""
    if not told:
        return None
    if told["fault"]:
        return f"{told.get('mode', 'unknown')}; {told['fault']}"
    numbers, late = told.get("numbers", {}), told.get("lateness", {})
    quota_m = told.get("quota_m")
    shown = "none" if quota_m is None else f"{quota_m / 1000:g} cores"
    used = f"uses {numbers.get('harvest_cpu_m', 0) / 1000:g}"
    return (
        f"{told.get('mode')}; quota {shown}, {used}; {told.get('kills', 0)} tasks ended; "
        f"99 % of its looks at most {late.get('p99_us', 0) / 1000:g} ms late"
    )


NODES = Noun(app, COLUMNS, "NODE", "Names of nodes.", key="name")
NODES.listing("ls", Client.nodes, "List the nodes: what is requested of each, and its state.")


@verb(app, "inspect")
def inspect(session: Session, node: Name) -> None:
    """Show one node, with the progress of its drain and what blocks it."""
    found = session.client.node(node)
    session.out.record(found, LINES, key="name")
    if found["drain"] and not (session.out.is_json or session.out.is_quiet):
        session.out.write("")
        draining.show(session.out, found["drain"])


@verb(app, "cordon")
def cordon(session: Session, nodes: Names, *, reason: Why = "") -> int:
    """Place no new work on nodes; what runs there goes on."""
    cordoned = partial(session.client.schedule_node, to="cordoned", reason=reason)
    return session.each(nodes, cordoned, COLUMNS, key="name")


NODES.each("uncordon", partial(Client.schedule_node, to="yes"), "Place new work on nodes again.")


@verb(app, "drain")
def drain(  # noqa: PLR0913 - a command's options are what typer reads
    session: Session,
    node: Name,
    *,
    reason: Why = "",
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", min=1, help="Give up after so many seconds; the node stays cordoned."
        ),
    ] = None,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; scripts must say so.")
    ] = False,
    is_waiting: Annotated[
        bool,
        typer.Option("--wait", help="Show progress until it is over: 0 drained, 1 not."),
    ] = False,
    is_dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the plan: exit 0 no change, 1 changes, 255 error."),
    ] = False,
    is_cancelling: Annotated[
        bool, typer.Option("--cancel", help="End the drain; the node is what it was before.")
    ] = False,
) -> int:
    """Empty a node: move its containers away, wait for its executors, then keep it cordoned.

    Shows the plan and asks first. Nothing is killed: what cannot be moved is named with a remedy.
    """
    if is_dry and is_cancelling:
        raise InvalidInput("say either --dry-run or --cancel")
    if is_dry:
        return draining.plan(session, node)
    if is_cancelling:
        return draining.cancel(session, node)
    wish = draining.Wish(node, reason, timeout, is_sure=is_sure, is_waiting=is_waiting)
    return draining.drain(session, wish)


@verb(app, "maintenance")
def maintenance(
    session: Session,
    node: Name,
    to: Annotated[str, typer.Argument(help="on or off.", metavar="on|off")],
    *,
    reason: Why = "",
) -> None:
    """Begin or end maintenance: no new work, and tenure never switches the node by itself.

    What runs there goes on; drain it too if it has to be empty. Off: it takes new work again.
    """
    if to not in ("on", "off"):
        raise InvalidInput(f"say on or off, not {to!r}")
    changed = session.client.maintain_node(node, is_on=to == "on", reason=reason)
    session.out.rows([changed], COLUMNS, key="name")


@verb(app, "power")
def power(
    session: Session,
    node: Name,
    to: Annotated[str, typer.Argument(help="on or off.", metavar="on|off")],
    *,
    version: Version = None,
) -> None:
    """Switch a node on or off; off is refused unless it is empty."""
    if to not in ("on", "off"):
        raise InvalidInput(f"say on or off, not {to!r}")
    changed = session.client.power_node(node, to, version=version)
    session.out.rows([changed], COLUMNS, key="name")


@verb(app, "fence")
def fence(
    session: Session,
    node: Name,
    *,
    is_sure: Annotated[
        bool, typer.Option("--yes", help="Yes, nothing runs there any more.")
    ] = False,
    version: Version = None,
) -> None:
    """Declare that nothing runs on an unreachable node any more.

    Its executors are then started elsewhere. If it still runs, they run twice.
    """
    if not is_sure:
        raise InvalidInput(
            f"fencing says that nothing runs on {node} any more; make sure, then add --yes"
        )
    changed = session.client.fence_node(node, version=version)
    session.out.rows([changed], COLUMNS, key="name")
