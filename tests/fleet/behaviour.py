"""What a simulated container does once started; its command says so.

``work SECONDS FAILING CODE``: attempts up to FAILING end with CODE, later ones with 0.
``serve HEALTHY_AFTER [tcp]``: runs until stopped; -1 means without a health check; ``tcp``: it has
an open connection, and so cannot be checkpointed.
``burst SECONDS CODE``: a service that ends by itself. ``bad``: cannot be started.
Executors of Spark jobs run until stopped; by label ``WORKER_ENDS`` (SECONDS FAILING CODE) attempts
up to FAILING end with CODE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure.model.facts import LABEL_ATTEMPT, LABEL_DRIVER
from tenure.model.units import US, seconds_to_us

#: A label of Spark jobs in simulation.
WORKER_ENDS = "sim.worker"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """``run_us`` None: runs until stopped; ``healthy_after_us`` None: no health check."""

    run_us: int | None = None
    exit_code: int = 0
    healthy_after_us: int | None = None
    is_unstartable: bool = False


def behaviour_of(body: dict[str, Any]) -> Behaviour:
    """Return what a container with this create body does."""
    command = body.get("Cmd") or ["serve", "-1"]
    verb, *rest = command
    labels = body.get("Labels") or {}
    attempt = int(labels.get(LABEL_ATTEMPT, "1"))
    if WORKER_ENDS in labels and LABEL_DRIVER in labels:
        run_s, failing, code_of = labels[WORKER_ENDS].split()
        return Behaviour(int(run_s) * US, int(code_of)) if attempt <= int(failing) else Behaviour()
    if verb == "work":
        code = int(rest[2]) if attempt <= int(rest[1]) else 0
        return Behaviour(max(1, seconds_to_us(float(rest[0]))), code)
    if verb == "burst":
        return Behaviour(seconds_to_us(float(rest[0])), int(rest[1]))
    if verb == "bad":
        return Behaviour(is_unstartable=True)
    after = int(rest[0])
    return Behaviour(healthy_after_us=None if after < 0 else after * US)
