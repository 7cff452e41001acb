"""What of an engine's power a role may use for the containers that it submits.

Whoever sets a host's namespace, device or folder into a container has power over that host. So the
default allows none of it; each field says what it costs to allow it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tenure.model.roles import Role

#: Sockets and folders that are as good as root on their host, and those that hold them.
GUARDED = (
    *("/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/tenure"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/tenure"),
)
SOCKETS = frozenset(("docker.sock", "dockerd.sock", "containerd.sock", "podman.sock", "crio.sock"))


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Lists hold names that are allowed, as shell patterns; of ``binds`` see ``binds_path``.

    ``max_priority`` None: any.
    """

    binds: tuple[str, ...] = ()
    engine_socket: bool = False
    privileged: bool = False
    host_namespaces: tuple[str, ...] = ()
    join_containers: bool = False
    devices: tuple[str, ...] = ()
    gpus: bool = False
    capabilities: tuple[str, ...] = ()
    security_options: tuple[str, ...] = ()
    sysctls: tuple[str, ...] = ()
    cgroup_parent: bool = False
    oom_score: bool = False
    realtime: bool = False
    groups: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ("runc",)
    annotations: bool = False
    volume_drivers: tuple[str, ...] = ()
    log_drivers: tuple[str, ...] = ("json-file", "local", "none")
    networks: tuple[str, ...] = ("default", "bridge", "none")
    images: tuple[str, ...] = ("*",)
    generations: tuple[str, ...] = ("*",)
    max_priority: int | None = None

    def binds_path(self, path: str) -> bool:
        """Whether a folder or file of the host may be mounted.

        An entry ``/srv/data`` allows that folder alone, ``/srv/data/*`` all below it as well. Paths
        with ``..`` are never allowed.
        """
        parts = parts_of(path)
        return parts is not None and any(_covers(entry, parts) for entry in self.binds)


@dataclass(slots=True)
class Permits:
    """What who submits may use: by role, and ``within`` a namespace with a policy of its own.

    By default nothing that gives power over a host. What is here may be replaced at any time.
    """

    by_role: Mapping[Role, AccessPolicy] = field(default_factory=dict)
    within: Mapping[str, AccessPolicy] = field(default_factory=dict)

    def of(self, role: Role, namespace: str) -> tuple[str, AccessPolicy]:
        """Return where the policy of a submitter stands in the configuration, and the policy."""
        if role is Role.SUBMIT and namespace in self.within:
            return f"namespaces.{namespace}.policy", self.within[namespace]
        return f"policy.{role}", self.by_role.get(role, AccessPolicy())


def allows(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a name fits one of the patterns, exactly as it is written."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def parts_of(path: str) -> list[str] | None:
    """Return the names along an absolute path; None where it is none, or leads up."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    return names if path.startswith("/") and ".." not in names and "\0" not in path else None


def _covers(entry: str, parts: list[str]) -> bool:
    names = [name for name in entry.split("/") if name]
    if names and names[-1] == "*":
        return parts[: len(names) - 1] == names[:-1]
    return parts == names


def is_guarded(path: str) -> bool:
    """Whether a path is an engine's socket or our own state, or holds such a thing."""
    parts = parts_of(path) or []
    if parts[:2] == ["var", "run"]:
        parts = parts[1:]
    if parts and parts[-1] in SOCKETS:
        return True
    if parts == ["var"]:
        return True
    for guarded in GUARDED:
        names = guarded.strip("/").split("/")
        shorter = min(len(names), len(parts))
        if names[:shorter] == parts[:shorter]:
            return True
    return False
