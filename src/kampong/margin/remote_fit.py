"""Margin models on rows that lie elsewhere, for the adapter to Dask: how they are fitted, and how they map rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kampong.margin.core_vector import CoreVectorClassifier
from kampong.margin.mmda import MaximumMarginDiscriminant

if TYPE_CHECKING:
    import numpy as np

    from kampong._core.compute import Float, Integer, Rows
    from kampong.kernels.functions import Columns, Kernel
    from kampong.margin.remote import Holder

PartsModel = CoreVectorClassifier | MaximumMarginDiscriminant


class FeatureMap(NamedTuple):
    """How MMDA maps rows: by its directions, or by kernel values to its support vectors where those are None."""

    directions: Float | None
    kernel: Kernel
    coefficients: Rows
    support: Integer


def fit_on_parts(model: PartsModel, holder: Holder, columns: Columns, classes: np.ndarray, codes: Integer) -> None:
    """Fit a model on rows that lie elsewhere.

    Parameters
    ----------
    model : CoreVectorClassifier or MaximumMarginDiscriminant
        Fitted in place. The class means of a MaximumMarginDiscriminant are left to the holder of the rows.
    holder : Holder
        Whoever holds the rows.
    columns : Columns
        Means and variances of the columns.
    classes : array
        The classes, sorted.
    codes : array of int
        The class of each row, as a place in `classes`.
    """
    model._fit_elsewhere(holder, columns, classes, codes)


def feature_map(model: MaximumMarginDiscriminant) -> FeatureMap:
    """Return how a model maps rows, also before its class means are known."""
    return FeatureMap(model._components, model._kernel, model.features_, model.support_)
