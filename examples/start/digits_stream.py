"""
Digits as a stream
==================

A labelled stream comes in batches, and a subspace is kept up to date. Each batch is first predicted from the batches
before it, then learnt, so no row is tested after it was learnt (prequential accuracy).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kampong import FisherDiscriminant
from kampong.report import draw_classes

X, y = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(X))
X, y = X[order], y[order]

# %%
# The stream
# ----------
# ``partial_fit`` only adds to sums. ``predict`` solves, and chooses the ridge and the head by rows that it has kept
# for that.

BATCH = 60
model = FisherDiscriminant()
rows, accuracy, right = [], [], 0
for start in range(0, len(X), BATCH):
    batch, labels = X[start : start + BATCH], y[start : start + BATCH]
    if start:
        right += int((model.predict(batch) == labels).sum())
        rows.append(start + len(batch))
        accuracy.append(right / (start + len(batch) - BATCH))
    model.partial_fit(batch, labels)

print(
    f"{model.n_samples_seen_} digits, {len(model.components_)} directions, head {model.head_}, ridge {model.ridge_:.3g}"
)
print(f"accuracy on rows that were not yet learnt: {accuracy[-1]:.3f}")

# %%
# What it found
# -------------
# The first two of nine directions already show ten groups. The curve on the right is the accuracy up to each row.

figure, (left, right_panel) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained", width_ratios=(1.3, 1))
draw_classes(model.transform(X), y, axes=left, title="ten digits in the first two directions")
right_panel.plot(rows, accuracy)
right_panel.set(xlabel="rows so far", ylabel="accuracy before learning", ylim=(0.8, 1), title="better with every batch")
right_panel.grid(alpha=0.3)
plt.show()
