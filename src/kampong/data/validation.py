"""Rows, weights and parameters: checked when they come in, with messages.

All rows pass `admit`: compiled loops, which check nothing themselves, read only what has passed it. Sparse rows come
out as CSR with every index in range, sorted and without duplicates; the caller's arrays stay as they are. The cost is
one pass over the indices. Arrays whose values mean something else than they hold are refused.
"""

from __future__ import annotations

import math
import numbers
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from kampong._core.compute import compiled, float_type, run, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kampong._core.compute import Float, Integer, Rows

REALS = (np.float32, np.float64)

LARGEST = 1e150
"""Rows with an entry of this magnitude are not learnt: the squares of class means would overflow."""

LARGEST_ENTRY = 1e155
"""Rows with larger entries are never learnt: their squares overflow."""

LEAST_MAGNITUDE = 1e-145
"""Where all rows are smaller, their squares lose digits or vanish."""

LEAST_WEIGHT, MOST_WEIGHT = 1e-145, 1e145
"""Positive weights outside are refused: sums of their squares vanish or overflow."""


MARK = "_kampong_admitted"
"""Set on the matrices made here, which nobody else holds, so that they are checked once."""

LONG = 2**20
"""Above this many entries the pass runs on all cores."""

NONE = np.int32(0)
CHUNK = 8192
"""This many indices stay in the cache between two loops over them."""


def check_weights(sample_weight: Any, n_rows: int) -> Float:
    """Return the weights as float64, one per row, finite and not negative."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, numbers.Real):
        weights = np.full(n_rows, float(sample_weight))
    else:
        given = np.asarray(admit(sample_weight, "sample_weight"))
        if given.dtype.kind not in "biufO":
            raise ValueError(f"sample_weight has dtype {given.dtype}; weights are real numbers, one per row.")
        with _in_range("sample_weight"):
            weights = given.astype(np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}, but X has {n_rows} rows: give one weight per row.")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity. Give finite weights; 0 leaves a row out.")
    if n_rows and weights.min() < 0:
        raise ValueError(
            f"sample_weight contains the negative weight {weights.min():g}. Weights are counts: give numbers ≥ 0; "
            "0 leaves a row out."
        )
    positive = weights[weights > 0]
    if len(positive) and (positive.min() < LEAST_WEIGHT or positive.max() > MOST_WEIGHT):
        raise ValueError(
            f"sample_weight holds weights from {positive.min():g} to {positive.max():g}; positive weights must lie in "
            f"[{LEAST_WEIGHT:g}, {MOST_WEIGHT:g}]. Multiply them by a constant; 0 leaves a row out."
        )
    return weights


def check_rows(X: Any, n_features: int, *, compact: bool = False) -> Rows:
    """Return X as a dense float array or a CSR matrix of the expected width; NaN and infinity are checked later.

    With `compact`, dense whole numbers and halves stay as they are, for statistics that convert them block by block.
    """
    rows: Any = X if type(X) is np.ndarray and X.dtype in REALS else admit(X)
    rows = rows if sparse.issparse(rows) else np.asarray(rows)
    if rows.dtype.kind == "c":
        raise ValueError(f"X has dtype {rows.dtype}; complex numbers are not supported. Give real features.")
    if rows.dtype not in REALS and not (compact and _is_compact(rows)):
        with _in_range("X"):
            rows = rows.astype(np.float64)
    if rows.ndim != 2:
        raise ValueError(f"X has {rows.ndim} dimension(s); it needs 2. Use X.reshape(1, -1) for a single row.")
    if rows.shape[1] != n_features:
        raise ValueError(f"X has {rows.shape[1]} features, but {n_features} features are expected.")
    checked: Rows = rows
    return checked


@contextmanager
def _in_range(name: str) -> Iterator[None]:
    """Say what holds a whole number that no float can."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(f"{name} holds a number past the range of floats ({error}).") from None


@contextmanager
def _missing_explained(name: str) -> Iterator[None]:
    """Say what to do about missing values, in place of what scikit-learn says of its own estimators."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Input X contains NaN"):
            raise
        text = (
            "Input X contains NaN.\n"
            f"{name} does not learn or predict rows with missing values. Fill them in first, for instance with "
            f"sklearn.pipeline.make_pipeline(SimpleImputer(add_indicator=True), {name}()): the means of the columns, "
            "and a further column that is 1 where a number was missing, as `kampong learn` does."
        )
        raise ValueError(text) from None


@contextmanager
def _text_explained(name: str, X: Any) -> Iterator[None]:
    """Say which columns hold text, and what to do about it."""
    try:
        yield
    except ValueError as error:
        texts = _text_columns(X) if "convert string to float" in str(error) else []
        if not texts:
            raise
        shown = ", ".join(f"{column!r} ({value!r:.40})" for column, value in texts[:5])
        more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
        raise ValueError(
            f"{name}: X holds text in column {shown}{more} ({error}). {name} needs numbers: encode such columns, for "
            "instance with sklearn.preprocessing.OneHotEncoder in a ColumnTransformer, or learn the file with `kampong "
            "learn`, which encodes them itself."
        ) from None


def _text_columns(X: Any) -> list[tuple[Any, str]]:
    """Return the columns of a table or array with a text that is no number, each with its first such text."""
    names = getattr(X, "columns", None)
    cells = np.asarray(X, dtype=object)
    if cells.ndim != 2:
        return []
    found = []
    for name, column in zip(range(cells.shape[1]) if names is None else names, cells.T, strict=True):
        text = next((cell for cell in column if isinstance(cell, str) and not _is_number(cell)), None)
        if text is not None:
            found.append((name, text))
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_finite(X: Rows, name: str) -> None:
    """Refuse rows with NaN or infinity."""
    if isinstance(X, np.ndarray) and X.size <= 4096 and X.dtype.kind == "f" and np.isfinite(X).all():
        return  # scikit-learn's check costs more than to learn a row
    with _missing_explained(name):
        assert_all_finite(X, estimator_name=name, input_name="X")


def check_squarable(X: Rows, name: str) -> None:
    """Refuse rows with NaN or infinity, or with numbers too large to square."""
    check_finite(X, name)
    if largest_magnitude(X) >= LARGEST:
        raise_not_finite(X, name, np.ones(1))


def largest_magnitude(X: Rows) -> float:
    """Return the largest magnitude of an entry, 0 where there is none."""
    values = X if isinstance(X, np.ndarray) else X.data
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def raise_not_finite(X: Rows, name: str, weights: Float) -> NoReturn:
    """Say why sums over X cannot be kept: NaN, infinity, numbers too large to square, or too large a weight."""
    with _missing_explained(name):
        assert_all_finite(X, estimator_name=name, input_name="X")
    largest = largest_magnitude(X)
    if largest >= LARGEST:
        raise ValueError(
            f"{name}: the squares of X overflow (largest magnitude {largest:.3g}, which must stay below about 1e150). "
            "Scale the features, for instance with sklearn.preprocessing.StandardScaler."
        )
    raise ValueError(
        f"{name}: the weighted squares of X overflow (largest magnitude {largest:.3g}, largest weight "
        f"{weights.max(initial=0.0):.3g}): with those learnt before, their sum must stay below 1e300. Scale the "
        "features, for instance with sklearn.preprocessing.StandardScaler, or multiply the weights by a constant."
    )


def refuse_vanishing(owner: str, largest: float) -> None:
    """Refuse rows that are not zero and whose squares are, by the largest magnitude of a mean or an entry."""
    if 0.0 < largest < LEAST_MAGNITUDE:
        raise ValueError(
            f"{owner}: the squares of X vanish (largest magnitude about {largest:.3g}, which must be above about "
            f"{LEAST_MAGNITUDE:g}). Scale the features, for instance with sklearn.preprocessing.StandardScaler."
        )


def refuse_overflow(owner: str, answers: Float) -> Float:
    """Return answers to rows; refuse rows whose answers are not numbers, or that are infinitely far from each class."""
    if np.isfinite(answers).all():
        return answers
    lost = answers.ndim == 2 and bool(np.isneginf(answers).all(axis=1).any())  # a class not seen yet has -inf by itself
    if lost or np.isnan(answers).any():
        raise ValueError(
            f"{owner}: the answers for these rows overflow. Are they in the units of the rows that were learnt? Scale "
            "both in the same way, for instance with sklearn.preprocessing.StandardScaler."
        )
    return answers


def in_dtype_of(rows: Rows, answers: Float) -> Float:
    """Return answers to rows in the floats of the rows; those past float32 become infinite."""
    with np.errstate(over="ignore"):
        return answers.astype(float_type(rows), copy=False)


def logs_in_dtype_of(rows: Rows, logs: Float) -> Float:
    """Return log-probabilities in the dtype of the rows; in float32 they agree with the rounded probabilities."""
    if float_type(rows) == np.float64:
        return logs
    rounded = in_dtype_of(rows, np.exp(logs))
    return np.where(rounded > 0.5, np.log(np.maximum(rounded, rounded.dtype.type(0.5))), in_dtype_of(rows, logs))


def refuse_mixed_labels(y: Any) -> None:
    """Refuse missing labels, objects that are no labels, and labels of several kinds, which cannot even be sorted."""
    if hasattr(y, "isna") and np.ndim(y) == 1 and (missing := np.flatnonzero(y.isna())).size:
        raise ValueError(f"y has no label in {missing.size:,} rows, first in row {missing[0]}. Drop these rows.")
    if getattr(getattr(y, "dtype", None), "kind", "") != "O":
        return
    refuse_other_kinds(list({type(label): label for label in np.asarray(y, dtype=object).ravel().tolist()}.values()))


def refuse_other_kinds(labels: Sequence[Any], known: Sequence[Any] = ()) -> None:
    """Refuse what is no label, and labels of another kind than the first of those known, or of themselves."""
    for label in labels:
        kind, first = _kind_of_label(label), _kind_of_label((known or labels)[0])
        if kind != first:
            step = "throughout the stream." if known else "for instance strings: y.astype(str)."
            raise ValueError(
                f"y contains the label {label!r}, a {kind}, next to labels such as {(known or labels)[0]!r}, a {first}."
                f" Use one kind of label{' ' if known else ', '}{step}"
            )


def _kind_of_label(label: object) -> str:
    """Return what kind of label this is, or refuse it."""
    if isinstance(label, (bool, np.bool_)):
        return "boolean"
    if isinstance(label, int | float | np.integer | np.floating):
        if not math.isfinite(label):
            raise ValueError(f"y contains the missing label {label!r}. Drop the rows that have no label.")
        return "number"
    if isinstance(label, str):
        return "string"
    raise ValueError(
        f"y contains {label!r} of type {type(label).__name__}; a label is an integer, a string or a boolean. "
        "Drop the rows that have no label."
    )


def validated(estimator: Any, X: Any, *y: Any, compact: bool = False, **asked: Any) -> Any:
    """Return rows, and labels where they are given, through the gate and scikit-learn's checks.

    With `compact`, dense whole numbers and halves stay as they are, for estimators that convert them block by block.
    """
    rows = admit(X)
    compact = compact and _is_compact(rows)
    if not compact and isinstance(rows, np.ndarray) and rows.dtype == np.float16:
        rows = rows.astype(np.float32)  # as embeddings are kept; float32 holds them exactly
    given = (rows, *(admit(labels, "y") for labels in y))
    name = type(estimator).__name__
    for labels in given[1:]:
        refuse_mixed_labels(labels)
    with _in_range(f"{name}: X"), _missing_explained(name), _text_explained(name, rows):
        dtype = None if compact else list(REALS[::-1])
        found = validate_data(estimator, *given, accept_sparse="csr", dtype=dtype, **asked)
    rows = found[0] if y else found
    rows = rows if isinstance(rows, np.ndarray) else admit(rows)  # sparse ones may be a new matrix
    return (rows, found[1]) if y else rows


def _is_compact(rows: Any) -> bool:
    """Tell whether rows are dense whole numbers or halves, which take less memory than their floats."""
    return isinstance(rows, np.ndarray) and (rows.dtype.kind in "biu" or rows.dtype == np.float16)


def check_points(X: Any) -> Float:
    """Return coordinates as a dense float array of two axes."""
    with _in_range("X"):
        points: Float = check_array(admit(X), dtype=[np.float64, np.float32])
    return points


def is_indicator(y: Any) -> bool:
    """Tell whether y has the form of a label indicator matrix: sparse, or with two columns or more."""
    return sparse.issparse(y) or (getattr(y, "ndim", 1) == 2 and y.shape[1] > 1)


def validate_batch(estimator: Any, X: Any, y: Any, *, reset: bool, compact: bool = False) -> tuple[Rows, Any]:
    """Validate rows and labels as scikit-learn does; NaN and infinity are checked later, in the pass that reads X.

    A later batch of a stream that is plainly right (float array or CSR array of known width, whole numbers or texts as
    labels) skips scikit-learn's checks, which cost more than learning a row; CSR arrays still pass the gate.
    """
    if (
        not reset
        and type(X) in (np.ndarray, sparse.csr_array)
        and type(y) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and y.ndim == 1
        and X.shape[1] == estimator.n_features_in_
        and X.shape[0] == len(y) > 0
        and y.dtype.kind in "iubU"
        and not hasattr(estimator, "feature_names_in_")
    ):
        return admit(X), y
    if isinstance(y, (list, tuple)) and len(y) and isinstance(y[0], (list, tuple, np.ndarray)):
        y = np.asarray(y)
    indicator = is_indicator(y)
    asked = {"reset": reset, "ensure_all_finite": False, "multi_output": indicator}
    X, y = validated(estimator, X, y, compact=compact, **asked)
    if not indicator:
        y = column_or_1d(y, warn=True)
        if y.dtype.kind not in "iub":  # integers are classes; to count them costs more than to learn them
            check_classification_targets(y)
    return X, y


def validate_rows(estimator: Any, X: Any, *, compact: bool = False) -> Rows:
    """Validate rows to transform or predict.

    A float array of the known width that is finite skips scikit-learn's checks, which cost more than to predict a row.
    """
    if (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.ndim == 2
        and len(X)
        and X.shape[1] == getattr(estimator, "n_features_in_", -1)
        and not hasattr(estimator, "feature_names_in_")
    ):
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(X.sum()):  # if not, a sum may be too large, or an entry is not finite
                plain: Rows = admit(X)
                return plain
    rows: Rows = validated(estimator, X, reset=False, compact=compact)
    return rows


# Parameters of estimators.


def check_number(owner: str, name: str, value: Any, *, low: float, high: float, next_step: str) -> float:
    """Return a real parameter within [low, high], or say what it must be."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real) or not low <= float(value) <= high:
        bound = f"≥ {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{owner}: {name} must be a number {bound}, got {value!r}. {next_step}")
    return float(value)


def check_whole(owner: str, name: str, value: Any, *, low: int, high: int, next_step: str) -> int:
    """Return a whole parameter within [low, high], or say what it must be."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not low <= int(value) <= high:
        raise ValueError(f"{owner}: {name} must be an integer of at least {low}, got {value!r}. {next_step}")
    return int(value)


def check_choice(owner: str, name: str, value: Any, choices: Sequence[str]) -> str:
    """Return a parameter that is one of a few words, or list them."""
    if value not in choices:
        raise ValueError(f"{owner}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return str(value)


def check_seed(owner: str, random_state: Any, *, high: int = 2**64 - 1) -> None:
    """Refuse a random_state that is not a whole number, a RandomState or None."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return
    step = f"Give a seed of at most {high}, a numpy.random.RandomState, or None to have a seed drawn."
    check_whole(owner, "random_state", random_state, low=0, high=high, next_step=step)


def check_switches(owner: str, model: Any) -> None:
    """Refuse a `warm_start` that is neither True nor False, and a `verbose` that is no whole number ≥ 0."""
    if not isinstance(model.warm_start, bool | np.bool_):
        raise ValueError(f"{owner}: warm_start must be True or False, got {model.warm_start!r:.100}.")
    if not isinstance(model.verbose, bool | np.bool_):
        check_whole(owner, "verbose", model.verbose, low=0, high=2**31, next_step="0 prints nothing, 1 the progress.")


# The gate for rows.


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
