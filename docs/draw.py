"""Draw the pictures of the documentation again: `python docs/draw.py`."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from kampong import FisherDiscriminant
from kampong.kernels.margin import MaxMinOverClassifier
from kampong.report import draw_classes

FOLDER = Path(__file__).parent / "pictures"


def main() -> None:
    """Draw every picture."""
    FOLDER.mkdir(exist_ok=True)
    wine()
    bias()


def wine() -> None:
    """Draw the README's picture: wines by PCA and by kampong, each with the accuracy that its two directions allow."""
    X, y = load_wine(return_X_y=True)
    names = np.array(["cultivar 1", "cultivar 2", "cultivar 3"])[y]
    figure, panels = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
    for axes, title, model in zip(
        panels,
        ("PCA keeps the variance", "kampong keeps the classes apart"),
        (PCA(2), FisherDiscriminant(2)),
        strict=True,
    ):
        accuracy = cross_val_score(make_pipeline(model, KNeighborsClassifier(5)), X, y, cv=5).mean()
        draw_classes(model.fit(X, y).transform(X), names, axes=axes, title=f"{title}: 5-NN right on {accuracy:.0%}")
    panels[0].get_legend().remove()
    figure.savefig(FOLDER / "wine.png", dpi=100)
    print(FOLDER / "wine.png")


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


if __name__ == "__main__":
    main()
