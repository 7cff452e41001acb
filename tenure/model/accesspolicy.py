"""What of an engine's power a role may use for the containers that it submits.

Whoever sets a host's namespace, device or folder into a container has power over that host. So the
default allows none of it; each field says what it costs to allow it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from tenure.model.roles import NAMESPACE, Caller, Role

#: Sockets and folders that are as good as root on their host, and those that hold them.
GUARDED = (
    *("/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/tenure"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/tenure"),
)
SOCKETS = frozenset(("docker.sock", "dockerd.sock", "containerd.sock", "podman.sock", "crio.sock"))
#: Ports of a host that a namespace's submitters may publish where nobody says which.
UNPRIVILEGED = ("1024-65535",)


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """Lists hold names that are allowed, as shell patterns; of ``binds`` see ``binds_path``.

    ``max_priority`` None: any; so are ``ports`` (``8000-8999``) and ``volumes``, of which patterns
    that begin with ``!`` take names away.
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
    images_by_digest: bool = False
    volumes: tuple[str, ...] | None = None
    ports: tuple[str, ...] | None = None
    generations: tuple[str, ...] = ("*",)
    max_priority: int | None = None

    def binds_path(self, path: str) -> bool:
        """Whether a folder or file of the host may be mounted.

        An entry ``/srv/data`` allows that folder alone, ``/srv/data/*`` all below it as well. Paths
        with ``..`` are never allowed.
        """
        parts = parts_of(path)
        return parts is not None and any(_covers(entry, parts) for entry in self.binds)

    def mounts_volume(self, name: str) -> bool:
        """Whether the volume of a name may be mounted, and made where there is none."""
        given = self.volumes or ()
        without = tuple(one[1:] for one in given if one.startswith("!"))
        return self.volumes is None or (allows(given, name) and not allows(without, name))

    def publishes(self, ports: str) -> bool:
        """Whether a port of the host, or each of a range, may be published.

        "" and 0 leave the choice to the engine.
        """
        if self.ports is None or not ports.strip("0"):
            return True
        wanted = span_of(ports)
        spans = filter(None, map(span_of, self.ports))
        return wanted is not None and any(a <= wanted[0] and wanted[1] <= b for a, b in spans)


@dataclass(slots=True)
class Permits:
    """What who submits may use: by role, and ``within`` a namespace with a policy of its own.

    By default nothing that gives power over a host. ``reads`` are patterns of the namespaces that a
    namespace sees beside itself; ``known`` are the namespaces that the configuration names. What is
    here may be replaced at any time.
    """

    by_role: Mapping[Role, AccessPolicy] = field(default_factory=dict)
    within: Mapping[str, AccessPolicy] = field(default_factory=dict)
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    known: Collection[str] = ()

    def take(self, fresh: Permits) -> None:
        """Take over what a configuration that was read anew says."""
        self.by_role, self.within = fresh.by_role, fresh.within
        self.reads, self.known = fresh.reads, fresh.known

    def seen_by(self, caller: Caller) -> tuple[str, ...] | None:
        """Return patterns of the namespaces that a caller sees beside its own; None: all."""
        if caller.role not in (Role.READ, Role.SUBMIT):
            return None
        usual = ("*",) if caller.namespace == NAMESPACE else ()
        found = self.reads.get(caller.namespace, usual)
        return None if "*" in found else found

    def of(self, role: Role, namespace: str) -> tuple[str, AccessPolicy]:
        """Return where the policy of a submitter stands in the configuration, and the policy.

        Unless stated, volumes are a namespace's own, and ports not those of the system; in
        ``default`` ports are any, and volumes all but other namespaces'.
        """
        own = self.within.get(namespace) if role is Role.SUBMIT else None
        found = own or self.by_role.get(role, AccessPolicy())
        is_usual = own is None and (role is not Role.SUBMIT or namespace == NAMESPACE)
        key = f"policy.{role}" if is_usual else f"namespaces.{namespace}.policy"
        if role is not Role.SUBMIT:
            return key, found
        volumes = self._volumes_of(namespace) if found.volumes is None else found.volumes
        usual = None if namespace == NAMESPACE else UNPRIVILEGED
        ports = usual if found.ports is None else found.ports
        return key, replace(found, volumes=volumes, ports=ports)

    def _volumes_of(self, namespace: str) -> tuple[str, ...]:
        """Return patterns of its name, and of what begins with it but with no longer one's."""
        is_named = namespace != NAMESPACE
        names = _named_after(namespace) if is_named else ("*",)
        start = namespace if is_named else ""
        others = [one for one in self.known if one != namespace and one.startswith(start)]
        return (*names, *(f"!{pattern}" for one in others for pattern in _named_after(one)))


def _named_after(namespace: str) -> tuple[str, str]:
    return namespace, f"{namespace}[-_.]*"


def span_of(ports: str) -> tuple[int, int] | None:
    """Return the first and last of ``8080`` or ``8000-8999``; None for what is neither."""
    first, dash, last = ports.partition("-")
    ends = (first, last if dash else first)
    if not all(end.isascii() and end.isdigit() and len(end) <= 5 for end in ends):
        return None
    low, high = map(int, ends)
    return (low, high) if low <= high < 1 << 16 else None


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
