"""Statistics of rows that gain columns: as if the new columns had been zero in every row so far."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from kampong.checkpoint.contents import as_arrays
from kampong.statistics.means import ClassMeans

Kind = TypeVar("Kind", bound=ClassMeans)


def widened(statistics: Kind, n_features: int, budget: int | None = None) -> Kind:
    """Return statistics of more columns; those that are new have been zero so far.

    Parameters
    ----------
    statistics : ClassMeans
        What is known of narrower rows; it does not change.
    n_features : int
        The new width.
    budget : int, optional
        Bytes for a sample of rows, where the statistics keep one; unchanged by default.

    Returns
    -------
    ClassMeans
        Statistics of the same kind, equal to those of the rows with zeros behind their entries.
    """
    old = statistics.n_features
    state: dict[str, Any] = statistics.to_state()
    more = (0, n_features - old)
    state["form"][0] = n_features
    state["means"] = np.pad(state["means"], ((0, 0), more))
    if len(state["row_mean"]):
        state["row_mean"] = np.pad(state["row_mean"], more)
    if "scatter" in state:
        size = n_features * (n_features + 1) // 2  # a triangle row after row: new columns come behind
        state["scatter"] = np.pad(state["scatter"], (0, size - len(state["scatter"])))
        state["peak_diagonal"] = np.pad(state["peak_diagonal"], more)
    if "sample_form" in state:
        if budget is not None:
            state["sample_form"][0] = budget
        if state["sample_form"][1] == 0:  # dense rows, one behind the other
            rows = len(state["sample_keys"])
            state["sample_data"] = np.pad(state["sample_data"].reshape(rows, old), ((0, 0), more)).ravel()
            state["sample_first"] = np.arange(rows) * n_features
            state["sample_count"] = np.full(rows, n_features)
    return type(statistics).from_arrays(as_arrays(state))
