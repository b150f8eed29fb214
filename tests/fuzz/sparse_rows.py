"""Broken sparse matrices for every method: each is refused with a clear message, never read, never accepted."""

import numpy as np
from scipy import sparse

from fuzz.children import Finding
from fuzz.subjects import STATISTICS, call, rows, subjects, width_of

PAIRS = subjects()
FORMS = ("csr_array", "csr_matrix", "csc_array", "bsr_array", "coo_array", "lil_array", "dok_array")


def attempt(seed):
    """Break one matrix and give it to one method."""
    rng = np.random.default_rng(seed)
    name, method = PAIRS[seed % len(PAIRS)]
    X = rows()[0][:, : width_of(name, method)]
    if rng.random() < 0.15:
        return _odd_but_legal(rng, name, method, X)
    form = FORMS[0] if rng.random() < 0.6 else rng.choice(FORMS)
    matrix = getattr(sparse, form)(X)
    how = _break(rng, matrix)
    try:
        call(name, method, matrix)
    except (ValueError, TypeError) as error:
        if not str(error):
            raise Finding(f"{name}.{method}, {form}, {how}: no message") from None
        return "refused"
    raise Finding(f"{name}.{method}, {form}, {how}: accepted")


def _break(rng, matrix):
    """Break a matrix in place, so that no reading of it is right; return how."""
    if matrix.format == "lil":
        row = int(rng.choice([i for i, places in enumerate(matrix.rows) if places]))
        matrix.rows[row][0] = int(rng.choice([-1, matrix.shape[1], 2**30]))
        return "place in a list"
    if matrix.format == "dok":
        dict.__setitem__(matrix._dict, (int(rng.choice([-9, 2**20])), 0), 1.0)
        return "key"
    if matrix.format == "coo":
        places = [axis.copy() for axis in matrix.coords]
        axis = int(rng.integers(2))
        places[axis][rng.integers(len(places[axis]))] = rng.choice([-1, matrix.shape[axis], 2**30])
        matrix.coords = tuple(places)
        return "coordinate"
    major = len(matrix.indptr) - 1
    minor = matrix.shape[0] if matrix.format == "csc" else matrix.shape[1]
    minor = minor // matrix.blocksize[1] if matrix.format == "bsr" else minor
    entries = len(matrix.indices)
    kind = rng.choice(["index", "pointer", "long", "order", "short", "pointers", "dtype", "shape", "start"])
    if kind == "index":
        bad = rng.choice([-1, minor, minor + 1, 2**20, 2**30, 2**31 - 1, -(2**31)])
        matrix.indices[rng.integers(entries)] = bad
    elif kind == "long":
        indices = matrix.indices.astype(np.int64)
        indices[rng.integers(entries)] = rng.choice([-1, minor, 2**31, 2**40, 2**62, -(2**62)])
        matrix.indices, matrix.indptr = indices, matrix.indptr.astype(np.int64)
    elif kind == "pointer":
        matrix.indptr[rng.integers(1, major + 1)] = rng.choice([-1, entries + 1, 2**30, 2**31 - 1, -(2**31)])
    elif kind == "order":
        place = int(rng.integers(1, major))
        matrix.indptr[place] = matrix.indptr[place + 1] + 1
    elif kind == "short":
        cut = int(rng.integers(1, entries))
        which = rng.integers(3)
        matrix.indices = matrix.indices[: entries - cut] if which != 1 else matrix.indices
        matrix.data = matrix.data[: entries - cut] if which != 0 else matrix.data
    elif kind == "pointers":
        matrix.indptr = matrix.indptr[:-1] if rng.random() < 0.5 else np.append(matrix.indptr, matrix.indptr[-1])
    elif kind == "dtype":
        matrix.indices = matrix.indices.astype(rng.choice(["f8", "O", "U3"]))
    elif kind == "shape":
        matrix.indices = matrix.indices.reshape(1, -1) if rng.random() < 0.5 else matrix.indices[:, None]
    else:
        matrix.indptr[0] = rng.choice([-1, 1, 2**20])
    return str(kind)


def _odd_but_legal(rng, name, method, X):
    """Give rows with unsorted and repeated entries, whose flags may lie: they mean the sum of the repeated ones."""
    good = sparse.coo_array(X)
    twice = rng.random(good.nnz) < 0.5
    data = np.concatenate([np.where(twice, good.data / 2, good.data), good.data[twice] / 2])
    places = [np.concatenate([axis, axis[twice]]) for axis in good.coords]
    order = rng.permutation(len(data))
    order = order[np.argsort(places[0][order], kind="stable")]
    indptr = np.append(0, np.cumsum(np.bincount(places[0], minlength=X.shape[0])))
    odd = sparse.csr_array((data[order], places[1][order], indptr), shape=X.shape)
    if rng.random() < 0.5:
        odd.has_sorted_indices = odd.has_canonical_format = True
    before = [array.copy() for array in (odd.data, odd.indices, odd.indptr)]
    more = {} if name in STATISTICS else {"form": "sparse"}
    try:
        expected = call(name, method, sparse.csr_array(X), **more)
    except (TypeError, ValueError):
        return "refused"  # this method takes no sparse rows, or none in a stream
    found = call(name, method, odd, **more)
    if not np.allclose(expected, found, rtol=1e-9, atol=1e-9):
        raise Finding(f"{name}.{method}: repeated entries give {found.ravel()[:3]}, not {expected.ravel()[:3]}")
    if any((a != b).any() for a, b in zip(before, (odd.data, odd.indices, odd.indptr), strict=True)):
        raise Finding(f"{name}.{method}: the caller's matrix was changed")
    return "right"
