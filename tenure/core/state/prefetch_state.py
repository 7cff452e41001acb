"""What is prefetched, and what became of it: held in memory, worked out by ``prefetching``.

Owned by ``prefetching``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tenure.model.locality import PlannedCopy

#: What a read counts as: the kind of its tier, that its block was brought from another node, or
#: that it is read over the network from there.
WORDS = ("memory", "ssd", "hdd", "brought", "remote")
#: What a copy ahead can come to. begun: it was sent. done: it is in memory. hits: a task read it.
#: wasted: its task read another copy, or nobody did before it was not wanted, or left. failed: it
#: never arrived. dropped: it was planned, and not wanted any more before it was begun. cancelled:
#: nor while it was made.
OUTCOMES = ("begun", "done", "hits", "wasted", "failed", "dropped", "cancelled")


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A copy under way for ``course``, begun as one of ``sharing`` from its device.

    ``is_aborted``: nobody waits for it any more, and it is being cancelled.
    """

    row: PlannedCopy
    course: str
    begun_us: int
    sharing: int
    is_aborted: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """A copy that was made ahead in memory of ``node`` and that nobody has read yet."""

    node: str
    course: str


@dataclass(slots=True)
class Course:
    """What is prefetched for one stage of a batch, or for a dataset that somebody asked for.

    ``queue`` is what is left of its plan, of ``limit`` copies of a device at a time, made at
    ``planned_us``; no other plan before ``again_us``. Tasks are held back until ``hold_us``.
    ``plans`` counts them. ``cursor`` is the first block of the dataset that was not planned yet,
    where it was asked for.
    """

    dataset: str
    is_ordered: bool = False
    queue: list[PlannedCopy] = field(default_factory=list)
    limit: int = 1
    planned_us: int = 0
    again_us: int = 0
    hold_us: int = 0
    plans: int = 0
    cursor: int = 0


@dataclass(slots=True)
class Prefetches:
    """Courses by key; copies under way and made, by the block's key; outcomes by their word.

    What is under way or made stays in memory: ``block_records.recount`` is told of each. ``moved``
    are blocks with a copy that was made, of which some copy has come or gone since that was looked
    at.

    ``brought`` are the node and tier to which the block of a task or executor that waits is being
    copied, ``reads`` how often tasks and executors began to read a copy of which kind. ``readers``
    are executors whose copies are to be chosen, with the turn of the block index at their last look
    (-1: none yet), ``deals`` the blocks of their jobs that no executor has got yet; ``lost_us`` is
    when the job of an executor is given up of whose blocks one has no copy left; ``leaving`` are
    executors that read no more and have blocks pinned; ``passed`` tells of tasks that began beside
    a slower copy than there was what nodes with faster ones had room for; at ``served_us`` there
    are ``allowed`` more blocks of all these to be looked at. ``turn`` and ``seen`` are those of the
    block index when copies, and tasks, were last looked at; ``rates_us`` is when the speeds of
    tiers are read again, ``rests_us`` when a stage is matched again of which nothing could be
    placed, ``cursors`` how far its tasks were looked at for some whose block can be read,
    ``patience_us`` until when a task waits for a node that has its block in HDFS. ``ended`` are
    tasks that have read a block and ended well, while something was prefetched, since that was last
    looked at.
    """

    courses: dict[str, Course] = field(default_factory=dict)
    under_way: dict[str, UnderWay] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    brought: dict[str, tuple[str, str]] = field(default_factory=dict)
    readers: dict[str, int] = field(default_factory=dict)
    deals: dict[str, list[int]] = field(default_factory=dict)
    lost_us: dict[str, int] = field(default_factory=dict)
    leaving: dict[str, None] = field(default_factory=dict)
    passed: dict[str, str] = field(default_factory=dict)
    served_us: int = -1
    allowed: int = 0
    reads: Counter[str] = field(default_factory=Counter)
    turn: int = -1
    seen: int = -1
    rates_us: int = 0
    rests_us: dict[str, int] = field(default_factory=dict)
    cursors: dict[tuple[str, str], int] = field(default_factory=dict)
    patience_us: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
