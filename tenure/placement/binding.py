"""Bind the event loop: to a clock, a compiler, or other kernels in the place of the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tenure.placement import replay, waiting
from tenure.placement.kernels import LEAVES_FIRST, rebound

Kernel = Callable[..., Any]
#: ``replay.replay``, bound.
Loop = Callable[..., None]
_NOTHING: Mapping[str, Kernel] = MappingProxyType({})


def bind_loop(
    instead: Mapping[str, Kernel] = _NOTHING,
    compiler: Callable[[Kernel], Kernel] | None = None,
    outer: Callable[[Kernel], Kernel] | None = None,
    queue_policy: Sequence[Kernel] = (),
) -> Loop:
    """Return ``replay.replay`` with every kernel that it calls bound to the next.

    ``instead`` names kernels whose place another function takes: ``clock_ns`` to time decisions,
    ``pick`` or ``decide`` for another policy. ``compiler`` makes a compiled kernel of a plain one
    (those in ``instead`` are compiled already, then), ``outer`` that of the loop itself; the first
    call of the loop compiles. None leaves the kernels plain. ``queue_policy`` are kernels of which
    the last takes the place of ``pick``; they call each other and those of the loop above it.
    """
    known: dict[str, Kernel] = {}
    above = replay.KERNELS.index(waiting.pick)
    loop = (*replay.KERNELS[:above], *queue_policy, *replay.KERNELS[above:])
    for kernel in (*LEAVES_FIRST, *loop):
        if kernel is waiting.pick and queue_policy:
            known[waiting.pick.__name__] = known[queue_policy[-1].__name__]
            continue
        name = kernel.__name__
        bound = rebound(kernel, known)
        if queue_policy:
            # machine code is linked by name: that of two loops in one process must not meet
            bound.__qualname__ = f"{queue_policy[-1].__name__}.{kernel.__qualname__}"
        make = outer if kernel is replay.replay and outer is not None else compiler
        known[name] = instead.get(name) or (bound if make is None else make(bound))
    return known[replay.replay.__name__]
