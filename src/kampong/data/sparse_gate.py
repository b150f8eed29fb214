"""The gate for rows: compiled loops, which check nothing themselves, read only what has passed it.

Sparse rows come out as CSR with every index in range, sorted and without duplicates; the caller's arrays stay as they
are. The cost is one pass over the indices. Arrays whose values mean something else than they hold are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong._core.compute import compiled, run, split

if TYPE_CHECKING:
    from kampong._core.compute import Integer

MARK = "_kampong_admitted"
"""Set on the matrices made here, which nobody else holds, so that they are checked once."""

LONG = 2**20
"""Above this many entries the pass runs on all cores."""

NONE = np.int32(0)
CHUNK = 8192
"""This many indices stay in the cache between two loops over them."""


def admit(X: Any, name: str = "X") -> Any:
    """Return rows that can be trusted to be what their arrays say; a dense X comes back as it is.

    Parameters
    ----------
    X : array-like or sparse matrix
        The rows; other values than sparse matrices are checked further by those who ask for an array.
    name : str
        What the messages call it.

    Returns
    -------
    array-like or CSR matrix
        X, or for a sparse X a canonical CSR matrix that shares its arrays where they are canonical.
    """
    if sparse.issparse(X):
        return X if getattr(X, MARK, False) else _admit_sparse(X, name)
    if isinstance(X, np.ma.MaskedArray):
        hidden = int(np.count_nonzero(np.ma.getmaskarray(X)))
        if hidden:
            raise ValueError(
                f"{name} is a masked array with {hidden} masked entries, which have no value to compute with. Fill "
                "them (numpy.ma.filled) or leave their rows out."
            )
        return np.asarray(X.data)
    X = _as_array(X, name)
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    if isinstance(X, np.ndarray) and kind in ("M", "m", "V"):
        raise ValueError(f"{name} has dtype {X.dtype}; it needs numbers. Convert it, for instance with astype(float).")
    return X


def _as_array(X: Any, name: str) -> Any:
    """Return tensors of other libraries (DLPack, or `__array__` alone) as arrays, and any other value as it is."""
    if isinstance(X, np.ndarray | np.generic):
        return X
    if hasattr(X, "__dlpack__"):
        try:
            return np.from_dlpack(X)
        except Exception as error:  # each library has errors of its own
            if not hasattr(X, "__array__"):
                raise ValueError(
                    f"{name} is a tensor of {type(X).__module__}.{type(X).__name__} that cannot be read ({error}). "
                    "Move it to the processor, detach it from gradients, or convert it with numpy.asarray."
                ) from None
    alone = hasattr(X, "__array__") and not hasattr(X, "__getitem__")  # data frames keep their names
    return np.asarray(X) if alone or hasattr(X, "__dlpack__") else X


def _admit_sparse(X: Any, name: str) -> Any:
    if X.ndim != 2:
        raise ValueError(f"{name} is a sparse array of {X.ndim} dimension(s); it needs 2.")
    if X.format != "csr":
        X = _as_csr(X, name)
    rows, columns = X.shape
    data, indices, indptr = _compressed(X, rows, name)
    _check_pointers(indptr, len(indices), name)
    entries = int(indptr[-1])
    data, indices = data[:entries], indices[:entries]
    canonical = _check_indices(indptr, indices, columns, name)
    kind = sparse.csr_array if isinstance(X, sparse.sparray) else sparse.csr_matrix
    result: Any = kind((rows, columns), dtype=data.dtype)
    result.data, result.indices, result.indptr = data, indices, indptr  # a constructor would read them again
    if not canonical:
        result = result.copy()
        result.has_sorted_indices = result.has_canonical_format = False
        result.sum_duplicates()
    result.has_sorted_indices = result.has_canonical_format = True
    setattr(result, MARK, True)
    return result


def _as_csr(X: Any, name: str) -> Any:
    """Return another sparse form as CSR; scipy's conversions trust their arrays, so these are checked first."""
    try:
        if X.format in ("csc", "bsr"):
            height, width = X.blocksize if X.format == "bsr" else (1, 1)
            major, minor = X.shape[::-1] if X.format == "csc" else (X.shape[0] // height, X.shape[1] // width)
            indices, indptr = _compressed(X, major, name)[1:]
            _check_pointers(indptr, len(indices), name)
            _check_indices(indptr, indices[: int(indptr[-1])], minor, name)
        elif X.format == "lil":
            _check_lists(X, name)
        else:
            X = X if X.format == "coo" else X.tocoo()
            for place, length in zip((X.row, X.col), X.shape, strict=True):
                whole = place.dtype.kind in "iu" and place.shape == X.data.shape == (len(X.data),)
                if not whole or (len(place) and not 0 <= place.min() <= place.max() < length):
                    _refuse(name, f"coordinates outside its shape {X.shape}")
        return X.tocsr()
    except (IndexError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{name} is a broken sparse matrix: its {X.format} arrays do not fit together ({error}). Build it again "
            "from its entries, for instance with scipy.sparse.coo_array."
        ) from None


def _check_lists(X: Any, name: str) -> None:
    """Check the lists of a matrix in list form against its shape."""
    fits = X.rows.shape == X.data.shape == (X.shape[0],)
    for places, values in zip(X.rows, X.data, strict=True) if fits else ():
        fits = fits and len(places) == len(values) and all(0 <= place < X.shape[1] for place in places)
    if not fits:
        _refuse(name, f"lists that do not fit its shape {X.shape}")


def _compressed(X: Any, major: int, name: str) -> tuple[np.ndarray, Integer, Integer]:
    """Return data, indices and pointers as plain arrays of the machine's byte order, once their forms are right."""
    data, indices, indptr = (np.asarray(array) for array in (X.data, X.indices, X.indptr))
    for array, what in ((indices, "indices"), (indptr, "indptr")):
        if array.dtype.kind not in "iu" or array.ndim != 1:
            _refuse(name, f"{what} of dtype {array.dtype} and shape {array.shape}, not a list of whole numbers")
    if data.dtype.kind not in "biufc" or data.ndim != (3 if X.format == "bsr" else 1):
        _refuse(name, f"values of dtype {data.dtype} and shape {data.shape}")
    if len(data) != len(indices) or len(indptr) != major + 1:
        _refuse(name, f"{len(data)} values, {len(indices)} indices and {len(indptr)} pointers for shape {X.shape}")
    long = any(array.dtype.itemsize > 4 or array.dtype == np.uint32 for array in (indices, indptr))
    index = np.dtype(np.int64 if long else np.int32)
    data = np.ascontiguousarray(data, dtype=data.dtype.newbyteorder("="))
    return data, np.ascontiguousarray(indices, dtype=index), np.ascontiguousarray(indptr, dtype=index)


def _check_pointers(indptr: Integer, entries: int, name: str) -> None:
    if indptr[0] != 0 or indptr[-1] > entries or (indptr[1:] < indptr[:-1]).any():
        _refuse(name, f"row pointers that do not rise from 0 to at most its {entries} entries")


def _check_indices(indptr: Integer, indices: Integer, width: int, name: str) -> bool:
    """Refuse an index outside 0 … width − 1; tell whether every row is sorted and without duplicates."""
    if not len(indices):
        return True
    pieces = 8 if len(indices) > LONG else 1
    parts, rows = split(len(indices) - 1, pieces), split(len(indptr) - 1, pieces)
    found = np.zeros((len(parts), 3), dtype=np.int64)
    found[0, :2] = indices[-1]
    run(_scan, [(indices, found[i], a, b) for i, (a, b) in enumerate(parts)])
    low, high = int(found[:, 0].min()), int(found[:, 1].max())
    if low < 0 or high >= width:
        _refuse(name, f"indices from {low} to {high}, outside 0 … {width - 1}")
    between = np.zeros(len(rows), dtype=np.int64)
    run(_count_falls_between_rows, [(indptr, indices, between[i : i + 1], a, b) for i, (a, b) in enumerate(rows)])
    return bool(found[:, 2].sum() == between.sum())


def _refuse(name: str, what: str) -> None:
    raise ValueError(
        f"{name} is a broken sparse matrix: it has {what}. Check it with {name}.check_format(), and build it again "
        "from its entries, for instance with scipy.sparse.coo_array."
    )


@compiled
def _scan(indices: Integer, found: Integer, start: int, stop: int) -> None:
    """Find the least and largest index, and count those that are not below the next one; loops for vector units."""
    low, high, total = found[0], found[1], found[2]
    for first in range(start, stop, CHUNK):
        last = min(first + CHUNK, stop)
        these, following = indices[first:last], indices[first + 1 : last + 1]
        least, most, falls = these[0], these[0], NONE
        for p in range(len(these)):
            least, most = min(least, these[p]), max(most, these[p])
        for p in range(len(these)):
            falls = np.int32(falls + np.int32(following[p] <= these[p]))
        low, high, total = min(low, least), max(high, most), total + falls
    found[0], found[1], found[2] = low, high, total


@compiled
def _count_falls_between_rows(indptr: Integer, indices: Integer, found: Integer, start: int, stop: int) -> None:
    """Count the rows whose first index is not above the index before it: there, and only there, it may fall."""
    falls = 0
    for row in range(start, stop):
        first = indptr[row]
        if 0 < first < indptr[row + 1]:
            falls += indices[first] <= indices[first - 1]
    found[0] = falls
