"""What models are made of, to and from states: labels, rows, kernels and statistics, each checked against the others.

Compiled loops trust their arrays, so nothing gets past here that could lead one of them out of bounds.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from scipy import sparse

from kampong._validation import LabelIndex
from kampong.checkpoint.contents import LARGEST, LARGEST_WIDTH, to_lines
from kampong.checkpoint.file import CheckpointError
from kampong.kernels import NAMES, Kernel
from kampong.reservoir import ClassReservoir, SampledScatter
from kampong.statistics import ClassMeans, ClassScatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._linalg import Float, Rows
    from kampong.checkpoint.contents import Contents

STATISTICS = {kind.__name__: kind for kind in (ClassMeans, ClassScatter, ClassReservoir, SampledScatter)}
SPARSE = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
REALS = (np.float32, np.float64)

FURTHEST = 1e155
"""No class mean is further out: rows whose squares overflow are never learnt."""

T = TypeVar("T")


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


def rows_state(X: Rows) -> dict[str, Any]:
    """Return dense or sparse rows as a state.

    Parameters
    ----------
    X : array or CSR matrix
        The rows.

    Returns
    -------
    dict
        What `rows_from` takes.
    """
    if isinstance(X, np.ndarray):
        return {"form": "dense", "data": X}
    form = next(name for name, kind in SPARSE.items() if isinstance(X, kind))
    return {"form": form, "n_columns": X.shape[1], "data": X.data, "indices": X.indices, "indptr": X.indptr}


def rows_from(contents: Contents, shape: tuple[int, int]) -> Rows:
    """Return the rows that `rows_state` has written.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.
    shape : tuple of int
        The shape that the rows must have.

    Returns
    -------
    array or CSR matrix
        The rows.
    """
    form = contents.word("form", ("dense", *SPARSE))
    if form == "dense":
        rows: Rows = contents.array("data", REALS, shape)
        contents.finish()
        return rows
    contents.whole("n_columns", low=shape[1], high=shape[1])
    data = contents.array("data", REALS, (None,))
    indices = contents.array("indices", (np.int32, np.int64), (len(data),), low=0, high=shape[1] - 1)
    indptr = contents.array("indptr", indices.dtype, (shape[0] + 1,), low=0, high=len(data))
    contents.finish()
    if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        contents.refuse("indptr does not cut the entries into rows")
    found: Rows = SPARSE[form]((data, indices, indptr), shape=shape)
    return found


def record_from(contents: Contents, kind: type[T], **shapes: tuple[int | None, ...]) -> T:
    """Return a dataclass whose `vars` were written as a state.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.
    kind : type
        A dataclass of float64 arrays, numbers, booleans and strings.
    **shapes : tuple
        The shape of each array; infinity may be in it, NaN not.

    Returns
    -------
    object
        An instance of `kind`.
    """
    readers: dict[str, Callable[[str], Any]] = {
        "int": contents.whole,
        "float": contents.number,
        "bool": contents.flag,
        "str": contents.text,
    }
    values: dict[str, Any] = {}
    for field in fields(cast("Any", kind)):
        if field.name in shapes:
            values[field.name] = contents.array(field.name, np.float64, shapes[field.name], finite=False)
        else:
            values[field.name] = readers[str(field.type)](field.name)
    contents.finish()
    return kind(**values)


def kernel_state(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as a state.

    Parameters
    ----------
    kernel : Kernel
        Any kernel but a callable.

    Returns
    -------
    dict
        What `kernel_from` takes.
    """
    if kernel.name not in NAMES:
        raise CheckpointError(
            f"a kernel that is a function ({kernel.function!r}) cannot be saved: a checkpoint holds no code. Use a "
            f"kernel by name ({', '.join(NAMES)}), or kernel='precomputed'."
        )
    arrays = {"centre": kernel.centre, "varying": kernel.varying}
    return {
        "name": kernel.name,
        "gamma": kernel.gamma,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
        **{name: array for name, array in arrays.items() if array is not None},
    }


def kernel_from(contents: Contents, n_features: int) -> Kernel:
    """Return the kernel that `kernel_state` has written.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.
    n_features : int
        The width of its rows.

    Returns
    -------
    Kernel
        The kernel.
    """
    name = contents.word("name", NAMES)
    gamma, degree = contents.number("gamma", low=0.0), contents.number("degree", low=0.0)
    coef0 = contents.number("coef0")
    centre = contents.array("centre", np.float64, (n_features,)) if "centre" in contents else None
    varying = None
    if "varying" in contents:
        varying = contents.array("varying", np.int64, (None,), low=0, high=n_features - 1)
        if (np.diff(varying) <= 0).any():
            contents.refuse("varying is not in order")
    contents.finish()
    return Kernel(name, gamma=gamma, degree=degree, coef0=coef0, centre=centre, varying=varying)


def statistics_state(statistics: ClassMeans) -> dict[str, Any]:
    """Return statistics as a state.

    Parameters
    ----------
    statistics : ClassMeans
        One of the kinds that a stream may keep.

    Returns
    -------
    dict
        What `statistics_from` takes.
    """
    arrays = statistics.to_arrays()
    del arrays["labels"], arrays["label_dtype"]  # the index says them without loss
    return {"kind": type(statistics).__name__, "labels": index_state(statistics._index), **arrays}


def statistics_from(contents: Contents, n_features: int) -> ClassMeans:
    """Return the statistics that `statistics_state` has written.

    Parameters
    ----------
    contents : Contents
        The state, which is used up.
    n_features : int
        The width that they must have.

    Returns
    -------
    ClassMeans
        The statistics, of the kind they were.
    """
    kind = STATISTICS[contents.word("kind", tuple(STATISTICS))]
    index = index_from(contents.part("labels"))
    n_classes = len(index)
    form = contents.array("form", np.int64, (3,), low=-1)
    if form[0] != n_features or n_features > LARGEST_WIDTH or form[1] < 0 or form[2] > 1:
        contents.refuse(f"form is {form.tolist()} for {n_features} features")
    arrays = {
        "form": form,
        "labels": np.array(index.labels, dtype=object),
        "label_dtype": np.array("" if index.dtype is None else index.dtype.str),
        "counts": contents.array("counts", np.float64, (n_classes,), low=0.0),
        "means": contents.array("means", np.float64, (n_classes, n_features), low=-FURTHEST, high=FURTHEST),
        "squares": contents.array("squares", np.float64, (n_classes,), low=0.0),
        "row_weight": contents.array("row_weight", np.float64, (), low=0.0),
        "row_mean": contents.array("row_mean", np.float64, (None,)),
    }
    weighs = form[2] == 1 and arrays["row_weight"] > 0
    if len(arrays["row_mean"]) not in ((n_features,) if weighs else (0, n_features)):
        contents.refuse(f"row_mean has {len(arrays['row_mean'])} entries for {n_features} features")
    if issubclass(kind, ClassScatter):
        arrays["scatter"] = contents.array("scatter", np.float64, (n_features, n_features))
    if issubclass(kind, ClassReservoir):
        arrays |= _sample_from(contents, n_classes, n_features)
    contents.finish()
    return kind.from_arrays(arrays)


def _sample_from(contents: Contents, n_classes: int, n_features: int) -> dict[str, Float]:
    """Return the arrays of a sample of rows."""
    keys = contents.array("sample_keys", np.float64, (None,))
    n = len(keys)
    codes = contents.array("sample_codes", np.int64, (None,), low=0, high=n_classes - 1)
    data = contents.array("sample_data", REALS, (None,))
    index_dtype = np.int32 if n_features < 2**31 else np.int64
    arrays = {
        "sample_keys": keys,
        "sample_codes": codes,
        "sample_data": data,
        "sample_weights": contents.array("sample_weights", np.float64, (n,), low=math.ulp(0.0)),
        "sample_frames": contents.array("sample_frames", np.float64, (n,)),
        "sample_indices": contents.array("sample_indices", index_dtype, (None,), low=0, high=n_features - 1),
        "sample_form": contents.array("sample_form", np.int64, (2,), low=-1, high=LARGEST),
        "sample_seed": contents.array("sample_seed", np.uint64, ()),
        "sample_clock": contents.array("sample_clock", np.float64, (2,), finite=False, low=-1e300),
    }
    for first, count, total in (("first", "count", len(data)), ("label_first", "label_count", len(codes))):
        starts = contents.array(f"sample_{first}", np.int64, (n,), low=0, high=total)
        counts = contents.array(f"sample_{count}", np.int64, (n,), low=0, high=total)
        ends = np.cumsum(counts)
        if not np.array_equal(starts, ends - counts) or (ends[-1] if n else 0) != total:
            contents.refuse(f"sample_{first} and sample_{count} do not cut {total} entries into {n} rows")
        arrays |= {f"sample_{first}": starts, f"sample_{count}": counts}
    budget, form = arrays["sample_form"].tolist()
    is_sparse, counts = form == 1, arrays["sample_count"]
    fits = len(arrays["sample_indices"]) == (len(data) if is_sparse else 0) and budget >= 1 and form <= 1
    if not fits or (form == -1 and n) or (form == 0 and (counts != n_features).any()):
        contents.refuse(f"the sample of {n} rows has the form {form}, which does not fit its entries")
    if not np.isfinite(arrays["sample_clock"][0]) or (np.diff(keys) < 0).any():
        contents.refuse("the clocks of the sample are out of order")
    return arrays
