"""What predicts during a stream: a model's subspace and head as they were at a certain row, renewed on a schedule."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._runtime.arrays import project
from kampong.subspace.criteria import CriterionWarning, MarginCriterion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._runtime.arrays import Float, Rows

WIDEST_SCATTER = 8192
PACES = {
    (True, False): (64, 0.25, 16_384),
    (True, True): (64, 3.0, 500_000),
    (False, False): (1024, 3.0, 100_000),
    (False, True): (2048, 7.0, 2_000_000),
}
"""By whether a scatter fits and whether a parameter is chosen: rows of the first scorer, by what part they must have
grown for the next, and the most rows between two."""


@dataclass(frozen=True)
class Scorer:
    """A subspace and its head, frozen.

    Solving after every batch would cost more than learning it, so predictions made before a batch is learnt come from
    the last renewal. When that happens depends on rows alone, so a resumed run predicts the same.

    Attributes
    ----------
    components : array of shape (p, d)
        The directions.
    mean : array of shape (d,)
        The mean of all rows.
    weights : array of shape (K, p)
        The head, one row a class.
    offsets : array of shape (K,)
        The offset of each class, −∞ for one that was only declared.
    eigenvalues : array of shape (p,)
        What each direction adds to the criterion.
    centres : array of shape (K, p)
        The class means, in the subspace.
    classes : array of shape (K,)
        The labels.
    rows : int
        Rows learnt when it was made.
    epsilon : float or None
        The ε in use, None for Fisher's criterion.
    """

    components: Float
    mean: Float
    weights: Float
    offsets: Float
    eigenvalues: Float
    centres: Float
    classes: np.ndarray
    rows: int
    epsilon: float | None

    @classmethod
    def of(cls, model: Any, rows: int) -> Scorer | None:
        """Return the scorer of a model; None while it has seen fewer than two classes."""
        if np.count_nonzero(model.class_counts_) < 2:
            return None
        with warnings.catch_warnings():
            # Early directions need not raise the criterion; what the stream ends with is for its reader to judge.
            warnings.simplefilter("ignore", CriterionWarning)
            components = model.components_
            head, criterion = model.in_use()
        epsilon = float(criterion.epsilon) if isinstance(criterion, MarginCriterion) else None
        centres = (model.class_means_ - model.mean_) @ components.T
        return cls(
            components,
            model.mean_,
            head.weights,
            head.offsets,
            model.eigenvalues_,
            centres,
            model.classes_,
            rows,
            epsilon,
        )

    @cached_property
    def class_centres(self) -> tuple[np.ndarray, Float]:
        """The labels and their centres; the same object every time, so that a reader sees that nothing is new."""
        return self.classes, self.centres

    def __call__(self, X: Rows) -> tuple[Float, np.ndarray]:
        """Return the coordinates and the predicted labels of rows."""
        points = project(X, self.components, self.mean)
        predicted: np.ndarray = self.classes[np.argmax(points @ self.weights.T + self.offsets, axis=1)]
        return points, predicted

    def to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return arrays and facts for a checkpoint."""
        arrays = {
            "components": self.components,
            "mean": self.mean,
            "weights": self.weights,
            "offsets": np.where(np.isneginf(self.offsets), 0.0, self.offsets),
            "absent": np.isneginf(self.offsets),
            "eigenvalues": self.eigenvalues,
            "centres": self.centres,
        }
        return arrays, {"classes": self.classes.tolist(), "rows": self.rows, "epsilon": self.epsilon}

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]) -> Scorer:
        """Return the scorer that `to_state` wrote."""
        rest = {name: arrays[name] for name in ("components", "mean", "weights", "eigenvalues", "centres")}
        offsets = np.where(arrays["absent"], -np.inf, arrays["offsets"])
        return cls(
            **rest, offsets=offsets, classes=np.array(facts["classes"]), rows=facts["rows"], epsilon=facts["epsilon"]
        )


def due(model: Any, scorer: Scorer | None, rows: int) -> bool:
    """Tell whether the scorer should be renewed: when the rows have grown by a part at first, then at a fixed pace.

    The pace keeps solving cheaper than learning. A parameter that is chosen by the data ("auto") costs a
    cross-validation on a sample, and rows past the width of a scatter cost products with the sample: both are renewed
    less often.
    """
    width, parameters = model.n_features_in_, model.get_params()
    chosen = any(parameters.get(name) == "auto" for name in ("ridge", "epsilon", "a"))
    first, growth, pace = PACES[width <= WIDEST_SCATTER, chosen]
    before = 0 if scorer is None else scorer.rows
    pace = max(pace, 4.0 * width) if width <= WIDEST_SCATTER else pace
    if model.half_life is not None:
        pace = min(pace, max(model.half_life / 4, first))
    return bool(rows - before >= min(max(before * growth, first, width / 8 if width <= WIDEST_SCATTER else 0), pace))
