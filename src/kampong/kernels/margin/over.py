"""What MinOver and MaxMinOver share: from labels to hulls, both walks, and learning from a stream."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import check_random_state

from kampong._runtime.callbacks import FitWatcher, with_callbacks
from kampong._runtime.compute import stack
from kampong.data.rows import check_choice, check_number
from kampong.kernels.margin.base import MarginClassifier
from kampong.kernels.margin.core_set import Solution, solve
from kampong.kernels.margin.hull import Hull, Walk, walk
from kampong.kernels.margin.problem import UNKNOWN, Options

if TYPE_CHECKING:
    from kampong._runtime.compute import Float, Integer, Rows
    from kampong.checkpoint import Contents
    from kampong.kernels.margin.kernel_rows import KernelRows


class OverClassifier(MarginClassifier):
    """What MinOver and MaxMinOver share."""

    nu: Any = None
    bias: Any
    walk: Any
    warm_start: Any
    random_state: Any
    _forget = False
    _stored_codes: Integer
    _stored_numbers: Integer
    _stored_weights: list[Float]

    @with_callbacks
    def fit(self, X: Any, y: Any) -> Self:
        """Find the hyperplanes of maximum margin.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows; a square matrix of kernel values for kernel="precomputed".
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        object
            This estimator.
        """
        X, y = self._validate(X, y)
        codes = self._encode(y)
        start = self._previous(X, codes)
        self._learn(X, codes, self._open(X), start, y)
        self.n_samples_seen_ = X.shape[0]
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from a batch and the patterns stored so far, then forget all patterns without weight.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All classes of the stream; needed in the first call unless its batch holds them all.

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
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) < 2:
                self._encode(y)
            self.n_samples_seen_ = 0
        self._refuse_new_classes(y)
        codes, numbers = np.searchsorted(self.classes_, y), self.n_samples_seen_ + np.arange(X.shape[0])
        start = None
        if not first:
            n_new = X.shape[0]
            X = stack(self.support_vectors_, X)
            codes = np.concatenate([self._stored_codes, codes])
            numbers = np.concatenate([self._stored_numbers, numbers])
            start = [np.concatenate([weights, np.zeros(n_new)]) for weights in self._stored_weights]
        rows = self._open(X, fresh=first, stream=True)
        self._learn(X, codes, rows, start)
        self.n_samples_seen_ += len(y)
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
        }
        counts = {"counts_": self.counts_} if hasattr(self, "counts_") else {}
        return {**state, "stored": stored, "n_samples_seen_": self.n_samples_seen_, **counts}

    def _from_state(self, contents: Contents) -> None:
        super()._from_state(contents)
        n_problems, n = self.dual_coef_.shape
        stored = contents.part("stored")
        self._stored_codes = stored.array("codes", np.int64, (n,), low=0, high=len(self.classes_) - 1)
        self._stored_numbers = stored.array("numbers", np.int64, (n,), low=0)
        self._stored_weights = list(stored.array("weights", np.float64, (n_problems, n)))
        stored.finish()
        self.n_samples_seen_ = contents.whole("n_samples_seen_")
        if "counts_" in contents:
            self.counts_ = contents.array("counts_", np.int64, (n_problems, None))

    def _previous(self, X: Rows, codes: Integer) -> list[Float] | None:
        """Return the weights of the last fit, if this one may start from them."""
        if not self.warm_start or not hasattr(self, "_weights"):
            return None
        fits = len(self._weights[0]) == X.shape[0] and np.array_equal(self._codes, codes)
        return self._weights if fits else None

    def _learn(
        self, X: Rows, codes: Integer, rows: KernelRows, start: list[Float] | None, y: np.ndarray | None = None
    ) -> None:
        """Solve all problems and keep the answer; callbacks are called only if `y` is given."""
        name = type(self).__name__
        check_choice(name, "bias", self.bias, ("augmented", "exact"))
        check_choice(name, "walk", self.walk, ("paper", "fast"))
        hulls, patterns = [], []
        for signs in self._signs(codes):
            # a stream may begin with only one side of a problem; then there is no second hull
            split = self.bias == "exact" and len(np.unique(signs)) == 2
            count = self._patterns(signs, split)
            cap = math.inf if self.nu is None else (0.5 if split else 1.0) / count
            hulls.append(Hull(signs, offset=0.0 if split else 1.0, cap=cap, split=split))
            patterns.append(count)
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
            if self.verbose:
                print(
                    f"problem {p}: {end.steps} steps, relative gap {end.gap.relative:.3g}, "
                    f"{outcomes[-1].n_core} patterns stored, {rows.n_evaluations:.3g} kernel evaluations",
                    flush=True,
                )
        self._weights = weights
        return outcomes

    def _patterns(self, signs: Float, split: bool) -> int:
        """Return K, the patterns of a step (of each class, where the classes have hulls of their own)."""
        if self.nu is None:
            return 1
        name, n = type(self).__name__, len(signs)
        nu = check_number(name, "nu", self.nu, low=0.0, high=1.0, next_step="Use None for a hard margin.")
        smaller = min(int((signs > 0).sum()), int((signs < 0).sum()))
        count = max(1, math.ceil(nu * n - 1e-9))
        if smaller and count > 2 * smaller:
            raise ValueError(
                f"{name}: nu={nu:g} asks for {count} of {n} patterns, but the smaller side of a problem has {smaller}; "
                f"nu must be at most 2·{smaller}/{n} = {2 * smaller / n:.4g}. Lower nu or balance the classes."
            )
        return max(1, math.ceil(nu * n / 2 - 1e-9)) if split else min(count, n)


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
