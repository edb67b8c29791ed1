"""How the kernels are compiled: those that kernels alone call once each, and optimised only as parts of their callers.

The compiler would make one more of them for every constant that they are called with, and would optimise each both alone
and again within everything above it, which takes four times as long and makes nothing quicker.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any

from numba import njit, types
from numba.core.codegen import CPUCodeLibrary

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


def _later(optimize: Callable[[CPUCodeLibrary], Any]) -> Callable[[CPUCodeLibrary], Any]:
    def only_outside(library: CPUCodeLibrary) -> Any:
        return None if getattr(_at, "depth", 0) else optimize(library)

    return only_outside


CPUCodeLibrary._optimize_final_module = _later(CPUCodeLibrary._optimize_final_module)
