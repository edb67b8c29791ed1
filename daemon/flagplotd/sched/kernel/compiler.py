"""How the kernels are compiled: those that kernels alone call once each, and optimised only as parts of their callers.

The compiler would make one more of them for every constant that they are called with, and would optimise each both alone
and again within everything above it, and make machine code of each, which takes several times as long and makes nothing quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any

from numba import njit, types
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen

OPTIONS = {"nogil": True, "cache": True}
"""Of kernels that Python calls."""
_at = local()


def inner(function: Callable[..., Any]) -> Any:
    """Decorate a kernel that only kernels call."""
    made = njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    template, compile_one = made.get_call_template, made.compile

    def plain(args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return template(tuple(map(types.unliteral, args)), {name: types.unliteral(one) for name, one in named.items()})

    def within(signature: Any) -> Any:
        _at.depth = getattr(_at, "depth", 0) + 1
        try:
            return compile_one(signature)
        finally:
            _at.depth -= 1

    made.get_call_template, made.compile = plain, within
    return made


def _outside(method: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*arguments: Any) -> Any:
        return (instead if getattr(_at, "depth", 0) else method)(*arguments)

    return chosen


def _keep_for_callers(library: CPUCodeLibrary) -> None:
    """An inner kernel is linked into its callers from here, and needs no machine code of its own."""
    library._finalize_dynamic_globals()
    library._finalized = True


def _nothing(*_: Any) -> None:
    pass


CPUCodeLibrary._optimize_final_module = _outside(CPUCodeLibrary._optimize_final_module, _nothing)
CPUCodeLibrary._finalize_final_module = _outside(CPUCodeLibrary._finalize_final_module, _keep_for_callers)
JITCPUCodegen.set_env = _outside(JITCPUCodegen.set_env, _nothing)
