"""A fitted model as plain scikit-learn, for places where kampong is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from kampong.subspace.heads import LinearHead
from kampong.subspace.predictor import Predictor

__all__ = ["export"]


def export(model: Any) -> LogisticRegression:
    """Return a scikit-learn classifier with the same answers as a fitted model.

    Directions and head become one weight for each feature and class: x ↦ (x − mean)·Wᵀ·Vᵀ + offsets.

    Parameters
    ----------
    model : estimator
        A fitted linear estimator whose rows have one label each and whose head is linear: "gaussian",
        "nearest_mean" or "logistic".

    Returns
    -------
    LogisticRegression
        With `coef_`, `intercept_`, `classes_` and `n_features_in_` set. Its `predict` is that of the model, up to
        rounding, and so is `predict_proba` but for the tail of the calibration, which has no place in a linear model.
        Classes that were declared and never seen are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters.scikit_learn import export
    >>> X, y = load_wine(return_X_y=True)
    >>> model = FisherDiscriminant(ridge=0.1).fit(X, y)
    >>> bool((export(model).predict(X) == model.predict(X)).all())
    True
    """
    frozen = model.freeze() if hasattr(model, "freeze") else None
    linear = frozen.linear() if type(frozen) is Predictor else None
    if linear is None or frozen is None or not isinstance(frozen.head, LinearHead) or frozen.head.multilabel:
        raise TypeError(
            f"export: {type(model).__name__} cannot be written as one set of weights. export takes a fitted linear "
            "estimator, such as FisherDiscriminant, with one label a row and head='gaussian', 'nearest_mean' or "
            "'logistic' (and observed priors, where probabilities are calibrated)."
        )
    seen = np.isfinite(linear[1])
    weights, offsets = (frozen.head.sharpness * one[seen] for one in linear)
    result: Any = LogisticRegression()
    result.classes_, result.n_features_in_ = frozen.classes[seen], weights.shape[1]
    if len(weights) == 2:
        weights, offsets = weights[1:] - weights[:1], offsets[1:] - offsets[:1]
    result.coef_, result.intercept_, result.n_iter_ = weights, offsets, np.zeros(1, dtype=np.int32)
    if hasattr(model, "feature_names_in_"):
        result.feature_names_in_ = model.feature_names_in_
    exported: LogisticRegression = result
    return exported
