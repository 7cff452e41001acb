"""``tenure run``: a container by the words of ``docker run``, wherever there is room."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tenure.cli.output import Output
from tenure.cli.verb import INTERRUPTED, Session
from tenure.cli.watching import goes_on, looks
from tenure.client.client import Client
from tenure.model.errors import InvalidInput, NotFound, TenureError
from tenure.model.jsons import Json

#: As long as a daemon's restart may take while somebody watches a container.
WAIT_PATIENCE_S = 60.0
#: States in which it says nothing (any more), and those in which it has not begun.
AT_REST = frozenset(("exited", "failed", "stopped", "removed"))
COMING = frozenset(("accepted", "waiting", "creating", "created", "starting"))


Image = Annotated[str, typer.Argument(metavar="IMAGE")]
Command = Annotated[list[str] | None, typer.Argument(metavar="[COMMAND...]")]
Detached = Annotated[bool, typer.Option("--detach", "-d", help="Print its id and leave it.")]
Removed = Annotated[bool, typer.Option("--rm", help="Remove it once it has ended.")]
Name = Annotated[str, typer.Option(help="Its name (else the image's with digits).")]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", help="NAME=VALUE, or NAME: the value it has here."),
]
EnvFile = Annotated[list[Path] | None, typer.Option(help="File with a NAME=VALUE in each line.")]
Volume = Annotated[
    list[str] | None,
    typer.Option("--volume", "-v", help="VOLUME:/PATH or /HOST/PATH:/PATH, with :ro behind."),
]
Publish = Annotated[
    list[str] | None,
    typer.Option("--publish", "-p", help="PORT:PORT, with ADDRESS: before, /udp behind."),
]
Cores = Annotated[float | None, typer.Option(min=0, help="Cores, also what it reserves.")]
Memory = Annotated[
    str, typer.Option("--memory", "-m", help="Its limit, such as 512m, also what it reserves.")
]
Restart = Annotated[
    str, typer.Option(help="no, always, unless-stopped, on-failure or on-failure:TIMES.")
]
Label = Annotated[list[str] | None, typer.Option("--label", "-l", help="NAME=VALUE.")]
User = Annotated[str, typer.Option("--user", "-u", help="User or id, with :GROUP.")]
Workdir = Annotated[str, typer.Option("--workdir", "-w", help="Its directory.")]
Entrypoint = Annotated[str, typer.Option(help="In place of the image's.")]
Network = Annotated[str, typer.Option(help="A network of the node.")]
Generation = Annotated[str, typer.Option(help="Where it begins (else the first).")]
Where = Annotated[
    list[str] | None,
    typer.Option("--constraint", help="On nodes with site==cloud, rack!=r1, label.disk==ssd."),
]
Spread = Annotated[
    str, typer.Option(help="Share its app's containers out over rack, site, name or label.KEY.")
]
Migrate = Annotated[str, typer.Option(help="live, snapshot, restart or never.")]


def run(  # noqa: PLR0913 - the options of docker run, one by one, are what typer reads
    session: Session,
    image: Image,
    command: Command = None,
    *,
    is_detached: Detached = False,
    is_removed: Removed = False,
    name: Name = "",
    env: Env = None,
    env_file: EnvFile = None,
    volume: Volume = None,
    publish: Publish = None,
    cpus: Cores = None,
    memory: Memory = "",
    restart: Restart = "no",
    label: Label = None,
    user: User = "",
    workdir: Workdir = "",
    entrypoint: Entrypoint = "",
    network: Network = "",
    generation: Generation = "",
    migrate: Migrate = "",
    constraint: Where = None,
    spread: Spread = "",
) -> int:
    """Run a container as docker run does, on a node of the fleet.

    Its log is shown until it ends, and its exit code is the command's; not so with --detach. What
    stands behind IMAGE is the container's command.
    """
    ports, bindings = _ports(publish or [])
    host: Json = {
        "Binds": volume,
        "PortBindings": bindings,
        "NanoCpus": round((cpus or 0) * 1e9),
        "Memory": _memory(memory),
        "RestartPolicy": _restart(restart),
        "NetworkMode": network,
    }
    where: Json = {"generation": generation, "constraints": constraint, "spread": spread}
    document = {
        "name": name or _name(image),
        "Image": image,
        "Cmd": command,
        "Env": _environment(env or [], env_file or []),
        "Labels": dict(_pair("label", one) for one in label or []),
        "User": user,
        "WorkingDir": workdir,
        "Entrypoint": shlex.split(entrypoint),
        "ExposedPorts": ports,
        "HostConfig": _stated(host),
        "tenure": _stated(where | {"migrate": migrate}),
    }
    made = session.client.create_container(_stated(document))
    if is_detached:
        session.out.line(made, made["id"])
        return 0
    return _attached(session, made, is_removed=is_removed)


def _stated(values: Json) -> Json:
    """Leave out what was not said."""
    return {key: value for key, value in values.items() if value}


def _name(image: str) -> str:
    word = re.split(r"[:@]", image.rpartition("/")[2])[0]
    return f"{word[:40] or 'run'}-{secrets.token_hex(3)}"


def _environment(given: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Return NAME=VALUE of files, then of options; a bare NAME has the value that it has here."""
    lines = []
    for path in files:
        try:
            lines += [line.strip() for line in path.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"--env-file: cannot read {path}: {error}") from None
    found = [line for line in lines if line and not line.startswith("#")]
    values = [*found, *given]
    return [
        value if "=" in value else f"{value}={os.environ[value]}"
        for value in values
        if "=" in value or value in os.environ
    ]


def _pair(option: str, text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key:
        raise InvalidInput(f"--{option}: {text!r} must be NAME=VALUE")
    return key, value


def _ports(given: Sequence[str]) -> tuple[Json, Json]:
    """Return Docker's ExposedPorts and PortBindings."""
    if not given:
        return {}, {}
    from docker.utils.ports import build_port_bindings

    try:
        found: dict[str, Any] = build_port_bindings(given)
    except ValueError as error:
        raise InvalidInput(f"--publish: {error}") from None
    bindings: Json = {}
    for port, places in found.items():
        key = port if "/" in port else f"{port}/tcp"
        pairs = [one if isinstance(one, tuple) else ("", one) for one in places]
        bindings[key] = [{"HostIp": ip or "", "HostPort": str(at or "")} for ip, at in pairs]
    return {key: {} for key in bindings}, bindings


def _memory(text: str) -> int:
    if not text:
        return 0
    from docker.errors import DockerException
    from docker.utils import parse_bytes

    try:
        return int(parse_bytes(re.sub(r"i?b$", "", text.lower())))
    except (DockerException, ValueError):
        raise InvalidInput(f"--memory: {text!r} is no size; write 512m or 2g") from None


def _restart(text: str) -> Json:
    name, _, times = text.partition(":")
    if times and not times.isdigit():
        raise InvalidInput(f"--restart: {times!r} in {text!r} is no number of times")
    return {"Name": name, "MaximumRetryCount": int(times or 0)}


def _attached(session: Session, made: Json, *, is_removed: bool) -> int:
    """Show a container's log until it ends; return its exit code."""
    client, out, key = session.client_with(WAIT_PATIENCE_S), session.out, made["id"]
    name = made["name"]
    try:
        with goes_on(out, f"it is stopped; tenure container logs {name} shows its log"):
            ended = _follow(client, out, key)
    except KeyboardInterrupt:
        client.stop_container(key)
        if is_removed:
            client.remove_container(key)
        return INTERRUPTED
    if is_removed:
        client.remove_container(key)
    if ended["state"] == "failed":
        raise TenureError(f"{name} failed: {ended['reason']}", code="container_failed")
    return int(ended["exit_code"] or 0)


def _follow(client: Client, out: Output, key: str) -> Json:
    """Print a container's log, of one copy after another, until it is at rest."""
    told, shown = "", 0
    pauses = looks(None)
    while True:
        next(pauses)
        found = client.container(key)
        if found["state"] in COMING:
            if found["reason"] and found["reason"] != told:
                out.note(f"{found['state']}: {found['reason']}")
                told = found["reason"]
            continue
        if found["incarnation"] != shown:
            shown = found["incarnation"]
            _show(client, out, key, is_following=found["state"] not in AT_REST)
            found = client.container(key)
        if found["state"] in AT_REST:
            return found


def _show(client: Client, out: Output, key: str, *, is_following: bool) -> None:
    try:
        for part in client.container_logs(key, follow=is_following):
            out.binary(part)
    except NotFound:
        pass  # it never ran, or is gone: what became of it says more
