"""Which state a record may go to: illegal steps are refused here, and any of a quarantined one.

Owns nothing: what is quarantined is in ``Context``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from tenure.core.state.context import Context
from tenure.model.batch import BATCH_TRANSITIONS, TASK_TRANSITIONS
from tenure.model.container import CONTAINER_TRANSITIONS
from tenure.model.drain import DRAIN_TRANSITIONS
from tenure.model.job import EXECUTOR_TRANSITIONS, JOB_TRANSITIONS
from tenure.model.plan import RUN_TRANSITIONS

#: The states that follow each state, by kind of record.
FOLLOWING: Mapping[str, Mapping[Any, Collection[StrEnum]]] = {
    "job": JOB_TRANSITIONS,
    "executor": EXECUTOR_TRANSITIONS,
    "batch": BATCH_TRANSITIONS,
    "task": TASK_TRANSITIONS,
    "container": CONTAINER_TRANSITIONS,
    "drain": DRAIN_TRANSITIONS,
    "run": RUN_TRANSITIONS,
}
#: A part, and what it is a part of: without it that cannot end, so it is left as it is too.
WHOLE = {"executor": "job", "task": "batch"}


def may_go(ctx: Context, kind: str, key: str, was: StrEnum, to: StrEnum) -> bool:
    """Whether a record may go from one state to another; an illegal step quarantines it.

    Asked before anything is done that belongs to the step, so that a refused one leaves nothing.
    """
    if ctx.is_quarantined(kind, key):
        return False
    if to in FOLLOWING[kind][was]:
        return True
    why = f"it cannot go from {was} to {to}"
    ctx.quarantine(kind, key, why)
    if kind in WHOLE:
        ctx.quarantine(WHOLE[kind], key.partition("/")[0], f"{kind} {key}: {why}")
    return False
