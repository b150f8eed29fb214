"""The linear papers' definitions as naive loops: slow, obvious, and sharing no code with the library."""

import numpy as np
from scipy import linalg


def scatters(X, memberships, weights=None):
    """Return S_b, S_w, priors and class means from (row, class) pairs, one loop a definition."""
    X = np.asarray(X, dtype=float)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
    pairs = [(i, k) for i, k in memberships if weights[i] > 0]
    classes = sorted({k for _, k in pairs})
    total = sum(weights[i] for i, _ in pairs)
    d = X.shape[1]
    mean = sum(weights[i] * X[i] for i, _ in pairs) / total
    between, within, priors, means = np.zeros((d, d)), np.zeros((d, d)), [], []
    for k in classes:
        rows = [i for i, label in pairs if label == k]
        weight = sum(weights[i] for i in rows)
        m = sum(weights[i] * X[i] for i in rows) / weight
        between += weight / total * np.outer(m - mean, m - mean)
        for i in rows:
            within += weights[i] / total * np.outer(X[i] - m, X[i] - m)
        priors.append(weight / total)
        means.append(m)
    return between, within, np.array(priors), np.array(means)


def single(y):
    """Return the memberships of rows with one label each."""
    return [(i, k) for i, k in enumerate(y)]


def kampong_matrix(X, y, a):
    """Return the matrix of the Supervised Kampong Measure: every row against every class mean.

    A row of class l is pulled to its own mean with weight −(a − p_l) and pushed from class j's mean with weight p_j.
    """
    X = np.asarray(X, dtype=float)
    classes = sorted(set(y))
    priors = {k: np.mean([label == k for label in y]) for k in classes}
    means = {k: np.mean([x for x, label in zip(X, y, strict=True) if label == k], axis=0) for k in classes}
    matrix = np.zeros((X.shape[1], X.shape[1]))
    for x, label in zip(X, y, strict=True):
        for k in classes:
            weight = -(a - priors[label]) if k == label else priors[k]
            matrix += weight / len(X) * np.outer(x - means[k], x - means[k])
    return matrix


def margin(between, within, epsilon):
    """Return the eigenvalues and rows of eigenvectors of S_b − ε S_w, largest first."""
    values, vectors = linalg.eigh(between - epsilon * within)
    return values[::-1], vectors.T[::-1]


def fisher(between, within, ridge):
    """Return the generalised eigenvalues and eigenvectors of S_b against S_w + ρI, largest first."""
    values, vectors = linalg.eigh(between, within + ridge * np.eye(len(within)))
    return values[::-1], vectors.T[::-1]


def largest_angle(rows, others):
    """Return the sine of the largest principal angle between two row spaces."""
    first, second = linalg.orth(np.asarray(rows).T), linalg.orth(np.asarray(others).T)
    assert first.shape == second.shape
    return float(np.linalg.norm(second - first @ (first.T @ second), 2))
