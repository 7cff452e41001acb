"""GENPACK's own configuration files (Listings 8.1 and 8.2) become a ``tenured.yml``.

8.1 names hosts with their generation, and how ssh reaches them; 8.2 names the generations in their
order, and Redis. Docker Swarm's part of both has no counterpart: tenure speaks to engines itself.
Which host was its manager, and the ports of the engines, are kept as labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from tenure.config.faults import Faults
from tenure.config.fields import Name
from tenure.config.urls import check_redis_url
from tenure.config.yamlfile import read_file
from tenure.model.errors import FieldError, InvalidInput

GENERATIONS = ("nursery", "young", "tenured")
SOCKET = "/var/run/docker.sock"
SSH_CONFIG = "genpack_ssh_config"
SECTIONS = ("ssh", "cluster", "swarm", "genpack")
#: No white space, quotes or options of ssh in what becomes part of a URL or an ssh_config.
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:@-]{0,252}$")]
PathText = Annotated[str, StringConstraints(pattern=r"^[^\s\"'\\-][^\s\"'\\]{0,1023}$")]
Port = Annotated[int, Field(ge=1, le=65535)]
S = TypeVar("S", bound=BaseModel)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Proxy(_Section):
    user: Word
    host: Word


class Ssh(_Section):
    user: Word
    identity_file: PathText
    public_key_file: PathText | None = None
    proxy: Proxy | None = None


class Host(_Section):
    ip: Word
    cpu: Annotated[int, Field(ge=1, le=4096)]
    name: Name
    group: Name


class Cluster(_Section):
    manager: Word
    manager_docker_port: Port
    node_docker_port: Port
    nodes: Annotated[list[Host], Field(min_length=1, max_length=1000)]


class Swarm(_Section):
    image: str
    strategy: Literal["spread", "binpack", "random"]
    host_image: str


class Genpack(_Section):
    docker_url: str = ""
    swarm_url: str = ""
    redis_host: Word | None = None
    redis_port: Port = 6379
    redis_docker_image: str = ""
    generations: Annotated[list[Name], Field(min_length=1, max_length=16)] = list(GENERATIONS)


class GenpackFile(_Section):
    """The sections of both listings; one file may hold all of them."""

    ssh: Ssh | None = None
    cluster: Cluster | None = None
    swarm: Swarm | None = None
    genpack: Genpack | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """``text`` of tenured.yml; ``ssh_config`` to be put beside it as ``SSH_CONFIG``, empty where no
    proxy is used; ``notes`` for people on what was left out.
    """

    text: str
    ssh_config: str
    notes: tuple[str, ...]


def import_genpack(paths: Sequence[Path]) -> Imported:
    """Return the configuration that GENPACK's files describe.

    Raises InvalidInput with every fault, each with its path and line.
    """
    found: dict[str, object] = {}
    folder = Path()
    faults: list[FieldError] = []
    for path in paths:
        file, wrong = _read(path)
        faults += wrong
        for name in SECTIONS:
            section = None if file is None else getattr(file, name)
            if section is not None and name in found:
                faults.append(FieldError(name, f"stands in two files; the second is {path.name}"))
            elif section is not None:
                found[name] = section
                folder = path.parent if name == "ssh" else folder
    if not faults:
        faults += _missing(GenpackFile.model_validate(found))
    if faults:
        raise InvalidInput("this is no configuration of GENPACK", fields=tuple(faults))
    return _written(GenpackFile.model_validate(found), folder)


def _read(path: Path) -> tuple[GenpackFile | None, list[FieldError]]:
    faults = Faults(read_file(path))
    value = faults.document.value
    if faults.document.faults:
        return None, faults.all()
    if not isinstance(value, dict):
        return None, [FieldError(path.name, "must be a mapping of keys to values")]
    try:
        return GenpackFile.model_validate(value), []
    except ValidationError as error:
        faults.add_errors(error, (), GenpackFile)
        return None, faults.all()


def _missing(file: GenpackFile) -> list[FieldError]:
    """Return what the sections lack together."""
    faults = [
        FieldError(name, "is required: Listing 8.1 has it")
        for name in ("ssh", "cluster")
        if getattr(file, name) is None
    ]
    if faults or file.cluster is None:
        return faults
    generations = (file.genpack or Genpack()).generations
    names: set[str] = set()
    for place, host in enumerate(file.cluster.nodes):
        if host.group not in generations:
            what = f"is not among the generations: {', '.join(generations)}"
            faults.append(FieldError(f"cluster.nodes.{place}.group", what))
        if host.name in names:
            faults.append(FieldError(f"cluster.nodes.{place}.name", "is another host's name too"))
        names.add(host.name)
    if len(set(generations)) != len(generations):
        faults.append(FieldError("genpack.generations", "names a generation twice"))
    return faults


def _written(file: GenpackFile, folder: Path) -> Imported:
    assert file.ssh is not None
    assert file.cluster is not None
    genpack = file.genpack or Genpack()
    key = _key_file(file.ssh, folder)
    ssh: dict[str, object] = {"key": key}
    if file.ssh.proxy is not None:
        ssh["config"] = SSH_CONFIG
    document: dict[str, object] = {"generations": list(genpack.generations)}
    if file.swarm is not None:
        document["placement"] = {"nursery": file.swarm.strategy}
    if genpack.redis_host is not None and _takes_redis(genpack):
        document["redis"] = {"url": f"redis://{genpack.redis_host}:{genpack.redis_port}/0"}
    document["nodes"] = [
        {
            "name": host.name,
            "url": f"ssh://{file.ssh.user}@{host.ip}{SOCKET}",
            "generation": host.group,
            "capacity": {"cpus": host.cpu},
            "labels": _labels(file.cluster, host),
            "ssh": dict(ssh),
        }
        for host in file.cluster.nodes
    ]
    text = yaml.safe_dump(document, sort_keys=False)
    head = "# Written by `tenure config import-genpack`; memory is what engines report.\n"
    return Imported(head + text, _jumps(file.ssh, file.cluster, key), _notes(file, genpack))


def _key_file(ssh: Ssh, folder: Path) -> str:
    """Return the key's absolute path: GENPACK is run in the folder of its file, and ssh knows ~."""
    return str((folder / Path(ssh.identity_file).expanduser()).absolute())


def _labels(cluster: Cluster, host: Host) -> dict[str, str]:
    is_manager = host.ip == cluster.manager
    port = cluster.manager_docker_port if is_manager else cluster.node_docker_port
    role = "manager" if is_manager else "node"
    return {"genpack.role": role, "genpack.docker_port": str(port)}


def _takes_redis(genpack: Genpack) -> bool:
    """Whether the Redis may be used as it is: GENPACK's has no password."""
    try:
        check_redis_url(f"redis://{genpack.redis_host}:{genpack.redis_port}/0")
    except ValueError:
        return False
    return True


def _jumps(ssh: Ssh, cluster: Cluster, key: str) -> str:
    """Return an ssh_config that reaches the hosts through the proxy, "" where there is none."""
    if ssh.proxy is None:
        return ""
    hosts = " ".join(host.ip for host in cluster.nodes)
    return (
        f"Host {ssh.proxy.host}\n    User {ssh.proxy.user}\n"
        f"    IdentityFile {key}\n\n"
        f"Host {hosts}\n    ProxyJump {ssh.proxy.host}\n"
    )


def _notes(file: GenpackFile, genpack: Genpack) -> tuple[str, ...]:
    notes = [
        "tenure reaches each engine by ssh; Swarm's manager and the Docker ports are labels",
        "the hosts' keys must be known to ssh (ssh.known_hosts, ssh.host_keys)",
    ]
    if file.swarm is not None:
        notes.append("swarm.image and swarm.host_image are left out: no Swarm is deployed")
    if genpack.docker_url or genpack.swarm_url or genpack.redis_docker_image:
        notes.append("genpack's docker_url, swarm_url and redis_docker_image are left out")
    if genpack.redis_host is not None and not _takes_redis(genpack):
        notes.append(
            "genpack.redis_host is left out: a Redis off this machine needs a password; "
            "set redis.url, or leave it to tenured, which starts one of its own"
        )
    return tuple(notes)
