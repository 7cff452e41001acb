"""Arrays for the kernels: places with free slots, and tasks with the places they prefer.

A place is a group of slots that are alike: a node, or one executor on it where a task can find its
partition in that process. All costs are whole thousandths of a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tenure.locality.scores import SCORE, thousandths
from tenure.model.errors import FieldError, InvalidInput
from tenure.model.placing import Ints

#: ``Wants.base`` of an entry from which nobody elsewhere reads, as a partition kept in a process.
NOT_READ = 1 << 40
#: ``Wants.flat`` of a task with preferences.
PREFERS = -1
#: Bounds that keep every sum of costs inside 64 bits.
MOST_COST = 1 << 40
MOST_WEIGHT = 1000.0


class Places(NamedTuple):
    """Where tasks may run, arrays (p,).

    ``slots`` free now; ``rack`` its index, 0 up to the number of racks; ``term`` what running
    there costs every task beside Eq. 1, at least 0 (heterogeneous nodes, ours); ``order`` all
    places by increasing term.
    """

    slots: Ints
    rack: Ints
    term: Ints
    order: Ints


class Wants(NamedTuple):
    """Tasks and their preferred places, P(T_i) of section 2.1.

    Entries ``first[i]`` to ``first[i + 1]`` of ``place``, ``score`` and ``base`` (e,) are those of
    task i: where, what running there costs, and what the copy there costs others to read on top
    of c1 (NOT_READ: nobody). ``flat`` (n,) is the cost of a task without preference, wherever it
    runs, PREFERS for the others. ``weight`` (n,), thousandths, multiplies a task's costs: its input
    against that of a usual task (ours).
    """

    first: Ints
    place: Ints
    score: Ints
    base: Ints
    flat: Ints
    weight: Ints


def places_of(
    slots: Sequence[int] | Ints,
    racks: Sequence[int] | Ints,
    terms: Sequence[float] | None = None,
) -> Places:
    """Return places with free ``slots`` in ``racks`` (numbers from 0); ``terms`` are extra scores.

    Raises InvalidInput for lengths that differ, negative numbers, or terms out of bounds.
    """
    free, rack = np.array(slots, dtype=np.int64), np.array(racks, dtype=np.int64)
    if (
        free.ndim != 1
        or free.shape != rack.shape
        or (terms is not None and len(terms) != len(free))
    ):
        raise _fault("slots", "slots, racks and terms must be lists of one length")
    if (free < 0).any() or (rack < 0).any():
        raise _fault("slots", "slots and racks must not be negative")
    if len(rack) and rack.max() >= len(rack):
        raise _fault("racks", "racks must be numbered from 0 without large gaps")
    if terms is None:
        return Places(free, rack, np.zeros_like(free), np.arange(len(free), dtype=np.int64))
    term = np.array([thousandths(value) for value in terms], dtype=np.int64)
    if (term < 0).any() or (term > MOST_COST).any():
        raise _fault("terms", f"terms must be from 0 to {MOST_COST // SCORE:,}")
    return Places(free, rack, term, np.argsort(term, kind="stable"))


def weights_of(weights: Sequence[float]) -> list[int]:
    """Return tasks' weights in whole thousandths; raises InvalidInput for one out of bounds."""
    found = {w: max(1, thousandths(w)) for w in set(weights) if 0 < w <= MOST_WEIGHT}
    for i, weight in enumerate(weights):
        if weight not in found:
            raise _fault(f"tasks.{i}.weight", f"must be above 0 and at most {MOST_WEIGHT:,.0f}")
    return [found[weight] for weight in weights]


def _fault(path: str, message: str) -> InvalidInput:
    return InvalidInput(f"{path}: {message}", fields=(FieldError(path, message),))
