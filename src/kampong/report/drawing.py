"""Shared by all displays: axes, colours, column names, and a note if there is nothing to show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kampong._core.extras import extra
from kampong.report.pictures import MARKERS, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from kampong._core.compute import Float

INK, FAINT, LINE = "#1a1a1a", "#8a8a8a", "#332288"
LONGEST = 24
"""A longer name is cut in pictures."""


class Picture:
    """Base of the pictures: scikit-learn's convention of a display, `plot(ax)` that leaves `ax_` and `figure_`."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _open(self, ax: Axes | None, size: tuple[float, float] = (7.0, 5.0)) -> Axes:
        """Take the axes that are given, or make a figure."""
        with extra("plot", type(self).__name__):
            import matplotlib.pyplot as plt
        if ax is None:
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    @staticmethod
    def _say(ax: Axes, text: str) -> None:
        """Write a word in place of a picture."""
        ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color=INK, wrap=True)
        ax.set_xticks([])
        ax.set_yticks([])


def colour_of(number: int) -> str:
    """Return the colour of a class by its place."""
    return PALETTE[number % len(PALETTE)]


def marker_of(number: int) -> str:
    """Return the marker of a class by its place; classes of one colour have different ones."""
    return MARKERS[(number // len(PALETTE) + number) % len(MARKERS)]


def short(name: Any, longest: int = LONGEST) -> str:
    """Return a name that fits into a picture, and that matplotlib does not take for mathematics."""
    text = str(name)
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return text.replace("$", r"\$")


def unwrapped(estimator: Any, X: Any, feature_names: Any, who: str) -> tuple[Any, Any, np.ndarray]:
    """Return the model inside a pipeline, its rows, and the names of its columns.

    Parameters
    ----------
    estimator : estimator or Pipeline
        What the user gave.
    X : array-like or None
        The rows as the user has them.
    feature_names : sequence of str or None
        Names that the user gave.
    who : str
        Who asks, for the messages.

    Returns
    -------
    model : estimator
        The last step.
    X : array-like or None
        The rows as the last step gets them.
    names : array of str
        The names of its columns.
    """
    check_is_fitted(estimator)
    model, before = estimator, None
    if isinstance(estimator, Pipeline):
        model = estimator[-1]
        before = estimator[:-1] if len(estimator.steps) > 1 else None
    if before is not None and X is not None:
        X = before.transform(X)
    d = int(model.n_features_in_)
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    if feature_names is None and before is not None:
        try:
            feature_names = before.get_feature_names_out()
        except (AttributeError, ValueError):  # not every step can name its columns
            feature_names = None
    if feature_names is None:
        feature_names = [f"column {place}" for place in range(d)]
    names = np.asarray(feature_names, dtype=object)
    if names.shape != (d,):
        raise ValueError(
            f"{who}: {len(names)} feature names for {d} columns. Give one name a column, for instance "
            "vectorizer.get_feature_names_out()."
        )
    return model, X, names


def directions_of(model: Any, who: str) -> Float:
    """Return the directions of a linear model, one per row."""
    components = getattr(model, "components_", None)
    if components is None or components.shape[1] != model.n_features_in_:
        raise TypeError(
            f"{who}: {type(model).__name__} has no directions in the space of the columns. Give a linear estimator, "
            "such as FisherDiscriminant; ClassMapDisplay shows the classes of any."
        )
    return np.asarray(components, dtype=np.float64)


def spreads(X: Any) -> Float:
    """Return the standard deviation of each column."""
    from kampong.kernels.functions import moments

    is_sparse: bool = sparse.issparse(X)  # apart, so that X keeps its type
    return np.sqrt(moments(X.tocsr() if is_sparse else np.asarray(X, dtype=np.float64))[1])


def check_directions(who: str, directions: tuple[int, int], available: int) -> tuple[int, int]:
    """Return two numbers of directions, counted from 0."""
    first, second = directions
    if min(first, second) < 0 or max(first, second) >= available:
        raise ValueError(
            f"{who}: directions={directions!r}, but there are {available} directions, counted from 0. Choose two of "
            "them."
        )
    return int(first), int(second)
