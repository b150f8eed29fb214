"""What the tests of maximum margin discriminant analysis share: a problem, a width, products of features."""

import numpy as np
from sklearn.datasets import make_classification

GAMMA = 0.2


def problem(seed=0, n=90, classes=3):
    return make_classification(
        n, 6, n_informative=4, n_classes=classes, n_clusters_per_class=1, class_sep=0.7, random_state=seed
    )


def gram_of_features(model, K):
    """Return u_q · u_r from the kernel matrix of the training rows."""
    B = model.features_.toarray()
    return B @ K[np.ix_(model.support_, model.support_)] @ B.T
