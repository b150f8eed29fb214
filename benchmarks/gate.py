"""What the gate for sparse rows costs: `InterClassScatter.fit` on text, with its pass over the indices and without."""

import time
from collections.abc import Callable
from unittest import mock

import numpy as np

from benchmarks.wide import text_rows
from kampong import InterClassScatter
from kampong.data import validation


def main(shrink: int = 1) -> None:
    """Print the seconds of both, medians of interleaved runs, and the pass over the indices by itself."""
    X, y, _, title = text_rows(shrink)
    InterClassScatter().fit(X, y)
    times: dict[str, list[float]] = {"with the pass": [], "without": [], "the pass alone": []}
    for _ in range(15 if shrink == 1 else 2):
        times["with the pass"].append(_seconds(lambda: InterClassScatter().fit(X, y)))
        with mock.patch.object(validation, "_check_indices", return_value=True):
            times["without"].append(_seconds(lambda: InterClassScatter().fit(X, y)))
        times["the pass alone"].append(
            _seconds(lambda: validation._check_indices(X.indptr, X.indices, X.shape[1], "X"))
        )
    median = {name: float(np.median(found)) for name, found in times.items()}
    print(f"InterClassScatter.fit, {title}, {X.nnz:,} entries")
    for name, seconds in median.items():
        print(f"  {name:16} {seconds:8.4f} s   {seconds / median['without']:6.3f}")


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
