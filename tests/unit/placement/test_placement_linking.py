"""Kernels that only kernels call: no machine code of their own, the same answers and errors."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from tenure.placement import linking


def halved(values: Any) -> Any:
    if values[0] < 0:
        raise ValueError("below zero", values[0])
    return values // 2


@pytest.mark.parametrize("is_inlined", [False, True])
def test_what_is_linked_runs_and_fails_as_it_would_alone(is_inlined: bool) -> None:
    inner: Any = linking.inner(is_inlined=is_inlined)(halved)
    middle: Any = linking.inner()(lambda values: inner(values) + inner(values + 2))

    def total(values: Any) -> Any:
        return np.sum(middle(values)) + np.sum(inner(values))

    outer: Any = linking.outer()(total)
    assert outer(np.array([4, 10])) == (2 + 5 + 3 + 6) + 2 + 5
    with pytest.raises(ValueError, match="below zero") as caught:
        outer(np.array([-1, 10]))
    assert caught.value.args == ("below zero", -1)


def test_what_is_there_to_be_linked_is_not_made_machine_code() -> None:
    alone, made = linking.inner()(halved), linking.outer()(halved)
    assert not _is_machine_code(alone)
    assert _is_machine_code(made)


def _is_machine_code(kernel: Any) -> bool:
    kernel.compile((numba.types.int64[::1],))
    (library,) = [compiled.library for compiled in kernel.overloads.values()]
    names = [f.name for f in library.get_defined_functions() if "halved" in f.name]
    assert names
    return any(library.codegen._engine.is_symbol_defined(name) for name in names)
