"""The sections on who may ask the API, and for what; and the settings that they make."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict

from tenure.config.fields import Flag, Positive, Word
from tenure.config.section import Section, stated
from tenure.model.accesspolicy import AccessPolicy

RoleName = Literal["metrics", "read", "submit", "operate", "admin", "worker"]
Namespace = Literal["pid", "net", "ipc", "uts", "userns", "cgroupns"]


class ApiSection(Section):
    socket_roles: dict[Word, RoleName] = stated(
        {"tenure": "admin"},
        "Roles of the users of the unix socket, by their groups on this machine; the highest "
        "counts. Root and the daemon's user are `admin`. With one group the socket belongs to it; "
        "with several anybody may connect, and who is in none of them needs a token.",
    )
    audit_keep_days: Positive = stated(
        90, "How long changes and refusals are kept in the audit; at most two million of them."
    )


def _bind(text: str) -> str:
    names = text.split("/")[1:]
    is_whole = not any(name in ("", ".", "..") or "*" in name for name in names[:-1])
    if not text.startswith("/") or not is_whole or names[-1] in ("", ".", ".."):
        raise ValueError("must be a path such as /srv/data, or /srv/data/* for all below it")
    if "*" in names[-1] and names[-1] != "*":
        raise ValueError("may have a * as its last part alone: /srv/data/*")
    return text


BindPath = Annotated[Word, AfterValidator(_bind)]
Priority = Annotated[int, Strict(), Field(ge=-1_000_000, le=1_000_000)]


class PolicySection(Section):
    """What a role may use for what it submits; lists hold shell patterns of names."""

    binds: list[BindPath] = stated(
        [],
        "Folders and files of the nodes that may be mounted: `/srv/data` itself, or `/srv/data/*` "
        "for all below it too, which is all that a link in there leads to.",
    )
    engine_socket: Flag = stated(
        False, "Mounting an engine's socket, or what holds one: root on that node."
    )
    privileged: Flag = stated(False, "Privileged containers: root on that node.")
    host_namespaces: list[Namespace] = stated(
        [],
        "The node's own namespaces. `net` is what Spark jobs need: all that listens on the node's "
        "loopback; `pid`: its processes; `userns`: its user ids.",
    )
    join_containers: Flag = stated(
        False, "Volumes, links and namespaces of other containers: all that these hold."
    )
    devices: list[Word] = stated(
        [], "Devices by their path on the node, as `/dev/fuse`; `*` with rules for any device."
    )
    gpus: Flag = stated(False, "Devices by request: GPUs and what the node's CDI files name.")
    capabilities: list[Word] = stated(
        [], "Capabilities beyond the engine's own, as `NET_ADMIN`; `SYS_ADMIN` is near root."
    )
    security_options: list[Word] = stated(
        [],
        "As `seccomp=unconfined`: each takes away what protects the kernel. "
        "`systempaths=unconfined` is for other masked paths.",
    )
    sysctls: list[Word] = stated([], "Kernel parameters, as `net.*`.")
    cgroup_parent: Flag = stated(False, "A parent control group: out of the limits of the fleet.")
    oom_score: Flag = stated(
        False, "To be spared when memory runs out: others are ended in its place."
    )
    realtime: Flag = stated(False, "Real-time CPU and its limits: the node may stall.")
    groups: list[Word] = stated(
        [], "Further groups, by name or number: what they may do with what is mounted."
    )
    runtimes: list[Word] = stated(["runc"], "Runtimes that may be named.")
    annotations: Flag = stated(False, "Annotations, by which some runtimes run hooks.")
    volume_drivers: list[Word] = stated(
        [],
        "Drivers of volumes beside `local`, and file systems that it mounts, as `local/nfs`: the "
        "node reaches them as root.",
    )
    log_drivers: list[Word] = stated(
        ["json-file", "local", "none"],
        "Log drivers; others connect to where they are told, as the engine.",
    )
    networks: list[Word] = stated(
        ["default", "bridge", "none"], "Networks of the engines: what listens there."
    )
    images: list[Word] = stated(["*"], "Images as they are written, as `registry.example/team/*`.")
    generations: list[Word] = stated(["*"], "Generations that a container may name.")
    max_priority: Priority | None = stated(
        None, "The highest priority of jobs: those go before others.", shown="any"
    )


class PoliciesSection(Section):
    submit: PolicySection = stated(PolicySection(), "Of the role `submit`.")
    operate: PolicySection = stated(PolicySection(), "Of the role `operate`.")


def build_policy(section: PolicySection) -> AccessPolicy:
    """Return the policy of a role."""
    given: dict[str, Any] = {}
    for name in PolicySection.model_fields:
        value = getattr(section, name)
        given[name] = tuple(value) if isinstance(value, list) else value
    return AccessPolicy(**given)
