"""Memory limits: how much this process may still use, and errors that say what rows need."""

from __future__ import annotations

import math
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

Method = TypeVar("Method", bound="Callable[..., Any]")

GIB = 2**30


def memory_left() -> float:
    """Return the bytes that the limit on the address space leaves to this process, infinity where there is none."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return math.inf
        return limit - int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return math.inf


class NotEnoughMemory(MemoryError):
    """Rows need more memory than there is; the text says what needs it and what to do."""


def refuse_large_scatter(owner: str, n_features: int, copies: int, advice: str) -> None:
    """Refuse a scatter that cannot fit, before rows are read.

    Parameters
    ----------
    owner : str
        Who needs it.
    n_features : int
        The number of columns d.
    copies : int
        How many d × d matrices are needed at once, at the least.
    advice : str
        What to do instead.
    """
    one, left = 8 * n_features**2, memory_left()
    if copies * one > left:
        raise NotEnoughMemory(
            f"{owner}: {n_features:,} features need at least {copies * one:,} bytes ({copies * one / GIB:.1f} GiB) for "
            f"{copies} matrices of {n_features:,} × {n_features:,} numbers, and the limit of this process leaves "
            f"{max(int(left), 0):,}. {advice}"
        )


def within_memory(method: Method) -> Method:
    """Let a method of an estimator that runs out of memory say what needed it and what to do; a decorator.

    Parameters
    ----------
    method : callable
        A method of an estimator that has `n_features_in_` and `_memory_advice`.

    Returns
    -------
    callable
        The method, whose MemoryError has a text for users.
    """

    @wraps(method)
    def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except NotEnoughMemory:
            raise
        except MemoryError as error:
            width = getattr(self, "n_features_in_", 0)
            what = str(error).rstrip(".") or "an array could not be allocated"
            text = f"{type(self).__name__}: rows of {width:,} features need more memory than there is left ({what})."
            raise NotEnoughMemory(f"{text} {self._memory_advice}") from None

    return cast("Method", guarded)
