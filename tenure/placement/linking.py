"""How kernels are compiled: those that only kernels call are optimised once, in those that call.

numba makes machine code of every function, with everything it calls linked in and optimised anew.
So a kernel at the bottom of ten others is optimised ten times, and for most of that nobody asks.
Here such a kernel is only translated; what is handed out is linked with all that it calls,
optimised and made machine code as one. That takes a fraction of the time and of the memory.

Imported by what compiles, for it imports numba.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
from numba.core import codegen, compiler, environment, typed_passes
from numba.core import compiler_machinery as machinery

from tenure.placement.binding import Kernel

Compiler = Callable[[Kernel], Kernel]
#: Nobody calls these from Python: taking tuples of some fifty arrays from it is more code than most
#: kernels are.
_UNWRAPPED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Unbound:
    """numba's code generator, for functions without machine code: there is nothing to write to."""

    def __init__(self, whole: codegen.JITCPUCodegen) -> None:
        self._whole = whole

    def __getattr__(self, name: str) -> object:
        return getattr(self._whole, name)

    def set_env(self, name: str, env: environment.Environment) -> None:
        pass  # ``_Bind`` does it where the function has been linked to


class _Untouched(codegen.JITCodeLibrary):
    """A library that is there to be linked into others: neither optimised nor made machine code."""

    @property
    def codegen(self) -> _Unbound:
        return _Unbound(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Pass(machinery.LoweringPass):
    def __init__(self) -> None:  # abstract in the pass it derives from
        super().__init__()


@machinery.register_pass(mutates_CFG=False, analysis_only=True)
class _Untouch(_Pass):
    """Give a function such a library, before it is lowered into one of numba's choice."""

    _name = "tenure_untouch"

    def run_pass(self, state: compiler.StateDict) -> bool:
        state.library = _Untouched(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


@machinery.register_pass(mutates_CFG=False, analysis_only=True)
class _Bind(_Pass):
    """Tell machine code where the Python side of each function linked into it is."""

    _name = "tenure_bind"

    def run_pass(self, state: compiler.StateDict) -> bool:
        for variable in state.library._final_module.global_variables:
            env = environment.lookup_environment(variable.name)
            if env is not None:
                state.library.codegen.set_env(variable.name, env)
        return False


class _Inner(compiler.CompilerBase):
    """numba's own pipeline, but for the library."""

    def define_pipelines(self) -> list[machinery.PassManager]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Untouch, typed_passes.NopythonRewrites)
        passes.finalize()
        return [passes]


class _Outer(compiler.CompilerBase):
    """numba's own pipeline, which knows nothing of functions that are linked in but not bound."""

    def define_pipelines(self) -> list[machinery.PassManager]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Bind, typed_passes.NoPythonBackend)
        passes.finalize()
        return [passes]


def inner(*, is_inlined: bool = False) -> Compiler:
    """Return what makes a kernel that only kernels call; ``is_inlined``: it is put into them."""
    return _njit(pipeline_class=_Inner, forceinline=is_inlined, **_UNWRAPPED)


def outer(*, is_kept: bool = False) -> Compiler:
    """Return what makes a kernel for Python to call; ``is_kept``: its machine code, on the disk."""
    return _njit(pipeline_class=_Outer, cache=is_kept)


def _njit(**options: object) -> Compiler:
    # Python's division checks for zero in every loop; no kernel divides by what may be zero.
    made: Compiler = numba.njit(error_model="numpy", **options)
    return made
