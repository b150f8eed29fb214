"""
A fit on Dask
=============

Rows lie in parts. Each part is summarised where it lies, the summaries are merged in a tree, and the result is an
ordinary estimator, equal to the local fit. Here Dask's own threads do the work; with a ``distributed.Client`` the
same lines use a cluster.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from kampong import FisherDiscriminant
from kampong.adapters import dask as on_dask
from kampong.datasets import waveform
from kampong.report import draw_classes

X, y = waveform(20_000, random_state=0)
rows, labels = da.from_array(X, chunks=(1_000, -1)), da.from_array(y, chunks=1_000)
print(f"{rows.npartitions} parts of {rows.chunksize[0]:,} rows, {rows.shape[1]} columns")

# %%
# The fit, and answers that stay lazy
# -----------------------------------

model = on_dask.fit(FisherDiscriminant(ridge=0.1), rows, labels)
local = FisherDiscriminant(ridge=0.1).fit(X, y)
scores = local.decision_function(X)
change = np.abs(model.decision_function(X) - scores).max() / np.abs(scores).max()
print(f"beside the local fit the largest change of a score is {change:.0e}")
points = on_dask.transform(model, rows)
print(f"coordinates of shape {points.shape} are computed when they are asked for")
print(f"accuracy {on_dask.score(model, rows, labels):.4f}")

# %%
# How large a summary is does not depend on the rows in a part: K·d + d²/2 numbers, for K classes of d columns, if the
# ridge is given.

columns = np.array([10, 30, 100, 300, 1000])
sizes = []
for width in columns:
    part = FisherDiscriminant(ridge=0.1).partial_fit(
        np.random.default_rng(0).normal(size=(50, width)), np.arange(50) % 3
    )
    sizes.append(len(part.to_bytes(solve=False)) / 1024)

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
draw_classes(points[:2_000].compute(), y[:2_000], axes=left, title="2,000 of 20,000 rows, learnt in 20 parts")
right.loglog(columns, sizes, "o-", label="bytes of a part")
right.loglog(columns, 8 * (3 * columns + columns**2 / 2) / 1024, "k--", label="8·(K·d + d²/2)")
right.set(xlabel="columns", ylabel="KiB", title="what travels, for any number of rows")
right.legend()
plt.show()
