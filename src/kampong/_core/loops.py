"""Loops that need not wait for a compiler: short work runs as Python, with the bits that compiled code gives.

The compiler may neither reorder sums nor join a product with a sum, so both do the same operations of IEEE 754 in the
same order. A loop is compiled once it has had enough to do. Machine code that is on disk is loaded sooner, but not at
once, because numba must be imported for it.
"""

from __future__ import annotations

import time
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from kampong._core.compiling import Compiled
from kampong._core.compute import PLAIN, compiled

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

LOADING = 0.3
"""Seconds that all loops run as Python before those are loaded whose machine code is on disk: loading takes as long."""


class _Spent:
    """The seconds that loops have run as Python in this process."""

    seconds = 0.0


_spent = _Spent()


def part(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a part of loops that allocates nothing: nobody counts who uses the arrays that it is given.

    To count takes atomic steps for every array and every slice, which is most of the time of short loops.
    """
    return compiled(function, error_model="numpy", fastmath=False, _nrt=False, no_cfunc_wrapper=True)


def small(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a part as `part` does, into the machine code of those that call it."""
    return compiled(function, error_model="numpy", fastmath=False, _nrt=False, no_cfunc_wrapper=True, forceinline=True)


class Loop(Compiled[P, R]):
    """A loop over rows that Python calls: by itself while there is little to do, compiled afterwards.

    Use it as a decorator. Whatever the loop calls must be a `part`, a `small`, NumPy, or Python's own. Of the numbers
    that NumPy and Python compute differently from machine code, it may use none: no powers, no `exp`, no `sum`.

    Parameters
    ----------
    function : callable
        The loop. Its arguments are arrays and numbers.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__(function, error_model="numpy", fastmath=False, no_cfunc_wrapper=True)
        self.left, self.busy = 2 * PLAIN, False

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Run the loop."""
        if not self.busy:
            # in entries: a row reads them to be predicted, and writes them to be learnt
            self.left -= _work(arguments)
            if self.left >= 0 and (_spent.seconds < LOADING or not self._on_disk):
                return self.as_python(*arguments, **named)
            self.busy = True
        return super().__call__(*arguments, **named)

    def as_python(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Run the loop without a compiler."""
        began = time.thread_time()
        with np.errstate(all="ignore"):  # as machine code does
            result: R = as_python(self)(*arguments, **named)
        _spent.seconds += time.thread_time() - began
        return result

    @cached_property
    def _on_disk(self) -> bool:
        """Whether the cache holds machine code of this loop."""
        place = self.machine.stats.cache_path
        code = self.py_func.__code__
        name = f"{Path(code.co_filename).stem}.{self.py_func.__name__}-{code.co_firstlineno}.*.nbi"
        return place is not None and any(Path(place).glob(name))


@cache
def as_python(function: Any) -> Any:
    """Return a compiled function as Python runs it, with all the compiled functions that it calls."""
    if function.numpy_func is not None:
        return function.numpy_func
    source = function.py_func
    names = source.__globals__
    called = {name: names.get(name) for name in source.__code__.co_names}
    parts = {name: as_python(one) for name, one in called.items() if isinstance(one, Compiled)}
    return FunctionType(source.__code__, {**names, **parts}, source.__name__, source.__defaults__)


def _work(arguments: tuple[Any, ...]) -> int:
    """Return about how many entries a loop reads: those of its rows, and all others for each row.

    The square of the rows is added, so that a long block is compiled even if each row has few entries.
    """
    arrays = [one for one in arguments if isinstance(one, np.ndarray)]
    vectors = [one for one in arrays if one.ndim == 1]
    of_rows = [one for one in vectors if one.dtype == np.bool_] or vectors  # most loops are told which rows to learn
    rows = max((len(one) for one in of_rows), default=1)
    return rows**2 + sum(one.size if rows in one.shape else rows * one.size for one in arrays)
