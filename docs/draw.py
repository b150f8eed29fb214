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
from kampong.report import draw_classes

FOLDER = Path(__file__).parent / "pictures"


def main() -> None:
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
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / "wine.png", dpi=100)
    print(FOLDER / "wine.png")


if __name__ == "__main__":
    main()
