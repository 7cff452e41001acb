"""What the holistic planner is asked about batches, what it answers, and the schedule that is kept.

Times are microseconds UTC. Nodes of a question are told by their place in ``offers``, stages of a
batch by their place in it.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Solvers that a configuration may name: all that keep Eq. 6.
SOLVERS = ("auto", "cp", "ga", "ls", "first_fit")
#: Who goes first where there is not enough at once for everybody.
SHARINGS = ("arrival", "fair")


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node lends over time: A(k, m, t) of Eq. 1.

    ``spells`` are (steps of 3 minutes, thousandths of a core, bytes), one after the other from
    the question's time on; the last goes on to the end of the window.
    """

    node: str
    spells: tuple[tuple[int, int, int], ...]
    speed: float = 1.0
    link_bytes_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class StageNeed:
    """What is left of a stage: of ``count`` tasks ``ended`` have ended.

    ``running``: (node, when they are expected to end, tasks) that run or are about to, and stay;
    ``delivered``: (node, tasks) whose input lies there and which have not begun. ``nodes`` may run
    it. A task takes ``work_us`` on a node of speed 1; ``after`` are the stages before. ``is_rest``:
    it is the part of the stage before it in the list that may run on other nodes alone.
    ``copies``: (nodes, those of them where it is in the fastest tier, tasks) whose input lies on
    each of these, of tasks that have not begun; elsewhere it has to be brought, which takes
    ``bring_us`` beside its way over the link. No nodes: it lies on others; tasks in no class: it
    lies nowhere yet.
    """

    name: str
    count: int
    work_us: int
    cpu_m: int
    memory_bytes: int
    chunk_bytes: int
    after: tuple[int, ...]
    nodes: tuple[int, ...]
    ended: int = 0
    running: tuple[tuple[int, int, int], ...] = ()
    delivered: tuple[tuple[int, int], ...] = ()
    is_rest: bool = False
    copies: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...] = ()
    bring_us: int = 0


@dataclass(frozen=True, slots=True)
class BatchNeed:
    """What is left of a batch. ``promised_us``: the end it was promised, 0 for one that is new.

    ``weight``: its submitter's part of what is shared, as a multiple of others'.
    """

    batch: str
    submitter: str
    stages: tuple[StageNeed, ...]
    promised_us: int = 0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Batches in the order of their arrival, the new ones last, and what nodes offer them."""

    now_us: int
    window_us: int
    offers: tuple[Offer, ...]
    batches: tuple[BatchNeed, ...]
    solver: str = "auto"
    sharing: str = "arrival"
    cores: int = 2


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """``count`` tasks of a stage that begin together on a node.

    To ``brought`` of them their input is brought from other nodes.
    """

    stage: str
    node: str
    at_us: int
    count: int
    brought: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """A batch's plan: what had not begun at ``planned_us``, in order of time.

    As a record, ``starts`` are the first of them, and ``parts`` is how many records hold the others
    (``PlannedStarts``). It would end at ``end_us``. ``solver`` made it; ``is_proven``: no plan of
    all the batches that were planned together ends earlier. ``why`` it was made.
    """

    batch: str
    starts: tuple[PlannedStart, ...]
    end_us: int
    solver: str
    is_proven: bool
    planned_us: int
    why: str = ""
    parts: int = 0


@dataclass(frozen=True, slots=True)
class PlannedStarts:
    """Some of the starts of a schedule, in order of time."""

    starts: tuple[PlannedStart, ...]


@dataclass(frozen=True, slots=True)
class PlanAnswer:
    """A schedule for each batch that fits, (batch, code, detail) for each that does not."""

    schedules: tuple[Schedule, ...]
    refusals: tuple[tuple[str, str, str], ...] = ()
