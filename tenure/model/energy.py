"""Energy: what was used where and when, and what came of it for nodes and containers.

Energy is integer microjoules (``_uj``); a watt for a microsecond is one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenure.model.ledger import Interval
from tenure.model.units import HOUR_US

#: The longest that a use or a measurement spans: nobody was asked in between, or a clock was set by
#: years. With the bound on watts, sums fit in 64 bits.
MAX_SPAN_US = 24 * HOUR_US
#: No node draws more.
MAX_W = 1_000_000
#: Microjoules of a kilowatt hour.
KWH_UJ = 3_600_000_000_000


#: The container of a use by tasks of batches that were not sampled: no id is like this.
TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class Use:
    """CPU time of a container on a node, spread evenly over [``begin_us``, ``end_us``).

    ``container`` is the key of its samples (tenure's id, or ``job/index``), empty for all those
    that are not ours, ``TASKS`` for what tasks of batches used beside their samples. ``cpu_us``
    core-microseconds; ``reserved_us`` its reserved thousandths of a core times the microseconds for
    which it was seen.
    """

    node: str
    container: str
    begin_us: int
    end_us: int
    cpu_us: int
    reserved_us: int


@dataclass(frozen=True, slots=True)
class Metered:
    """Energy that a node was measured to draw over [``begin_us``, ``end_us``), by its counters."""

    node: str
    begin_us: int
    end_us: int
    energy_uj: int


@dataclass(frozen=True, slots=True)
class NodePast:
    """A node as energy is accounted: when it was on, and what it draws while it is off.

    ``known_us`` since when it is known to be there; it counts as off until its first interval.
    ``is_known`` whether it is there still: a forgotten node draws nothing.
    """

    name: str
    generation: str
    intervals: Sequence[Interval]
    known_us: int = 0
    off_w: float = 0.0
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Share:
    """A container's energy on one node: what its CPU use drew, and its share of the idle draw."""

    active_uj: int = 0
    idle_uj: int = 0

    @property
    def total_uj(self) -> int:
        return self.active_uj + self.idle_uj

    def __add__(self, other: Share) -> Share:
        return Share(self.active_uj + other.active_uj, self.idle_uj + other.idle_uj)


@dataclass(frozen=True, slots=True)
class NodeEnergy:
    """A node's energy in a window, in parts that sum to ``total_uj`` exactly.

    ``shares`` by container; ``foreign_uj`` CPU use of containers that are not ours; ``idle_uj`` on
    with nobody to bear it; ``boot_uj`` and ``off_uj`` while it booted and was off. ``measured_uj``
    of it is measured. ``on_us`` (booting included), ``boot_us``, ``off_us`` and ``metered_us``
    (measured while on) are times. ``by_generation`` parts it by the generations it was in.
    ``is_stated``: its watts were stated for all the time that it was on.
    """

    name: str
    shares: Mapping[str, Share] = field(default_factory=dict)
    by_generation: Mapping[str, int] = field(default_factory=dict)
    foreign_uj: int = 0
    idle_uj: int = 0
    boot_uj: int = 0
    off_uj: int = 0
    measured_uj: int = 0
    on_us: int = 0
    boot_us: int = 0
    off_us: int = 0
    metered_us: int = 0
    is_stated: bool = True

    @property
    def containers_uj(self) -> int:
        return sum(share.total_uj for share in self.shares.values())

    @property
    def total_uj(self) -> int:
        rest = self.foreign_uj + self.idle_uj + self.boot_uj + self.off_uj
        return self.containers_uj + rest

    @property
    def source(self) -> str:
        """Return measured, modelled, mixed, or unknown: not measured, nor stated all the time."""
        if self.metered_us >= self.on_us > 0:
            return "measured"
        if self.metered_us:
            return "mixed"
        return "modelled" if self.is_stated else "unknown"


@dataclass(frozen=True, slots=True)
class EnergyReport:
    """The energy of [``since_us``, ``until_us``), which ends now at the latest.

    ``names`` are kind (container, executor, task, tasks) and name of the keys that are still known;
    ``price_nano_per_kwh`` None: no price is configured.
    """

    since_us: int
    until_us: int
    nodes: Sequence[NodeEnergy]
    names: Mapping[str, tuple[str, str]]
    price_nano_per_kwh: int | None = None
