"""Effects: what the core asks of the shell. Each ends in exactly one ``EffectEnded``.

Durable effects change the world outside and go through the outbox: they are stored in the same
transaction as the records that speak of them, and only then carried out. After a restart every
stored effect that has not ended is taken as ended ``Unknown``. The others are questions and
answers, and are asked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class CreateContainer:
    """Create (never start) a container by this name; an equal one that exists counts as done.

    ``body`` is Docker's create body with tenure's labels. ``pull`` says whether the image may be
    pulled when the engine lacks it. Ends ``Done(engine id)``; equal means the same labels
    tenure.fleet, tenure.job/executor/attempt or tenure.container/incarnation.
    """

    id: str
    owner: str
    node: str
    name: str
    body: dict[str, Any] = field(default_factory=dict)
    pull: bool = False
    kind: Literal["create"] = "create"


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Start a created or stopped container; already running counts as done."""

    id: str
    owner: str
    node: str
    engine_id: str
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class StopContainer:
    """Stop within ``grace_s`` seconds, then kill; already stopped or absent counts as done."""

    id: str
    owner: str
    node: str
    engine_id: str
    grace_s: int = 10
    kind: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True)
class RetireContainer:
    """Stop, keep the log's end under ``logs_key`` if set, remove; absent counts as done.

    ``target`` is an engine id: a removal by name that comes late could meet a successor.
    """

    id: str
    owner: str
    node: str
    target: str
    grace_s: int = 10
    logs_key: str = ""
    kind: Literal["retire"] = "retire"


@dataclass(frozen=True, slots=True)
class SetRestartPolicy:
    """Set Docker's restart policy of a container (``policy`` as Docker writes it)."""

    id: str
    owner: str
    node: str
    engine_id: str
    policy: dict[str, Any] = field(default_factory=dict)
    kind: Literal["restart_policy"] = "restart_policy"


@dataclass(frozen=True, slots=True)
class SwitchPower:
    """Switch a node ``on`` or ``off`` by its driver; done once the driver says so."""

    id: str
    owner: str
    node: str
    to: str
    kind: Literal["power"] = "power"


@dataclass(frozen=True, slots=True)
class ProbePower:
    """Ask the power driver; ends ``Done("on"|"off")``."""

    id: str
    owner: str
    node: str
    kind: Literal["probe"] = "probe"


@dataclass(frozen=True, slots=True)
class Relist:
    """Have the node's watcher list soon; answered by ``NodeListed``, not by an end."""

    node: str
    kind: Literal["relist"] = "relist"


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request ``request``: ``value`` is a record or JSON data, or a ``Problem``."""

    request: str
    value: Any
    kind: Literal["reply"] = "reply"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Have a worker run a cycle now (manual run or catch-up); best effort."""

    cycle: str
    run_id: str
    kind: Literal["trigger"] = "trigger"


EngineEffect = CreateContainer | StartContainer | StopContainer | RetireContainer | SetRestartPolicy
DurableEffect = EngineEffect | SwitchPower | ProbePower
Effect = DurableEffect | Relist | Reply | Trigger
DURABLE_KINDS = frozenset(("create", "start", "stop", "retire", "restart_policy", "power", "probe"))
