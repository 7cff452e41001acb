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
    Later,
    Nearer,
    PrefetchAsk,
    PrefetchPlan,
    Read,
    Seats,
    Site,
    Taken,
)

if TYPE_CHECKING:
    from tenure.locality.correction import Correction, CpuModel
    from tenure.locality.kernels import Kernels
    from tenure.locality.scores import Scores

#: Tasks or blocks of one question, times nodes: those of 300 nodes take some 5 ms, plainly. So many
#: at least, and at most, for each task takes time whatever the nodes.
PLAIN_PAIRS, PLAIN_LEAST, PLAIN_MOST = 32 * 300, 32, 128
COMPILED_MOST = 1024
#: Jobs of which is known what their tasks compute; who learned nothing for longest is forgotten.
MOST_COURSES = 1_000


class Tiers:
    """Matching and prefetching behind ``tenure.model.locality.Localizer``.

    ``kernels``: compiled ones, where somebody has them already. ``was_short``: a question had as
    many tasks as it may have, so that compiled kernels would see more.
    """

    def __init__(self, kernels: Kernels | None = None) -> None:
        self._kernels = kernels
        self._is_compiled = kernels is not None
        self._scores: Scores | None = None
        self._fastest = 0.0
        self._correction: Correction | None = None
        self._computing: dict[str, CpuModel] = {}
        self.has_matched = self.was_short = False

    def most(self, nodes: int) -> int:
        """Return how many tasks or blocks one question may have in a fleet of so many nodes."""
        if self._is_compiled:
            return COMPILED_MOST
        return max(PLAIN_LEAST, min(PLAIN_MOST, PLAIN_PAIRS // max(1, nodes)))

    def compile(self, cache: str = "") -> None:
        """Use compiled kernels from then on.

        ``cache`` as in ``kernels.compile_kernels``. May run in a thread while others ask.
        """
        from tenure.locality.kernels import compile_kernels, warm

        kernels = compile_kernels(cache)
        warm(kernels)
        self._kernels, self._is_compiled = kernels, True

    def match(self, seats: Seats, reads: Sequence[Read]) -> list[Fit]:
        """Return the cheapest of the largest matchings of tasks to free slots (Eq. 2 and 3)."""
        from tenure.locality import asking

        self._note(seats, reads)
        places, wants = asking.arrays_of(seats, reads, self._known(), self._fastest)
        kernels, rates = self._loaded(), self._known().rates
        found = kernels.schedule(places, wants, rates)
        rows = zip(reads, found.place.tolist(), found.cost.tolist(), strict=True)
        return [Fit(read.key, seats.nodes[at], cost) for read, at, cost in rows if at >= 0]

    def match_now(self, seats: Seats, later: Later, reads: Sequence[Read]) -> list[Fit]:
        """Return which tasks begin now beside a copy, with later slots in view (``ahead``)."""
        import numpy as np

        from tenure.locality import asking

        self._note(seats, reads)
        places, wants = asking.arrays_of(seats, reads, self._known(), self._fastest)
        soon, far = (np.array(row, dtype=np.int64) for row in later)
        found = self._loaded().match_now(places, wants, far, soon)
        rows = zip(reads, *(row.tolist() for row in found), strict=True)
        return [Fit(read.key, seats.nodes[at], cost) for read, at, cost in rows if at >= 0]

    def choices(self, seats: Seats, read: Read, most: int) -> list[Choice]:
        """Return the cheapest nodes of a task, at most ``most``."""
        from tenure.locality import asking
        from tenure.locality.schedule import explain

        places, wants = asking.arrays_of(seats, [read], self._known(), self._fastest)
        rows = explain(places, wants, self._known().rates, 0, most)
        return [Choice(seats.nodes[row.place], row.cost) for row in rows]

    def nearer(self, sites: Sequence[Site], reads: Sequence[Read]) -> Nearer | None:
        """Return where executors are nearer their blocks at no greater cost, None if nowhere.

        See ``nearest.nearest``; what is told is cheaper by the cheapest matchings of both.
        """
        from tenure.locality import asking
        from tenure.locality.nearest import nearest, table_of

        names, racks = tuple(site.node for site in sites), tuple(site.rack for site in sites)
        chosen = tuple(site.chosen for site in sites)
        empty = Seats(names, racks, (0,) * len(names))
        places, wants = asking.arrays_of(empty, reads, self._known(), self._fastest)
        found = nearest(table_of(places, wants, self._known().rates), asking.options_of(sites))
        counts = tuple(found.tolist())
        if counts == chosen:
            return None
        share = -(-len(reads) // sum(chosen))
        cost, was = (
            sum(fit.cost for fit in self.match(Seats(names, racks, _times(row, share)), reads))
            for row in (counts, chosen)
        )
        rows = tuple((name, count) for name, count in zip(names, counts, strict=True) if count)
        return Nearer(rows, cost, was) if cost < was else None

    def plan(self, ask: PrefetchAsk) -> PrefetchPlan:
        """Return what to prefetch (Algorithm 7), or all that fits (PrefetchAll)."""
        from tenure.locality import asking

        self.has_matched = True
        factor = self._corrected().factor
        given = asking.input_of(ask, self._known(), factor, self._computing.get(ask.course))
        return asking.answer(self._loaded(), ask, given, factor)

    def learn_rates(self, bandwidths: Mapping[int, float]) -> None:
        """Take scores from bandwidths by rank, bytes a second: fastest memory, slowest others."""
        from tenure.locality.scores import Tier, scores_of

        self._fastest = bandwidths.get(Tier.MEMORY, 0.0)
        self._scores = scores_of({Tier(rank): value for rank, value in bandwidths.items()})

    def learn_copy(self, predicted_us: int, took_us: int) -> None:
        """Correct later predictions by what a copy was to take, and took."""
        self._corrected().add(predicted_us, took_us)

    def learn_task(self, course: str, taken: Taken) -> None:
        """Have later plans of a job know what its tasks compute by what one of them took."""
        from tenure.locality import asking
        from tenure.locality.correction import CpuModel

        model = self._computing.pop(course, None) or CpuModel()
        model.add(taken.length, asking.computed_us(taken))
        while len(self._computing) >= MOST_COURSES:
            del self._computing[next(iter(self._computing))]
        self._computing[course] = model

    def forget_course(self, course: str) -> None:
        """Forget what was learned of a job."""
        self._computing.pop(course, None)

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

    def _note(self, seats: Seats, reads: Sequence[Read]) -> None:
        """Note that somebody asks, and whether more would have come with compiled kernels."""
        self.has_matched = True
        self.was_short |= len(reads) >= self.most(len(seats.nodes))

    def _loaded(self) -> Kernels:
        if self._kernels is None:
            from tenure.locality.kernels import plain_kernels

            self._kernels = plain_kernels()
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


def _times(counts: Sequence[int], share: int) -> tuple[int, ...]:
    """Return the seats of nodes on which each executor has ``share`` of them."""
    return tuple(count * share for count in counts)
