"""The sections on who may ask the API, and for what; and the settings that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from tenure.config.fields import (
    Count,
    Days,
    Flag,
    KeptCpus,
    KeptSize,
    Namespace,
    RoleKind,
    Word,
)
from tenure.config.section import Found, Section, filled, part, stated
from tenure.model.accesspolicy import span_of
from tenure.model.quota import Quota
from tenure.model.roles import NAMESPACE, Grant, Role

HostNamespace = Literal["pid", "net", "ipc", "uts", "userns", "cgroupns"]


class ApiSection(Section):
    socket_roles: dict[Word, RoleKind] = stated(
        {"tenure": "admin"},
        "Roles of the users of the unix socket, by their groups on this machine; the highest "
        "counts. Root and the daemon's user are `admin`. With one group the socket belongs to it; "
        "with several anybody may connect, and who is in none of them needs a token.",
    )
    socket_namespaces: dict[Word, Namespace] = stated(
        {},
        "Namespaces of the users of the unix socket, by the groups in `socket_roles`; of others "
        "`default`.",
    )
    audit_keep_us: Days = stated(
        90,
        "How long changes and refusals are kept in the audit; at most two million of them.",
        key="audit_keep_days",
    )

    @property
    def grants(self) -> dict[str, Grant]:
        """What each group gives its users."""
        return grants_of(self.socket_roles, self.socket_namespaces)

    def faults(self) -> Found:
        """Find namespaces of groups without a role."""
        yield from strayed(self.socket_roles, self.socket_namespaces, "socket")


def grants_of(roles: Mapping[str, Role], namespaces: Mapping[str, str]) -> dict[str, Grant]:
    """Return what each name gives its bearer."""
    return {name: Grant(role, namespaces.get(name, NAMESPACE)) for name, role in roles.items()}


def strayed(roles: Mapping[str, Role], namespaces: Mapping[str, str], prefix: str) -> Found:
    """Find names that have a namespace and no role."""
    prefix = f"{prefix}_" if prefix else ""
    for name in namespaces:
        if name not in roles:
            yield (f"{prefix}namespaces", name), f"has no role in {prefix}roles"


def _bind(text: str) -> str:
    names = text.split("/")[1:]
    is_whole = not any(name in ("", ".", "..") or "*" in name for name in names[:-1])
    if not text.startswith("/") or not is_whole or names[-1] in ("", ".", ".."):
        raise ValueError("must be a path such as /srv/data, or /srv/data/* for all below it")
    if "*" in names[-1] and names[-1] != "*":
        raise ValueError("may have a * as its last part alone: /srv/data/*")
    return text


def _as_text(value: object) -> object:
    return value if isinstance(value, bool) or not isinstance(value, int) else str(value)


def _span(text: str) -> str:
    if span_of(text) is None:
        raise ValueError("must be a port as 8080, or ports as 8000-8999")
    return text


PortSpan = Annotated[Word, BeforeValidator(_as_text), AfterValidator(_span)]
BindPath = Annotated[Word, AfterValidator(_bind)]
Priority = Annotated[int, Strict(), Field(ge=-1_000_000, le=1_000_000)]


class PolicySection(Section):
    """What a role may use for what it submits; lists hold shell patterns of names."""

    binds: tuple[BindPath, ...] = stated(
        (),
        "Folders and files of the nodes that may be mounted: `/srv/data` itself, or `/srv/data/*` "
        "for all below it too, which is all that a link in there leads to.",
    )
    engine_socket: Flag = stated(
        False, "Mounting an engine's socket, or what holds one: root on that node."
    )
    privileged: Flag = stated(False, "Privileged containers: root on that node.")
    host_namespaces: tuple[HostNamespace, ...] = stated(
        (),
        "The node's own namespaces. `net` is what Spark jobs need: all that listens on the node's "
        "loopback; `pid`: its processes; `userns`: its user ids.",
    )
    join_containers: Flag = stated(
        False, "Volumes, links and namespaces of other containers: all that these hold."
    )
    devices: tuple[Word, ...] = stated(
        (), "Devices by their path on the node, as `/dev/fuse`; `*` with rules for any device."
    )
    gpus: Flag = stated(False, "Devices by request: GPUs and what the node's CDI files name.")
    capabilities: tuple[Word, ...] = stated(
        (), "Capabilities beyond the engine's own, as `NET_ADMIN`; `SYS_ADMIN` is near root."
    )
    security_options: tuple[Word, ...] = stated(
        (),
        "As `seccomp=unconfined`: each takes away what protects the kernel. "
        "`systempaths=unconfined` is for other masked paths.",
    )
    sysctls: tuple[Word, ...] = stated((), "Kernel parameters, as `net.*`.")
    cgroup_parent: Flag = stated(False, "A parent control group: out of the limits of the fleet.")
    oom_score: Flag = stated(
        False, "To be spared when memory runs out: others are ended in its place."
    )
    realtime: Flag = stated(False, "Real-time CPU and its limits: the node may stall.")
    groups: tuple[Word, ...] = stated(
        (), "Further groups, by name or number: what they may do with what is mounted."
    )
    runtimes: tuple[Word, ...] = stated(("runc",), "Runtimes that may be named.")
    annotations: Flag = stated(False, "Annotations, by which some runtimes run hooks.")
    volume_drivers: tuple[Word, ...] = stated(
        (),
        "Drivers of volumes beside `local`, and file systems that it mounts, as `local/nfs`: the "
        "node reaches them as root.",
    )
    log_drivers: tuple[Word, ...] = stated(
        ("json-file", "local", "none"),
        "Log drivers; others connect to where they are told, as the engine.",
    )
    networks: tuple[Word, ...] = stated(
        ("default", "bridge", "none"), "Networks of the engines: what listens there."
    )
    images: tuple[Word, ...] = stated(
        ("*",), "Images as they are written, as `registry.example/team/*`."
    )
    images_by_digest: Flag = stated(
        False, "Only images by their digest, as `app@sha256:...`: what runs cannot be replaced."
    )
    volumes: tuple[Word, ...] | None = stated(
        None,
        "Volumes by their names, as `shared-*`, or `!shared-x` for what is not allowed of these. A "
        "volume may hold what others keep, or lie over a folder of the host.",
        shown="those that begin with the namespace; in default all that begin with none",
    )
    ports: tuple[PortSpan, ...] | None = stated(
        None,
        "Ports of the nodes that may be published, as `8080` or `8000-8999`; one that the engine "
        "chooses always may.",
        shown="any; of a namespace 1024-65535",
    )
    generations: tuple[Word, ...] = stated(("*",), "Generations that a container may name.")
    max_priority: Priority | None = stated(
        None, "The highest priority of jobs: those go before others.", shown="any"
    )


class PoliciesSection(Section):
    submit: PolicySection = part(PolicySection, "Of the role `submit`.")
    operate: PolicySection = part(PolicySection, "Of the role `operate`.")


class NamespaceSection(Section):
    """What a namespace may hold at a time, what its submitters may use, and what it sees."""

    reads: tuple[Word, ...] | None = stated(
        None,
        "Namespaces that its readers and submitters see beside it, as `common` or `shared-*`; "
        "`*` for the whole fleet.",
        shown="none; of `default` all",
    )
    jobs: Count | None = stated(None, "Jobs that are not over.", shown="any")
    containers: Count | None = stated(None, "Containers.", shown="any")
    batches: Count | None = stated(None, "Batches that are not over.", shown="any")
    tasks: Count | None = stated(None, "Tasks of batches that are not over.", shown="any")
    services: Count | None = stated(None, "Services, of any number of containers.", shown="any")
    cpu_m: KeptCpus | None = stated(
        None,
        "Cores that jobs and containers ask for, also while they wait.",
        key="cpus",
        shown="any",
    )
    memory_bytes: KeptSize | None = stated(
        None, "Memory that they ask for.", key="memory", shown="any"
    )
    dataset_bytes: KeptSize | None = stated(
        None,
        "All copies of its datasets; also those that a `prefetch` asks for, when it does.",
        key="datasets",
        shown="any",
    )
    output_bytes: KeptSize | None = stated(
        None,
        "What its batches have put out, kept for seven days: no batch is accepted beyond it.",
        key="outputs",
        shown="any",
    )
    upload_bytes: KeptSize | None = stated(
        None, "Its open uploads, on the daemon's disk.", key="uploads", shown="any"
    )
    policy: PolicySection | None = stated(
        None,
        "What its submitters may use; keys that it has not are those of `policy.submit`.",
        shown="none",
    )

    @property
    def quota(self) -> Quota:
        """What it may hold."""
        return filled(Quota, self)
