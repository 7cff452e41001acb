"""The door of the room: what the core is given as its ``Localizer``.

Records become arrays and answers become records here. The kernels are imported with the first
question, and compiled ones take their place when they are there: answers are the same, of more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tenure.model.locality import (
    Choice,
    Fit,
    PrefetchAsk,
    PrefetchPlan,
    Read,
    Seats,
)

if TYPE_CHECKING:
    from tenure.locality.correction import Correction
    from tenure.locality.kernels import Kernels
    from tenure.locality.scores import Scores

#: Tasks or blocks of one question, plain and compiled: on 300 nodes a look takes less than 5 ms.
PLAIN_MOST, COMPILED_MOST = 32, 1024


class Tiers:
    """Matching and prefetching behind ``tenure.model.locality.Localizer``."""

    def __init__(self) -> None:
        self._kernels: Kernels | None = None
        self._is_compiled = False
        self._scores: Scores | None = None
        self._fastest = 0.0
        self._correction: Correction | None = None
        self.has_matched = False

    @property
    def most(self) -> int:
        return COMPILED_MOST if self._is_compiled else PLAIN_MOST

    def compile(self, cache: str = "") -> bool:
        """Use compiled kernels from then on; False where numba is not installed.

        ``cache`` as in ``kernels.compile_kernels``. May run in a thread while others ask.
        """
        from tenure.locality.kernels import compile_kernels, warm

        kernels = compile_kernels(cache)
        if kernels is None:
            return False
        warm(kernels)
        self._kernels, self._is_compiled = kernels, True
        return True

    def match(self, seats: Seats, reads: Sequence[Read]) -> list[Fit]:
        """Return the cheapest of the largest matchings of tasks to free slots (Eq. 2 and 3)."""
        from tenure.locality import asking
        from tenure.locality.schedule import OURS

        self.has_matched = True
        places, wants = asking.arrays_of(seats, reads, self._known(), self._fastest)
        kernels, rates = self._loaded(), self._known().rates
        found = kernels.schedule(places, wants, rates, OURS)
        rows = zip(reads, found.place.tolist(), found.cost.tolist(), strict=True)
        return [Fit(read.key, seats.nodes[at], cost) for read, at, cost in rows if at >= 0]

    def choices(self, seats: Seats, read: Read, most: int) -> list[Choice]:
        """Return the cheapest nodes of a task, at most ``most``."""
        from tenure.locality import asking
        from tenure.locality.schedule import explain

        places, wants = asking.arrays_of(seats, [read], self._known(), self._fastest)
        rows = explain(places, wants, self._known().rates, 0, most)
        return [Choice(seats.nodes[row.place], row.cost) for row in rows]

    def plan(self, ask: PrefetchAsk) -> PrefetchPlan:
        """Return what to prefetch (Algorithm 7), or all that fits (PrefetchAll)."""
        from tenure.locality import asking

        self.has_matched = True
        factor = self._corrected().factor
        given = asking.input_of(ask, self._known(), factor)
        return asking.answer(self._loaded(), ask, given, factor)

    def learn_rates(self, bandwidths: Mapping[int, float]) -> None:
        """Take scores from bandwidths by rank, bytes a second: fastest memory, slowest others."""
        from tenure.locality.scores import Tier, scores_of

        self._fastest = bandwidths.get(Tier.MEMORY, 0.0)
        self._scores = scores_of({Tier(rank): value for rank, value in bandwidths.items()})

    def learn_copy(self, predicted_us: int, took_us: int) -> None:
        """Correct later predictions by what a copy was to take, and took."""
        self._corrected().add(predicted_us, took_us)

    def told(self) -> Mapping[str, float]:
        """Return what was learned: the tiers' scores, the correction's factor and errors."""
        scores, learned = self._known(), self._corrected()
        return {
            "memory": scores.memory,
            "ssd": scores.ssd,
            "hdd": scores.hdd,
            "in_rack": scores.in_rack,
            "across": scores.across,
            "factor": learned.factor,
            "error": learned.error,
            "raw_error": learned.raw_error,
            "measured": learned.count,
        }

    def _loaded(self) -> Kernels:
        if self._kernels is None:
            from tenure.locality.kernels import PLAIN

            self._kernels = PLAIN
        return self._kernels

    def _known(self) -> Scores:
        if self._scores is None:
            from tenure.locality.scores import Scores

            self._scores = Scores()
        return self._scores

    def _corrected(self) -> Correction:
        if self._correction is None:
            from tenure.locality.correction import Correction

            self._correction = Correction()
        return self._correction
