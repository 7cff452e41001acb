"""The event loop of ``placement.replay``, bound to a clock: compiled where numba is installed."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import numpy as np

from tenure.placement.kernels import Loop, bind_replay

_MONOTONIC = 1
_SECOND_NS = 1_000_000_000


@cache
def plain_loop() -> Loop:
    """Return the loop as plain Python: some hundred times slower, and nothing to compile."""
    return bind_replay(time.perf_counter_ns)


def compiled_loop() -> Loop | None:
    """Return the loop for numba, None where it is not installed; its first call compiles."""
    try:
        import numba  # noqa: F401
    except ImportError:
        return None
    return _compiled()


@cache
def _compiled() -> Loop:
    import numba
    from numba.core import types

    # a compiled kernel cannot call Python's clock; libc's is a symbol of the process
    gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uint64))
    compiler = numba.njit(error_model="numpy")

    def clock_ns() -> int:
        parts = np.empty(2, dtype=np.int64)
        gettime(_MONOTONIC, parts.ctypes.data)
        return int(parts[0] * _SECOND_NS + parts[1])

    return bind_replay(compiler(clock_ns), compiler)
