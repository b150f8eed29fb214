"""What comes in: rows, labels, weights and parameters, checked once, with messages that say what to do next."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kampong._linalg import Float, Integer, Rows

Label = bool | int | float | str


@dataclass(frozen=True)
class Members:
    """One entry a membership: which row counts for which class, with what weight (always positive)."""

    rows: Integer
    codes: Integer
    weights: Float
    n_rows: int

    @property
    def weight_by_row(self) -> tuple[Integer, Float]:
        """Return the rows that count at all, each once, and their weights."""
        rows, first = np.unique(self.rows, return_index=True)
        return rows, self.weights[first]

    def without(self, rows: Integer) -> Members:
        """Return the memberships of all rows but these."""
        gone = np.zeros(self.n_rows, dtype=bool)
        gone[rows] = True
        mine = ~gone[self.rows]
        return Members(self.rows[mine], self.codes[mine], self.weights[mine], self.n_rows)

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

        The index itself is unchanged: `add` the new labels once the rows have been accepted.
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

    def check(self, new: Sequence[Label]) -> None:
        """Refuse what is no label, and a kind of label that does not fit those already here."""
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
    y = np.asarray(y)
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
    matrix = sparse.csr_array(y)
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


def check_weights(sample_weight: Any, n_rows: int) -> Float:
    """Return the weights as float64, one a row, finite and not negative."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, numbers.Real):
        weights = np.full(n_rows, float(sample_weight))
    else:
        weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {n_rows} rows: give one weight a row.")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity. Give finite weights; 0 leaves a row out.")
    if n_rows and weights.min() < 0:
        raise ValueError(
            f"sample_weight contains the negative weight {weights.min():g}. Weights are counts: give numbers ≥ 0; "
            "0 leaves a row out."
        )
    return weights


def members_of(codes: Integer, weights: Float) -> Members:
    """Return the memberships of rows that have one label each; rows of weight 0 are absent."""
    if weights.all():
        return Members(np.arange(len(codes)), codes, weights, len(codes))
    rows = np.flatnonzero(weights)
    return Members(rows, codes[rows], weights[rows], len(rows))


def memberships_of(matrix: sparse.csr_array, weights: Float) -> Members:
    """Return the memberships of an indicator matrix: a row counts once for each of its labels."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    codes = matrix.indices.astype(np.int64)
    kept = weights[rows] > 0
    return Members(rows[kept], codes[kept], weights[rows[kept]], int(np.count_nonzero(weights)))


def check_rows(X: Any, n_features: int) -> Rows:
    """Return X as a dense float array or a CSR matrix of the expected width; finiteness is checked by its reader."""
    rows: Any = X
    rows = rows.tocsr() if sparse.issparse(X) else np.asarray(rows)
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    if rows.ndim != 2:
        raise ValueError(f"X has {rows.ndim} dimension(s); it needs 2. Use X.reshape(1, -1) for a single row.")
    if rows.shape[1] != n_features:
        raise ValueError(f"X has {rows.shape[1]} features, but {n_features} features are expected.")
    checked: Rows = rows
    return checked


def check_finite(X: Rows, name: str) -> None:
    """Refuse rows with NaN or infinity."""
    assert_all_finite(X, estimator_name=name, input_name="X")


def raise_not_finite(X: Rows, name: str) -> None:
    """Say why sums over X are not finite: NaN, infinity, or numbers too large to square."""
    assert_all_finite(X, estimator_name=name, input_name="X")
    largest = float(np.abs(X.data if sparse.issparse(X) else X).max())
    raise ValueError(
        f"{name}: the squares of X overflow (largest magnitude {largest:.3g}, which must stay below about 1e150). "
        "Scale the features, for instance with sklearn.preprocessing.StandardScaler."
    )


def validate_batch(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Rows, Any]:
    """Validate rows and labels as scikit-learn does, leaving finiteness of X to the pass that reads it anyway.

    A batch of a running stream that is plainly right (float array, known width, integer labels) skips the ceremony:
    it costs more than learning a row.
    """
    if (
        not reset
        and type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and y.ndim == 1
        and X.shape[1] == estimator.n_features_in_
        and len(X) == len(y) > 0
        and y.dtype.kind in "iub"
        and not hasattr(estimator, "feature_names_in_")
    ):
        return X, y
    if isinstance(y, (list, tuple)) and len(y) and isinstance(y[0], (list, tuple, np.ndarray)):
        y = np.asarray(y)
    indicator = is_indicator(y)
    X, y = validate_data(
        estimator,
        X,
        y,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
        multi_output=indicator,
    )
    if not indicator:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind not in "iub":  # whole numbers are classes; counting them costs more than learning them
            check_classification_targets(y)
    return X, y


def validate_rows(estimator: Any, X: Any) -> Rows:
    """Validate rows to transform or predict."""
    rows: Rows = validate_data(
        estimator, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=True
    )
    return rows


def check_number(owner: str, name: str, value: Any, *, low: float, high: float, next_step: str) -> float:
    """Return a real parameter within [low, high], or say what it must be."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
        bound = f"≥ {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{owner}: {name} must be a number {bound}, got {value!r}. {next_step}")
    return float(value)


def check_choice(owner: str, name: str, value: Any, choices: Sequence[str]) -> str:
    """Return a parameter that is one of a few words, or list them."""
    if value not in choices:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return str(value)
