"""The step plans of migrations, as tables.

``FORWARD[method][step]`` is the step after ``step`` is done; ``method`` is the migration's. Every
plan but start-first ends the source before the target may run, and brings over what belongs to it
while neither runs:

    stop-first   [PREPARE] CREATE DISARM STOP [TRANSFER] START      (files are created anew)
    snapshot     PREPARE DISARM STOP CARRY CREATE TRANSFER START     (files are kept)
    live         PREPARE DISARM CHECKPOINT CARRY CREATE TRANSFER START   (memory is kept as well)
    start-first  CREATE START                                        (two run while it is verified)
    at-rest      PREPARE DISARM CARRY CREATE TRANSFER                (a stopped one: files are kept)

PREPARE brings the image and finds out, with the source running, whether the volumes may be copied;
CARRY sends the changed files as a layer, TRANSFER volumes and checkpoint. Steps in brackets are
left out for containers without volumes (``following``). Invariants, checked after every step by the
tests: all but start-first never have two copies that may run; start-first has two only between
START and the end; in every final step exactly one copy runs, of a container at rest none: its
target is never started, so there is nothing to verify but, after TRANSFER, that the source rests.
Owns nothing.
"""

from __future__ import annotations

from itertools import pairwise

from tenure.model.container import Step

_BACK = {
    Step.UNDO_TARGET: Step.UNDO_SOURCE,
    Step.UNDO_SOURCE: Step.UNDO_ARM,
    Step.UNDO_ARM: Step.ROLLED_BACK,
}
_END = (Step.START, Step.VERIFY, Step.COMMIT, Step.SWEEP, Step.DONE)


def _plan(*steps: Step, end: tuple[Step, ...] = _END) -> dict[Step, Step]:
    return {**dict(pairwise((Step.QUEUED, *steps, *end))), **_BACK}


_STILL = (Step.CARRY, Step.CREATE, Step.TRANSFER)
FORWARD: dict[str, dict[Step, Step]] = {
    "live": _plan(Step.PREPARE, Step.DISARM, Step.CHECKPOINT, *_STILL),
    "snapshot": _plan(Step.PREPARE, Step.DISARM, Step.STOP, *_STILL),
    "stop-first": _plan(Step.PREPARE, Step.CREATE, Step.DISARM, Step.STOP, Step.TRANSFER),
    "start-first": _plan(Step.CREATE),
    "at-rest": _plan(Step.PREPARE, Step.DISARM, *_STILL, end=_END[2:]),
}

#: Left out of a restart of a container that has no volumes.
VOLUME_STEPS = frozenset((Step.PREPARE, Step.TRANSFER))

#: Steps that bring something from one engine to the other; they may be done again.
CARRYING = frozenset((Step.PREPARE, Step.CARRY, Step.TRANSFER))

#: Steps in which the target copy may run.
TARGET_MAY_RUN = frozenset(
    (Step.START, Step.VERIFY, Step.COMMIT, Step.SWEEP, Step.DONE, Step.UNDO_TARGET)
)


def following(method: str, step: Step, *, has_volumes: bool) -> Step:
    """Return the step after ``step`` is done, without those that have nothing to do."""
    after = FORWARD[method][step]
    if method == "stop-first" and not has_volumes and after in VOLUME_STEPS:
        return FORWARD[method][after]
    return after


def is_committed(step: Step) -> bool:
    """Whether the move can only go forward."""
    return step in (Step.COMMIT, Step.SWEEP, Step.DONE)
