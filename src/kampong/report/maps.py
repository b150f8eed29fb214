"""Displays of a subspace: the classes in two directions, and the columns that make up the directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong.report.drawing import (
    FAINT,
    INK,
    LINE,
    Picture,
    check_directions,
    colour_of,
    directions_of,
    marker_of,
    short,
    spreads,
    unwrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kampong._core.compute import Float

INSIDE = 0.9
"""The part of a Gaussian class that lies within its ellipse."""

NAMED = 30
"""Above this many classes names are small; above 20 there is no legend."""


class ClassMapDisplay(Picture):
    """The classes in two directions: one point per row, one ellipse and one name per class.

    An ellipse holds nine of ten rows of a Gaussian class with the mean and covariance of its points. With one direction
    the classes are drawn one above the other.

    Parameters
    ----------
    points : array of shape (n_samples, n_components)
        Coordinates, as `transform` returns them.
    labels : array of shape (n_samples,)
        The class of each row.
    directions : pair of int, default=(0, 1)
        Which coordinates to show, counted from 0.
    shares : array of shape (n_components,), optional
        The part of the criterion that each direction holds, for the names of the axes.

    See Also
    --------
    BiplotDisplay : The same with the columns as arrows.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> from kampong.report import ClassMapDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> display = ClassMapDisplay.from_estimator(FisherDiscriminant().fit(X, y), X, y)
    >>> display.ax_.get_ylabel()
    'direction 2 (33 % of the criterion)'
    """

    def __init__(
        self, points: Any, labels: Any, *, directions: tuple[int, int] = (0, 1), shares: Float | None = None
    ) -> None:
        self.points, self.labels = np.asarray(points, dtype=np.float64), np.asarray(labels)
        if self.points.ndim != 2 or self.labels.shape != (len(self.points),):
            raise ValueError(
                f"ClassMapDisplay: points has shape {self.points.shape} and labels {self.labels.shape}; give one label "
                "per row of points."
            )
        self._legend = True
        self.flat = self.points.shape[1] == 1
        self.directions = (0, 0) if self.flat else check_directions("ClassMapDisplay", directions, self.points.shape[1])
        self.shares = shares

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, directions: tuple[int, int] = (0, 1), ax: Axes | None = None
    ) -> Self:
        """Draw rows as a fitted estimator sees them.

        Parameters
        ----------
        estimator : estimator
            A fitted estimator with `transform`, or a pipeline that ends with one.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.
        directions : pair of int
            Which directions to show, counted from 0.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ClassMapDisplay
            The picture; `ax_` and `figure_` are matplotlib's.
        """
        model, rows, _ = unwrapped(estimator, X, None, cls.__name__)
        shares = getattr(model, "criterion_ratio_", None)
        return cls(model.transform(rows), y, directions=directions, shares=shares).plot(ax)

    @classmethod
    def from_predictions(
        cls, points: Any, labels: Any, *, directions: tuple[int, int] = (0, 1), ax: Axes | None = None
    ) -> Self:
        """Draw coordinates that are at hand.

        Parameters
        ----------
        points : array-like of shape (n_samples, n_components)
            Coordinates.
        labels : array-like of shape (n_samples,)
            The class of each row, or what was predicted.
        directions : pair of int
            Which coordinates to show, counted from 0.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ClassMapDisplay
            The picture.
        """
        return cls(points, labels, directions=directions).plot(ax)

    def plot(self, ax: Axes | None = None, *, ellipses: bool = True, names: bool = True) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        ellipses : bool
            Whether to draw one ellipse per class.
        names : bool
            Whether to name each class at its mean.

        Returns
        -------
        ClassMapDisplay
            This picture.
        """
        ax = self._open(ax)
        if not len(self.points):
            self._say(ax, "no rows to show")
            return self
        classes = np.unique(self.labels)
        for number, label in enumerate(classes):
            chosen = self._shown(number, self.points[self.labels == label])
            colour = colour_of(number)
            look: dict[str, Any] = {"s": 14, "alpha": 0.55, "linewidths": 0, "label": short(label)}
            ax.scatter(chosen[:, 0], chosen[:, 1], color=colour, marker=marker_of(number), **look)
            if ellipses and not self.flat:
                outline(ax, chosen, colour)
        if names and not self.flat:  # above all points
            for number, label in enumerate(classes):
                self._name(ax, label, self.points[self.labels == label][:, list(self.directions)], number, len(classes))
        self._axes(ax, classes)
        return self

    def _shown(self, number: int, points: Float) -> Float:
        """Return what is drawn of a class: two coordinates, or one and a place in the strip of the class."""
        if not self.flat:
            return points[:, list(self.directions)]
        return np.column_stack([points[:, 0], number + np.linspace(-0.32, 0.32, len(points))])

    def _name(self, ax: Axes, label: Any, points: Float, number: int, count: int) -> None:
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colour_of(number), "alpha": 0.85}
        look: dict[str, Any] = {"fontsize": 10 if count <= NAMED else 7, "fontweight": "bold", "bbox": box}
        ax.annotate(short(label), tuple(points.mean(axis=0)), ha="center", va="center", color=INK, **look)

    def _axes(self, ax: Axes, classes: np.ndarray) -> None:
        ax.set_xlabel(self._axis(self.directions[0]))
        ax.set_ylabel("class" if self.flat else self._axis(self.directions[1]))
        if self.flat:
            ax.set_yticks(range(len(classes)), [short(label) for label in classes])
        elif self._legend and 1 < len(classes) <= 20:
            ax.legend(title="class", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)

    def _axis(self, number: int) -> str:
        name = f"direction {number + 1}"
        if self.shares is None or number >= len(self.shares) or self.shares[number] <= 0:
            return name
        return f"{name} ({100 * self.shares[number]:.0f} % of the criterion)"


class BiplotDisplay(ClassMapDisplay):
    """The classes in two directions, and the columns that make these directions as arrows.

    An arrow points where a row moves when its column grows by one standard deviation; all arrows have the same scale,
    which fills the picture. The longest ones are drawn.

    Parameters
    ----------
    points : array of shape (n_samples, n_components)
        Coordinates.
    labels : array of shape (n_samples,)
        The class of each row.
    arrows : array of shape (n_features, n_components)
        What one standard deviation of a column adds to the coordinates.
    names : array of str of shape (n_features,)
        The names of the columns.
    directions : pair of int, default=(0, 1)
        Which coordinates to show, counted from 0.
    n_columns : int, default=8
        How many arrows.
    shares : array of shape (n_components,), optional
        The part of the criterion that each direction holds.

    See Also
    --------
    LoadingsDisplay : The columns of each direction as bars.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> from kampong.report import BiplotDisplay
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> display = BiplotDisplay.from_estimator(FisherDiscriminant().fit(X, y), X, y, n_columns=3)
    >>> display.shown_
    ['flavanoids', 'proline', 'color_intensity']
    """

    def __init__(
        self,
        points: Any,
        labels: Any,
        arrows: Any,
        names: Any,
        *,
        directions: tuple[int, int] = (0, 1),
        n_columns: int = 8,
        shares: Float | None = None,
    ) -> None:
        super().__init__(points, labels, directions=directions, shares=shares)
        self.arrows, self.names, self.n_columns = np.asarray(arrows), np.asarray(names, dtype=object), n_columns
        if len(self.arrows) != len(self.names):
            raise ValueError(f"BiplotDisplay: {len(self.arrows)} arrows and {len(self.names)} names; give one each.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        directions: tuple[int, int] = (0, 1),
        feature_names: Any = None,
        n_columns: int = 8,
        ax: Axes | None = None,
    ) -> Self:
        """Draw rows and columns as a fitted linear estimator sees them.

        Parameters
        ----------
        estimator : estimator
            A fitted linear estimator, or a pipeline that ends with one.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their classes.
        directions : pair of int
            Which directions to show, counted from 0.
        feature_names : sequence of str, optional
            The names of the columns; by default those that the estimator was fitted with.
        n_columns : int
            How many arrows.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        BiplotDisplay
            The picture; `shown_` names the columns drawn, the longest arrow first.
        """
        model, rows, names = unwrapped(estimator, X, feature_names, cls.__name__)
        arrows = directions_of(model, cls.__name__).T * spreads(rows)[:, None]
        shares = getattr(model, "criterion_ratio_", None)
        picture = cls(
            model.transform(rows), y, arrows, names, directions=directions, n_columns=n_columns, shares=shares
        )
        return picture.plot(ax)

    def plot(self, ax: Axes | None = None, *, ellipses: bool = True, names: bool = True) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        ellipses : bool
            Whether to draw one ellipse per class.
        names : bool
            Whether to name each class at its mean.

        Returns
        -------
        BiplotDisplay
            This picture.
        """
        self._legend = not names
        super().plot(ax, ellipses=ellipses, names=names)
        ax = self.ax_
        self.shown_: list[str] = []
        if not len(self.points):
            return self
        ends = self.arrows[:, [self.directions[0]] if self.flat else list(self.directions)]
        ends = np.column_stack([ends, np.zeros(len(ends))]) if self.flat else ends
        lengths = np.linalg.norm(ends, axis=1)
        top = [place for place in np.argsort(-lengths, kind="stable")[: self.n_columns] if lengths[place] > 0]
        if not top:
            return self
        reach = np.abs(self.points[:, 0] if self.flat else self.points[:, list(self.directions)]).max()
        scale = 0.85 * reach / lengths[top].max()
        for number, place in enumerate(top):
            start = np.array([0.0, -0.8 - 0.4 * number]) if self.flat else np.zeros(2)
            end = start + scale * ends[place]
            self._arrow(ax, start, end, short(self.names[place], 18))
            self.shown_.append(str(self.names[place]))
        if self.flat:
            ax.set_ylim(-0.8 - 0.4 * len(top), None)
        ax.margins(0.15)
        ax.autoscale_view()
        return self

    @staticmethod
    def _arrow(ax: Axes, start: Float, end: Float, name: str) -> None:
        ax.annotate("", tuple(end), tuple(start), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.1})
        side = "left" if end[0] >= start[0] else "right"
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}
        look: dict[str, Any] = {"fontsize": 9, "color": INK, "fontstyle": "italic", "bbox": box}
        away = (4 if side == "left" else -4, 0)
        ax.annotate(name, tuple(end), away, ha=side, va="center", textcoords="offset points", **look)


class LoadingsDisplay(Picture):
    """The columns that make each direction, the largest first: numbers of a table, or words of texts.

    A bar is what one standard deviation of the column adds to the coordinate, where rows were given; else the entry of
    the direction itself.

    Parameters
    ----------
    loadings : array of shape (n_components, n_features)
        What each column adds to each coordinate.
    names : array of str of shape (n_features,)
        The names of the columns.
    directions : sequence of int, default=(0, 1)
        Which directions to show, counted from 0.
    n_columns : int, default=10
        How many columns of each.
    scaled : bool, default=False
        Whether a bar is of a standard deviation, or of one unit of the column.

    See Also
    --------
    BiplotDisplay : Two directions at once, with the rows.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> from kampong.report import LoadingsDisplay
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> display = LoadingsDisplay.from_estimator(FisherDiscriminant().fit(X, y), X, n_columns=3)
    >>> display.top(0)
    ['flavanoids', 'od280/od315_of_diluted_wines', 'proline']
    """

    def __init__(
        self, loadings: Any, names: Any, *, directions: Any = (0, 1), n_columns: int = 10, scaled: bool = False
    ) -> None:
        self.loadings, self.names = np.atleast_2d(np.asarray(loadings)), np.asarray(names, dtype=object)
        if self.loadings.shape[1] != len(self.names):
            raise ValueError(
                f"LoadingsDisplay: loadings has {self.loadings.shape[1]} columns, and there are {len(self.names)} "
                "names; give one name a column."
            )
        self.directions = [int(one) for one in directions if 0 <= one < len(self.loadings)]
        self.n_columns, self.scaled = n_columns, scaled
        if not self.directions:
            raise ValueError(
                f"LoadingsDisplay: directions={directions!r}, but there are {len(self.loadings)} directions, counted "
                "from 0."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        directions: Any = (0, 1),
        feature_names: Any = None,
        n_columns: int = 10,
        ax: Any = None,
    ) -> Self:
        """Draw the directions of a fitted linear estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted linear estimator, or a pipeline that ends with one.
        X : array-like or sparse matrix of shape (n_samples, n_features), optional
            Rows, for the standard deviations of the columns.
        directions : sequence of int
            Which directions to show, counted from 0; those that do not exist are left out.
        feature_names : sequence of str, optional
            The names of the columns; for text `vectorizer.get_feature_names_out()`. By default those that the estimator
            was fitted with.
        n_columns : int
            How many columns of each direction.
        ax : array of matplotlib Axes, optional
            Where to draw, one a direction; a new figure by default.

        Returns
        -------
        LoadingsDisplay
            The picture; `axes_` holds one axes per direction.
        """
        model, rows, names = unwrapped(estimator, X, feature_names, cls.__name__)
        loadings = directions_of(model, cls.__name__)
        if rows is not None:
            loadings = loadings * spreads(rows)
        picture = cls(loadings, names, directions=directions, n_columns=n_columns, scaled=rows is not None)
        return picture.plot(ax)

    def top(self, direction: int) -> list[str]:
        """Return the names of the largest columns of a direction.

        Parameters
        ----------
        direction : int
            Which one, counted from 0.

        Returns
        -------
        list of str
            The largest first.
        """
        return [str(self.names[place]) for place in self._places(direction)]

    def _places(self, direction: int) -> np.ndarray:
        sizes = np.abs(self.loadings[direction])
        order = np.argsort(-sizes, kind="stable")[: self.n_columns]
        return np.asarray(order[sizes[order] > 0])

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : array of matplotlib Axes, optional
            Where to draw, one a direction; a new figure by default.

        Returns
        -------
        LoadingsDisplay
            This picture.
        """
        count = len(self.directions)
        if ax is None:
            first = self._open(None, (4.2 * count, 0.9 + 0.32 * self.n_columns))
            figure = first.figure
            first.remove()
            ax = figure.subplots(1, count, squeeze=False)[0]
        axes = list(np.atleast_1d(ax).ravel())
        if len(axes) < count:
            raise ValueError(f"LoadingsDisplay: {count} directions need as many axes, got {len(axes)}.")
        for one, direction in zip(axes, self.directions, strict=False):
            self._bars(self._open(one), direction)
        self.axes_ = axes[:count]
        return self

    def _bars(self, ax: Axes, direction: int) -> None:
        ax.set_title(f"direction {direction + 1}", fontsize=11)
        places = self._places(direction)[::-1]
        if not len(places):
            self._say(ax, "this direction is zero")
            return
        values = self.loadings[direction][places]
        ax.barh(range(len(places)), values, color=[LINE if value >= 0 else "#CC6677" for value in values], height=0.7)
        ax.set_yticks(range(len(places)), [short(self.names[place]) for place in places])
        ax.axvline(0.0, color=FAINT, lw=0.8)
        ax.set_xlabel("added by one standard deviation" if self.scaled else "entry of the direction")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)


def outline(ax: Axes, points: Float, colour: str) -> None:
    """Draw the ellipse of a class; a class of fewer than three points has none."""
    from matplotlib.patches import Ellipse

    if len(points) < 3:
        return
    values, vectors = np.linalg.eigh(np.cov(points.T))
    if values[-1] <= 0:
        return
    width, height = 2.0 * np.sqrt(-2.0 * np.log(1.0 - INSIDE) * np.maximum(values[::-1], 0.0))
    angle = float(np.degrees(np.arctan2(vectors[1, -1], vectors[0, -1])))
    centre = (float(points[:, 0].mean()), float(points[:, 1].mean()))
    ax.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, edgecolor=colour, lw=1.4))
