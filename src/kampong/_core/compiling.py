"""Loops that numba compiles when they are first called: what calls none need not wait until numba is imported."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

_waiting: list[Callable[[], None]] = []
_lock = threading.RLock()


class Compiled(Generic[P, R]):
    """A function that is compiled when it is first called, or when a compiled one that calls it is.

    Its machine code is kept on disk, and it runs without the interpreter lock.

    Parameters
    ----------
    function : callable
        The function as Python has it.
    **options : object
        What `numba.njit` is told besides.
    """

    def __init__(self, function: Callable[P, R], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func, self._options = function, options
        self.numpy_func: Callable[P, R] | None = None
        self._machine: Any = None

    def __call__(self, *arguments: P.args, **named: P.kwargs) -> R:
        """Call the machine code."""
        result: R = (self._machine or self.machine)(*arguments, **named)
        return result

    def __reduce__(self) -> Any:
        """Let a pickle hold the name."""
        return self.py_func.__qualname__

    def in_numpy(self, function: Callable[P, R]) -> Callable[P, R]:
        """Take a function of NumPy that gives the same bits, for loops that run without a compiler; a decorator."""
        self.numpy_func = function
        return function

    @property
    def machine(self) -> Any:
        """The function as numba has it, which compiles it for each form of its arguments."""
        with _lock:
            if self._machine is None:
                numba = _numba()
                try:
                    self._machine = numba.njit(cache=True, nogil=True, **self._options)(self.py_func)
                except RuntimeError:  # neither installation nor home can be written: compiled again in each process
                    self._machine = numba.njit(nogil=True, **self._options)(self.py_func)
            return self._machine


@functools.cache
def _numba() -> Any:
    """Import numba, let it see what our functions are, and hear from it which of them no cache holds."""
    import numba
    from numba.core import event
    from numba.extending import typeof_impl

    class Compilations(event.Listener):
        """Pass on which loops numba compiles because no cache holds them."""

        def on_start(self, event: Any) -> None:
            """Tell that a compilation begins."""
            _tell(event.data["dispatcher"].py_func.__module__)

        def on_end(self, event: Any) -> None:
            """Tell nothing."""

    event.register("numba:compile", Compilations())

    @typeof_impl.register(Compiled)
    def type_of(value: Compiled[..., Any], context: Any) -> Any:
        return numba.types.Dispatcher(value.machine)

    return numba


def tell_when_compiling(say: Callable[[], None]) -> None:
    """Call `say` once, when this process first compiles a loop of kampong that its cache on disk does not hold."""
    _waiting.append(say)


def _tell(module: str) -> None:
    """Tell those who asked that a loop of a module is compiled now."""
    if module.partition(".")[0] == __name__.partition(".")[0]:
        while _waiting:
            _waiting.pop()()
