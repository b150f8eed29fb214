"""Prediction sets: the classes that a row may have, so that the true one is missing at a rate that you name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.locks import lock_of
from kampong.data.validation import check_number

if TYPE_CHECKING:
    from kampong.estimators.subspace import DiscriminantSubspace


def predict_set(self: DiscriminantSubspace, X: Any, alpha: float = 0.1, *, per_class: bool = False) -> np.ndarray:
    """Return the classes that each row may have: a set that lacks the true class for a share α of the rows.

    These are conformal sets. A class is in the set if −log p of it is at most a threshold, which is the
    ⌈(1 − α)(n + 1)⌉-th smallest −log p of the true class among n validation rows, each predicted by a model that had
    not learnt it: leave-one-out in closed form, or held out in parts. With half_life="auto" they are the last 1,000
    rows of the stream, each predicted before it was learnt, so that the threshold follows drift. It is then right for
    the next row; rows further ahead are missed more often where recent labels help to predict.

    Guarantee: if new rows are drawn as the validation rows were, and if one row more does not change the model, the
    true class is in the set with a probability of at least 1 − α, on average over rows. It is at most 1 − α + 1/(n + 1)
    where no two losses are equal. The guarantee does not hold after drift, unless half_life="auto" follows it, nor for
    rows of a class that was never learnt. Choosing ridge and head on the same rows costs a little on small tables.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows.
    alpha : float
        The share of rows whose true class may be missing, between 0 and 1.
    per_class : bool
        Whether the guarantee is to hold for the rows of each class, with one threshold per class. A class with fewer
        than 1/α − 1 validation rows is in every set.

    Returns
    -------
    array of bool of shape (n_samples, n_classes)
        Whether the class is in the set, in the order of `classes_`. A set may be empty: then no class is as likely as
        true classes usually are.

    References
    ----------
    Vovk, Gammerman and Shafer, Algorithmic learning in a random world, 2005. Sadinle, Lei and Wasserman, Least
    ambiguous set-valued classifiers with bounded error levels, 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> model = FisherDiscriminant().fit(X[::2], y[::2])
    >>> sets = model.predict_set(X[1::2], alpha=0.05)
    >>> bool(sets[range(len(sets)), y[1::2]].mean() >= 0.9)
    True
    """
    name = type(self).__name__
    alpha = check_number(name, "alpha", alpha, low=0.0, high=1.0, next_step="0.1 misses the class of one row in ten.")
    with lock_of(self):
        if self._statistics.multilabel:
            raise ValueError(
                f"{name}.predict_set: rows have several labels, and sets are for one label per row. Compare "
                "predict_proba with a threshold of your own for each label."
            )
        losses = self._held_out_losses()
        if losses is None:
            raise ValueError(
                f"{name}.predict_set: a set needs validation rows, which this model has none of. Set "
                f"{self._kind().parameter}='auto' or head='best', which choose on such rows, and give at least ten of "
                "them."
            )
        logs = self.predict_log_proba(X)
        bounds = losses.thresholds(alpha, logs.shape[1]) if per_class else losses.threshold(alpha)
    return np.asarray(-logs <= bounds)
