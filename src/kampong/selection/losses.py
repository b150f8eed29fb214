"""What validation rows cost: −log p of their own class, said before they were learnt. Prediction sets use it.

Where many rows have the same loss, one row less moves the loss of all of them a little, and a threshold among losses
of such models may lie just below that of the model itself. So losses of the model itself are kept too, and the larger
of both thresholds counts. They are usually smaller, as rows that were learnt are predicted better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from kampong.files.fields import array, read, written
from kampong.heads.calibration import calibrated, log_softmax

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents
    from kampong.heads.calibration import ValidationRows
    from kampong.heads.head import Head

FIELDS = (
    array("losses", "rows", low=0.0, finite=False),
    array("codes", "rows", dtype=np.int64, low=0, high=lambda sizes: sizes["classes"] - 1),
    array("weights", "rows", low=0.0),
    array("learnt", "rows", dtype=np.int64, low=0, high=1),
)
"""What a file holds of them."""

MOST = -math.log(np.finfo(np.float64).tiny)
"""What a row of an unknown class counts as, whose loss is infinite."""


@dataclass(frozen=True)
class HeldOutLosses:
    """The loss −log p of the true class of validation rows, each predicted by a model that had not learnt it.

    Attributes
    ----------
    losses : array of shape (n,)
        The losses; infinite for a class that was not known.
    codes : array of int of shape (n,)
        The classes, as places among the sorted labels.
    weights : array of shape (n,)
        The weights of the rows.
    learnt : array of int of shape (n,)
        1 for a row that the model had learnt after all, for comparison.
    """

    losses: Float
    codes: Integer
    weights: Float
    learnt: Integer

    def mean(self, most: float) -> tuple[float, float]:
        """Return the mean loss of rows that had not been learnt, and its standard deviation between rows; NaN without.

        Parameters
        ----------
        most : float
            What a larger loss counts as.

        Returns
        -------
        tuple of float
            Mean and standard deviation.
        """
        weights = np.where(self.learnt == 0, self.weights, 0.0)
        if not weights.sum():
            return math.nan, math.nan
        losses = np.minimum(self.losses, most)
        mean = float(np.average(losses, weights=weights))
        return mean, math.sqrt(float(np.average((losses - mean) ** 2, weights=weights)))

    @classmethod
    def of(
        cls, scores: Float, head: Head, validation: ValidationRows, shift: Float | None, *, learnt: bool = False
    ) -> Self:
        """Return the losses of scores that a head gave rows.

        Parameters
        ----------
        scores : array of shape (n, K)
            The scores of the first n validation rows.
        head : Head
            The head, for its calibration.
        validation : ValidationRows
            Classes and weights of the validation rows.
        shift : array of shape (K,) or None
            The logarithm of the given share of each class over the observed one, where shares were given.
        learnt : bool
            Whether the head had learnt the rows.

        Returns
        -------
        HeldOutLosses
            Rows weigh as their classes will, where shares were given.
        """
        codes, weights = validation.codes[: len(scores)], validation.weights[: len(scores)]
        logs = calibrated(scores, head.sharpness, head.tail)
        if shift is not None:
            logs, weights = log_softmax(logs + shift), weights * np.exp(shift[codes])
        losses = np.maximum(-logs[np.arange(len(codes)), codes], 0.0)
        return cls(losses, codes, weights, np.full(len(codes), int(learnt)))

    def joined(self, other: Self) -> Self:
        """Return the rows of both."""
        parts = zip(self._arrays(), other._arrays(), strict=True)
        return type(self)(*(np.concatenate(pair) for pair in parts))

    def threshold(self, alpha: float) -> float:
        """Return the loss that a share of at most α of new rows exceeds; ∞ where rows are too few to say, −∞ for α = 1.

        With n rows of equal weight it is the ⌈(1 − α)(n + 1)⌉-th smallest loss: the new row counts as one of them.
        """
        held_out, learnt = self._part(self.learnt == 0), self._part(self.learnt == 1)
        bound = held_out._quantile(alpha)
        return max(bound, learnt._quantile(alpha)) if len(learnt.losses) else bound

    def _quantile(self, alpha: float) -> float:
        total = float(self.weights.sum())
        if not total > 0 or alpha >= 1.0:
            return -np.inf if alpha >= 1.0 else np.inf
        order = np.argsort(self.losses, kind="stable")
        sums = np.cumsum(self.weights[order])
        needed = (1.0 - alpha) * (total + float(np.square(self.weights).sum()) / total)
        rounding = len(sums) * np.finfo(np.float64).eps  # of a sum of this many weights
        place = int(np.searchsorted(sums, needed * (1.0 - rounding)))
        return np.inf if place == len(order) else float(self.losses[order[place]])

    def thresholds(self, alpha: float, n_classes: int) -> Float:
        """Return the same for each class by its own rows."""
        parts = [self.codes == code for code in range(n_classes)]
        return np.array([self._part(mine).threshold(alpha) for mine in parts])

    def among(self, places: Integer) -> Self:
        """Return the rows whose classes are still there; `places` has the new place of each class, −1 for none."""
        moved = places[self.codes]
        return replace(self._part(moved >= 0), codes=moved[moved >= 0])

    def _part(self, mine: np.ndarray) -> Self:
        return type(self)(*(values[mine] for values in self._arrays()))

    def _arrays(self) -> tuple[Any, ...]:
        return self.losses, self.codes, self.weights, self.learnt

    def to_state(self) -> dict[str, Any]:
        """Return what a file holds."""
        return written(FIELDS, self)

    @classmethod
    def from_state(cls, contents: Contents, n_classes: int) -> Self:
        """Return what `to_state` wrote, each value checked."""
        found = cls(**read(FIELDS, contents, {"classes": n_classes}))
        contents.finish()
        return found


def evidence_weights(members: Sequence[HeldOutLosses | None]) -> Float:
    """Return how much each of some models counts: exp(−n·loss) over the sum of these, with its mean loss per row.

    n is the number of validation rows, the least of all models: one that was validated by fewer rows is not better
    for it. Weights too small to change a bit of the sum are zero. Models without validation rows have none; if that
    is true of all of them, the first counts alone.

    Parameters
    ----------
    members : sequence of HeldOutLosses or None
        What validation rows cost each model.

    Returns
    -------
    array
        One weight per model; they sum to one.
    """
    means, rows = np.full(len(members), np.inf), np.full(len(members), np.inf)
    for place, one in enumerate(members):
        weights = np.zeros(0) if one is None else one.weights[one.learnt == 0]
        if one is not None and weights.any():
            # a number of rows, whatever the scale of the weights
            means[place], rows[place] = one.mean(MOST)[0], weights.sum() ** 2 / np.square(weights).sum()
    if not np.isfinite(means).any():
        means[0], rows[0] = 0.0, 1.0
    found: Float = np.exp(rows.min() * (means.min() - means))
    found[found < np.finfo(np.float64).eps] = 0.0
    return np.asarray(found / found.sum())
