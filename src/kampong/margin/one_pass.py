"""Learning in one pass: `partial_fit` and `merge` of a margin classifier that keeps a bounded number of rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.locks import both_locked, whole
from kampong.data.labels import LabelIndex, check_labels
from kampong.data.mergeable import blank_of_both
from kampong.data.validation import check_weights, check_whole
from kampong.margin.margin_classifier import MarginClassifier
from kampong.margin.probabilities import HeldOutScores, Probabilities, by_folds, class_scores
from kampong.margin.spread import Spread, depends_on_rows, fix, follow
from kampong.margin.stored_rows import Solved, StoredRows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files import Contents


class OnePassClassifier(Probabilities, MarginClassifier):
    """A margin classifier that learns batches, with at most `max_stored_rows` rows kept between them."""

    max_stored_rows: Any
    criterion: Any
    loss: Any
    n_samples_seen_: int
    certified_gap_: Float
    _stored: StoredRows
    _spread: Spread

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch and the rows stored so far; then rows of the largest margins leave.

        At most `max_stored_rows` rows stay. If more have weight in a hyperplane, a sample of each class stays and takes
        over what the others count. `certified_gap_` is what is proven for all rows so far.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels. New classes may come at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that may come; needed in the first call if its batch holds only one.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 leaves it out.

        Returns
        -------
        object
            This estimator.
        """
        name, first = type(self).__name__, not hasattr(self, "support_")
        self._check_one_pass()
        X, y = self._validate(X, y, reset=first)
        counts = check_weights(sample_weight, X.shape[0])
        before = np.zeros(0) if first else self.classes_
        index = _index(before)
        for labels in () if classes is None else (np.asarray(classes),):
            index.add(check_labels(index, labels, len(labels))[2], labels.dtype)
        _, found, new = check_labels(index, y, len(y))
        index.add(new, y.dtype)
        seen = 0 if first else self.n_samples_seen_
        given = np.flatnonzero(counts)
        if not len(given):
            if not first:
                self.n_samples_seen_ = seen + len(y)
            return self
        self._know(index.sorted)
        batch = StoredRows.new(X[given], index.position[found][given], seen + given, counts[given], len(self.classes_))
        held_out = self._scored_first(batch, before)
        pool = batch if first else self._stored.recoded(_places(index, before), len(self.classes_)).joined(batch)
        spread = Spread.of_rows(batch.X, batch.counts) if depends_on_rows(self) else None
        if first:
            self._open(batch.X, stream=True, weights=batch.counts)
            if spread is not None:
                self._spread = spread
        elif spread is not None:
            if not hasattr(self, "_spread"):
                raise ValueError(
                    f"{name}.partial_fit: gamma was {self.gamma_:g} so far and cannot become {self.gamma!r} in the "
                    "middle of a stream. Set the gamma of the first batch again, or fit again."
                )
            follow(self, self._spread.join(spread))
        self._learn_pool(pool)
        if self.probability:
            if held_out is None:
                held_out = by_folds(self, batch.X, batch.codes, batch.counts, len(self.classes_))
            self._hold_out(held_out)
        self.n_samples_seen_ = seen + len(y)
        return self

    def merge(self, other: Self) -> Self:
        """Return a model of the rows of both streams, solved on the rows that both have stored; neither changes.

        Parameters
        ----------
        other : object
            A model of the same class, parameters and width.

        Returns
        -------
        object
            The merged model, bounded by `max_stored_rows` as each of the two.
        """
        result: Any = blank_of_both(self, other)
        with both_locked(self, other):
            for model in (self, other):
                model._check_one_pass()
            index = _index(self.classes_)
            index.add(check_labels(index, other.classes_, len(other.classes_))[2], other.classes_.dtype)
            result._know(index.sorted)
            shifted = replace(other._stored, numbers=other._stored.numbers + self.n_samples_seen_)
            mine, theirs = (
                stored.recoded(_places(index, model.classes_), len(result.classes_))
                for model, stored in ((self, self._stored), (other, shifted))
            )
            result._kernel = self._kernel
            if depends_on_rows(self):
                fix(result, self._spread.join(other._spread))
            result._learn_pool(mine.joined(theirs))
            if self.probability:
                held_out = HeldOutScores.none(len(index))
                for model in (self, other):
                    if len(model.classes_) == len(index) and hasattr(model, "_held_out"):
                        held_out = held_out.joined(model._held_out, int(self.max_stored_rows))
                result._hold_out(held_out)
            result.n_samples_seen_ = self.n_samples_seen_ + other.n_samples_seen_
        merged: Self = result
        return merged

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "support_")

    # How.

    def _scored_first(self, batch: StoredRows, before: np.ndarray) -> HeldOutScores | None:
        """Return the scores of rows before they are learnt; None if the model does not know all classes yet."""
        if not self.probability or len(before) < len(self.classes_) or not hasattr(self, "_held_out"):
            return None
        scored = HeldOutScores(class_scores(self._scores(batch.X)), batch.codes, batch.counts)
        return self._held_out.joined(scored, int(self.max_stored_rows))

    def _learn_pool(self, pool: StoredRows) -> None:
        """Solve on rows, and keep as many as may stay."""
        most = int(self.max_stored_rows)
        solved = self._solve_stored(pool)
        carrying = np.flatnonzero(solved.coefficients.any(axis=0))
        if len(carrying) > most:
            if self.criterion != "gap":
                raise ValueError(
                    f"{type(self).__name__}: {len(carrying)} rows have weight, and max_stored_rows={most} allows "
                    "fewer. Rows that stand for others are other patterns, and all must be equally long with "
                    f"criterion={self.criterion!r}. Use criterion='gap', or raise max_stored_rows."
                )
            if self.loss == "hinge":
                warnings.warn(
                    f"{type(self).__name__}: {len(carrying)} rows have weight, and max_stored_rows={most} allows "
                    "fewer. With loss='hinge' a sample that stands for them can be far less accurate where classes "
                    "overlap. Raise max_stored_rows, or use loss='squared'.",
                    RuntimeWarning,
                    stacklevel=3,
                )
            pool = replace(pool, coefficients=solved.coefficients).thinned(carrying, most)
            solved = self._solve_stored(pool)
        certain = not pool.n_left
        self._stored, self.support_ = pool.kept(solved, most), pool.numbers[self.support_]
        self.certified_gap_ = self.dual_gap_ if certain else np.full(len(self.dual_gap_), np.inf)
        self._codes, self._weights = self._stored.codes, self._as_weights(self._stored)
        self._warn(solved.outcomes)

    def _solve_stored(self, pool: StoredRows) -> Solved:
        """Solve on stored rows, from their last weights, and keep the hyperplanes."""
        raise NotImplementedError

    def _as_weights(self, pool: StoredRows) -> list[Float]:
        """Return the weights of rows as a solve starts from them."""
        raise NotImplementedError

    def _know(self, classes: np.ndarray) -> None:
        """Note the classes; refuse fewer than two, and more than there are rows to keep."""
        name, most = type(self).__name__, self.max_stored_rows
        if len(classes) < 2:
            raise ValueError(
                f"{name}.partial_fit: y holds only one class, {classes.tolist()[0]!r}; a margin needs two. Give rows "
                "of at least two classes in the first call, or name those that may come, as classes."
            )
        if len(classes) > most:
            raise ValueError(
                f"{name}: there are {len(classes)} classes, and max_stored_rows={most} allows fewer rows. Raise it; "
                "10,000 is the default."
            )
        self.classes_ = classes

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name, step = type(self).__name__, "10,000 is the default."
        check_whole(name, "max_stored_rows", self.max_stored_rows, low=2, high=2**40, next_step=step)
        if not isinstance(self.probability, bool | np.bool_):
            raise ValueError(f"{name}: probability must be True or False, got {self.probability!r:.100}.")

    def _check_one_pass(self) -> None:
        """Refuse what needs all rows at once."""
        name = type(self).__name__
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                f"{name}.partial_fit cannot use kernel='precomputed': its matrix has no values for the stored rows. "
                "Use a named kernel or a callable."
            )
        if hasattr(self, "support_") and not hasattr(self, "_stored"):
            raise ValueError(
                f"{name}.partial_fit: this model has no stored rows to go on from, because it was fitted in parts, on "
                "kernel values, or by an earlier version. Fit again, or begin with partial_fit."
            )

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the stored rows too."""
        state = super()._to_state()
        if state is None:
            return None
        state |= self._probability_state()
        if not hasattr(self, "_stored"):
            return state
        more: dict[str, Any] = {"spread": self._spread._asdict()} if hasattr(self, "_spread") else {}
        certified = {"certified_gap_": self.certified_gap_, "n_samples_seen": self.n_samples_seen_}
        return {**state, **more, **certified, "stored": self._stored.to_state(self.support_)}

    def _from_state(self, contents: Contents) -> None:
        super()._from_state(contents)
        self._probability_from(contents, len(self.classes_))
        if "stored" not in contents:
            return
        n_problems = len(self.intercept_)
        part = contents.part("stored")
        self._stored = StoredRows.from_state(part, self.support_, self.support_vectors_, len(self.classes_))
        self.n_samples_seen_ = contents.whole("n_samples_seen")
        self.certified_gap_ = contents.array("certified_gap_", np.float64, (n_problems,), finite=False, nan=True)
        if "spread" in contents:
            self._spread = Spread.from_state(contents.part("spread"), self.n_features_in_)


def _index(classes: np.ndarray) -> LabelIndex:
    """Return an index of classes."""
    index = LabelIndex()
    if len(classes):
        index.add(classes.tolist(), classes.dtype)
    return index


def _places(index: LabelIndex, classes: np.ndarray) -> Integer:
    """Return where classes stand among all of an index."""
    return index.position[index.encode(classes)[0]]
