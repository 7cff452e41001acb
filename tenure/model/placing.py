"""What a placement policy sees and answers; the core asks, ``placement`` answers.

Arrays are int64 or bool of shape (n,), one entry a node, in the order of ``names`` (sorted by
name, so that no answer depends on the order of a configuration file).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tenure.model.reservation import Reservation
from tenure.model.units import FOREVER_US

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]
else:
    Ints = Bools = Floats = Any  # annotations alone: see ``tenure.model.arrays``

#: A node without a power driver is never switched; one that boots in no time is, and costs less.
NEVER = -1
#: Who waits for room that should be there by now looks for other room this long before it is too
#: late for that: longer than a daemon's loop may be held.
LAST_CALL_US = 50_000


#: Policies whose jobs queue by arrival, as the paper's baselines do.
ARRIVAL_ORDER = frozenset(("fifo", "fifo_c", "fifo_c_free"))


def queue_deadline_us(policy: str, deadline_us: int | None) -> int:
    """Return the deadline by which a job takes its place in the queue; arrival breaks ties.

    FOREVER_US, behind all that have one, for a job without deadline, and for one whose policy
    takes arrival order: it gives up the place that its deadline would give it. What it was
    promised holds all the same, for the promise was made on this order.
    """
    if deadline_us is None or policy in ARRIVAL_ORDER:
        return FOREVER_US
    return deadline_us


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All nodes at one moment.

    ``free_cpu_m`` and ``free_memory`` what is free now; ``capacity_cpu_m`` and
    ``capacity_memory`` what would be free with no job at all (services and foreign use taken off);
    ``price`` nano-dollars per hour; ``remaining_us`` t_j, the time until the scheduled switch-off
    (0 when off or idle, FOREVER_US when something keeps it on); ``boot_us`` the time until it
    could start work (0 when on); ``reboot_us`` what it needs once it was switched off again (NEVER
    where it is not); ``min_billing_us`` the least time that is paid for when it is switched on.
    """

    names: tuple[str, ...]
    free_cpu_m: Ints
    free_memory: Ints
    capacity_cpu_m: Ints
    capacity_memory: Ints
    price: Ints
    remaining_us: Ints
    is_on: Bools
    is_cloud: Bools
    boot_us: Ints
    reboot_us: Ints
    min_billing_us: Ints


@dataclass(frozen=True, slots=True)
class Ask:
    """One job as a policy sees it: E identical executors and its two estimates.

    ``eligible`` (n,) marks nodes that pass every filter. ``local_us`` T_C^L, ``hybrid_us`` T_C^H.
    ``deadline_us`` absolute or None.
    """

    id: str
    executors: int
    cpu_m: int
    memory_bytes: int
    local_us: int
    hybrid_us: int
    deadline_us: int | None
    eligible: Bools


@dataclass(frozen=True, slots=True)
class Placed:
    """``counts`` (node name, executors) pairs, mode local or hybrid, Eq. 16's cost of this job.

    ``run_us`` is T_C for the mode, ``delay_us`` the longest boot among the nodes used.
    """

    counts: tuple[tuple[str, int], ...]
    mode: str
    cost_nano: int
    run_us: int
    delay_us: int


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """No placement now. ``reason`` is a stable code: no_room, too_late (Eq. 15) or no_node."""

    reason: str


@dataclass(frozen=True, slots=True)
class Occupied:
    """Room on node ``node`` (index) that a running executor gives back at ``end_us``."""

    node: int
    cpu_m: int
    memory_bytes: int
    end_us: int


@dataclass(frozen=True, slots=True)
class Running:
    """The same for all running executors at once, each array (r,); ends may lie in the past."""

    node: Ints
    cpu_m: Ints
    memory_bytes: Ints
    end_us: Ints


#: What runs now: as arrays, as the core keeps it, or one by one.
Occupation = Running | Sequence[Occupied]


@dataclass(frozen=True, slots=True)
class Situation:
    """The nodes and what runs on them at one moment."""

    view: ClusterView
    running: Occupation
    now_us: int


@dataclass(frozen=True, slots=True)
class Queued:
    """A waiting job with its policy, in queue order."""

    ask: Ask
    policy: str


@dataclass(frozen=True, slots=True)
class Planned:
    """A waiting job as the plan of the queue sees it.

    ``rank`` is its precedence, the least first; ``since_us`` when it came; ``guard_us`` by when it
    must end though others come (FOREVER_US: no matter when); ``reservation`` its place, None if it
    has none yet.
    """

    queued: Queued
    rank: int
    since_us: int
    guard_us: int
    reservation: Reservation | None


class Rotation(NamedTuple):
    """What a plan keeps beside places: how improving goes on, and what waits have come to.

    Jobs are put where they are best then, a few at a time: ``turn`` counts those that were,
    ``left`` those that are still to be, from ``due_us`` on; ``last_us`` is when some were.
    ``spent_us`` is by how much later jobs were planned to end than if each had begun as soon as
    there was room, in order of arrival, ``prompt_us`` what they would have taken then, and
    ``head_us`` when the last of them would have begun (``placement.planning.budget``).
    """

    turn: int = 0
    left: int = 0
    due_us: int = 0
    last_us: int = 0
    spent_us: int = 0
    prompt_us: int = 0
    head_us: int = 0


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The plan of a queue: places by job id; a job that fits nowhere has none.

    ``rotation`` is to be handed in again next time, at its ``due_us`` if anything is left. Where
    the plan ``is_whole`` not, only the places that have changed are told.
    """

    reservations: Mapping[str, Reservation]
    rotation: Rotation
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the simulated schedule says of a job: absolute times and Eq. 16's cost."""

    start_us: int
    end_us: int
    cost_nano: int
    mode: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """The new job is in time, and no waiting job becomes late by it.

    ``queue_plan`` is the plan with it where the queue is planned, ``look`` what the next job that
    comes at this moment may be asked about; both None where the queue is served in order.
    """

    forecast: Forecast
    queue_plan: QueuePlan | None = None
    look: Look | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """The new job is turned down. ``reason``: deadline_unmeetable, would_delay_others, never_fits.

    ``earliest`` is what would be promised to the same job with the absolute deadline
    ``earliest_deadline_us``, the earliest found that would be admitted; both None where no
    deadline helps. ``victims`` are the ids of waiting jobs that would become late.
    """

    reason: str
    earliest: Forecast | None = None
    earliest_deadline_us: int | None = None
    victims: tuple[str, ...] = ()


class Look(Protocol):
    """A plan of the queue at one moment, on which jobs that come then are planned in turn."""

    def admit(self, new: Planned, position: int) -> Admitted | None:
        """Return the promise for a job that comes to stand at ``position`` of the queue.

        The jobs asked about before were taken in, and nothing else has changed. None if it would
        be late, never fits, or there is no more room here: then the look is of no use any more, and
        ``Placer.admit_planned`` is to be asked.
        """


class Placer(Protocol):
    """The policies and the admission test, as the core is given them."""

    def policies(self) -> tuple[str, ...]:
        """Return the names of the policies for jobs."""

    def place(self, policy: str, view: ClusterView, ask: Ask, now_us: int) -> Placed | Unplaceable:
        """Place all executors of ``ask`` at once or none."""

    def predict(
        self,
        view: ClusterView,
        running: Occupation,
        queue: Sequence[Queued],
        now_us: int,
    ) -> Mapping[str, Forecast | None]:
        """Simulate the queue in its order; None for a job that never fits."""

    def stand_in(self, policy: str) -> str:
        """Return the policy that answers at once in the stead of a slow one, itself if it is not.

        It foresees what the slow one would do, and its placement costs as much or more.
        """

    def recheck(
        self, view: ClusterView, ask: Ask, counts: Sequence[tuple[str, int]], now_us: int
    ) -> Placed | None:
        """Return what placing a job now on chosen nodes means, None where they do not take it."""

    def predict_behind(  # noqa: PLR0913, PLR0917 - a fleet, who starts there, and who waits
        self,
        view: ClusterView,
        running: Running,
        ask: Ask,
        placed: Placed,
        queue: Sequence[Queued],
        now_us: int,
    ) -> Mapping[str, Forecast | None]:
        """Simulate the queue as ``predict`` does, once ``ask`` has started as ``placed``."""

    def could_hold(self, policy: str, view: ClusterView, ask: Ask) -> bool:
        """Return whether ``ask`` would fit if no job were there."""

    def spread(self, policy: str, view: ClusterView, ask: Ask, seed: int) -> str | None:
        """Choose a node for one service by spread, binpack or random; None if none fits."""

    def admit_all(
        self,
        view: ClusterView,
        running: Occupation,
        queue: Sequence[Queued],
        news: Sequence[int],
        now_us: int,
    ) -> list[Forecast] | None:
        """Return what each new job would get, if all of them may be promised it together.

        ``queue`` is in order and holds the new ones, at the positions ``news``. None where one of
        them never fits, is late, or makes another late.
        """

    def admit(  # noqa: PLR0913, PLR0917 - a queue's state is these six things
        self,
        view: ClusterView,
        running: Occupation,
        queue: Sequence[Queued],
        new: Queued,
        position: int,
        now_us: int,
        *,
        peers: tuple[int, int] | None = None,
    ) -> Admitted | RefusedJob:
        """Say whether ``new`` can be promised its deadline at ``position`` of ``queue``.

        ``queue`` is in order and without ``new``; ``peers`` the span of it that has the priority
        of ``new`` (None: all of it), among which another deadline would move ``new``.
        """

    def is_planned(self, policy: str) -> bool:
        """Return whether jobs of a policy have the whole queue planned."""

    def plan(
        self,
        site: Situation,
        queue: Sequence[Planned],
        *,
        rotation: Rotation,
        is_early: bool = False,
    ) -> QueuePlan:
        """Bring the plan of a queue up to date; ``is_early``: there is room nobody counted on."""

    def admit_planned(
        self,
        site: Situation,
        queue: Sequence[Planned],
        new: Planned,
        *,
        rotation: Rotation,
        position: int | None = None,
    ) -> Admitted | RefusedJob:
        """Say whether ``new`` can be promised its deadline beside the plan of ``queue``.

        ``position`` is where in the queue it comes to stand, None for its end.
        """

    def at_once(self, site: Situation, queue: Sequence[Planned], job: str) -> Forecast | None:
        """Return what it would mean to end a planned job as early as can be, None if it cannot."""

    def as_booked(self, view: ClusterView, ask: Ask, reservation: Reservation) -> Placed:
        """Return what placing a job now on the nodes of its reservation means."""

    def prices_nano(self, view: ClusterView, names: Sequence[str], until_us: int) -> list[int]:
        """Return what using each node until a moment from now would cost a job (Eq. 1 and 8)."""
