"""The API's parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tenure.api.requests.ports import Access, AuditLog
from tenure.model.accesspolicy import Permits
from tenure.model.job import Constraint
from tenure.model.units import MIB

#: A listener's rate, in those of one client.
LISTENER_SHARE = 4
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of one API application.

    ``access`` says who asks, and keeps the tokens; ``permits`` what may be submitted (an admin
    anything). ``audit`` None: changes are
    recorded nowhere. ``hosts``
    are accepted in the Host header beside the loopback names. ``policies`` may be asked for,
    ``policy`` is the one of a job that asks for none. ``max_executors`` bounds one job.
    ``max_body_bytes`` bounds a request,
    ``max_plan_bytes`` a worker's plan, which names every container of a fleet. ``ask_timeout_s``
    is how long the core may take to answer; ``heartbeat_s`` the longest silence of an event
    stream; ``max_streams`` the number of open event and log streams. ``body_s`` is how long a body
    may take to arrive. ``requests_per_s`` is what one caller may ask for, or one address whose
    caller is unknown; all these at one listener may ask ``LISTENER_SHARE`` times that;
    ``wrong_tokens_per_s`` how often one client may be wrong about the token.
    """

    parse_constraint: Callable[[str], Constraint]
    access: Access
    audit: AuditLog | None = None
    permits: Permits = field(default_factory=Permits)
    hosts: tuple[str, ...] = ()
    policy: str = "tenure"
    policies: tuple[str, ...] = ("ff", "gio", "tenure")
    retries: int = 0
    max_executors: int = 1000
    max_body_bytes: int = MIB
    max_plan_bytes: int = 16 * MIB
    ask_timeout_s: float = 30.0
    heartbeat_s: float = 15.0
    max_streams: int = 100
    body_s: float = 30.0
    requests_per_s: float = 3000.0
    wrong_tokens_per_s: float = 5.0

    def __post_init__(self) -> None:
        if min(self.ask_timeout_s, self.heartbeat_s, self.body_s) <= 0:
            raise ValueError("times must be positive")
        if min(self.requests_per_s, self.wrong_tokens_per_s) <= 0:
            raise ValueError("rates must be positive")
        if min(self.max_executors, self.max_body_bytes, self.max_plan_bytes) < 1:
            raise ValueError("bounds must be at least 1")
