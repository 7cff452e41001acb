"""A container as people submit it: Docker's create body plus ``name`` and ``tenure``.

The body is kept verbatim and used for every recreate. What is checked here is what tenure reads
itself, and that no field is misspelt: Docker would pass over it in silence.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, create_model

from tenure.api.schemas.docker import CONFIG_FIELDS, Argv, HostConfig, typed
from tenure.api.schemas.fields import (
    MAX_ITEMS,
    MAX_TIME_S,
    MIN_MEMORY,
    Constraints,
    Grace,
    Key,
    Name,
    Strict,
    Text,
    env_faults,
    examples,
    raise_faults,
)
from tenure.api.schemas.fields import (
    Image as ImageName,
)
from tenure.model.errors import FieldError
from tenure.model.facts import AGENT_NAME
from tenure.model.jsons import Json
from tenure.model.resources import Resources

Spread = Annotated[
    str, StringConstraints(pattern=r"^(rack|site|name|label\.[A-Za-z0-9_./-]{1,64})$")
]
MinAge = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
#: Labels under ``tenure.`` that an owner may set; the others are the daemon's marks.
OWNER_LABELS = ("tenure.app", "tenure.migrate", "tenure.overlap", "tenure.binds")
MIGRATIONS = ("live", "snapshot", "restart", "never")


class TenureOptions(Strict):
    """What tenure itself is told of a container; it wins over the labels of the same names."""

    app: Name | None = None
    generation: Name | None = None
    migrate: Literal["live", "snapshot", "restart", "never"] | None = None
    min_age_s: MinAge | None = None
    overlap: bool | None = None
    constraints: Constraints = Field(
        default=[], description="As of jobs: site==cloud, rack!=r1, label.disk in (ssd, nvme)."
    )
    spread: Spread | None = Field(
        default=None,
        description="Share the app's containers out over rack, site, name or label.KEY.",
    )


#: Names of the containers of jobs and batches, and of a node's agent. The daemon knows them for its
#: own by these, and by labels that an image may have as well.
_OWN = re.compile(rf"tenure-.+-[0-9]+-[0-9]+|{AGENT_NAME}")


def free_name(name: str) -> str:
    """Return a name that the daemon gives none of its own containers; raise ValueError else."""
    if _OWN.fullmatch(name):
        raise ValueError("is as the daemon names its own containers; take another")
    return name


class _ContainerTemplate(Strict):
    """Docker's create body and the optional ``tenure`` object, of a service's containers."""

    Image: ImageName
    Cmd: Argv = None
    Entrypoint: Argv = None
    Env: list[Text] | None = Field(default=None, max_length=MAX_ITEMS)
    Labels: dict[Key, Text] | None = Field(default=None, max_length=MAX_ITEMS)
    tenure: TenureOptions | None = None


class _ContainerRequest(_ContainerTemplate):
    """Docker's create body plus ``name`` and the optional ``tenure`` object."""

    model_config = examples(
        {
            "name": "web-1",
            "Image": "web:1",
            "Cmd": ["serve"],
            "HostConfig": {
                "NanoCpus": 250_000_000,
                "Memory": 134_217_728,
                "RestartPolicy": {"Name": "unless-stopped"},
            },
            "tenure": {"app": "web", "migrate": "restart"},
        }
    )

    name: Annotated[Name, AfterValidator(free_name)] = Field(
        min_length=2, description="Unique among the containers of the fleet."
    )


def _with_docker(name: str, base: type[Strict]) -> type[Strict]:
    fields = typed(CONFIG_FIELDS) | {"HostConfig": (HostConfig | None, None)}
    made: type[Strict] = create_model(name, __base__=base, __module__=__name__, **fields)
    made.__doc__ = base.__doc__
    return made


ContainerTemplate = _with_docker("ContainerTemplate", _ContainerTemplate)
ContainerRequest = _with_docker("ContainerRequest", _ContainerRequest)


class StopRequest(Strict):
    """How long a container may take to end; the daemon's default where it is not said."""

    grace_s: Grace | None = None


class MoveRequest(Strict):
    """Where a container is to go; ``dry_run`` says how it would, and does nothing."""

    model_config = examples({"node": "n2", "dry_run": True})

    node: Name
    dry_run: bool = False


def docker_body(document: Json) -> Json:
    """Return Docker's part of a submitted document, untouched."""
    return {key: value for key, value in document.items() if key not in ("name", "tenure")}


def reservation(body: Json) -> Resources:
    """Return what the body reserves: its CPU limit, and its memory reservation or else limit.

    Docker's memory limit counts where no reservation is given, as classic Swarm's scheduler has
    it. Zero means that only measured use counts.
    """
    host = body.get("HostConfig") or {}
    cpu_m = (host.get("NanoCpus") or 0) // 1_000_000
    quota = host.get("CpuQuota") or 0
    if not cpu_m and quota > 0:
        cpu_m = quota * 1000 // (host.get("CpuPeriod") or 100_000)
    memory = host.get("MemoryReservation") or host.get("Memory") or 0
    return Resources(cpu_m=cpu_m, memory_bytes=memory)


def container_options(body: Json, given: TenureOptions | None) -> TenureOptions:
    """Return the options of a container: the ``tenure`` object, else the body's labels.

    Raises InvalidInput with every fault that the model alone cannot see.
    """
    labels = body.get("Labels") or {}
    faults = [*_label_faults(labels), *_host_faults(body.get("HostConfig") or {})]
    faults += env_faults(body.get("Env"), "Env")
    raise_faults(faults)
    stated = given or TenureOptions()
    return stated.model_copy(
        update={
            "app": stated.app or labels.get("tenure.app") or None,
            "migrate": stated.migrate or labels.get("tenure.migrate") or None,
            "overlap": stated.overlap
            if stated.overlap is not None
            else labels.get("tenure.overlap") == "allow",
        }
    )


def _label_faults(labels: dict[str, str]) -> list[FieldError]:
    found = []
    for key, value in labels.items():
        path = f"Labels.{key}"
        if key.startswith("tenure.") and key not in OWNER_LABELS:
            found.append(FieldError(path, "is the daemon's own label; an owner may set none"))
        elif key == "tenure.migrate" and value not in MIGRATIONS:
            found.append(FieldError(path, f"must be one of {', '.join(MIGRATIONS)}"))
        elif key == "tenure.binds" and value not in ("shared", "local"):
            found.append(FieldError(path, "must be shared or local"))
        elif key == "tenure.overlap" and value not in ("allow", "deny"):
            found.append(FieldError(path, "must be allow or deny"))
        elif key == "tenure.app" and not 1 <= len(value) <= 255:
            found.append(FieldError(path, "must have 1 to 255 characters"))
    return found


def _host_faults(host: Json) -> list[FieldError]:
    found = []
    memory = host.get("Memory") or 0
    if 0 < memory < MIN_MEMORY:
        found.append(FieldError("HostConfig.Memory", f"must be 0 or at least {MIN_MEMORY}"))
    if 0 < memory < (host.get("MemoryReservation") or 0):
        found.append(FieldError("HostConfig.MemoryReservation", "must not exceed Memory"))
    if host.get("NanoCpus") and (host.get("CpuQuota") or host.get("CpuPeriod")):
        found.append(FieldError("HostConfig.NanoCpus", "excludes CpuQuota and CpuPeriod"))
    if host.get("AutoRemove"):
        # the engine would remove it behind tenure's back, and a move would lose it
        found.append(FieldError("HostConfig.AutoRemove", "is not possible; remove it by DELETE"))
    return found
