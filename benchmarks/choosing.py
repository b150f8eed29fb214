"""What it costs to set nothing: each default fit beside the same fit with its parameters given, and beside peers.

Small tables (`benchmarks tables`, up to 3,000 rows), large dense sets, text, 1,000 classes; then predicting by a
default model beside its head alone, and the first use with an empty cache. Medians of interleaved runs, in CPU and in
wall milliseconds; goals stand beside the ratios of CPU time. "Given" has the ridge and the scale that were chosen, and
a Gaussian head. `python -m benchmarks choosing` takes about four minutes. Run it on a quiet machine; the load and the
threads of BLAS are printed.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info

from benchmarks.defaults import _dense, _texts
from benchmarks.tables import LARGE, tables
from kampong import FisherDiscriminant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DENSE, TEXT, WORDS = ("usps", "isolet", "mnist"), ("arxiv10",), ("reuters65", "r52")
ROWS_PREDICTED = 10_000
FIRST_FIT = """
import numpy as np
from kampong import FisherDiscriminant
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 178)
FisherDiscriminant().fit(rng.normal(size=(178, 13)) + y[:, None], y)
"""


def main(shrink: int = 1) -> None:
    """Print all of it; with a large `shrink`, scikit-learn's own sets and fewer classes."""
    warnings.simplefilter("ignore")
    begun, small = time.perf_counter(), shrink > 1
    for one in threadpool_info():
        print(f"{one['internal_api']} for {one.get('architecture', '?')}, {one['num_threads']} threads")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; milliseconds of CPU (wall)\n")
    _small_tables(shrink)
    print("\ndefault compared with given: at most 3 ×")
    models: dict[str, tuple[FisherDiscriminant, Any]] = {}
    sets = [*_dense(("wine",), standing_in=True)] if small else [*_dense(DENSE, standing_in=False)]
    for name, (X, y, T, _) in sets:
        models[name] = FisherDiscriminant().fit(X, y), T
        runs = {"default": _default(X, y), "given": _given(models[name][0], X, y)}
        _line(name, X, y, runs, "given", 3, 3)
    if not small:
        for name, (X, y, _, _) in _texts(TEXT, standing_in=False):
            runs = {"default": _default(X, y), "given": _given(FisherDiscriminant().fit(X, y), X, y)}
            _line(name, X, y, runs, "given", 3, 1)
    print("\ntext compared with LinearSVC: at most 1.5 ×")
    for name, (X, y, _, _) in _texts(WORDS, standing_in=small):
        runs = {"default": _default(X, y), "LinearSVC": lambda X=X, y=y: LinearSVC().fit(X, y)}
        _line(name, X, y, runs, "LinearSVC", 1.5, 3)
    K = 1000 // min(shrink, 50)
    print(f"\n{K:,} classes compared with LDA: at most 5 ×")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(K), 20)
    X = 2.0 * rng.normal(size=(K, 100))[y] + rng.normal(size=(len(y), 100))
    runs = {"default": _default(X, y), "LDA": lambda: LinearDiscriminantAnalysis().fit(X, y)}
    _line("generated", X, y, runs, "LDA", 5, 3)
    print(f"\npredicting {ROWS_PREDICTED // shrink:,} rows compared with what the head itself takes: about 1 ×")
    for name, (model, T) in models.items():
        rows = T[np.arange(ROWS_PREDICTED // shrink) % len(T)]
        frozen = model.freeze()
        assert frozen is not None
        runs = {
            "default": lambda model=model, rows=rows: model.predict(rows),
            "head": lambda made=frozen, rows=rows: made.head.scores(made.seen_points(rows)).argmax(axis=1),
        }
        _line(f"{name}, {model.head_}", rows, model.classes_, runs, "head", 1, 5)
    _first_use(short=small)
    print(f"\nall in {time.perf_counter() - begun:.0f} s")


def _default(X: Any, y: np.ndarray) -> Callable[[], Any]:
    return lambda: FisherDiscriminant().fit(X, y)


def _parameters(model: FisherDiscriminant) -> dict[str, Any]:
    """Return the ridge and the scale that a model has chosen."""
    choice = model.choice_
    return {"ridge": model.ridge_, "scale": choice is not None and choice.scaled and choice.units is None}


def _given(model: FisherDiscriminant, X: Any, y: np.ndarray) -> Callable[[], Any]:
    given = {**_parameters(model), "head": "gaussian"}
    return lambda: FisherDiscriminant(**given).fit(X, y)


def _times(runs: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """Return median milliseconds of CPU and wall; they take turns, after one run of each that is not counted."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            if turn:
                spent[name].append((1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)))
    return {
        name: (float(np.median([c for c, _ in one])), float(np.median([w for _, w in one])))
        for name, one in spent.items()
    }


def _line(
    name: str, X: Any, y: np.ndarray, runs: Mapping[str, Callable[[], Any]], peer: str, goal: float, repeats: int
) -> dict[str, tuple[float, float]]:
    """Print the times of a set, and how many times those of the peer ours are."""
    times = _times(runs, repeats)
    said = "".join(f"  {one} {cpu:.1f} ({wall:.1f})" for one, (cpu, wall) in times.items())
    ratio = times["default"][0] / times[peer][0]
    missed = "  MISSED" if goal and ratio > goal * (1.1 if goal == 1 else 1) else ""
    print(f"{name:<26}{X.shape[0]:>7}{X.shape[1]:>7}{len(set(y.tolist())):>6}{said}  {ratio:.2f} ×{missed}", flush=True)
    return times


def _small_tables(shrink: int) -> None:
    print("small tables compared with given: at most 8 ×, and 40 ms more")
    found = {}
    for name, X, y in tables(shrink):
        if X.shape[0] > LARGE:
            continue
        model, dense = FisherDiscriminant().fit(X, y), not sparse.issparse(X)
        runs = {
            "default": _default(X, y),
            "given": _given(model, X, y),
            "LR scaled": lambda X=X, y=y, dense=dense: make_pipeline(
                StandardScaler(with_mean=dense), LogisticRegression(max_iter=1000)
            ).fit(X, y),
        }
        found[name] = _line(name, X, y, runs, "given", 8, 5)
    ratios = np.array([one["default"][0] / one["given"][0] for one in found.values()])
    more = np.array([one["default"][0] - one["given"][0] for one in found.values()])
    against = np.median([one["default"][0] / one["LR scaled"][0] for one in found.values()])
    print(
        f"{len(found)} tables: median {np.median(ratios):.1f} × given and {against:.1f} × scaled logistic regression; "
        f"above 8 ×: {int((ratios > 8).sum())}, at most {ratios.max():.1f}; above 40 ms more: "
        f"{int((more > 40).sum())} ({', '.join(name for name, extra in zip(found, more, strict=True) if extra > 40)}), "
        f"at most {more.max():.0f} ms"
    )


def _first_use(*, short: bool) -> None:
    """Print the seconds of a first fit and of `kampong learn` of 150 rows, with an empty cache and with a warm one."""
    print("\nseconds of CPU (wall), with imports; goals by the clock: first fit 1, learn cold 3, learn warm 0.8")
    rng = np.random.default_rng(0)
    codes = np.arange(150) % 3
    rows = rng.normal(size=(150, 4)) + codes[:, None]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbers = [",".join(f"{number:.3f}" for number in row) for row in rows]
        lines = [f"{row},c{code}" for row, code in zip(numbers, codes, strict=True)]
        (folder / "rows.csv").write_text("a,b,c,d,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
        learn = ["-m", "kampong", "learn", str(folder / "rows.csv"), "--label", "label", "--quiet", "-m"]
        work = [
            ("first fit, cold", ["-c", FIRST_FIT], "one"),
            ("first fit, warm", ["-c", FIRST_FIT], "one"),
            ("learn, cold", [*learn, str(folder / "1.kampong")], "two"),
            ("learn, warm", [*learn, str(folder / "2.kampong")], "two"),
        ]
        for what, words, cache in work[:1] if short else work:
            before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / cache)}
            subprocess.run([sys.executable, *words], check=True, env=environment, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{what:<26}{cpu:.2f} ({time.perf_counter() - wall:.2f})", flush=True)


if __name__ == "__main__":
    main()
