"""`to_sklearn`: what makes the plain steps is imported when it is called, for it needs much of scikit-learn."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from kampong.predictor import Predictor


def to_sklearn(self: Any, *, sparse: bool | None = None) -> Pipeline:
    """Return a fitted scikit-learn pipeline with the same answers, for places where kampong is not installed.

    The pipeline holds classes and functions of scikit-learn, numpy, scipy and Python alone. Its `predict` and
    `predict_proba` are those of this model, calibration included, to about 1e-12 on float64 rows (kernel values
    to landmarks that nearly depend on each other may cost a digit more). The steps up to "directions" (a kernel's:
    up to "mean") give the coordinates of `transform`, and after them those along directions that only the head
    looks at. It cannot learn on: keep the model for that.

    Parameters
    ----------
    sparse : bool, optional
        By default the pipeline takes dense and sparse rows. If the mean lies far from zero, sparse rows are made
        dense to keep their digits. True keeps sparse rows sparse: the mean is then subtracted after the
        projection, which costs digits if it lies far from zero. False takes dense rows only.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Fitted; it can be pickled.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> model = FisherDiscriminant().fit(X, y)
    >>> plain = model.to_sklearn()
    >>> bool(abs(plain.predict_proba(X) - model.predict_proba(X)).max() < 1e-12)
    True
    """
    from sklearn.pipeline import Pipeline

    from kampong.export.linear_steps import head_steps

    check_is_fitted(self)
    self._check_exported()
    known: Predictor = self.freeze()
    try:
        steps = [*known.steps(sparse), *head_steps(known)]
    except TypeError as error:
        raise TypeError(f"{type(self).__name__}.to_sklearn: {error}") from None
    first = steps[0][1]
    first.n_features_in_ = self.n_features_in_
    if hasattr(self, "feature_names_in_"):
        first.feature_names_in_ = self.feature_names_in_.copy()
    return copy.deepcopy(Pipeline(steps))  # the model shares no array with it
