"""Figure 1 of Tsang, Kocsor and Kwok 2006: digits 0, 6 and 9 in two features of KFD and of MMDA.

The picture is drawn where matplotlib is installed and KAMPONG_PICTURES names a folder. What it shows is printed:
how far apart the classes are in the two features.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from kampong.margin.mmda import MaximumMarginDiscriminant
from reproduction._sets import Split, load


def main(
    sets: tuple[str, ...] = ("optdigits",), extractors: tuple[str, ...] = ("KFD", "MMDA"), shrink: int = 1
) -> None:
    """Print how well two features tell the three digits apart, and draw them."""
    data = load("optdigits", shrink) if "optdigits" in sets else None
    if data is None:
        return
    train, test = np.isin(data.y, (0, 6, 9)), np.isin(data.y_test, (0, 6, 9))
    data = Split(data.X[train], data.y[train], data.X_test[test], data.y_test[test])
    print("\ndigits 0, 6 and 9 of optdigits in two features: test rows, nearest neighbour, between/within variance")
    planes = {}
    for name, model in models().items():
        if name not in extractors:
            continue
        Z = model.fit_transform(data.X, data.y)[:, :2]
        planes[name] = model.transform(data.X_test)[:, :2]
        accuracy = KNeighborsClassifier(1).fit(Z, data.y).score(planes[name], data.y_test)
        print(f"  {name:<5} {100 * accuracy:6.2f} % {between_over_within(planes[name], data.y_test):8.2f}")
    folder = os.environ.get("KAMPONG_PICTURES")
    if folder:
        _draw(planes, data.y_test, Path(folder) / "mmda_digits.png")


def models() -> dict[str, Any]:
    """Return the two extractors."""
    # two of three classes: the third is what neither is
    models: dict[str, Any] = {"MMDA": MaximumMarginDiscriminant()}
    try:
        from kampong.estimators.kernel_fisher import KernelFisherDiscriminant
    except ImportError:
        return models
    return {"KFD": KernelFisherDiscriminant(), **models}


def between_over_within(Z: np.ndarray, y: np.ndarray) -> float:
    """Return the trace of S_b over that of S_w."""
    means = np.array([Z[y == k].mean(axis=0) for k in np.unique(y)])
    within = np.mean(((Z - means[np.searchsorted(np.unique(y), y)]) ** 2).sum(axis=1))
    return float(Z.var(axis=0).sum() / within - 1)


def _draw(planes: dict[str, np.ndarray], y: np.ndarray, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(planes), figsize=(5 * len(planes), 4), squeeze=False)
    for axis, (name, Z) in zip(axes[0], planes.items(), strict=True):
        for digit, colour, marker in ((0, "#0072b2", "o"), (6, "#d55e00", "s"), (9, "#009e73", "^")):
            axis.scatter(*Z[y == digit].T, s=12, c=colour, marker=marker, label=f"digit {digit}")
        axis.set(title=name, xlabel="feature 1", ylabel="feature 2")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
