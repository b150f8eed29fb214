"""`to_sklearn` of the margin classifiers; what makes the plain steps is imported when it is called."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


class ExportingMargin:
    """Gives a margin classifier `to_sklearn`."""

    def to_sklearn(self, *, sparse: bool | None = None) -> Pipeline:
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

        from kampong.export.kernel_steps import value_steps
        from kampong.export.linear_steps import product

        check_is_fitted(self)
        model: Any = self  # an estimator
        coefficients, weights, offsets = model._plain()
        try:
            if model._kernel.name == "linear":  # one row a direction instead of all support vectors
                directions = coefficients @ model.support_vectors_.astype(np.float64)
                steps = [("directions", product(np.asarray(directions)))]
            else:
                steps = value_steps("support", model._kernel, model.support_vectors_, coefficients, sparse)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}.to_sklearn: {error}") from None
        head: Any = LinearSVC()
        if len(weights) == 2:
            weights, offsets = weights[1:] - weights[:1], offsets[1:] - offsets[:1]
        head.coef_, head.intercept_, head.classes_ = weights, offsets, model.classes_
        head.n_features_in_, head.n_iter_ = weights.shape[1], 0
        first: Any = steps[0][1]
        if hasattr(self, "feature_names_in_"):
            first.feature_names_in_ = model.feature_names_in_.copy()
        return copy.deepcopy(Pipeline([*steps, ("head", head)]))
