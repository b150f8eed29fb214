"""Statistics to and from a checkpoint, each array checked against the others.

Compiled loops trust their arrays, so nothing gets past here that could lead one of them out of bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.checkpoint.contents import LARGEST, LARGEST_WIDTH
from kampong.data.labels import index_from, index_state
from kampong.data.rows import REALS
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir, SampledScatter
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float
    from kampong.checkpoint.contents import Contents

STATISTICS = {kind.__name__: kind for kind in (ClassMeans, ClassScatter, ClassReservoir, SampledScatter)}
FURTHEST = 1e155
"""No class mean is further out: rows whose squares overflow are never learnt."""


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
