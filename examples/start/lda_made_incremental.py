"""
A notebook with LDA, made incremental
=====================================

Here is scikit-learn's example that compares the projections of PCA and LDA on iris. Two lines change: the import, and
the estimator. Then the same model learns in batches, which scikit-learn's cannot.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from kampong import FisherDiscriminant
from kampong.report import draw_classes

iris = load_iris()
X, y, names = iris.data, iris.target, iris.target_names

# %%
# The same answer
# ---------------
# At ridge 0 kampong's discriminant is scikit-learn's, in its directions and in its predictions. Its attributes have
# the same names.

theirs = LinearDiscriminantAnalysis(n_components=2, store_covariance=True).fit(X, y)
ours = FisherDiscriminant(n_components=2, ridge=0).fit(X, y)
change = np.abs(theirs.predict_proba(X) - ours.predict_proba(X)).max()
print(f"the largest difference of a probability is {change:.0e}")
print("share of each direction:", theirs.explained_variance_ratio_.round(4), ours.explained_variance_ratio_.round(4))

# %%
# The same answer, in batches
# ---------------------------
# Batches of any size, in any order, give that answer too. So a notebook can follow data that is still coming in.

stream = FisherDiscriminant(n_components=2, ridge=0)
for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 12):
    stream.partial_fit(X[rows], y[rows])
print(
    f"after 12 batches the largest difference is {np.abs(theirs.predict_proba(X) - stream.predict_proba(X)).max():.0e}"
)

# %%
# The pictures of the notebook
# ----------------------------

figure, panels = plt.subplots(1, 3, figsize=(14, 4.4), layout="constrained")
draw_classes(PCA(n_components=2).fit_transform(X), names[y], axes=panels[0], title="PCA")
draw_classes(theirs.transform(X), names[y], axes=panels[1], title="LDA of scikit-learn")
draw_classes(stream.transform(X), names[y], axes=panels[2], title="kampong, in 12 batches")
for axes in panels[:2]:
    axes.get_legend().remove()
plt.show()

# %%
# The sign is fixed by the largest entry. The default solver of scikit-learn 1.6 divides the scatter within the classes
# by n − K instead of n, which changes the lengths and, a little, the probabilities; that of 1.9 agrees with ours.

lengths = np.linalg.norm(theirs.scalings_[:, :2], axis=0) / np.linalg.norm(stream.scalings_, axis=0)
cosines = np.abs((theirs.scalings_[:, :2] * stream.scalings_).sum(axis=0))
cosines /= np.linalg.norm(theirs.scalings_[:, :2], axis=0) * np.linalg.norm(stream.scalings_, axis=0)
print("cosine of the angle between the directions:", cosines.round(12), "ratio of their lengths:", lengths.round(3))
