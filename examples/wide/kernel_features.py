"""
Kernel features
===============

Some classes no straight line separates. Kernel values to a few hundred landmarks are ordinary columns, so the linear
engine can work on them: kernel Fisher in one pass, mergeable, with a width of the kernel that is chosen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_circles

from kampong import FisherDiscriminant, KernelFisherDiscriminant
from kampong.report import draw_classes

# %%
# Rings
# -----
# Three rings, one inside the other. One linear direction sees them on top of each other, one kernel direction pulls
# them apart.

X, y = make_circles(600, noise=0.06, factor=0.45, random_state=0)
outer, _ = make_circles(300, noise=0.03, factor=0.99, random_state=1)
X, y = np.vstack([X, 1.8 * outer]), np.append(y, np.full(300, 2))
names = np.array(["middle ring", "inner ring", "outer ring"])[y]
linear = FisherDiscriminant().fit(X, y)
kernel = KernelFisherDiscriminant(landmarks=200).fit(X, y)
print(f"linear {linear.score(X, y):.3f}, kernel {kernel.score(X, y):.3f} right, width chosen: γ = {kernel.gamma_:.3g}")

figure, panels = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
draw_classes(X, names, axes=panels[0], title="the rows")
for text in list(panels[0].texts):
    text.remove()  # the three means lie on top of each other
panels[0].set(xlabel="first column", ylabel="second column", aspect="equal")
across, up = np.meshgrid(np.linspace(-2.2, 2.2, 120), np.linspace(-2.2, 2.2, 120))
grid = np.column_stack([across.ravel(), up.ravel()])
panels[1].contourf(across, up, kernel.transform(grid)[:, 0].reshape(across.shape), 20, cmap="PuOr")
panels[1].scatter(*X.T, s=4, color="black", alpha=0.4)
panels[1].set(title="the first kernel direction", xlabel="first column", ylabel="second column", aspect="equal")
draw_classes(kernel.transform(X), names, axes=panels[2], title="the rows in two kernel directions")
for axes in (panels[0], panels[2]):
    axes.get_legend().remove()
plt.show()

# %%
# Digits, in two parts that are merged
# ------------------------------------
# With the same landmarks, models of parts merge to the model of all rows. ``landmarks="fourier"`` needs no rows to
# place any.

X, y = load_digits(return_X_y=True)
train = np.arange(len(y)) % 3 != 0


def fresh():
    return KernelFisherDiscriminant(landmarks="fourier", gamma=0.0005, ridge=1e-4, head="gaussian", random_state=0)


half = np.arange(train.sum()) % 2 == 0
first = fresh().fit(X[train][half], y[train][half])
second = fresh().fit(X[train][~half], y[train][~half])
both, whole = first.merge(second), fresh().fit(X[train], y[train])
linear = FisherDiscriminant().fit(X[train], y[train])
right = [model.score(X[~train], y[~train]) for model in (both, linear)]
print(f"accuracy on test rows: kernel {right[0]:.4f}, linear {right[1]:.4f}")
scores = whole.decision_function(X)
print(f"merged beside fitted at once: {np.abs(both.decision_function(X) - scores).max() / np.abs(scores).max():.0e}")
