"""Whether two models can be merged: they are of one class, with the same parameters and the same columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

APART = ("cache_size", "random_state", "verbose", "warm_start")
"""Parameters that may differ: the seeds of two samples should rather do so."""


def blank_of_both(mine: Any, theirs: Any) -> Any:
    """Return a model with the parameters and columns of both that has learnt nothing; refuse models that differ."""
    name = type(mine).__name__
    if type(theirs) is not type(mine):
        raise TypeError(f"{name}.merge needs another {name}, got {type(theirs).__name__}.")
    for model in (mine, theirs):
        check_is_fitted(model)
    first, second = ({k: v for k, v in model.get_params().items() if k not in APART} for model in (mine, theirs))
    differing = [f"{k}={first[k]!r} and {k}={second[k]!r}" for k in first if not _equal(first[k], second[k])]
    if differing:
        raise ValueError(f"{name}.merge: the parameters differ: {'; '.join(differing)}. Fit both with the same.")
    if theirs.n_features_in_ != mine.n_features_in_:
        raise ValueError(
            f"{name}.merge: one has {mine.n_features_in_} features, the other {theirs.n_features_in_}. "
            "Both must see rows of the same width."
        )
    names = [list(getattr(model, "feature_names_in_", ())) for model in (mine, theirs)]
    if names[0] != names[1]:
        raise ValueError(f"{name}.merge: the feature names differ, so the columns would be mixed up.")
    result = clone(mine)
    result.n_features_in_ = mine.n_features_in_
    if names[0]:
        result.feature_names_in_ = mine.feature_names_in_
    return result


def _equal(mine: Any, theirs: Any) -> bool:
    """Tell whether two values of a parameter are the same; lists of numbers may be arrays."""
    if isinstance(mine, str) or isinstance(theirs, str) or mine is None or theirs is None:
        return bool(type(mine) is type(theirs) and mine == theirs)
    return bool(np.array_equal(mine, theirs))
