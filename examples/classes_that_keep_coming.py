"""Classes that come task by task, clients that never share a row, and rows that must be forgotten: all exact.

The digits come two classes at a time, as if new kinds of rows appeared over months. Then the same rows lie with ten
clients, who send bytes and no rows. Then one client asks for its rows to be removed. Each time the model is compared
with one that had all the right rows from the start. Run it with `python examples/classes_that_keep_coming.py [folder]`.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from kampong import KernelFisherDiscriminant
from kampong.adapters.federated import combine, contribution


def fresh() -> KernelFisherDiscriminant:
    """Return the model that everybody agreed on: everything that data would decide is a number."""
    return KernelFisherDiscriminant(landmarks=500, placement="fourier", gamma=0.3, ridge=1e-4, head="cosine")


def largest_change(model: KernelFisherDiscriminant, expected: KernelFisherDiscriminant, X: np.ndarray) -> float:
    """Return the largest difference of any score, in units of the largest score."""
    scores = expected.decision_function(X)
    return float(np.abs(model.decision_function(X) - scores).max() / np.abs(scores).max())


def main(folder: Path) -> None:
    X, y = load_digits(return_X_y=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)  # unit length, like most embeddings
    train, test = np.arange(len(y)) % 4 != 0, np.arange(len(y)) % 4 == 0

    model, peer, curve = fresh(), SGDClassifier(random_state=0), []
    for first in range(0, 10, 2):
        rows = train & np.isin(y, [first, first + 1])
        model.partial_fit(X[rows], y[rows])
        peer.partial_fit(X[rows], y[rows], classes=np.arange(10))
        known = test & (y < first + 2)
        curve.append([np.mean(one.predict(X[known]) == y[known]) for one in (model, peer)])
        ours, theirs = curve[-1]
        print(f"{first + 2:>2} classes known: accuracy {ours:.3f} (SGDClassifier.partial_fit {theirs:.3f})")
    joint = fresh().fit(X[train], y[train])
    print(f"task by task beside all rows at once: largest change of a score {largest_change(model, joint, X):.0e}")

    shares = np.array_split(np.flatnonzero(train)[np.argsort(y[train], kind="stable")], 10)
    letters = [contribution(fresh(), X[one], y[one], number=i, min_class_weight=0) for i, one in enumerate(shares)]
    merged = combine(letters)
    print(f"ten clients of one or two classes: largest change of a score {largest_change(merged, joint, X):.0e}")

    receipt = merged.unlearn(X[shares[3]], y[shares[3]])
    never = combine(letter for i, letter in enumerate(letters) if i != 3)
    print(
        f"one client forgotten: {receipt.rows} rows, largest change of a score {largest_change(merged, never, X):.0e}"
    )

    folder.mkdir(parents=True, exist_ok=True)
    _, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, values, marker in zip(("kampong", "SGDClassifier.partial_fit"), np.transpose(curve), "os", strict=True):
        axes.plot(range(2, 11, 2), values, marker=marker, label=name)
    axes.set(
        xlabel="classes so far", ylabel="accuracy on them", ylim=(0, 1.02), title="Classes that come two at a time"
    )
    axes.legend()
    picture = folder / "classes.png"
    axes.figure.savefig(picture, dpi=120)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo-output"))
