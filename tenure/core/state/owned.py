"""State that one machine owns and alone writes, and how it hears of what others changed.

Theory of operation. A machine derives its own class from ``Owned`` and asks for the one object of
it by ``Context.own``. The class stands in the machine's file, so who does not import the machine
cannot name its state, and the order of packages says who may. None of it is stored: it is worked
out of the records, or learned again after a restart. What a machine has to hear of it names in
``hears``; ``hear`` is called at the very change, and only marks what is to be worked out anew. Owns
``Notices``, which ``fleet`` empties. ``ByNode`` is a base class and owns nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import ClassVar, Generic, TypeVar

V = TypeVar("V")


class Change(Enum):
    """What is heard of, each with the key of what it is about."""

    NODE = auto()
    """A node's record."""
    LOAD = auto()
    """What takes room on a node: executors, services, moves, tombstones, foreign use."""
    TASKS = auto()
    """The tasks of batches on a node."""
    FORECAST = auto()
    """What the owners of a node are expected to use."""
    COST = auto()
    """What a node costs from here on."""
    GONE = auto()
    """A node was forgotten."""
    JOB = auto()
    """A job's record."""
    MOVED = auto()
    """A migration has ended."""
    PASS = auto()
    """Something that may let who waits begin, or asks to: the queue is served again."""


class Owned:
    """The state of one machine, made empty when it is first asked for.

    ``is_derived``: worked out of the records, so it is made anew when these are loaded.
    """

    hears: ClassVar[frozenset[Change]] = frozenset()
    is_derived: ClassVar[bool] = False

    def hear(self, change: Change, key: str) -> None:
        """Mark what follows from ``key`` as to be worked out anew."""


class ByNode(Owned, Generic[V]):
    """What a machine keeps of each node, until a change of it is heard of or it is forgotten."""

    hears: ClassVar[frozenset[Change]] = frozenset((Change.GONE,))

    def __init__(self) -> None:
        self.by_node: dict[str, V] = {}

    def hear(self, change: Change, key: str) -> None:
        """Forget what was kept of a node."""
        self.by_node.pop(key, None)


@dataclass(slots=True)
class Notices(Owned):
    """Who is to be reviewed, by id; ``fleet`` goes through them until there are none.

    Every machine may add to ``jobs``, ``services``, ``tasks``, ``deployments`` and ``nodes``, to
    ``gone`` nodes that were fenced (name, whether by power-off), to ``unbooted`` those that failed
    to boot. ``is_pass_due``: the queue is to be served again.
    """

    hears: ClassVar[frozenset[Change]] = frozenset((Change.NODE, Change.LOAD, Change.PASS))

    jobs: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    deployments: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    gone: list[tuple[str, bool]] = field(default_factory=list)
    unbooted: list[str] = field(default_factory=list)
    is_pass_due: bool = False

    def hear(self, change: Change, key: str) -> None:
        """Have a node that changed reviewed, or the queue served."""
        if change is Change.PASS:
            self.is_pass_due = True
        else:
            self.nodes.add(key)
