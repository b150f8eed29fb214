"""Compiled loops and threads: how work is cut and run on the cores of this machine."""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numba
import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

BLOCK_BYTES = 8 * 2**20

_blas_lock = threading.Lock()
_blas_users: list[Any] = []

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop with numba, without the interpreter lock and with its machine code kept on disk.

    Sums may be reordered (`reassoc`), which lets them use vector units: the pass over dense rows took 0.6 of the
    time in a measurement of one thread. NaN and infinity still propagate. Threads are ours (`run`), not numba's: its
    own layers abort the process when two Python threads enter them or after a fork.
    """
    decorate = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
    result: Callable[P, R] = decorate(function)
    return result


def available_threads() -> int:
    """Return the number of cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def run(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
    """Call `function(*a)` for every `a` in `arguments`, on as many threads as there are cores."""
    threads = min(available_threads(), len(arguments))
    if threads <= 1:
        for argument in arguments:
            function(*argument)
        return
    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(function, *argument) for argument in arguments]:
            future.result()


@cache
def _blas_libraries() -> Any:
    """Find the libraries that this process has loaded, once: it takes longer than a small product."""
    controller: Any = ThreadpoolController  # it has no types
    return controller()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products run on the thread that calls them: our threads each compute a tile.

    Threads of BLAS wait for each other busily, which costs many times the work where cores are shared. The limit holds
    for the process, from the first user that enters to the last that leaves.
    """
    with _blas_lock:
        if not _blas_users:
            _blas_users.append(_blas_libraries().limit(limits=1, user_api="blas"))
            _blas_users[0].__enter__()
        _blas_users.append(None)
    try:
        yield
    finally:
        with _blas_lock:
            _blas_users.pop()
            if len(_blas_users) == 1:
                _release_blas()
                _blas_users.pop().__exit__(None, None, None)


def _release_blas() -> None:
    """Let this thread lift the limit that another one set: the last user to leave need not be the first that came."""
    controller: Any = OpenBLASController
    release = getattr(controller, "clear_controlling_thread", None)
    if release is not None:  # threadpoolctl 3.8 and later
        release(force=True)


def split(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut `range(n)` into at most `parts` pieces of nearly equal length."""
    edges = np.linspace(0, n, min(parts, max(n, 1)) + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def block_rows(row_bytes: int, *, target: int = BLOCK_BYTES) -> int:
    """Return how many rows make about `target` bytes, 64 at the least."""
    return max(64, target // max(row_bytes, 1))


def blocks(n: int, row_bytes: int, *, target: int = BLOCK_BYTES) -> Iterator[slice]:
    """Cut `n` rows into slices of about `target` bytes, 64 rows at the least."""
    step = block_rows(row_bytes, target=target)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
