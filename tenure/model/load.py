"""What nodes and containers use now, as the last samples say; nothing of it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tenure.model.resources import DIMENSIONS, Resources


@dataclass(frozen=True, slots=True)
class Load:
    """What a container of ours used until ``taken_us``, when its last sample came in.

    Dimensions outside ``observed`` are 0 in ``use`` and mean nothing.
    """

    use: Resources
    taken_us: int
    observed: tuple[str, ...] = DIMENSIONS


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What is used of a node's capacity, told last at ``taken_us``.

    ``used`` is everything, what is not ours too (None: not told yet); of disk and network only what
    is observed. ``containers`` are ours by the key of their samples (tenure's id, or
    ``job/index``); ``unsampled`` more run and have no sample yet. ``measured_w`` is what its meters
    counted over the last sample, None where it has none.
    """

    taken_us: int
    used: Resources | None = None
    containers: Mapping[str, Load] = field(default_factory=dict)
    unsampled: int = 0
    measured_w: float | None = None


@dataclass(frozen=True, slots=True)
class Loads:
    """The loads of all nodes that can be measured; one comes every ``interval_us``."""

    interval_us: int
    nodes: Mapping[str, NodeLoad] = field(default_factory=dict)

    def is_stale(self, taken_us: int, now_us: int) -> bool:
        """Whether so old a figure may have nothing to do with what is used now.

        A sweep over a large fleet takes a while by itself, so one that fails is no cause yet.
        """
        return now_us - taken_us > 3 * self.interval_us
