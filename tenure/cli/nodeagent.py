"""``tenure node agent``: the agent's container on a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tenure.cli import agentsite
from tenure.cli.agentsite import Wish
from tenure.cli.output import ago, lines, size
from tenure.cli.verb import Session, verb
from tenure.model.errors import InvalidInput, TenureError
from tenure.model.jsons import Json

if TYPE_CHECKING:
    from tenure.engines.containers.agent import AgentPlan
    from tenure.engines.engine import Engine

app = typer.Typer(
    help="The agent of a node: install it as a container, look at it, remove it. Run where the "
    "daemon's configuration is.",
    no_args_is_help=True,
)

IMAGE = "tenure:latest"
NO_CHANGE, CHANGES, FAILED, PLAN_ERROR = 0, 1, 1, 255

Name = Annotated[str, typer.Argument(help="The node's name in the configuration.", metavar="NODE")]
Config = Annotated[
    Path | None,
    typer.Option(
        help="tenured.yml (else TENURE_CONFIG, else /etc/tenure/tenured.yml if it is there).",
        show_default=False,
    ),
]
LINES = lines(
    ("node", lambda one: one["node"]),
    ("agent", lambda one: one["url"]),
    ("container", lambda one: (one["container"] or {}).get("state", "none")),
    ("image", lambda one: (one["container"] or {}).get("image")),
    ("started", lambda one: _since(one["container"])),
    ("error", lambda one: (one["container"] or {}).get("error")),
    ("answers", lambda one: _answer(one["agent"])),
    ("heard by tenured", lambda one: _answer(one["daemon"])),
    ("mode", lambda one: one["mode"]),
)


def _since(container: Json | None) -> str | None:
    if container is None or container["state"] != "running":
        return None
    # engines tell nanoseconds, of which no clock of ours has as many
    return ago(f"{container['started_at'][:19]}+00:00")


def _answer(told: Json) -> str:
    return f"{told['state']}: {told['detail']}" if told["detail"] else str(told["state"])


@verb(app, "install")
def install(  # noqa: PLR0913 - a command's options are what typer reads
    session: Session,
    node: Name,
    *,
    config: Config = None,
    image: Annotated[
        str, typer.Option(help="The image, on the node's engine or to be pulled by it.")
    ] = IMAGE,
    cert: Annotated[
        str, typer.Option("--tls-cert", help="For https://: the agent's certificate (PEM).")
    ] = "",
    key: Annotated[str, typer.Option("--tls-key", help="Its key, without a passphrase.")] = "",
    client_ca: Annotated[
        str, typer.Option("--tls-client-ca", help="Clients must show a certificate of this one.")
    ] = "",
    group: Annotated[
        str,
        typer.Option(
            help="For unix://: whose group the socket is (default: tenure, else your own)."
        ),
    ] = "",
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds until the agent answers and the daemon hears it.")
    ] = 60.0,
    is_dry: Annotated[
        bool,
        typer.Option("--dry-run", help="Show the container: exit 0 no change, 1 changes."),
    ] = False,
) -> int:
    """Run the agent of a node as a container, and wait until the daemon hears it.

    Where and how it listens is what nodes[].agent says; its token is made if it is absent. Where
    nodes[].harvest lends the node, it may write cgroups and end processes. Doing it again replaces
    the container if anything of it has changed.
    """
    wish = Wish(image, cert, key, client_ca, group)
    if is_dry:
        return _dry(session, lambda: _show_plan(session, config, node, wish))
    spec = agentsite.node_of(config, node)
    plan = agentsite.planned(spec, wish, is_dry=False)
    agent = agentsite.agent_of(spec)

    async def work(engine: Engine) -> tuple[bool, Json]:
        site = engine.agent_site()
        changed = await site.install(await site.fitted(plan))
        return changed, await agentsite.answering(engine, agent, timeout_s=timeout)

    changed, told = agentsite.on_engine(spec, work)
    daemon = agentsite.heard(session.client, node, agent, told.pop("read_us"), timeout)
    shown = {"node": node, "changed": changed, "agent": told, "daemon": daemon}
    session.out.data(shown, lambda one: session.out.write(_sentence(one)))
    if daemon["state"] in ("up", "unknown"):
        return 0
    session.out.note(f"not heard within {timeout:g} s: {daemon['detail'] or daemon['state']}")
    return FAILED


def _dry(session: Session, look: Callable[[], int]) -> int:
    """Return a plan's exit code: 0 no change, 1 changes, 255 error."""
    try:
        return look()
    except TenureError as error:
        session.out.error(error)
        return PLAN_ERROR


def _sentence(shown: Json) -> str:
    what = "installed" if shown["changed"] else "unchanged"
    return f"{shown['node']}: {what}, answers; tenured: {_answer(shown['daemon'])}"


def _show_plan(session: Session, config: Path | None, node: str, wish: Wish) -> int:
    from tenure.engines.containers.agent import NAME, body

    spec = agentsite.node_of(config, node)
    plan = agentsite.planned(spec, wish, is_dry=True)

    async def look(engine: Engine) -> tuple[AgentPlan, bool]:
        site = engine.agent_site()
        fitted = await site.fitted(plan)
        return fitted, await site.is_current(fitted)

    fitted, is_current = agentsite.on_engine(spec, look)
    shown = {
        "node": spec.name,
        "changed": not is_current,
        "name": NAME,
        "files": sorted(fitted.files),
        "container": body(fitted),
    }
    session.out.data(shown, lambda one: _render_plan(session, one))
    return NO_CHANGE if is_current else CHANGES


def _render_plan(session: Session, shown: Json) -> None:
    made = shown["container"]
    host = made["HostConfig"]
    pairs = [
        ("node", shown["node"]),
        ("change", "the container is made anew" if shown["changed"] else "none"),
        ("container", shown["name"]),
        ("image", made["Image"]),
        ("command", " ".join(made["Cmd"])),
        ("user", made["User"]),
        ("mounts", host["Binds"]),
        ("rights", host["CapAdd"]),
        ("bounds", f"{size(host['Memory'])} of memory, {host['PidsLimit']} processes and threads"),
        ("files", shown["files"]),
    ]
    session.out.fields(pairs)


@verb(app, "status")
def status(session: Session, node: Name, *, config: Config = None) -> int:
    """Show the container, whether the agent answers here, and whether the daemon hears it.

    Exit 0 if it answers and the daemon, where one runs, hears it; 1 if not.
    """
    from tenure.engines.containers.agent import summary

    spec = agentsite.node_of(config, node)
    agent = agentsite.agent_of(spec)
    there = agentsite.on_engine(spec, lambda engine: engine.agent_site().look())
    told = asyncio.run(agentsite.asked(agent))
    told.pop("read_us")
    daemon = agentsite.heard(session.client, node, agent, 0, 0.0)
    shown = {
        "node": node,
        "url": agent.url,
        "container": None if there is None else summary(there),
        "agent": told,
        "daemon": daemon,
        "mode": "off" if spec.harvest is None else spec.harvest.mode,
    }
    session.out.record(shown, LINES, key="node")
    is_well = told["state"] == "up" and daemon["state"] in ("up", "unknown")
    return 0 if is_well else FAILED


@verb(app, "remove")
def remove(  # noqa: PLR0913 - a command's options are what typer reads
    session: Session,
    node: Name,
    *,
    config: Config = None,
    is_purging: Annotated[
        bool, typer.Option("--purge", help="Its volume too: parameters, journal, token.")
    ] = False,
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Though the node lends its idle capacity.")
    ] = False,
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: exit 0 no change, 1 changes.")
    ] = False,
) -> int:
    """Stop and remove the agent's container; the engine is asked for statistics instead.

    A node that lends its idle capacity loses the protection of its owners: set harvest.mode to off
    first, or say --yes.
    """
    if is_dry:
        return _dry(session, lambda: _show_removal(session, config, node))
    spec = agentsite.node_of(config, node)
    if spec.harvest is not None and spec.harvest.mode == "act" and not is_sure:
        raise InvalidInput(
            f"{node} lends its idle capacity, and the agent protects its owners: set its "
            "harvest.mode to off and reload tenured first, or add --yes"
        )
    was_there = agentsite.on_engine(
        spec, lambda engine: engine.agent_site().remove(is_purged=is_purging)
    )
    _show_change(session, node, "removed", is_changed=was_there)
    return 0


def _show_removal(session: Session, config: Path | None, node: str) -> int:
    spec = agentsite.node_of(config, node)
    is_there = agentsite.on_engine(spec, lambda engine: engine.agent_site().look()) is not None
    _show_change(session, node, "would be removed", is_changed=is_there)
    return CHANGES if is_there else NO_CHANGE


def _show_change(session: Session, node: str, done: str, *, is_changed: bool) -> None:
    text = f"{node}: {done}" if is_changed else f"{node}: there is no agent's container"
    shown = {"node": node, "changed": is_changed}
    session.out.data(shown, lambda _: session.out.write(text))
