"""A display of a classifier in the plane: regions, margins and support vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from kampong.contract import stream_model
from kampong.report.drawing import INK, Picture, colour_of, marker_of, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class MarginDisplay(Picture):
    """A classifier of rows with two columns: its regions, its margins, and its support vectors in circles.

    For two classes the line is where the score is 0, the dashed ones are where it is −1 and 1; for more classes the
    lines are where the prediction changes.

    Parameters
    ----------
    grid : tuple of arrays
        Two arrays of the places at which scores are known, as `numpy.meshgrid` returns them.
    scores : array
        The scores there, or the numbers of the predicted classes.
    X : array of shape (n_samples, 2)
        The rows.
    y : array of shape (n_samples,)
        Their classes.
    support : array of shape (n_support, 2), optional
        The support vectors.
    names : sequence of str, default=('', '')
        The names of the two columns.

    See Also
    --------
    ClassMapDisplay : Rows of any width, in two directions.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from kampong import CoreVectorClassifier
    >>> from kampong.report import MarginDisplay
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> rows = X[y < 2].iloc[:, :2]
    >>> display = MarginDisplay.from_estimator(CoreVectorClassifier().fit(rows, y[y < 2]), rows, y[y < 2])
    >>> display.ax_.get_xlabel()
    'sepal length (cm)'
    """

    def __init__(self, grid: Any, scores: Any, X: Any, y: Any, *, support: Any = None, names: Any = ("", "")) -> None:
        self.grid, self.scores = grid, np.asarray(scores)
        self.X, self.y, self.names = np.asarray(X, dtype=np.float64), np.asarray(y), names
        self.support = np.zeros((0, 2)) if support is None else np.asarray(support)

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, resolution: int = 200, ax: Axes | None = None) -> Self:
        """Draw a fitted classifier of two columns.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier; support vectors are shown where it has `support_vectors_`.
        X : array-like of shape (n_samples, 2)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.
        resolution : int
            At how many places along each column the classifier is asked.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        MarginDisplay
            The picture.
        """
        check_is_fitted(estimator)
        learnt = stream_model(estimator)
        given = learnt.read("feature_names_in_")
        names = [str(name) for name in (("column 0", "column 1") if given is None else given)]
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != 2:
            raise ValueError(
                f"{cls.__name__}: X has shape {rows.shape}, and this picture needs two columns. Fit the classifier on "
                "two columns or on two directions of a subspace (`transform`), or use ClassMapDisplay."
            )
        low, high = (rows.min(axis=0), rows.max(axis=0)) if len(rows) else (np.zeros(2), np.ones(2))
        room = 0.08 * np.where(high > low, high - low, 1.0)
        sides = [np.linspace(low[i] - room[i], high[i] + room[i], resolution) for i in (0, 1)]
        grid = np.meshgrid(*sides)
        places: Any = np.column_stack([one.ravel() for one in grid])
        if given is not None:
            places = type(X)(places, columns=given)
        decide = learnt.read("decision_function")
        if len(estimator.classes_) == 2 and decide is not None:
            scores = decide(places)
        else:
            scores = np.searchsorted(estimator.classes_, estimator.predict(places))
        support = learnt.read("support_vectors_")
        is_sparse: bool = sparse.issparse(support)  # apart, so that support keeps its type
        support = support.toarray() if is_sparse else support
        picture = cls(grid, scores.reshape(grid[0].shape), rows, y, support=support, names=names)
        return picture.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        MarginDisplay
            This picture.
        """
        ax = self._open(ax, (6.5, 5.0))
        classes = np.unique(self.y)
        if self.scores.dtype.kind == "f":
            edges = [-np.inf, 0.0, np.inf]
            ax.contourf(*self.grid, self.scores, levels=edges, colors=[colour_of(0), colour_of(1)], alpha=0.13)
            ax.contour(
                *self.grid,
                self.scores,
                levels=[-1, 0, 1],
                colors=INK,
                linestyles=["--", "-", "--"],
                linewidths=[0.9, 1.5, 0.9],
            )
        else:
            count = int(self.scores.max()) + 1
            levels = np.arange(count + 1) - 0.5
            colours = [colour_of(number) for number in range(count)]
            ax.contourf(*self.grid, self.scores, levels=levels, colors=colours, alpha=0.13)
            for number in range(count):
                ax.contour(*self.grid, (self.scores == number).astype(float), levels=[0.5], colors=INK, linewidths=0.9)
        for number, label in enumerate(classes):
            chosen = self.X[self.y == label]
            look: dict[str, Any] = {"s": 18, "linewidths": 0, "label": short(label)}
            ax.scatter(chosen[:, 0], chosen[:, 1], color=colour_of(number), marker=marker_of(number), **look)
        if len(self.support):
            rings: dict[str, Any] = {"s": 70, "facecolors": "none", "edgecolors": INK, "linewidths": 0.9}
            ax.scatter(self.support[:, 0], self.support[:, 1], label="support vectors", **rings)
        if not len(self.X):
            ax.set_title("no rows to show", fontsize=11)
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.names[1])
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        return self
