"""Static pictures: the classes in two directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.extras import how_to_install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Paul Tol's "muted" palette: distinct for colour-blind readers, and readable in print.
PALETTE = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499", "#777777")
MARKERS = "os^vD"


def draw_classes(
    points: Any, labels: Any, *, axes: Axes | None = None, directions: tuple[int, int] = (0, 1), title: str = ""
) -> Axes:
    """Scatter rows in two directions of a subspace, one colour and marker per class, each class named at its mean.

    Parameters
    ----------
    points : array of shape (rows, components)
        What `transform` returned. With a single component the second axis shows the classes one above the other.
    labels : array of shape (rows,)
        The class of each row.
    axes : matplotlib Axes, optional
        Where to draw; a new figure by default.
    directions : pair of int, default=(0, 1)
        Which components.
    title : str, default=""
        The title of the picture.

    Returns
    -------
    Axes
        The axes drawn on; `axes.figure.savefig(path)` writes the picture.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.report import draw_classes
    >>> X, y = load_iris(return_X_y=True)
    >>> axes = draw_classes(FisherDiscriminant().fit_transform(X, y), y, title="iris")
    >>> axes.get_xlabel()
    'direction 1'
    """
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"draw_classes needs matplotlib, which is not installed. Install the plot extra: {how_to_install('plot')}.",
            name="matplotlib",
        ) from None

    points, labels = np.asarray(points), np.asarray(labels)
    if points.ndim != 2 or len(points) != len(labels):
        raise ValueError(
            f"draw_classes: points has shape {points.shape} and labels {labels.shape}; give one label per row."
        )
    if axes is None:
        _, axes = plt.subplots(figsize=(8, 5.5), layout="constrained")
    axes.set_title(title)
    if not len(points):
        axes.text(0.5, 0.5, "no rows to show", ha="center", va="center", transform=axes.transAxes)
        return axes
    classes = np.unique(labels)
    first, second = directions
    flat = points.shape[1] == 1
    if not flat and max(directions) >= points.shape[1]:
        raise ValueError(f"draw_classes: directions {directions} need more columns than points has: {points.shape[1]}.")
    for number, label in enumerate(classes):
        chosen = points[labels == label]
        across = chosen[:, 0 if flat else first]
        up = np.linspace(-0.35, 0.35, len(chosen)) + number if flat else chosen[:, second]
        colour = PALETTE[number % len(PALETTE)]
        marker = MARKERS[(number // len(PALETTE) + number) % len(MARKERS)]
        axes.scatter(across, up, s=14, c=colour, marker=marker, alpha=0.6, linewidths=0, label=str(label))
        axes.annotate(
            str(label),
            (across.mean(), up.mean()),
            ha="center",
            va="center",
            fontsize=11,
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": colour, "alpha": 0.85},
        )
    axes.set_xlabel(f"direction {0 if flat else first + 1}" if not flat else "direction 1")
    axes.set_ylabel("class" if flat else f"direction {second + 1}")
    if flat:
        axes.set_yticks(range(len(classes)), [str(label) for label in classes])
    if len(classes) <= 20:
        axes.legend(title="class", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return axes
