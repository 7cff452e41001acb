"""Cycles, their due runs, and the plans that workers submit (DESIGN.md sections 2 and 5)."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class CycleSpec:
    """One scheduled pass from ``source`` to ``target`` generation.

    Either ``cron`` (five fields, UTC) or ``interval_us`` is set. ``mode`` is off, advise or act;
    ``min_age_us`` is the time in ``source`` before promotion; ``max_moves`` bounds one run.
    """

    name: str
    source: str
    target: str
    cron: str = ""
    interval_us: int = 0
    mode: str = "act"
    min_age_us: int = 0
    max_moves: int = 50
    headroom: float = 1.1
    min_samples: int = 3
    description: str = ""


class RunState(StrEnum):
    DUE = "due"
    CLAIMED = "claimed"
    ENACTING = "enacting"
    DONE = "done"
    ADVISED = "advised"
    FAILED = "failed"
    MISSED = "missed"
    SKIPPED = "skipped"


RUN_TRANSITIONS: dict[RunState, tuple[RunState, ...]] = {
    RunState.DUE: (RunState.CLAIMED, RunState.MISSED, RunState.SKIPPED, RunState.FAILED),
    RunState.CLAIMED: (
        RunState.ENACTING,
        RunState.ADVISED,
        RunState.DONE,
        RunState.FAILED,
        RunState.MISSED,
    ),
    RunState.ENACTING: (RunState.DONE,),
    RunState.DONE: (),
    RunState.ADVISED: (),
    RunState.FAILED: (),
    RunState.MISSED: (),
    RunState.SKIPPED: (),
}
RUN_OVER = frozenset(s for s, following in RUN_TRANSITIONS.items() if not following)


@dataclass(frozen=True, slots=True)
class Move:
    """A proposed move; ``incarnation`` is the one the plan saw."""

    container: str
    incarnation: int
    source: str
    target: str
    reason: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A container the plan leaves where it is, and why (a stable ``code`` and a sentence)."""

    container: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker computed from the snapshot of ``revision`` for ``run_id``."""

    run_id: str
    generation: str
    revision: int
    expires_us: int
    moves: tuple[Move, ...]
    kept: tuple[Kept, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one move: ``code`` is accepted or the reason of refusal."""

    container: str
    target: str
    code: str
    migration: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a cycle; ``id`` is ``cycle@due`` and is what makes it happen once."""

    id: str
    cycle: str
    due_us: int
    state: RunState = RunState.DUE
    is_dry: bool = False
    is_manual: bool = False
    reason: str = ""
    claimed_us: int | None = None
    finished_us: int | None = None
    expires_us: int | None = None
    verdicts: tuple[Verdict, ...] = ()
    moves: tuple[Move, ...] = ()
    kept: tuple[Kept, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in RUN_OVER
