"""Array types, compiled loops, threads, memory limits, sparse products and pseudo-random numbers."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np
from scipy import sparse
from threadpoolctl import OpenBLASController, ThreadpoolController

from kampong._core.compiling import Compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from scipy.sparse import csr_array

    Rows = np.ndarray | csr_array

Float = np.ndarray[Any, np.dtype[np.floating[Any]]]
Integer = np.ndarray[Any, np.dtype[np.integer[Any]]]

BLOCK_BYTES, GIB = 8 * 2**20, 2**30

PLAIN = 2**18
"""Entries up to which plain numpy is about as quick as a compiled loop: a small table need not wait for a compiler."""

PARTS = 4
"""Into how many parts a large product is cut: threads of BLAS would wait for each other where cores are shared."""

_blas_lock = threading.Lock()
_thread = threading.local()
_blas_users: list[Any] = []

P = ParamSpec("P")
R = TypeVar("R")
Method = TypeVar("Method", bound="Callable[..., Any]")


def compiled(function: Callable[P, R], *, error_model: str = "python", **more: Any) -> Compiled[P, R]:
    """Compile a loop with numba when it is first called, without the interpreter lock, machine code kept on disk.

    Sums may be reordered (`reassoc`), which lets them use vector units: the pass over dense rows took 0.6 of the
    time in a measurement of one thread. NaN and infinity still propagate. Threads are our own (`run`), because numba's
    abort the process when two Python threads enter them or after a fork.
    """
    return Compiled(function, **{"fastmath": {"reassoc", "contract"}, "error_model": error_model, **more})


def vectorised(function: Callable[P, R]) -> Compiled[P, R]:
    """Compile a loop whose divisions are NumPy's: without a check for 0, which keeps a loop from vector units."""
    return compiled(function, error_model="numpy")


def available_threads() -> int:
    """Return the number of cores this thread may use: those of the process, or one inside `alone`."""
    if getattr(_thread, "alone", 0):
        return 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        return os.cpu_count() or 1


def run(function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
    """Call `function(*a)` for every `a` in `arguments`, on as many threads as there are cores.

    The calling thread takes part, and the others are kept from call to call: starting one costs more than a small
    product. So nothing waits for a thread that is busy elsewhere, and a call inside a call is safe.
    """
    helpers = min(available_threads(), len(arguments)) - 1
    if helpers <= 0:
        for argument in arguments:
            function(*argument)
        return
    waiting, errors = deque(enumerate(arguments)), list[tuple[int, BaseException]]()

    def work() -> None:
        while True:
            try:
                number, argument = waiting.popleft()
            except IndexError:
                return
            try:
                function(*argument)
            except BaseException as error:
                errors.append((number, error))

    pool, helping = _pool(), list[Future[None]]()
    with suppress(RuntimeError):  # under a limit of memory no thread may start: this one does all the work
        for _ in range(helpers):
            helping.append(pool.submit(work))
    work()
    for helper in helping:
        if not helper.cancel():
            helper.result()
    if errors:
        raise min(errors, key=lambda one: one[0])[1]


def beside(function: Callable[[], R]) -> Future[R]:
    """Call a function on one of the threads that are kept, by itself; return what will hold its result."""

    def work() -> R:
        with alone():
            return function()

    return _pool().submit(work)


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the threads that help the calling ones; a forked process has none of them and starts its own."""
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="kampong")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextmanager
def alone() -> Iterator[None]:
    """Let the calling thread compute by itself: for tasks of an engine that runs one of them a core."""
    _thread.alone = getattr(_thread, "alone", 0) + 1
    try:
        with one_blas_thread():
            yield
    finally:
        _thread.alone -= 1


@cache
def _blas_libraries() -> Any:
    """Find the libraries that this process has loaded, only once: it takes longer than a small product.

    SciPy brings a BLAS of its own. It is loaded first, because one that comes later would not be limited.
    """
    importlib.import_module("scipy.linalg")
    controller: Any = ThreadpoolController  # it has no types
    return controller()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products run on the thread that calls them: our threads each compute a tile.

    Threads of BLAS wait for each other in busy loops, which costs many times the work where cores are shared. The limit
    holds for the whole process, until the last thread that asked for it has left.
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
    """Let this thread lift the limit that another one set: the last thread to leave may not be the one that set it."""
    controller: Any = OpenBLASController
    release = getattr(controller, "clear_controlling_thread", None)
    if release is not None:  # threadpoolctl 3.8 and later
        release(force=True)


def split(n: int, parts: int) -> list[tuple[int, int]]:
    """Cut `range(n)` into at most `parts` pieces of nearly equal length."""
    if parts <= 1:
        return [(0, n)]
    edges = np.linspace(0, n, min(parts, max(n, 1)) + 1).astype(int)
    return [(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def block_rows(row_bytes: int, *, target: int = BLOCK_BYTES) -> int:
    """Return how many rows make about `target` bytes, 64 at the least."""
    return max(64, target // max(row_bytes, 1))


def blocks(n: int, row_bytes: int, *, target: int = BLOCK_BYTES) -> list[slice]:
    """Cut `n` rows into slices of about `target` bytes, 64 rows at the least."""
    step = block_rows(row_bytes, target=target)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def stack(first: Rows, second: Rows) -> Rows:
    """Return two sets of rows as one: sparse if either is, and matrices stay a matrix."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    both = [sparse.csr_array(rows) if isinstance(rows, np.ndarray) else rows for rows in (first, second)]
    stacked: Rows = sparse.vstack(both, format="csr")
    return stacked


def float_type(X: Rows) -> np.dtype[Any]:
    """Return the floats that rows are computed in: float32 for halves and itself, float64 for all others."""
    return np.dtype(np.float32 if X.dtype in (np.float16, np.float32) else np.float64)


def floats(rows: Rows) -> Any:
    """Return a block of rows as floats: where dense whole numbers or halves are many, they stay as they came."""
    return rows.astype(float_type(rows), copy=False) if isinstance(rows, np.ndarray) else rows


def weighted_sum(X: Rows, weights: Float) -> Float:
    """Return Σ w x over rows; whole numbers are converted block by block."""
    if not isinstance(X, np.ndarray):
        return np.asarray(X.T @ weights).ravel()
    total: Float = np.zeros(X.shape[1])
    for part in blocks(len(X), 8 * X.shape[1]):
        total += weights[part] @ np.ascontiguousarray(X[part], dtype=np.float64)  # of one form, so that bits are too
    return total


def fix_signs(components: Float) -> Float:
    """Flip each row so that its entry of largest magnitude is positive (the first one among equals)."""
    if components.size == 0:
        return components
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    signs[signs == 0] = 1.0
    fixed: Float = components * signs[:, None]
    return fixed


def csr_times_block(X: csr_array, block: Float, rows: Integer | None = None) -> Float:
    """Return `X[rows] @ block` for a C-contiguous block of few columns, on all cores (scipy's product uses one)."""
    rows = np.arange(X.shape[0]) if rows is None else rows
    out = np.empty((len(rows), block.shape[1]), dtype=block.dtype)
    parts = split(len(rows), 8 if X.nnz * len(rows) > 2**21 * X.shape[0] else 1)
    run(_csr_times_block, [(X.indptr, X.indices, X.data, rows, block, out, a, b) for a, b in parts])
    return out


def project(
    X: Rows, components: Float, offset: Float, rows: Integer | None = None, centre: Float | None = None
) -> Float:
    """Return `(X[rows] − offset) @ components.T` in the floats of X; sparse rows stay sparse.

    `centre` is `offset @ components.T` where it is known: for a few sparse rows it is most of the work.
    """
    dtype = float_type(X)
    if dtype == np.float32 and components.size and not 1e-30 < np.abs(components).max() < 1e30:
        # rows near the limits of float32 have components past them; the coordinates are within
        X = X if rows is None else X[rows]
        return project(X.astype(np.float64), components, offset).astype(dtype)
    if not isinstance(X, np.ndarray):
        if rows is None and X.nnz < X.shape[1]:  # a few rows need few columns of the block
            columns, places = np.unique(X.indices, return_inverse=True)
            block = np.ascontiguousarray(components[:, columns].T, dtype=dtype)
            X = sparse.csr_array((X.data, places.astype(X.indices.dtype), X.indptr), shape=(X.shape[0], len(columns)))
        else:
            block = np.ascontiguousarray(components.T, dtype=dtype)
        shift = offset @ components.T if centre is None else centre
        return _finite(csr_times_block(X, block, rows) - shift.astype(dtype))
    weights = np.ascontiguousarray(components, dtype=dtype)
    origin = offset.astype(dtype)
    X = X if rows is None else X[rows]
    out = np.empty((X.shape[0], len(weights)), dtype=dtype)
    for part in blocks(len(X), X.shape[1] * dtype.itemsize):
        np.dot(floats(X[part]) - origin, weights.T, out=out[part])
    return _finite(out)


def _finite(coordinates: Float) -> Float:
    """Return coordinates, or say that they are past the range of their floats."""
    if not np.isfinite(coordinates).all():
        raise ValueError(
            f"the coordinates of these rows are past the range of {coordinates.dtype}. Are the rows in the units of "
            "those that were learnt? Scale both in the same way, for instance with sklearn's StandardScaler."
        )
    return coordinates


def tall_times(rows: Float, matrix: Float) -> Float:
    """Return `rows @ matrix` for many dense rows, on our own threads where that is much work."""
    out = np.empty((len(rows), matrix.shape[1]), dtype=np.result_type(rows, matrix))
    parts = split(len(rows), PARTS if rows.size * matrix.shape[1] > 2**23 else 1)
    with one_blas_thread():
        run(lambda start, stop: np.matmul(rows[start:stop], matrix, out=out[start:stop]), parts)
    return out


@compiled
def transposed(matrix: Float) -> Float:
    """Return the transpose of a matrix as a matrix of its own, a tile that stays in the cache at a time."""
    rows, columns = matrix.shape
    result, tile = np.empty((columns, rows), dtype=matrix.dtype), 32
    for top in range(0, rows, tile):
        for left in range(0, columns, tile):
            for j in range(left, min(left + tile, columns)):
                for i in range(top, min(top + tile, rows)):
                    result[j, i] = matrix[i, j]
    return result


@compiled
def _csr_times_block(
    indptr: Integer, indices: Integer, data: Float, rows: Integer, block: Float, out: Float, start: int, stop: int
) -> None:
    width = block.shape[1]
    for p in range(start, stop):
        for c in range(width):
            out[p, c] = 0.0
        for position in range(indptr[rows[p]], indptr[rows[p] + 1]):
            j, value = indices[position], data[position]
            for c in range(width):
                out[p, c] += value * block[j, c]


def mixed(state: Any) -> Any:
    """Return the finaliser of splitmix64: every bit of the result depends on every bit of the state, an array or one.

    `mix` is the same, compiled, for loops that are compiled too.
    """
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


mix = compiled(mixed)


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
