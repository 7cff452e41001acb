"""Storage tiers of nodes: directories with a kind and a capacity (docs/datasets.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TierKind(StrEnum):
    """What a tier is made of, fastest first. What lies in memory is gone when its node restarts."""

    MEMORY = "memory"
    SSD = "ssd"
    HDD = "hdd"


#: Kinds of tiers that keep what they hold when their node restarts.
DURABLE = frozenset((TierKind.SSD, TierKind.HDD))


@dataclass(frozen=True, slots=True)
class TierSpec:
    """A tier as the configuration states it.

    ``path`` is a directory of the node, of a mounted tmpfs for kind memory; blocks take at most
    ``capacity_bytes`` of it. ``bytes_per_s`` is how fast it is read, 0: measured.
    """

    name: str
    kind: TierKind
    path: str
    capacity_bytes: int
    bytes_per_s: int = 0
