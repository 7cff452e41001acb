"""Cycles, their due runs, and the plans that workers submit (docs/architecture.md)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

#: Codes of notes on nodes that have too much.
STRAINED = frozenset(("overloaded", "relieved"))
#: Runs for which it is remembered that a node was overloaded.
STRAIN_RUNS = 12
#: Factor on profiles where no cycle says another.
HEADROOM = 1.1


@dataclass(frozen=True, slots=True)
class CycleSpec:
    """One scheduled pass from ``source`` to ``target`` generation, or, where ``kind`` is forecast,
    one that makes forecasts: then most of the other fields mean nothing.

    Either ``cron`` (five fields, UTC) or ``interval_us`` is set. ``mode`` is off, advise or act;
    ``min_age_us`` is the time in ``source`` before promotion; ``max_moves`` bounds one run.
    ``headroom`` is the factor on profiles in ``target``, in the plan and ever after. ``envelopes``
    is k of k-means. ``is_consolidating``: nodes of ``target`` are emptied onto others
    of it too, where that saves at least ``min_saving_w`` idle watts for each move. ``escape`` says
    when a node is switched on for containers that no node that is on has room for: always, or
    where the plan saves by it (saving). A node of ``target`` with more than ``relief_above`` of its
    capacity taken sheds containers if ``relief_after`` runs in a row found it so; 0: none does.
    """

    name: str
    source: str
    target: str
    cron: str = ""
    interval_us: int = 0
    mode: str = "act"
    min_age_us: int = 0
    max_moves: int = 50
    headroom: float = HEADROOM
    min_samples: int = 3
    description: str = ""
    envelopes: int = 4
    is_consolidating: bool = False
    min_saving_w: float = 1.0
    escape: str = "always"
    relief_above: float = 1.0
    relief_after: int = 2
    kind: Literal["generation", "forecast"] = "generation"


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
class NodeNote:
    """What a plan means for a node, and why: ``code`` is freed (it can go off), started (it has to
    go on), overloaded or relieved (``STRAINED``: it has too much, and this is what is done about
    it), or the stable reason for which it was not emptied; of a run of forecasts: forecast, or
    cold (too little history).

    ``idle_w`` is its modelled idle draw in watts, 0 unknown; ``price_nano_per_h`` its price.
    """

    node: str
    code: str
    reason: str
    idle_w: float = 0.0
    price_nano_per_h: int = 0


@dataclass(frozen=True, slots=True)
class Saving:
    """What a plan saves once enacted: nodes freed less nodes started, negative where it costs.

    ``idle_w`` is modelled from the nodes' idle draw alone; ``unknown_nodes`` of them state none.
    """

    nodes: int = 0
    idle_w: float = 0.0
    price_nano_per_h: int = 0
    unknown_nodes: int = 0

    @property
    def is_worthwhile(self) -> bool:
        """Whether it saves at all: money before watts, watts before nodes."""
        return (self.price_nano_per_h, self.idle_w, self.nodes) > (0, 0.0, 0)


def saving_of(notes: Iterable[NodeNote]) -> Saving:
    """Return the sum over the nodes that are freed or started."""
    nodes, idle_w, price, unknown = 0, 0.0, 0, 0
    for note in notes:
        sign = {"freed": 1, "started": -1}.get(note.code, 0)
        nodes += sign
        idle_w += sign * note.idle_w
        price += sign * note.price_nano_per_h
        unknown += sign != 0 and note.idle_w <= 0
    return Saving(nodes, idle_w, price, unknown)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker computed from the snapshot of ``revision`` for ``run_id``."""

    run_id: str
    generation: str
    revision: int
    expires_us: int
    moves: tuple[Move, ...]
    kept: tuple[Kept, ...] = ()
    nodes: tuple[NodeNote, ...] = ()


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
    nodes: tuple[NodeNote, ...] = ()

    @property
    def is_over(self) -> bool:
        return self.state in RUN_OVER
