"""Where the time of `FisherDiscriminant().fit` with nothing set goes, stage by stage, on the dense sets.

Milliseconds by the clock, medians of interleaved repeats in one run, beside the same fit with ridge and head given and
the fits of scikit-learn's `LinearDiscriminantAnalysis` and `LogisticRegression`. What no stage names is in "other".
`python -m benchmarks stages` runs all sets in about two minutes on two cores, `python -m benchmarks stages usps` one.
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

from benchmarks.defaults import DENSE, _dense
from benchmarks.measure import data_folder
from kampong import FisherDiscriminant
from kampong.subspace import leave_one_out, predictor, trials
from kampong.subspace.base import DiscriminantSubspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.defaults import Split

STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "statistics": ((DiscriminantSubspace, "_learn_all"),),
    "eigh": ((leave_one_out.LeaveOneOut, "__init__"),),
    "ridge": ((leave_one_out.LeaveOneOut, "ridge"),),
    "directions": ((predictor, "_find"),),
    "left out": ((leave_one_out.Trial, "__init__"), (leave_one_out.LeaveOneOut, "products")),
    "weights": ((trials.HeadTrial, "_makers"),),
    "quadratic": ((leave_one_out.Trial, "_shape_scores"),),
    "log. tried": ((leave_one_out, "penalty_of"),),
    "log. refit": ((leave_one_out, "fit_logistic"),),
    "batches": ((leave_one_out.Trial, "_logistic"),),
    "calibrated": ((trials.HeadTrial, "_calibrated"),),
}


def main(shrink: int = 1, sets: tuple[str, ...] = DENSE) -> None:
    """Print a line a set; where the real data are not at hand, or with a large `shrink`, small stand-ins."""
    unknown = sorted(set(sets) - set(DENSE))
    if unknown:
        sys.exit(f"no dense set named {', '.join(unknown)}; there are: {', '.join(DENSE)}")
    warnings.simplefilter("ignore")
    heading = [*STAGES, "other", "ours", "given", "LDA", "LR"]
    print(f"{'milliseconds':<18}" + "".join(f"{one:>11}" for one in heading) + "   ours /given  /LDA   /LR  head")
    for name, split in _dense(sets, shrink > 1 or not data_folder().exists()):
        _line(name, split)


def _line(name: str, split: Split) -> None:
    X, y = split[:2]
    ours = FisherDiscriminant().fit(X, y)
    given = {"ridge": ours.ridge_, "head": "gaussian"}
    peers: dict[str, Callable[[], Any]] = {
        "given": lambda: FisherDiscriminant(**given),
        "LDA": LinearDiscriminantAnalysis,
        "LR": lambda: LogisticRegression(max_iter=300),
    }
    spent: dict[str, list[float]] = {one: [] for one in (*STAGES, "other", "ours", *peers)}
    for _ in range(5 if X.size < 10**7 else 3):
        time.sleep(0.1)  # BLAS threads of the one before spin for a while; let them come to rest
        with _watched() as seconds:
            start = time.perf_counter()
            FisherDiscriminant().fit(X, y)
            total = time.perf_counter() - start
        for one in STAGES:
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
    ratios = "".join(f"{found['ours'] / found[peer]:7.2f}" for peer in ("given", "LDA", "LR"))
    print(
        f"{name:<18}" + "".join(f"{value:11.1f}" for value in found.values()) + f"    {ratios}  {ours.head_}",
        flush=True,
    )


@contextmanager
def _watched() -> Iterator[dict[str, float]]:
    """Count the seconds of each stage, without those of the stages inside it."""
    seconds, inner = dict.fromkeys(STAGES, 0.0), [0.0]
    kept = [(owner, name, getattr(owner, name)) for places in STAGES.values() for owner, name in places]

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
        for stage, places in STAGES.items():
            for owner, name in places:
                setattr(owner, name, timed(stage, getattr(owner, name)))
        yield seconds
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


if __name__ == "__main__":
    main()
