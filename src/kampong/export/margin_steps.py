"""`to_sklearn` of the margin classifiers; what makes the plain steps is imported when it is called."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from kampong._core.compute import Float, Rows
    from kampong.kernels.functions import Kernel


@dataclass(frozen=True)
class MarginScores:
    """How a margin classifier scores rows: kernel values to its support vectors, then two products.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    support_vectors : array or sparse matrix of shape (n_support, n_features)
        The rows that it takes kernel values to.
    coefficients : array of shape (p, n_support)
        What multiplies the kernel values.
    weights : array of shape (n_scores, p)
        What multiplies the result; one row for two classes, else one row per class.
    offsets : array of shape (n_scores,)
        What is added.
    """

    kernel: Kernel
    support_vectors: Rows
    coefficients: Float
    weights: Float
    offsets: Float

    @property
    def directions(self) -> Float | None:
        """The coefficients as directions of the rows' own space, for a linear kernel; None for others."""
        if self.kernel.name != "linear":
            return None
        return np.asarray(self.coefficients @ self.support_vectors.astype(np.float64))


def margin_scores(model: Any) -> MarginScores:
    """Return how a fitted margin classifier scores rows, for whoever writes it in another form."""
    check_is_fitted(model)
    coefficients, weights, offsets = model._plain()
    if len(weights) == 2:
        weights, offsets = weights[1:] - weights[:1], offsets[1:] - offsets[:1]
    return MarginScores(model._kernel, model.support_vectors_, coefficients, weights, offsets)


def to_sklearn(self: Any, *, sparse: bool | None = None) -> Pipeline:
    """Return a fitted scikit-learn pipeline with the same answers, for places where kampong is not installed.

    It is a `Nystroem` that holds the support vectors, and a `LinearSVC`; scores agree to rounding.

    Parameters
    ----------
    sparse : bool, optional
        By default the pipeline takes dense and sparse rows. If the model was fitted on dense rows and its kernel
        computes distances, sparse rows are made dense to keep their digits. True keeps sparse rows sparse, False
        takes dense rows only.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Fitted; it can be pickled. It cannot learn on: keep the model for that.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.svm import LinearSVC

    from kampong.export.linear_steps import product, value_steps

    found = margin_scores(self)
    try:
        if found.directions is not None:  # one row per direction instead of all support vectors
            steps = [("directions", product(found.directions))]
        else:
            steps = value_steps("support", found.kernel, found.support_vectors, found.coefficients, sparse)
    except TypeError as error:
        raise TypeError(f"{type(self).__name__}.to_sklearn: {error}") from None
    head: Any = LinearSVC()
    head.coef_, head.intercept_, head.classes_ = found.weights, found.offsets, self.classes_
    head.n_features_in_, head.n_iter_ = found.weights.shape[1], 0
    first: Any = steps[0][1]
    if hasattr(self, "feature_names_in_"):
        first.feature_names_in_ = self.feature_names_in_.copy()
    return copy.deepcopy(Pipeline([*steps, ("head", head)]))
