"""How an effect ends: done, refused or unknown."""

from __future__ import annotations

from dataclasses import dataclass

from tenure.model.external import Layout
from tenure.model.planning import PlanAnswer


@dataclass(frozen=True, slots=True)
class Done:
    """It happened. ``value`` is the engine id of a created container, or a word for a probe.

    Of what was carried from one engine to another ``value`` is the image to create from ("": the
    container's own) and ``moved_bytes`` what was sent to the target. Of a decision ``counts`` are
    the nodes and how many executors each takes; of a look at tiers, files or tiers with a number.
    Of a block ``value`` is its SHA-256. ``resent`` is how often an input was sent anew.
    ``plan`` is the holistic planner's answer, ``layout`` where the blocks of a dataset lie in HDFS.
    """

    value: str = ""
    moved_bytes: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    resent: int = 0
    plan: PlanAnswer | None = None
    layout: Layout | None = None


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
    "start_blocked",
    "engine_error",
    "unreachable",
    "power_failed",
    "checkpoint_failed",
    "too_large",
    "volume_exists",
    "volume_driver",
    "no_solver",
    "no_optimum",
    "corrupted",
    "input_changed",
    "no_input",
    "bad_output",
    "tier_full",
    "no_tier",
    "no_plan",
    "superseded",
)
