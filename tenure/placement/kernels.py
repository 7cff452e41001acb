"""The kernels as one bundle: plain functions, or the same functions compiled by numba.

numba is imported only inside ``compile_kernels``. The modules that define the kernels do not know
it: each function is rebound to globals in which the functions it calls are already compiled, so
the source stays plain and usable uncompiled.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from tenure.model.placing import Ints
from tenure.model.units import HOUR_US
from tenure.placement import asq, cost, decide, exact, ff, fifo, fifo_c, gio, order, schedule
from tenure.placement.arrays import Ends, Fleet, Jobs, Need


class Kernels(NamedTuple):
    """The functions that are worth compiling; signatures as in ``decide`` and ``schedule``."""

    decide: Callable[[int, Fleet, Need], tuple[int, Ints]]
    total_nano: Callable[[Fleet, Ints, int], int]
    simulate: Callable[[Fleet, Ends, Jobs, int], schedule.Schedule]


PLAIN = Kernels(decide.decide, cost.total_nano, schedule.simulate)

#: Every kernel; each calls only kernels above it, by the name it is defined under.
LEAVES_FIRST: tuple[Callable[..., Any], ...] = (
    cost.slots,
    cost.offer,
    cost.offer_or_local,
    cost.is_hybrid,
    cost.delay_us,
    cost.extension_us,
    cost.money,
    cost.total_nano,
    order.comes_before,
    order.sift,
    order.fill,
    ff.ff,
    gio.cheapest_first,
    gio.gio,
    exact.next_boot_us,
    exact.weigh,
    exact.shortlist,
    exact.is_less,
    exact.take_in,
    exact.cover,
    exact.exact,
    fifo.fifo,
    fifo_c.fifo_c,
    fifo_c.fifo_c_free,
    asq.asq,
    decide.choose,
    decide.until_enough_us,
    decide.soonest_us,
    decide.quickest_us,
    decide.decide,
    schedule.begin,
    schedule.fleet_at,
    schedule.need_at,
    schedule.commit,
    schedule.release,
    schedule.advance,
    schedule.next_stop_us,
    schedule.simulate,
)


def compile_kernels() -> Kernels | None:
    """Return the kernels compiled and warmed up, None where numba is not installed.

    Takes several seconds of CPU: call it in a thread. The answer never compiles again, for the
    arrays made by ``arrays`` always have the layout that it is warmed up with.
    """
    try:
        import numba
    except ImportError:
        return None
    # Plain Python division checks for zero in every loop; no kernel divides by what may be zero.
    compiler = numba.njit(error_model="numpy")
    known: dict[str, Any] = {}
    for kernel in LEAVES_FIRST:
        known[kernel.__name__] = compiler(_rebound(kernel, known))
    bundle = Kernels(*(known[name] for name in Kernels._fields))
    _warm(bundle)
    return bundle


def _rebound(kernel: Callable[..., Any], known: dict[str, Any]) -> FunctionType:
    """Return a copy of ``kernel`` that calls the functions in ``known``."""
    copy = FunctionType(kernel.__code__, {**kernel.__globals__, **known}, kernel.__name__)
    copy.__module__ = kernel.__module__
    copy.__qualname__ = kernel.__qualname__
    return copy


def _warm(kernels: Kernels) -> None:
    """Call every kernel once on one node and one job, so that none compiles later."""
    one = np.ones(1, dtype=np.int64)
    yes = np.ones(1, dtype=np.bool_)
    fleet = Fleet(one, one, one, one, one, one, yes, yes, one, one, one)
    need = Need(1, 1, 1, 1, 1, HOUR_US, yes)
    _, counts = kernels.decide(0, fleet, need)
    kernels.total_nano(fleet, counts, 1)
    jobs = Jobs(one, one, one, one, one, one, one, yes.reshape(1, 1))
    kernels.simulate(fleet, Ends(0 * one, one, one, one), jobs, 0)
