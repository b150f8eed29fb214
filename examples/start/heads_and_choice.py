"""
The ridge and the head, chosen
==============================

Nothing has to be set. ``FisherDiscriminant()`` chooses its ridge and its head by rows that it leaves out, one by one
and in closed form. This example shows the curve it reads the ridge from, the heads it compares, and that test rows
agree.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from kampong import FisherDiscriminant
from kampong.report import ChoiceDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
model = FisherDiscriminant().fit(X_train, y_train)
print(f"ridge {model.ridge_:.3g}, head {model.head_}, accuracy on test rows {model.score(X_test, y_test):.4f}")

# %%
# The nodes of the curve that the ridge is read from (a spline goes through them), and the accuracy of each head on
# rows that took no part in any choice.

heads = ("gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "mixture")
scores = {head: FisherDiscriminant(head=head).fit(X_train, y_train).score(X_test, y_test) for head in heads}
for head, score in scores.items():
    print(f"{head:<14} {score:.4f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
ChoiceDisplay.from_estimator(model, ax=left)
colours = ["tab:orange" if head == model.head_ else "tab:blue" for head in heads]
right.barh(heads, list(scores.values()), color=colours)
right.set(
    xlim=(min(scores.values()) - 0.01, 1), xlabel="accuracy on test rows", title=f"the head chosen is {model.head_}"
)
right.invert_yaxis()
plt.show()
