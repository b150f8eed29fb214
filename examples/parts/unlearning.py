"""
Unlearning
==========

A customer asks for his rows to be removed. ``unlearn`` runs the formulas of learning backwards: the model becomes the
one that never saw the rows, and a receipt says so with digests that can be compared with the file at any later time.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kampong import FisherDiscriminant
from kampong.report import draw_classes

X, y = load_digits(return_X_y=True)
customer = np.random.default_rng(0).integers(0, 20, len(y))  # who each row belongs to


def fresh():
    return FisherDiscriminant(ridge=100.0)


# %%
# Rows of one customer
# --------------------

model = fresh().partial_fit(X, y)
gone = customer == 7
receipt = model.unlearn(X[gone], y[gone])
never = fresh().partial_fit(X[~gone], y[~gone])
scores = never.decision_function(X)
change = np.abs(model.decision_function(X) - scores).max() / np.abs(scores).max()
print(f"beside a model that never saw the rows, the largest change of a score is {change:.0e}")
print(receipt.to_json())

# %%
# What was never learnt cannot be taken out
# -----------------------------------------

try:
    model.unlearn(np.full((40, 64), 160.0), np.zeros(40, dtype=int))
except ValueError as error:
    print(error)

# %%
# Customer after customer
# -----------------------
# Rounding does not pile up: the distance from the model that never saw the rows stays where rounding is. In the end a
# whole class goes.

model, distances = fresh().partial_fit(X, y), []
for number in range(15):
    out, left_over = customer == number, customer > number
    model.unlearn(X[out], y[out])
    scores = fresh().partial_fit(X[left_over], y[left_over]).decision_function(X)
    distances.append(np.abs(model.decision_function(X) - scores).max() / np.abs(scores).max())
left_over = customer > 14
before = model.transform(X[left_over])
nines = left_over & (y == 9)
model.unlearn(X[nines], y[nines])
print("classes left:", model.classes_)

figure, panels = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
panels[0].semilogy(range(1, 16), distances, "o-")
panels[0].axhline(1e-9, color="black", linestyle="--", label="what is promised")
panels[0].set(xlabel="customers removed", ylabel="largest change of a score", ylim=(1e-17, 1e-7))
panels[0].set_title("beside a model that never saw them")
panels[0].legend()
draw_classes(before, y[left_over], axes=panels[1], title="before the nines leave")
rest = left_over & (y != 9)
draw_classes(model.transform(X[rest]), y[rest], axes=panels[2], title="after: the directions have changed too")
for axes in panels[1:]:
    axes.get_legend().remove()
plt.show()
