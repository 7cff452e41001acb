"""What the audit keeps: requests that change something or were refused, and the daemon's own acts.

An act is what the daemon did by itself; most are public events of the types in ``ACTORS``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

#: Who acts where an event tells neither a request nor a run, by its type. What is not here is no
#: act: what containers do by themselves, progress, and starts of executors and tasks, of which
#: there are too many.
ACTORS: Mapping[str, str] = {
    **dict.fromkeys(("node.added", "node.removed", "node.forgotten"), "configuration"),
    **dict.fromkeys(
        (
            *("node.booting", "node.on", "node.stopping", "node.off"),
            *("node.power_failed", "node.failed", "node.fenced"),
        ),
        "policy power",
    ),
    **dict.fromkeys(
        (
            *("container.waiting", "container.creating", "container.starting"),
            *("container.stopping", "container.removed", "container.failed"),
            *("executor.lost", "job.failing"),
        ),
        "policy placement",
    ),
    **dict.fromkeys(
        (
            *("harvest.kill", "harvest.oom", "harvest.guarded", "harvest.unguarded"),
            *("task.reclaimed", "task.lost"),
        ),
        "policy harvest",
    ),
    **dict.fromkeys(
        (
            *("dataset.removing", "dataset.removed", "dataset.broken"),
            *("block.corrupted", "tier.replicas_lost"),
        ),
        "policy datasets",
    ),
    **dict.fromkeys(
        ("service.update_failed", "service.updated", "service.rolled_back", "service.removed"),
        "policy services",
    ),
    **dict.fromkeys(
        (
            *("migration.queued", "migration.done", "migration.rolled_back", "migration.refused"),
            *("run.enacting", "run.done", "run.failed"),
        ),
        "cycle",
    ),
    **dict.fromkeys(
        (
            *("node.draining", "node.drained", "node.drain_cancelled", "node.drain_timed_out"),
            *("state.restored", "state.settled", "executor.adopted", "container.adopted"),
            *("daemon.started", "clock.stepped", "clock.unsure"),
            *("record.quarantined", "copy.blocked"),
        ),
        "daemon",
    ),
    "history.forgotten": "retention",
    "output.removed": "retention",
    "token.expired": "policy tokens",
    "token.replaced": "configuration",
    "configuration.reloaded": "SIGHUP",
}


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A request or an act. ``seq`` counts rows from 1 (0: not stored yet); ``at_us`` when it was.

    ``kind`` is token, certificate or peer, ``who`` its name and ``role`` its role, all empty for
    nobody known; ``origin`` an address or ``uid N``. ``subject`` is the id or name of what was
    changed or made; ``code`` that of a refusal. ``status`` 0: the caller went before the answer.
    ``cause`` is the id of the request. Of an act ``kind`` is act, ``who`` the actor, ``act`` what
    it did, ``cause`` the request, drain or run that it comes from, and ``detail`` a JSON object.
    """

    at_us: int
    kind: str
    who: str
    role: str
    origin: str
    method: str
    path: str
    subject: str
    status: int
    code: str = ""
    act: str = ""
    cause: str = ""
    detail: str = "{}"
    seq: int = 0


def act_row(at_us: int, act: str, subject: str, data: Mapping[str, object]) -> AuditRow:
    """Return the row of an act, whose actor is told by what it comes from, else by its type."""
    cause, run = str(data.get("cause", "")), str(data.get("run", ""))
    who = _actor(act, subject, cause, run)
    found = cause or run
    return AuditRow(at_us, "act", who, "", "", "", "", subject, 0, "", act, found, json.dumps(data))


def _actor(act: str, subject: str, cause: str, run: str) -> str:
    """Return who acts. A move is its cycle's or drain's, though a request handed in the plan."""
    if act.startswith("run."):
        told = subject
    elif act.startswith("migration."):
        told = run
    else:
        told = cause or run
    if told.startswith("drain:"):
        return f"drain {told.partition(':')[2].rpartition('@')[0]}"
    if "@" in told:
        return f"cycle {told.partition('@')[0]}"
    return f"request {told}" if told else ACTORS[act]
