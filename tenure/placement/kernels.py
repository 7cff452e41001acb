"""The kernels as one bundle: plain functions, or the same functions compiled by numba.

numba is imported only inside ``compile_kernels``. The modules that define the kernels do not know
it: each function is rebound to globals in which the functions it calls are already compiled, so
the source stays plain and usable uncompiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from tenure.model.placing import Bools, Ints
from tenure.model.units import HOUR_US
from tenure.placement import (
    arrays,
    asq,
    cost,
    decide,
    exact,
    ff,
    fifo,
    fifo_c,
    gio,
    order,
    rolling,
    schedule,
    upkeep,
)
from tenure.placement.arrays import Ends, Fleet, Jobs, Need
from tenure.placement.plan import open_plan
from tenure.placement.timeline import blank_line


class Kernels(NamedTuple):
    """What is worth compiling; signatures as in ``decide`` and ``schedule``."""

    quickest_us: Callable[[int, Fleet, Need], int]
    answer: Callable[[decide.Question, Ints, Bools, Bools], Ints]
    resume: Callable[..., None]


PLAIN = Kernels(decide.quickest_us, decide.answer, schedule.resume)
#: ``upkeep.renew``, compiled apart: it takes longer to compile than all the others.
Renew = Callable[..., int]

#: Every kernel; each calls only kernels above it, by the name it is defined under.
LEAVES_FIRST: tuple[Callable[..., Any], ...] = (
    arrays.lend,
    arrays.lent,
    cost.slots,
    cost.offer,
    cost.offer_or_local,
    cost.is_hybrid,
    cost.delay_us,
    cost.longer_us,
    cost.extension_us,
    cost.least_on_us,
    cost.money,
    cost.total_nano,
    order.comes_before,
    order.fill,
    arrays.unpack,
    ff.ff,
    gio.cheapest_first,
    gio.gio,
    exact.next_boot_us,
    exact.cheapest_nano,
    exact.weigh,
    exact.take_in,
    exact.take_all_in,
    exact.is_less,
    exact.spare,
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
    decide.decide_late,
    decide.decide,
    decide.entail,
    decide.answer,
    schedule.begin,
    schedule.set_mark,
    schedule.go_back,
    schedule.fleet_at,
    schedule.need_at,
    schedule.commit,
    schedule.release,
    schedule.switch_off,
    schedule.fit_on,
    schedule.advance,
    schedule.next_stop_us,
    schedule.resume,
)

#: Those of the bundle and of the plan.
BUNDLED: tuple[Callable[..., Any], ...] = (*LEAVES_FIRST, *upkeep.KERNELS)

#: Put into their callers: to hand over a fleet, a dozen arrays, takes longer than what these do.
INLINED = rolling.INLINED | frozenset(
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


def compile_kernels(cache: str = "") -> Kernels | None:
    """Return the kernels compiled and warmed up, None where numba is not installed.

    ``cache`` is a directory (made if missing) that keeps the machine code: the first call takes
    half a minute of CPU and 400 MB that the process never gives back, a later one under a second
    and half of that. Empty: compile in any case. The answer never compiles again, for the arrays
    made by ``arrays`` always have the layout that it is warmed up with.
    """
    known = _compiled(LEAVES_FIRST, frozenset(Kernels._fields), cache)
    if known is None:
        return None
    bundle = Kernels(*(known[name] for name in Kernels._fields))
    _warm(bundle)
    return bundle


def compile_planning(cache: str = "") -> Renew | None:
    """Return ``upkeep.renew`` compiled and warmed up, None where numba is not installed.

    As ``compile_kernels``; the first call takes most of a minute of CPU and half a gigabyte.
    """
    known = _compiled(BUNDLED, frozenset(("renew",)), cache, "planning.")
    if known is None:
        return None
    renew: Renew = known["renew"]
    _warm_planning(renew)
    return renew


def _compiled(
    kernels: Iterable[Callable[..., Any]], outermost: frozenset[str], cache: str, prefix: str = ""
) -> dict[str, Any] | None:
    """Return kernels by name, made to be compiled at their first call; those above keep no code.

    ``prefix`` keeps machine code apart, which is linked by name, of what is compiled twice.
    """
    try:
        import numba
    except ImportError:
        return None
    from tenure.placement import linking

    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = f"{cache}/{fingerprint()}" if cache else before
    known: dict[str, Any] = {arrays.lend.__name__: lender()}
    try:
        for kernel in kernels:
            if kernel is arrays.lend:
                continue
            if kernel.__name__ in outermost:
                compiler = linking.outer(is_kept=bool(cache))
            else:
                compiler = linking.inner(
                    is_inlined=kernel in (rolling.INLINED if prefix else INLINED)
                )
            bound = rebound(kernel, known)
            bound.__qualname__ = prefix + bound.__qualname__
            known[kernel.__name__] = compiler(bound)
    finally:
        config.CACHE_DIR = before
    return known


def lender() -> Any:
    """Return ``arrays.lend`` for compiled code: the array without the record that counts holders.

    Such a record is what numba looks for before it counts; arrays that come from C have none.
    """
    from numba.extending import intrinsic
    from numba.np import arrayobj

    untyped: Any = arrayobj

    @intrinsic  # type: ignore[misc, unused-ignore]
    def lend(_context: Any, array: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kind = signature.return_type
            held = untyped.make_array(kind)(context, builder, values[0])
            made = untyped.make_array(kind)(context, builder)
            parts = {name: getattr(held, name) for name in ("data", "shape", "strides", "itemsize")}
            untyped.populate_array(made, **parts, meminfo=None)
            return made._getvalue()

        return array(array), code

    return lend


def fingerprint(kernels: Iterable[Callable[..., Any]] = BUNDLED) -> str:
    """Return a name for the code of ``kernels`` as it is.

    numba looks for changes in the kept function alone, not in those that are linked into it; that
    the processor and numba are the same it sees itself.
    """
    digest = hashlib.sha256()
    for kernel in (lender, *kernels):
        constants = [
            (name, kernel.__globals__[name])
            for name in kernel.__code__.co_names
            if isinstance(kernel.__globals__.get(name), (int, float))
        ]
        row = kernel.__name__, kernel.__defaults__, constants, _code_of(kernel.__code__)
        digest.update(repr(row).encode())
    return digest.hexdigest()[:16]


def _code_of(code: CodeType) -> tuple[Any, ...]:
    inner = tuple(_code_of(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.co_code, inner, code.co_names, code.co_varnames


def rebound(kernel: Callable[..., Any], known: dict[str, Any]) -> FunctionType:
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
    kernels.quickest_us(0, fleet, Need(1, 1, 1, 1, 1, HOUR_US, yes))
    question = (0, 1, 1, 1, 1, 1, HOUR_US)
    kernels.answer(question, np.ones((9, 1), dtype=np.int64), np.ones((2, 1), dtype=np.bool_), yes)
    jobs = Jobs(one, one, one, one, one, one, one, yes.reshape(1, 1))
    line = schedule.Line(jobs, 0 * one)
    kernels.resume(fleet, Ends(0 * one, one, one, one), line, schedule.blank(1, 1, 1), (0, 0, 1))


def _warm_planning(renew: Renew) -> None:
    """Call the kernel once on one node and one job, so that it does not compile later."""
    one = np.ones(1, dtype=np.int64)
    yes = np.ones(1, dtype=np.bool_)
    fleet = Fleet(one, one, one, one, one, one, yes, yes, one, one, one)
    jobs = Jobs(one, one, one, one, one, one, one, yes.reshape(1, 1))
    plan = open_plan(fleet, jobs, 0.0)
    ground = upkeep.Ground(fleet, one, one, Ends(0 * one, one, one, one), 0)
    room = blank_line(1, 8)
    renew(ground, jobs, plan, upkeep.Turnout(0 * one, 0, False, False), room)
