"""What a read costs, by tier and distance (Eq. 1 of the Trident paper), and in which order.

Scores are relative: 1 for memory, 8 for a device an eighth as fast. Inside they are whole
thousandths, so that sums of costs are exact and no answer hangs on rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from tenure.model.errors import FieldError, InvalidInput

#: Thousandths in a score of 1.
SCORE = 1000
#: Bounds on scores, so that sums of costs of 100,000 tasks stay far inside 64 bits.
MOST = 1_000_000.0


class Tier(IntEnum):
    """Kinds of storage, fastest first."""

    MEMORY = 0
    SSD = 1
    HDD = 2


#: Megabytes a second of the paper's cluster (section 7), and the scores that they give.
PAPER_BANDWIDTHS: Mapping[Tier, float] = {Tier.MEMORY: 3200.0, Tier.SSD: 400.0, Tier.HDD: 160.0}


class Rates(NamedTuple):
    """Network costs in thousandths, as kernels take them.

    ``in_rack`` is c1, added to the lowest score among a rack's replicas; ``across`` is c2.
    """

    in_rack: int
    across: int


@dataclass(frozen=True, slots=True)
class Scores:
    """Costs of reads: Eq. 1's scores by tier, c1 and c2, and what is between tiers and c1.

    Process-local reads cost 0. ``pending`` is the score of a node to which the block is being
    prefetched, ``indifferent`` the cost of a task without preference (section 5.2), wherever it
    runs. Raises InvalidInput, with every fault, unless

        0 < tiers, p <= c1 + p' for any two tiers, max(tiers) <= pending, indifferent < c1,
        c1 + p <= c2 for any tier,

    which the pruning of slots and tasks and the matching rely on. Unequal tiers must be in order.
    """

    memory: float = 1.0
    ssd: float = 8.0
    hdd: float = 20.0
    in_rack: float = 40.0
    across: float = 100.0
    pending: float = 30.0
    indifferent: float = 30.0

    def __post_init__(self) -> None:
        faults = tuple(self._faults())
        if faults:
            words = "; ".join(f"{fault.path}: {fault.message}" for fault in faults)
            raise InvalidInput(f"scores: {words}", fields=faults)

    def _faults(self) -> list[FieldError]:
        rows = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found = [
            FieldError(name, f"must be a number above 0 and at most {MOST:,.0f}, is {value}")
            for name, value in rows.items()
            if not 0 < value <= MOST
        ]
        if found:
            return found
        for (faster, low), (slower, high) in pairwise(list(rows.items())[: len(Tier)]):
            if low > high:
                found.append(FieldError(slower, f"must be at least {faster} ({low}), is {high}"))
        for name in ("pending", "indifferent"):
            if not self.hdd <= rows[name] < self.in_rack:
                words = f"must be at least hdd ({self.hdd}) and less than in_rack ({self.in_rack})"
                found.append(FieldError(name, f"{words}, is {rows[name]}"))
        if self.hdd > self.in_rack + self.memory:
            words = f"must be at least hdd - memory ({self.hdd - self.memory}), is {self.in_rack}"
            found.append(FieldError("in_rack", words))
        if self.in_rack + self.hdd > self.across:
            words = f"must be at least in_rack + hdd ({self.in_rack + self.hdd}), is {self.across}"
            found.append(FieldError("across", words))
        return found

    def of(self, tier: Tier) -> int:
        """Return the score of a tier in thousandths."""
        return thousandths((self.memory, self.ssd, self.hdd)[tier])

    @property
    def rates(self) -> Rates:
        return Rates(thousandths(self.in_rack), thousandths(self.across))


def thousandths(score: float) -> int:
    """Return whole thousandths of a score."""
    return round(score * SCORE)


def scores_of(bandwidths: Mapping[Tier, float], base: Scores | None = None) -> Scores:
    """Return scores by inverse ratios of bandwidths (any one unit), memory 1; ours.

    A tier without a positive bandwidth keeps its score in ``base`` (Scores() by default), and all
    do if memory has none. What was measured may break the order that ``Scores`` asks for: a tier
    then counts as slow as the faster ones, c1 is raised to twice the slowest tier and c2 to five
    times, the paper's own ratios, and pending and indifferent stay half-way from there to c1.
    """
    known = base or Scores()
    memory = bandwidths.get(Tier.MEMORY, 0.0)
    rows = [known.memory, known.ssd, known.hdd]
    if memory > 0:
        rows[0] = 1.0
        for tier in (Tier.SSD, Tier.HDD):
            if bandwidths.get(tier, 0.0) > 0:
                rows[tier] = memory / bandwidths[tier]
    fastest = max(rows[0], 1 / SCORE)
    ssd = min(max(rows[1], fastest), MOST / 5)
    hdd = min(max(rows[2], ssd), MOST / 5)
    in_rack = max(known.in_rack, 2 * hdd)
    across = max(known.across, 2.5 * in_rack)
    between = (hdd + in_rack) / 2
    return Scores(fastest, ssd, hdd, in_rack, across, between, between)
