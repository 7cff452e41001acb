"""What a simulated container does once started; its command says so.

``work SECONDS FAILING CODE``: attempts up to FAILING end with CODE, later ones with 0.
``serve HEALTHY_AFTER``: runs until stopped; -1 means without a health check.
``burst SECONDS CODE``: a service that ends by itself. ``bad``: cannot be started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure.model.units import US, seconds_to_us


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
    if verb == "work":
        attempt = int((body.get("Labels") or {}).get("tenure.attempt", "1"))
        code = int(rest[2]) if attempt <= int(rest[1]) else 0
        return Behaviour(max(1, seconds_to_us(float(rest[0]))), code)
    if verb == "burst":
        return Behaviour(seconds_to_us(float(rest[0])), int(rest[1]))
    if verb == "bad":
        return Behaviour(is_unstartable=True)
    after = int(rest[0])
    return Behaviour(healthy_after_us=None if after < 0 else after * US)
