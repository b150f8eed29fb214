"""Dask on one machine: one worker against two, beside the local fit; the size of the graph; bytes between workers."""

from __future__ import annotations

import os
import pickle
import time
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong import FisherDiscriminant, InterClassScatter, from_bytes, merge_all, statistics_of
from kampong._runtime.compute import alone

if TYPE_CHECKING:
    from collections.abc import Callable

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def dense_part(number: int, rows: int, width: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    y = rng.integers(0, 10, rows)
    return rng.standard_normal((rows, width)) + y[:, None] * 0.01, y


def sparse_part(number: int, rows: int, width: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    y = rng.integers(0, 10, rows)
    indices = rng.integers(0, width, (rows, 76), dtype=np.int32)
    values = rng.random((rows, 76))
    return sparse.csr_array((values.ravel(), indices.ravel(), np.arange(0, rows * 76 + 1, 76)), (rows, width)), y


def lazy(make: Callable[..., Any], parts: int, rows: int, width: int, run: float) -> tuple[Any, Any]:
    """Return rows and labels that each task makes for itself, as it would read them; new names for every run."""
    import dask.array as da
    from dask import delayed

    made = [
        delayed(make, pure=False)(number, rows, width, dask_key_name=f"made-{number}-{run}") for number in range(parts)
    ]
    X = [da.from_delayed(delayed(_first)(one), (rows, width), meta=np.empty((0, 0))) for one in made]
    y = [da.from_delayed(delayed(_second)(one), (rows,), dtype=np.int64) for one in made]
    return da.concatenate(X), da.concatenate(y)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def locally(model: Any, make: Callable[..., Any], parts: int, rows: int, width: int) -> Any:
    """Fit the same parts in this process, one after another, on one core."""
    with alone():
        return merge_all(statistics_of(model, [make(n, rows, width)], number=n) for n in range(parts))


def speed(shrink: int) -> None:
    from distributed import Client, LocalCluster

    from kampong.adapters.dask import fit

    many, rows = (16, 40_000) if shrink == 1 else (2, 40_000 // shrink)
    cases: dict[str, Any] = {
        "dense scatter, 500 features": (FisherDiscriminant(ridge=0.1), dense_part, many, rows, 500),
        "sparse pass, 50,000 features": (InterClassScatter(), sparse_part, many, rows, 50_000),
    }
    os.environ.update(ONE_THREAD)
    settings: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=1, **settings) as single,
        LocalCluster(n_workers=2, **settings) as double,
        Client(single) as one,
        Client(double) as two,
    ):
        for title, (model, make, parts, rows, width) in cases.items():
            seconds: dict[str, list[float]] = {"local, one core": [], "one worker": [], "two workers": []}
            for turn in range(4 if shrink == 1 else 2):
                for name in seconds:
                    start = time.perf_counter()
                    if name == "local, one core":
                        locally(model, make, parts, rows, width).freeze()
                    else:
                        client = one if name == "one worker" else two
                        X, y = lazy(make, parts, rows, width, start)
                        fit(model, X, y, client=client)
                    if turn:  # the first turn compiles
                        seconds[name].append(time.perf_counter() - start)
            times = {name: median(values) for name, values in seconds.items()}
            print(f"\n{title}: {parts} parts of {rows:,} rows; each task makes its rows")
            for name, value in times.items():
                print(f"    {name:<18} {value:7.2f} s")
            print(f"    two workers are {times['one worker'] / times['two workers']:.2f} × one worker", end="; ")
            print(f"one worker takes {times['one worker'] / times['local, one core'] - 1:+.0%} beside the local fit")
            state = len(statistics_of(model, [make(0, 2000, width)]).to_bytes(solve=False))
            print(f"    a state has {state / 2**20:.2f} MiB; the least to move is one, the tree moves at most {parts}")


def graph() -> None:
    from kampong.adapters.dask import _learn_part, _merge_parts
    from kampong.adapters.dask_parts import Files, Parts, Reader, packed, tree
    from kampong.streaming import Layout

    names = [f"/data/rows/part-{number:05}.parquet" for number in range(10_000)]
    reader = replace(Reader("files"), files=Files(packed(names), Layout(), None))
    model = FisherDiscriminant().to_bytes(solve=False)
    made = tree(Parts(reader, [()] * len(names), token="graph"), "learn", _learn_part, _merge_parts, model)
    size = len(pickle.dumps(dict(made.dask)))
    print(f"\ngraph of 10,000 files: {len(dict(made.dask)):,} tasks, {size / 2**20:.2f} MiB")


def constants(shrink: int) -> None:
    """Print what a plan is computed from, in seconds of one core: they do not depend on what else runs."""
    print("\none core: what a part costs, and what a merge costs (seconds of processor time)")
    cases = {
        "dense, 500 features, ridge given": (FisherDiscriminant(ridge=0.1), dense_part, 500),
        "dense, 500 features, S_b alone": (InterClassScatter(), dense_part, 500),
        "sparse, 50,000 features, S_b alone": (InterClassScatter(), sparse_part, 50_000),
    }
    rows = 80_000 // shrink
    for title, (model, make, width) in cases.items():
        X, y = make(0, rows, width)
        size = (X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes) / 1e9
        with alone():
            statistics_of(model, [(X[:100], y[:100])])
            start = time.process_time()
            learnt = statistics_of(model, [(X, y)])
            learning = time.process_time() - start
            start = time.process_time()
            data = learnt.to_bytes(solve=False)
            both = [from_bytes(data) for _ in range(8)]
            carried = (time.process_time() - start) / 9
            start = time.process_time()
            merge_all(both)
            merging = (time.process_time() - start) / 7
        print(
            f"    {title:<36} {learning / size:6.2f} s a GB; state {len(data) / 2**20:6.2f} MiB, "
            f"{1e3 * carried:.1f} ms to write or read, {1e3 * merging:.1f} ms to merge"
        )


def main(shrink: int = 1) -> None:
    constants(shrink)
    speed(shrink)
    graph()
