"""Martinetz 2004 as naive loops over explicit vectors, and exact nearest points by other people's solvers."""

import numpy as np
from scipy.optimize import minimize, nnls


def patterns(X, y):
    """z_i = y_i (x_i, −1), section I.A."""
    return y[:, None] * np.column_stack([X, -np.ones(len(X))])


def minover(Z, t_max):
    """Section II: the counts n after each step, and v."""
    v, n, history = np.zeros(Z.shape[1]), np.zeros(len(Z), dtype=int), []
    for _ in range(t_max):
        alpha = int(np.argmin(Z @ v))
        v = v + Z[alpha]
        n[alpha] += 1
        history.append((n.copy(), v.copy()))
    return history


def maxminover(Z, t_max):
    """Section III.B."""
    R = max(np.linalg.norm(z) for z in Z)
    v, n, history = np.zeros(Z.shape[1]), np.zeros(len(Z), dtype=int), []
    for _ in range(t_max):
        margins = Z @ v
        alpha = int(np.argmin(margins))
        stored = [i for i in range(len(Z)) if n[i] > 0]
        omega = max(stored, key=lambda i: margins[i]) if stored else None
        if omega is not None and margins[omega] - margins[alpha] >= 4 * R**2:
            v = v + 2 * Z[alpha] - Z[omega]
            n[alpha] += 2
            n[omega] -= 1
        else:
            v = v + Z[alpha]
            n[alpha] += 1
        history.append((n.copy(), v.copy()))
    return history


def soft_maxminover(Z, K, t_max):
    """Section IV: the means of the K extreme patterns in place of the extreme one."""
    R_K = np.mean(sorted(np.linalg.norm(z) for z in Z)[-K:])
    v, n, history = np.zeros(Z.shape[1]), np.zeros(len(Z), dtype=int), []
    for _ in range(t_max):
        margins = Z @ v
        near = sorted(range(len(Z)), key=lambda i: (margins[i], i))[:K]
        stored = [i for i in range(len(Z)) if n[i] > 0]
        far = sorted(stored, key=lambda i: (-margins[i], i))[:K]
        z_near = sum(Z[i] for i in near) / K
        if len(far) == K and v @ (sum(Z[i] for i in far) / K) - v @ z_near >= 4 * R_K**2:
            z_far = sum(Z[i] for i in far) / K
            v = v + 2 * z_near - z_far
            for i in near:
                n[i] += 2
            for i in far:
                n[i] -= 1
        else:
            v = v + z_near
            for i in near:
                n[i] += 1
        history.append((n.copy(), v.copy()))
    return history


def soft_two_hulls(X, y, K, t_max):
    """SoftMaxMinOver with two hulls: each step learns, and may forget, the mean of K patterns of each class."""
    sides = [np.flatnonzero(y < 0), np.flatnonzero(y > 0)]
    R = sum(np.sort(np.linalg.norm(X[side], axis=1))[-K:].mean() for side in sides)
    w, n, history = np.zeros(X.shape[1]), np.zeros(len(X), dtype=int), []
    for _ in range(t_max):
        margins = y * (X @ w)
        near = [i for side in sides for i in sorted(side, key=lambda i: margins[i])[:K]]
        stored = [[i for i in side if n[i] > 0] for side in sides]
        far = [i for side in stored for i in sorted(side, key=lambda i: -margins[i])[:K]]
        forget = len(far) == 2 * K and margins[far].sum() / K - margins[near].sum() / K >= 4 * R**2
        for i in near:
            w = w + (2 if forget else 1) * y[i] * X[i] / K
            n[i] += 2 if forget else 1
        for i in far if forget else []:
            w = w - y[i] * X[i] / K
            n[i] -= 1
        history.append((n.copy(), w.copy()))
    return history


def two_hulls(X, y, t_max, *, forget):
    """MinOver and MaxMinOver on all differences x₊ − x₋, spelled out: one pattern of each class a step."""
    plus, minus = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    R = np.linalg.norm(X[plus], axis=1).max() + np.linalg.norm(X[minus], axis=1).max()
    w, n, history = np.zeros(X.shape[1]), np.zeros(len(X), dtype=int), []
    for _ in range(t_max):
        margins = y * (X @ w)
        near = [min(side, key=lambda i: margins[i]) for side in (minus, plus)]
        far = [max((i for i in side if n[i] > 0), key=lambda i: margins[i], default=None) for side in (minus, plus)]
        gain = None if None in far else margins[far].sum() - margins[near].sum()
        times = 2 if forget and gain is not None and gain >= 4 * R**2 else 1
        for i in near:
            w = w + times * y[i] * X[i]
            n[i] += times
        if times == 2:
            for i in far:
                w = w - y[i] * X[i]
                n[i] -= 1
        history.append((n.copy(), w.copy()))
    return history


def soft_double_maxminover(X, y, C, t_max):
    """DoubleMaxMinOver with squared slack: each pattern has a coordinate 1/√C of its own, so K becomes K + I/C."""
    return two_hulls(np.column_stack([X, np.eye(len(X)) / np.sqrt(C)]), y, t_max, forget=True)


def ball_vector_machine(Z, epsilon, t_max):
    """Tsang, Kocsor and Kwok 2007 with the furthest pattern: the centre c, and the weight of each pattern in it."""
    r, c, alpha = np.linalg.norm(Z[0]), Z[0].copy(), np.eye(len(Z))[0]
    for _ in range(t_max):
        distances = [np.linalg.norm(z - c) for z in Z]
        far = int(np.argmax(distances))
        if distances[far] <= (1 + epsilon) * r:
            break
        nearer = r / distances[far]
        c = Z[far] + nearer * (c - Z[far])
        alpha = nearer * alpha
        alpha[far] += 1 - nearer
    return c, alpha


def factor(Q):
    """Vectors whose products are Q: rows of the result."""
    values, vectors = np.linalg.eigh(Q)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def nearest(Q):
    """Return the nearest point of a hull with Gram matrix Q: least distance by non-negative least squares."""
    Z = factor(Q)
    scale = np.sqrt(np.diag(Q).max())
    A = np.vstack([Z.T / scale, np.ones(len(Q))])
    beta, _ = nnls(A, np.append(np.zeros(Z.shape[1]), 1.0), maxiter=100 * len(Q))
    return beta / beta.sum()


def nearest_capped(Q, cap, groups=None, sums=(1.0,)):
    """Return the same with α ≤ cap, one or one per pattern, and a sum for each group, by scipy's SLSQP."""
    n = len(Q)
    groups = np.zeros(n, dtype=int) if groups is None else groups
    scale = np.abs(Q).max()
    start = np.zeros(n)
    for g, total in enumerate(sums):
        start[groups == g] = total / (groups == g).sum()
    found = minimize(
        lambda a: 0.5 * a @ Q @ a / scale,
        start,
        jac=lambda a: Q @ a / scale,
        bounds=[(0.0, float(most)) for most in np.broadcast_to(cap, n)],
        constraints=[
            {
                "type": "eq",
                "fun": lambda a, g=g: a[groups == g].sum() - sums[g],
                "jac": lambda a, g=g: (groups == g) * 1.0,
            }
            for g in range(len(sums))
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert found.success, found.message
    return found.x


def separable(rng, n=40, d=3, distance=6.0, shift=0.0):
    """Two Gaussian clouds with a gap between them."""
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d))
    along = X @ direction
    X += np.outer(y * (distance / 2 + np.abs(along)) - along, direction)
    return X + shift, y
