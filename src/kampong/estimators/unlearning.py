"""Rows that must be forgotten: what the subspace estimators share to take them out exactly, with a receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import one_at_a_time, whole
from kampong.data.validation import check_weights, validate_batch
from kampong.files.contents import digest_of
from kampong.statistics.receipt import Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong.statistics.means import ClassMeans

SAMPLED = (
    "S_w is estimated from a sample of the rows. Those taken out have left it; rows that would have had their place "
    "have not come back."
)
VALIDATION = (
    "The rows kept to choose parameters and heads are a sample. Those taken out have left it; rows that would have had "
    "their place have not come back."
)
LANDMARKS = (
    "The landmarks were placed with rows of the data and stay where they are. To leave no trace there either, give "
    "landmarks that do not depend on rows."
)

ALL_ROWS = (
    "What followed drift (half_life='auto') had faded rows and cannot give them back. It has been dropped: the model "
    "is one of all rows that are left, and forgets nothing from now on."
)


class Unlearning:
    """Gives an estimator on class statistics `unlearn`, `unlearn_class` and `state_digest`."""

    _statistics: ClassMeans

    @whole
    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Receipt:
        """Take rows out again: the model becomes the one that never saw them.

        Exact where the statistics are: class means at any width, and the scatter, linear or kernel, up to its width. On
        an error the model is as before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows that were learnt, in any order and batches.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_labels)
            The labels that they were learnt with.
        sample_weight : array-like of shape (n_samples,), optional
            The weights that they were learnt with.

        Returns
        -------
        Receipt
            What was taken out, with digests of the state before and after. Its `remarks` say what cannot be undone.
        """
        name = f"{type(self).__name__}.unlearn"
        self._check_can_unlearn(name)
        X, y = validate_batch(self, X, y, reset=False, compact=True)
        weights = check_weights(sample_weight, X.shape[0])
        rows, weight = int(np.count_nonzero(weights)), float(weights.sum())
        return self._take_out(name, lambda: self._statistics.unlearn(X, y, weights), rows, weight)

    @whole
    def unlearn_class(self, label: Any) -> Receipt:
        """Take all rows of a class out again, without having them at hand.

        Exact from class means alone, and where a sample still holds every row. Where the scatter of all classes is one
        matrix and the sample is not complete, the rows are needed: use `unlearn`.

        Parameters
        ----------
        label : bool, int or str
            The class.

        Returns
        -------
        Receipt
            What was taken out, with digests of the state before and after.
        """
        name = f"{type(self).__name__}.unlearn_class"
        self._check_can_unlearn(name)
        if isinstance(label, np.generic):
            label = label.item()
        statistics = self._statistics
        before = statistics.n_samples, statistics.total
        receipt = self._take_out(name, lambda: statistics.unlearn_class(label), 0, 0.0)
        rows, left = before[0] - statistics.n_samples, statistics.total if statistics.n_samples else 0.0
        return Receipt(**{**vars(receipt), "rows": rows, "weight": before[1] - left})

    @one_at_a_time
    def state_digest(self) -> str:
        """Return the SHA-256 digest of all that the model remembers of its rows.

        Returns
        -------
        str
            64 hexadecimal digits, equal for models whose statistics are equal bit for bit.
        """
        check_is_fitted(self)
        return self._digest()

    def _digest(self) -> str:
        return digest_of({"statistics": self._statistics.to_state(), **self._beside()})

    def _beside(self) -> dict[str, Any]:
        """Return what is remembered of rows outside the statistics, by name."""
        return {}

    def _forget_results(self) -> None:
        raise NotImplementedError

    def _keep_all(self) -> None:
        raise NotImplementedError

    def _check_can_unlearn(self, name: str) -> None:
        check_is_fitted(self)
        if self._statistics.refusal is not None:
            raise ValueError(
                f"{name}: this model was fitted with the rows at hand (solver='resolvent') and did not keep its "
                "statistics. Fit again without the rows, or learn with partial_fit."
            )
        if self._statistics.fades:
            decay, half_life = getattr(self, "decay", 1.0), getattr(self, "half_life", None)  # kernels have neither
            aged = f"half_life={half_life!r}" if half_life is not None else f"decay={decay!r}"
            aged = "the decay or half_life that they were learnt with" if aged == "decay=1.0" else aged
            raise ValueError(
                f"{name}: with {aged} rows lose weight as others come, and how much of these is left is not known. "
                "They fade by themselves; to take rows out exactly, learn without decay and half_life."
            )

    def _take_out(self, name: str, act: Callable[[], Any], rows: int, weight: float) -> Receipt:
        before, classes = self._digest(), set(self._statistics.classes.tolist())
        followed = bool(self._beside())
        try:
            act()
        except ValueError as error:
            raise type(error)(f"{name}: {error}") from None
        self._keep_all()
        self._forget_results()
        statistics = self._statistics
        gone = tuple(sorted(classes - set(statistics.classes.tolist())))
        sample, exact = statistics.kept_sample, statistics.within_sample is None
        sampled = sample is not None and sample.full
        remarks = (ALL_ROWS,) * followed + ((VALIDATION if exact else SAMPLED),) * sampled
        return Receipt(
            type(self).__name__, rows, weight, gone, before, self._digest(), exact, (*remarks, *self._what_stays())
        )

    def _what_stays(self) -> tuple[str, ...]:
        """Say what the model keeps of rows outside its statistics."""
        return ()
