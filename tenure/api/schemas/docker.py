"""Docker's create body, API 1.41 to 1.47, as far as its fields have a name and a type.

tenure reads few of them. The others are known here so that a misspelt or mistyped field is refused
at once: an engine passes over the first in silence and refuses the second long after submission.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model

from tenure.api.schemas.fields import MAX_CPUS, MAX_ITEMS, MAX_MEMORY, Line, Strict, Text
from tenure.model.jsons import Json

Bytes = Annotated[int, Field(ge=0, le=MAX_MEMORY)]
Texts = Annotated[list[Text], Field(max_length=MAX_ITEMS)]
Map = Annotated[Json, Field(max_length=MAX_ITEMS)]
Objects = Annotated[list[Map], Field(max_length=MAX_ITEMS)]
TextMap = Annotated[dict[str, Text], Field(max_length=MAX_ITEMS)]

#: Field names by type, for what has no type of its own below.
HOST_FIELDS: dict[object, str] = {
    Line: "CgroupParent CpusetCpus CpusetMems ContainerIDFile NetworkMode VolumeDriver "
    "CgroupnsMode IpcMode Cgroup PidMode UTSMode UsernsMode Runtime Isolation",
    int: "CpuShares BlkioWeight CpuRealtimePeriod CpuRealtimeRuntime KernelMemory "
    "KernelMemoryTCP MemorySwap MemorySwappiness PidsLimit CpuCount CpuPercent IOMaximumIOps "
    "IOMaximumBandwidth OomScoreAdj ShmSize",
    bool: "OomKillDisable Init Privileged PublishAllPorts ReadonlyRootfs",
    Texts: "DeviceCgroupRules Binds VolumesFrom CapAdd CapDrop Dns DnsOptions DnsSearch "
    "ExtraHosts GroupAdd Links SecurityOpt MaskedPaths ReadonlyPaths",
    Objects: "BlkioWeightDevice BlkioDeviceReadBps BlkioDeviceWriteBps BlkioDeviceReadIOps "
    "BlkioDeviceWriteIOps Devices DeviceRequests Ulimits Mounts",
    TextMap: "StorageOpt Tmpfs Sysctls Annotations",
    Annotated[list[int], Field(max_length=MAX_ITEMS)]: "ConsoleSize",
    Map: "LogConfig",
    Annotated[dict[str, Objects | None], Field(max_length=MAX_ITEMS)]: "PortBindings",
}
CONFIG_FIELDS: dict[object, str] = {
    Line: "Hostname Domainname User WorkingDir MacAddress StopSignal",
    int: "StopTimeout",
    bool: "AttachStdin AttachStdout AttachStderr Tty OpenStdin StdinOnce NetworkDisabled "
    "ArgsEscaped",
    Texts: "OnBuild Shell",
    Annotated[dict[str, Map], Field(max_length=MAX_ITEMS)]: "ExposedPorts Volumes",
    Map: "Healthcheck NetworkingConfig",
}


def typed(groups: dict[Any, str]) -> Json:
    """Return optional model fields for groups of names."""
    return {name: (kind | None, None) for kind, names in groups.items() for name in names.split()}


def _argv(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError("must be a text or a list of texts")
    return value


Argv = Annotated[
    Any,
    BeforeValidator(_argv),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"type": "string"},
                {"type": "null"},
            ]
        }
    ),
]


class Restart(Strict):
    """Docker's restart policy."""

    Name: Literal["", "no", "always", "unless-stopped", "on-failure"] = ""
    MaximumRetryCount: int = Field(default=0, ge=0, le=1_000_000)


class _HostConfig(Strict):
    NanoCpus: int | None = Field(default=None, ge=0, le=MAX_CPUS * 10**9)
    CpuQuota: int | None = Field(default=None, ge=-1, le=10**12)
    CpuPeriod: int | None = Field(default=None, ge=0, le=10**6)
    Memory: Bytes | None = None
    MemoryReservation: Bytes | None = None
    RestartPolicy: Restart | None = None
    AutoRemove: bool | None = None


HostConfig: type[Strict] = create_model(
    "HostConfig", __base__=_HostConfig, __module__=__name__, **typed(HOST_FIELDS)
)
HostConfig.__doc__ = "Docker's HostConfig; the engine checks what the types cannot."
