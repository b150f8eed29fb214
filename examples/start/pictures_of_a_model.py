"""
Pictures of a model
===================

Every picture is a class of ``kampong.report`` in the manner of scikit-learn: ``from_estimator`` draws it on axes of its
own or on those that you give.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine, make_moons
from sklearn.model_selection import train_test_split

from kampong import FisherDiscriminant, MaxMinOverClassifier
from kampong.report import (
    BiplotDisplay,
    ChoiceDisplay,
    ClassMapDisplay,
    ConfusionDisplay,
    EigenvalueDisplay,
    LoadingsDisplay,
    MarginDisplay,
    ReliabilityDisplay,
)

X, y = load_wine(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
model = FisherDiscriminant().fit(X_train, y_train)

# %%
# The classes, and the columns that move them
# -------------------------------------------
# The ellipses hold most rows of a class. An arrow of the biplot points where rows go as its column grows.

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.4), layout="constrained")
ClassMapDisplay.from_estimator(model, X_test, y_test, ax=left)
BiplotDisplay.from_estimator(model, X_test, y_test, ax=right)
plt.show()

# %%
# What makes each direction
# -------------------------

figure, panels = plt.subplots(1, 2, figsize=(13, 4.2), layout="constrained")
LoadingsDisplay.from_estimator(model, X_train, n_columns=6, ax=panels)
plt.show()

# %%
# How it was chosen, and what ε would do
# --------------------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
ChoiceDisplay.from_estimator(model, ax=left)
EigenvalueDisplay.from_estimator(model, ax=right)
plt.show()

# %%
# How good it is
# --------------

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained")
confusion = ConfusionDisplay.from_estimator(model, X_test, y_test, ax=left)
ReliabilityDisplay.from_estimator(model, X_test, y_test, n_bins=5, ax=right)
plt.show()
print(f"accuracy on test rows: {model.score(X_test, y_test):.3f}")

# %%
# A margin in the plane
# ---------------------

rows, labels = make_moons(120, noise=0.15, random_state=0)
margin = MaxMinOverClassifier(nu=0.1, gamma=2.0).fit(rows, labels)
MarginDisplay.from_estimator(margin, rows, labels)
plt.show()
