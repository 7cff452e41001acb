"""How an effect ends: done, refused or unknown (DESIGN.md section 11)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Done:
    """It happened. ``value`` is the engine id of a created container, or a word for a probe."""

    value: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """It did not happen and will not. ``code`` is one of ``REFUSALS``; ``detail`` for people."""

    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have happened, or may yet (time-out, cut link, restart)."""

    detail: str = ""


Outcome = Done | Refused | Unknown

REFUSALS = (
    "no_image",
    "no_such_container",
    "name_taken",
    "bad_request",
    "start_failed",
    "engine_error",
    "unreachable",
    "power_failed",
)
