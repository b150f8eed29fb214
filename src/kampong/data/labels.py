"""Labels: the classes seen so far, the classes of each row, and how both are saved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong.data.validation import admit, refuse_other_kinds
from kampong.data.validation import is_indicator as is_indicator
from kampong.files.contents import to_lines
from kampong.files.model_errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents

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
        """Return the same memberships with the classes numbered again."""
        return Members(self.rows, position[self.codes], self.weights, self.n_rows)


SPARE_BYTES, SPARE = 2**24, 64
"""The most that labels may take as an array of one width: 16 MiB, or this many times the bytes of their characters."""


class LabelIndex:
    """The classes seen so far, numbered in order of appearance, and how to sort them.

    Labels are integers (or whole floats), strings, or booleans; one index holds one kind. Numbers of several dtypes are
    compared exactly, and refused if no dtype of numpy holds all of them: `sorted` never holds two equal labels.
    """

    def __init__(self) -> None:
        self.labels: list[Label] = []
        self.dtype: np.dtype[Any] | None = None
        self._codes: dict[Label, int] = {}
        self._longest = self._letters = 0  # of strings: the characters of the longest, and of all

    def __len__(self) -> int:
        return len(self.labels)

    def copy(self) -> LabelIndex:
        """Return an independent copy."""
        other = LabelIndex()
        other.labels, other.dtype, other._codes = list(self.labels), self.dtype, dict(self._codes)
        other._longest, other._letters = self._longest, self._letters
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
        values = y.tolist()
        if kind == "O":
            values = [value.item() if isinstance(value, np.generic) else value for value in values]
        codes, new = self._number(values)
        return np.asarray(codes, dtype=np.int64), new

    @property
    def position(self) -> Integer:
        """Return where each class stands among the sorted labels."""
        place = np.empty(len(self.labels), dtype=np.int64)
        place[self.order] = np.arange(len(self.labels))
        return place

    def _number(self, values: Sequence[Any]) -> tuple[list[int], list[Label]]:
        known = self._codes
        found = [known.get(value, -1) for value in values]
        if -1 not in found:
            return found, []
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
            vars(self).pop("order", None)
            if isinstance(label, str):
                self._longest, self._letters = max(self._longest, len(label)), self._letters + len(label)
        self.dtype = self._joined(dtype)

    def remove(self, gone: Integer) -> Integer:
        """Take classes out by their numbers; return the new number of each class before, −1 for those taken out."""
        kept = np.ones(len(self.labels), dtype=bool)
        kept[gone] = False
        self.labels = [label for label, stays in zip(self.labels, kept, strict=True) if stays]
        vars(self).pop("order", None)
        self._codes = {label: code for code, label in enumerate(self.labels)}
        lengths = [len(label) for label in self.labels if isinstance(label, str)]
        self._longest, self._letters = max(lengths, default=0), sum(lengths)
        if not self.labels:
            self.dtype = None
        return np.where(kept, np.cumsum(kept) - 1, -1)

    def check(self, new: Sequence[Label], y: np.ndarray) -> None:
        """Refuse values that are not labels, and labels that cannot stand beside those already here.

        Parameters
        ----------
        new : sequence of label
            The labels of `y` that are not here yet.
        y : array
            All labels of the batch: True is not new beside 1, and is of another kind.
        """
        kinds = {type(label): label for label in y.tolist()} if y.dtype.kind == "O" else {}
        refuse_other_kinds([*new, *kinds.values(), *y[:1].tolist()], self.labels)
        joined = self._joined(y.dtype)
        if joined.kind == "U":
            self._check_strings(new)
        elif joined.kind != "O":
            wanted = list(new) if joined == self.dtype else [*self.labels, *new]
            lost = _not_held(wanted, joined)
            if lost is not None:
                before = "" if self.dtype is None else f" beside labels of dtype {self.dtype}"
                raise ValueError(
                    f"y has labels of dtype {y.dtype}{before}: the label {lost!r} cannot be compared exactly, because "
                    f"{joined} does not hold it. Use one integer dtype throughout, or strings."
                )

    def _check_strings(self, new: Sequence[Any]) -> None:
        """Refuse strings that an array of one width cannot hold, or only with a multiple of their memory."""
        if any(label[-1:] == "\0" for label in new):
            raise ValueError("y contains a label that ends in a zero character, which numpy drops. Rename the class.")
        lengths = [len(label) for label in new]
        longest, count = max(self._longest, *lengths, 0), len(self.labels) + len(new)
        if new and too_wide(longest, count, self._letters + sum(lengths)):
            raise ValueError(
                f"y has {count} classes, and one label of {longest:,} characters: as strings of one width they would "
                f"take {4 * longest * count:,} bytes. Use shorter labels."
            )

    def _joined(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the labels here and of others together."""
        if dtype.kind in "UST":
            dtype = np.dtype("U")
        if self.dtype is None or self.dtype == dtype:
            return dtype
        return np.dtype(object) if "O" in (self.dtype.kind, dtype.kind) else np.result_type(self.dtype, dtype)

    @cached_property
    def order(self) -> Integer:
        """The numbers of the classes in the sorted order of their labels, not to be written to."""
        order = np.asarray(sorted(range(len(self.labels)), key=self.labels.__getitem__), dtype=np.int64)
        order.flags.writeable = False
        return order

    @property
    def sorted(self) -> np.ndarray:
        """Return the labels, sorted, in the dtype they came in."""
        return np.array(sorted(self.labels), dtype=self.dtype)


def _not_held(labels: list[Label], dtype: np.dtype[Any]) -> Label | None:
    """Return a number or boolean that a dtype cannot hold exactly, None where it holds all."""
    try:
        held = np.array(labels, dtype=dtype).tolist()
    except OverflowError:
        return max(labels, key=lambda label: abs(float(label)))
    return next((label for label, found in zip(labels, held, strict=True) if label != found), None)


def too_wide(width: int, count: int, letters: int) -> bool:
    """Tell whether strings take far more memory in an array of one width than their own characters do."""
    return 4 * width * count > max(SPARE_BYTES, SPARE * letters)


def check_labels(index: LabelIndex, y: Any, n_rows: int) -> tuple[np.ndarray, Integer, list[Label]]:
    """Check a one-dimensional target and number its labels; the index is unchanged."""
    y = y if type(y) is np.ndarray and y.dtype.kind in "biufU" else np.asarray(admit(y, "y"))
    if y.shape != (n_rows,):
        raise ValueError(
            f"y has shape {y.shape}, but X has {n_rows} rows: y needs one label per row, or an indicator matrix "
            "of shape (rows, labels) for several labels per row."
        )
    if y.dtype.kind not in "biufUSTO":
        raise ValueError(f"y has dtype {y.dtype}; labels are integers, strings or booleans.")
    if y.dtype.kind == "S":
        y = y.astype("U")
    if y.dtype.kind == "f" and y.dtype.itemsize > 8:  # numbers that no file holds
        plain = y.astype(np.float64)
        if not np.array_equal(plain, y, equal_nan=True):
            raise ValueError(f"y has dtype {y.dtype} and labels that float64 does not hold. Use integers or strings.")
        y = plain
    codes, new = index.encode(y)
    index.check(new, y)
    return y, codes, new


def codes_among(classes: np.ndarray, y: np.ndarray) -> Integer:
    """Return the place of each label among the classes, −1 where it is none of them; compared exactly."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    values, inverse = np.unique(y, return_inverse=True)
    found = np.array([places.get(value, -1) for value in values.tolist()], dtype=np.int64)
    return np.asarray(found[inverse.reshape(-1)])


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
            "For one label per row pass a one-dimensional y."
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
    """
    if labels.dtype.kind == "U" and too_wide(labels.itemsize // 4, len(labels), sum(map(len, labels.tolist()))):
        labels = np.array(labels.tolist())  # as wide as the longest
    return {"values": to_lines(_known(labels.tolist(), labels.dtype)), "dtype": labels.dtype.str}


def labels_from(contents: Contents) -> np.ndarray:
    """Return the labels that `labels_state` has written."""
    values, dtype = contents.lines("values"), contents.dtype("dtype")
    contents.finish()
    try:
        if dtype.kind == "U":
            lengths = [len(str(value)) for value in values]
            width = max(dtype.itemsize // 4, *lengths, 0)
            contents.require(not too_wide(width, len(values), sum(lengths)), f"strings of {width} characters each")
        labels = np.array(values, dtype=dtype)
    except (ValueError, OverflowError) as error:
        contents.refuse(f"the labels are not of dtype {dtype} ({error})")
    if labels.tolist() != values or len({isinstance(value, str) for value in values}) > 1:
        contents.refuse(f"the labels are not of dtype {dtype}")
    return labels


def index_state(index: LabelIndex) -> dict[str, Any]:
    """Return the classes seen so far as a state."""
    dtype = index.dtype
    return {
        "values": to_lines([] if dtype is None else _known(index.labels, dtype)),
        **({} if dtype is None else {"dtype": dtype.str}),
    }


def index_from(contents: Contents) -> LabelIndex:
    """Return the classes that `index_state` has written."""
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
        given = np.empty(len(values), dtype=object)
        given[:] = values
        index.check(values, given)
        if dtype.kind == "U":
            index._check_strings([str(value) for value in values])
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
