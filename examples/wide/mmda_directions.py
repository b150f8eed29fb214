"""
MMDA's directions
=================

Maximum margin discriminant analysis finds one direction after another. Each is the normal of the hyperplane, in the
feature space of a kernel, that leaves the widest margin between a class and the rest, and each is orthogonal to those
before it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, make_moons
from sklearn.neighbors import KNeighborsClassifier

from kampong import KernelFisherDiscriminant, MaximumMarginDiscriminant
from kampong.report import draw_classes

# %%
# Three directions of two moons
# -----------------------------
# The first direction separates. The second and the third are orthogonal to it: what is left to tell after the first
# is taken off.

X, y = make_moons(300, noise=0.12, random_state=0)
model = MaximumMarginDiscriminant(n_components_per_class=3, C=10, gamma=2.0).fit(X, y)
print(f"{model.transform(X).shape[1]} features, each within {model.dual_gap_.max():.1%} of the widest margin")

across, up = np.meshgrid(np.linspace(-1.6, 2.6, 140), np.linspace(-1.1, 1.6, 140))
features = model.transform(np.column_stack([across.ravel(), up.ravel()]))
figure, panels = plt.subplots(1, 3, figsize=(14, 4), layout="constrained", sharey=True)
for number, axes in enumerate(panels):
    values = features[:, number].reshape(across.shape)
    limit = np.abs(values).max()
    axes.contourf(across, up, values, np.linspace(-limit, limit, 21), cmap="PuOr")
    axes.contour(across, up, values, [0], colors="black")
    axes.scatter(*X[y == 0].T, s=10, color="tab:orange", edgecolors="black", linewidths=0.3)
    axes.scatter(*X[y == 1].T, s=10, color="tab:purple", edgecolors="black", linewidths=0.3, marker="s")
    axes.set(title=f"direction {number + 1}", xlabel="first column")
panels[0].set_ylabel("second column")
plt.show()

# %%
# Digits: compact classes or wide margins
# ---------------------------------------
# Kernel Fisher makes a class compact; MMDA pushes the nearest rows of two classes apart. Nearest neighbours like
# both.

X, y = load_digits(return_X_y=True)
few = np.isin(y, (0, 6, 9))
X, y = X[few], y[few]
train = np.arange(len(y)) % 2 == 0
figure, panels = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
for axes, extractor in zip(panels, (KernelFisherDiscriminant(2), MaximumMarginDiscriminant(C=10)), strict=True):
    extractor.fit(X[train], y[train])
    seen, new = extractor.transform(X[train])[:, :2], extractor.transform(X[~train])[:, :2]
    right = KNeighborsClassifier(1).fit(seen, y[train]).score(new, y[~train])
    name = type(extractor).__name__
    draw_classes(new, y[~train], axes=axes, title=f"{name}: 1-NN right on {right:.1%}")
    print(f"{name:<28} 1-NN in two features: {right:.4f}")
plt.show()
