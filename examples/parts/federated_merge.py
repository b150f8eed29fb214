"""
Federated merge
===============

Ten owners keep their rows. Each sends bytes: counts, means and a scatter, no row. One round of merging gives the
model of all rows, to rounding, even where every owner has only one or two classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kampong import FisherDiscriminant
from kampong.adapters.federated import combine, contribution

X, y = load_digits(return_X_y=True)
train = np.arange(len(y)) % 4 != 0
agreed = FisherDiscriminant(ridge=100.0, head="gaussian")  # what data would decide must be agreed as numbers and names

# %%
# Each owner has the rows of one or two digits. A class of fewer than ten rows would be refused, because its mean
# nearly shows them.

order = np.flatnonzero(train)[np.argsort(y[train], kind="stable")]
owners = np.array_split(order, 10)
letters = [
    contribution(agreed, X[rows], y[rows], number=number, min_class_rows=0) for number, rows in enumerate(owners)
]
print(f"{len(letters)} letters of about {np.mean([len(one) for one in letters]) / 1024:.0f} KiB")

joint = FisherDiscriminant(ridge=100.0, head="gaussian").fit(X[train], y[train])
scores = joint.decision_function(X)
accuracy, changes = [], []
for number in range(2, 11):
    model = combine(letters[:number])
    accuracy.append(model.score(X[~train], y[~train]))
change = np.abs(model.decision_function(X) - scores).max() / np.abs(scores).max()
print(f"merged {accuracy[-1]:.4f}, fitted on all rows {joint.score(X[~train], y[~train]):.4f} right")
print(f"largest change of a score: {change:.0e}")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
held = np.array([[np.sum(y[rows] == digit) for digit in range(10)] for rows in owners])
picture = left.imshow(held, cmap="Blues")
left.set(xlabel="digit", ylabel="owner", xticks=range(10), yticks=range(10), title="rows of each digit with each owner")
figure.colorbar(picture, ax=left)
right.plot(range(2, 11), accuracy, "o-", label="letters merged so far")
right.axhline(joint.score(X[~train], y[~train]), color="black", linestyle="--", label="one fit on all rows")
right.set(xlabel="owners who have sent", ylabel="accuracy on all ten digits", ylim=(0, 1), title="one round is enough")
right.legend()
plt.show()
