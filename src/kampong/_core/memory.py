"""Memory limits: how much this process may still use, and an error before a scatter that does not fit."""

from __future__ import annotations

import math
from pathlib import Path

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


def refuse_large_scatter(owner: str, n_features: int, copies: int) -> None:
    """Refuse a scatter that cannot fit, before rows are read.

    Parameters
    ----------
    owner : str
        Who needs it.
    n_features : int
        The number of columns d.
    copies : int
        How many d × d matrices are needed at once, at the least.
    """
    one, left = 8 * n_features**2, memory_left()
    if copies * one > left:
        raise MemoryError(
            f"{owner}: {n_features:,} features need at least {copies * one:,} bytes ({copies * one / GIB:.1f} GiB) for "
            f"{copies} matrices of {n_features:,} × {n_features:,} numbers, and the limit of this process leaves "
            f"{max(int(left), 0):,}. Raise the limit (ulimit -v), use fewer columns, or use solver='reservoir', which "
            "keeps a sample of the rows instead."
        )
