"""How kernels of any room are compiled by numba, which is imported only inside ``compile_all``.

``binding`` says how a compiled form lives beside the plain one, ``linking`` how it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import NamedTuple

from tenure.placement import arrays
from tenure.placement.binding import Kernel, called_by, copy_all, copy_of, fingerprint


class Form(NamedTuple):
    """How kernels are compiled.

    ``name`` keeps machine code apart, which is linked by name, of what is compiled twice;
    ``inlined`` are put into their callers; ``folder`` keeps the machine code, "" for nowhere.
    """

    name: str
    inlined: frozenset[Kernel]
    folder: str = ""


def compile_all(
    entries: Sequence[Kernel], form: Form, instead: Mapping[Kernel, Kernel] = MappingProxyType({})
) -> list[Kernel]:
    """Return ``entries`` for Python to call, which compiles each at its first call.

    ``instead`` as in ``binding``, of compiled functions.
    """
    import numba

    from tenure.placement import linking

    def inner(kernel: Kernel, copy: FunctionType) -> Kernel:
        compiler = linking.inner(is_inlined=kernel in form.inlined)
        return compiler(_named(form.name, copy))

    others: dict[Kernel, Kernel] = {arrays.lend: lender(), **instead}
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = form.folder or before
    try:
        made = copy_all(entries, inner, others)
        outer = linking.outer(is_kept=bool(form.folder))
        return [outer(_named(form.name, copy_of(entry, made, others))) for entry in entries]
    finally:
        numba.config.CACHE_DIR = before


def _named(form: str, copy: FunctionType) -> FunctionType:
    copy.__qualname__ = f"{form}.{copy.__qualname__}"
    return copy


def code_of(entries: Iterable[Kernel]) -> str:
    """Return a name for the code of kernels and of all that they call, as it is."""
    return fingerprint((lender, *called_by(entries)))


def lender() -> Kernel:
    """Return ``arrays.lend`` for compiled code: the array without the record that counts holders.

    Such a record is what numba looks for before it counts; arrays that come from C have none.
    """
    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext
    from numba.core.typing import Signature
    from numba.extending import intrinsic
    from numba.np import arrayobj
    from numba.types import Array

    @intrinsic
    def lend(_context: BaseContext, array: Array) -> tuple[Signature, Kernel]:
        def code(
            context: BaseContext, builder: IRBuilder, signature: Signature, values: list[Value]
        ) -> Value:
            kind = signature.return_type
            held = arrayobj.make_array(kind)(context, builder, values[0])
            made = arrayobj.make_array(kind)(context, builder)
            parts = {name: getattr(held, name) for name in ("data", "shape", "strides", "itemsize")}
            arrayobj.populate_array(made, **parts, meminfo=None)
            return made._getvalue()

        return array(array), code

    made: Kernel = lend
    return made
