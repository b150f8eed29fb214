"""The papers' equations as naive loops: every mean from all the rows so far, every matrix written out. Slow and plain.

Yan et al. 2006 is "A scalable supervised algorithm for dimensionality reduction on streaming data"; its tables 2 to 4
are equations 5 to 7 of "IMMC: incremental maximum margin criterion" (2004).
"""

import numpy as np


def scatters(X, y):
    """Return S_b and S_w."""
    mean, d = X.mean(axis=0), X.shape[1]
    S_b, S_w = np.zeros((d, d)), np.zeros((d, d))
    for label in np.unique(y):
        rows = X[y == label]
        class_mean = rows.mean(axis=0)
        S_b += len(rows) / len(X) * np.outer(class_mean - mean, class_mean - mean)
        for row in rows:
            S_w += np.outer(row - class_mean, row - class_mean) / len(X)
    return S_b, S_w


def margin_recursion(X, y, p, *, epsilon, theta=0.0, amnesia=0.0):
    """Return the vectors after each row, (rows, p, d): tables 2 and 3 (ε = 1), table 4 with equation 14 (ε = 0).

    `theta` is a constant or a function of (n, rows so far, labels so far, eigenvalue estimate after this row); where it
    changes, the vector is first lengthened by the change.
    """

    def factors(n, labels):
        mean = X[:n].mean(axis=0)
        terms = []
        for label in labels:
            members = y[:n] == label
            terms.append(((1 + epsilon) * members.mean(), X[:n][members].mean(axis=0) - mean))
        return [*terms, (-epsilon, X[n - 1] - mean)], X[n - 1] - mean

    return _recursion(X, y, p, factors, theta, amnesia)


def kampong_recursion(X, y, p, *, a, theta=0.0, amnesia=0.0):
    """Return the vectors after each row, (rows, p, d): equations 16, 22 and 23 of the Supervised Kampong Measure."""

    def factors(n, labels):
        terms = []
        for label in labels:
            members = y[:n] == label
            prior = members.mean()
            weight = -(a - prior) if label == y[n - 1] else prior
            terms.append((weight, X[n - 1] - X[:n][members].mean(axis=0)))
        return terms, X[n - 1]

    return _recursion(X, y, p, factors, theta, amnesia)


def candid_covariance_free_pca(X, p, *, amnesia):
    """Return the vectors after each row, (rows, p, d), of Weng et al. 2003; the first centred row is zero."""

    def factors(n, labels):
        centred = X[n - 1] - X[:n].mean(axis=0)
        return [(1.0, centred)], centred

    iterates = _recursion(X[1:], np.zeros(len(X) - 1), p, lambda n, labels: factors(n + 1, labels), 0.0, amnesia, True)
    return np.concatenate([np.zeros((1, p, X.shape[1])), iterates])


def _recursion(X, y, p, factors, theta, amnesia, centred=False):
    d = X.shape[1]
    vectors, shifts = np.zeros((p, d)), np.zeros(p)
    iterates = []
    for n in range(1, len(X) + 1):
        terms, row = factors(n, np.unique(y[:n]))
        rows_seen = n + 1 if centred else n
        weight = (1 + amnesia) / rows_seen
        if weight >= 0.5:
            weight = 1 / rows_seen
        for j in range(min(p, n)):
            if j == n - 1:
                vectors[j] = X[0] if j == 0 and not centred else row
                if not callable(theta):
                    shifts[j] = theta
            else:
                length = np.linalg.norm(vectors[j])
                direction = vectors[j] / length
                A = sum(g * np.outer(f, f) for g, f in terms)
                if callable(theta):
                    estimate = length - shifts[j]
                    after = (1 - weight) * estimate + weight * (direction @ A @ direction)
                    shifts[j] = theta(n, X[:n], y[:n], after)
                    length = estimate + shifts[j]
                moved = (A + shifts[j] * np.eye(d)) @ direction
                vectors[j] = (1 - weight) * length * direction + weight * moved
            direction = vectors[j] / np.linalg.norm(vectors[j])
            terms = [(g, f - (f @ direction) * direction) for g, f in terms]
            row = row - (row @ direction) * direction
        iterates.append(vectors.copy())
    return np.array(iterates)


def information_gain(X, y):
    """Return H(class) − H(class | presence) of each column, by counting row by row."""
    gains = []
    for column in X.T:
        present = column != 0
        rest = 0.0
        for side in (present, ~present):
            if side.any():
                rest += side.mean() * entropy(y[side])
        gains.append(entropy(y) - rest)
    return np.array(gains)


def entropy(y):
    """Return the entropy of labels, in nats."""
    shares = [np.mean(y == label) for label in np.unique(y)]
    return -sum(share * np.log(share) for share in shares)


def two_covariances(X, y, *, ridge, units=1.0, priors=None):
    """Return m, B and W of the two-covariance model: B from the class means by its moments, W = S_w + ridge."""
    X = X / units
    labels, d = np.unique(y), X.shape[1]
    W = scatters(X, y)[1] + ridge * np.eye(d)
    counts = np.array([np.sum(y == label) for label in labels])
    shares = counts / len(y) if priors is None else np.asarray(priors)
    means = np.array([X[y == label].mean(axis=0) for label in labels])
    mean = sum(share * one for share, one in zip(shares, means, strict=True))
    S_b = sum(share * np.outer(one - mean, one - mean) for share, one in zip(shares, means, strict=True))
    noise = sum(share * (1 - share) / count for share, count in zip(shares, counts, strict=True))
    values, vectors = np.linalg.eigh(W)
    root, back = vectors * np.sqrt(values) @ vectors.T, vectors / np.sqrt(values) @ vectors.T
    values, vectors = np.linalg.eigh(back @ (S_b - noise * W) @ back)
    B = root @ (vectors * np.maximum(values, 0)) @ vectors.T @ root / (1 - sum(share**2 for share in shares))
    return mean, B, W


def same_class_ratio(rows, row, mean, B, W):
    """Return log p(rows and row | one class) − log p(rows | one class) − log p(row), each one large Gaussian."""
    return _one_class([*rows, row], mean, B, W) - _one_class(rows, mean, B, W) - _one_class([row], mean, B, W)


def _one_class(rows, mean, B, W):
    n = len(rows)
    covariance = np.kron(np.ones((n, n)), B) + np.kron(np.eye(n), W)
    away = np.concatenate([row - mean for row in rows])
    return -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + away @ np.linalg.solve(covariance, away))
