"""Where the time of `FisherDiscriminant().fit` with nothing set goes, stage by stage, on the dense sets and on text.

Milliseconds by the clock, medians of interleaved repeats in one run, beside the same fit with ridge and head given and
the fits of scikit-learn's `LinearDiscriminantAnalysis` and `LogisticRegression` (dense), or of `SGDClassifier` (text).
Text has K = 58, 52, 10 and 127 classes and d = 18,933, 22,248 and 41,006 columns; large sets run once. What no stage
names is in "other". `python -m benchmarks stages` runs all sets in about four minutes on two cores,
`python -m benchmarks stages usps arxiv10` some of them.
"""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from benchmarks.defaults import DENSE, LARGE, TEXT, _dense, _descent, _texts, files_of
from benchmarks.measure import present
from kampong import FisherDiscriminant, build
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.heads.hinge import Machines
from kampong.selection import choose, evidence, folds, held_out_scores, leave_one_out
from kampong.solvers import resolvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.defaults import Split

    Stages = dict[str, tuple[tuple[Any, str], ...]]

STAGES: Stages = {
    "statistics": ((DiscriminantSubspace, "_learn_all"),),
    "eigh": ((leave_one_out.LeaveOneOut, "__init__"),),
    "ridge": ((build, "least_ridges"),),
    "directions": ((build, "_find"),),
    "left out": ((leave_one_out.LeaveOneOutEvidence, "__init__"), (leave_one_out.LeaveOneOut, "products")),
    "weights": ((evidence.ClassEvidence, "offered"),),
    "quadratic": ((leave_one_out.LeaveOneOutEvidence, "_quadratic"),),
    "log. tried": ((leave_one_out, "penalty_of"), (leave_one_out, "left_out_path")),
    "log. refit": ((leave_one_out, "fit_logistic"),),
    "batches": ((leave_one_out.LeaveOneOutEvidence, "_logistic"),),
    "calibrated": ((evidence.ClassEvidence, "calibrated"),),
}


TEXT_STAGES: Stages = {
    "statistics": ((DiscriminantSubspace, "_learn_all"),),
    "held out": ((choose, "TrainingStatistics"), (held_out_scores.HeldOutFold, "__init__")),
    "variances": ((resolvent, "_scale"),),
    "products": ((resolvent, "_within"),),
    "orthogonal": ((resolvent, "_orthonormal"), (resolvent, "build")),
    "ridge": ((choose, "_least"),),
    "directions": ((build, "_find"), (build, "_inside")),
    "left out": ((held_out_scores.HeldOutFold, "piece"), (folds.HeldOutEvidence, "__init__")),
    "hinge": ((Machines, "__init__"), (Machines, "ascend"), (folds, "columns_head")),
    "h. validated": ((Machines, "scores"),),
    "weights": ((evidence.ClassEvidence, "offered"),),
    "calibrated": ((evidence.ClassEvidence, "calibrated"),),
}


def main(shrink: int = 1, sets: tuple[str, ...] = (*DENSE, *TEXT)) -> None:
    """Print a line a set; where the real data are not at hand, or with a large `shrink`, small stand-ins."""
    unknown = sorted(set(sets) - {*DENSE, *TEXT})
    if unknown:
        sys.exit(f"no set named {', '.join(unknown)}; there are: {', '.join((*DENSE, *TEXT))}")
    warnings.simplefilter("ignore")
    standing_in = not present(*files_of(sets), small=shrink > 1)
    if standing_in or set(sets) & set(DENSE):
        _heading(STAGES, ("given", "LDA", "LR"))
        for name, split in _dense(sets, standing_in):
            peers = {"LDA": LinearDiscriminantAnalysis, "LR": lambda: LogisticRegression(max_iter=300)}
            _line(name, split, STAGES, peers, 5 if split[0].size < 10**7 else 3)
    if standing_in or set(sets) & set(TEXT):
        print()
        _heading(TEXT_STAGES, ("given", "SGD"))
        for name, split in _texts(sets, standing_in):
            _line(name, split, TEXT_STAGES, {"SGD": _descent}, 5 if split[0].nnz < LARGE else 1)


def _heading(stages: Stages, peers: tuple[str, ...]) -> None:
    heading = [*stages, "other", "ours", *peers]
    ratios = "".join(f"{'/' + peer:>7}" for peer in peers)
    print(f"{'milliseconds':<18}" + "".join(f"{one:>11}" for one in heading) + f"   ours{ratios}  head")


def _line(name: str, split: Split, stages: Stages, others: dict[str, Callable[[], Any]], repeats: int) -> None:
    X, y = split[:2]
    few = np.arange(0, X.shape[0], max(1, X.shape[0] // 2000))
    FisherDiscriminant().fit(X[few], y[few])  # compiles
    ours = FisherDiscriminant().fit(X, y)
    given = {"ridge": ours.ridge_, "head": "gaussian"}
    peers: dict[str, Callable[[], Any]] = {"given": lambda: FisherDiscriminant(**given), **others}
    spent: dict[str, list[float]] = {one: [] for one in (*stages, "other", "ours", *peers)}
    for _ in range(repeats):
        time.sleep(0.1)  # BLAS threads of the one before spin for a while; let them come to rest
        with _watched(stages) as seconds:
            start = time.perf_counter()
            FisherDiscriminant().fit(X, y)
            total = time.perf_counter() - start
        for one in stages:
            spent[one].append(seconds[one])
        spent["other"].append(total - sum(seconds.values()))
        spent["ours"].append(total)
        for peer, make in peers.items():
            if peer == "LR" and len(spent[peer]) == 1:
                continue  # it takes far longer than all others
            time.sleep(0.1)
            start = time.perf_counter()
            make().fit(X, y)
            spent[peer].append(time.perf_counter() - start)
    found = {one: 1000 * float(np.median(values)) for one, values in spent.items()}
    ratios = "".join(f"{found['ours'] / found[peer]:7.2f}" for peer in peers)
    print(
        f"{name:<18}" + "".join(f"{value:11.1f}" for value in found.values()) + f"    {ratios}  {ours.head_}",
        flush=True,
    )


@contextmanager
def _watched(stages: Stages) -> Iterator[dict[str, float]]:
    """Count the seconds of each stage, without those of the stages inside it."""
    seconds, inner = dict.fromkeys(stages, 0.0), [0.0]
    kept = [(owner, name, getattr(owner, name)) for places in stages.values() for owner, name in places]

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            inner.append(0.0)
            try:
                return function(*given, **named)
            finally:
                took = time.perf_counter() - start
                seconds[stage] += took - inner.pop()
                inner[-1] += took

        return call

    try:
        for stage, places in stages.items():
            for owner, name in places:
                setattr(owner, name, timed(stage, getattr(owner, name)))
        yield seconds
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


if __name__ == "__main__":
    main()
