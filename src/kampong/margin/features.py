"""Margin features: two-class problems, chains of directions, stored rows and the projection."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from kampong._core.callbacks import FitWatcher
from kampong._core.compute import one_blas_thread, run, split
from kampong.data.labels import labels_from, labels_state
from kampong.data.saved_rows import rows_from, rows_state
from kampong.data.validation import LARGEST_ENTRY, LEAST_WEIGHT, MOST_WEIGHT, refuse_overflow
from kampong.files.model_errors import CriterionWarning
from kampong.kernels.functions import BLOCK_ROWS, Kernel, PreparedRows, kernel_scores
from kampong.margin.chains import BallHull, Chains, Extraction
from kampong.margin.hull import Hull
from kampong.margin.margin_classifier import MESSAGES, MarginClassifier
from kampong.margin.problem import Options
from kampong.margin.remote import remote_hulls
from kampong.margin.row_sample import RowSample, class_means

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.kernels.functions import Columns
    from kampong.margin.chains import Feature, Product, Start
    from kampong.margin.kernel_rows import KernelRows
    from kampong.margin.remote import Holder

FIGURES = {
    "n_kernel_evaluations_per_feature_": np.int64,
    "margin_": np.float64,
    "objective_": np.float64,
    "dual_gap_": np.float64,
    "n_core_": np.int64,
    "n_steps_": np.int64,
}
"""One figure per feature."""

EXACT_GAP = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-4}
"""The relative duality gap of method="exact": as small as rounding allows."""


class MarginFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MarginClassifier):
    """Extract chains of directions, store them as expansions, and project rows onto them."""

    n_components_per_class: Any
    C: Any
    method: Any
    criterion: Any
    orthogonal: Any
    selection: Any
    random_state: Any
    n_iter_: Any
    _components: Float | None

    @property
    def _n_features_out(self) -> int:
        return int(self.features_.shape[0])

    def _extract(
        self, X: Rows, codes: Integer, counts: Float, start: Start, *, fresh: bool = True, y: np.ndarray | None = None
    ) -> Float:
        """Extract features from rows of positive weight, store them, and return their values at the rows.

        With `y`, callbacks are called. Without it the rows are a batch of a stream, and more may come.
        """
        signs = self._signs(codes)
        length = int(self.n_components_per_class) * (2 if len(signs) == 1 else 1)
        self._check_memory(X, length * len(signs))
        rows = self._open(X, fresh=fresh, stream=y is None, weights=None if np.ptp(counts) == 0.0 else counts)

        def store(model: Any, features: list[Feature]) -> None:
            model._keep(X, codes, counts, Extraction(features, rows.n_evaluations))

        watcher = None if y is None else FitWatcher(self, X, y, store)
        exact = self.method == "exact"
        options = Options(
            EXACT_GAP[X.dtype] if exact else float(self.tol),
            "gap" if exact else self.criterion,
            "furthest" if exact else self.selection,
            max_steps=int(self.max_iter),
            block_bytes=max(self._budget, X.shape[0] ** 2 * X.dtype.itemsize if exact else 0),
            verbose=int(self.verbose),
            watcher=watcher,
        )
        hulls, product, together = self._hulls(signs, rows, counts), self._product(X), self.orthogonal == "all"
        chains = Chains(rows, hulls, length, options, product, together, whole=exact)
        found = chains.extract(check_random_state(self.random_state), start)
        self._comment(found.features, length, len(signs))
        values = self._keep(X, codes, counts, found)
        if watcher is not None:
            watcher.finish()
        return values

    def _fit_elsewhere(self, holder: Holder, columns: Columns, classes: np.ndarray, codes: Integer) -> None:
        """Extract features from rows that lie elsewhere, in parts; class means are left to who holds the rows."""
        rows = self._open_elsewhere(holder, columns, classes)
        signs, X = self._signs(codes), rows.elsewhere
        length = int(self.n_components_per_class) * (2 if len(signs) == 1 else 1)
        self._check_memory(X, length * len(signs))
        options = Options(
            float(self.tol), max_steps=int(self.max_iter), block_bytes=self._budget, verbose=int(self.verbose)
        )
        hulls = remote_hulls(signs, float(self.C))
        chains = Chains(rows, hulls, length, options, self._product(X), self.orthogonal == "all")
        rows.here.features = chains.features
        found = chains.extract(check_random_state(self.random_state), {})
        self._comment(found.features, length, len(signs))
        self._keep(X, codes, np.ones(len(codes)), found)
        self._codes = codes

    def _hulls(self, signs: list[Float], rows: KernelRows, counts: Float) -> list[Hull]:
        """Return the two-class problems; the slack of a row costs C times its weight."""
        same = np.ptp(counts) == 0.0
        ridge: Any = 1.0 / (float(self.C) * (float(counts[0]) if same else counts))
        if self.method == "exact" or self.criterion == "gap":
            return [Hull(sign, offset=1.0, ridge=ridge) for sign in signs]
        if not same:
            raise ValueError(
                f"{type(self).__name__}: criterion='meb' needs the same weight for all rows, since the patterns must "
                "be equally long. Use criterion='gap' with sample_weight."
            )
        spread = float(np.ptp(rows.diagonal))
        if spread > 1e-6 * float(np.abs(rows.diagonal).max()):
            raise ValueError(
                f"{type(self).__name__}: criterion='meb' needs a kernel with k(x, x) the same for all x, and the "
                f"{self._kernel.name} kernel has values that differ by {spread:.3g}. Use criterion='gap'."
            )
        constant = float(rows.diagonal[0]) + 1.0 + ridge
        return [BallHull(sign, offset=1.0, ridge=ridge, constant=constant) for sign in signs]

    def _check_memory(self, X: Rows, n_features: int) -> None:
        """Refuse what cannot fit the budget, with the bytes that it would take."""
        name, n = type(self).__name__, X.shape[0]
        values, matrix = 8 * n * n_features, n * n * X.dtype.itemsize
        if values > self._budget:
            raise ValueError(
                f"{name}: {n_features} features of {n} rows take {values:,} bytes, and cache_size={self.cache_size:g} "
                f"allows {self._budget:,}. Lower n_components_per_class={self.n_components_per_class}, or raise "
                "cache_size."
            )
        if self.method == "exact" and matrix > self._budget:
            raise ValueError(
                f"{name}: method='exact' needs the kernel matrix of {n} rows, {matrix:,} bytes and as many again "
                f"for each core that solves, and cache_size={self.cache_size:g} allows {self._budget:,}. Use "
                f"method='core', which needs no such matrix, or cache_size={-(-matrix // 2**20)}."
            )

    def _product(self, X: Rows) -> Product | None:
        """Return K times weights between some rows with more digits than the kernel rows have, or None."""
        kernel = self._kernel
        if kernel.name == "linear":
            # computed with the direction itself, so that a difference that nearly cancels is not squared
            def explicit(where: Integer, weights: Float) -> Float:
                rows = X[where].astype(np.float64)
                return np.asarray(rows @ (rows.T @ weights))

            return explicit
        if X.dtype == np.float64 or kernel.name == "precomputed":
            return None

        def wide(where: Integer, weights: Float) -> Float:
            points, out = kernel.prepare(X[where].astype(np.float64)), np.empty(weights.shape)

            def tile(start: int, stop: int) -> None:
                part = PreparedRows(points.rows[start:stop], points.norms[start:stop])
                out[start:stop] = kernel.between(part, points) @ weights

            tiles = split(len(where), 1 + len(where) // BLOCK_ROWS)
            if kernel.name == "callable":
                # a caller's function may not be safe in threads
                for start, stop in tiles:
                    tile(start, stop)
                return out
            with one_blas_thread():
                run(tile, tiles)
            return out

        return wide

    def _keep(self, X: Rows, codes: Integer, counts: Float, found: Extraction) -> Float:
        """Store what transform, a warm start and a stream need."""
        features = found.features
        self.support_ = np.unique(np.concatenate([f.rows for f in features]))
        places = [np.searchsorted(self.support_, f.rows) for f in features]
        edges = np.cumsum([0, *(len(f.rows) for f in features)])
        entries = (np.concatenate([f.coefficients for f in features]), np.concatenate(places), edges)
        self.features_ = sparse.csr_array(entries, shape=(len(features), len(self.support_)))
        names = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        self.feature_classes_ = names[[f.chain for f in features]]
        self.n_kernel_evaluations_per_feature_ = np.diff(edges)
        self.margin_ = np.array([f.margin for f in features])
        self.objective_ = np.array([f.solution.gap.objective for f in features])
        self.dual_gap_ = np.array([f.solution.gap.relative for f in features])
        self.status_ = np.array([f.solution.status for f in features])
        self.n_core_ = np.array([f.solution.n_core for f in features])
        self.n_steps_ = np.array([f.solution.steps for f in features])
        self.n_iter_ = int(self.n_steps_.max())
        self.n_kernel_evaluations_ = found.n_evaluations
        self.gamma_ = self._kernel.gamma
        precomputed = self._kernel.name == "precomputed"
        self.support_vectors_: Rows = np.zeros((0, 0), dtype=X.dtype) if precomputed else X[self.support_]
        self._prepare()
        self._points = {(f.chain, f.order): f.solution.alpha[self.support_] for f in features}
        self._stored_codes, self._stored_counts = codes[self.support_], counts[self.support_]
        values: Float = np.column_stack([f.values for f in features])
        self.class_means_ = class_means(values, codes, len(self.classes_), counts)
        self.n_samples_seen_ = len(codes)
        return values

    def _project(self, X: Rows) -> Float:
        """Return the features of rows, float64."""
        if self._components is not None:
            values: Float = np.asarray(X @ self._components.T.astype(X.dtype), dtype=np.float64)
        else:
            X = X[:, self.support_] if self._kernel.name == "precomputed" else X
            values = kernel_scores(self._kernel, X, self._support, self._coefficients)
        return refuse_overflow(type(self).__name__, values)

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds."""
        if not hasattr(self, "support_"):
            return None
        keys = np.array(sorted(self._points))
        state: dict[str, Any] = {
            "kernel": self._kernel.to_state(),
            "classes": labels_state(self.classes_),
            "status": labels_state(self.status_),
            "features": rows_state(self.features_),
            "support_vectors": rows_state(self.support_vectors_),
            "keys": keys,
            "points": np.array([self._points[chain, order] for chain, order in keys.tolist()]),
            "stored_codes": self._stored_codes,
            "stored_counts": self._stored_counts,
            "n_kernel_evaluations": int(self.n_kernel_evaluations_),
            "n_samples_seen": int(self.n_samples_seen_),
            "with_codes": hasattr(self, "_codes"),
            "with_sample": hasattr(self, "_sample"),
            **{name: getattr(self, name) for name in ("support_", "class_means_", *FIGURES)},
        }
        if hasattr(self, "_codes"):
            state["codes"] = self._codes
        if hasattr(self, "_sample"):
            sample = self._sample
            parts = {name: getattr(sample, name) for name in ("codes", "numbers", "counts")}
            state["sample"] = {"rows": rows_state(sample.X), **parts}
        return state

    def _from_state(self, contents: Contents) -> None:
        self._check_parameters()
        self._kernel = Kernel.from_state(contents.part("kernel"), self.n_features_in_)
        self.gamma_, precomputed = self._kernel.gamma, self._kernel.name == "precomputed"
        self.classes_, self.status_ = (labels_from(contents.part(name)) for name in ("classes", "status"))
        n_classes, n_features = len(self.classes_), len(self.status_)
        if n_classes < 2 or not np.array_equal(np.unique(self.classes_), self.classes_):
            contents.refuse("the classes are too few, or not in order")
        high = self.n_features_in_ - 1 if precomputed else None
        self.support_ = contents.array("support_", np.int64, (None,), low=0, high=high)
        for name, dtype in FIGURES.items():
            setattr(self, name, contents.array(name, dtype, (n_features,), finite=False, nan=True))
        self.class_means_ = contents.array("class_means_", np.float64, (n_classes, n_features), finite=False, nan=True)
        unseen = np.isnan(self.class_means_).any(axis=1)
        whole = np.isnan(self.class_means_[unseen]).all() and not unseen.all()
        if not whole or np.abs(self.class_means_[~unseen]).max(initial=0.0) > LARGEST_ENTRY:
            contents.refuse("class_means_ holds NaN or numbers too large for a mean")
        self.n_kernel_evaluations_ = contents.whole("n_kernel_evaluations")
        self.n_samples_seen_ = contents.whole("n_samples_seen")
        self.n_iter_ = int(self.n_steps_.max(initial=0))
        stored = len(self.support_)
        features = rows_from(contents.part("features"), (n_features, stored))
        if isinstance(features, np.ndarray):
            contents.refuse("features is dense, expected sparse expansions")
        else:
            self.features_ = features
        shape = (0, 0) if precomputed else (stored, self.n_features_in_)
        self.support_vectors_ = rows_from(contents.part("support_vectors"), shape)
        self._stored_codes = contents.array("stored_codes", np.int64, (stored,), low=0, high=n_classes - 1)
        self._stored_counts = contents.array("stored_counts", np.float64, (stored,), low=LEAST_WEIGHT, high=MOST_WEIGHT)
        keys = contents.array("keys", np.int64, (n_features, 2), low=0, high=n_features)
        names = self.classes_[1:] if n_classes == 2 else self.classes_
        if (keys[:, 0] >= len(names)).any() or len(np.unique(keys, axis=0)) < n_features:
            contents.refuse("keys names problems that do not exist, or one twice")
        self.feature_classes_ = names[keys[:, 0]]
        points = contents.array("points", np.float64, (n_features, stored))
        self._points = {(chain, order): point for (chain, order), point in zip(keys.tolist(), points, strict=True)}
        if contents.flag("with_codes"):
            self._codes = contents.array("codes", np.int64, (None,), low=-1, high=n_classes - 1)
        if contents.flag("with_sample"):
            part = contents.part("sample")
            codes = part.array("codes", np.int64, (None,), low=0, high=n_classes - 1)
            numbers = part.array("numbers", np.int64, (len(codes),), low=0)
            counts = part.array("counts", np.float64, (len(codes),), low=LEAST_WEIGHT, high=MOST_WEIGHT)
            kept = rows_from(part.part("rows"), (len(codes), self.n_features_in_))
            self._sample = RowSample(kept, codes, numbers, counts)
        self._prepare()

    def _prepare(self) -> None:
        """Prepare the arrays that `transform` multiplies with."""
        self._support = self._kernel.prepare(self.support_vectors_)
        self._coefficients = np.ascontiguousarray(self.features_.toarray().T)
        self._components = None
        if self._kernel.name == "linear":
            self._components = np.asarray(_dense(self.features_ @ self.support_vectors_.astype(np.float64)))

    def _comment(self, features: list[Feature], length: int, n_chains: int) -> None:
        """Warn of what was not reached and say what to do; raise an error if there is no feature at all."""
        name = type(self).__name__
        if not features:
            raise ValueError(
                f"{name}: no direction tells the classes apart: in the space of the {self._kernel.name} kernel the "
                "rows of different classes coincide. Check that X has features that differ between classes."
            )
        for status, message in MESSAGES.items():
            which = [f for f in features if f.solution.status == status]
            if which:
                worst = max(f.solution.gap.relative for f in which)
                text = message.format(gap=worst, tol=self.tol, max_iter=self.max_iter)
                warnings.warn(f"{name} ({len(which)} features): {text}", ConvergenceWarning, stacklevel=6)
        counts = [sum(f.chain == chain for f in features) for chain in range(n_chains)]
        if min(counts) < length and not any(f.solution.status == "interrupted" for f in features):
            short = self.classes_.tolist()[-1 if n_chains == 1 else int(np.argmin(counts))]
            warnings.warn(
                f"{name}: {len(features)} of {length * n_chains} features exist. The chain of class {short!r} ends "
                f"after {min(counts)}: no direction is left that is orthogonal to the earlier ones. Lower "
                f"n_components_per_class={self.n_components_per_class}, or use another kernel.",
                CriterionWarning,
                stacklevel=6,
            )
        worst = max(f.solution.gap.relative for f in features)
        if self.method == "core" and self.criterion == "meb" and worst > 0.5:
            warnings.warn(
                f"{name}: all points are in the ball of 1 + {self.tol:g} times the radius, but the duality gap is "
                f"still {worst:.0%} of the objective. Use criterion='gap', or a smaller tol.",
                ConvergenceWarning,
                stacklevel=6,
            )


def _dense(matrix: Any) -> Any:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
