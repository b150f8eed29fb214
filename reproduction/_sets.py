"""Where the data sets of the reproductions come from: files named by KAMPONG_DATA, or scikit-learn's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from kampong.datasets import balance_scale
from reproduction._result import MissingDataError, checksum


class Split(NamedTuple):
    """Rows and labels to train and to test with."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(np.unique(self.y))


def data_folder() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("KAMPONG_DATA", default))


OPENED: set[Path] = set()
"""The files read since it was last cleared."""
_SUMS: dict[Path, str] = {}


def need(name: str) -> Path:
    """Return the path of a file of the data folder, or say what is missing."""
    path = data_folder() / name
    if not path.exists():
        raise MissingDataError(f"{name} is not here; set KAMPONG_DATA to the folder that holds it")
    OPENED.add(path)
    return path


def checksums() -> dict[str, str]:
    """Return the checksums of the files read."""
    for path in OPENED:
        if path not in _SUMS:
            _SUMS[path] = checksum(path)
    return {path.name: _SUMS[path] for path in sorted(OPENED)}


def whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows of a set and their labels, as float64: scikit-learn's or our own where they are the same."""
    bundled = {"iris": load_iris, "wine": load_wine}
    if name in bundled:
        X, y = bundled[name](return_X_y=True)
        return X, y
    if name == "balance_scale":
        X, labels = balance_scale()
        return X, np.unique(labels, return_inverse=True)[1]
    with np.load(need(f"{name}.npz"), allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
        if "scale" in arrays:
            X = X * float(arrays["scale"])
        if "X_test" in arrays:
            X_test = arrays["X_test"].astype(np.float64) * (float(arrays["scale"]) if "scale" in arrays else 1.0)
            X, y = np.vstack([X, X_test]), np.concatenate([y, arrays["y_test"].astype(np.int64)])
    return X, y


def load(name: str, shrink: int = 1) -> Split | None:
    """Return a set as float32, every `shrink`-th row of it; None, with a word on stdout, where it is not at hand."""
    if name in ("wine", "breast_cancer"):
        X, y = {"wine": load_wine, "breast_cancer": load_breast_cancer}[name](return_X_y=True)
        split = _cut(StandardScaler().fit_transform(X), y, test=0.5)
    else:
        path = data_folder() / f"{name}.npz"
        if not path.exists():
            print(f"  {name} is not here; set KAMPONG_DATA to the folder that holds it")
            return None
        OPENED.add(path)
        with np.load(path, allow_pickle=False) as arrays:
            parts = [_flat(arrays["X"]), arrays["y"]]
            if "X_test" in arrays:
                parts += [_flat(arrays["X_test"]), arrays["y_test"]]
        if name == "covertype":
            # the columns have units of their own, and 581,012 rows are more than the other extractors can take
            split = _cut(StandardScaler().fit_transform(parts[0]), parts[1], test=5000, train=15_000)
        elif len(parts) == 2:
            cut = len(parts[0]) * 4 // 5
            split = Split(parts[0][:cut], parts[1][:cut], parts[0][cut:], parts[1][cut:])
        else:
            split = Split(*parts)
    # a shuffle, since some sets are sorted by class
    order = np.random.default_rng(0).permutation(len(split.X))[: len(split.X) // shrink]
    return Split(split.X[order], split.y[order], split.X_test[::shrink], split.y_test[::shrink])


def _flat(X: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1).astype(np.float32)


def _cut(X: np.ndarray, y: np.ndarray, *, test: float, train: int | None = None) -> Split:
    """Return a random split, the same every time, with the share of every class."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=test, train_size=train, random_state=0, stratify=y)
    return Split(_flat(X), y, _flat(X_test), y_test)
