"""What all kernels share: how they are compiled, and the counter-based random stream (SplitMix64).

A kernel is compiled, or loaded from the compiler's cache, when it is first called: importing the compiler alone takes
longer than a command that needs no kernel.

The stream of item ``i`` under ``key`` starts at ``state = stream(key, i)``; each draw is ``mix64(state)`` followed by
``state += GOLDEN``. In the code, ``z`` is such a 64-bit state on its way through the mixing steps.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / 9007199254740992.0
_loading = threading.RLock()
_told: list[Callable[[bool], None]] = []
_log = logging.getLogger("tensorucb.kernels")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_told.clear)  # whoever is told has threads and locks, which stay behind


class Kernel:
    """A function that the compiler gets when it is first called."""

    def __init__(self, function: Callable[..., Any], compiler: Callable[[FunctionType], Any]) -> None:
        self.function = function
        self._compiler = compiler
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.compiled()(*arguments)

    def compiled(self) -> Any:
        """What the compiler has made of the function; it gets one that calls the compiled forms of other kernels."""
        if self._compiled is None:
            with _loading:
                code, names = self.function.__code__, self.function.__globals__
                called = {name: names[name] for name in _names(code) if isinstance(names.get(name), Kernel)}
                ready = {name: other.compiled() for name, other in called.items()}
                function = FunctionType(code, {**names, **ready}, self.function.__name__)
                self._compiled = self._compiled or self._compiler(function)
        return self._compiled


def _names(code: CodeType) -> Iterator[str]:
    """The global names in a function and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _compile(function: FunctionType, **options: Any) -> Any:
    import numba

    _watch()
    compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    try:
        compiled.enable_caching()
    except RuntimeError:  # no directory that the compiler knows can be written to
        _say_not_kept()
    return compiled


@cache
def _say_not_kept() -> None:
    _log.warning(
        "compiled kernels cannot be kept, so that each process compiles them again. "
        "Set NUMBA_CACHE_DIR to a directory that can be written to."
    )


@contextmanager
def telling_of_compilation(tell: Callable[[bool], None]) -> Iterator[None]:
    """Inside the block ``tell`` hears whether the compiler works, whenever it begins with a kernel or ends one.

    A kernel that it finds in its cache is not compiled.
    """
    _told.append(tell)
    try:
        yield
    finally:
        _told.remove(tell)


@cache
def _watch() -> None:
    """Listen to the compiler, from its first kernel on."""
    from numba.core import event as events

    class Watch(events.Listener):  # type: ignore[misc]
        depth = 0  # kernels under way: those that a kernel calls are compiled within it

        def on_start(self, event: Any) -> None:
            self.depth += 1
            for tell in _told:
                tell(True)

        def on_end(self, event: Any) -> None:
            self.depth -= 1
            for tell in _told:
                tell(self.depth > 0)

    events.register("numba:compile", Watch())


def kernel(function: Callable[..., Any]) -> Kernel:
    """Compile a function that Python and other kernels call."""
    return Kernel(function, _compile)


def inlined(function: Callable[..., Any]) -> Kernel:
    """Compile a function into each kernel that calls it."""
    return Kernel(function, lambda function: _compile(function, inline="always"))


def intrinsic(function: Callable[..., Any]) -> Kernel:
    """Let a function write the compiler's own instructions."""

    def made(function: FunctionType) -> Any:
        from numba.extending import intrinsic

        return intrinsic(function)

    return Kernel(function, made)


@inlined
def mix64(z):  # type: ignore[no-untyped-def]
    """SplitMix64's output function."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@inlined
def stream(key, item):  # type: ignore[no-untyped-def]
    """First state of item's stream under key."""
    return mix64(key + (np.uint64(item) + np.uint64(1)) * GOLDEN)


@inlined
def unit(z):  # type: ignore[no-untyped-def]
    """A uniform number in [0, 1) with 53 bits from 64 random ones."""
    return np.float64(z >> _S11) * _UNIT


@intrinsic
def prefetch(_, array, index):  # type: ignore[no-untyped-def]
    """Ask for a place of an array ahead of its use."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import int64, void
    from numba.core import cgutils

    def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(call, [place, number(0), number(3), number(1)])  # to read, keep it near, data
        return context.get_dummy_value()

    return void(array, int64), emit
