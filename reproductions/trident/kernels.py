"""The kernels of the comparisons as one bundle: plain functions, or the same compiled by numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reproductions.trident import allocation, contention, greedy, paper
from reproductions.trident.allocation import Containers, Requests
from reproductions.trident.contention import Contention
from reproductions.trident.greedy import Rule
from tenure.locality.arrays import Places, Wants
from tenure.locality.kernels import INLINED
from tenure.locality.schedule import Matching
from tenure.locality.scores import Rates
from tenure.model.placing import Ints
from tenure.placement.compiling import Form, code_of, compile_all


class Comparisons(NamedTuple):
    """What is worth compiling, under the names of the plain functions."""

    schedule_pruned: Callable[[Places, Wants, Rates, int], Matching]
    schedule_contended: Callable[[Places, Wants, Rates, Contention], Matching]
    fill_slots: Callable[[Places, Wants, Rule], Ints]
    requests_of: Callable[[Places, Wants], Requests]
    allocate: Callable[[Places, Requests, Rates, int], Containers]


PLAIN = Comparisons(
    paper.schedule_pruned,
    contention.schedule_contended,
    greedy.fill_slots,
    allocation.requests_of,
    allocation.allocate,
)


def compile_comparisons(cache: str = "") -> Comparisons:
    """Return the kernels compiled; ``cache`` as for the product's."""
    form = Form("comparisons", INLINED, cache and f"{cache}/{code_of(PLAIN)}")
    return Comparisons(*compile_all(PLAIN, form))
