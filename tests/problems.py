"""Random problems for hypothesis: small, labelled, and with enough structure to have distinct directions."""

from itertools import pairwise

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy import sparse

seeds = st.integers(0, 2**32 - 1)


def at_most(examples):
    """Return how many examples a slow law takes: these, or the number asked for with KAMPONG_EXAMPLES if smaller."""
    return min(examples, settings.default.max_examples)


def problem(seed, *, classes=3, rows=40, features=5):
    """Return rows of Gaussian classes with a common covariance, labels in random order, every class present."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
    rng.shuffle(y)
    means = 2.0 * rng.standard_normal((classes, features))
    mixing = rng.standard_normal((features, features)) + 2.0 * np.eye(features)
    return means[y] + rng.standard_normal((rows, features)) @ mixing.T, y


def sparse_rows(shape, density, rng):
    """Return random CSR rows; scipy's own generator takes its seed under different names in different versions."""
    rng = np.random.default_rng(rng)
    count = round(density * shape[0] * shape[1])
    cells = rng.choice(shape[0] * shape[1], count, replace=False) if shape[0] * shape[1] < 10**7 else None
    if cells is None:
        cells = np.unique(rng.integers(0, shape[0] * shape[1], count))
    values = rng.random(len(cells))
    return sparse.csr_array((values, (cells // shape[1], cells % shape[1])), shape=shape)


@st.composite
def problems(draw, max_classes=5, max_features=7, max_rows=60):
    """Draw a problem with more rows than features."""
    classes = draw(st.integers(2, max_classes))
    features = draw(st.integers(2, max_features))
    rows = draw(st.integers(classes + features + 3, max_rows))
    return problem(draw(seeds), classes=classes, rows=rows, features=features)


def cut(rng, n):
    """Cut range(n) at random into consecutive batches, single rows included."""
    edges = np.unique(np.concatenate([[0, n], rng.integers(0, n + 1, rng.integers(0, 9))]))
    return [slice(a, b) for a, b in pairwise(edges)]


def aligned(seed, *, n=3000, d=200, classes=4):
    """Return classes whose means lie mostly where they vary most within themselves: the means alone mislead."""
    rng = np.random.default_rng(seed)
    spread, reach = np.full(d, 0.3), np.zeros(d)
    spread[:10], reach[:10], reach[10:30] = 9.0, 3.0, 1.0
    means = reach * rng.standard_normal((classes, d))
    y = rng.integers(0, classes, n)
    return means[y] + spread * rng.standard_normal((n, d)), y
