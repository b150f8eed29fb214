"""The compiled steps of the recursions, on dense rows and on sparse rows.

Every recursion here averages A(n) v/‖v‖ over the rows, where A(n) = Σ_i g_i f_i f_iᵀ + θ I has few factors f_i:

- SCATTER (maximum margin, inter-class scatter): the centred class means, g_i = (1 + ε) p_i, and the centred row, −ε;
- DISTANCE (Supervised Kampong Measure): the row less each class mean, g_i = p_i, and p_l − a for its own class l;
- PRINCIPAL (candid covariance-free PCA): the centred row, g = 1.

Where a later vector is to start from the row, the row itself is one more factor, of weight 0.

A sparse step never forms a wide vector. All of v_1 … v_p and f_1 … f_K+1 are short coefficient vectors over the basis
(row, r_1 … r_p, class sums), whose Gram matrix answers every inner product. When the row joins its class sum and the
vectors, only the sum and the remainders r change, at the non-zeros of the row.

All of it is in one file because the cache of compiled code does not notice a change in another file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

SCATTER, DISTANCE, PRINCIPAL = 0, 1, 2

FLOOR_MEAN = 0.2
FLOOR_EARLY = 0.1
"""`theta="auto"` keeps ‖v‖ above ε tr(S_w) (FLOOR_MEAN/d + FLOOR_EARLY/√n); benchmarks/recursions.py has figures."""

DEPENDENT = 1e-12
"""A vector of which so little is left, squared and relative, after the earlier ones gives no direction of its own."""

LONGEST_PART = 10.0
"""Remainders are rewritten when a vector is a sum of parts that are this many times longer: a digit is then lost."""


@compiled
def learn_dense(
    X: Float,
    codes: Integer,
    weights: Float,
    points: Float,
    n_classes: int,
    rule: int,
    epsilon: float,
    fixed_theta: Float,
    amnesia: float,
    counts: Float,
    totals: Float,
    basis: Float,
    theta: Float,
    started: Integer,
    quotients: Float,
) -> None:
    """Take the rows of X one by one; `basis` holds the vectors, then the class sums, one a row.

    `totals` holds the weight of the rows, the within-class sum of squares and the number of rows; NaN in `fixed_theta`
    stands for "auto". `quotients` are the mean Rayleigh quotients along the vectors. Where `points` has a line per row,
    it receives the row's coordinates in the orthogonalised vectors, as they are after the row.
    """
    d = X.shape[1]
    p = len(theta)
    directions = np.empty((p if len(points) else 0, d))
    factors = np.empty((n_classes + 1, d))
    gains = np.zeros(n_classes + 1)
    mean = np.empty(d)
    for i in range(X.shape[0]):
        row, code, share = X[i], codes[i], weights[i]
        totals[0] += share
        totals[2] += 1.0
        counts[code] += share
        n = totals[0]
        for c in range(d):
            basis[p + code, c] += share * row[c]
        mean[:] = 0.0
        for k in range(n_classes):
            for c in range(d):
                mean[c] += basis[p + k, c] / n
        totals[1] += _within_dense(row, basis[p + code], counts[code], share)
        _set_gains(rule, epsilon, counts, n, code, gains)
        _set_factors_dense(row, rule, counts, basis, p, mean, factors)
        floor = _floor(rule, epsilon, totals, d)
        tiny = 1e-24 * (_dot(row, row) + _dot(mean, mean))
        for j in range(p):
            if not started[j]:
                first = row if j == 0 and rule != PRINCIPAL else factors[n_classes]
                if _dot(first, first) > tiny:
                    basis[j] = first
                    theta[j] = 0.0 if np.isnan(fixed_theta[j]) else fixed_theta[j]
                    started[j] = 1
                break
            weight = _weight(n, share, amnesia)
            shift = theta[j : j + 1]
            quotient = _advance_dense(basis[j], factors, gains, weight, fixed_theta[j], floor, shift)
            if np.isnan(quotient):
                started[j] = 0
                continue
            quotients[j] = quotient if started[j] == 1 else quotients[j] + weight * (quotient - quotients[j])
            started[j] = 2
        if len(points):
            _locate_dense(row - mean, basis, started, directions, points[i])


@compiled
def learn_sparse(
    indptr: Integer,
    indices: Integer,
    data: Float,
    codes: Integer,
    weights: Float,
    points: Float,
    n_classes: int,
    rule: int,
    epsilon: float,
    fixed_theta: Float,
    amnesia: float,
    counts: Float,
    totals: Float,
    columns: Float,
    theta: Float,
    started: Integer,
    quotients: Float,
    mixing: Float,
    gram: Float,
) -> None:
    """Take sparse rows one by one; `columns` holds one line per feature: the remainders, then the class sums.

    `mixing[j]` are the coefficients of v_j over (row, remainders, class sums); the first is 0 between rows. `gram` is
    the Gram matrix of the same; its first line is scratch.
    """
    d = columns.shape[0]
    p = len(theta)
    m = 1 + p + n_classes
    factors = np.empty((n_classes + 1, m))
    gains = np.zeros(n_classes + 1)
    first = np.empty(m)
    image = np.empty(m)
    squares = np.full(p, np.inf)
    for i in range(len(codes)):
        code, share = codes[i], weights[i]
        start, stop = indptr[i], indptr[i + 1]
        totals[0] += share
        totals[2] += 1.0
        counts[code] += share
        n = totals[0]
        own = 1 + p + code
        _join_class(indices, data, start, stop, columns, gram, own, m, share)
        for j in range(p):
            mixing[j, 0] = -share * mixing[j, own]
        totals[1] += _within_sparse(gram, own, counts[code], share)
        _set_gains(rule, epsilon, counts, n, code, gains)
        _set_factors_sparse(rule, counts, n, p, factors)
        floor = _floor(rule, epsilon, totals, d)
        tiny = 1e-12 * (gram[0, 0] + _mean_square(gram, p, m, n))
        lost = False
        for j in range(p):
            vector = mixing[j, :m]
            if not started[j]:
                first[:] = factors[n_classes]
                if j == 0 and rule != PRINCIPAL:
                    first[:] = 0.0
                    first[0] = 1.0
                _apply(gram, first, image)
                if _dot(first, image) > tiny:
                    vector[:] = first
                    vector[1 + j] = 1.0
                    theta[j] = 0.0 if np.isnan(fixed_theta[j]) else fixed_theta[j]
                    started[j] = 1
                break
            weight = _weight(n, share, amnesia)
            shift = theta[j : j + 1]
            squares[j], quotient = _advance_sparse(
                vector, factors, gains, weight, fixed_theta[j], floor, shift, gram, image
            )
            if squares[j] == 0.0:
                vector[:] = 0.0
                started[j] = 0
                lost = True
                continue
            quotients[j] = quotient if started[j] == 1 else quotients[j] + weight * (quotient - quotients[j])
            started[j] = 2
        if len(points):
            _locate_sparse(mixing, gram, started, n, p, m, points[i])
        if lost or _cancels(mixing, gram, squares, p, m):
            _rewrite(indices, data, start, stop, columns, mixing, gram, p, m)
        else:
            _absorb(indices, data, start, stop, columns, mixing, gram, p, m)


@compiled
def fill_gram(columns: Float, gram: Float, first: int, last: int, m: int) -> None:
    """Compute the lines first … last − 1 of the Gram matrix of the remainders and class sums again."""
    for a in range(first, last):
        gram[a, :m] = 0.0
    for c in range(columns.shape[0]):
        for a in range(first, last):
            value = columns[c, a - 1]
            if value != 0.0:
                for b in range(1, m):
                    gram[a, b] += value * columns[c, b - 1]
    for a in range(first, last):
        for b in range(1, m):
            gram[b, a] = gram[a, b]


@compiled
def _dot(a: Float, b: Float) -> float:
    total = 0.0
    for c in range(len(a)):
        total += a[c] * b[c]
    return total


@compiled
def _weight(n: float, share: float, amnesia: float) -> float:
    """Return the weight of a row in the mean of n: (1 + l)/n, and 1/n as long as that would exceed one half."""
    return share * (1.0 + amnesia) / n if n > 2.0 * (1.0 + amnesia) else share / n


@compiled
def _floor(rule: int, epsilon: float, totals: Float, d: int) -> float:
    """Return the least ‖v‖ that theta="auto" allows."""
    n = totals[0]
    scale = 2.0 if rule == DISTANCE else 1.0
    return float(scale * epsilon * totals[1] / n * (FLOOR_MEAN / d + FLOOR_EARLY / np.sqrt(n)))


@compiled
def _scale_and_shift(
    squared: float, rayleigh: float, weight: float, fixed_theta: float, floor: float, theta: Float
) -> float:
    """Choose θ and return the factor of v(n − 1) in v(n).

    If θ changes, v is first lengthened by the same amount, so that ‖v‖ − θ stays the estimate of the eigenvalue.
    """
    length = np.sqrt(squared)
    estimate = length - theta[0]
    if np.isnan(fixed_theta):
        theta[0] = max(0.0, floor - (1.0 - weight) * estimate - weight * rayleigh)
    return float(((1.0 - weight) * (estimate + theta[0]) + weight * theta[0]) / length)


@compiled
def _set_gains(rule: int, epsilon: float, counts: Float, n: float, code: int, gains: Float) -> None:
    k_last = len(gains) - 1
    for k in range(k_last):
        if rule == SCATTER:
            gains[k] = (1.0 + epsilon) * counts[k] / n
        elif rule == DISTANCE:
            gains[k] = counts[k] / n
        else:
            gains[k] = 0.0
    if rule == SCATTER:
        gains[k_last] = -epsilon
    elif rule == DISTANCE:
        gains[code] -= 2.0 * epsilon + 1.0
        gains[k_last] = 0.0
    else:
        gains[k_last] = 1.0


@compiled
def _within_dense(row: Float, total: Float, count: float, share: float) -> float:
    """Return what a row adds to the within-class sum of squares; its class sum already includes the row."""
    if count <= share:
        return 0.0
    squared = 0.0
    for c in range(len(row)):
        squared += (row[c] - total[c] / count) ** 2
    return squared * share * count / (count - share)


@compiled
def _within_sparse(gram: Float, own: int, count: float, share: float) -> float:
    if count <= share:
        return 0.0
    squared = gram[0, 0] - 2.0 * gram[0, own] / count + gram[own, own] / count**2
    return float(max(squared, 0.0) * share * count / (count - share))


@compiled
def _set_factors_dense(row: Float, rule: int, counts: Float, basis: Float, p: int, mean: Float, factors: Float) -> None:
    k_last = factors.shape[0] - 1
    for k in range(k_last):
        if counts[k] == 0.0:
            factors[k] = 0.0
        elif rule == DISTANCE:
            factors[k] = row - basis[p + k] / counts[k]
        else:
            factors[k] = basis[p + k] / counts[k] - mean
    factors[k_last] = row
    if rule != DISTANCE:
        factors[k_last] -= mean


@compiled
def _set_factors_sparse(rule: int, counts: Float, n: float, p: int, factors: Float) -> None:
    k_last = factors.shape[0] - 1
    factors[:] = 0.0
    for k in range(k_last):
        if counts[k] > 0.0:
            if rule == DISTANCE:
                factors[k, 0] = 1.0
                factors[k, 1 + p + k] = -1.0 / counts[k]
            else:
                factors[k, 1 + p :] = -1.0 / n
                factors[k, 1 + p + k] += 1.0 / counts[k]
    factors[k_last, 0] = 1.0
    if rule != DISTANCE:
        factors[k_last, 1 + p :] = -1.0 / n


@compiled
def _advance_dense(
    vector: Float, factors: Float, gains: Float, weight: float, fixed_theta: float, floor: float, theta: Float
) -> float:
    """Move a vector by one row and take its direction out of the factors.

    Return the Rayleigh quotient of the row's matrix along the vector as it was, NaN where the vector vanishes.
    """
    squared = _dot(vector, vector)
    if not squared > 0.0:
        return np.nan
    products = np.zeros(len(gains))
    rayleigh = 0.0
    for k in range(len(gains)):
        if gains[k] != 0.0:
            products[k] = _dot(factors[k], vector)
            rayleigh += gains[k] * products[k] ** 2 / squared
    scale = _scale_and_shift(squared, rayleigh, weight, fixed_theta, floor, theta)
    for c in range(len(vector)):
        vector[c] *= scale
    for k in range(len(gains)):
        share = weight * gains[k] * products[k] / np.sqrt(squared)
        if share != 0.0:
            for c in range(len(vector)):
                vector[c] += share * factors[k, c]
    squared = _dot(vector, vector)
    if not squared > 0.0:
        return np.nan
    for k in range(len(gains)):
        share = _dot(factors[k], vector) / squared
        if share != 0.0:
            for c in range(len(vector)):
                factors[k, c] -= share * vector[c]
    return rayleigh


@compiled
def _advance_sparse(
    vector: Float,
    factors: Float,
    gains: Float,
    weight: float,
    fixed_theta: float,
    floor: float,
    theta: Float,
    gram: Float,
    image: Float,
) -> tuple[float, float]:
    """Do what `_advance_dense` does, on coefficients, through the Gram matrix; return ‖v‖² too, 0 where v vanishes."""
    _apply(gram, vector, image)
    squared = _dot(vector, image)
    if not squared > 0.0:
        return 0.0, 0.0
    products = np.zeros(len(gains))
    rayleigh = 0.0
    for k in range(len(gains)):
        products[k] = _dot(factors[k], image)
        rayleigh += gains[k] * products[k] ** 2 / squared
    scale = _scale_and_shift(squared, rayleigh, weight, fixed_theta, floor, theta)
    vector *= scale
    for k in range(len(gains)):
        share = weight * gains[k] * products[k] / np.sqrt(squared)
        for c in range(len(vector)):
            vector[c] += share * factors[k, c]
    _apply(gram, vector, image)
    squared = _dot(vector, image)
    if not squared > 0.0:
        return 0.0, 0.0
    for k in range(len(gains)):
        share = _dot(factors[k], image) / squared
        for c in range(len(vector)):
            factors[k, c] -= share * vector[c]
    return squared, rayleigh


@compiled
def _locate_dense(centred: Float, basis: Float, started: Integer, directions: Float, point: Float) -> None:
    """Write the coordinates of a centred row in the vectors, made orthonormal one after another."""
    for j in range(len(point)):
        point[j] = 0.0
        directions[j] = 0.0
        if not started[j]:
            continue
        directions[j] = basis[j] / np.sqrt(_dot(basis[j], basis[j]))
        for _ in range(2):  # the second time takes out what rounding left of the first
            for k in range(j):
                directions[j] -= _dot(directions[j], directions[k]) * directions[k]
        squared = _dot(directions[j], directions[j])
        if squared <= DEPENDENT:
            directions[j] = 0.0
            continue
        directions[j] /= np.sqrt(squared)
        point[j] = _dot(directions[j], centred)


@compiled
def _locate_sparse(mixing: Float, gram: Float, started: Integer, n: float, p: int, m: int, point: Float) -> None:
    """Do what `_locate_dense` does from the Gram matrix alone: the vectors' own Gram matrix is factored."""
    images = np.empty((p, m))
    lengths = np.empty(p)
    factor = np.zeros((p, p))
    for j in range(p):
        _apply(gram, mixing[j, :m], images[j])
        lengths[j] = np.sqrt(max(_dot(mixing[j, :m], images[j]), 0.0))
    for j in range(p):
        point[j] = 0.0
        if not started[j] or lengths[j] == 0.0:
            continue
        along = images[j, 0]
        for b in range(1 + p, m):
            along -= images[j, b] / n
        along /= lengths[j]
        rest = 1.0
        for k in range(j):
            if factor[k, k] > 0.0:
                product = _dot(mixing[k, :m], images[j]) / (lengths[j] * lengths[k])
                for b in range(k):
                    product -= factor[j, b] * factor[k, b]
                factor[j, k] = product / factor[k, k]
                rest -= factor[j, k] ** 2
                along -= factor[j, k] * point[k]
        if rest > DEPENDENT:
            factor[j, j] = np.sqrt(rest)
            point[j] = along / factor[j, j]


@compiled
def _apply(gram: Float, vector: Float, image: Float) -> None:
    for a in range(len(vector)):
        total = 0.0
        for b in range(len(vector)):
            total += gram[a, b] * vector[b]
        image[a] = total


@compiled
def _mean_square(gram: Float, p: int, m: int, n: float) -> float:
    total = 0.0
    for a in range(1 + p, m):
        for b in range(1 + p, m):
            total += gram[a, b]
    return max(total, 0.0) / n**2


@compiled
def _join_class(
    indices: Integer, data: Float, start: int, stop: int, columns: Float, gram: Float, own: int, m: int, share: float
) -> None:
    """Add the row to its class sum, and write its inner products into the first line of the Gram matrix."""
    gram[0, :m] = 0.0
    for position in range(start, stop):
        c, value = indices[position], data[position]
        gram[0, 0] += value * value
        for b in range(1, m):
            gram[0, b] += value * columns[c, b - 1]
        columns[c, own - 1] += share * value
    squared = gram[0, 0]
    for b in range(1, m):
        if b != own:
            gram[own, b] += share * gram[0, b]
            gram[b, own] = gram[own, b]
    gram[own, own] += share * (2.0 * gram[0, own] + share * squared)
    gram[0, own] += share * squared
    for b in range(1, m):
        gram[b, 0] = gram[0, b]


@compiled
def _cancels(mixing: Float, gram: Float, squares: Float, p: int, m: int) -> bool:
    """Tell whether a vector is a difference of much longer parts, or hardly holds its own remainder."""
    for j in range(p):
        longest = 0.0
        for b in range(m):
            longest = max(longest, mixing[j, b] ** 2 * gram[b, b])
        if longest > LONGEST_PART**2 * squares[j] or abs(mixing[j, 1 + j]) < 1e-3:
            return True
    return False


@compiled
def _absorb(
    indices: Integer,
    data: Float,
    start: int,
    stop: int,
    columns: Float,
    mixing: Float,
    gram: Float,
    p: int,
    m: int,
) -> None:
    """Move the row's share of every vector into the remainders: v_j mixes r_1 … r_j, so a triangle is solved."""
    shares = np.zeros(p)
    for j in range(p):
        share = mixing[j, 0]
        for b in range(j):
            share -= mixing[j, 1 + b] * shares[b]
        shares[j] = share / mixing[j, 1 + j]
        mixing[j, 0] = 0.0
    for position in range(start, stop):
        c, value = indices[position], data[position]
        for b in range(p):
            columns[c, b] += shares[b] * value
    for a in range(p):
        for b in range(p):
            gram[1 + a, 1 + b] += shares[a] * gram[0, 1 + b] + shares[b] * gram[0, 1 + a]
            gram[1 + a, 1 + b] += shares[a] * shares[b] * gram[0, 0]
        for b in range(1 + p, m):
            gram[1 + a, b] += shares[a] * gram[0, b]
            gram[b, 1 + a] = gram[1 + a, b]


@compiled
def _rewrite(
    indices: Integer,
    data: Float,
    start: int,
    stop: int,
    columns: Float,
    mixing: Float,
    gram: Float,
    p: int,
    m: int,
) -> None:
    """Make the vectors themselves the remainders, so that the coefficients are well scaled again."""
    line = np.empty(p)
    for c in range(columns.shape[0]):
        for j in range(p):
            line[j] = _dot(mixing[j, 1:m], columns[c, : m - 1])
        columns[c, :p] = line
    for position in range(start, stop):
        c, value = indices[position], data[position]
        for j in range(p):
            columns[c, j] += mixing[j, 0] * value
    mixing[:] = 0.0
    for j in range(p):
        mixing[j, 1 + j] = 1.0
    fill_gram(columns, gram, 1, 1 + p, m)
