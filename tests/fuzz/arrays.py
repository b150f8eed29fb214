"""Arrays of odd kinds for every method: the answer of a plain array, or a refusal that says why."""

import decimal
import itertools
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from fuzz.children import Finding
from fuzz.subjects import STATISTICS, call, fitted, plain, rows, subjects, width_of

REFUSE = None
FINITE = "right, with numbers that are finite, or refused"
EITHER = "right or refused"


def _memory_mapped(X):
    with tempfile.NamedTemporaryFile(suffix=".npy", delete=False) as file:
        np.save(file, X)
    mapped = np.load(file.name, mmap_mode="r")
    Path(file.name).unlink()
    return mapped


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _matrix_read_only(X):
    matrix = sparse.csr_array(X)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _with_indices(X, dtype):
    matrix = sparse.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(dtype), matrix.indptr.astype(dtype)
    return matrix


def _with_data(X, dtype):
    matrix = sparse.csr_array(X)
    matrix.data = matrix.data.astype(dtype)
    return matrix


def _masked(X, hidden):
    mask = np.zeros(X.shape, dtype=bool)
    mask[0, 0] = hidden
    return np.ma.MaskedArray(X, mask=mask)


def _strided(X):
    wide = np.zeros((2 * len(X), 3 * X.shape[1]))
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _holed(X, value):
    X = X.copy()
    X[1, 0] = value
    return X


def _loose_tail(X):
    """Return CSR with unused entries behind the last row, as slicing in place may leave them."""
    matrix = sparse.csr_array(X)
    matrix.data, matrix.indices = np.append(matrix.data, np.nan), np.append(matrix.indices, 10**6).astype(np.int32)
    return matrix


def _structured(X):
    return X.astype([("a", "f8")])[:, :1]


def _objects_with(X, value):
    X = X.astype(object)
    X[0, 0] = value
    return X


def _zeros_stored(X):
    matrix = sparse.csr_array(X)
    matrix.data[::2] = 0.0
    return matrix


def _unaligned(X):
    data = np.zeros(X.nbytes + 1, dtype=np.uint8)
    data[1:] = np.frombuffer(X.tobytes(), dtype=np.uint8)
    return np.frombuffer(data, dtype=np.float64, offset=1).reshape(X.shape)


class _Subclass(np.ndarray):
    """An array of another class, such as one with units."""


class _Interface:
    """Something that can be made an array."""

    def __init__(self, X):
        self._X, self.shape = X, X.shape

    def __array__(self, dtype=None, copy=None):
        return np.array(self._X, dtype=dtype)

    def __len__(self):
        return len(self._X)


def _frame(X):
    return pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])


def _nullable(X, hole):
    frame = _frame(X).astype("Float64")
    if hole:
        frame.iloc[0, 0] = pd.NA
    return frame


def _matrix_memory_mapped(X):
    matrix = sparse.csr_array(X)
    matrix.data, matrix.indices, matrix.indptr = map(_memory_mapped, (matrix.data, matrix.indices, matrix.indptr))
    return matrix


def _repeated(X):
    """Return CSR with every entry as two halves, the last ones first."""
    good = sparse.csr_array(X)
    data, indices = np.repeat(good.data / 2, 2), np.repeat(good.indices, 2)
    bounds = 2 * good.indptr
    for start, stop in itertools.pairwise(bounds):
        data[start:stop], indices[start:stop] = data[start:stop][::-1].copy(), indices[start:stop][::-1].copy()
    return sparse.csr_array((data, indices, bounds), shape=X.shape)


def same(X):
    return X


# kind: (how to make it, the plain array that it means; None where it must be refused)
KINDS = {
    "float64": (same, same),
    "float32": (lambda X: X.astype(np.float32), lambda X: X.astype(np.float32).astype(np.float64)),
    "float16": (lambda X: X.astype(np.float16), lambda X: X.astype(np.float16).astype(np.float64)),
    "long double": (lambda X: X.astype(np.longdouble), same),
    "byte-swapped": (lambda X: X.astype(">f8"), same),
    "byte-swapped float32": (lambda X: X.astype(">f4"), lambda X: X.astype(np.float32).astype(np.float64)),
    "columns first": (np.asfortranarray, same),
    "strided": (_strided, same),
    "backwards": (lambda X: X[::-1].copy()[::-1], same),
    "unaligned": (_unaligned, same),
    "a row repeated": (lambda X: np.broadcast_to(X[:1], X.shape), lambda X: np.repeat(X[:1], len(X), axis=0)),
    "array of a subclass": (lambda X: X.view(_Subclass), same),
    "array interface": (_Interface, same),
    "tuples": (lambda X: tuple(map(tuple, X.tolist())), same),
    "decimals": (lambda X: np.vectorize(decimal.Decimal, otypes=[object])(X), same),
    "numbers as text": (lambda X: X.astype(str), EITHER),
    "numbers as bytes": (lambda X: X.astype("S32"), EITHER),
    "matrix of NumPy": (np.matrix, EITHER),
    "denormal": (lambda X: X * 1e-310, FINITE),
    "denormal float32": (lambda X: (X * 1e-40).astype(np.float32), FINITE),
    "huge": (lambda X: X * 1e160, FINITE),
    "nearly too large": (lambda X: X * 1e140, FINITE),
    "huge float32": (lambda X: (X * 1e37).astype(np.float32), FINITE),
    "csr, huge": (lambda X: sparse.csr_array(X * 1e160), FINITE),
    "csr, denormal": (lambda X: sparse.csr_array(X * 1e-310), FINITE),
    "memory-mapped": (_memory_mapped, same),
    "read-only": (_read_only, same),
    "objects": (lambda X: X.astype(object), same),
    "integers": (lambda X: X.astype(np.int8), lambda X: X.astype(np.int8).astype(np.float64)),
    "unsigned": (lambda X: np.abs(X).astype(np.uint64), lambda X: np.abs(X).astype(np.uint64).astype(np.float64)),
    "booleans": (lambda X: X > 0, lambda X: (X > 0).astype(np.float64)),
    "list": (lambda X: X.tolist(), same),
    "masked, nothing hidden": (lambda X: _masked(X, False), same),
    "masked": (lambda X: _masked(X, True), REFUSE),
    "complex": (lambda X: X.astype(complex), REFUSE),
    "complex objects": (lambda X: _objects_with(X, 1j), REFUSE),
    "words": (lambda X: _objects_with(X, "many"), REFUSE),
    "None": (lambda X: _objects_with(X, None), REFUSE),
    "NaN": (lambda X: _holed(X, np.nan), REFUSE),
    "infinity": (lambda X: _holed(X, -np.inf), REFUSE),
    "too large": (lambda X: _holed(X.astype(object), 10**400), REFUSE),
    "dates": (lambda X: X.astype("datetime64[s]"), REFUSE),
    "spans of time": (lambda X: X.astype("timedelta64[s]"), REFUSE),
    "structured": (_structured, REFUSE),
    "void": (lambda X: np.zeros(X.shape, dtype="V4"), REFUSE),
    "no rows": (lambda X: X[:0], REFUSE),
    "no columns": (lambda X: X[:, :0], REFUSE),
    "0-d": (lambda X: np.array(1.0), REFUSE),
    "1-d": (lambda X: X[0], REFUSE),
    "3-d": (lambda X: X[None], REFUSE),
    "too wide": (lambda X: np.hstack([X, X]), "refuse unless fitted"),
    "nothing": (lambda X: None, REFUSE),
    "ragged": (lambda X: [list(row[: 1 + i % 2]) for i, row in enumerate(X)], REFUSE),
    "frame of pandas": (_frame, same),
    "frame of float32": (lambda X: _frame(X).astype(np.float32), lambda X: X.astype(np.float32).astype(np.float64)),
    "frame that may have holes": (lambda X: _nullable(X, False), same),
    "frame with a hole": (lambda X: _nullable(X, True), REFUSE),
    "frame of words": (lambda X: _frame(X).astype(str).add("x"), REFUSE),
    "sparse frame": (lambda X: _frame(X).astype(pd.SparseDtype(float, 0.0)), same),
    "frame of polars": (lambda X: pl.DataFrame(X, schema=[f"c{i}" for i in range(X.shape[1])], orient="row"), same),
    "frame of polars with a hole": (
        lambda X: pl.DataFrame([[None, *row[1:]] for row in X.tolist()], orient="row", strict=False),
        REFUSE,
    ),
    "csr": (sparse.csr_array, same),
    "csc": (sparse.csc_array, same),
    "coo matrix": (sparse.coo_matrix, same),
    "dia": (sparse.dia_array, same),
    "csr matrix": (sparse.csr_matrix, same),
    "bsr": (sparse.bsr_array, same),
    "lil": (sparse.lil_array, same),
    "dok": (sparse.dok_array, same),
    "csr, memory-mapped": (_matrix_memory_mapped, same),
    "csr, repeated and backwards": (_repeated, same),
    "csr, booleans": (lambda X: sparse.csr_array(X > 0), lambda X: (X > 0).astype(np.float64)),
    "csr, long double": (lambda X: _with_data(X, np.longdouble), same),
    "csr, float16": (lambda X: _with_data(X, np.float16), EITHER),
    "csr, 1-d": (lambda X: sparse.coo_array(X[0]), REFUSE),
    "csr, int64 indices": (lambda X: _with_indices(X, np.int64), same),
    "csr, int16 indices": (lambda X: _with_indices(X, np.int16), same),
    "csr, byte-swapped indices": (lambda X: _with_indices(X, ">i4"), same),
    "csr, read-only": (_matrix_read_only, same),
    "csr, byte-swapped": (lambda X: _with_data(X, ">f8"), same),
    "csr, float32": (lambda X: sparse.csr_array(X.astype(np.float32)), lambda X: X.astype(np.float32).astype(float)),
    "csr, integers": (lambda X: sparse.csr_array(X.astype(np.int64)), lambda X: X.astype(np.int64).astype(float)),
    "csr, objects": (lambda X: _with_data(X, object), REFUSE),
    "csr, complex": (lambda X: sparse.csr_array(X.astype(complex)), REFUSE),
    "csr, NaN": (lambda X: sparse.csr_array(_holed(X, np.nan)), REFUSE),
    "csr, unused entries": (_loose_tail, same),
    "csr, zeros stored": (_zeros_stored, lambda X: _zeros_stored(X).toarray()),
    "csr, no rows": (lambda X: sparse.csr_array(X[:0]), REFUSE),
}
CASES = [(name, method, kind) for name, method in subjects() for kind in KINDS]


def attempt(seed):
    """Give one kind of array to one method, and compare with the plain array that it means."""
    name, method, kind = CASES[seed % len(CASES)]
    make, meant = KINDS[kind]
    X = rows()[0][:, : width_of(name, method)]
    y = np.zeros(0, dtype=int) if kind.endswith("no rows") else rows()[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = make(X)
    if meant == "refuse unless fitted":
        meant = same if method.startswith(("fit", "partial")) else REFUSE
        X = odd if meant is same else X
    mode = meant if isinstance(meant, str) else ""
    if mode:

        def meant(_):
            return np.asarray(plain(odd)).astype(np.float64)

    before = odd.copy() if isinstance(odd, np.ndarray) else None
    try:
        found = call(name, method, odd, y, form="dense")
    except (ValueError, TypeError) as error:
        return _refused(error, f"{name}.{method}, {kind}", REFUSE if mode else meant, X, name, method)
    if before is not None and before.tobytes() != odd.tobytes():
        raise Finding(f"{name}.{method}, {kind}: the caller's array was changed")
    if method == "partial_fit" and kind.endswith("no rows"):
        return "right"
    if name == "InformationGain" and method in ("transform", "inverse_transform") and "rows" not in kind:
        return _kept_as_it_is(method, found, odd, kind)
    found = found.astype(np.float64) if found.dtype.kind in "US" else found
    if meant is REFUSE:
        if kind.endswith("no rows") and (name in STATISTICS or name == "InformationGain"):
            return "right"  # an empty batch changes nothing, and columns are moved whether there are rows or not
        raise Finding(f"{name}.{method}, {kind}: accepted")
    return _compared(name, method, kind, found, _meant(name, odd, meant(X)), y, mode)


def _compared(name, method, kind, found, X, y, mode):
    """Compare an answer with that for the plain array."""
    endless = method == "score_samples" and mode is FINITE  # the logarithm of a likelihood of zero
    if found.dtype.kind in "fc" and (np.isnan(found).any() or not (endless or np.isfinite(found).all())):
        raise Finding(f"{name}.{method}, {kind}: NaN or infinity")
    try:
        expected = call(name, method, X, y, form="dense")
    except (ValueError, TypeError) as error:
        if mode is FINITE:  # float32 rows may be taken where those of float64 just vanish or overflow
            return "right"
        raise Finding(f"{name}.{method}, {kind}: accepted, and the plain array is not: {error!s:.100}") from None
    loose = 2e-4 if "32" in kind or "16" in kind else 1e-7
    loose = 1e-2 if name == "MaxMinOverClassifier" else loose  # it stops at a gap, which rounding reaches on other ways
    equal = np.array_equal(found, expected) if found.dtype.kind not in "f" else None
    if equal is None:
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
        equal = found.shape == expected.shape and np.allclose(found, expected, rtol=loose, atol=loose * scale)
    if not equal:
        raise Finding(f"{name}.{method}, {kind}: {found.ravel()[:3]}, expected {expected.ravel()[:3]}")
    return "right"


def _meant(name, odd, X):
    """Return the plain array: sparse for MinOver, whose walk has no end where no plane separates: last bits decide."""
    return sparse.csr_array(X) if name == "MinOverClassifier" and sparse.issparse(odd) else X


def _kept_as_it_is(method, found, odd, kind):
    """Columns that are selected stay what they are, words too; `inverse_transform` only moves them."""
    kept, given = fitted("InformationGain", "dense").get_support(), np.asarray(plain(odd))
    mine, wanted = (found[:, kept], given) if method == "inverse_transform" else (found, given[:, kept])
    if mine.dtype.kind in "fc" and kind != "objects":
        mine, wanted = np.nan_to_num(mine), np.nan_to_num(wanted)
    if not np.array_equal(mine, wanted):
        raise Finding(f"InformationGain.{method}, {kind}: other columns")
    return "right"


def _refused(error, what, meant, X, name, method):
    """Tell whether a refusal is due: where the plain array would be refused as well, or the kind means nothing."""
    if not str(error):
        raise Finding(f"{what}: refused without a message")
    if meant is not REFUSE and "parse data was passed" not in str(error):
        try:
            call(name, method, meant(X), form="dense")
        except (ValueError, TypeError):
            return "refused"
        raise Finding(f"{what}: refused, {error!s:.150}")
    return "refused"
