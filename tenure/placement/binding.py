"""Bind the event loop: to a clock, a compiler, or other kernels in the place of the usual ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tenure.placement import replay
from tenure.placement.kernels import LEAVES_FIRST, rebound

Kernel = Callable[..., Any]
#: ``replay.replay``, bound.
Loop = Callable[..., None]
_NOTHING: Mapping[str, Kernel] = MappingProxyType({})


def bind_loop(
    instead: Mapping[str, Kernel] = _NOTHING,
    compiler: Callable[[Kernel], Kernel] | None = None,
    outer: Callable[[Kernel], Kernel] | None = None,
) -> Loop:
    """Return ``replay.replay`` with every kernel that it calls bound to the next.

    ``instead`` names kernels whose place another function takes: ``clock_ns`` to time decisions,
    ``pick`` or ``decide`` for another policy. ``compiler`` makes a compiled kernel of a plain one
    (those in ``instead`` are compiled already, then), ``outer`` that of the loop itself; the first
    call of the loop compiles. None leaves the kernels plain.
    """
    known: dict[str, Kernel] = {}
    for kernel in (*LEAVES_FIRST, *replay.KERNELS):
        name = kernel.__name__
        bound = rebound(kernel, known)
        make = outer if kernel is replay.replay and outer is not None else compiler
        known[name] = instead.get(name) or (bound if make is None else make(bound))
    return known[replay.replay.__name__]
