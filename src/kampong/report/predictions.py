"""Displays of predictions: the confusion of classes, and the calibration of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kampong.report.drawing import FAINT, INK, LINE, Picture, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kampong._core.compute import Float

WRITTEN = 15
"""Up to this many classes the numbers are written into the cells."""

NAMED = 40
"""Up to this many classes each row and column is named."""


class ConfusionDisplay(Picture):
    """Which classes are taken for which: one row per true class, one column per predicted class, as shares of the row.

    Cells on the diagonal are right. `worst(n)` lists the pairs that are confused most, which is easier to read than a
    picture of many classes.

    Parameters
    ----------
    counts : array of shape (n_classes, n_classes)
        How many rows of each class were predicted as each.
    classes : array of shape (n_classes,)
        The classes.

    See Also
    --------
    ReliabilityDisplay : Whether the probabilities are true.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from kampong.report import ConfusionDisplay
    >>> display = ConfusionDisplay.from_predictions(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    >>> display.worst(1)
    [('a', 'b', 1)]
    """

    def __init__(self, counts: Any, classes: Any) -> None:
        self.counts, self.classes = np.asarray(counts, dtype=np.float64), np.asarray(classes)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Self:
        """Draw the predictions of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier, of any library.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, better not those that it was fitted on.
        y : array-like of shape (n_samples,)
            Their true classes.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConfusionDisplay
            The picture.
        """
        check_is_fitted(estimator)
        return cls.from_predictions(y, estimator.predict(X), ax=ax)

    @classmethod
    def from_predictions(cls, y_true: Any, y_pred: Any, *, ax: Axes | None = None) -> Self:
        """Draw predictions that are at hand.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The true classes.
        y_pred : array-like of shape (n_samples,)
            The predicted ones.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConfusionDisplay
            The picture.
        """
        truth, said = np.asarray(y_true), np.asarray(y_pred)
        if truth.ndim != 1 or truth.shape != said.shape:
            raise ValueError(
                f"ConfusionDisplay: y_true has shape {truth.shape} and y_pred {said.shape}; give one class per row in "
                "both. For several labels per row, draw one picture per label."
            )
        classes = np.unique(np.concatenate([truth, said])) if len(truth) else truth
        counts = np.zeros((len(classes), len(classes)))
        np.add.at(counts, (np.searchsorted(classes, truth), np.searchsorted(classes, said)), 1.0)
        return cls(counts, classes).plot(ax)

    def worst(self, count: int = 5) -> list[tuple[Any, Any, int]]:
        """Return the pairs of classes that are confused most.

        Parameters
        ----------
        count : int
            How many pairs at most.

        Returns
        -------
        list of (true class, predicted class, rows)
            The most frequent first.
        """
        wrong = self.counts - np.diag(np.diag(self.counts))
        order = np.argsort(-wrong, axis=None, kind="stable")[:count]
        pairs = [np.unravel_index(place, wrong.shape) for place in order]
        names = self.classes.tolist()
        return [(names[i], names[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j] > 0]

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConfusionDisplay
            This picture.
        """
        count = len(self.classes)
        side = min(4.0 + 0.22 * count, 10.0)
        ax = self._open(ax, (side + 0.8, side))
        if not self.counts.sum():
            self._say(ax, "no rows to show")
            return self
        totals = self.counts.sum(axis=1, keepdims=True)
        shares = self.counts / np.where(totals > 0, totals, 1.0)
        image = ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        self.figure_.colorbar(image, ax=ax, label="part of the true class", shrink=0.8)
        if count <= WRITTEN:
            for i, j in np.ndindex(count, count):
                if self.counts[i, j]:
                    colour = "white" if shares[i, j] > 0.55 else INK
                    ax.text(j, i, f"{self.counts[i, j]:.0f}", ha="center", va="center", color=colour, fontsize=8)
        if count <= NAMED:
            names = [short(label) for label in self.classes]
            long = max(len(name) for name in names) > 3
            size = 9 if count <= WRITTEN else 7
            ax.set_xticks(range(count), names, rotation=90 if long else 0, fontsize=size)
            ax.set_yticks(range(count), names, fontsize=size)
        else:
            ax.set_xticks([])
            ax.set_yticks([])
        right = np.trace(self.counts) / self.counts.sum()
        title = f"{100 * right:.1f} % of {self.counts.sum():,.0f} rows are right"
        if count > WRITTEN and (worst := self.worst(3)):
            pairs = ", ".join(f"{short(true)} as {short(said)} ({rows})" for true, said, rows in worst)
            title += f"\nmost confused: {pairs}"
        ax.set_title(title, fontsize=11)
        ax.set_xlabel("predicted")
        ax.set_ylabel("true")
        return self


class ReliabilityDisplay(Picture):
    """Whether probabilities are true: how often a prediction is right, against how sure it was.

    On the diagonal a model that says 80 % is right in eight of ten cases. Points below it are too sure. The bars at the
    bottom show how many rows say so. For any number of classes: what counts is the predicted one.

    Parameters
    ----------
    confidence : array of shape (n,)
        The probability of the predicted class of each row.
    right : array of bool of shape (n,)
        Whether the prediction was right.
    n_bins : int, default=10
        In how many groups of equal width to cut.

    See Also
    --------
    ConfusionDisplay : Which classes are taken for which.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from kampong.report import ReliabilityDisplay
    >>> display = ReliabilityDisplay(np.full(10, 0.8), np.arange(10) < 8)
    >>> round(display.error, 12)
    0.0
    """

    def __init__(self, confidence: Any, right: Any, *, n_bins: int = 10) -> None:
        self.confidence, self.right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=bool)
        if self.confidence.shape != self.right.shape or self.confidence.ndim != 1:
            raise ValueError(
                f"ReliabilityDisplay: confidence has shape {self.confidence.shape} and right {self.right.shape}; give "
                "one value per row in both."
            )
        bins = np.clip((self.confidence * n_bins).astype(int), 0, n_bins - 1)
        self.n_bins, self.counts = n_bins, np.bincount(bins, minlength=n_bins)
        filled = np.maximum(self.counts, 1)
        self.said: Float = np.bincount(bins, weights=self.confidence, minlength=n_bins) / filled
        self.was: Float = np.bincount(bins, weights=self.right, minlength=n_bins) / filled

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance from the diagonal, each group by its rows."""
        return float(np.abs(self.said - self.was) @ self.counts / max(self.counts.sum(), 1))

    def interval(self) -> tuple[Float, Float]:
        """Return between which bounds the part that is right lies in each group, with a probability of 95 % (Wilson).

        Returns
        -------
        low, high : array of shape (n_bins,)
            The bounds.
        """
        n, z = np.maximum(self.counts, 1), 1.96
        centre = (self.was + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(self.was * (1 - self.was) / n + z**2 / (4 * n**2))
        return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, ax: Axes | None = None) -> Self:
        """Draw the probabilities of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with `predict_proba`, of any library.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows that it was not fitted on.
        y : array-like of shape (n_samples,)
            Their true classes.
        n_bins : int
            In how many groups to cut.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ReliabilityDisplay
            The picture; `error` is the expected calibration error.
        """
        check_is_fitted(estimator)
        return cls.from_predictions(y, estimator.predict_proba(X), estimator.classes_, n_bins=n_bins, ax=ax)

    @classmethod
    def from_predictions(
        cls, y_true: Any, probabilities: Any, classes: Any, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Draw probabilities that are at hand.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The true classes.
        probabilities : array-like of shape (n_samples, n_classes)
            The probability of each class.
        classes : array-like of shape (n_classes,)
            The class of each column.
        n_bins : int
            In how many groups to cut.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ReliabilityDisplay
            The picture.
        """
        truth, chances, names = np.asarray(y_true), np.asarray(probabilities), np.asarray(classes)
        if truth.ndim != 1 or chances.shape != (len(truth), len(names)):
            raise ValueError(
                f"ReliabilityDisplay: y_true has shape {truth.shape}, probabilities {chances.shape}, and there are "
                f"{len(names)} classes; give one true class per row, and one probability per row and class."
            )
        best = chances.argmax(axis=1) if len(truth) else np.zeros(0, dtype=int)
        confidence = chances[np.arange(len(truth)), best]
        return cls(confidence, names[best] == truth, n_bins=n_bins).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ReliabilityDisplay
            This picture.
        """
        ax = self._open(ax, (5.2, 5.0))
        if not len(self.right):
            self._say(ax, "no rows to show")
            return self
        edges = np.linspace(0.0, 1.0, self.n_bins + 1)
        share = self.counts / self.counts.sum()
        ax.bar(
            edges[:-1],
            0.25 * share / share.max(),
            1.0 / self.n_bins,
            align="edge",
            color="#DDCC77",
            alpha=0.6,
            label="rows",
        )
        ax.plot([0, 1], [0, 1], color=FAINT, lw=1.0, ls="--", label="true probabilities")
        shown = self.counts > 0
        said, was, low, high = (one[shown] for one in (self.said, self.was, *self.interval()))
        ax.vlines(said, low, high, color=LINE, lw=1.2, alpha=0.6)
        sizes = 15 + 85 * np.sqrt(share[shown] / share.max())
        ax.scatter(said, was, sizes, color=LINE, zorder=3, label="this model, with 95 % intervals")
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1.02)
        ax.set_xlabel("probability of the predicted class")
        ax.set_ylabel("part that is right")
        ax.set_title(f"expected calibration error {self.error:.3f}", fontsize=11)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False, fontsize=8)
        return self
