"""Kernels: functions over arrays that call each other by their global names; how they are bound.

To compile a kernel, or to have another function in the place of one that it calls, it is copied
with globals of its own. So the plain and the compiled form live in one process, and the modules
that define kernels know nothing of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType, MappingProxyType
from typing import Any

Kernel = Callable[..., Any]
#: Which functions others take the place of: kernels too, or what is compiled already.
Instead = Mapping[Kernel, Kernel]
#: Where kernels are defined, beside the packages of the entries; every other function is called as
#: it is.
PACKAGES = ("tenure.placement.", "tenure.locality.")
_NOTHING: Instead = MappingProxyType({})


def bind(entry: Kernel, instead: Instead = _NOTHING) -> Kernel:
    """Return a copy of ``entry`` that calls other functions ``instead`` of some, at any depth."""
    return copy_all((entry,), lambda _, copy: copy, instead)[entry]


def copy_all(
    entries: Sequence[Kernel],
    make: Callable[[Kernel, FunctionType], Kernel],
    instead: Instead = _NOTHING,
) -> dict[Kernel, Kernel]:
    """Return what ``make`` makes of each kernel that ``entries`` call, and of the entries.

    It is given the kernel and its copy, which calls what was made of those that the kernel calls.
    """
    made: dict[Kernel, Kernel] = {}
    for kernel in called_by(entries, instead):
        made[kernel] = make(kernel, copy_of(kernel, made, instead))
    return made


def copy_of(
    kernel: Kernel, made: Mapping[Kernel, Kernel], instead: Instead = _NOTHING
) -> FunctionType:
    """Return a copy of ``kernel`` that calls what was ``made`` of the functions that it calls."""
    own = dict(kernel.__globals__)
    for name, called in _calls(kernel, instead):
        own[name] = made.get(called, called)
    copy = FunctionType(kernel.__code__, own, kernel.__name__)
    copy.__module__, copy.__qualname__ = kernel.__module__, kernel.__qualname__
    return copy


def called_by(entries: Iterable[Kernel], instead: Instead = _NOTHING) -> list[Kernel]:
    """Return the kernels that ``entries`` call, and the entries, each behind those it calls."""
    found: dict[Kernel, None] = {}
    entries = tuple(entries)
    homes = (*PACKAGES, *map(_home, entries))

    def find(kernel: Kernel) -> None:
        for _, called in _calls(kernel, instead):
            if called not in found and _is_kernel(called, homes):
                find(called)
        found[kernel] = None

    for entry in entries:
        if entry not in found:
            find(entry)
    return list(found)


def fingerprint(kernels: Iterable[Kernel]) -> str:
    """Return a name for the code of ``kernels`` as it is.

    numba looks for changes in the kept function alone, not in those that are linked into it; that
    the processor and numba are the same it sees itself.
    """
    digest = hashlib.sha256()
    for kernel in kernels:
        constants = [
            (name, kernel.__globals__[name])
            for name in _names_in(kernel.__code__)
            if isinstance(kernel.__globals__.get(name), (int, float))
        ]
        row = kernel.__name__, kernel.__defaults__, constants, _code_of(kernel.__code__)
        digest.update(repr(row).encode())
    return digest.hexdigest()[:16]


def _home(entry: Kernel) -> str:
    return f"{entry.__module__.rpartition('.')[0] or entry.__module__}."


def _is_kernel(value: Kernel, homes: tuple[str, ...]) -> bool:
    return isinstance(value, FunctionType) and f"{value.__module__}.".startswith(homes)


def _calls(kernel: Kernel, instead: Instead) -> Iterator[tuple[str, Kernel]]:
    """Yield the functions that a kernel calls, by the names that it calls them by."""
    for name in _names_in(kernel.__code__):
        value = kernel.__globals__.get(name)
        if isinstance(value, FunctionType):
            yield name, instead.get(value, value)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in(one)


def _code_of(code: CodeType) -> tuple[object, ...]:
    inner = tuple(_code_of(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.co_code, inner, code.co_names, code.co_varnames
