"""Which kind of move a container gets, and why none better (docs/moving-containers.md).

A container's ``migrate`` names one kind, which it gets or it stays; without it the best that its
body and both engines allow: live before snapshot before restart. Nothing is guessed: what CRIU
cannot restore is told from the body, and what only the dump itself can tell (an open TCP
connection) is refused by the source, which runs on. Owns nothing, reads only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tenure.model.container import ContainerState, Service
from tenure.model.node import Node

KINDS = ("live", "snapshot", "restart")
#: What does not run is moved with its files, and stays at rest.
AT_REST = frozenset((ContainerState.STOPPED, ContainerState.EXITED))
#: Says that the same files are under its bind mounts' paths on every node.
LABEL_BINDS = "tenure.binds"


@dataclass(frozen=True, slots=True)
class Choice:
    """How a container is moved: ``kind`` "" means not at all; ``why`` no better way, or why not."""

    kind: str
    why: str = ""
    is_start_first: bool = False
    is_at_rest: bool = False

    @property
    def method(self) -> str:
        """Return the step plan: live, snapshot, stop-first, start-first, at-rest; "" for none."""
        if self.is_at_rest:
            return "at-rest"
        if self.kind != "restart":
            return self.kind
        return "start-first" if self.is_start_first else "stop-first"

    @property
    def told(self) -> str:
        """Return the method, and why it is no better one."""
        return f"{self.method}; {self.why}" if self.why else self.method


def choose(service: Service, source: Node | None, target: Node | None, best: str) -> Choice:
    """Return how ``service`` moves from ``source`` to ``target``, either unknown as None.

    ``best`` is the best kind of containers that name none.
    """
    barred = never(service)
    if barred:
        return Choice("", barred[1])
    if service.state in AT_REST:
        return Choice("snapshot", is_at_rest=True)  # there is no memory, and files are kept
    return _chosen(service, source, target, best)


def _chosen(service: Service, source: Node | None, target: Node | None, best: str) -> Choice:
    wanted = service.migrate or best
    if wanted == "live":
        objection = _not_live(service, source, target)
        if not objection:
            return Choice("live")
        if service.migrate:
            return Choice("", f"it may move live alone (tenure.migrate=live), and {objection}")
        return Choice("snapshot", f"not live: {objection}")
    told = f"its owner asks for {wanted}" if service.migrate else f"{wanted} is configured"
    if wanted == "snapshot":
        return Choice("snapshot", f"not live: {told}")
    first = may_be_start_first(service.body, overlap=service.overlap)
    return Choice("restart", f"not live nor snapshot: {told}", first)


def _is_shared(service: Service) -> bool:
    return str(_host(service.body).get("NetworkMode", "")).startswith("container:")


def _is_bound(service: Service) -> bool:
    labels = service.body.get("Labels") or {}
    return has_binds(service.body) and labels.get(LABEL_BINDS) != "shared"


#: Code and words of what keeps a container where it is whatever the nodes, and when it does.
NEVER: tuple[tuple[str, str, Callable[[Service], bool]], ...] = (
    (
        "never_migrate",
        "its owner allows no move (tenure.migrate=never)",
        lambda service: service.migrate == "never",
    ),
    ("shared_network", "it shares the network of another container", _is_shared),
    (
        "shared_volumes",
        "it shares the volumes of another container",
        lambda service: bool(_host(service.body).get("VolumesFrom")),
    ),
    (
        "bind_mount",
        "it has a bind mount, whose files are on this node alone; "
        f"set the label {LABEL_BINDS}=shared if its paths hold the same files on every node",
        _is_bound,
    ),
)


def never(service: Service) -> tuple[str, str] | None:
    """Return code and words of what keeps a container where it is whatever the nodes, or None."""
    return next(((code, words) for code, words, holds in NEVER if holds(service)), None)


def tied(service: Service) -> str:
    """Return why a container waits for a node that is off, or "": elsewhere it would lack files."""
    if has_volumes(service.body):
        return "it has volumes, whose files are on that node alone"
    barred = never(replace(service, migrate=""))
    return "" if barred is None else barred[1]


def stays(service: Service, source: Node | None) -> tuple[str, str] | None:
    """Return code and words of what keeps a container on its node whatever the target, or None.

    That is ``never``, or an owner who asks for live moves where body or node allow none, or whose
    last live move was refused (``live_refused``: it is tried again later).
    """
    objection = _not_live(service, source, source) if service.migrate == "live" else ""
    told = f"it may move live alone (tenure.migrate=live), and {objection}"
    code = "live_refused" if objection and objection == service.no_live else "not_movable"
    return never(service) or ((code, told) if objection else None)


def as_of(service: Service, now_us: int) -> Service:
    """Return it as it is at a moment: a refusal of a live move that has passed is forgotten."""
    if service.no_live and 0 < service.live_retry_us <= now_us:
        return replace(service, no_live="")
    return service


def may_fall_back(service: Service) -> bool:
    """Whether a live move that its engine refuses may go on as a snapshot."""
    return not service.migrate


def _not_live(service: Service, source: Node | None, target: Node | None) -> str:
    """Return why a container cannot move live between two nodes, or ""."""
    for node in (source, target):
        if node is None or not node.spec.checkpoint:
            name = "no node" if node is None else f"node {node.name}"
            return f"{name} is not configured to checkpoint (checkpoint: true)"
    return _not_restorable(service.body) or service.no_live


def _not_restorable(body: dict[str, Any]) -> str:
    """Return what in a create body CRIU cannot bring back on another machine, or ""."""
    host = _host(body)
    if host.get("NetworkMode") == "host":
        return "it uses the node's own network"
    for key, what in (("PidMode", "processes"), ("IpcMode", "shared memory")):
        mode = str(host.get(key) or "")
        if mode == "host" or mode.startswith("container:"):
            return f"it shares {what} with others ({key} {mode})"
    if host.get("Privileged"):
        return "it is privileged"
    if host.get("Devices") or host.get("DeviceRequests"):
        return "it uses devices, whose state cannot be kept"
    return ""


def may_be_start_first(body: dict[str, Any], *, overlap: bool) -> bool:
    """Whether two copies may run for the time of the verification.

    Only without a volume, writable mount, fixed address or published host port, or if the owner
    allows it by label ``tenure.overlap=allow``; never with volumes, whose files are copied.
    """
    host = _host(body)
    if has_volumes(body):
        return False
    if overlap:
        return True
    has_writable_bind = any(not _is_read_only(bind) for bind in host.get("Binds") or ())
    has_writable_mount = any(
        m.get("Type") != "tmpfs" and not m.get("ReadOnly") for m in _mounts(host)
    )
    is_fixed = bool(host.get("PortBindings")) or bool(body.get("MacAddress"))
    is_fixed = is_fixed or str(host.get("NetworkMode", "")) == "host"
    return not (has_writable_bind or has_writable_mount or is_fixed)


def has_volumes(body: dict[str, Any]) -> bool:
    """Whether the body asks for volumes, named or not."""
    host = _host(body)
    named = any(not str(bind).startswith("/") for bind in host.get("Binds") or ())
    mounted = any(mount.get("Type") == "volume" for mount in _mounts(host))
    return named or mounted or bool(body.get("Volumes"))


def has_binds(body: dict[str, Any]) -> bool:
    """Whether the body mounts paths of the host."""
    host = _host(body)
    bound = any(str(bind).startswith("/") for bind in host.get("Binds") or ())
    return bound or any(mount.get("Type") == "bind" for mount in _mounts(host))


def _host(body: dict[str, Any]) -> dict[str, Any]:
    host = body.get("HostConfig")
    return host if isinstance(host, dict) else {}


def _mounts(host: dict[str, Any]) -> list[dict[str, Any]]:
    return [mount for mount in host.get("Mounts") or () if isinstance(mount, dict)]


def _is_read_only(bind: object) -> bool:
    options = str(bind).split(":")[2:]
    return any("ro" in option.split(",") for option in options)
