"""Shared by MinOver and MaxMinOver: from labels to hulls, both walks, and learning from a stream."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state

from kampong._core.callbacks import FitWatcher, with_callbacks
from kampong._core.compute import stack
from kampong._core.locks import whole
from kampong.data.validation import LEAST_WEIGHT, MOST_WEIGHT, check_choice, check_weights
from kampong.margin.core_set import Solution, solve
from kampong.margin.hull import Hull, Walk, walk
from kampong.margin.margin_classifier import MarginClassifier
from kampong.margin.nu import check_nu, count_patterns, most_patterns, smallest_patterns
from kampong.margin.problem import UNKNOWN, Options
from kampong.margin.spread import Spread, depends_on_rows, follow

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.margin.kernel_rows import KernelRows


class OverClassifier(MarginClassifier):
    """What MinOver and MaxMinOver share."""

    bias: Any
    walk: Any
    warm_start: Any
    random_state: Any
    _forget = False
    _stored_codes: Integer
    _stored_numbers: Integer
    _stored_counts: Float
    _stored_weights: list[Float]
    _spread: Spread
    trace_: list[np.ndarray]

    @with_callbacks
    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the hyperplanes of maximum margin.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows; a square matrix of kernel values for kernel="precomputed".
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 leaves it out. A hard margin is the same
            however often a row counts.

        Returns
        -------
        object
            This estimator.
        """
        X, y = self._validate(X, y)
        n, weights = X.shape[0], check_weights(sample_weight, X.shape[0])
        given = np.flatnonzero(weights)
        if not len(given):
            raise ValueError(
                f"{type(self).__name__}: sample_weight is zero for all rows, so none is left. Give some a weight "
                "above 0."
            )
        if len(given) < n:
            X, y, weights = X[given], y[given], weights[given]
            X = X[:, given] if self.kernel == "precomputed" else X
        codes = self._encode(y)
        start = self._previous(X, codes)
        counts = None if (weights == 1.0).all() else weights
        rows = self._open(X, weights=counts)
        if depends_on_rows(self):
            self._spread = Spread.of_rows(X, counts)
        self._learn(X, codes, rows, start, y, counts)
        self._stored_counts = weights[self.support_]
        self.n_samples_seen_, self.support_ = n, given[self.support_]
        self._stored_numbers = self.support_
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch and the patterns stored so far, then forget all patterns without weight.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All classes of the stream; needed in the first call unless its batch holds them all.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts, as in `fit`; a stored pattern keeps its weight. A row of weight 2 is stored or
            forgotten as a whole, but of two equal rows one may be forgotten.

        Returns
        -------
        object
            This estimator.
        """
        name = type(self).__name__
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                f"{name}.partial_fit cannot use kernel='precomputed': its matrix has no values for the stored rows. "
                "Use a named kernel or a callable."
            )
        first = not hasattr(self, "support_")
        X, y = self._validate(X, y, reset=first)
        weights = check_weights(sample_weight, X.shape[0])
        seen, given = 0 if first else self.n_samples_seen_, np.flatnonzero(weights)
        if not len(given):
            if not first:
                self.n_samples_seen_ = seen + len(y)
            return self
        n_rows, numbers = len(y), seen + given
        if len(given) < n_rows:
            X, y, weights = X[given], y[given], weights[given]
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) < 2:
                self._encode(y)
        codes, own = self._known_codes(y), weights
        start = None
        if not first:
            n_new = X.shape[0]
            X = stack(self.support_vectors_, X)
            codes = np.concatenate([self._stored_codes, codes])
            numbers = np.concatenate([self._stored_numbers, numbers])
            weights = np.concatenate([self._stored_counts, weights])
            start = [np.concatenate([point, np.zeros(n_new)]) for point in self._stored_weights]
        counts = None if (weights == 1.0).all() else weights
        if depends_on_rows(self):
            batch = Spread.of_rows(X[-len(y) :], None if counts is None else own)
            if first:
                self._spread = batch
            else:
                follow(self, self._spread.join(batch))
        rows = self._open(X, fresh=first, stream=True, weights=counts)
        self._learn(X, codes, rows, start, weights=counts)
        self.n_samples_seen_, self._stored_counts = seen + n_rows, weights[self.support_]
        self._stored_numbers = self.support_ = numbers[self.support_]
        return self

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the patterns stored too."""
        state = super()._to_state()
        if state is None:
            return None
        stored = {
            "codes": self._stored_codes,
            "numbers": self._stored_numbers,
            "weights": np.array(self._stored_weights),
            "counts": self._stored_counts,
        }
        more = {name: getattr(self, name) for name in ("counts_", "nu_") if hasattr(self, name)}
        if hasattr(self, "trace_"):
            fields = list(TRACE.names or ())
            traces = [np.stack([trace[name].astype(float) for name in fields], axis=1) for trace in self.trace_]
            more["traces"] = {f"problem{k}": trace for k, trace in enumerate(traces)}
        if hasattr(self, "_spread"):
            more["spread"] = self._spread._asdict()
        return {**state, "stored": stored, "n_samples_seen_": self.n_samples_seen_, **more}

    def _from_state(self, contents: Contents) -> None:
        super()._from_state(contents)
        n_problems, n = self.dual_coef_.shape
        stored = contents.part("stored")
        self._stored_codes = stored.array("codes", np.int64, (n,), low=0, high=len(self.classes_) - 1)
        self._stored_numbers = stored.array("numbers", np.int64, (n,), low=0)
        self._stored_weights = list(stored.array("weights", np.float64, (n_problems, n)))
        self._stored_counts = stored.array("counts", np.float64, (n,), low=LEAST_WEIGHT, high=MOST_WEIGHT)
        stored.finish()
        self.n_samples_seen_ = contents.whole("n_samples_seen_")
        if "counts_" in contents:
            self.counts_ = contents.array("counts_", np.int64, (n_problems, None))
        if "nu_" in contents:
            self.nu_ = contents.array("nu_", np.float64, (n_problems,), low=0.0, high=1.0)
        if "traces" in contents:
            traces, lines = contents.part("traces"), (None, len(TRACE.names or ()))
            names = [f"problem{k}" for k in range(n_problems)]
            tables = [traces.array(name, np.float64, lines, finite=False, nan=True) for name in names]
            traces.finish()
            self.trace_ = [np.array([tuple(line) for line in table], dtype=TRACE) for table in tables]
        if "spread" in contents:
            self._spread = Spread.from_state(contents.part("spread"), self.n_features_in_)

    def _previous(self, X: Rows, codes: Integer) -> list[Float] | None:
        """Return the weights of the last fit, if this one may start from them."""
        if not self.warm_start or not hasattr(self, "_weights"):
            return None
        fits = len(self._weights[0]) == X.shape[0] and np.array_equal(self._codes, codes)
        return self._weights if fits else None

    def _learn(
        self,
        X: Rows,
        codes: Integer,
        rows: KernelRows,
        start: list[Float] | None,
        y: np.ndarray | None = None,
        weights: Float | None = None,
    ) -> None:
        """Solve all problems and keep the answer; callbacks are called only if `y` is given."""
        name = type(self).__name__
        check_choice(name, "bias", self.bias, ("augmented", "exact"))
        check_choice(name, "walk", self.walk, ("paper", "fast"))
        nu, nu_of = self._soft()
        check_choice(name, "nu_of", nu_of, ("patterns", "largest"))
        if nu is None:
            # a hard margin is the same however often a row counts
            weights = None
        elif weights is not None and self.walk == "paper":
            if np.ptp(weights) > 0:
                raise ValueError(
                    f"{name}: walk='paper' counts patterns in whole steps and cannot weigh them. Use walk='fast' with "
                    "sample_weight."
                )
            weights = None
        problems = self._signs(codes)
        # a stream may begin with only one side of a problem; then there is no second hull
        splits = [self.bias == "exact" and len(np.unique(signs)) == 2 for signs in problems]
        hulls = [
            Hull(signs, offset=0.0 if split else 1.0, split=split)
            for signs, split in zip(problems, splits, strict=True)
        ]
        patterns = self._patterns(rows, hulls, weights)
        if nu is not None:
            each = 1.0 if weights is None else weights
            hulls = [
                replace(hull, cap=each * (hull.group_sum / count)) for hull, count in zip(hulls, patterns, strict=True)
            ]
            shares = [(2 if hull.split else 1) * count for hull, count in zip(hulls, patterns, strict=True)]
            self.nu_ = np.array(shares) / (len(codes) if weights is None else weights.sum())
        watcher = None
        if y is not None:
            watcher = FitWatcher(self, X, y, lambda model, found: model._store(X, hulls, found, rows))
        if self.walk == "paper":
            outcomes = self._walk(rows, hulls, patterns, start, watcher)
        else:
            options = Options(
                float(self.tol),
                max_steps=int(self.max_iter),
                block_bytes=self._budget,
                verbose=int(self.verbose),
                watcher=watcher,
            )
            start = None if start is None else _feasible(start, hulls)
            outcomes = solve(rows, hulls, options, check_random_state(self.random_state), start)
            self._weights = [solution.alpha for solution in outcomes]
        self._store(X, hulls, outcomes, rows)
        self._codes, self._stored_codes, self._stored_numbers = codes, codes[self.support_], self.support_
        self._stored_weights = [weights[self.support_] for weights in self._weights]
        if self.walk == "paper":
            self.counts_ = np.array(self._stored_weights).astype(np.int64)
        if watcher is not None:
            watcher.finish()
        self._warn(outcomes)

    def _walk(
        self,
        rows: KernelRows,
        hulls: list[Hull],
        patterns: list[int],
        start: list[Float] | None,
        watcher: FitWatcher | None,
    ) -> list[Solution]:
        outcomes: list[Solution] = []
        weights: list[Float] = []
        self.trace_ = []
        interrupted = stopped = False
        unknown = Solution(np.zeros(rows.n_samples), np.full(rows.n_samples, math.inf), UNKNOWN, 0, 0, "interrupted")

        def on_chunk(here: Walk) -> bool:
            nonlocal stopped
            if watcher is None or interrupted:
                return False
            others = [unknown] * (len(hulls) - len(outcomes) - 1)
            stopped = watcher.end(lambda: [*outcomes, _outcome(here, patterns[len(outcomes)]), *others])
            if here.status == "interrupted" and not stopped:
                watcher.begin()
            return stopped

        for p, (hull, count) in enumerate(zip(hulls, patterns, strict=True)):
            if watcher is not None and not interrupted:
                watcher.begin()
            whole = start is not None and np.array_equal(start[p], np.round(start[p]))
            end = walk(
                rows,
                hull,
                patterns=count,
                forget=self._forget,
                tol=float(self.tol),
                # after an interrupt the other problems get as few steps as a model needs
                steps=1 if interrupted else int(self.max_iter),
                counts=start[p].astype(np.int64) if start is not None and whole else None,
                on_chunk=None if watcher is None else on_chunk,
            )
            interrupted = interrupted or end.status == "interrupted"
            outcomes.append(_outcome(end._replace(status="interrupted") if interrupted else end, count))
            interrupted = interrupted or stopped
            weights.append(end.counts.astype(np.float64))
            self.trace_.append(np.array(list(end.trace), dtype=TRACE))
            if self.verbose:
                print(
                    f"problem {p}: {end.steps} steps, relative gap {end.gap.relative:.3g}, "
                    f"{outcomes[-1].n_core} patterns stored, {rows.n_evaluations:.3g} kernel evaluations",
                    flush=True,
                )
        self._weights = weights
        return outcomes

    def _soft(self) -> tuple[Any, str]:
        """Return `nu` and `nu_of`; None for a hard margin."""
        return None, "patterns"

    def _patterns(self, rows: KernelRows, hulls: list[Hull], weights: Float | None) -> list[int]:
        """Return K of each problem: the patterns of a step (of each class, where each has a hull of its own)."""
        given, nu_of = self._soft()
        if given is None:
            return [1] * len(hulls)
        name, whole = type(self).__name__, self.walk == "paper"
        if isinstance(given, str) and given == "auto":
            options = Options(0.5, max_steps=int(self.max_iter), block_bytes=self._budget)
            rng = check_random_state(self.random_state)
            limits = [most_patterns(hull.signs, hull.split, whole, weights) for hull in hulls]
            return [
                smallest_patterns(rows, hull, most, options, rng, weights)
                for hull, most in zip(hulls, limits, strict=True)
            ]
        values, of_largest = check_nu(name, given, len(hulls)), nu_of == "largest"
        return [
            count_patterns(name, nu, hull.signs, split=hull.split, whole=whole, of_largest=of_largest, weights=weights)
            for nu, hull in zip(values, hulls, strict=True)
        ]

    def _advice(self, status: str) -> str:
        """Return the message of a way to end; with a soft margin, the advice is to raise nu."""
        if status != "inseparable" or self._soft()[0] is None:
            return super()._advice(status)
        return (
            "the mean margin of the nearest patterns is nowhere positive, so there is no soft margin at "
            f"nu={np.round(self.nu_, 4).tolist()}; the best hyperplane found is kept "
            "(relative duality gap {gap:.3g}). "
            'Raise nu (nu="auto" finds the smallest that works), or use another kernel.'
        )


TRACE = np.dtype(
    [("step", np.int64), ("length", float), ("margin", float), ("stored", np.int64), ("gap", float), ("share", float)]
)
"""A moment of a walk: t, ‖v_t‖, the least margin over ‖v_t‖, patterns stored, relative gap, the largest share α_i."""


def _outcome(end: Walk, patterns: int) -> Solution:
    """Return the present state of a walk as a point of the hull."""
    total = max(1, int(end.counts.sum()))
    n_core = int(np.count_nonzero(end.counts))
    return Solution(end.counts / total, end.margins * patterns / total, end.gap, n_core, end.steps, end.status)


def _feasible(start: list[Float], hulls: list[Hull]) -> list[Float] | None:
    """Return points to start from, scaled into their hulls, or None where a hull has no such point."""
    points: list[Float] = []
    for weights, hull in zip(start, hulls, strict=True):
        point, groups = np.asarray(weights, dtype=np.float64).copy(), hull.groups
        for group in range(2 if hull.split else 1):
            total = point[groups == group].sum()
            if not total > 0:
                return None
            point[groups == group] *= hull.group_sum / total
        if (point > hull.cap).any():
            return None
        points.append(point)
    return points
