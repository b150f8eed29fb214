"""Draw the pictures of the documentation again: `python docs/draw.py`."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import matplotlib.pyplot as plt
import numpy as np
from benchmarks import first_page
from matplotlib.ticker import PercentFormatter
from scipy.spatial import ConvexHull
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import scale

from kampong import FisherDiscriminant, MarginSubspace
from kampong.criteria import MarginCriterion
from kampong.margin import MaxMinOverClassifier
from kampong.report import BiplotDisplay, ClassMapDisplay, ConfusionDisplay, ReliabilityDisplay, draw_classes
from kampong.solvers import solve
from kampong.statistics import ClassScatter

FOLDER = Path(__file__).parent / "pictures"
COLOURS = ("#0072B2", "#D55E00", "#0072B2", "#007A59", "#B0568A", "#555555")
"""Of Okabe and Ito, which the colour-blind tell apart; some are darker here, because text is drawn in them."""


def main() -> None:
    """Draw every picture."""
    FOLDER.mkdir(exist_ok=True)
    late_classes()
    bias()
    one_criterion()
    one_geometry()
    displays()
    card()


def late_classes() -> None:
    """Draw the README's picture from the script that prints its figures, large enough to be read on a phone."""
    found = first_page.late_classes()
    known = 2 * np.arange(1, first_page.STEPS + 1)
    with plt.rc_context({"font.size": 15, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
        place = np.inf
        for (name, curves), colour, marker in zip(found.items(), COLOURS, "oDo^vs", strict=True):
            means, ours = curves.mean(axis=0), name.startswith("kampong")
            dashes = "--" if name == "kampong" or "refitted" in name else "-"
            axes.plot(
                known,
                means,
                dashes,
                marker=marker,
                markersize=9,
                linewidth=3.5 if ours else 2.2,
                color=colour,
                zorder=3 if ours else 2,
            )
            place = min(means[-1], place - 0.043)  # the room that a line of text needs
            axes.annotate(
                f"{name} {means[-1]:.1%}",
                (known[-1], means[-1]),
                (known[-1] + 0.6, place),
                color=colour,
                va="center",
                fontweight="bold" if ours else "normal",
                arrowprops={"arrowstyle": "-", "color": colour, "shrinkA": 0, "shrinkB": 6, "relpos": (0, 0.5)},
                annotation_clip=False,
            )
        axes.plot([], [], "k-", linewidth=2.5, label="keeps no rows")
        axes.plot([], [], "k--", linewidth=2.5, label="keeps rows (kampong: up to 64 MB)")
        axes.set(xticks=known, xlabel="digits learnt so far", ylabel="accuracy on these digits", ylim=(0.5, 1.005))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_title("Two new digits arrive with each batch", loc="left", pad=14)
        axes.legend(loc="lower left", frameon=False)
        figure.savefig(FOLDER / "late_classes.png", dpi=150)
    print(FOLDER / "late_classes.png")


def bias() -> None:
    """Draw both biases of MaxMinOver on two clouds far from the origin: the augmented one loses margin there."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], 20)
    X = rng.uniform([3.0, 0.0], [4.6, 1.5], size=(40, 2)) + np.where(y[:, None] > 0, [0.0, 6.6], [0.0, 3.0])
    names = np.where(y > 0, "first class", "second class")
    figure, panels = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", sharex=True, sharey=True)
    for axes, kind in zip(panels, ("augmented", "exact"), strict=True):
        model = MaxMinOverClassifier(kernel="linear", bias=kind, tol=1e-6).fit(X, y)
        draw_classes(X, names, axes=axes, title=f'bias="{kind}": margin {model.margin_[0]:.3f}')
        across, up = np.meshgrid(np.linspace(0, 8.5, 200), np.linspace(0, 8.5, 200))
        scores = model.decision_function(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
        axes.contour(across, up, scores, levels=[-1, 0, 1], colors="black", linestyles=["dashed", "solid", "dashed"])
        support = X[model.support_]
        axes.scatter(support[:, 0], support[:, 1], s=160, facecolors="none", edgecolors="black", label="support vector")
        axes.plot(0, 0, "k+", markersize=14, label="origin")
        axes.set(xlabel="first feature", ylabel="second feature", xlim=(-0.3, 8.5), ylim=(-0.3, 8.5), aspect="equal")
        axes.legend(loc="lower right")
    figure.savefig(FOLDER / "bias.png", dpi=100)
    print(FOLDER / "bias.png")


def one_criterion() -> None:
    """Draw how the best direction turns as ε rises, and where the eigenvalues of the criterion cross zero."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 150)
    shape = np.array([[2.1, 0.0], [1.35, 0.55]])
    X = rng.standard_normal((300, 2)) @ shape.T + np.where(y[:, None] > 0, [1.5, -0.1], [-1.5, 0.1])
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
    draw_classes(X, np.array(["first class", "second class"])[y], axes=left)
    for text in list(left.texts):
        text.remove()  # the names would cover the means
    centres = np.array([X[y == k].mean(axis=0) for k in (0, 1)])
    left.plot(*centres.T, "o", color="black", markersize=8, zorder=5, label="class means")
    best = FisherDiscriminant(1, ridge=0).fit(X, y)
    ratio = float(best.eigenvalues_[0])
    middle = X.mean(axis=0)
    for epsilon, shade in zip((0.0, 0.1, 0.3, ratio), (0.75, 0.55, 0.35, 0.0), strict=True):
        exact = epsilon == ratio
        w = best.components_[0] if exact else MarginSubspace(1, epsilon=epsilon).fit(X, y).components_[0]
        w = 5.5 * w / np.linalg.norm(w) * np.sign(w[0])
        left.annotate(
            "", middle + w, middle, zorder=6, arrowprops={"arrowstyle": "-|>", "linewidth": 2.2, "color": str(shade)}
        )
        name = f"ε = {epsilon:.2f}: Fisher" if exact else f"ε = {epsilon:g}"
        left.annotate(name, middle + 1.06 * w, ha="left", va="center", zorder=7, fontsize=10)
    left.set(xlabel="first column", ylabel="second column", aspect="equal", xlim=(-7, 9), ylim=(-6.2, 5.4))
    left.set_title("the dearer spread is, the more the direction turns")
    left.legend(loc="lower left")
    X, y = load_wine(return_X_y=True)
    statistics = ClassScatter(X.shape[1]).update(scale(X), y)
    ratios = FisherDiscriminant(2, ridge=0).fit(scale(X), y).eigenvalues_
    grid = np.linspace(0, 1.15 * ratios[0], 120)
    curves = [solve(MarginCriterion(epsilon), statistics, 2, solver="scatter").eigenvalues for epsilon in grid]
    for number, (curve, ratio) in enumerate(zip(np.transpose(curves), ratios, strict=True)):
        (line,) = right.plot(grid, curve, linewidth=2.2, label=f"eigenvalue {number + 1} of S_b − ε·S_w")
        right.axvline(ratio, color=line.get_color(), linestyle=":", label=f"Fisher's ratio {number + 1}: {ratio:.2f}")
    right.axhline(0, color="black", linewidth=0.8)
    right.set(
        xlabel="ε, the price of spread", ylabel="eigenvalue λ", title="each eigenvalue is zero at a ratio of Fisher's"
    )
    right.legend()
    figure.savefig(FOLDER / "one_criterion.png", dpi=100)
    print(FOLDER / "one_criterion.png")


def one_geometry() -> None:
    """Draw two hulls and their shortest line, the same as one hull and a walk on it, and the gap of its steps."""
    rng = np.random.default_rng(5)
    first = rng.standard_normal((14, 2)) * [0.9, 0.7] + [0.5, 3.2]
    second = rng.standard_normal((14, 2)) * [1.0, 0.7] + [2.6, 0.2]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14.5, 4.9), layout="constrained")
    draw_classes(np.vstack([first, second]), ["first class"] * 14 + ["second class"] * 14, axes=left)
    for rows, colour in zip((first, second), _colours(left), strict=True):
        corners = ConvexHull(rows).vertices
        left.fill(*rows[corners].T, color=colour, alpha=0.15, zorder=0)
    model = MaxMinOverClassifier(kernel="linear", bias="exact", tol=1e-9).fit(
        np.vstack([first, second]), np.repeat([1, -1], 14)
    )
    walk, gaps, ends = _walk(first, second)
    left.plot(*np.transpose(ends), "k-", linewidth=2.5, label=f"shortest line: {np.linalg.norm(walk[-1]):.2f}")
    half, normal = np.mean(ends, axis=0), walk[-1] / np.linalg.norm(walk[-1])
    along = np.array([normal[1], -normal[0]]) * 4.5
    for shift, style in ((0, "-"), (model.margin_[0], "--"), (-model.margin_[0], "--")):
        left.plot(
            *np.transpose([half + shift * normal - along, half + shift * normal + along]), "k" + style, linewidth=1
        )
    left.set(xlabel="first column", ylabel="second column", aspect="equal", xlim=(-2, 5.4), ylim=(-2, 5.4))
    left.set_title(f"the margin, {model.margin_[0]:.2f}, is half of the shortest line")
    left.legend(loc="upper right")
    points = (first[:, None] - second).reshape(-1, 2)
    corners = points[ConvexHull(points).vertices]
    middle.fill(*corners.T, color="0.9", zorder=0)
    middle.scatter(*points.T, s=12, color="0.45", label="differences of two rows")
    middle.plot(*np.transpose(walk[:60]), ".-", color="tab:orange", markersize=6, label="steps of the walk")
    middle.plot(0, 0, "k+", markersize=16, markeredgewidth=2, label="origin")
    middle.plot(*np.transpose([[0, 0], walk[-1]]), "k-", linewidth=2.5, label="nearest point")
    middle.set(
        xlabel="first column",
        ylabel="second column",
        aspect="equal",
        title="one hull, and its point nearest to the origin",
    )
    middle.legend(loc="best", fontsize=8)
    best, gaps = np.linalg.norm(walk[-1]), gaps[:60]
    steps = np.arange(1, len(gaps) + 1)
    right.loglog(steps, gaps, "o-", markersize=4, label="duality gap: known")
    excess = [1 - best / np.linalg.norm(v) for v in walk[: len(gaps)]]
    right.loglog(steps, excess, "s--", markersize=4, label="true distance from the end: not known")
    right.set(
        xlabel="step", ylabel="share of the length", title="the gap is above the error at every step", ylim=(1e-6, 3)
    )
    right.legend()
    figure.savefig(FOLDER / "one_geometry.png", dpi=100)
    print(FOLDER / "one_geometry.png")


def displays() -> None:
    """Draw four pictures for the page that lists them: wine as it was learnt, and digits that were not learnt."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = FisherDiscriminant().fit(X, y)
    figure, axes = plt.subplots(2, 2, figsize=(11, 9), layout="constrained")
    ClassMapDisplay.from_estimator(model, X, y, ax=axes[0, 0])
    BiplotDisplay.from_estimator(model, X, y, ax=axes[0, 1])
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X[::4], y[::4])
    rest = np.arange(len(y)) % 4 != 0
    ConfusionDisplay.from_estimator(model, X[rest], y[rest], ax=axes[1, 0])
    ReliabilityDisplay.from_estimator(model, X[rest], y[rest], ax=axes[1, 1])
    figure.savefig(FOLDER / "displays.png", dpi=100)
    plt.close(figure)


def card() -> None:
    """Draw the picture that a message shows with a link to the site: five digits along two directions."""
    X, y = load_digits(n_class=5, return_X_y=True)
    Z = FisherDiscriminant().fit(X, y).transform(X)
    with plt.rc_context({"font.size": 22}):
        figure = plt.figure(figsize=(12, 6.3))
        axes = figure.add_axes((0.48, 0.02, 0.5, 0.96))
        for digit in range(5):
            place = y == digit
            axes.scatter(*Z[place, :2].T, s=16, color=plt.colormaps["tab10"](digit))
            axes.annotate(
                str(digit), Z[place, :2].mean(axis=0), fontsize=30, fontweight="bold", ha="center", va="center"
            )
        axes.axis("off")
        figure.text(0.05, 0.66, "kampong", fontsize=64, fontweight="bold")
        figure.text(0.05, 0.30, "Supervised dimension\nreduction and classification\nin one pass", linespacing=1.5)
    figure.savefig(FOLDER / "card.png", dpi=100)
    plt.close(figure)


def _walk(first: np.ndarray, second: np.ndarray) -> tuple[list[np.ndarray], list[float], list[np.ndarray]]:
    """Return the places of a walk, each step towards the point of least margin, its gaps, and the ends of the line."""
    pairs = [(i, j) for i in range(len(first)) for j in range(len(second))]
    points = np.array([first[i] - second[j] for i, j in pairs])
    weights = np.zeros(len(points))
    weights[np.argmax((points**2).sum(axis=1))] = 1.0
    places, gaps = [points.T @ weights], []
    for _ in range(4000):
        v = places[-1]
        scores = points @ v
        near = int(np.argmin(scores))
        gaps.append(float((v @ v - scores[near]) / (v @ v)))
        move = points[near] - v
        step = min(1.0, float(-(v @ move) / (move @ move)))
        weights *= 1 - step
        weights[near] += step
        places.append(points.T @ weights)
    ends = [sum(w * first[i] for w, (i, _) in zip(weights, pairs, strict=True))]
    ends.append(sum(w * second[j] for w, (_, j) in zip(weights, pairs, strict=True)))
    return places, gaps, ends


def _colours(axes: plt.Axes) -> list[tuple[float, ...]]:
    """Return the colours that the classes were drawn in."""
    return [tuple(collection.get_facecolor()[0][:3]) for collection in axes.collections]


if __name__ == "__main__":
    main()
