"""The reservoir as a naive loop over keys with Python's integers, streams to feed it, and its state to compare."""

import math
from itertools import pairwise

import numpy as np
from scipy import sparse

MASK = 2**64 - 1
FORMS = ["dense", "float32", "sparse", "multilabel"]


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def clock(seed, number):
    """Return the exponential clock of row `number` (from 1), with Python's integers."""
    bits = mix(mix(number * 0x9E3779B97F4A7C15 & MASK) ^ mix((seed + 0x9E3779B97F4A7C15) & MASK)) >> 12
    return -math.log((bits + 0.5) / 2**52)


def naive_keys(seed, weights, factors=None):
    """Return log(clock / present weight) of each row, all weights taken at the end; `factors` decay what is before."""
    keys, number = np.full(len(weights), np.inf), 0
    for i, weight in enumerate(weights):
        if weight > 0:
            number += 1
            later = 1.0 if factors is None else float(np.prod(factors[i + 1 :]))
            keys[i] = math.log(clock(seed, number)) - math.log(weight * later)
    return keys


def naive_sample(keys, sizes, budget):
    """Return the rows kept, by key, and log τ: the longest prefix in the order of the keys that fits."""
    kept, used = [], 0
    for i in np.argsort(keys):
        used += sizes[i]
        if keys[i] == np.inf:
            break
        if used > budget:
            return kept, keys[i]
        kept.append(int(i))
    return kept, np.inf


def size_of(x, labels=1):
    if isinstance(x, np.ndarray):
        return 96 + x.nbytes + 8 * labels
    return 96 + x.nnz * (x.dtype.itemsize + 4) + 8 * labels


def stream_of(form, rng, n=60, d=7):
    """Return rows that carry their number in their first column, targets, weights with zeros, and sizes."""
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.5)
    X[:, 0] = np.arange(n) + 1
    y = rng.integers(0, 3, n)
    weights = rng.integers(0, 4, n) * rng.uniform(0.5, 2, n)
    labels = np.ones(n, dtype=int)
    if form == "float32":
        X = X.astype(np.float32)
    if form in ("sparse", "multilabel"):
        X = sparse.csr_array(X)
    if form == "multilabel":
        y = (rng.random((n, 4)) < 0.4).astype(int)
        labels = y.sum(axis=1)
    sizes = np.array([size_of(X[[i]], k) for i, k in enumerate(labels)])
    return X, y, weights, sizes, labels


def numbers(state):
    """Return which rows of `stream_of` are kept."""
    rows = state.sample().rows
    column = rows[:, [0]].toarray() if sparse.issparse(rows) else rows[:, [0]]
    return (column.ravel() - 1).astype(int).tolist()


def segments(rng, n):
    """Return a decay factor for each row: 1 but for the starts of a few segments, where the past is decayed."""
    factors = np.ones(n)
    factors[rng.integers(0, n, 4)] = rng.uniform(0.3, 1.0, 4)
    return factors


def feed(state, X, y, weights, factors, batches, read=lambda _: None):
    """Update with batches, cut further where a decay factor says so."""
    for batch in batches:
        edges = sorted({batch.start, batch.stop, *(np.flatnonzero(factors != 1))})
        edges = [e for e in edges if batch.start <= e <= batch.stop]
        for a, b in pairwise(edges):
            state.update(X[a:b], y[a:b], weights[a:b], decay=factors[a])
            read(state)
    return state


def sample_arrays(state):
    """Return the sample's whole state, with labels by their order and not by their appearance."""
    arrays = {name: array for name, array in state.to_arrays().items() if name.startswith("sample_")}
    return {**arrays, "sample_codes": state.sample().members.codes, "weights": state.sample().weights}


def assert_identical(first, second):
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert array.dtype == second[name].dtype, name
        np.testing.assert_array_equal(array, second[name], err_msg=name)
