"""
Text with new classes
=====================

Documents arrive topic after topic, and every topic is a new class. The documents are paragraphs of scikit-learn's own
docstrings, and the class is the module that they come from. Words are hashed, so no vocabulary has to be known
before.
"""

import importlib
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

from kampong import FisherDiscriminant
from kampong.report import draw_classes

MODULES = ("cluster", "linear_model", "ensemble", "metrics", "preprocessing", "neighbors")


def paragraphs(name):
    """Return the paragraphs of at least twelve words in the docstrings of a module, without those that come twice."""
    module = importlib.import_module(f"sklearn.{name}")
    found = {}
    for item in module.__all__:
        for paragraph in re.split(r"\n\s*\n", inspect.getdoc(getattr(module, item)) or ""):
            words = re.findall(r"[a-z]{3,}", paragraph.lower())
            if len(words) >= 12 and ">>>" not in paragraph:
                found[" ".join(words)] = None
    return list(found)


texts, labels = [], []
for name in MODULES:
    own = paragraphs(name)
    texts += own
    labels += [name] * len(own)
texts, labels = np.array(texts), np.array(labels)
X = HashingVectorizer(n_features=2**18, alternate_sign=False).transform(texts)
rng = np.random.default_rng(0)
test = rng.random(len(texts)) < 0.3
print(f"{len(texts)} paragraphs, {X.shape[1]:,} hashed columns, {X.nnz / len(texts):.0f} words each")

# %%
# One class after the other
# -------------------------
# Each step brings one class that was never seen. ``SGDClassifier``, which must be told all classes at the start,
# forgets the old ones; the discriminant does not, because what it remembers are sums.

model, peer, curve = FisherDiscriminant(), SGDClassifier(random_state=0), []
for number, name in enumerate(MODULES):
    rows = np.flatnonzero((labels == name) & ~test)
    model.partial_fit(X[rows], labels[rows])
    peer.partial_fit(X[rows], labels[rows], classes=np.unique(labels))
    if number:
        known = test & np.isin(labels, MODULES[: number + 1])
        curve.append([np.mean(one.predict(X[known]) == labels[known]) for one in (model, peer)])
        print(f"{number + 1} classes: {curve[-1][0]:.3f} right on test rows (SGDClassifier {curve[-1][1]:.3f})")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), layout="constrained", width_ratios=(1.3, 1))
draw_classes(model.transform(X[test]), labels[test], axes=left, title="test paragraphs in the first two directions")
for values, name, marker in zip(np.transpose(curve), ("kampong", "SGDClassifier.partial_fit"), "os", strict=True):
    right.plot(range(2, len(MODULES) + 1), values, marker=marker, label=name)
right.set(
    xticks=range(2, len(MODULES) + 1),
    xlabel="classes so far",
    ylabel="accuracy on test rows",
    ylim=(0, 1),
    title="classes that come one by one",
)
right.legend()
plt.show()
