"""Dask and Spark on one machine: workers against each other and the local fit, bytes moved, core sets, and peers."""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from benchmarks.margin import load
from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InterClassScatter,
    MaximumMarginDiscriminant,
    from_bytes,
    merge_all,
    statistics_of,
)
from kampong._core.compute import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
SETTINGS: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
WORK = 60.0
"""Seconds of local work beside which the overhead is measured."""


def main(shrink: int = 1) -> None:
    constants(shrink)
    graph()
    speed(shrink)
    memory(shrink)
    jobs(shrink)
    core_sets(shrink)
    peers_on_dask(shrink)
    if shrink == 1:  # it starts and ends a session of Spark, of which a process has one
        peers_on_spark(shrink)


# Rows.


def dense_part(number: int, rows: int, width: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    y = rng.integers(0, 10, rows)
    return rng.random((rows, width), dtype=np.float32).astype(np.float64) + y[:, None] * 0.01, y


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


# What a plan is computed from.


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


def graph() -> None:
    from kampong.adapters.dask import LEARN
    from kampong.adapters.dask_groups import spread
    from kampong.adapters.dask_parts import Files, Parts, Reader
    from kampong.adapters.file_parts import packed
    from kampong.streaming import Layout

    names = [f"/data/rows/part-{number:05}.parquet" for number in range(10_000)]
    reader = replace(Reader("files"), files=Files(packed(names), Layout(), None))
    model = FisherDiscriminant().to_bytes(solve=False)
    print()
    for workers in (1000, 2):
        threads = {f"tcp://10.0.{number // 250}.{number % 250}:40001": 1 for number in range(workers)}
        made = spread(Parts(reader, [()] * len(names), token="graph"), "learn", LEARN, model, threads).dask
        size = len(pickle.dumps(made)) / 2**20
        print(f"graph of 10,000 files on {workers:,} workers: {len(dict(made)):,} tasks, {size:.2f} MiB (goal < 1)")


# Dask.


@contextmanager
def clusters(*workers: int) -> Iterator[list[Any]]:
    """Start a cluster for each number of workers."""
    from contextlib import ExitStack

    from distributed import Client, LocalCluster

    os.environ.update(ONE_THREAD)
    with ExitStack() as stack:
        made = [stack.enter_context(LocalCluster(n_workers=count, **SETTINGS)) for count in workers]
        yield [stack.enter_context(Client(cluster)) for cluster in made]


def half(model: Any, make: Callable[..., Any], numbers: range, rows: int, width: int) -> bytes:
    """Learn some parts in a plain process, on one core."""
    with alone():
        learnt = merge_all(statistics_of(model, [make(n, rows, width)], number=n) for n in numbers)
        return learnt.to_bytes(solve=False)


def speed(shrink: int) -> None:
    """Print workers beside plain processes that do the same work: all on one core and one BLAS thread each."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from kampong.adapters.dask import fit

    many, rows = (16, 40_000) if shrink == 1 else (2, 40_000 // shrink)
    cases: dict[str, Any] = {
        "dense scatter, 500 features": (FisherDiscriminant(ridge=0.1), dense_part, many, rows, 500),
        "sparse pass, 50,000 features": (InterClassScatter(), sparse_part, many, rows, 50_000),
    }
    local: dict[str, float] = {}
    with clusters(1, 2) as (one, two), ProcessPoolExecutor(2, get_context("spawn")) as plain:
        for title, (model, make, parts, rows, width) in cases.items():
            names = ("plain loop, one process", "plain loop, two processes", "one worker", "two workers")
            seconds: dict[str, list[float]] = {name: [] for name in names}
            for turn in range(4 if shrink == 1 else 2):
                for name in seconds:
                    start = time.perf_counter()
                    few = parts if turn else 2  # the first turn compiles
                    if name.startswith("plain"):
                        cuts = [0, few] if name.endswith("one process") else [0, few // 2, few]
                        ranges = [range(a, b) for a, b in pairwise(cuts)]
                        asked = [plain.submit(half, model, make, some, rows, width) for some in ranges]
                        merge_all(from_bytes(one.result()) for one in asked).freeze()
                    else:
                        fit(model, *lazy(make, few, rows, width, start), client=one if name == "one worker" else two)
                    if turn:
                        seconds[name].append(time.perf_counter() - start)
            times = {name: median(values) for name, values in seconds.items()}
            local[title] = times["plain loop, one process"]
            print(f"\n{title}: {parts} parts of {rows:,} rows; each task makes its rows")
            for name, value in times.items():
                print(f"    {name:<26} {value:7.2f} s")
            limit = times["plain loop, one process"] / times["plain loop, two processes"]
            print(
                f"    two workers are {times['one worker'] / times['two workers']:.2f} × one worker (goal 1.7); ",
                end="",
            )
            print(f"two plain processes {limit:.2f} × one: what the machine gives")
        overhead(one, cases["dense scatter, 500 features"], local["dense scatter, 500 features"], shrink)


def overhead(client: Any, case: Any, local: float, shrink: int) -> None:
    """Print a minute of work in one worker beside the same work in this process, by the clock and by the processor."""
    from kampong.adapters.dask import fit

    model, make, parts, rows, width = case
    wanted = max(2, round(1.1 * parts * WORK / local)) if shrink == 1 else 2
    clock, processor = [], []
    for where in ("here", "worker"):
        start, before = time.perf_counter(), time.process_time() if where == "here" else _processor(client)
        if where == "here":
            locally(model, make, wanted, rows, width).freeze()
        else:
            fit(model, *lazy(make, wanted, rows, width, start), client=client)
        clock.append(time.perf_counter() - start)
        processor.append((time.process_time() if where == "here" else _processor(client)) - before)
    print(f"\n{width} dense features, {wanted} parts, one core each: ", end="")
    print(f"a plain loop {clock[0]:.1f} s, one worker {clock[1]:.1f} s: {clock[1] / clock[0] - 1:+.1%}", end="")
    print(f" (goal ≤ +15 % on ≥ 60 s); processor {processor[0]:.1f} s and {processor[1]:.1f} s")


def _processor(client: Any) -> float:
    return float(sum(client.run(time.process_time).values()))


def jobs(shrink: int) -> None:
    """Print what processes give on one machine, beside the threads that a fit has of its own."""
    parts, rows = (16, 40_000) if shrink == 1 else (2, 40_000 // shrink)
    print("\none machine: parts one after another on one core; with our own threads; statistics_of(…, n_jobs=2)")
    for title, model, make, width in (
        ("dense scatter, 500 features", FisherDiscriminant(ridge=0.1), dense_part, 500),
        ("sparse pass, 50,000 features", InterClassScatter(), sparse_part, 50_000),
    ):
        seconds: dict[str, list[float]] = {"one core": [], "threads": [], "n_jobs=2": []}
        for turn in range(4 if shrink == 1 else 2):
            few = rows if turn else 100  # the first turn starts the processes and compiles
            for name in seconds:
                start = time.perf_counter()
                if name == "one core":
                    locally(model, make, parts, few, width)
                else:
                    readers = [partial(make, number, few, width) for number in range(parts)]
                    statistics_of(model, readers, n_jobs=2 if name == "n_jobs=2" else None)
                if turn:
                    seconds[name].append(time.perf_counter() - start)
        times = {name: median(values) for name, values in seconds.items()}
        said = ", ".join(f"{name} {value:.2f} s ({times['one core'] / value:.2f} ×)" for name, value in times.items())
        print(f"    {title:<30} {said}")


def _sent(dask_worker: Any) -> int:
    return int(getattr(dask_worker, "transfer_outgoing_bytes_total", 0))


def memory(shrink: int) -> None:
    """Print how much the driver holds, and what the workers send, in states."""
    import psutil

    from kampong.adapters.dask import fit

    width, parts, rows = (2000, 32, 4000) if shrink == 1 else (200, 8, 400)
    model = FisherDiscriminant(ridge=0.1)
    state = len(statistics_of(model, [dense_part(0, 50, width)]).to_bytes(solve=False))
    with clusters(2) as (client,):
        fit(model, *lazy(dense_part, 4, 50, width, time.perf_counter()), client=client)  # compiles
        before = sum(client.run(_sent).values())
        process, done, peak = psutil.Process(), threading.Event(), [0]
        base = process.memory_info().rss

        def watch() -> None:
            while not done.wait(0.005):
                peak[0] = max(peak[0], process.memory_info().rss - base)

        thread = threading.Thread(target=watch)
        thread.start()
        # the rows' summaries reach the driver as one state; solving it is local work, so it is left out
        from kampong.adapters.dask import LEARN
        from kampong.adapters.dask_groups import spread, threads_of
        from kampong.adapters.dask_parts import compute, parts_of

        X, y = lazy(dense_part, parts, rows, width, time.perf_counter())
        given = statistics_of(model, []).to_bytes(solve=False)
        compute(spread(parts_of(X, y, None, None), "learn", LEARN, given, threads_of(client)), client, 60.0)
        done.set()
        thread.join()
        sent = sum(client.run(_sent).values()) - before
    print(f"\n{parts} parts of {rows:,} rows, {width:,} features on two workers: a state has {state / 2**20:.1f} MiB")
    print(f"    the driver holds at most {peak[0] / state:.1f} states more than before (goal ≤ 10)")
    print(f"    workers send {sent / state:.1f} states; the least is 2: one to the other worker, one to the driver")


def placed(client: Any, array: Any, parts: int = 8) -> Any:
    """Return an array whose parts lie in the memory of the workers, as many on each."""
    import dask.array as da

    workers, cuts = list(client.nthreads()), np.linspace(0, len(array), parts + 1).astype(int)
    blocks = []
    for number, (a, b) in enumerate(pairwise(cuts.tolist())):
        future = client.scatter(array[a:b], workers=[workers[number * len(workers) // parts]], hash=False)
        blocks.append(da.from_delayed(future, array[a:b].shape, array.dtype))
    return da.concatenate(blocks)


def core_sets(shrink: int) -> None:
    """Print core sets here and on two workers, and what crossed the wire."""
    from kampong.adapters.dask import fit

    print("\ncore sets on two workers, beside a fit here (tol = 0.05)")
    print(f"    {'set':<12} {'model':<26} {'here s':>7} {'Dask s':>7} {'support':>8} {'differ':>6} {'gap':>7} ", end="")
    print(f"{'gap here':>8} {'looks':>5}")
    wire = []
    with clusters(2) as (client,):
        for name in ("letter", "mnist 20000"):
            data = load(name, small=shrink > 1)
            if data is None:
                print(f"    {name:<12} is not here; set KAMPONG_DATA to the folder that holds it")
                continue
            X, y = data[0][:: shrink * 4 if shrink > 1 else 1], data[1][:: shrink * 4 if shrink > 1 else 1]
            X = X.astype(float)
            rows, labels = placed(client, X), placed(client, y)
            for model in (CoreVectorClassifier(), MaximumMarginDiscriminant()):
                start = time.perf_counter()
                local = clone(model).fit(X, y)
                here = time.perf_counter() - start
                before, start = sum(client.run(_sent).values()), time.perf_counter()
                found = fit(model, rows, labels, client=client)
                there = time.perf_counter() - start
                sent = sum(client.run(_sent).values()) - before
                differ = len(np.setxor1d(found.support_, local.support_))
                print(
                    f"    {name:<12} {type(model).__name__:<26} {here:7.1f} {there:7.1f} {len(local.support_):8,} "
                    f"{differ:6} {found.dual_gap_.max():7.4f} {local.dual_gap_.max():8.4f} "
                    f"{found.moved_.get('looks', 0):5}"
                )
                wire.append((name, type(model).__name__, X.nbytes, found.moved_, sent))
    print("\n    MiB over the wire; the least is every core vector here once and at each of the two workers once")
    print(f"    {'set':<12} {'model':<26} {'rows':>6} {'violators':>9} {'core vectors':>12} {'weights':>8} ", end="")
    print(f"{'margins':>7} {'labels':>6} {'all':>6} {'least':>6} {'sent by workers':>15}")
    for name, model, size, moved, sent in wire:
        kinds = [moved.get(kind, 0) for kind in ("violators", "core vectors", "weights", "margins", "labels")]
        values = [value / 2**20 for value in (size, *kinds, sum(kinds), 3 * kinds[0], sent)]
        print(f"    {name:<12} {model:<26} " + " ".join(map("{:{}.1f}".format, values, (6, 9, 12, 8, 7, 6, 6, 6, 15))))


def peers_on_dask(shrink: int) -> None:
    """Print ours beside dask-ml's PCA and IncrementalPCA: seconds, and accuracy by a logistic regression after it."""
    try:
        from dask_ml.decomposition import PCA, IncrementalPCA
    except ImportError:
        print("\ndask-ml is not installed: pip install dask-ml")
        return
    from sklearn.linear_model import LogisticRegression

    from kampong.adapters.dask import fit, transform

    data = load("mnist 20000", small=shrink > 1)
    if data is None:
        print("\nmnist is not here; set KAMPONG_DATA to the folder that holds it")
        return
    X, y, X_test, y_test = (one[::shrink] for one in data)
    print(f"\n{len(X):,} rows of mnist on two workers, 9 directions; then a logistic regression on them, here")
    with clusters(2) as (client,), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, labels = placed(client, X.astype(float)), placed(client, y)
        for name in ("kampong FisherDiscriminant(ridge=0.1)", "dask-ml PCA", "dask-ml IncrementalPCA"):
            start = time.perf_counter()
            if name.startswith("kampong"):
                model = fit(FisherDiscriminant(9, ridge=0.1), rows, labels, client=client)
                Z = transform(model, rows).compute()
            else:
                model = PCA(9, svd_solver="full") if name.endswith(" PCA") else IncrementalPCA(9, batch_size=2500)
                Z = np.asarray(model.fit(rows).transform(rows))
            seconds = time.perf_counter() - start
            new = X_test.astype(float)
            right = LogisticRegression(max_iter=300).fit(Z, y).score(np.asarray(model.transform(new)), y_test)
            own = f", by its own predict {model.score(new, y_test):.4f}" if name.startswith("kampong") else ""
            print(f"    {name:<40} {seconds:6.1f} s, accuracy {right:.4f}{own}")


# Spark.


def peers_on_spark(shrink: int) -> None:
    """Print ours beside Spark MLlib's PCA and logistic regression on the same frame."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        print("\npyspark is not installed: pip install '.[spark]'")
        return
    data = load("usps", small=shrink > 1)
    if shutil.which("java") is None or data is None:
        print("\nno Java, or usps is not here; set KAMPONG_DATA to the folder that holds it")
        return
    import pandas as pd
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import PCA
    from pyspark.ml.functions import array_to_vector

    from kampong.adapters import spark as on_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "FATAL").config("spark.driver.memory", "2g").getOrCreate()
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = (one[::shrink] for one in data)

    def frame(X: Any, y: Any) -> Any:
        table = pd.DataFrame({"features": list(X.astype(float)), "label": y.astype(float)})
        made = session.createDataFrame(table).repartition(8)
        made = made.withColumn("features", array_to_vector("features")).cache()
        made.count()
        return made

    train, test = frame(X, y), frame(X_test, y_test)

    def right(answers: Any) -> float:
        return float(answers.selectExpr("avg(cast(prediction = label as double)) as right").first()["right"])

    def ours() -> float:
        return right(on_spark.predict(on_spark.fit(FisherDiscriminant(), train, "features", "label"), test, "features"))

    def theirs() -> float:
        pca = PCA(k=9, inputCol="features", outputCol="z").fit(train)
        machine = LogisticRegression(featuresCol="z", labelCol="label").fit(pca.transform(train))
        return right(machine.transform(pca.transform(test)))

    def plain() -> float:
        return right(LogisticRegression(featuresCol="features", labelCol="label").fit(train).transform(test))

    print(f"\n{len(X):,} rows of usps in a Spark frame of 8 partitions, fit and predict")
    for name, run in (
        ("kampong FisherDiscriminant()", ours),
        ("MLlib PCA(9) + LogisticRegression", theirs),
        ("MLlib LogisticRegression, all columns", plain),
    ):
        run()
        start = time.perf_counter()
        accuracy = run()
        print(f"    {name:<40} {time.perf_counter() - start:6.1f} s, accuracy {accuracy:.4f}")
    session.stop()
