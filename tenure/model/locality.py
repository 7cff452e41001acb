"""Data and tasks as the core asks about them; ``locality`` answers (sections 2 and 4 of Trident).

Costs are whole thousandths of a score, as in Eq. 1; tiers are ranks, fastest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Copy(NamedTuple):
    """A copy of a block: ``device`` names the node's tier it lies in, ``tier`` is its rank.

    0 memory, 1 SSD, 2 HDD. ``is_pending``: it is being copied into the node's memory.
    ``bytes_per_s`` is how fast this device is read, 0: as its tier usually is.
    """

    node: str
    device: str
    tier: int
    is_pending: bool = False
    bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class Seats:
    """Nodes (n,), those without free slots too: their racks and free slots.

    Racks go by name; nodes of the rack "" share one, that of nobody who says where it stands.
    """

    nodes: tuple[str, ...]
    racks: tuple[str, ...]
    free: tuple[int, ...]


class Read(NamedTuple):
    """A task over a block: its copies that can be read, and its input over the usual one."""

    key: int
    copies: tuple[Copy, ...]
    weight: float = 1.0


class Later(NamedTuple):
    """Slots of the nodes (n,) that come after those that are free, ``soon`` or at some time."""

    soon: tuple[int, ...]
    far: tuple[int, ...]


class Fit(NamedTuple):
    """A task and the node it is matched to, at this cost."""

    key: int
    node: str
    cost: int


class Choice(NamedTuple):
    """A node that a task could have, whether free or not, and what it would cost there."""

    node: str
    cost: int


class Site(NamedTuple):
    """A node that executors of a job may go to, and what using it would cost the job.

    ``room`` is how many fit, those that are ``chosen`` by the job's policy included; ``cost_nano``
    the same for one as for many. Those chosen for one that ``stays`` stay there.
    """

    node: str
    rack: str
    room: int
    chosen: int
    cost_nano: int
    stays: bool = False


class Nearer(NamedTuple):
    """Executors by node that cost no more than those chosen and read their blocks cheaper.

    ``cost`` is that of reading them (Eq. 1, thousandths), ``chosen_cost`` that of the chosen.
    """

    counts: tuple[tuple[str, int], ...]
    cost: int
    chosen_cost: int


@dataclass(frozen=True, slots=True)
class PrefetchBlock:
    """A block of a job's input: ``length`` in bytes, its copies, and what its task computes."""

    key: int
    length: int
    copies: tuple[Copy, ...]
    cpu_us: int


@dataclass(frozen=True, slots=True)
class PrefetchAsk:
    """A job's input, and what there is for it.

    ``room`` is the memory tier's by node, bytes; ``speeds`` one of each slot that the job may have,
    in thousandths; ``memory_bytes_per_s`` 0 where it is not known. ``is_all``: copy whatever fits,
    without the search, so that of the whole input each node has in memory what it is ``worth``;
    ``lying`` bytes of it are there already. ``may_wait``: the job may be held back for its copies.
    ``course`` names the job to whoever has learned what its tasks compute, "": nobody has.
    """

    blocks: tuple[PrefetchBlock, ...]
    room: Mapping[str, int]
    speeds: tuple[int, ...]
    memory_bytes_per_s: int = 0
    is_all: bool = False
    may_wait: bool = False
    lying: Mapping[str, int] = field(default_factory=dict)
    worth: Mapping[str, int] = field(default_factory=dict)
    course: str = ""


class Taken(NamedTuple):
    """What a task took in all that read ``length`` bytes of a copy on a node of this speed."""

    copy: Copy
    length: int
    took_us: int
    speed: float = 1.0


class PlannedCopy(NamedTuple):
    """A block to copy from a node's ``device`` into its memory, there ``cached_us`` from now.

    ``alone_us`` is what the copy takes on a device of its own, uncorrected.
    """

    key: int
    node: str
    device: str
    cached_us: int
    alone_us: int


@dataclass(frozen=True, slots=True)
class PrefetchPlan:
    """What to copy, by the order in which copies end, and how long to hold the job back.

    ``limit`` copies of a device go at a time. ``predicted_us`` is the job's run with it,
    ``without_us`` with nothing copied, as modelled.
    """

    copies: tuple[PlannedCopy, ...] = ()
    delay_us: int = 0
    limit: int = 0
    predicted_us: int = 0
    without_us: int = 0


class Localizer(Protocol):
    """What the core asks. Answers follow from the arguments and from what was learned."""

    def most(self, nodes: int) -> int:
        """Return how many tasks or blocks one question may have in a fleet of so many nodes.

        So that it takes milliseconds.
        """

    def match(self, seats: Seats, reads: Sequence[Read]) -> list[Fit]:
        """Return the cheapest of the largest matchings of tasks to free slots (Eq. 2 and 3)."""

    def match_now(self, seats: Seats, later: Later, reads: Sequence[Read]) -> list[Fit]:
        """Return which tasks begin now beside a copy, with later slots in view.

        As many tasks as possible get a slot, as many of these as possible now or soon, at the
        lowest sum of costs; one that comes soon is waited for where the copy there is much faster.
        """

    def choices(self, seats: Seats, read: Read, most: int) -> list[Choice]:
        """Return the cheapest nodes of a task, at most ``most``."""

    def nearer(self, sites: Sequence[Site], reads: Sequence[Read]) -> Nearer | None:
        """Return where executors are nearer their blocks at no greater cost, None if nowhere."""

    def plan(self, ask: PrefetchAsk) -> PrefetchPlan:
        """Return what to prefetch (Algorithm 7)."""

    def learn_rates(self, bandwidths: Mapping[int, float]) -> None:
        """Take scores from bandwidths by rank, bytes a second: fastest memory, slowest others."""

    def learn_copy(self, predicted_us: int, took_us: int) -> None:
        """Correct later predictions by what a copy was to take, and took."""

    def learn_task(self, course: str, taken: Taken) -> None:
        """Have later plans of a job know what its tasks compute by what one of them took."""

    def forget_course(self, course: str) -> None:
        """Forget what was learned of a job."""

    def told(self) -> Mapping[str, float]:
        """Return what was learned: the tiers' scores, the correction's factor and errors."""
