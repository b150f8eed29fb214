"""Labels: the classes seen so far, which row counts for which of them, and how both are saved."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong.checkpoint.contents import to_lines
from kampong.checkpoint.errors import CheckpointError
from kampong.data.gate import admit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kampong._runtime.compute import Float, Integer
    from kampong.checkpoint.contents import Contents

Label = bool | int | float | str


@dataclass(frozen=True)
class Members:
    """Memberships: which of `n_rows` rows counts for which class, with what weight (always positive)."""

    rows: Integer
    codes: Integer
    weights: Float
    n_rows: int

    def without(self, rows: Integer) -> Members:
        """Return the memberships of all rows but these."""
        gone = np.zeros(self.n_rows, dtype=bool)
        gone[rows] = True
        mine = ~gone[self.rows]
        return Members(self.rows[mine], self.codes[mine], self.weights[mine], self.n_rows)

    def part(self, start: int, stop: int) -> Members:
        """Return the memberships of the rows from `start` to before `stop`, numbered from 0."""
        first, last = np.searchsorted(self.rows, (start, stop))
        return Members(self.rows[first:last] - start, self.codes[first:last], self.weights[first:last], stop - start)

    def renamed(self, position: Integer) -> Members:
        """Return the same memberships with the classes numbered anew."""
        return Members(self.rows, position[self.codes], self.weights, self.n_rows)


class LabelIndex:
    """The classes seen so far, numbered in order of appearance, and how to sort them.

    Labels are integers (or whole floats), strings, or booleans; one index holds one kind.
    """

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.dtype: np.dtype[Any] | None = None
        self._codes: dict[Label, int] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def copy(self) -> LabelIndex:
        """Return an independent copy."""
        other = LabelIndex()
        other.labels, other.dtype, other._codes = list(self.labels), self.dtype, dict(self._codes)
        return other

    def encode(self, y: np.ndarray) -> tuple[Integer, list[Label]]:
        """Return the number of each label, and the labels not seen before in the order of their numbers.

        The index itself does not change: call `add` with the new labels once the rows have been accepted.
        """
        kind = y.dtype.kind
        low, high = (int(y.min()), int(y.max())) if kind in "iub" and len(y) > 1 else (0, 2**63)
        if high < min(low + 4 * len(y) + 1024, 2**63):
            shifted = y.astype(np.int64) - low
            present = np.flatnonzero(np.bincount(shifted))
            values = (present + low).astype(bool).tolist() if kind == "b" else (present + low).tolist()
            table = np.empty(int(present[-1]) + 1, dtype=np.int64)
            numbers_, new = self._number(values)
            table[present] = numbers_
            return table[shifted], new
        codes, new = self._number(y.tolist())
        return np.asarray(codes, dtype=np.int64), new

    @property
    def position(self) -> Integer:
        """Return where each class stands among the sorted labels."""
        place = np.empty(len(self.labels), dtype=np.int64)
        place[self.order] = np.arange(len(self.labels))
        return place

    def _number(self, values: Iterable[Label]) -> tuple[list[int], list[Label]]:
        known = self._codes
        fresh: dict[Label, int] = {}
        new: list[Label] = []
        codes = []
        for value in values:
            code = known.get(value)
            if code is None:
                code = fresh.get(value)
                if code is None:
                    code = fresh[value] = len(self.labels) + len(new)
                    new.append(value)
            codes.append(code)
        return codes, new

    def add(self, new: Sequence[Label], dtype: np.dtype[Any]) -> None:
        """Give numbers to new labels, which `check` has accepted."""
        for label in new:
            self._codes[label] = len(self.labels)
            self.labels.append(label)
        self._note(dtype)

    def remove(self, gone: Integer) -> Integer:
        """Take classes out by their numbers; return the new number of each class before, −1 for those taken out."""
        kept = np.ones(len(self.labels), dtype=bool)
        kept[gone] = False
        self.labels = [label for label, stays in zip(self.labels, kept, strict=True) if stays]
        self._codes = {label: code for code, label in enumerate(self.labels)}
        if not self.labels:
            self.dtype = None
        return np.where(kept, np.cumsum(kept) - 1, -1)

    def check(self, new: Sequence[Label]) -> None:
        """Refuse a value that is not a label, and a label of another kind than those already here."""
        for label in new:
            kind, example = _kind(label), (self.labels or new)[0]
            if kind != _kind(example):
                raise ValueError(
                    f"y contains the label {label!r}, a {kind}, beside labels such as {example!r}, a {_kind(example)}. "
                    "Use one kind of label throughout the stream."
                )

    def _note(self, dtype: np.dtype[Any]) -> None:
        if dtype.kind in "UST":
            dtype = np.dtype("U")
        if self.dtype is None or self.dtype == dtype:
            self.dtype = dtype
        elif "O" in (self.dtype.kind, dtype.kind):
            self.dtype = np.dtype(object)
        else:
            self.dtype = np.result_type(self.dtype, dtype)

    @property
    def order(self) -> Integer:
        """Return the numbers of the classes in the sorted order of their labels."""
        return np.asarray(sorted(range(len(self.labels)), key=self.labels.__getitem__), dtype=np.int64)

    @property
    def sorted(self) -> np.ndarray:
        """Return the labels, sorted, in the dtype they came in."""
        return np.array(sorted(self.labels), dtype=self.dtype)


def _kind(label: object) -> str:
    if isinstance(label, (bool, np.bool_)):
        return "boolean"
    if isinstance(label, numbers.Real):
        if not math.isfinite(label):
            raise ValueError(f"y contains the missing label {label!r}. Drop the rows that have no label.")
        return "number"
    if isinstance(label, str):
        return "string"
    raise ValueError(
        f"y contains {label!r} of type {type(label).__name__}; a label is an integer, a string or a boolean. "
        "Drop the rows that have no label."
    )


def check_labels(index: LabelIndex, y: Any, n_rows: int) -> tuple[np.ndarray, Integer, list[Label]]:
    """Check a one-dimensional target and number its labels; the index is unchanged."""
    y = np.asarray(admit(y, "y"))
    if y.shape != (n_rows,):
        raise ValueError(
            f"y has shape {y.shape}, but X has {n_rows} rows: y needs one label a row, or an indicator matrix "
            "of shape (rows, labels) for several labels a row."
        )
    if y.dtype.kind not in "biufUSTO":
        raise ValueError(f"y has dtype {y.dtype}; labels are integers, strings or booleans.")
    if y.dtype.kind == "S":
        y = y.astype("U")
    codes, new = index.encode(y)
    index.check(new)
    return y, codes, new


def is_indicator(y: Any) -> bool:
    """Tell whether y has the form of a label indicator matrix: sparse, or with two columns or more."""
    return sparse.issparse(y) or (getattr(y, "ndim", 1) == 2 and y.shape[1] > 1)


def check_indicator(y: Any, n_rows: int) -> sparse.csr_array:
    """Check a binary indicator matrix, dense or sparse, and return it as CSR without stored zeros."""
    matrix = sparse.csr_array(admit(y, "y"))
    if matrix.shape[0] != n_rows:
        raise ValueError(f"y has {matrix.shape[0]} rows, but X has {n_rows}.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.nnz and not np.all(matrix.data == 1):
        bad = matrix.data[matrix.data != 1][0]
        raise ValueError(
            f"y has {matrix.shape[1]} columns and the entry {bad!r}: a multi-label target is a matrix of 0 and 1. "
            "For one label a row pass a one-dimensional y."
        )
    return matrix


def members_of(codes: Integer, weights: Float) -> Members:
    """Return the memberships of rows that have one label each; rows of weight 0 are absent."""
    if weights.all():
        return Members(np.arange(len(codes)), codes, weights, len(codes))
    rows = np.flatnonzero(weights)
    return Members(rows, codes[rows], weights[rows], len(codes))


def memberships_of(matrix: sparse.csr_array, weights: Float) -> Members:
    """Return the memberships of an indicator matrix: a row counts once for each of its labels."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    codes = matrix.indices.astype(np.int64)
    kept = weights[rows] > 0
    return Members(rows[kept], codes[kept], weights[rows[kept]], matrix.shape[0])


def labels_state(labels: np.ndarray) -> dict[str, Any]:
    """Return an array of labels as a state.

    Parameters
    ----------
    labels : array of shape (n,)
        Booleans, numbers or strings, of any dtype that holds them.

    Returns
    -------
    dict
        What `labels_from` takes.
    """
    return {"values": to_lines(_known(labels.tolist(), labels.dtype)), "dtype": labels.dtype.str}


def labels_from(contents: Contents) -> np.ndarray:
    """Return the labels that `labels_state` has written.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.

    Returns
    -------
    array of shape (n,)
        The labels.
    """
    values, dtype = contents.lines("values"), contents.dtype("dtype")
    contents.finish()
    try:
        labels = np.array(values, dtype=dtype)
    except (ValueError, OverflowError) as error:
        contents.refuse(f"the labels are not of dtype {dtype} ({error})")
    if labels.tolist() != values or len({isinstance(value, str) for value in values}) > 1:
        contents.refuse(f"the labels are not of dtype {dtype}")
    return labels


def index_state(index: LabelIndex) -> dict[str, Any]:
    """Return the classes seen so far as a state.

    Parameters
    ----------
    index : LabelIndex
        The classes.

    Returns
    -------
    dict
        What `index_from` takes.
    """
    dtype = index.dtype
    return {
        "values": to_lines([] if dtype is None else _known(index.labels, dtype)),
        **({} if dtype is None else {"dtype": dtype.str}),
    }


def index_from(contents: Contents) -> LabelIndex:
    """Return the classes that `index_state` has written.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.

    Returns
    -------
    LabelIndex
        The classes, numbered as they were.
    """
    index, values = LabelIndex(), contents.lines("values")
    dtype = contents.dtype("dtype") if "dtype" in contents else None
    contents.finish()
    if len(set(values)) < len(values):
        contents.refuse("a label appears twice")
    if dtype is None:
        if values:
            contents.refuse("there are labels without a dtype")
        return index
    try:
        index.check(values)
        index.add(values, dtype)
        fits = index.sorted.tolist() == sorted(values) and (dtype.kind in "UO") >= isinstance(
            next(iter(values), 0), str
        )
    except (ValueError, OverflowError) as error:
        contents.refuse(f"the labels are not valid ({error})")
    if not fits:
        contents.refuse(f"the labels are not of dtype {dtype}")
    return index


def _known(values: list[Any], dtype: np.dtype[Any]) -> list[Any]:
    plain = dtype.kind in "biufUO" and dtype.itemsize <= (2**18 if dtype.kind == "U" else 8)
    if not plain or any(type(value) not in (bool, int, float, str) for value in values):
        raise CheckpointError(
            f"labels of dtype {dtype}, such as {values[0] if values else None!r}, cannot be saved: a checkpoint holds "
            "labels that are integers, strings or booleans. Convert them before the fit."
        )
    return values
