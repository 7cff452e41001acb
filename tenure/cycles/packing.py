"""Several orders of the same containers are packed, and the packing on the fewest nodes counts.

GENPACK states nodes(genpack) <= nodes(binpack) for its blended order, which first fit alone does
not give: see ``docs/known-gaps.md``. So the blended order competes with decreasing size and with
the order of arrival, which is classic binpack's: what it finds, this finds too (ours).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from tenure.cycles.candidates import Candidate, by_arrival, by_size, shape_of
from tenure.cycles.envelopes import make_envelopes
from tenure.cycles.fit import Pool, Seat


@dataclass(frozen=True, slots=True)
class Packing:
    """Containers with their seats in the order in which they chose, and those without.

    ``order`` names the order: blend, size or arrival. ``beyond`` were not tried, because the run
    may move no more. ``pool`` is filled as the seats say.
    """

    order: str
    seats: tuple[tuple[Candidate, Seat], ...]
    unseated: tuple[Candidate, ...]
    beyond: tuple[Candidate, ...]
    pool: Pool

    def cost(self, occupied: Collection[str]) -> tuple[int, int, int]:
        """Return what makes a packing worse: containers without a seat, nodes that were not
        ``occupied`` before and are now, and those of them to be switched on.
        """
        taken = {seat.node.name for _, seat in self.seats}
        started = sum(seat.is_escape for _, seat in self.seats)
        return len(self.unseated) + len(self.beyond), len(taken.difference(occupied)), started


@dataclass(frozen=True, slots=True)
class Blended:
    """The blended order, and of each container (by id) which envelope it came from."""

    order: tuple[Candidate, ...]
    envelope_of: dict[str, str]


def blended(pool: Pool, candidates: Sequence[Candidate], envelopes: int) -> Blended:
    """Return the candidates in the order of Algorithm 1, line 2."""
    shape = shape_of(node.capacity for node in pool.nodes)
    made = make_envelopes(candidates, shape, envelopes)
    names = {
        member.service.id: f"envelope {number} of {len(made)} ({envelope.kind})"
        for number, envelope in enumerate(made, 1)
        for member in envelope.members
    }
    return Blended(tuple(blend([envelope.members for envelope in made])), names)


def pack(pool: Pool, order: str, candidates: Sequence[Candidate], limit: int) -> Packing:
    """Seat the candidates one after the other, at most ``limit`` of them; ``pool`` is not changed.

    Algorithm 1, lines 3-15, with ESCAPE only for a container that no node fits (as printed every
    container escapes). O(candidates x nodes) array work.
    """
    pool = pool.copy()
    seats: list[tuple[Candidate, Seat]] = []
    unseated: list[Candidate] = []
    for position, candidate in enumerate(candidates):
        if len(seats) >= limit:
            return Packing(order, tuple(seats), tuple(unseated), tuple(candidates[position:]), pool)
        seat = pool.place(candidate)
        if seat is None:
            unseated.append(candidate)
        else:
            seats.append((candidate, seat))
    return Packing(order, tuple(seats), tuple(unseated), (), pool)


def best_packing(
    pool: Pool, blend_order: Sequence[Candidate], *, limit: int, occupied: Collection[str]
) -> Packing:
    """Return the packing that seats most on the fewest nodes; the blended order wins ties.

    ``occupied`` are the nodes that stay on whatever is decided here.
    """
    best = pack(pool, "blend", blend_order, limit)
    cost = best.cost(occupied)
    if cost == (0, 0, 0):
        return best
    shape = shape_of(node.capacity for node in pool.nodes)
    others = (("size", by_size(blend_order, shape)), ("arrival", by_arrival(blend_order)))
    for order, candidates in others:
        found = pack(pool, order, candidates, limit)
        if found.cost(occupied) < cost:
            best, cost = found, found.cost(occupied)
    return best


T = TypeVar("T")


def blend(envelopes: Sequence[Sequence[T]]) -> list[T]:
    """Return one head of each non-empty envelope in turn until all are empty.

    GENPACK Algorithm 1, lines 17-31, corrected: as printed ``emptied`` says whether the last
    envelope that had something is empty, and the loop ends while others are not.
    """
    turns: list[list[tuple[T, ...]]] = [[(head,) for head in one] for one in envelopes]
    return [head for heads in zip_longest(*turns, fillvalue=()) for turn in heads for head in turn]
