"""Who may do what: roles, what each route needs, who a request is from, and whose things are.

Roles are a ladder: metrics < read < submit < operate < admin, each with all that the ones before
may do. A worker stands beside it: it may do what the cycles' workers do, and nothing else.

What is submitted is of a namespace, its submitter's. Others may see it; below ``operate`` they may
not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tenure.model.errors import Forbidden


class Role(StrEnum):
    """What somebody may do; see ``NEEDS``."""

    METRICS = "metrics"
    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"
    WORKER = "worker"


LADDER = (Role.METRICS, Role.READ, Role.SUBMIT, Role.OPERATE, Role.ADMIN)
_HEIGHT = {role: height for height, role in enumerate(LADDER)}


def height(role: Role) -> int:
    """Return the place of a role on the ladder; -1 for a worker, which stands beside it."""
    return _HEIGHT.get(role, -1)


def has_power_of(held: Role, needed: Role) -> bool:
    """Whether a role may do all that another one may."""
    if needed is Role.WORKER or held is Role.WORKER:
        return held is needed or held is Role.ADMIN
    return height(held) >= height(needed)


#: Of callers and of what is submitted where nobody says another.
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose something is: the namespace that it is of, and who submitted it ("": not known)."""

    namespace: str = NAMESPACE
    submitter: str = ""


#: Of what came before there were namespaces, and of what the daemon makes by itself.
UNOWNED = Owner()


@dataclass(frozen=True, slots=True)
class Grant:
    """What a name of a certificate or a group gives its bearer."""

    role: Role
    namespace: str = NAMESPACE


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a request is from: a token, a client certificate or a user of the unix socket.

    ``kind`` is token, certificate or peer; ``name`` that of the token or certificate, or
    ``uid N``. ``expires_us`` None: never.
    """

    kind: str
    name: str
    role: Role
    expires_us: int | None = None
    namespace: str = NAMESPACE

    @property
    def key(self) -> str:
        """What tells it from all others: kind and name."""
        return f"{self.kind} {self.name}"

    def may_act_in(self, namespace: str) -> bool:
        """Whether it may submit and change what is of this namespace."""
        return namespace == self.namespace or has_power_of(self.role, Role.OPERATE)


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token without its text, of which ``sha256`` is the digest in hexadecimal digits.

    Times are microseconds; ``expires_us`` and ``revoked_us`` None: it does not, it was not.
    ``is_builtin``: the daemon's own, which cannot be revoked.
    """

    name: str
    role: Role
    sha256: str
    made_us: int
    made_by: str = ""
    expires_us: int | None = None
    revoked_us: int | None = None
    is_builtin: bool = False
    namespace: str = NAMESPACE

    def state(self, now_us: int) -> str:
        """Return active, expired or revoked."""
        if self.revoked_us is not None:
            return "revoked"
        is_expired = self.expires_us is not None and now_us >= self.expires_us
        return "expired" if is_expired else "active"


@dataclass(frozen=True, slots=True)
class Need:
    """The least role that a route asks for (None: none), and whether it is a worker's too."""

    least: Role | None
    is_workers: bool = False

    @property
    def is_open(self) -> bool:
        """Whether anybody may ask, without a token."""
        return self.least is None

    def allows(self, role: Role) -> bool:
        """Whether somebody of this role may ask."""
        if role is Role.WORKER:
            return self.is_open or self.is_workers
        return self.least is None or has_power_of(role, self.least)

    def require(self, caller: Caller | None) -> None:
        """Raise Forbidden, naming the roles needed and held, where the caller may not ask."""
        if self.least is None or (caller is not None and self.allows(caller.role)):
            return
        held = "none" if caller is None else caller.role.value
        raise Forbidden(
            f"this needs the role {self}, and yours is {held}",
            extra={"role_needed": str(self), "role_held": held},
        )

    def __str__(self) -> str:
        words = "none" if self.least is None else self.least.value
        return f"{words} or {Role.WORKER.value}" if self.is_workers else words


OPEN = Need(None)
METRICS, READ, SUBMIT, OPERATE, ADMIN = (Need(role) for role in LADDER)
METRICS_WORKER, READ_WORKER, ADMIN_WORKER = (
    Need(role, is_workers=True) for role in (Role.METRICS, Role.READ, Role.ADMIN)
)

#: Every route, and what it needs.
NEEDS: dict[str, Need] = {
    # health
    "GET /livez": OPEN,
    "GET /readyz": OPEN,
    "GET /openapi.json": OPEN,
    "GET /metrics": METRICS,
    "GET /v1/version": METRICS_WORKER,
    # what there is
    "GET /v1/nodes": READ,
    "GET /v1/nodes/{name}": READ,
    "GET /v1/containers": READ,
    "GET /v1/containers/{id}": READ,
    "GET /v1/containers/{id}/logs": READ,
    "GET /v1/services": READ,
    "GET /v1/services/{name}": READ,
    "GET /v1/jobs": READ,
    "GET /v1/jobs/{id}": READ,
    "GET /v1/jobs/{id}/explain": READ,
    "GET /v1/jobs/{id}/executors/{index}/explain": READ,
    "GET /v1/jobs/{id}/logs": READ,
    "GET /v1/batches": READ,
    "GET /v1/batches/{id}": READ,
    "GET /v1/batches/{id}/explain": READ,
    "GET /v1/batches/{id}/tasks": READ,
    "GET /v1/batches/{id}/tasks/{index}/explain": READ,
    "GET /v1/batches/{id}/logs": READ,
    "GET /v1/batches/{id}/output": READ,
    "GET /v1/datasets": READ,
    "GET /v1/datasets/{id}": READ,
    "GET /v1/datasets/{id}/files": READ,
    "GET /v1/datasets/{id}/blocks": READ,
    "GET /v1/datasets/{id}/content": READ,
    "GET /v1/orphans": READ,
    "GET /v1/strays": READ,  # its path until 0.2
    "GET /v1/namespaces": READ,
    "GET /v1/cycles": READ,
    "GET /v1/runs": READ,
    "GET /v1/runs/{id}": READ,
    "GET /v1/forecasts": READ,
    "GET /v1/forecasts/{name}": READ,
    "GET /v1/profiles": READ,
    "GET /v1/top": READ,
    "GET /v1/cost": READ,
    "GET /v1/energy": READ,
    "GET /v1/events": READ,
    # work, submitted and ended
    "POST /v1/containers": SUBMIT,
    "DELETE /v1/containers/{id}": SUBMIT,
    "POST /v1/containers/{id}/start": SUBMIT,
    "POST /v1/containers/{id}/stop": SUBMIT,
    "POST /v1/services": SUBMIT,
    "POST /v1/services/plan": SUBMIT,
    "DELETE /v1/services/{name}": SUBMIT,
    "POST /v1/services/{name}/scale": SUBMIT,
    "POST /v1/services/{name}/pause": SUBMIT,
    "POST /v1/services/{name}/resume": SUBMIT,
    "POST /v1/services/{name}/rollback": SUBMIT,
    "POST /v1/jobs": SUBMIT,
    "POST /v1/jobs/plan": SUBMIT,
    "DELETE /v1/jobs/{id}": SUBMIT,
    "POST /v1/jobs/{id}/cancel": SUBMIT,
    "POST /v1/batches": SUBMIT,
    "POST /v1/batches/plan": SUBMIT,
    "POST /v1/batches/{id}/cancel": SUBMIT,
    "POST /v1/datasets": SUBMIT,
    "POST /v1/datasets/{id}/pin": SUBMIT,
    "POST /v1/datasets/{id}/unpin": SUBMIT,
    "POST /v1/datasets/{id}/prefetch": SUBMIT,
    "POST /v1/datasets/{id}/verify": SUBMIT,
    "DELETE /v1/datasets/{id}": SUBMIT,
    "POST /v1/uploads": SUBMIT,
    "GET /v1/uploads": SUBMIT,
    "GET /v1/uploads/{id}": SUBMIT,
    "PUT /v1/uploads/{id}/files/{number}": SUBMIT,
    "DELETE /v1/uploads/{id}": SUBMIT,
    # the fleet itself
    "PATCH /v1/nodes/{name}": OPERATE,
    "POST /v1/containers/{id}/move": OPERATE,
    "POST /v1/nodes/{name}/drain": OPERATE,
    "DELETE /v1/nodes/{name}/drain": OPERATE,
    "POST /v1/nodes/{name}/power": OPERATE,
    "POST /v1/nodes/{name}/fence": OPERATE,
    "POST /v1/nodes/{name}/tiers/{tier}/accept": OPERATE,
    "POST /v1/cycles/{name}/run": OPERATE,
    "DELETE /v1/orphans/{id}": OPERATE,
    "DELETE /v1/strays/{id}": OPERATE,  # its path until 0.2
    # what workers do
    "GET /v1/snapshot": READ_WORKER,
    "GET /v1/nodes/{name}/usage": READ_WORKER,
    "POST /v1/cycles/{name}/claim": ADMIN_WORKER,
    "POST /v1/runs/{id}/fail": ADMIN_WORKER,
    "POST /v1/plans": ADMIN_WORKER,
    "POST /v1/forecasts": ADMIN_WORKER,
    # who may do what
    "GET /v1/audit": ADMIN,
    "GET /v1/tokens": ADMIN,
    "POST /v1/tokens": ADMIN,
    "DELETE /v1/tokens/{name}": ADMIN,
}


def need_of(method: str, pattern: str) -> Need:
    """Return what a route needs, by its method and path pattern; KeyError for one not in NEEDS."""
    return NEEDS[f"{'GET' if method == 'HEAD' else method} {pattern}"]
