"""
Class-incremental embeddings
============================

A common use is the last layer on frozen embeddings: classes arrive over months, two at a time here, and old rows are
gone by then. What the model remembers are sums over rows, so it ends where a fit on all rows at once would have
ended. Digits scaled to unit length stand in for embeddings.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from kampong import KernelFisherDiscriminant

X, y = load_digits(return_X_y=True)
X /= np.linalg.norm(X, axis=1, keepdims=True)
train, test = np.arange(len(y)) % 4 != 0, np.arange(len(y)) % 4 == 0


def fresh():
    """Return a model whose features need no rows, so that the order of the classes cannot matter."""
    return KernelFisherDiscriminant(landmarks="fourier", gamma=3.0, ridge=1e-4, head="cosine")


# %%
# Task by task
# ------------

model, peer, curve = fresh(), SGDClassifier(random_state=0), []
for first in range(0, 10, 2):
    rows = train & np.isin(y, [first, first + 1])
    model.partial_fit(X[rows], y[rows])
    peer.partial_fit(X[rows], y[rows], classes=np.arange(10))
    known = test & (y < first + 2)
    means = np.array([X[train & (y == digit)].mean(axis=0) for digit in range(first + 2)])
    nearest = np.argmin(((X[known][:, None] - means) ** 2).sum(axis=2), axis=1)
    said = (model.predict(X[known]), nearest, peer.predict(X[known]))
    curve.append([np.mean(one == y[known]) for one in said])
    print(f"{first + 2:>2} classes known: accuracy {curve[-1][0]:.3f} (SGDClassifier.partial_fit {curve[-1][2]:.3f})")
joint = fresh().fit(X[train], y[train])
scores = joint.decision_function(X)
change = np.abs(model.decision_function(X) - scores).max() / np.abs(scores).max()
print(f"task by task beside all rows at once: largest change of a score {change:.0e}")

# %%
# Rows that are none of the known classes
# ---------------------------------------
# ``score_samples`` says how much a row looks like any class. Here a model knows the digits 0 to 7, and 8 and 9 are
# new to it.

known = fresh().fit(X[train & (y < 8)], y[train & (y < 8)])
old, new = known.score_samples(X[test & (y < 8)]), known.score_samples(X[test & (y >= 8)])
print(f"a row of a known class scores higher than one of a new class in {np.mean(old[:, None] > new):.1%} of the pairs")

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
for values, name, marker in zip(
    np.transpose(curve), ("kampong", "nearest class mean", "SGDClassifier.partial_fit"), "o^s", strict=True
):
    left.plot(range(2, 11, 2), values, marker=marker, label=name)
left.set(
    xticks=range(2, 11, 2),
    xlabel="classes so far",
    ylabel="accuracy on test rows",
    ylim=(0, 1.02),
    title="classes that come two at a time",
)
left.legend(loc="lower left")
bins = np.linspace(min(old.min(), new.min()), max(old.max(), new.max()), 40)
right.hist(old, bins, alpha=0.6, label="digits 0 to 7: known", density=True)
right.hist(new, bins, alpha=0.6, label="digits 8 and 9: new", density=True)
right.set(xlabel="score_samples", ylabel="density", title="rows of classes that it never saw")
right.legend()
plt.show()
