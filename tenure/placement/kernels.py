"""The kernels as one bundle: plain functions, or the same functions compiled by numba.

``compiling`` says how they are compiled, ``binding`` how both forms live side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import HOUR_US
from tenure.placement import arrays
from tenure.placement.arrays import Ends, Fleet, Jobs, Need
from tenure.placement.binding import Kernel
from tenure.placement.compiling import Form, code_of, compile_all
from tenure.placement.decisions import cost, decide, exact, gio, order
from tenure.placement.planning import repair, rolling
from tenure.placement.planning.timeline import blank_line
from tenure.placement.queue import schedule
from tenure.placement.queue.plan import open_plan


class Kernels(NamedTuple):
    """What is worth compiling; signatures as in ``decide`` and ``schedule``."""

    quickest_us: Callable[[int, Fleet, Need], int]
    answer: Callable[[decide.Question, Ints, Bools, Bools], Ints]
    resume: Callable[..., None]


PLAIN = Kernels(decide.quickest_us, decide.answer, schedule.resume)
#: ``repair.renew``, compiled apart: it takes longer to compile than all the others.
Renew = Callable[..., int]

#: Put into their callers: to hand over a fleet, a dozen arrays, takes longer than what these do.
INLINED: frozenset[Kernel] = rolling.INLINED | frozenset(
    (
        arrays.lent,
        arrays.unpack,
        cost.slots,
        cost.offer,
        cost.is_hybrid,
        cost.delay_us,
        cost.total_nano,
        cost.longer_us,
        cost.least_on_us,
        cost.money,
        order.comes_before,
        order.fill,
        exact.next_boot_us,
        exact.cheapest_nano,
        exact.weigh,
        exact.take_in,
        exact.take_all_in,
        exact.is_less,
        exact.spare,
        exact.cover,
        exact.exact,
        gio.cheapest_first,
        gio.gio,
        decide.choose,
        decide.decide,
        decide.entail,
    )
)


def compile_kernels(cache: str = "") -> Kernels:
    """Return the kernels compiled and warmed up.

    ``cache`` is a directory (made if missing) that keeps the machine code: the first call takes
    half a minute of CPU and 400 MB that the process never gives back, a later one under a second
    and half of that. Empty: compile in any case. The answer never compiles again, for the arrays
    made by ``arrays`` always have the layout that it is warmed up with.
    """
    form = Form("placement", INLINED, cache and f"{cache}/{code_of(PLAIN)}")
    bundle = Kernels(*compile_all(PLAIN, form))
    _warm(bundle)
    return bundle


def compile_planning(cache: str = "") -> Renew:
    """Return ``repair.renew`` compiled and warmed up.

    As ``compile_kernels``; the first call takes most of a minute of CPU and half a gigabyte.
    """
    rows = (repair.renew,)
    form = Form("planning", rolling.INLINED, cache and f"{cache}/{code_of(rows)}")
    renew: Renew = compile_all(rows, form)[0]
    _warm_planning(renew)
    return renew


def _warm(kernels: Kernels) -> None:
    """Call every kernel once on one node and one job, so that none compiles later."""
    one, yes = np.ones(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
    fleet, jobs = one_of_each()
    kernels.quickest_us(0, fleet, Need(1, 1, 1, 1, 1, HOUR_US, yes))
    question = (0, 1, 1, 1, 1, 1, HOUR_US)
    kernels.answer(question, np.ones((9, 1), dtype=np.int64), np.ones((2, 1), dtype=np.bool_), yes)
    line = schedule.Line(jobs, 0 * one)
    kernels.resume(fleet, Ends(0 * one, one, one, one), line, schedule.blank(1, 1, 1), (0, 0, 1))


def _warm_planning(renew: Renew) -> None:
    """Call the kernel once on one node and one job, so that it does not compile later."""
    one, (fleet, jobs) = np.ones(1, dtype=np.int64), one_of_each()
    ground = repair.Ground(fleet, one, one, Ends(0 * one, one, one, one), 0)
    turnout = repair.Turnout(0 * one, 0, False, False)
    renew(ground, jobs, open_plan(fleet, jobs, 0.0), turnout, blank_line(1, 8))


def one_of_each() -> tuple[Fleet, Jobs]:
    """Return one node that is on and one job, to call kernels with before anybody waits for it."""
    one, yes = np.ones(1, dtype=np.int64), np.ones(1, dtype=np.bool_)
    fleet = Fleet(one, one, one, one, one, one, yes, yes, one, one, one)
    return fleet, Jobs(one, one, one, one, one, one, one, yes.reshape(1, 1))
