"""
Wide sparse rows
================

20,000 rows of 100,000 columns, 120 entries each. A d × d matrix would take 80 GB. Three ways to go on without one:
class means alone, all rows in memory, or a stream with a bounded sample of its rows.
"""

import time

import matplotlib.pyplot as plt
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline

from kampong import FisherDiscriminant, InterClassScatter
from kampong.datasets import sparse_text
from kampong.report import draw_classes

X, y = sparse_text(20_000, 100_000, 120, n_classes=3, random_state=0)
train, test = slice(0, 16_000), slice(16_000, None)
print(f"{X.shape[0]:,} rows, {X.shape[1]:,} columns, {X.data.nbytes / 2**20:.0f} MiB of entries")


class InBatches(FisherDiscriminant):
    """The same as a stream: batches of 2,000 rows, and at most 8 MB of them kept."""

    def fit(self, X, y):
        self.set_params(reservoir_bytes=2**23)
        for start in range(0, X.shape[0], 2000):
            self.partial_fit(X[start : start + 2000], y[start : start + 2000])
        return self


contenders = {
    "InterClassScatter(): class means": InterClassScatter(),
    "FisherDiscriminant(): rows in memory": FisherDiscriminant(),
    "FisherDiscriminant(): a stream": InBatches(),
    "TruncatedSVD(50) and LDA": make_pipeline(TruncatedSVD(50, random_state=0), LinearDiscriminantAnalysis()),
}
accuracy, seconds = {}, {}
for name, model in contenders.items():
    start = time.process_time()
    model.fit(X[train], y[train]).predict(X[:1])  # a stream solves when it is first asked
    seconds[name] = time.process_time() - start
    accuracy[name] = model.score(X[test], y[test])
    print(f"{name:<36} {accuracy[name]:.3f} right, {seconds[name]:.2f} s of processor time")
fisher = contenders["FisherDiscriminant(): rows in memory"]
print(f"solver {fisher.solver_}: {fisher.solver_reason_}")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
draw_classes(fisher.transform(X[test]), y[test], axes=left, title="test rows in the two directions")
right.barh(list(accuracy), list(accuracy.values()), color=["tab:blue"] * 3 + ["0.6"])
right.invert_yaxis()
right.set(xlim=(0, 1), xlabel="accuracy on test rows", title="100,000 columns without a d × d matrix")
plt.show()
